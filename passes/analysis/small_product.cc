#include "passes/analysis/small_product.h"

#include "ir/region.h"
#include "ir/views.h"

namespace stator {
namespace {

// A block has all of its operands in shared memory: 64 x 64 over this depth take 146 KiB.
constexpr int64_t kMostDepth = 512;
constexpr int64_t kDepthStep = 16;    // of a matrix instruction
constexpr int64_t kMostBlocks = 132;  // one a multiprocessor of an H200
constexpr int64_t kStride = 8;        // 16 bytes
// The first that makes few enough blocks. Over a larger depth operands take longer to come than a
// block to multiply them: wider tiles read less of A.
constexpr int64_t kDeep = 256;
constexpr int64_t kTiles[][2] = {{32, 32}, {64, 32}, {64, 64}},
                  kDeepTiles[][2] = {{32, 64}, {32, 32}, {64, 64}};

}  // namespace

bool TakesSmallProducts(const PassOptions& options) {
  return options.own_matmul == OwnMatmul::kWhereFaster && options.numerics != Numerics::kStrict &&
         options.target != nullptr && options.target->sm() == 90;
}

bool HasAlignedRows(Value v) {
  const View view = ResolveView(v);
  return view.strides[1] == 1 && view.strides[0] >= v.shape()[1] &&
         view.strides[0] % kStride == 0 && view.at % kStride == 0;
}

std::optional<Dims> SmallTileOf(const Node& product, int64_t fold_chunk) {
  if (product.op_class() != OpClass::kContraction || product.type().rank() != 2 ||
      product.view().Bool("transpose_a"))
    return {};
  const Value a = product.operand(0), b = product.operand(1);
  for (const DType d : {a.dtype(), b.dtype(), product.type().dtype}) {
    if (d != DType::kBF16) return {};
  }
  const int64_t m = product.type().shape[0], n = product.type().shape[1], k = a.shape()[1];
  if (m == 0 || n == 0 || k == 0 || k > kMostDepth || k % kDepthStep != 0) return {};
  if (!HasAlignedRows(a) || !HasAlignedRows(b)) return {};
  for (const Value v : {a, b}) {
    if (IsHuge(ResolveView(v).base.type())) return {};  // its kernel indexes by ints
  }
  for (const auto& [rows, columns] : k >= kDeep ? kDeepTiles : kTiles) {
    if (fold_chunk != 0 && fold_chunk != rows) continue;
    if (m % rows == 0 && n % columns == 0 && m / rows * (n / columns) <= kMostBlocks)
      return Dims{rows, columns};
  }
  return {};
}

}  // namespace stator
