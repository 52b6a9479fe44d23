#include "runtime/cuda/staging.h"

#include <algorithm>
#include <numeric>

namespace stator {
Packing PackBuffers(const std::vector<NamedBuffer>& buffers) {
  Packing packing;
  packing.buffers.resize(buffers.size());
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const BufferRef &x = buffers[a].buffer, &y = buffers[b].buffer;
    return x.space != y.space ? x.space < y.space : x.offset < y.offset;
  });
  for (const size_t i : order) {
    const NamedBuffer& b = buffers[i];
    CopyRange* last = packing.ranges.empty() ? nullptr : &packing.ranges.back();
    const int64_t gap = last == nullptr || last->device.space != b.buffer.space
                            ? kBufferAlignment
                            : b.buffer.offset - (last->device.offset + last->bytes);
    if (gap >= 0 && gap < kBufferAlignment) {  // padding alone lies between
      last->bytes += gap + b.bytes;
    } else {
      packing.bytes = (packing.bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
      packing.ranges.push_back({b.buffer, packing.bytes, b.bytes});
      last = &packing.ranges.back();
    }
    packing.buffers[i] = {b.name, last->staged + b.buffer.offset - last->device.offset, b.bytes};
    packing.bytes = std::max(packing.bytes, last->staged + last->bytes);
  }
  return packing;
}

}  // namespace stator
