// Tests generated from the samples of every op record.
#include "ir/base/error.h"
#include "ir/expand.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "tests/ir/compare.h"
#include "tests/ir/random_inputs.h"
#include "tests/support/op_cases.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stator {
namespace {

struct Case {
  const OpDef* op;
  std::string sample;
  int number;
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.op->name << c.sample; }

template <typename Wanted>
std::vector<Case> Cases(const Wanted& wanted) {
  std::vector<Case> cases;
  for (const OpDef* op : DefaultOps().All()) {
    for (size_t i = 0; i < op->samples.size(); ++i) {
      if (wanted(*op)) cases.push_back({op, op->samples[i], static_cast<int>(i)});
    }
  }
  return cases;
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  return StrCat(info.param.op->name, "_", info.param.number);
}

class OpSample : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Graph> Sample() const { return ParseSample(*GetParam().op, GetParam().sample); }
};

TEST(OpRecords, every_op_but_inputs_has_samples_and_a_definition) {
  for (const OpDef* op : DefaultOps().All()) {
    if (op->name == "input" || op->name == "state") continue;
    EXPECT_FALSE(op->samples.empty()) << op->name;
    EXPECT_TRUE(op->reference || op->expand) << op->name;
  }
}

TEST(OpRecords, scalar_expressions_name_operands_attributes_and_helpers_only) {
  for (const OpDef* op : DefaultOps().All()) {
    const std::string& s = op->scalar;
    for (size_t i = 0; i < s.size();) {
      if (!std::isalpha(static_cast<unsigned char>(s[i])) && s[i] != '$') {
        ++i;
        continue;
      }
      size_t end = i + 1;
      while (end < s.size() && (std::isalnum(static_cast<unsigned char>(s[end])) || s[end] == '_'))
        ++end;
      const std::string word = s.substr(i, end - i);
      const bool known = word == "T" || word.starts_with("st_") || op->FindOperand(word) >= 0 ||
                         (word[0] == '$' && op->FindAttr(word.substr(1)) != nullptr);
      EXPECT_TRUE(known) << op->name << ": " << word;
      i = end;
    }
  }
}

// --- inference, text, evaluation ---

TEST_P(OpSample, infers_and_verifies) {
  const auto graph = Sample();
  VerifyGraph(*graph);
  for (const Output& o : graph->outputs()) {
    for (const int64_t d : o.value.shape()) EXPECT_GE(d, 0);
  }
  const OpDef& op = *GetParam().op;
  if (op.flops) {
    EXPECT_GE(op.flops(OnlyNode(*graph)->view()), 0);
  }
}

TEST_P(OpSample, round_trips_through_text) {
  const std::string text = PrintGraph(*Sample());
  EXPECT_EQ(PrintGraph(*ParseGraph(text)), text);
}

TEST_P(OpSample, evaluates_to_its_types_deterministically) {
  const auto graph = Sample();
  const auto inputs = RandomInputs(*graph);
  const auto first = Interpret(*graph, inputs).outputs, second = Interpret(*graph, inputs).outputs;
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].type, graph->outputs()[i].value.type());
    EXPECT_TRUE(Same(first[i], second[i]));
    Tensor rounded = first[i];  // every element is already a value of the dtype
    for (int64_t k = 0; k < rounded.size(); ++k) {
      rounded.f.empty() ? rounded.SetInt(k, rounded.i[k]) : rounded.Set(k, rounded.f[k]);
    }
    EXPECT_TRUE(Same(first[i], rounded));
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpSample,
                         ::testing::ValuesIn(Cases([](const OpDef&) { return true; })), CaseName);

// --- expansion = reference ---

class OpExpansion : public OpSample {};

TEST_P(OpExpansion, equals_the_reference) {
  const auto graph = Sample();
  const auto inputs = RandomInputs(*graph);
  const auto want = Interpret(*graph, inputs).outputs;
  Builder b(*graph);
  const Values expanded = ExpandNode(b, *OnlyNode(*graph));
  for (size_t i = 0; i < expanded.size(); ++i) graph->SetOutput(static_cast<int>(i), expanded[i]);
  graph->EraseDead();
  VerifyGraph(*graph);
  const auto got = Interpret(*graph, inputs).outputs;
  const DType narrowest = graph->inputs()[0].node->type().dtype;
  for (size_t i = 0; i < got.size(); ++i) {
    double tolerance = std::max(Tolerance(narrowest), Tolerance(want[i].type.dtype));
    // Sums of products that cancel keep the error of their terms.
    double largest = 1;
    for (const double v : want[i].f)
      largest = std::isfinite(v) ? std::fmax(largest, std::fabs(v)) : largest;
    if (GetParam().op->tolerance) tolerance *= largest;
    EXPECT_TRUE(Near(got[i], want[i], tolerance)) << "result " << i << "\n" << PrintGraph(*graph);
  }
}

