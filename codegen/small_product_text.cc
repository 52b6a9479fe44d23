#include "codegen/small_product_text.h"

namespace stator {
namespace {

constexpr const char* kText = R"(
// ---- A matrix product of few tiles, one a block: all of A's rows and B's columns are on their way at once, and
// what a thread takes from the tile is a vector of a row.
// st_begin() in two parts. The next kernel is let in when this one has multiplied: sooner, its blocks, and through it
// those of others behind, would fill the multiprocessors and keep other streams' out.
ST_FN void st_await() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
ST_FN void st_let_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
ST_FN void st_matrices(unsigned (&r)[4], const st_bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
ST_FN void st_matrices_across(unsigned (&r)[4], const st_bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
ST_FN void st_mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// D [M, N] = A [M, K] x B, a tile of BM x BN a block. ROWS: B is stored as [N, K], otherwise as [K, N]. A warp
// has 16 rows and half of the columns; two sets of sums, of even and odd steps along K, halve the wait for
// each other. Rows in shared memory are 16 bytes longer than what they hold, so that 8 of them differ in banks.
template <int N, int K, int BM, int BN, bool ROWS> struct st_small_product {
  static constexpr int THREADS = BM * 4, COLUMNS = BN / 2, DEPTH = 128, PARTS = (K + DEPTH - 1) / DEPTH;
  static constexpr int VECTORS = BN / 8, LINES = THREADS / VECTORS, UNITS = BM / LINES;  // of the tile's rows, by vectors of 8
  static constexpr int A_ROW = K + 8, B_ROW = ROWS ? K + 8 : BN + 8, D_ROW = BN + 8;
  static constexpr int B_AT = BM * A_ROW, D_AT = B_AT + (ROWS ? BN : K) * B_ROW, BYTES = 2 * (D_AT + BM * D_ROW);
  typedef float Sums[2][COLUMNS / 8][4];

  static __device__ __forceinline__ st_bf16* shared() {
    extern __shared__ __align__(16) unsigned char st_tile[];
    return (st_bf16*)st_tile;
  }
  // LEN elements of each of COUNT rows, `row` elements apart.
  template <int COUNT, int LEN, int TO> static __device__ __forceinline__ void copy(st_bf16* to, const st_bf16* from, int row) {
    constexpr int each = LEN / 8, all = COUNT * each;
#pragma unroll
    for (int i0 = 0; i0 < all; i0 += THREADS) {
      const unsigned i = i0 + threadIdx.x, r = i / each, c = i % each * 8;
      if (all % THREADS == 0 || i < all) st_copy((uint4*)(to + r * TO + c), (const uint4*)(from + r * row + c));
    }
  }
  // B's part, from its first element on.
  static __device__ __forceinline__ void load_b(const st_bf16* b, int row) {
    if constexpr (ROWS) copy<BN, K, B_ROW>(shared() + B_AT, b, row);
    else copy<K, BN, B_ROW>(shared() + B_AT, b, row);
    st_commit();
  }
  template <int PART = 0> static __device__ __forceinline__ void load_a(const st_bf16* a, int row) {
    constexpr int k = PART * DEPTH, length = K - k < DEPTH ? K - k : DEPTH;
    copy<BM, length, A_ROW>(shared() + k, a + k, row);
    st_commit();
    if constexpr (PART + 1 < PARTS) load_a<PART + 1>(a, row);
  }

  template <int PART> static __device__ __forceinline__ void add(Sums& sums) {
    constexpr int from = PART * DEPTH, to = K - from < DEPTH ? K : from + DEPTH;
    st_wait<PARTS - 1 - PART>();
    __syncthreads();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const st_bf16* const a = shared() + (warp / 2 * 16 + lane % 16) * A_ROW + lane / 16 * 8;
    const st_bf16* const b = shared() + B_AT + (ROWS ? (warp % 2 * COLUMNS + lane / 16 * 8 + lane % 8) * B_ROW + lane / 8 % 2 * 8
                                                     : lane % 16 * B_ROW + warp % 2 * COLUMNS + lane / 16 * 8);
#pragma unroll
    for (int k = from; k < to; k += 16) {
      unsigned x[4], y[COLUMNS / 16][4];
      st_matrices(x, a + k);
#pragma unroll
      for (int j = 0; j < COLUMNS / 16; ++j) {
        if constexpr (ROWS) st_matrices(y[j], b + j * 16 * B_ROW + k);
        else st_matrices_across(y[j], b + k * B_ROW + j * 16);
      }
#pragma unroll
      for (int j = 0; j < COLUMNS / 8; ++j) st_mma(sums[k / 16 % 2][j], x, y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
    }
    if constexpr (PART + 1 < PARTS) add<PART + 1>(sums);
  }

  // Leaves the tile, rounded to bf16, where take() finds it.
  static __device__ __forceinline__ void multiply() {
    Sums sums;
#pragma unroll
    for (int i = 0; i < 2 * (COLUMNS / 8) * 4; ++i) sums[i / (COLUMNS / 8 * 4)][i / 4 % (COLUMNS / 8)][i % 4] = 0;
    add<0>(sums);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    st_bf16* const d = shared() + D_AT + (warp / 2 * 16 + lane / 4) * D_ROW + warp % 2 * COLUMNS + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; ++j) {
      float s[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) s[i] = sums[0][j][i] + sums[1][j][i];
      *(unsigned*)(d + j * 8) = st_bf16_pair(s[1], s[0]);
      *(unsigned*)(d + 8 * D_ROW + j * 8) = st_bf16_pair(s[3], s[2]);
    }
    __syncthreads();
  }
  // Vector t of the tile's row `row`.
  static __device__ __forceinline__ void take(int row, int t, float (&x)[8]) {
    const uint4 w = *(const uint4*)(shared() + D_AT + row * D_ROW + t * 8);
    const unsigned pairs[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) x[2 * j] = st_bits_float(pairs[j] << 16), x[2 * j + 1] = st_bits_float(pairs[j] & 0xffff0000u);
  }
};
)";

}  // namespace

int SmallProductThreads(int rows) { return rows * 4; }

int SmallProductBytes(int rows, int columns, int depth, bool by_rows) {
  return 2 * (rows * (depth + 8) + (by_rows ? columns * (depth + 8) : depth * (columns + 8)) +
              rows * (columns + 8));
}

std::string SmallProductText() { return kText; }

}  // namespace stator
