// The tuning file; needs no GPU.
#if STATOR_WITH_CUDA
#include "runtime/cuda/tuning.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace stator {
namespace {

std::string FreshPath() {
  const auto dir = std::filesystem::temp_directory_path() / "stator_tuning_test";
  std::filesystem::remove_all(dir);
  return (dir / "tuning.json").string();
}

TunedChoice Choice(uint64_t first) {
  TunedChoice choice;
  choice.algorithm = {first, ~uint64_t{0}};  // all 64 bits come back
  choice.milliseconds = 0.25;
  return choice;
}

TEST(Tuning, keeps_scopes_apart_and_every_bit) {
  const std::string path = FreshPath();
  TuningFile one(path, "gpu one"), two(path, "gpu two");
  one.Put("problem", Choice(1));
  one.Save();
  two.Put("problem", Choice(2));
  two.Save();
  EXPECT_EQ(TuningFile(path, "gpu one").Find("problem")->algorithm, Choice(1).algorithm);
  EXPECT_EQ(TuningFile(path, "gpu two").Find("problem")->algorithm, Choice(2).algorithm);
  EXPECT_FALSE(TuningFile(path, "gpu two").Find("another"));
  std::filesystem::remove_all(std::filesystem::path(path).parent_path());
}

// What another process has found while this one waited is taken over.
TEST(Tuning, the_first_choice_stays) {
  const std::string path = FreshPath();
  TuningFile late(path, "gpu");
  {
    TuningFile early(path, "gpu");
    early.Lock();
    early.Put("problem", Choice(1));
    early.Save();
  }
  EXPECT_FALSE(late.Find("problem"));
  late.Lock();
  ASSERT_TRUE(late.Find("problem"));
  EXPECT_EQ(late.Find("problem")->algorithm, Choice(1).algorithm);
  std::filesystem::remove_all(std::filesystem::path(path).parent_path());
}

TEST(Tuning, recorded_tables_are_sound) {
  EXPECT_FALSE(FindRecorded("a device nobody has", "problem"));
  EXPECT_FALSE(FindRecorded("", "no such problem"));
}

}  // namespace
}  // namespace stator
#endif
