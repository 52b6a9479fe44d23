// Runs the .ir files of this folder. STATOR_UPDATE_TESTS=1 writes what the passes give into them
// instead; read the difference before you commit it.
#include "ir/base/error.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "passes/pipeline.h"
#include "tests/passes/ir_file.h"
#include "tests/passes/random_inputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

namespace stator::testing {
namespace {

bool Updating() { return std::getenv("STATOR_UPDATE_TESTS") != nullptr; }

std::map<std::string, std::vector<std::pair<IrCase, std::string>>>& Updates() {
  static auto* updates = new std::map<std::string, std::vector<std::pair<IrCase, std::string>>>;
  return *updates;
}

// How far a pass may move the value of an output that was there before it: 0 is every bit.
double Tolerance(const std::vector<std::string>& passes) {
  double tolerance = 0;
  for (const std::string& pass : passes) {
    if (pass == "expand-composites") tolerance = std::max(tolerance, 1e-5);
    if (pass == "mixed-precision") tolerance = std::max(tolerance, 3e-2);
  }
  return tolerance;
}

void ExpectClose(const std::string& what, const Tensor& a, const Tensor& b, double tolerance) {
  ASSERT_EQ(a.type.ToString(), b.type.ToString()) << what;
  double scale = 0;
  for (int64_t k = 0; k < a.size(); ++k) {
    if (std::isfinite(a.Get(k))) scale = std::max(scale, std::abs(a.Get(k)));
  }
  for (int64_t k = 0; k < a.size(); ++k) {
    const double x = a.Get(k), y = b.Get(k);
    if (std::isnan(x) && std::isnan(y)) continue;
    const bool same_bits = x == y && std::signbit(x) == std::signbit(y);
    if (same_bits || (tolerance > 0 && std::abs(x - y) <= tolerance * std::max(scale, 1e-3)))
      continue;
    FAIL() << what << "[" << k << "]: " << x << " before, " << y << " after";
  }
}

// Outputs and next states that both graphs have must have the same values.
void ExpectSameValues(const Graph& before, const Graph& after, double tolerance) {
  const auto params = RandomParams(after, RandomParams(before));
  const InterpreterResult a = Interpret(before, params), b = Interpret(after, params);
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    const std::string& name = before.outputs()[i].name;
    for (size_t j = 0; j < b.outputs.size(); ++j) {
      if (name.empty() ? i != j : after.outputs()[j].name != name) continue;
      ExpectClose(StrCat("output ", i, " ", name), a.outputs[i], b.outputs[j], tolerance);
    }
  }
  for (const auto& [name, value] : a.next_states) {
    const auto it = b.next_states.find(name);
    // apply-optimizer makes writes conditional, on a norm that is finite here.
    if (it != b.next_states.end()) ExpectClose("next " + name, value, it->second, tolerance);
  }
}

class IrText : public ::testing::TestWithParam<IrCase> {};

TEST_P(IrText, Case) {
  const IrCase& c = GetParam();
  SCOPED_TRACE(StrCat(c.file, ":", c.line));
  std::unique_ptr<Graph> before = ParseGraph(c.input), graph = before->Clone();
  ASSERT_EQ(PrintGraph(*before), PrintGraph(*graph));
  VerifyGraph(*before);

  CaseOptions options;
  ParseOptions(c.options, options);
  std::string actual;
  try {
    for (const std::string& pass : c.passes) {
      PassManager({FindPass(pass)}).Run(*graph, options.pass);
      const std::string text = PrintGraph(*graph);
      ASSERT_EQ(PrintGraph(*ParseGraph(text)), text) << "round trip after " << pass;
    }
    actual = PrintGraph(*graph);
  } catch (const Error& e) {
    actual = StrCat("error: ", e.what());
  }
  if (actual == PrintGraph(*before)) actual = "unchanged";

  if (Updating()) {
    const bool holds =
        c.expect.starts_with("error: ") && actual.find(c.expect.substr(7)) != actual.npos;
    if (!holds) Updates()[c.file].push_back({c, actual});
  } else if (c.expect.starts_with("error: ")) {
    EXPECT_TRUE(actual.starts_with("error: ")) << actual;
    EXPECT_NE(actual.find(c.expect.substr(7)), actual.npos) << actual;
  } else if (c.expect == "unchanged") {
    EXPECT_EQ(actual, "unchanged");
  } else {
    EXPECT_EQ(actual, c.expected_text);
  }
  if (actual.starts_with("graph")) ExpectSameValues(*before, *graph, Tolerance(c.passes));
}

std::string CaseName(const ::testing::TestParamInfo<IrCase>& info) {
  std::string name =
      std::filesystem::path(info.param.file).stem().string() + "__" + info.param.name;
  for (char& ch : name) {
    if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Files, IrText,
                         ::testing::ValuesIn(ReadIrFiles(STATOR_SOURCE_DIR "/tests/passes")),
                         CaseName);

class WriteUpdates : public ::testing::Environment {
 public:
  void TearDown() override {
    for (const auto& [file, cases] : Updates()) UpdateIrFile(file, cases);
  }
};
const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new WriteUpdates);

}  // namespace
}  // namespace stator::testing
