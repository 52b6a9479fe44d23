#include "ir/base/error.h"
#include "runtime/cuda/kernels/sources.h"

namespace stator {
namespace {

// Softmax attention where a head's rows are few: T queries and keys of D elements, both multiples
// of 16. Scores are never stored; products are those of the matrix units on 16-bit operands with
// f32 sums, in the fragments of mma.m16n8k16: lane 4 g + t holds rows g and g + 8, columns 2 t and
// 2 t + 1 of every 8.
constexpr char kBody[] = R"CUDA(
const u32 LD = D + 8, LT = T + 8;  // rows in shared memory, so that 8 of them are in different banks
const float kLog2e = 1.44269504f;

struct Place { u64 b, h, t; };  // strides, elements

DEVICE u32 Pair(const u16* p) { return *(const u32*)p; }
// Sends for T rows, of which those before `end` are wanted.
template <u32 THREADS> DEVICE void Rows(const u16* from, u64 stride, u32 end, u16* to) {
#pragma unroll
  for (u32 i0 = 0; i0 < T * (D / 8); i0 += THREADS) {
    const u32 i = i0 + threadIdx.x, row = i / (D / 8), column = i % (D / 8) * 8;
    if (row < end) Copy(to + row * LD + column, from + row * stride + column);
  }
}
// Rows row0 and on of x [rows, D] with rows `stride` apart, as the first operand of a product over D.
DEVICE void FirstOperand(const u16* x, u64 stride, u32 row0, u32 g, u32 t, u32 (&a)[D / 16][4]) {
  const u16 *low = x + (row0 + g) * stride + 2 * t, *high = low + 8 * stride;
#pragma unroll
  for (u32 k = 0; k < D / 16; ++k) {
    a[k][0] = Pair(low + 16 * k), a[k][1] = Pair(high + 16 * k);
    a[k][2] = Pair(low + 16 * k + 8), a[k][3] = Pair(high + 16 * k + 8);
  }
}
// c += a y^T for rows n0 to n0 + 7 of y [rows, D] in shared memory.
DEVICE void AddScores(float (&c)[4], const u32 (&a)[D / 16][4], const u16* y, u32 n0, u32 g, u32 t) {
  const u16* row = y + (n0 + g) * LD + 2 * t;
#pragma unroll
  for (u32 k = 0; k < D / 16; ++k) Mma(c, a[k], Pair(row + 16 * k), Pair(row + 16 * k + 8));
}
// c += a y for rows k0 to k0 + 15 of y [rows, D] in shared memory.
DEVICE void AddRows(float (&c)[D / 8][4], const u32 (&a)[4], const u16* y, u32 k0, u32 lane) {
  const u16* row = y + (k0 + lane % 16) * LD;
#pragma unroll
  for (u32 n = 0; n < D / 8; ++n) {
    u32 b0, b1;
    LoadTransposed(b0, b1, row + 8 * n);
    Mma(c[n], a, b0, b1);
  }
}
DEVICE void Store(u16* x, u64 stride, u32 row0, u32 g, u32 t, const float (&c)[D / 8][4], float low, float high) {
#pragma unroll
  for (u32 n = 0; n < D / 8; ++n) {
    u16* at = x + (row0 + g) * stride + 8 * n + 2 * t;
    *(u32*)at = Pack(c[n][0] * low, c[n][1] * low);
    *(u32*)(at + 8 * stride) = Pack(c[n][2] * high, c[n][3] * high);
  }
}
DEVICE float SumOfFour(float x) {
  x += Across(x, 1);
  return x + Across(x, 2);
}
DEVICE float MaxOfFour(float x) {
  x = fmaxf(x, Across(x, 1));
  return fmaxf(x, Across(x, 2));
}

// Scores come by 32 keys: their products do not wait for each other, and what a causal mask hides is skipped by as many.
const u32 TILES = 4, STEPS = 2;  // of 8 and of 16 keys

// A block takes 16 queries a warp; block (part, head, entry).
const u32 WARPS = T < 64 ? T / 16 : 4;
extern "C" __global__ void __launch_bounds__(32 * WARPS)
short_attention(const u16* q, const u16* k, const u16* v, u16* out, float* lse, Place qs, Place ks, Place vs,
                Place os, float scale) {
  st_begin();
  __shared__ __align__(16) u16 keys[T * LD], values[T * LD];
  const u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, h = blockIdx.y, b = blockIdx.z;
  const u32 first = blockIdx.x * (16 * WARPS), row0 = first + threadIdx.x / 32 * 16;
  const u32 end = CAUSAL && first + 16 * WARPS < T ? first + 16 * WARPS : T;
  Rows<32 * WARPS>(k + b * ks.b + h * ks.h, ks.t, end, keys);
  Commit();
  Rows<32 * WARPS>(v + b * vs.b + h * vs.h, vs.t, end, values);
  Commit();
  u32 a[D / 16][4];
  if (row0 < T) FirstOperand(q + b * qs.b + h * qs.h, qs.t, row0, g, t, a);
  Wait<1>();
  __syncthreads();
  float s[T / 8][4], low = -kInfinity, high = -kInfinity;
#pragma unroll
  for (u32 n0 = 0; n0 < T / 8; n0 += TILES) {
    if (row0 >= T || (CAUSAL && 8 * n0 >= row0 + 16)) continue;
#pragma unroll
    for (u32 n = n0; n < n0 + TILES && n < T / 8; ++n) {
      s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
      AddScores(s[n], a, keys, 8 * n, g, t);
    }
#pragma unroll
    for (u32 n = n0; n < n0 + TILES && n < T / 8; ++n) {
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        if (CAUSAL && 8 * n + 2 * t + i % 2 > row0 + g + i / 2 * 8) s[n][i] = -kInfinity;
      }
      low = fmaxf(low, fmaxf(s[n][0], s[n][1])), high = fmaxf(high, fmaxf(s[n][2], s[n][3]));
    }
  }
  Wait<0>();
  __syncthreads();
  if (row0 >= T) return;
  low = MaxOfFour(low), high = MaxOfFour(high);
  const float scale2 = scale * kLog2e;
  float sum_low = 0, sum_high = 0, o[D / 8][4];
#pragma unroll
  for (u32 n = 0; n < D / 8; ++n) o[n][0] = o[n][1] = o[n][2] = o[n][3] = 0;
#pragma unroll
  for (u32 m0 = 0; m0 < T / 16; m0 += STEPS) {
    if (CAUSAL && 16 * m0 >= row0 + 16) continue;
#pragma unroll
    for (u32 m = m0; m < m0 + STEPS && m < T / 16; ++m) {
      u32 p[4];
#pragma unroll
      for (u32 i = 0; i < 2; ++i) {
        float(&x)[4] = s[2 * m + i];
        x[0] = exp2f((x[0] - low) * scale2), x[1] = exp2f((x[1] - low) * scale2);
        x[2] = exp2f((x[2] - high) * scale2), x[3] = exp2f((x[3] - high) * scale2);
        sum_low += x[0] + x[1], sum_high += x[2] + x[3];
        p[2 * i] = Pack(x[0], x[1]), p[2 * i + 1] = Pack(x[2], x[3]);
      }
      AddRows(o, p, values, 16 * m, lane);
    }
  }
  sum_low = SumOfFour(sum_low), sum_high = SumOfFour(sum_high);
  Store(out + b * os.b + h * os.h, os.t, row0, g, t, o, 1 / sum_low, 1 / sum_high);
  if (lse == nullptr || t != 0) return;
  float* at = lse + (u64)(b * gridDim.y + h) * T + row0 + g;
  at[0] = low * scale + logf(sum_low);
  at[8] = high * scale + logf(sum_high);
}

// A block takes a head (head, entry), a warp 16 of its queries and then 16 of its keys. P and dS pass from
// the ones to the others through shared memory, rounded as operands are.
extern "C" __global__ void __launch_bounds__(2 * T)
short_attention_grad(const u16* q, const u16* k, const u16* v, const u16* out, const float* lse, const u16* dout,
                     u16* dq, u16* dk, u16* dv, Place qs, Place ks, Place vs, Place os, Place dos, Place dqs,
                     Place dks, Place dvs, float scale) {
  st_begin();
  extern __shared__ __align__(16) u16 shared[];
  u16 *queries = shared, *keys = queries + T * LD, *values = keys + T * LD, *grads = values + T * LD;
  u16 *ps = grads + T * LD, *ds = ps + T * LT;
  const u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, h = blockIdx.x, b = blockIdx.y;
  const u32 row0 = threadIdx.x / 32 * 16;
  Rows<2 * T>(q + b * qs.b + h * qs.h, qs.t, T, queries);
  Rows<2 * T>(k + b * ks.b + h * ks.h, ks.t, T, keys);
  Rows<2 * T>(v + b * vs.b + h * vs.h, vs.t, T, values);
  Rows<2 * T>(dout + b * dos.b + h * dos.h, dos.t, T, grads);
  Commit();
  const float* at = lse + (u64)(b * gridDim.x + h) * T + row0 + g;
  const float lse_low = at[0] * kLog2e, lse_high = at[8] * kLog2e;
  u32 a[D / 16][4], da[D / 16][4];
  FirstOperand(out + b * os.b + h * os.h, os.t, row0, g, t, a);
  Wait<0>();
  __syncthreads();
  FirstOperand(grads, LD, row0, g, t, da);
  float delta_low = 0, delta_high = 0;
#pragma unroll
  for (u32 n = 0; n < D / 16; ++n) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const float product = Low(a[n][i]) * Low(da[n][i]) + High(a[n][i]) * High(da[n][i]);
      i % 2 == 0 ? delta_low += product : delta_high += product;
    }
  }
  delta_low = SumOfFour(delta_low), delta_high = SumOfFour(delta_high);
  FirstOperand(queries, LD, row0, g, t, a);
  const float scale2 = scale * kLog2e;
  float x[D / 8][4];
