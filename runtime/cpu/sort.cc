// Stable sort of rows. Keys become unsigned integers in the same order, joined with their position,
// so that an unstable sort of plain integers gives the stable order.
#include "runtime/cpu/library_steps.h"
#include "runtime/cpu/numbers.h"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace stator {
namespace {

// In the order of the values: negative ones are reversed, -0 is 0, NaN is after everything in
// either direction.
template <typename Bits, typename Float>
Bits OrderOfFloat(Float v, bool descending) {
  if (v != v) return ~Bits{0};
  if (v == 0) v = 0;
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  const Bits bits = std::bit_cast<Bits>(v);
  const Bits order = bits & kSign ? ~bits : bits | kSign;
  return descending ? ~order : order;
}

template <typename Bits>
Bits OrderOf(DType dtype, const char* base, int64_t k, bool descending) {
  if (dtype == DType::kF64) {
    return static_cast<Bits>(OrderOfFloat<uint64_t>(LoadAs<double>(base, k), descending));
  }
  if (IsFloat(dtype)) {
    return OrderOfFloat<uint32_t>(static_cast<float>(LoadNumber(dtype, base, k)), descending);
  }
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  Bits order = static_cast<Bits>(LoadInteger(dtype, base, k));
  if (IsSigned(dtype)) order ^= kSign;
  return descending ? ~order : order;
}

void CopyElement(int64_t width, const char* from, int64_t i, char* to, int64_t j) {
  std::memcpy(to + j * width, from + i * width, static_cast<size_t>(width));
}

template <typename Bits>
struct Entry {
  Bits order;
  Bits position;
  bool operator<(const Entry& other) const {
    return order != other.order ? order < other.order : position < other.position;
  }
};

template <typename Bits>
void SortRow(const SortCall& call, const char* keys, char* values, char* indices, int64_t row,
             int64_t n, Entry<Bits>* entries) {
  const DType dtype = call.keys.type.dtype;
  const int64_t width = ByteWidth(dtype);
  for (int64_t j = 0; j < n; ++j) {
    entries[j] = {OrderOf<Bits>(dtype, keys, row * n + j, call.descending), static_cast<Bits>(j)};
  }
  std::sort(entries, entries + n);
  for (int64_t j = 0; j < n; ++j) {
    const int64_t from = static_cast<int64_t>(entries[j].position);
    StoreInteger(call.indices.type.dtype, indices, row * n + j, from);
    if (values != nullptr) CopyElement(width, keys, row * n + from, values, row * n + j);
  }
}

// Entries of 32-bit halves hold any key of up to four bytes, and positions below 2^32.
bool FitsInHalves(const SortCall& call) {
  return ByteWidth(call.keys.type.dtype) <= 4 && call.keys.type.dim(-1) < (int64_t{1} << 32);
}

}  // namespace

ScratchNeed SortScratch(const SortCall& call) {
  return {0, call.keys.type.dim(-1) * (FitsInHalves(call) ? 8 : 16)};
}

void RunSort(const SortCall& call, const CpuMemory& memory, const CpuScratch& scratch) {
  const int64_t n = call.keys.type.dim(-1), rows = n == 0 ? 0 : call.keys.type.NumElements() / n;
  const char* keys = memory.At(call.keys.buffer);
  char *values = memory.At(call.values.buffer), *indices = memory.At(call.indices.buffer);
#pragma omp parallel for schedule(dynamic) num_threads(scratch.threads())
  for (int64_t row = 0; row < rows; ++row) {
    char* mine = scratch.ForThread(omp_get_thread_num());
    if (FitsInHalves(call)) {
      SortRow(call, keys, values, indices, row, n, reinterpret_cast<Entry<uint32_t>*>(mine));
    } else {
      SortRow(call, keys, values, indices, row, n, reinterpret_cast<Entry<uint64_t>*>(mine));
    }
  }
}

void RunFill(const FillCall& call, const CpuMemory& memory) {
  if (call.bytes > 0)
    std::memset(memory.At(call.buffer), call.value, static_cast<size_t>(call.bytes));
}

void RunCopy(const CopyCall& call, const CpuMemory& memory) {
  if (call.bytes == 0 || call.from == call.to) return;
  const char* from = memory.At(call.from);
  char* to = memory.At(call.to);
  constexpr int64_t kBlock = 1 << 20;  // bytes that one thread copies at a time
#pragma omp parallel for schedule(static) if (call.bytes > kBlock)
  for (int64_t at = 0; at < call.bytes; at += kBlock) {
    std::memcpy(to + at, from + at, static_cast<size_t>(std::min(kBlock, call.bytes - at)));
  }
}

}  // namespace stator