TEST_P(OpExpansion, uses_primitives_only) {
  const auto graph = Sample();
  Node* node = OnlyNode(*graph);
  Builder b(*graph);
  ExpandNode(b, *node);
  for (const Node* n : graph->Nodes()) {
    EXPECT_TRUE(n == node || n->op_class() != OpClass::kComposite) << PrintNode(*n);
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpExpansion, ::testing::ValuesIn(Cases([](const OpDef& op) {
                           return bool(op.expand);
                         })),
                         CaseName);

// --- gradient = finite differences ---

class OpGradient : public OpSample {};

// sum of dy[i] * result[i], infinite results (log-sum-exps of nothing) left out.
double Weighted(const std::vector<Tensor>& results, const NamedTensors& dy) {
  double sum = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const auto it = dy.find(StrCat("dy", i));
    if (it == dy.end()) continue;
    for (int64_t k = 0; k < results[i].size(); ++k) {
      if (std::isfinite(results[i].f[k])) sum += results[i].f[k] * it->second.f[k];
    }
  }
  return sum;
}

TEST_P(OpGradient, equals_finite_differences) {
  const auto graph = InF64(*Sample());
  auto inputs = RandomInputs(*graph, {.seed = 7, .ties = false});
  const auto results = Interpret(*graph, inputs).outputs;
  NamedTensors dy;
  TestRandom random(11);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!IsFloat(results[i].type.dtype)) continue;
    Tensor t(results[i].type);
    for (double& v : t.f) v = random.Uniform(-1, 1);
    dy.emplace(StrCat("dy", i), std::move(t));
  }
  if (dy.empty()) return;  // the sample's results are integers
  for (const auto& [name, gradient] : Gradients(*graph, inputs, dy)) {
    Tensor& x = inputs.at(name);
    const int64_t checks = std::min<int64_t>(x.size(), 48);
    for (int64_t c = 0; c < checks; ++c) {
      const int64_t k = checks == x.size() ? c : random.Below(x.size());
      const double saved = x.f[k], h = 1e-5;
      x.f[k] = saved + h;
      const double above = Weighted(Interpret(*graph, inputs).outputs, dy);
      x.f[k] = saved - h;
      const double below = Weighted(Interpret(*graph, inputs).outputs, dy);
      x.f[k] = saved;
      const double slope = (above - below) / (2 * h);
      ASSERT_NEAR(gradient.f[k], slope, 2e-7 * std::max(1.0, std::fabs(slope)))
          << name << ", element " << k;
    }
  }
}

// The gradient in the sample's own dtypes has their types, and is near the one in f64.
TEST_P(OpGradient, narrow_is_near_wide) {
  const auto graph = Sample();
  const auto wide = InF64(*graph);
  const auto inputs = RandomInputs(*graph, {.seed = 7, .ties = false});
  NamedTensors wide_inputs, dy, wide_dy;
  const auto widened = [](const Tensor& t) {
    Tensor w = t;
    if (IsFloat(t.type.dtype)) w.type.dtype = DType::kF64;
    return w;
  };
  for (const auto& [name, t] : inputs) wide_inputs.emplace(name, widened(t));
  const auto results = Interpret(*graph, inputs).outputs;
  TestRandom random(13);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!IsFloat(results[i].type.dtype)) continue;
    Tensor t(results[i].type);
    for (int64_t k = 0; k < t.size(); ++k) t.Set(k, random.Uniform(-1, 1));
    wide_dy.emplace(StrCat("dy", i), widened(t));
    dy.emplace(StrCat("dy", i), std::move(t));
  }
  if (dy.empty()) return;
  const NamedTensors want = Gradients(*wide, wide_inputs, wide_dy);
  for (const auto& [name, got] : Gradients(*graph, inputs, dy)) {
    // Compared with the larger of the row: sums that cancel keep the error of their terms.
    double largest = 1;
    for (const double v : want.at(name).f) largest = std::fmax(largest, std::fabs(v));
    double narrowest = Tolerance(got.type.dtype);
    for (const auto& [in, t] : inputs) {
      if (IsFloat(t.type.dtype)) narrowest = std::fmax(narrowest, Tolerance(t.type.dtype));
    }
    Tensor compared = widened(got);
    EXPECT_TRUE(Near(compared, want.at(name), 3 * narrowest * largest)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpGradient,
                         ::testing::ValuesIn(Cases([](const OpDef& op) { return bool(op.grad); })),
                         CaseName);

}  // namespace
}  // namespace stator
