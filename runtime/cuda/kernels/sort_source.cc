#include "runtime/cuda/kernels/sources.h"

namespace stator {

// A stable least-significant-digit radix sort of 32-bit keys with their positions, 8 bits a pass,
// rows side by side. A pass: digit counts of every tile of 1024 keys, an exclusive scan of them in
// the order (digit, tile), and a scatter. Integer atomics only count, so results never depend on
// the order of threads.
const char kSortSource[] = STATOR_BEGIN_KERNEL R"CUDA(
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;

const u32 kTile = 1024, kWarps = 8, kItems = 4, kScan = 16;

// Ascending order of keys is the order asked for; -0 equals 0; NaN comes last either way.
u32 FloatKey(float x, int descending) {
  u32 bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0xffffffffu;
  if (bits << 1 == 0) bits = 0;
  u32 key = bits >> 31 ? ~bits : bits | 0x80000000u;
  return descending ? ~key : key;
}
u32 Descend(u32 key, int descending) { return descending ? ~key : key; }
float Half(u16 bits) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
  return f;
}

#define KEYS(NAME, TYPE, KEY)                                                            \
  extern "C" __global__ void sort_keys_##NAME(const TYPE* in, u32* keys, u32* index,    \
                                              u64 total, u32 n, int descending) {       \
    st_begin();                                                                          \
    const u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;                            \
    if (i >= total) return;                                                              \
    const TYPE x = in[i];                                                                \
    keys[i] = KEY;                                                                       \
    index[i] = (u32)(i % n);                                                             \
  }
KEYS(f32, float, FloatKey(x, descending))
KEYS(bf16, u16, FloatKey(__uint_as_float((u32)x << 16), descending))
KEYS(f16, u16, FloatKey(Half(x), descending))
KEYS(i32, int, Descend((u32)x ^ 0x80000000u, descending))
KEYS(u32, u32, Descend(x, descending))
KEYS(u16, u16, Descend(x, descending))
KEYS(u8, u8, Descend(x, descending))

// counts[row][digit][tile]
extern "C" __global__ void sort_histogram(const u32* keys, u32* counts, u32 n, u32 tiles,
                                          u32 shift) {
  st_begin();
  __shared__ u32 histogram[256];
  const u32 row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  histogram[threadIdx.x] = 0;
  __syncthreads();
  const u32* in = keys + (u64)row * n;
  for (u32 k = 0; k < kItems; ++k) {
    const u32 i = tile * kTile + k * 256 + threadIdx.x;
    if (i < n) atomicAdd(&histogram[in[i] >> shift & 255u], 1u);
  }
  __syncthreads();
  counts[((u64)row * 256 + threadIdx.x) * tiles + tile] = histogram[threadIdx.x];
}

// Exclusive scan of a row's 256 * tiles counts, in place; a block of 1024 threads a row, 16 counts a
// thread at a time.
extern "C" __global__ void __launch_bounds__(1024) sort_scan(u32* counts, u32 tiles) {
  st_begin();
  __shared__ u32 sums[32];
  __shared__ u32 carry;
  u32* row = counts + (u64)blockIdx.x * 256 * tiles;
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, total = 256 * tiles;
  if (threadIdx.x == 0) carry = 0;
  __syncthreads();
  for (u32 base = 0; base < total; base += 1024 * kScan) {
    const u32 i = base + threadIdx.x * kScan;
    uint4 x[kScan / 4];
    u32 mine = 0;
#pragma unroll
    for (u32 k = 0; k < kScan / 4; ++k) {
      x[k] = i < total ? *(const uint4*)(row + i + 4 * k) : make_uint4(0, 0, 0, 0);
      mine += x[k].x + x[k].y + x[k].z + x[k].w;
    }
    u32 sum = mine;
    for (u32 s = 1; s < 32; s *= 2) {
      const u32 y = __shfl_up_sync(~0u, sum, s);
      if (lane >= s) sum += y;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    if (warp == 0) {
      u32 t = sums[lane];
      for (u32 s = 1; s < 32; s *= 2) {
        const u32 y = __shfl_up_sync(~0u, t, s);
        if (lane >= s) t += y;
      }
      sums[lane] = t;
    }
    __syncthreads();
    u32 before = carry + (warp ? sums[warp - 1] : 0) + sum - mine;
    if (i < total) {
#pragma unroll
      for (u32 k = 0; k < kScan / 4; ++k) {
        const uint4 v = x[k];
        *(uint4*)(row + i + 4 * k) =
            make_uint4(before, before + v.x, before + v.x + v.y, before + v.x + v.y + v.z);
        before += v.x + v.y + v.z + v.w;
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) carry += sums[31];
    __syncthreads();
  }
}

// A warp owns 128 keys in a row and takes them 32 at a time, so that ranks follow positions.
extern "C" __global__ void sort_scatter(const u32* keys_in, const u32* index_in, u32* keys_out,
                                        u32* index_out, const u32* counts, u32 n, u32 tiles,
                                        u32 shift) {
  st_begin();
  __shared__ u32 base[kWarps][256];
  const u32 row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, below = (1u << lane) - 1;
  for (u32 w = 0; w < kWarps; ++w) base[w][threadIdx.x] = 0;
  __syncthreads();
  const u64 at = (u64)row * n;
  const u32 first = tile * kTile + warp * (kTile / kWarps) + lane;
  u32 key[kItems], rank[kItems];
#pragma unroll
  for (u32 k = 0; k < kItems; ++k) {
    const u32 i = first + k * 32;
    key[k] = i < n ? keys_in[at + i] : 0;
  }
#pragma unroll
  for (u32 k = 0; k < kItems; ++k) {
    const bool valid = first + k * 32 < n;
    const u32 digit = key[k] >> shift & 255u;
    const u32 peers = __match_any_sync(~0u, valid ? digit : 256u);
    const u32 before = base[warp][digit];
    rank[k] = before + __popc(peers & below);
    __syncwarp();
    if (valid && (peers & below) == 0) base[warp][digit] = before + __popc(peers);
    __syncwarp();
  }
  __syncthreads();
  u32 sum = counts[((u64)row * 256 + threadIdx.x) * tiles + tile];
  for (u32 w = 0; w < kWarps; ++w) {
    const u32 mine = base[w][threadIdx.x];
    base[w][threadIdx.x] = sum;
    sum += mine;
  }
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < kItems; ++k) {
    const u32 i = first + k * 32;
    if (i >= n) continue;
    const u64 to = at + base[warp][key[k] >> shift & 255u] + rank[k];
    keys_out[to] = key[k];
    index_out[to] = index_in[at + i];
  }
}

#define EMIT(BYTES, TYPE)                                                                  \
  extern "C" __global__ void sort_emit_##BYTES(const TYPE* in, const u32* order,          \
                                               TYPE* values, u32* indices, u64 total,     \
                                               u32 n) {                                   \
    st_begin();                                                                            \
    const u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;                              \
    if (i >= total) return;                                                                \
    const u32 from = order[i];                                                             \
    if (indices) indices[i] = from;                                                        \
    if (values) values[i] = in[i / n * n + from];                                          \
  }
EMIT(4, u32)
EMIT(2, u16)
EMIT(1, u8)
)CUDA";

}  // namespace stator
