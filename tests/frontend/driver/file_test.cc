#include "frontend/driver/file.h"

#include "tests/frontend/driver/driver_support.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <iterator>

namespace stator {
namespace {

namespace fs = std::filesystem;

int64_t Entries(const std::string& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(File, a_write_that_cannot_be_leaves_nothing_behind) {
  TempDir dir;
  fs::create_directory(dir / "folder");
  for (const auto& write :
       {std::function([](const std::string& p) { WriteFileAtomically(p, "x"); }),
        std::function([](const std::string& p) { CheckWritable(p); })}) {
    EXPECT_HAS(ErrorOf([&] { write(dir / "folder"); }), "folder: it is a folder");
    EXPECT_HAS(ErrorOf([&] { write(dir / "no/file"); }), "no/file: No such file or directory");
    EXPECT_EQ(ErrorOf([&] { write("/dev/null"); }),
              "cannot write /dev/null: it is not a regular file");
    EXPECT_EQ(Entries(dir.path()), 1);
  }
  struct stat info;
  ASSERT_EQ(stat("/dev/null", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
}

TEST(File, a_check_changes_nothing_and_a_write_follows_links) {
  TempDir dir;
  CheckWritable(dir / "new");
  EXPECT_EQ(Entries(dir.path()), 0);
  WriteFileAtomically(dir / "file", "old");
  fs::create_symlink("file", dir / "link");
  CheckWritable(dir / "link");
  WriteFileAtomically(dir / "link", "new");
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  const std::vector<char> bytes = ReadFile(dir / "file");
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "new");
  EXPECT_EQ(Entries(dir.path()), 2);
}

TEST(File, a_fifo_is_refused_without_waiting_for_a_writer) {
  TempDir dir;
  ASSERT_EQ(mkfifo((dir / "fifo").c_str(), 0600), 0);
  EXPECT_HAS(ErrorOf([&] { ReadFile(dir / "fifo"); }), "fifo is not a regular file");
}

TEST(File, a_directory_is_locked_once_at_a_time) {
  TempDir dir;
  {
    const DirectoryLock lock(dir.path());
    EXPECT_HAS(ErrorOf([&] { DirectoryLock another(dir.path()); }), "another run writes to ");
  }
  const DirectoryLock again(dir.path());
}

}  // namespace
}  // namespace stator
