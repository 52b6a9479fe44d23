// The canonical reduction that emitters see: one run of axes, one level of ir/reduce_tree.h.
#include "ir/base/error.h"
#include "ir/ops/ops.h"
#include "ir/ops/reduce_reference.h"
#include "ir/reduce_tree.h"
#include "ir/tensor.h"

#include <algorithm>
#include <vector>

namespace stator {

void AddFoldOps(OpRegistry& ops) {
  // x [outer, n, inner] -> [outer, ceil(n / chunk), inner], each result the fold of one chunk of
  // consecutive elements by `kind`; rows (inner = 1) with kRowLanes lanes, columns with
  // kColumnLanes. The result has the accumulator's dtype. Made by split-reductions.
  ops.Add({
      .name = "fold",
      .op_class = OpClass::kReduce,
      .operands = {{"x"}},
      .attrs = {{"kind", std::string("sum"), true}, {"chunk", int64_t{1}, true}},
      .infer =
          [](const OpView& op) {
            const Type& x = op.type(0);
            const int64_t chunk = op.Int("chunk");
            if (x.rank() != 3 || x.shape[1] == 0 || chunk <= 0) {
              Fail(ErrorCode::kInvalidArgument, op.Where(),
                   ": needs [outer, n > 0, inner] and a positive chunk, got ", x.ToString(),
                   " and ", chunk);
            }
            ParseReduceKind(op.Str("kind"));
            return Types{
                {ComputeType(x.dtype), {x.shape[0], (x.shape[1] + chunk - 1) / chunk, x.shape[2]}}};
          },
      .reference =
          [](const OpView& op, std::span<const Tensor* const> in, std::span<Tensor> out) {
            const Dims& s = in[0]->type.shape;
            const int64_t chunk = op.Int("chunk");
            for (int64_t c = 0; c < out[0].type.shape[1]; ++c) {
              const int64_t m = std::min(chunk, s[1] - c * chunk);
              Tensor part(Type{out[0].type.dtype, {s[0], m, s[2]}});
              for (Index it(part.type.shape); !it.done(); it.Next()) {
                const int64_t from = (it[0] * s[1] + c * chunk + it[1]) * s[2] + it[2];
                const int64_t to = (it[0] * m + it[1]) * s[2] + it[2];
                if (part.f.empty()) {
                  part.i[to] = in[0]->i[from];
                } else {
                  part.f[to] = in[0]->f[from];
                }
              }
              const Tensor folded = FoldOneChunk(part, ParseReduceKind(op.Str("kind")));
              for (int64_t o = 0; o < s[0]; ++o) {
                for (int64_t i = 0; i < s[2]; ++i) {
                  const int64_t to = (o * out[0].type.shape[1] + c) * s[2] + i;
                  if (part.f.empty()) {
                    out[0].i[to] = folded.i[o * s[2] + i];
                  } else {
                    out[0].f[to] = folded.f[o * s[2] + i];
                  }
                }
              }
            }
          },
      .samples = {"(f32[3,1000,1]) {kind=\"sum\", chunk=1000}",
                  "(bf16[2,70,5]) {kind=\"sum\", chunk=64}", "(f32[1,9,4]) {kind=\"max\", chunk=4}",
                  "(i32[2,5,3]) {kind=\"min\", chunk=5}",
                  "(f32[2,2500,1]) {kind=\"sum\", chunk=2048}"},
  });
}

}  // namespace stator
