#include "ir/base/error.h"
#include "runtime/cuda/kernels/sources.h"

namespace stator {
namespace {

// The column rule of ir/reduce_tree.h over the occurrences of a row, in the order of `order`:
// up to 8 of them in the registers of one thread, more by a block a chunk, 8 warps being the 8
// lanes of the rule, and the chunks of rows with more than 512 by the same rule once again. A sum
// that is small in all is one launch, with the same bits. Atomics hand out slots in lists; sums
// never depend on which slot a chunk got.
constexpr char kBody[] = R"CUDA(
const u32 kShort = 8, kLanes = 8;

struct alignas(V * sizeof(IN) > 16 ? 16 : V * sizeof(IN)) InPack { IN v[V]; };
struct alignas(V * sizeof(OUT) > 16 ? 16 : V * sizeof(OUT)) OutPack { OUT v[V]; };
struct alignas(V * sizeof(ACC) > 16 ? 16 : V * sizeof(ACC)) AccPack { ACC v[V]; };

u32 BitCeil(u32 n) { return n <= 1 ? 1 : 1u << (32 - __clz(n - 1)); }
u32 ColumnChunk(u32 n) {
  if (n <= 512) return n;
  const u32 chunk = BitCeil((n + 511) / 512);
  return chunk < 64 ? 64 : chunk;
}

OutPack Narrow(const AccPack& x) {
  OutPack y;
#pragma unroll
  for (int c = 0; c < V; ++c) y.v[c] = To(x.v[c]);
  return y;
}

void Put(OUT* at, AccPack x) {
  if constexpr (kAccumulate) {
    const OutPack old = *(const OutPack*)at;
#pragma unroll
    for (int c = 0; c < V; ++c) x.v[c] = (ACC)old.v[c] + x.v[c];
  }
  *(OutPack*)at = Narrow(x);
}

// Ids outside [0, rows) sort behind all rows and are summed nowhere.
extern "C" __global__ void segment_ids(const ID* ids, u32* keys, u32* order, u32 n, u32 rows) {
  st_begin();
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const u64 id = (u64)ids[i];
  keys[i] = id < rows ? (u32)id : rows;
  order[i] = i;
}

u32 LowerBound(const u32* keys, u32 n, u32 key) {
  u32 low = 0, high = n;
  while (low < high) {
    const u32 middle = (low + high) / 2;
    if (keys[middle] < key) low = middle + 1; else high = middle;
  }
  return low;
}

// counters: tasks, partial slots, combines. A task is {row, begin, count, slot or ~0}.
extern "C" __global__ void segment_plan(const u32* keys, u32 n, u32 rows, u32* starts, u32* counters,
                                        uint4* tasks, uint4* combines) {
  st_begin();
  const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row > rows) return;
  const u32 begin = LowerBound(keys, n, row);
  starts[row] = begin;
  if (row == rows) return;
  const u32 m = LowerBound(keys, n, row + 1) - begin;
  if (m <= kShort) return;
  const u32 chunk = ColumnChunk(m), chunks = (m + chunk - 1) / chunk;
  const u32 task = atomicAdd(&counters[0], chunks);
  if (chunks == 1) {
    tasks[task] = make_uint4(row, begin, m, ~0u);
    return;
  }
  const u32 slot = atomicAdd(&counters[1], chunks);
  combines[atomicAdd(&counters[2], 1u)] = make_uint4(row, slot, chunks, 0);
  for (u32 k = 0; k < chunks; ++k) {
    tasks[task + k] = make_uint4(row, begin + k * chunk, min(chunk, m - k * chunk), slot + k);
  }
}

AccPack Widen(const InPack& x) {
  AccPack y;
#pragma unroll
  for (int c = 0; c < V; ++c) y.v[c] = From(x.v[c]);
  return y;
}
AccPack Widen(const AccPack& x) { return x; }
AccPack Add(const AccPack& x, const AccPack& y) {
  AccPack z;
#pragma unroll
  for (int c = 0; c < V; ++c) z.v[c] = x.v[c] + y.v[c];
  return z;
}

// Elements [k, k + W) of m, neighbours first; element k is there.
template <u32 W, typename Load>
AccPack FoldFew(u32 k, u32 m, const Load& load) {
  if constexpr (W == 1) {
    return load(k);
  } else {
    AccPack sum = FoldFew<W / 2>(k, m, load);
    if (k + W / 2 < m) sum = Add(sum, FoldFew<W / 2>(k + W / 2, m, load));
    return sum;
  }
}

// Rows of at most 8 occurrences; a thread owns V columns of a row. Most rows have none to two: few
// registers and many threads hide the three loads that depend on each other.
extern "C" __global__ void __launch_bounds__(256, 6)
segment_short(const IN* updates, u64 stride, const u32* order, const u32* starts, OUT* out,
              u32 rows, u32 columns) {
  st_begin();
  const u64 id = blockIdx.x * (u64)blockDim.x + threadIdx.x;
  const u64 row = id / columns;
  if (row >= rows) return;
  const u64 column = id % columns * V;
  const u32 begin = starts[row], m = starts[row + 1] - begin;
  if (m > kShort || (kAccumulate && m == 0)) return;
  AccPack sum = {};
  if (m > 0) {
    sum = FoldFew<kShort>(0, m, [&](u32 k) {
      return Widen(*(const InPack*)(updates + order[begin + k] * stride + column));
    });
  }
  Put(out + row * (u64)columns * V + column, sum);
}

// Warp `lane` of the block folds elements lane, lane + 8, ..; warp 0 gets the sum of all. Four
// elements are in flight, as they lie in memory.
template <typename Load>
AccPack FoldChunk(u32 count, AccPack (*shared)[32], bool active, const Load& load) {
  const u32 thread = threadIdx.x & 31, lane = threadIdx.x >> 5;
  AccPack sum = {};
  if (active && lane < count) {
    sum = Widen(load(lane));
    u32 k = lane + kLanes;
    for (; k + 3 * kLanes < count; k += 4 * kLanes) {
      const auto a = load(k), b = load(k + kLanes), c = load(k + 2 * kLanes),
                 d = load(k + 3 * kLanes);
      sum = Add(Add(Add(Add(sum, Widen(a)), Widen(b)), Widen(c)), Widen(d));
    }
    for (; k < count; k += kLanes) sum = Add(sum, Widen(load(k)));
    shared[lane][thread] = sum;
  }
  __syncthreads();
  if (active && lane == 0) {
    sum = FoldFew<kLanes>(0, count, [&](u32 j) { return shared[j][thread]; });
  }
  __syncthreads();
  return sum;
}

extern "C" __global__ void __launch_bounds__(256, 4)
segment_chunks(const IN* updates, u64 stride, const u32* order, const u32* counters,
               const uint4* tasks, OUT* out, ACC* partials, u32 columns) {
  st_begin();
  __shared__ AccPack shared[kLanes][32];
  const u32 column = blockIdx.y * 32 + (threadIdx.x & 31);
  const bool active = column < columns;
  const u64 width = (u64)columns * V, at = (u64)column * V;
  for (u32 t = blockIdx.x; t < counters[0]; t += gridDim.x) {
    const uint4 task = tasks[t];
    const AccPack sum = FoldChunk(task.z, shared, active, [&](u32 k) {
      return *(const InPack*)(updates + order[task.y + k] * stride + at);
    });
    if (!active || threadIdx.x >= 32) continue;
    if (task.w == ~0u) {
      Put(out + task.x * width + at, sum);
    } else {
      *(AccPack*)(partials + task.w * width + at) = sum;
    }
  }
}

extern "C" __global__ void __launch_bounds__(256, 4)
segment_combine(const u32* counters, const uint4* combines, const ACC* partials, OUT* out,
                u32 columns) {
  st_begin();
  __shared__ AccPack shared[kLanes][32];
  const u32 column = blockIdx.y * 32 + (threadIdx.x & 31);
  const bool active = column < columns;
  const u64 width = (u64)columns * V, at = (u64)column * V;
  for (u32 t = blockIdx.x; t < counters[2]; t += gridDim.x) {
    const uint4 task = combines[t];
    const AccPack sum = FoldChunk(task.z, shared, active, [&](u32 k) {
      return *(const AccPack*)(partials + (task.y + k) * width + at);
    });
    if (active && threadIdx.x < 32) Put(out + task.x * width + at, sum);
  }
}

// All of it where there is little: a block takes 32 * V columns of a row, and finds the row's
// occurrences itself.
extern "C" __global__ void __launch_bounds__(256, 2)
segment_small(const IN* updates, u64 stride, const ID* ids, OUT* out, u32 n, u32 columns) {
  st_begin();
  constexpr u32 most = 2048, steps = most / 256;
  __shared__ AccPack shared[kLanes][32];
  __shared__ AccPack partials[most / 64][32];
  __shared__ u16 order[most];
  __shared__ u32 counts[steps][kLanes];
  const u32 row = blockIdx.x, thread = threadIdx.x & 31, warp = threadIdx.x >> 5;
  u32 found[steps];
#pragma unroll
  for (u32 k = 0; k < steps; ++k) {
    const u32 i = k * 256 + threadIdx.x;
    const bool mine = i < n && (u64)ids[i] == row;
    found[k] = __ballot_sync(~0u, mine);
    if (thread == 0) counts[k][warp] = __popc(found[k]);
  }
  __syncthreads();
  u32 m = 0;
#pragma unroll
  for (u32 k = 0; k < steps; ++k) {
    u32 at = 0;
    for (u32 w = 0; w < kLanes; ++w) {
      if (w == warp) at = m;
      m += counts[k][w];
    }
    if (found[k] >> thread & 1) {
      order[at + __popc(found[k] & ((1u << thread) - 1))] = (u16)(k * 256 + threadIdx.x);
    }
  }
  __syncthreads();
  const u32 column = blockIdx.y * 32 + thread;
  const bool active = column < columns;
  const u64 at = (u64)column * V;
  const u32 chunk = ColumnChunk(m), chunks = m <= chunk ? 1 : (m + chunk - 1) / chunk;
  AccPack sum = {};
  for (u32 c = 0; c < chunks && m > 0; ++c) {
    sum = FoldChunk(min(chunk, m - c * chunk), shared, active, [&](u32 k) {
      return *(const InPack*)(updates + order[c * chunk + k] * stride + at);
    });
    if (chunks > 1 && active && warp == 0) partials[c][thread] = sum;
  }
  if (chunks > 1) {
    __syncthreads();
    sum = FoldChunk(chunks, shared, active, [&](u32 k) { return partials[k][thread]; });
  }
  if (active && warp == 0 && !(kAccumulate && m == 0)) Put(out + row * (u64)columns * V + at, sum);
}
)CUDA";

