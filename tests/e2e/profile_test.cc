// `stator profile` on a small model: every step of the plan is there, the shares make a whole, and
// the files are what their readers expect.
#include "frontend/driver/profile.h"

#include "frontend/driver/file.h"
#include "frontend/driver/html.h"
#include "frontend/driver/json.h"
#include "tests/e2e/run_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace stator {
namespace {

std::string Text(const std::string& path) {
  const std::vector<char> bytes = ReadFile(path);
  return std::string(bytes.begin(), bytes.end());
}

const Json::Array& List(const Json& json, const char* key) {
  const Json* found = json.Find(key);
  STATOR_CHECK(found != nullptr && found->As<Json::Array>() != nullptr, key, " is no list");
  return *found->As<Json::Array>();
}

double Number(const Json& json, const char* key) {
  const Json* found = json.Find(key);
  STATOR_CHECK(found != nullptr, key);
  if (const int64_t* integer = found->As<int64_t>()) return static_cast<double>(*integer);
  STATOR_CHECK(found->As<double>() != nullptr, key, " is no number");
  return *found->As<double>();
}

std::string Word(const Json& json, const char* key) { return JsonString(json, key, "profile"); }

class ProfileTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string why;
    if (std::string(GetParam()) == "cuda" && !HasCudaDevice(&why)) GTEST_SKIP() << why;
    config_ = SmallConfig(dir_, "out");
    config_.device = GetParam();
    config_.dtype = "float32";
    config_.gradient_accumulation_steps = 2;
    options_ = {.compare = {"fused", "unfused"},
                .steps = 2,
                .warmup = 1,
                .html = dir_ / "p.html",
                .trace = dir_ / "t.json",
                .json = dir_ / "p.json"};
    options_.out = std::tmpfile();
    RunProfile(config_, options_);
    text_.resize(static_cast<size_t>(std::ftell(options_.out)));
    std::rewind(options_.out);
    STATOR_CHECK(std::fread(text_.data(), 1, text_.size(), options_.out) == text_.size(), "read");
    std::fclose(options_.out);
    json_ = ParseJson(Text(options_.json), "profile");
  }
  void ExpectStepsAndShares();
  void ExpectPage();
  void ExpectTrace();
  void ExpectText();

  TempDir dir_;
  TrainConfig config_;
  ProfileOptions options_;
  std::string text_;
  Json json_;
};
INSTANTIATE_TEST_SUITE_P(Devices, ProfileTest, testing::Values("cpu", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

// Every step of the plan is there, and the shares make a whole.
void ProfileTest::ExpectStepsAndShares() {
  const Device device = ChooseDevice(config_.device);
  const Plan plan = CompileTraining(config_, *device.target, true).compiled.plan;
  std::set<std::string> expected, found;
  for (const char* program : {"accumulate", "update"}) {
    const Program* p = plan.FindProgram(program);
    ASSERT_NE(p, nullptr);
    for (size_t i = 0; i < p->steps.size(); ++i) {
      expected.insert(StrCat(program, " ", i, " ", p->steps[i].scope, " ", p->steps[i].name));
    }
  }
  double shares = 0, us = 0;
  for (const Json& s : List(json_, "steps")) {
    found.insert(StrCat(Word(s, "program"), " ", static_cast<int>(Number(s, "step")), " ",
                        Word(s, "scope"), " ", Word(s, "name")));
    EXPECT_EQ(Number(s, "runs"), Word(s, "program") == "accumulate" ? 2 : 1);
    EXPECT_GE(Number(s, "us"), 0);
    shares += Number(s, "share");
    us += Number(s, "us") * Number(s, "runs");
  }
  EXPECT_EQ(found, expected);
  EXPECT_NEAR(shares, 1, 1e-6);
  EXPECT_GT(us, 0);
  EXPECT_NEAR(us, Number(json_, "steps_ms") * 1e3, 1e-3 * us);
  for (const char* table : {"kernels", "scopes"}) {
    double sum = 0;
    for (const Json& row : List(json_, table)) sum += Number(row, "share");
    EXPECT_NEAR(sum, 1, 1e-6) << table;
  }
  EXPECT_GT(Number(json_, "copy_gb_per_s"), 0);
  EXPECT_GT(Number(*json_.Find("matmul_tflop_per_s"), "f32"), 0);
  ASSERT_EQ(List(json_, "compared").size(), 1u);
  EXPECT_EQ(Word(List(json_, "compared")[0], "variant"), "unfused");
  EXPECT_GT(List(List(json_, "compared")[0], "steps").size(), expected.size());
}

// Every kernel is there, and nothing is loaded from elsewhere.
void ProfileTest::ExpectPage() {
  const std::string page = Text(options_.html);
  for (const Json& row : List(json_, "kernels")) {
    EXPECT_HAS(page, HtmlText(Word(row, "name")));
  }
  for (const char* outside : {"http://", "https://", "src=", "@import", "url(", "fetch("}) {
    EXPECT_FALSE(Has(page, outside)) << outside;
  }
  for (const char* part : {"Roofline", "<circle", "id=\"timeline\"", "<rect",
                           "fused against unfused", "prefers-color-scheme: dark"}) {
    EXPECT_HAS(page, part);
  }
  EXPECT_FALSE(Has(page, "nan"));
}

void ProfileTest::ExpectTrace() {
  const Json trace = ParseJson(Text(options_.trace), "trace");
  std::map<int, double> ends;  // by track
  size_t steps = 0;
  for (const Json& event : List(trace, "traceEvents")) {
    if (Word(event, "ph") == "M") continue;
    EXPECT_EQ(Word(event, "ph"), "X");
    const int track = static_cast<int>(Number(event, "tid"));
    EXPECT_GE(Number(event, "ts"), ends[track] - 1e-3);
    EXPECT_GE(Number(event, "dur"), 0);
    ends[track] = Number(event, "ts") + Number(event, "dur");
    steps += event.Find("args")->Find("kernel") != nullptr;
  }
  size_t expected = 0;
  for (const Json& s : List(json_, "steps")) expected += static_cast<size_t>(Number(s, "runs"));
  EXPECT_EQ(steps, expected);
}

void ProfileTest::ExpectText() {
  for (const char* part : {"timed by  ", "ceilings  copy ", "matmul f32", "clocks    ", "of copy",
                           "below 90 % of copy speed", "fused against unfused"}) {
    EXPECT_HAS(text_, part);
  }
  // Either its records are used, or the line says why not.
  if (config_.device == "cuda") {
    EXPECT_HAS(Word(json_, "method"), "CUPTI");
  }
}

// One run for all: it measures the ceilings, which takes seconds.
TEST_P(ProfileTest, reports_a_small_model) {
  ExpectStepsAndShares();
  ExpectPage();
  ExpectTrace();
  ExpectText();
}

TEST(Profile, refuses_what_cannot_be_timed) {
  TempDir dir;
  const TrainConfig config = SmallConfig(dir, "out");
  EXPECT_HAS(ErrorOf([&] { RunProfile(config, {.steps = 0}); }), "steps: 0");
  EXPECT_HAS(ErrorOf([&] { RunProfile(config, {.compare = {"fuzed"}}); }), "'fuzed'");
  EXPECT_HAS(ErrorOf([&] { RunProfile(config, {.compare = {"fused", "fused"}}); }), "named twice");
  EXPECT_HAS(ErrorOf([&] { RunProfile(config, {.steps = INT64_MAX}); }), "is more than 100000");
  EXPECT_HAS(ErrorOf([&] { RunProfile(config, {.warmup = INT64_MAX}); }), "warmup: ");
}

// Before the measurement, not after it.
TEST(Profile, refuses_files_that_it_could_not_write) {
  TempDir dir;
  const TrainConfig config = SmallConfig(dir, "out");
  EXPECT_HAS(ErrorOf([&] { RunProfile(config, {.html = dir.path()}); }), "it is a folder");
  EXPECT_HAS(ErrorOf([&] { RunProfile(config, {.trace = dir / "no/t"}); }), "cannot write");
  EXPECT_HAS(ErrorOf([&] { RunProfile(config, {.html = dir / "x", .json = dir / "x"}); }),
             "two of json, trace and html are to be written to ");
}

}  // namespace
}  // namespace stator
