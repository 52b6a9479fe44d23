// Our own matrix products equal the interpreter within a rounding, and their column sums are those
// of what they stored, to the bit.
#include "codegen/build_plan.h"
#include "ir/base/error.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "tests/gpu/plan_maker.h"
#include "tests/support/product_graphs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stator::gpu_test {
namespace {

constexpr double kTolerance = 1.0 / 64;  // of the largest element: two roundings to bf16

std::map<std::string, Tensor> Inputs(const Graph& graph) {
  std::map<std::string, Tensor> inputs;
  for (const Param& p : graph.inputs()) {
    const Type& type = p.node->type();
    const auto bytes =
        ToBytes(type.dtype, Random(type.dtype, type.NumElements(), inputs.size() + 1));
    inputs.emplace(p.name, Tensor::FromBytes(type, bytes.data()));
  }
  return inputs;
}

Plan PlanOf(const Graph& declared, const Target& target, OwnMatmul wish) {
  const auto graph = declared.Clone();
  PassOptions options;
  options.target = &target;
  options.own_matmul = wish;
  PassManager(LowerPasses()).Run(*graph, options);
  return BuildPlan({{"f", graph.get()}}, target, {.plan_name = "f"});
}

std::vector<Tensor> RunOnGpu(const Plan& plan, const std::map<std::string, Tensor>& inputs) {
  const auto executor = MakeExecutor(plan, {.mode = ExecutionMode::kGraph});
  std::map<std::string, std::vector<char>> bytes;
  std::map<std::string, Bytes> views;
  for (const auto& [name, tensor] : inputs) bytes[name] = tensor.ToBytes();
  for (const auto& [name, data] : bytes) views[name] = Bytes(data.data(), data.size());
  std::vector<Tensor> outputs;
  executor->Wait(executor->Enqueue("f", views));
  for (const PlanOutput& output : executor->plan().FindProgram("f")->outputs) {
    const auto data = executor->ReadBuffer(output.buffer, output.type.Bytes());
    outputs.push_back(Tensor::FromBytes(output.type, data.data()));
  }
  return outputs;
}

void ExpectNear(const Tensor& got, const Tensor& want, double tolerance, const std::string& what) {
  double largest = 0;
  for (int64_t i = 0; i < want.size(); ++i) largest = std::max(largest, std::abs(want.Get(i)));
  int64_t off = 0;
  std::string first;
  for (int64_t i = 0; i < want.size(); ++i) {
    const double a = got.Get(i), b = want.Get(i);
    if (std::abs(a - b) <= tolerance * largest) continue;
    if (++off == 1) first = StrCat("[", i, "]: ", a, ", should be ", b);
  }
  EXPECT_EQ(off, 0) << what << ": first " << first;
}

// The sum of the rows of `stored`, by the definition.
Tensor SumOfRows(const Tensor& stored) {
  const int64_t m = stored.type.shape[0], n = stored.type.shape[1];
  const auto graph = ParseGraph(StrCat(
      "graph @s(%y: bf16[", m, ",", n, "]) -> f32[1,", n, "] {\n  %0 = cast(%y) {to=f32} : f32[", m,
      ",", n, "]\n  %1 = sum(%0) {axes=[0]} : f32[1,", n, "]\n  return %1\n}\n"));
  return Interpret(*graph, {{"y", stored}}).outputs[0];
}

// `maps`: of the kernel that has the product.
void ExpectInterpreterEquals(const std::vector<ProductGraph>& cases, OwnMatmul wish, size_t maps) {
  const auto target = MakeCudaTarget(0);
  if (target->sm() != 90) GTEST_SKIP() << "written for sm_90, this is sm_" << target->sm();
  for (const ProductGraph& c : cases) {
    SCOPED_TRACE(c.name);
    const Plan plan = PlanOf(*c.graph, *target, wish);
    bool own = false;
    for (const PlanStep& step : plan.programs[0].steps) {
      EXPECT_FALSE(std::holds_alternative<MatMulCall>(step.work));
      const auto* call = std::get_if<KernelCall>(&step.work);
      own = own || (call != nullptr && call->maps.size() == maps && call->shared_bytes > 0);
    }
    EXPECT_TRUE(own);
    const auto inputs = Inputs(*c.graph);
    const std::vector<Tensor> got = RunOnGpu(plan, inputs),
                              want = Interpret(*c.graph, inputs).outputs;
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i)
      ExpectNear(got[i], want[i], kTolerance, StrCat("output ", i));
    if (got.size() == 2 && got[1].type.shape[0] == 1)
      ExpectNear(got[1], SumOfRows(got[0]), 0, "column sums");
  }
}

TEST(OwnMatmul, equals_the_interpreter) {
  STATOR_NEEDS_GPU();
  ExpectInterpreterEquals(ProductGraphs(), OwnMatmul::kWherePossible, 2);
}

TEST(OwnMatmul, small_products_equal_the_interpreter) {
  STATOR_NEEDS_GPU();
  ExpectInterpreterEquals(SmallProductGraphs(), OwnMatmul::kWhereFaster, 0);
}

}  // namespace
}  // namespace stator::gpu_test
