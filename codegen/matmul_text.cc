#include "codegen/matmul_text.h"

#include "ir/base/str.h"

namespace stator {
namespace {

constexpr const char* kHelpers = R"(
// ---- A matrix product by wgmma: tiles of A and B come by bulk copies into a ring of stages; two groups of
// four warps take turns, one multiplies while the other has its epilogue.
struct alignas(64) st_tensor_map { unsigned long long words[16]; };

ST_FN unsigned st_shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
// A value that all lanes of the warp have, said so that the compiler knows: where it sees a warp part ways, it
// makes wgmma wait after each instruction.
ST_FN int st_uniform(int x) { return __shfl_sync(0xffffffffu, x, 0); }
ST_FN void st_bar_init(unsigned bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
ST_FN bool st_bar_try(unsigned bar, unsigned parity) {
  unsigned done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
      : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  return done != 0;
}
ST_FN void st_bar_wait(unsigned bar, unsigned parity) {
  while (!st_bar_try(bar, parity)) {
  }
}
ST_FN void st_bar_expect(unsigned bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
// At the same barrier of block `rank` of the cluster.
ST_FN void st_bar_arrive(unsigned bar, int rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(bar), "r"(rank) : "memory");
}
ST_FN void st_bar_arrive(unsigned bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
ST_FN void st_named_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
ST_FN void st_named_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
// A box at column x and row y, or at column x and group g of rows that lie permuted. `mask`: of the
// cluster's blocks that get it, all at the same address.
ST_FN void st_copy_rows(unsigned to, const st_tensor_map* map, unsigned bar, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
      ::"r"(to), "l"(map), "r"(bar), "r"(x), "r"(y) : "memory");
}
ST_FN void st_copy_rows_to(unsigned to, const st_tensor_map* map, unsigned bar, int x, int y, unsigned short mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
      ::"r"(to), "l"(map), "r"(bar), "r"(x), "r"(y), "h"(mask) : "memory");
}
ST_FN void st_copy_groups(unsigned to, const st_tensor_map* map, unsigned bar, int x, int g) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %5, %5, %5, %4}], [%2];"
      ::"r"(to), "l"(map), "r"(bar), "r"(x), "r"(g), "r"(0) : "memory");
}
ST_FN void st_copy_groups_to(unsigned to, const st_tensor_map* map, unsigned bar, int x, int g, unsigned short mask) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %6, %6, %6, %4}], [%2], %5;"
      ::"r"(to), "l"(map), "r"(bar), "r"(x), "r"(g), "h"(mask), "r"(0) : "memory");
}
)";

constexpr const char* kProduct = R"(
// Combines with the lane whose number differs in bit `d`, which keeps the upper D of 2 D columns.
template <typename Op, int D> ST_FN void st_halve(float (&s)[8], int lane, int d) {
  const bool upper = lane & d;
#pragma unroll
  for (int j = 0; j < D; ++j) {
    const float keep = upper ? s[j + D] : s[j], give = upper ? s[j] : s[j + D];
    s[j] = Op::of(keep, __shfl_xor_sync(0xffffffffu, give, d));
  }
}