#pragma unroll
  for (u32 n = 0; n < D / 8; ++n) x[n][0] = x[n][1] = x[n][2] = x[n][3] = 0;
#pragma unroll
  for (u32 m0 = 0; m0 < T / 16; m0 += STEPS) {
    if (CAUSAL && 16 * m0 >= row0 + 16) continue;
    float s[TILES][4], d[TILES][4];
#pragma unroll
    for (u32 i = 0; i < TILES && 2 * m0 + i < T / 8; ++i) {
      s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0;
      d[i][0] = d[i][1] = d[i][2] = d[i][3] = 0;
      AddScores(s[i], a, keys, 16 * m0 + 8 * i, g, t);
      AddScores(d[i], da, values, 16 * m0 + 8 * i, g, t);
    }
#pragma unroll
    for (u32 m = 0; m < STEPS && m0 + m < T / 16; ++m) {
      u32 dt[4];  // rows of dS
#pragma unroll
      for (u32 i = 0; i < 2; ++i) {
        float(&p)[4] = s[2 * m + i], (&dp)[4] = d[2 * m + i];
        const u32 column = 16 * (m0 + m) + 8 * i + 2 * t, to = (row0 + g) * LT + column;
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
          p[j] = exp2f(p[j] * scale2 - (j < 2 ? lse_low : lse_high));
          if (CAUSAL && column + j % 2 > row0 + g + j / 2 * 8) p[j] = 0;
          dp[j] = p[j] * (dp[j] - (j < 2 ? delta_low : delta_high));
        }
        dt[2 * i] = Pack(dp[0], dp[1]), dt[2 * i + 1] = Pack(dp[2], dp[3]);
        *(u32*)(ps + to) = Pack(p[0], p[1]), *(u32*)(ps + to + 8 * LT) = Pack(p[2], p[3]);
        *(u32*)(ds + to) = dt[2 * i], *(u32*)(ds + to + 8 * LT) = dt[2 * i + 1];
      }
      AddRows(x, dt, keys, 16 * (m0 + m), lane);
    }
  }
  Store(dq + b * dqs.b + h * dqs.h, dqs.t, row0, g, t, x, scale, scale);
  __syncthreads();
  float y[D / 8][4];
