// Indexed reads and writes. An index out of range is an `Error`; nothing is clamped.
#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"
#include "ir/ops/reduce_reference.h"

namespace stator {
namespace {

// [.., V, ..] and indices idx give [.., idx.., ..].
Types InferGather(const OpView& op) {
  const Type& data = op.type(0);
  const int axis = op.Axis("axis");
  Type out{data.dtype, {data.shape.begin(), data.shape.begin() + axis}};
  out.shape.insert(out.shape.end(), op.type(1).shape.begin(), op.type(1).shape.end());
  out.shape.insert(out.shape.end(), data.shape.begin() + axis + 1, data.shape.end());
  return {out};
}

void GatherReference(const OpView& op, Operands in, Results out) {
  const int axis = op.Axis("axis");
  const Dims& shape = in[0]->type.shape;
  const int64_t n = shape[axis], inner = DenseStrides(shape)[axis], picks = in[1]->size();
  for (int64_t k = 0; k < picks; ++k) CheckIndex(op, 1, in[1]->i[k]);
  for (int64_t k = 0; k < out[0].size(); ++k) {
    const int64_t o = k / (picks * inner), pick = k / inner % picks;
    CopyElement(*in[0], (o * n + in[1]->i[pick]) * inner + k % inner, out[0], k);
  }
}

// The rows that were read get their cotangents, summed where a row was read more than once.
Values GatherGrad(Builder& b, const OpView& op, const Values& dy) {
  const int axis = op.Axis("axis"), rank = op.type(0).rank(), picks = op.type(1).rank();
  // dy is [pre.., idx.., post..]; segment_sum wants the indexed axes first.
  Dims to_front, back;
  for (int k = 0; k < picks; ++k) to_front.push_back(axis + k);
  for (int k = 0; k < axis; ++k) to_front.push_back(k);
  for (int k = axis + 1; k < rank; ++k) to_front.push_back(k + picks - 1);
  for (int k = 0; k < axis; ++k) back.push_back(k + 1);
  back.push_back(0);
  for (int k = axis + 1; k < rank; ++k) back.push_back(k);
  const Value rows = b.Create1("segment_sum", {b.Transpose(dy[0], to_front), op.in(1)},
                               {{"rows", op.type(0).shape[axis]}});
  return {b.Transpose(rows, back), Value{}};
}

Types InferTakeAlong(const OpView& op) {
  const Type &data = op.type(0), &indices = op.type(1);
  const int axis = op.Axis("axis");
  bool fits = data.rank() == indices.rank();
  for (int k = 0; fits && k < data.rank(); ++k) {
    fits = k == axis || data.shape[k] == indices.shape[k];
  }
  if (!fits) BadOperands(op, StrCat("data and indices differ besides axis ", axis), data, indices);
  return {{data.dtype, indices.shape}};
}

void TakeAlongReference(const OpView& op, Operands in, Results out) {
  const int axis = op.Axis("axis");
  Dims strides = DenseStrides(in[0]->type.shape);
  const int64_t stride = strides[axis];
  strides[axis] = 0;
  int64_t k = 0;
  for (Index it(out[0].type.shape); !it.done(); it.Next(), ++k) {
    CheckIndex(op, 1, in[1]->i[k]);
    CopyElement(*in[0], it.Dot(strides) + in[1]->i[k] * stride, out[0], k);
  }
}

Types InferSegmentSum(const OpView& op) {
  const Type &updates = op.type(0), &indices = op.type(1);
  if (updates.rank() < indices.rank() ||
      !std::equal(indices.shape.begin(), indices.shape.end(), updates.shape.begin())) {
    BadOperands(op, "the updates' leading axes are not the indices'", updates, indices);
  }
  if (op.Int("rows") < 0) Fail(ErrorCode::kInvalidArgument, op.Where(), ": rows is negative");
  Type out{updates.dtype, {op.Int("rows")}};
  out.shape.insert(out.shape.end(), updates.shape.begin() + indices.rank(), updates.shape.end());
  return {out};
}

void SegmentSumReference(const OpView& op, Operands in, Results out) {
  const int64_t rows = op.Int("rows"), n = in[1]->size();
  std::vector<std::vector<int64_t>> members(rows);
  for (int64_t k = 0; k < n; ++k) {
    CheckIndex(op, 1, in[1]->i[k]);
    members[in[1]->i[k]].push_back(k);
  }
  const int64_t inner = n == 0 ? 0 : in[0]->size() / n;
  for (int64_t row = 0; row < rows; ++row) {
    const auto count = static_cast<int64_t>(members[row].size());
    if (count == 0 || inner == 0) continue;
    // The segment's updates as a [count, inner] tensor, folded down its column.
    Tensor segment(Type{in[0]->type.dtype, {count, inner}});
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t c = 0; c < inner; ++c) {
        CopyElement(*in[0], members[row][j] * inner + c, segment, j * inner + c);
      }
    }
    const Tensor sum = ColumnReference(segment, ReduceKind::kSum);
    for (int64_t c = 0; c < inner; ++c) CopyElement(sum, c, out[0], row * inner + c);
  }
}

