// Movement ops that keep every element: broadcast, reshape, transpose. result[i] = operand[f(i)].
#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"

namespace stator {
namespace {

Types InferTranspose(const OpView& op) {
  const Type& x = op.type(0);
  const Dims& permutation = op.Ints("permutation");
  std::vector<bool> seen(x.rank(), false);
  Type out{x.dtype, {}};
  for (const int64_t axis : permutation) {
    if (axis < 0 || axis >= x.rank() || seen[axis] ||
        static_cast<int>(permutation.size()) != x.rank()) {
      Fail(ErrorCode::kInvalidArgument, op.Where(), ": ", permutation,
           " is not a permutation of the axes of ", x.ToString());
    }
    seen[axis] = true;
    out.shape.push_back(x.shape[axis]);
  }
  if (static_cast<int>(permutation.size()) != x.rank()) {
    Fail(ErrorCode::kInvalidArgument, op.Where(), ": ", permutation,
         " is not a permutation of the axes of ", x.ToString());
  }
  return {out};
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
          [](const OpView&, Operands in, Results out) {
            const Dims& shape = in[0]->type.shape;
            const int extra = out[0].type.rank() - in[0]->type.rank();
            const Dims dense = DenseStrides(shape);
            Dims strides(out[0].type.rank(), 0);
            for (size_t i = 0; i < shape.size(); ++i) {
              strides[i + extra] = shape[i] == 1 ? 0 : dense[i];
            }
            int64_t k = 0;
            for (Index it(out[0].type.shape); !it.done(); it.Next()) {
              CopyElement(*in[0], it.Dot(strides), out[0], k++);
            }
          },
      .flops = NoFlops,
      .samples = {"(f32[8]) {shape=[4,8]}", "(f32[4,1]) {shape=[2,4,8]}", "(f32[]) {shape=[3]}",
                  "(bf16[1,5,1]) {shape=[3,5,7]}", "(i32[1]) {shape=[0,4]}", "(bool[]) {shape=[]}",
                  "(f32[3,1]) {shape=[3,0]}"},
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
          [](const OpView&, Operands in, Results out) {
            out[0].f = in[0]->f;
            out[0].i = in[0]->i;
          },
      .flops = NoFlops,
      .samples = {"(f32[4,6]) {shape=[2,12]}", "(f32[1]) {shape=[]}", "(bf16[]) {shape=[1,1]}",
                  "(i32[0,3]) {shape=[5,0]}"},
  });
  // Result axis k is operand axis permutation[k].
  ops.Add({
      .name = "transpose",
      .op_class = OpClass::kMovement,
      .operands = {{"x"}},
      .attrs = {{"permutation", Dims{}, true}},
      .infer = InferTranspose,
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        const Dims& permutation = op.Ints("permutation");
        Dims inverse(permutation.size());
        for (size_t k = 0; k < permutation.size(); ++k) {
          inverse[permutation[k]] = static_cast<int64_t>(k);
        }
        return {b.Transpose(dy[0], inverse)};
      },
      .reference =
          [](const OpView& op, Operands in, Results out) {
            const Dims dense = DenseStrides(in[0]->type.shape);
            Dims strides;
            for (const int64_t axis : op.Ints("permutation")) strides.push_back(dense[axis]);
            int64_t k = 0;
            for (Index it(out[0].type.shape); !it.done(); it.Next()) {
              CopyElement(*in[0], it.Dot(strides), out[0], k++);
            }
          },
      .flops = NoFlops,
      .samples = {"(f32[4,6]) {permutation=[1,0]}", "(f32[2,3,5,7]) {permutation=[0,2,1,3]}",
                  "(bf16[3,1,5]) {permutation=[2,0,1]}", "(i32[0,3]) {permutation=[1,0]}",
                  "(f32[33,65]) {permutation=[1,0]}", "(f32[]) {permutation=[]}"},
  });
}

}  // namespace stator