// Storage type, accumulator, and conversions; `narrow` rounds to nearest even.
struct ElementText {
  const char *storage, *acc, *widen, *narrow;
};

ElementText TextOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {"double", "double", "x", "x"};
    case DType::kF32:
      return {"float", "float", "x", "x"};
    case DType::kBF16:
      return {"u16", "float", "__uint_as_float((u32)x << 16)", "Bf16(x)"};
    case DType::kF16:
      return {"u16", "float", "FromHalf(x)", "ToHalf(x)"};
    case DType::kI32:
      return {"int", "int", "x", "x"};
    case DType::kU32:
      return {"u32", "u32", "x", "x"};
    default:
      Fail(ErrorCode::kUnsupported, "segment sums of ", Name(dtype), " are not there on CUDA");
  }
}

const char* IdText(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return "long long";
    case DType::kI32:
      return "int";
    case DType::kU32:
      return "u32";
    case DType::kU16:
      return "u16";
    default:
      Fail(ErrorCode::kUnsupported, "segment sums by ", Name(dtype), " are not there on CUDA");
  }
}

constexpr char kPrelude[] = STATOR_BEGIN_KERNEL R"CUDA(
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

u16 Bf16(float x) {
  u16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
u16 ToHalf(float x) {
  u16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
float FromHalf(u16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
)CUDA";

}  // namespace

std::string SegmentSumSource(DType updates, DType out, DType ids, int vector, bool accumulate) {
  const ElementText in = TextOf(updates), to = TextOf(out);
  if (std::string_view(in.acc) != to.acc) {
    Fail(ErrorCode::kUnsupported, "segment sums of ", Name(updates), " into ", Name(out),
         " are not there on CUDA");
  }
  return StrCat(kPrelude, "typedef ", in.storage, " IN;\ntypedef ", to.storage, " OUT;\ntypedef ",
                in.acc, " ACC;\ntypedef ", IdText(ids),
                " ID;\nconstexpr bool kAccumulate = ", accumulate ? "true" : "false",
                ";\nconst int V = ", vector, ";\nACC From(IN x) { return ", in.widen,
                "; }\nOUT To(ACC x) { return ", to.narrow, "; }\n", kBody);
}

}  // namespace stator