#pragma unroll
  for (u32 n = 0; n < D / 8; ++n) {
    x[n][0] = x[n][1] = x[n][2] = x[n][3] = 0;
    y[n][0] = y[n][1] = y[n][2] = y[n][3] = 0;
  }
  // Row and column of the 8 by 8 part whose address this lane gives.
  const u32 part_row = lane / 16 * 8 + lane % 8, part_column = row0 + lane / 8 % 2 * 8;
#pragma unroll
  for (u32 m0 = 0; m0 < T / 16; m0 += STEPS) {
    if (CAUSAL && 16 * (m0 + STEPS) <= row0) continue;
#pragma unroll
    for (u32 m = m0; m < m0 + STEPS && m < T / 16; ++m) {
      u32 p[4], d[4];
      LoadTransposed(p, ps + (16 * m + part_row) * LT + part_column);
      LoadTransposed(d, ds + (16 * m + part_row) * LT + part_column);
      AddRows(y, p, grads, 16 * m, lane);
      AddRows(x, d, queries, 16 * m, lane);
    }
  }
  Store(dk + b * dks.b + h * dks.h, dks.t, row0, g, t, x, scale, scale);
  Store(dv + b * dvs.b + h * dvs.h, dvs.t, row0, g, t, y, 1, 1);
}
)CUDA";

