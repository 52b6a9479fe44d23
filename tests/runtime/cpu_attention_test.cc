// Attention on the CPU against the op's reference.
#include "ir/base/str.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "tests/runtime/hand_plan.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stator {
namespace {

// Operands of one node of op `attention`, with the results of the reference.
struct Case {
  std::unique_ptr<Graph> graph;
  Node* node = nullptr;
  std::vector<Tensor> operands;  // empty where absent
  std::vector<Tensor> results;
};

std::vector<Tensor> Evaluate(const Node& node, const std::vector<Tensor>& operands) {
  std::vector<const Tensor*> pointers;
  for (int i = 0; i < node.num_operands(); ++i) {
    pointers.push_back(node.operand(i) ? &operands[i] : nullptr);
  }
  return EvaluateNode(node, pointers);
}

Node* FindNode(Graph& graph, const std::string& op) {
  for (Node* node : graph.Nodes()) {
    if (node->Is(op)) return node;
  }
  return nullptr;
}

Case ForwardCase(const std::string& sample) {
  Case c;
  c.graph = ParseSample(*DefaultOps().Find("attention"), sample);
  c.node = FindNode(*c.graph, "attention");
  for (int i = 0; i < c.node->num_operands(); ++i) {
    const Value v = c.node->operand(i);
    c.operands.push_back(v ? RandomTensor(v.type(), 17 + i) : Tensor());
    const std::string& name = c.node->op().operands[i].name;
    // Segments rise along the row; lengths stay within the keys.
    if (v && name.find("segments") != std::string::npos) {
      for (int64_t k = 0; k < c.operands[i].size(); ++k) {
        c.operands[i].SetInt(k, k % v.shape()[1] * 3 / v.shape()[1]);
      }
    }
    if (v && name == "key_lengths") {
      for (int64_t k = 0; k < c.operands[i].size(); ++k) {
        c.operands[i].SetInt(
            k, (k + 1) * c.node->type(0).dim(1) % (c.node->operand(1).shape()[1] + 1));
      }
    }
  }
  c.results = Evaluate(*c.node, c.operands);
  return c;
}

// The gradient's node, with operands from the forward case.
Case BackwardCase(const Case& f, bool with_dlse) {
  const auto text = [](const Tensor& t) {
    return t.type.shape.empty() && t.size() == 0 ? "_" : t.type.ToString();
  };
  std::vector<std::string> types;
  Case c;
  const Tensor dout = RandomTensor(f.results[0].type, 91);
  const Tensor dlse = with_dlse ? RandomTensor(f.results[1].type, 92) : Tensor();
  c.operands = {f.operands[0], f.operands[1], f.operands[2], f.results[0],
                f.results[1],  dout,          dlse};
  for (size_t i = 3; i < 9; ++i)
    c.operands.push_back(i < f.operands.size() ? f.operands[i] : Tensor());
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const bool present =
        i < 6    ? true
        : i == 6 ? with_dlse
                 : i - 4 < f.operands.size() && f.node->operand(static_cast<int>(i) - 4);
    types.push_back(present ? text(c.operands[i]) : "_");
  }
  const std::string sample = StrCat("(", Join(types, ", "), ") ", FormatAttrs(f.node->attrs()));
  c.graph = ParseSample(*DefaultOps().Find("attention_grad"), sample);
  c.node = FindNode(*c.graph, "attention_grad");
  c.results = Evaluate(*c.node, c.operands);
  return c;
}

