// Sort, segment sum, fill and copy on the CPU.
#include "ir/base/error.h"
#include "ir/base/str.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "tests/runtime/hand_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace stator {
namespace {

std::vector<Tensor> Reference(const std::string& op, const std::string& sample,
                              const std::vector<Tensor>& operands) {
  const auto graph = ParseSample(*DefaultOps().Find(op), sample);
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : operands) pointers.push_back(&t);
  for (const Node* node : graph->Nodes()) {
    if (node->Is(op)) return EvaluateNode(*node, pointers);
  }
  return {};
}

void CheckSort(Tensor keys, bool descending) {
  HandPlan plan;
  SortCall call;
  call.descending = descending;
  call.keys = plan.Input("keys", keys.type);
  call.values = plan.Output("values", keys.type);
  call.indices = plan.Output("indices", {DType::kI32, keys.type.shape});
  plan.Step(call);
  const auto expected = Reference(
      "sort",
      StrCat("(", keys.type.ToString(), ") {descending=", descending ? "true" : "false", "}"),
      {keys});
  const auto out = RunOnce(plan.plan(), {{"keys", keys}});
  ExpectClose(out.at("values"), expected[0], 0, 0, keys.type.ToString());
  ExpectClose(out.at("indices"), expected[1], 0, 0, keys.type.ToString());
}

TEST(CpuSort, equals_reference) {
  for (const bool descending : {false, true}) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kI32,
                              DType::kI64, DType::kU32, DType::kU8}) {
      CheckSort(RandomTensor({dtype, {3, 200}}, 4), descending);
    }
    CheckSort(RandomTensor({DType::kF32, {0, 4}}, 4), descending);
    CheckSort(RandomTensor({DType::kF32, {4, 1}}, 4), descending);
  }
}

TEST(CpuSort, nan_last_zeros_equal_negatives_in_order) {
  Tensor keys(Type{DType::kF32, {12}});
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  keys.f = {nan, 0.0, -0.0, -inf, 3, nan, -3, inf, 0.0, -0.0, 3, -3};
  CheckSort(keys, false);
  CheckSort(keys, true);
  Tensor integers(Type{DType::kI32, {6}});
  integers.i = {5, -7, 0, -7, 2147483647, -2147483648LL};
  CheckSort(integers, false);
  CheckSort(integers, true);
}

void CheckSegmentSum(const Type& updates, DType index, int64_t rows, uint64_t seed) {
  HandPlan plan;
  std::map<std::string, Tensor> inputs;
  SegmentSumCall call;
  call.updates = plan.Input("updates", updates);
  call.indices = plan.Input("indices", {index, {updates.shape[0]}});
  call.out = plan.Output("out", {updates.dtype, {rows, updates.shape[1]}});
  plan.Step(call);
  inputs["updates"] = RandomTensor(updates, seed);
  inputs["indices"] = RandomTensor(call.indices.type, seed + 1);
  for (int64_t k = 0; k < updates.shape[0]; ++k) {
    inputs["indices"].SetInt(k, (inputs["indices"].i[k] * 7 + k * k % 3) % rows);
  }
  const auto expected = Reference(
      "segment_sum",
      StrCat("(", updates.ToString(), ", ", call.indices.type.ToString(), ") {rows=", rows, "}"),
      {inputs["updates"], inputs["indices"]});
  const auto out = RunOnce(plan.plan(), inputs);
  ExpectClose(out.at("out"), expected[0], 0, 0, StrCat(updates.ToString(), " into ", rows));
  EXPECT_EQ(RunOnce(plan.plan(), inputs, 3).at("out").f, out.at("out").f);
}

TEST(CpuSegmentSum, equals_reference_to_the_bit) {
  CheckSegmentSum({DType::kF32, {60, 100}}, DType::kI32, 9, 1);
  CheckSegmentSum({DType::kF32, {5000, 70}}, DType::kI64, 2, 2);
  CheckSegmentSum({DType::kF32, {40000, 3}}, DType::kI32, 1, 3);
  CheckSegmentSum({DType::kBF16, {700, 65}}, DType::kI32, 3, 4);
  CheckSegmentSum({DType::kF64, {700, 2}}, DType::kI32, 3, 5);
  CheckSegmentSum({DType::kI32, {50, 5}}, DType::kI32, 4, 6);
  CheckSegmentSum({DType::kF32, {0, 5}}, DType::kI32, 4, 7);
}

TEST(CpuSegmentSum, index_out_of_range_is_an_error) {
  HandPlan plan;
  SegmentSumCall call;
  call.updates = plan.Input("updates", {DType::kF32, {2, 1}});
  call.indices = plan.Input("indices", {DType::kI32, {2}});
  call.out = plan.Output("out", {DType::kF32, {3, 1}});
  plan.Step(call);
  Tensor indices(Type{DType::kI32, {2}});
  indices.i = {0, 3};
  try {
    RunOnce(plan.plan(), {{"updates", Tensor(Type{DType::kF32, {2, 1}})}, {"indices", indices}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "segment_sum: index 3 at position 1 is not in [0, 3)");
  }
}

TEST(CpuCopy, fill_then_copy_part) {
  HandPlan plan;
  const TensorRef scratch = plan.Scratch({DType::kU8, {16}}),
                  out = plan.Output("out", {DType::kU8, {16}});
  plan.Step(FillCall{out.buffer, 16, 7});
  plan.Step(FillCall{scratch.buffer, 16, 9});
  plan.Step(CopyCall{scratch.buffer, out.buffer, 5});
  EXPECT_EQ(RunOnce(plan.plan(), {}).at("out").i,
            (std::vector<int64_t>{9, 9, 9, 9, 9, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}));
}

}  // namespace
}  // namespace stator