// The matrix units, and values of two in a word. TYPE is bf16 or f16.
constexpr char kPrelude[] = STATOR_BEGIN_KERNEL R"CUDA(
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
#define DEVICE static __device__ __forceinline__
#define kInfinity __int_as_float(0x7f800000)

DEVICE void Mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE void Copy(u16* to, const u16* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
DEVICE void Commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEVICE void Wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
DEVICE void LoadTransposed(u32& b0, u32& b1, const u16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(b0), "=r"(b1) : "r"((u32)__cvta_generic_to_shared(row)) : "memory");
}
DEVICE void LoadTransposed(u32 (&a)[4], const u16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"((u32)__cvta_generic_to_shared(row)) : "memory");
}
DEVICE u32 Pack(float low, float high) {
  u32 r;
  asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
DEVICE float Across(float x, int lanes) { return __shfl_xor_sync(~0u, x, lanes); }
)CUDA";

constexpr char kBf16[] = R"CUDA(
DEVICE float Low(u32 x) { return __uint_as_float(x << 16); }
DEVICE float High(u32 x) { return __uint_as_float(x & 0xffff0000u); }
)CUDA";

constexpr char kF16[] = R"CUDA(
DEVICE float Low(u32 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((u16)x));
  return y;
}
DEVICE float High(u32 x) { return Low(x >> 16); }
)CUDA";

}  // namespace

std::string ShortAttentionSource(DType dtype, int64_t rows, int64_t head, bool causal) {
  const bool half = dtype == DType::kF16;
  STATOR_CHECK(half || dtype == DType::kBF16, "short attention of ", Name(dtype));
  return StrCat("#define TYPE \"", half ? "f16" : "bf16", "\"\n", kPrelude, half ? kF16 : kBf16,
                "const u32 T = ", rows, ", D = ", head,
                ";\nconst bool CAUSAL = ", causal ? "true" : "false", ";\n", kBody);
}

}  // namespace stator