// The case as a plan of one step.
std::map<std::string, Tensor> Run(const Case& c, int threads) {
  HandPlan plan;
  AttentionCall call;
  std::map<std::string, Tensor> inputs;
  const bool backward = c.node->Is("attention_grad");
  call.backward = backward;
  const std::map<std::string, TensorRef*> places = {{"q", &call.q},
                                                    {"k", &call.k},
                                                    {"v", &call.v},
                                                    {"bias", &call.bias},
                                                    {"q_segments", &call.q_segments},
                                                    {"k_segments", &call.k_segments},
                                                    {"key_lengths", &call.key_lengths},
                                                    {"seed", &call.seed},
                                                    {"step", &call.step},
                                                    {"out", &call.out},
                                                    {"lse", &call.lse},
                                                    {"dout", &call.dout},
                                                    {"dlse", &call.dlse}};
  for (int i = 0; i < c.node->num_operands(); ++i) {
    if (!c.node->operand(i)) continue;
    const std::string& name = c.node->op().operands[i].name;
    *places.at(name) = plan.Input(name, c.operands[i].type);
    inputs[name] = c.operands[i];
  }
  const auto result = [&](int i, const std::string& name) {
    return plan.Output(name, c.node->type(i));
  };
  if (backward) {
    call.dq = result(0, "0"), call.dk = result(1, "1"), call.dv = result(2, "2");
    if (c.node->num_results() > 3) call.dbias = result(3, "3");
  } else {
    call.out = result(0, "0"), call.lse = result(1, "1");
  }
  const OpView op = c.node->view();
  call.causal = op.Bool("causal"), call.window = op.Int("window"),
  call.q_offset = op.Int("q_offset");
  call.dropout = op.Float("dropout"), call.stream = op.Int("stream");
  call.scale = op.Float("scale");
  if (call.scale == 0) call.scale = 1 / std::sqrt(static_cast<double>(op.type(0).dim(3)));
  plan.Step(call, c.node->op().name);
  return RunOnce(plan.plan(), inputs, threads);
}

void Check(const Case& c, const std::string& what) {
  const DType dtype = c.operands[0].type.dtype;
  const double tolerance = dtype == DType::kF64 ? 1e-11 : dtype == DType::kF32 ? 3e-5 : 2e-2;
  const auto two = Run(c, 2), three = Run(c, 3);
  for (int i = 0; i < c.node->num_results(); ++i) {
    const std::string name = std::to_string(i);
    ExpectClose(two.at(name), c.results[i], tolerance, tolerance, what + " result " + name);
    EXPECT_EQ(two.at(name).f, three.at(name).f) << what << ": depends on threads";
  }
}

// q, k and v as windows on one tensor [B,T,3,H,D], as a joined projection leaves them, and out as
// one on [B,H,T,D].
TEST(CpuAttentionStrides, joined_projection) {
  const Case c = ForwardCase("(f32[2,50,3,12], f32[2,50,3,12], f32[2,50,3,12]) {causal=true}");
  HandPlan plan;
  AttentionCall call;
  call.causal = true, call.scale = 1 / std::sqrt(12.0);
  const TensorRef joined = plan.Input("qkv", {DType::kF32, {2, 50, 3, 3, 12}});
  Tensor qkv(joined.type);
  const Type type{DType::kF32, {2, 50, 3, 12}};
  for (int part = 0; part < 3; ++part) {
    TensorRef view{
        {Space::kIo, joined.buffer.offset + part * 36 * 4}, type, {50 * 108, 108, 12, 1}};
    (part == 0 ? call.q : part == 1 ? call.k : call.v) = view;
    for (int64_t k = 0; k < c.operands[part].size(); ++k) {
      qkv.f[k / 36 * 108 + part * 36 + k % 36] = c.operands[part].f[k];
    }
  }
  const TensorRef out = plan.Output("out", {DType::kF32, {2, 3, 50, 12}});
  call.out = {out.buffer, type, {3 * 50 * 12, 12, 50 * 12, 1}};
  plan.Step(call);
  const Tensor result = RunOnce(plan.plan(), {{"qkv", qkv}}).at("out");
  for (Index it(type.shape); !it.done(); it.Next()) {
    ASSERT_NEAR(result.f[it.Dot(call.out.strides)],
                c.results[0].f[it.Dot(DenseStrides(type.shape))], 1e-5);
  }
}

class CpuAttention : public testing::TestWithParam<std::string> {};

TEST_P(CpuAttention, equals_reference) {
  const Case forward = ForwardCase(GetParam());
  Check(forward, "attention" + GetParam());
  Check(BackwardCase(forward, false), "attention_grad" + GetParam());
  Check(BackwardCase(forward, true), "attention_grad with dlse" + GetParam());
}

// The same elements are NaN or infinite, except what dropout drops, and the others close.
void CheckPoisoned(const Case& c, const std::string& what) {
  const auto got = Run(c, 2);
  const bool drops = c.node->view().Float("dropout") > 0;
  for (int i = 0; i < c.node->num_results(); ++i) {
    const Tensor &want = c.results[i], &result = got.at(std::to_string(i));
    for (int64_t k = 0; k < want.size(); ++k) {
      if (!std::isfinite(want.f[k])) {
        ASSERT_TRUE(drops || !std::isfinite(result.f[k]))
            << what << " result " << i << " element " << k;
        continue;
      }
      ASSERT_NEAR(result.f[k], want.f[k], 1e-4) << what << " result " << i << " element " << k;
    }
  }
}