std::vector<OperandDef> DataAndIndices() {
  return {{"data"},
          {.name = "indices",
           .types = TypeSet::kIndex,
           .domain = Domain::kIndex,
           .limit_axis_attr = "axis"}};
}

}  // namespace

void AddGatherOps(OpRegistry& ops) {
  // Rows of `data` along `axis`; the shape of `indices` takes the place of that axis. An embedding
  // is a gather along axis 0.
  ops.Add({
      .name = "gather",
      .op_class = OpClass::kGather,
      .operands = DataAndIndices(),
      .attrs = {{"axis", int64_t{0}}},
      .infer = InferGather,
      .grad = GatherGrad,
      .reference = GatherReference,
      .flops = NoFlops,
      .samples = {"(f32[7,4], i32[5])", "(f32[2,5,3], i32[2,2]) {axis=1}",
                  "(bf16[3,6], i64[]) {axis=-1}", "(i32[9], i32[4])", "(f32[1,3], i32[6])",
                  "(f32[4,3], i32[0])"},
  });
  // out[.., i, ..] = data[.., indices[.., i, ..], ..]; other axes equal.
  ops.Add({
      .name = "take_along",
      .op_class = OpClass::kGather,
      .operands = DataAndIndices(),
      .attrs = {{"axis", int64_t{-1}}},
      .infer = InferTakeAlong,
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {ScatterAlong(b, dy[0], op.in(1), op.type(0), op.Axis("axis")), Value{}};
      },
      .reference = TakeAlongReference,
      .flops = NoFlops,
      .samples = {"(f32[4,7], i32[4,2])", "(f32[5,3], i64[8,3]) {axis=0}",
                  "(bf16[2,3,4], i32[2,1,4]) {axis=1}", "(f32[3,1], i32[3,5])",
                  "(f32[0,3], i32[0,2])"},
  });
  // out[r] = sum of updates[k] over the k with indices[k] == r, 0 where there is none. A segment's
  // updates fold in the order of k by the column rule of reduce_tree.h, with n their count; a
  // segment of one is copied. Leading axes of `updates` are the indices'.
  ops.Add({
      .name = "segment_sum",
      .op_class = OpClass::kScatter,
      .operands = {{"updates", TypeSet::kAnyNumber},
                   {.name = "indices",
                    .types = TypeSet::kIndex,
                    .domain = Domain::kIndex,
                    .limit_attr = "rows"}},
      .attrs = {{"rows", int64_t{1}, true}},
      .infer = InferSegmentSum,
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Gather(dy[0], op.in(1), 0), Value{}};
      },
      .reference = SegmentSumReference,
      .flops = [](const OpView& op) { return static_cast<double>(op.type(0).NumElements()); },
      .samples = {"(f32[6,4], i32[6]) {rows=3}", "(f32[2,5,3], i32[2,5]) {rows=7}",
                  "(bf16[700,2], i64[700]) {rows=2}", "(f32[9], i32[9]) {rows=1}",
                  "(i32[5,2], i32[5]) {rows=4}", "(f32[0,3], i32[0]) {rows=2}",
                  "(f32[3], i32[]) {rows=2}"},
  });
}

}  // namespace stator
