// Reductions over any axes; reduced axes keep size 1. The order of combination is reduce_tree.h's.
#include <cmath>
#include <limits>

#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/ops/ops.h"
#include "ir/ops/reduce_reference.h"

namespace stator {
namespace {

Types InferReduce(const OpView& op) {
  Type type = op.type(0);
  for (const int64_t axis : op.Ints("axes")) {
    type.shape[NormalizeAxis(axis, type.rank(), op.Where())] = 1;
  }
  return {type};
}

}  // namespace

void AddReduceOps(OpRegistry& ops) {
  ops.Add({
      .name = "sum",
      .op_class = OpClass::kReduce,
      .operands = {{"x", TypeSet::kAnyNumber}},
      .attrs = {{"axes", Dims{}, true}},
      .infer = InferReduce,
      .reduce = ReduceKind::kSum,
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Broadcast(dy[0], op.type(0).shape)};
      },
      .reference =
          [](const OpView& op, std::span<const Tensor* const> in, std::span<Tensor> out) {
            out[0] = ReduceReference(*in[0], op.Ints("axes"), ReduceKind::kSum);
          },
      .samples = {"(f32[4,8]) {axes=[1]}", "(f32[4,8]) {axes=[0]}", "(bf16[2,3,5]) {axes=[0,2]}",
                  "(f32[0,3]) {axes=[0]}"},
  });
}

}  // namespace stator
