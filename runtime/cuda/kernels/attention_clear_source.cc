#include "runtime/cuda/kernels/sources.h"

namespace stator {

const char kAttentionClearSource[] = STATOR_BEGIN_KERNEL R"CUDA(
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

// Zeroes x[b, t, :, :] of 16-bit elements for every entry b without keys; a block a (t, b).
extern "C" __global__ void attention_clear(u16* x, const int* lengths, u64 stride_b, u64 stride_t,
                                           u64 stride_h, u32 heads, u32 size) {
  st_begin();
  if (lengths[blockIdx.y] > 0) return;
  u16* row = x + blockIdx.y * stride_b + blockIdx.x * stride_t;
  for (u32 i = threadIdx.x; i < heads * size; i += blockDim.x) row[i / size * stride_h + i % size] = 0;
}

// lse[b, ..] = -inf for every entry b without keys, `count` values an entry.
extern "C" __global__ void attention_clear_lse(float* lse, const int* lengths, u32 count) {
  st_begin();
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (lengths[blockIdx.y] > 0 || i >= count) return;
  lse[(u64)blockIdx.y * count + i] = __int_as_float(0xff800000);
}
)CUDA";

}  // namespace stator
