// README.md and docs/*.md are tests: their commands are run and must print what the page shows, and
// their C++ must stand in a file that is compiled (tests/docs/document.h). The commands of a page
// build on each other, so that a filter takes whole pages: --gtest_filter='*tour*'.
// STATOR_UPDATE_TESTS=1 writes what the commands print into the pages instead; read the difference
// before you commit it.
#include "ir/base/str.h"
#include "tests/docs/document.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace stator::testing {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

const std::string kSource = STATOR_SOURCE_DIR, kBinary = STATOR_BINARY_DIR;

bool Updating() { return std::getenv("STATOR_UPDATE_TESTS") != nullptr; }

std::vector<Block> AllBlocks() {
  Lines documents = {"README.md"};
  for (const auto& entry : fs::directory_iterator(kSource + "/docs")) {
    if (entry.path().extension() == ".md") {
      documents.push_back("docs/" + entry.path().filename().string());
    }
  }
  std::sort(documents.begin(), documents.end());
  std::vector<Block> blocks;
  for (const std::string& name : documents) {
    if (!fs::exists(kSource + "/" + name)) continue;
    for (Block& b : ReadBlocks(kSource, name)) {
      if (b.language == "console" || b.language == "cpp" || !b.file.empty())
        blocks.push_back(std::move(b));
    }
  }
  return blocks;
}

std::string BlockName(const ::testing::TestParamInfo<Block>& info) {
  const std::string stem = fs::path(info.param.document).stem().string();
  std::string name = StrCat(stem, "_", info.param.language, "_", info.index);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

// A folder with what a reader has in front of them: the source tree's folders, by links, so that
// what a command writes does not end up there.
std::string Desk() {
  static const std::string desk = [] {
    std::string folder = kBinary + "/tests/docs_desk";
    fs::remove_all(folder);
    fs::create_directories(folder);
    for (const char* name : {"docs", "examples", "tests", "README.md", "LICENSE"}) {
      fs::create_symlink(kSource + "/" + name, folder + "/" + name);
    }
    return folder;
  }();
  return desk;
}

// The output of a shell command, standard error included. There is no GPU for it, so that the pages
// read the same on every machine.
std::string RunCommand(const std::string& command, int* status) {
  const std::string script = Desk() + "/.command";
  std::ofstream(script) << "exec 2>&1 </dev/null\ncd '" << Desk() << "'\nexport PATH='" << kBinary
                        << "':'" << kBinary << "/examples':\"$PATH\" CUDA_VISIBLE_DEVICES=\n"
                        << command << "\n";
  FILE* pipe = popen(("bash '" + script + "'").c_str(), "r");
  std::string text;
  char part[4096];
  for (size_t n; pipe != nullptr && (n = fread(part, 1, sizeof part, pipe)) > 0;)
    text.append(part, n);
  const int ended = pipe == nullptr ? -1 : pclose(pipe);
  *status = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
  return text;
}

// Writes `outputs` of the block's commands into its document, whose lines may have moved since it
// was read.
void Update(const Block& block, const std::vector<Lines>& outputs) {
  const std::string path = kSource + "/" + block.document;
  Lines text = SplitLines(ReadWholeFile(path));
  Lines old, now;
  for (size_t i = 0; i < block.commands.size(); ++i) {
    for (const std::string& line : SplitLines("$ " + block.commands[i].text)) {
      old.push_back(line), now.push_back(line);
    }
    old.insert(old.end(), block.commands[i].expected.begin(), block.commands[i].expected.end());
    now.insert(now.end(), outputs[i].begin(), outputs[i].end());
  }
  const auto at = std::search(text.begin(), text.end(), old.begin(), old.end());
  ASSERT_NE(at, text.end()) << block.document << " has changed";
  text.insert(text.erase(at, at + static_cast<std::ptrdiff_t>(old.size())), now.begin(), now.end());
  std::ofstream out(path);
  for (const std::string& line : text) out << line << "\n";
}

class Docs : public ::testing::TestWithParam<Block> {};

TEST_P(Docs, holds) {
  const Block& block = GetParam();
  if (block.language != "console") {
    ASSERT_FALSE(block.file.empty()) << "C++ in a page names the compiled file it stands in";
    EXPECT_TRUE(Contains(SplitLines(ReadWholeFile(kSource + "/" + block.file)), block.lines))
        << "not in " << block.file;
    return;
  }
  std::vector<Lines> outputs;
  for (const Command& command : block.commands) {
    int status = 0;
    const Lines actual = SplitLines(RunCommand(command.text, &status));
    outputs.push_back(WithWildcards(command.expected, actual));
    if (Updating()) continue;
    EXPECT_TRUE(Matches(command.expected, actual))
        << "$ " << command.text << "\nexit status " << status << "; printed:\n"
        << Join(actual, "\n") << "\nthe page has:\n"
        << Join(command.expected, "\n") << "\nSTATOR_UPDATE_TESTS=1 " << kBinary
        << "/tests/docs_test updates the pages";
  }
  if (Updating()) Update(block, outputs);
}

INSTANTIATE_TEST_SUITE_P(Pages, Docs, ::testing::ValuesIn(AllBlocks()), BlockName);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Docs);

TEST(Document, dots_stand_for_anything) {
  EXPECT_TRUE(Matches({"a", "...", "d"}, {"a", "b", "c", "d"}));
  EXPECT_TRUE(Matches({"a", "..."}, {"a"}));
  EXPECT_FALSE(Matches({"a", "...", "d"}, {"a", "b", "c"}));
  EXPECT_TRUE(Matches({"took ... s, ... tokens"}, {"took 0.1 s, 12 tokens"}));
  EXPECT_FALSE(Matches({"took ... s"}, {"took 0.1 ms."}));
  EXPECT_FALSE(Matches({"took"}, {"took 1"}));
}

TEST(Document, code_stands_in_its_file) {
  const Lines file = {"int f() {", "  int a;", "    a = 1;", "  return a;", "}"};
  EXPECT_TRUE(Contains(file, {"int a;", "  a = 1;"}));
  EXPECT_TRUE(Contains(file, {"int f() {", "...", "  return a;", "}"}));
  EXPECT_FALSE(Contains(file, {"int a;", "return a;"}));
  EXPECT_FALSE(Contains(file, {"int a;", "a = 1;"}));
}

}  // namespace
}  // namespace stator::testing