// D [M, N] = A [M, K] x B, by tiles of 128 x BN. ROWS: B is stored as [N, K], its rows permuted on the way
// into shared memory so that a thread holds 8 neighbouring columns; otherwise as [K, N], and threads
// exchange columns. CHUNK: 0, or 64 or 128 rows that folds take together; rows of A are then permuted so that a
// warp has 32 neighbours, and folds by ir/reduce_tree.h pass from warp to warp; M is a multiple of 128.
template <int M, int N, int K, int BN, int STAGES, bool ROWS, int CHUNK> struct st_product {
  static constexpr int BM = 128, CLUSTER = 2, HALVES = BM / 64, GROUPS = BN / 32, UNITS = 2 * HALVES;
  static constexpr int A_BYTES = BM * 128, B_BYTES = BN * 128, STAGE = A_BYTES + B_BYTES;
  static constexpr int SUM_ROW = BN + 4, SUMS = CHUNK ? BM / CHUNK * 8 * SUM_ROW : 0;  // floats of a group; 4 keep banks apart
  static constexpr int PASSES = CHUNK ? 3 * GROUPS : 0;
  static constexpr int SUMS_AT = STAGES * STAGE, BARS_AT = SUMS_AT + 2 * SUMS * 4, PASS_AT = BARS_AT + 16 * STAGES;
  static constexpr int BYTES = PASS_AT + 16 * PASSES;
  static constexpr int BLOCKS = (K + 63) / 64;
  static constexpr int M_TILES = (M + BM * CLUSTER - 1) / (BM * CLUSTER), N_TILES = (N + BN - 1) / BN;
  // Tiles go down bands of so many columns of tiles, whose part of B stays in the L2.
  static constexpr int BAND = N_TILES < 16 ? N_TILES : K > 4096 ? 8 : 16;
  typedef float Sums[HALVES][BN / 2];
  // What the warps of a group pass on while they fold; the wait for the group's next turn keeps tiles apart.
  struct Turn {
    float* sums;    // [128 / CHUNK, 8, SUM_ROW]
    unsigned bars;  // [3, GROUPS]: a warp has passed on its sums of a group of columns
    unsigned phase;
  };

  // Row `u` of those whose elements the thread holds, in a tile that starts at row m0.
  static __device__ __forceinline__ int row(int m0, int u) {
    const int warp = threadIdx.x / 32 % 4, i = threadIdx.x % 32 / 4;
    return m0 + (CHUNK ? warp * 32 + u * 8 : u / 2 * 64 + warp * 16 + u % 2 * 8) + i;
  }
  // Of every 32 columns, group `g`'s 8 that the thread holds, as a vector of the row.
  static __device__ __forceinline__ int vector(int n0, int g) { return n0 / 8 + g * 4 + threadIdx.x % 4; }
  // Element v of row u and group g. (Sums are not written: wgmma would wait for it.)
  static __device__ __forceinline__ float at(const Sums& sums, int g, int u, int v) {
    return sums[u / 2][g * 16 + v / 2 * 4 + u % 2 * 2 + v % 2];
  }
  // The 8 products, rounded to bf16.
  static __device__ __forceinline__ void take(const Sums& sums, int g, int u, float (&x)[8]) {
    unsigned w[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) w[j] = st_bf16_pair(at(sums, g, u, 2 * j + 1), at(sums, g, u, 2 * j));
    if (!ROWS) {  // word j of thread q has columns 8 j + 2 q: transposed among four threads
      const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
      for (int j = 0; j < 4; j += 2) {
        const unsigned got = __shfl_xor_sync(0xffffffffu, odd ? w[j] : w[j + 1], 1);
        w[j] = odd ? got : w[j], w[j + 1] = odd ? w[j + 1] : got;
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const unsigned got = __shfl_xor_sync(0xffffffffu, high ? w[j] : w[j + 2], 2);
        w[j] = high ? got : w[j], w[j + 2] = high ? w[j + 2] : got;
      }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) x[2 * j] = st_bits_float(w[j] << 16), x[2 * j + 1] = st_bits_float(w[j] & 0xffff0000u);
  }

  // Whether group `g` has columns: N is a multiple of 32.
  static __device__ __forceinline__ bool has(int n0, int g) { return N % BN == 0 || n0 + g * 32 < N; }
  // To the L2, what an epilogue will read of x [M, N].
  template <typename T> static __device__ __forceinline__ void prefetch(const T* x, int m0, int n0) {
    constexpr int line = 128 / sizeof(T);
    const int r = m0 + threadIdx.x % 128;
    if (r >= M) return;
#pragma unroll
    for (int j = 0; j < BN; j += line) {
      if (N % BN == 0 || n0 + j < N) asm volatile("prefetch.global.L2 [%0];" ::"l"(x + (long long)r * N + n0 + j));
    }
  }
  // Folds the columns of group `g`, chunk by chunk: lane i takes rows i, i + 8, ... in order, those of a warp
  // after the warp's before it; then lanes combine, neighbours first. To out[128 / CHUNK, N]. N is a multiple of BN.
  template <typename Op> static __device__ __forceinline__ void fold(const float (&x)[UNITS][8], int g, const Turn& turn, int n0, float* out) {
    static_assert(Op::symmetric && N % BN == 0, "");
    constexpr int warps = CHUNK / 32;  // of a chunk
    const int warp = st_uniform(threadIdx.x / 32 % 4), lane = threadIdx.x % 32;
    float4* const passed = reinterpret_cast<float4*>(turn.sums + (warp / warps * 8 + lane / 4) * SUM_ROW + g * 32 + lane % 4 * 8);
    float s[8];
    if (warp % warps == 0) {
#pragma unroll
      for (int v = 0; v < 8; ++v) s[v] = Op::identity();
    } else {
      st_bar_wait(turn.bars + (warp - 1) * 8 * GROUPS + 8 * g, turn.phase);
      const float4 low = passed[0], high = passed[1];
      s[0] = low.x, s[1] = low.y, s[2] = low.z, s[3] = low.w, s[4] = high.x, s[5] = high.y, s[6] = high.z, s[7] = high.w;
    }
#pragma unroll
    for (int u = 0; u < UNITS; ++u) {
#pragma unroll
      for (int v = 0; v < 8; ++v) s[v] = Op::of(s[v], x[u][v]);
    }
    if (warp % warps < warps - 1) {
      passed[0] = make_float4(s[0], s[1], s[2], s[3]), passed[1] = make_float4(s[4], s[5], s[6], s[7]);
      __syncwarp();
      if (lane == 0) st_bar_arrive(turn.bars + warp * 8 * GROUPS + 8 * g);
    } else {
      st_halve<Op, 4>(s, lane, 4);
      st_halve<Op, 2>(s, lane, 8);
      st_halve<Op, 1>(s, lane, 16);
      const int column = (lane & 4) + (lane & 8) / 4 + (lane & 16) / 16;
      out[warp / warps * N + n0 + g * 32 + lane % 4 * 8 + column] = s[0];
    }
  }

  // Where tile `t` of the cluster's starts.
  static __device__ __forceinline__ void place(int t, int rank, int& m0, int& n0) {
    constexpr int whole = BAND * M_TILES;
    const int band = BAND == N_TILES ? 0 : t / whole, r = t - band * whole;
    const int left = N_TILES - band * BAND, width = BAND == N_TILES || left >= BAND ? BAND : left;
    const int m = r / width;
    m0 = (m * CLUSTER + rank) * BM;
    n0 = (band * BAND + (r - m * width)) * BN;
  }

  static __device__ __forceinline__ void load(const st_tensor_map& a, const st_tensor_map& b, unsigned to, unsigned bar, int rank, int k, int m0, int n0) {
    constexpr unsigned short all = (1 << CLUSTER) - 1;
    const unsigned to_b = to + A_BYTES;
    st_bar_expect(bar, STAGE);
    if constexpr (CHUNK != 0) st_copy_groups(to, &a, bar, k, m0 / BM);
    else st_copy_rows(to, &a, bar, k, m0);
    if constexpr (ROWS) {
      constexpr int part = BN / CLUSTER;
      st_copy_groups_to(to_b + rank * (part * 128), &b, bar, k, (n0 + rank * part) / 32, all);
    } else {
      constexpr int part = 64 / CLUSTER;
#pragma unroll
      for (int j = 0; j < BN / 64; ++j) st_copy_rows_to(to_b + j * 8192 + rank * (part * 128), &b, bar, n0 + j * 64, k + rank * part, all);
    }
  }

  // Calls before(m0, n0) and epilogue(sums, m0, n0, turn) for every tile of the block's that has a row.
  template <typename Before, typename Epilogue>
  static __device__ __forceinline__ void run(const st_tensor_map& a, const st_tensor_map& b, Before before, Epilogue epilogue) {
    extern __shared__ __align__(1024) unsigned char st_ring[];
    const unsigned base = st_shared(st_ring), full = base + BARS_AT, empty = full + 8 * STAGES;
    const int group = st_uniform(threadIdx.x / 128), lane = threadIdx.x % 32;
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    rank = st_uniform(rank);
    if (threadIdx.x == 0) {
      for (int s = 0; s < STAGES; ++s) st_bar_init(full + 8 * s, 1), st_bar_init(empty + 8 * s, 4 * CLUSTER);
      for (int i = 0; i < 2 * PASSES; ++i) st_bar_init(base + PASS_AT + 8 * i, 1);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    st_meet_cluster();
    constexpr int tiles = M_TILES * N_TILES;
    const int step = gridDim.x / CLUSTER, first = blockIdx.x / CLUSTER;
    const int count = first < tiles ? (tiles - first + step - 1) / step : 0;
    if (group == 0) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
      if (threadIdx.x == 0) {
        int s = 0;
        unsigned phase = 0;
        for (int i = 0; i < count; ++i) {
          int m0, n0;
          place(first + i * step, rank, m0, n0);
#pragma unroll 1
          for (int k = 0; k < BLOCKS; ++k) {
            st_bar_wait(empty + 8 * s, phase ^ 1);
            load(a, b, base + s * STAGE, full + 8 * s, rank, k * 64, m0, n0);
            if (++s == STAGES) s = 0, phase ^= 1;
          }
        }
      }
      __syncwarp();
    } else {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
      const int w = group - 1;
      // Descriptors: swizzled rows of 128 bytes, 8 of them in 1024; of B as [K, N], 64 columns in 8192. The
      // address is that within the block's window.
      constexpr unsigned long long kind = 1ull << 62 | 64ull << 32, kind_a = kind | 1ull << 16, kind_b = ROWS ? kind_a : kind | 512ull << 16;
      constexpr int step_b = ROWS ? 2 : 128;
      Turn turn{reinterpret_cast<float*>(st_ring + SUMS_AT) + w * SUMS, base + PASS_AT + w * 8 * PASSES, 0};
      if (w == 1 && count > 0) st_named_arrive(1, 256);
      for (int i = w; i < count; i += 2) {
        int m0, n0;
        place(first + i * step, rank, m0, n0);
        if (m0 < M) before(m0, n0);
        Sums sums;
        const int it = i * BLOCKS;
        int s = it % STAGES, last = 0;
        unsigned phase = it / STAGES & 1;
        st_named_sync(1 + w, 256);
#pragma unroll 1
        for (int k = 0; k < BLOCKS; ++k) {
          st_bar_wait(full + 8 * s, phase);
          const unsigned at = base + s * STAGE;
          const unsigned long long da = kind_a | (at & 0x3ffff) >> 4, db = kind_b | ((at + A_BYTES) & 0x3ffff) >> 4;
          asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
          for (int q = 0; q < 4; ++q) {
#pragma unroll
            for (int h = 0; h < HALVES; ++h) st_wgmma<ROWS ? 0 : 1>(sums[h], da + h * 512 + q * 2, db + q * step_b, k | q);
          }
          asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
          asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
          if (k > 0 && lane < CLUSTER) st_bar_arrive(empty + 8 * last, lane);
          last = s;
          if (++s == STAGES) s = 0, phase ^= 1;
        }
        if (i + 1 < count) st_named_arrive(2 - w, 256);
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
        for (int h = 0; h < HALVES; ++h) {
#pragma unroll
          for (int j = 0; j < BN / 2; ++j) asm volatile("" : "+f"(sums[h][j])::"memory");
        }
        if (lane < CLUSTER) st_bar_arrive(empty + 8 * last, lane);
        if (m0 < M) epilogue(sums, m0, n0, turn), turn.phase ^= 1;
      }
    }
    st_meet_cluster();  // nobody leaves while another may still write here
  }
};
)";