// Element 1 of the vectors at `position` of every batch entry and head.
void Poison(Tensor& x, int64_t position, double value) {
  for (int64_t k = 0; k < x.size(); ++k) {
    const Dims& s = x.type.shape;
    if (k % s[3] == 1 && k / (s[2] * s[3]) % s[1] == position) x.f[k] = value;
  }
}

TEST(CpuAttentionPoison, stays_in_the_rows_that_see_it) {
  for (const char* sample : {
           "(f32[2,70,2,16], f32[2,70,2,16], f32[2,70,2,16]) {causal=true}",
           "(f32[1,40,4,20], f32[1,300,2,20], f32[1,300,2,20]) {causal=true, q_offset=250}",
           "(f64[1,40,2,5], f64[1,40,1,5], f64[1,40,1,5]) {causal=true, window=7}",
           "(f32[2,40,2,16], f32[2,40,2,16], f32[2,40,2,16], f32[1,1,40,40], _, _, i32[2])",
           "(f32[2,40,2,16], f32[2,40,2,16], f32[2,40,2,16], f32[1,1,40,40], i32[2,40], "
           "i32[2,40]) {causal=true}",
           "(f32[2,48,2,16], f32[2,48,2,16], f32[2,48,2,16], _, _, _, _, u32[2], i64[]) "
           "{causal=true, dropout=0.4, stream=9}",
       }) {
    const Case whole = ForwardCase(sample);
    const int64_t keys = whole.operands[1].type.shape[1], queries = whole.operands[0].type.dim(1);
    for (const double value : {std::nan(""), HUGE_VAL}) {
      for (const auto& [operand, position] : {std::pair<int, int64_t>{0, queries / 2},
                                              {1, keys - keys / 4},
                                              {1, keys - 1},
                                              {2, keys - keys / 4},
                                              {2, keys - 1}}) {  // q, k, v
        Case f = ForwardCase(sample);
        Poison(f.operands[operand], position, value);
        f.results = Evaluate(*f.node, f.operands);
        const std::string what =
            StrCat(value, " at ", position, " of operand ", operand, " of attention", sample);
        CheckPoisoned(f, what);
        CheckPoisoned(BackwardCase(f, false), what + ", backward");
      }
      Case b = BackwardCase(whole, false);
      Poison(b.operands[5], queries / 2, value);  // dout
      b.results = Evaluate(*b.node, b.operands);
      CheckPoisoned(b, StrCat(value, " in dout of attention_grad", sample));
    }
  }
}

std::vector<std::string> Samples() {
  std::vector<std::string> all = DefaultOps().Find("attention")->samples;
  for (const char* s : {
           "(f32[2,130,2,32], f32[2,130,2,32], f32[2,130,2,32]) {causal=true}",
           "(f32[1,70,4,20], f32[1,300,2,20], f32[1,300,2,20]) {causal=true, q_offset=230}",
           "(f32[1,65,2,64], f32[1,600,1,64], f32[1,600,1,64]) {window=100, causal=true, "
           "q_offset=500}",
           "(f32[1,40,2,8], f32[1,520,2,8], f32[1,520,2,8])",
           "(f64[1,33,2,5], f64[1,290,1,5], f64[1,290,1,5]) {causal=true, q_offset=257}",
           "(f16[1,33,2,16], f16[1,33,2,16], f16[1,33,2,16]) {causal=true}",
           "(bf16[2,100,2,64], bf16[2,100,2,64], bf16[2,100,2,64]) {causal=true}",
           "(f32[2,40,4,16], f32[2,300,2,16], f32[2,300,2,16], f32[2,4,40,300])",
           "(f32[3,40,4,16], f32[3,300,2,16], f32[3,300,2,16], f32[1,1,40,300], i32[3,40], "
           "i32[3,300], i32[3])",
           "(f32[2,48,2,16], f32[2,270,2,16], f32[2,270,2,16], _, _, _, _, u32[2], i64[]) "
           "{dropout=0.4, stream=9}",
           "(f32[2,40,2,8], f32[2,40,2,8], f32[2,40,2,8]) {causal=true, q_offset=-35}",
       }) {
    all.push_back(s);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Samples, CpuAttention, testing::ValuesIn(Samples()),
                         [](const auto& info) { return StrCat("n", info.index); });

}  // namespace
}  // namespace stator
