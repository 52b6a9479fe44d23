// Elements one by one, for CUDA.
#include "codegen/cuda_writer.h"
#include "ir/reduce_tree.h"

#include <algorithm>

namespace stator {
namespace {

class PointwiseWriter : public CudaWriter {
 public:
  explicit PointwiseWriter(const RegionParts& parts) : CudaWriter(parts) {}

  EmittedKernel Write() { return Kernel(Body()); }

 private:
  std::string Body() {
    const int64_t v = Vector({space_.n}), k = space_.n >= (int64_t{1} << 22) ? 2 : 1;
    // No more threads than vectors: what varies with no variable is done by every thread, and a
    // scalar may be updated in place.
    block_ = static_cast<int>(std::min<int64_t>(kBlock, BitCeil(space_.n / v)));
    const int64_t per_block = block_ * v * k;
    grid_ = (space_.n + per_block - 1) / per_block;
    IndexSpace& vars = emitter_.vars();
    const IndexExpr vector = vars.AddVar("e", space_.n / v, kChunkDepth),
                    lane = vars.AddVar("v", v, kLaneDepth);
    ElementEmitter::Options o = Base(v, lane);
    o.slot = "[u]", o.slots = StrCat("[", k, "]");
    emitter_.SetOptions(o);
    const IndexExpr full = vector * v + lane;
    StoreFull(emitter_, parts_, full);
    const std::string define =
        StrCat("const idx_t e = ((idx_t)blockIdx.x * ", k, " + u) * ", block_, " + threadIdx.x;\n");
    const std::string condition = space_.n % per_block != 0 ? StrCat("e < ", space_.n / v) : "";
    const std::string early = emitter_.TakeEarlyInvariant(), invariant = emitter_.TakeInvariant();
    return Indent(early + LoadThenCompute(StrCat(k), define, condition, v, invariant), 2);
  }
};

}  // namespace

EmittedKernel EmitPointwise(const RegionParts& parts) { return PointwiseWriter(parts).Write(); }

}  // namespace stator
