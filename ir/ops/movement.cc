// Movement ops: result[i] = operand[f(i)].
#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/ops/ops.h"
#include "ir/tensor.h"

namespace stator {
namespace {

void CopyElement(const Tensor& from, int64_t i, Tensor& to, int64_t k) {
  if (from.f.empty()) {
    to.i[k] = from.i[i];
  } else {
    to.f[k] = from.f[i];
  }
}

}  // namespace

void AddMovementOps(OpRegistry& ops) {
  // NumPy's rule: axes align from the right, size 1 repeats.
  ops.Add({
      .name = "broadcast",
      .op_class = OpClass::kMovement,
      .operands = {{"x"}},
      .attrs = {{"shape", Dims{}, true}},
      .infer =
          [](const OpView& op) {
            const Dims& shape = op.Ints("shape");
            if (BroadcastShapes(op.type(0).shape, shape, op.Where()) != shape) {
              Fail(ErrorCode::kInvalidArgument, op.Where(), ": ", op.type(0).ToString(),
                   " does not broadcast to ", shape);
            }
            return Types{{op.type(0).dtype, shape}};
          },
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.SumTo(dy[0], op.type(0).shape)};
      },
      .reference =
          [](const OpView&, std::span<const Tensor* const> in, std::span<Tensor> out) {
            const Dims& shape = in[0]->type.shape;
            const int extra = out[0].type.rank() - in[0]->type.rank();
            const Dims dense = DenseStrides(shape);
            Dims strides(out[0].type.rank(), 0);
            for (size_t i = 0; i < shape.size(); ++i) strides[i + extra] = shape[i] == 1 ? 0 : dense[i];
            int64_t k = 0;
            for (Index it(out[0].type.shape); !it.done(); it.Next()) {
              CopyElement(*in[0], it.Dot(strides), out[0], k++);
            }
          },
      .samples = {"(f32[8]) {shape=[4,8]}", "(f32[4,1]) {shape=[2,4,8]}", "(f32[]) {shape=[3]}"},
  });
  ops.Add({
      .name = "reshape",
      .op_class = OpClass::kMovement,
      .operands = {{"x"}},
      .attrs = {{"shape", Dims{}, true}},
      .infer =
          [](const OpView& op) {
            if (NumElements(op.Ints("shape")) != op.type(0).NumElements()) {
              Fail(ErrorCode::kInvalidArgument, op.Where(), ": ", op.type(0).ToString(),
                   " has not as many elements as ", op.Ints("shape"));
            }
            return Types{{op.type(0).dtype, op.Ints("shape")}};
          },
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Reshape(dy[0], op.type(0).shape)};
      },
      .reference =
          [](const OpView&, std::span<const Tensor* const> in, std::span<Tensor> out) {
            out[0].f = in[0]->f;
            out[0].i = in[0]->i;
          },
      .samples = {"(f32[4,6]) {shape=[2,12]}", "(f32[1]) {shape=[]}"},
  });
}

}  // namespace stator