// d += a x b by one instruction; d = a x b where `accumulate` is 0.
std::string WgmmaText(int columns) {
  const int count = columns / 2;
  std::string list, operands;
  for (int i = 0; i < count; ++i) {
    list += StrCat(i > 0 ? ", " : "", "%", i);
    operands += StrCat(i > 0 ? ", " : "", "\"+f\"(d[", i, "])");
  }
  return StrCat(
      "// d += a x b; d = a x b where `accumulate` is 0.\n"
      "template <int B_BY_COLUMNS> ST_FN void st_wgmma(float (&d)[",
      count,
      "], unsigned long long a, unsigned long long b, int accumulate) {\n"
      "  asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, %",
      count + 2,
      ", 0;\\n\"\n"
      "      \"wgmma.mma_async.sync.aligned.m64n",
      columns, "k16.f32.bf16.bf16 {", list, "}, %", count, ", %", count + 1, ", p, 1, 1, 0, %",
      count + 3, ";\\n}\"\n      : ", operands,
      "\n      : \"l\"(a), \"l\"(b), \"r\"(accumulate), \"n\"(B_BY_COLUMNS));\n}\n");
}

}  // namespace

int TileBytes(int columns, int stages, int chunk) {
  const int ring = stages * ((kTileRows + columns) * kTileDepth * 2 + 16);
  if (chunk == 0) return ring;
  const int sums = kTileRows / chunk * 8 * (columns + 4) * 4,
            passes = 3 * (columns / kTileGroup) * 8;
  return ring + 2 * (sums + passes);
}

std::string MatMulText(int columns) { return StrCat(kHelpers, WgmmaText(columns), kProduct); }

}  // namespace stator
