#include "runtime/cpu/memory.h"

#include "ir/base/error.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace stator {
namespace {

constexpr int64_t kPage = 4096, kHugePage = 2 << 20;

}  // namespace

int64_t PhysicalMemoryBytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

CpuBlock::CpuBlock(int64_t bytes, const char* what) : size_(bytes) {
  if (bytes == 0) return;
  const int64_t alignment = bytes >= kHugePage ? kHugePage : kPage;
  const int64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* p = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(rounded));
  if (p == nullptr)
    Fail(ErrorCode::kOutOfMemory, "cannot allocate ", bytes, " bytes for the ", what);
  // Fewer page faults and TLB misses; where it is not supported nothing is lost.
  if (alignment == kHugePage) madvise(p, static_cast<size_t>(rounded), MADV_HUGEPAGE);
  std::memset(p, 0, static_cast<size_t>(rounded));
  data_.reset(static_cast<char*>(p));
}

void CpuBlock::Free::operator()(char* p) const { std::free(p); }

CpuMemory::CpuMemory(const Plan& plan) {
  // Linux grants more than there is and kills later, so ask first.
  const int64_t wanted = plan.state_bytes + plan.arena_bytes + plan.io_bytes;
  if (wanted > PhysicalMemoryBytes()) {
    Fail(ErrorCode::kOutOfMemory, "plan ", plan.name, " needs ", wanted,
         " bytes, this machine has ", PhysicalMemoryBytes());
  }
  state_ = CpuBlock(plan.state_bytes, "state");
  arena_ = CpuBlock(plan.arena_bytes, "arena");
  io_ = CpuBlock(plan.io_bytes, "inputs and outputs");
}

char* CpuMemory::At(BufferRef buffer) const {
  switch (buffer.space) {
    case Space::kState:
      return state_.data() + buffer.offset;
    case Space::kArena:
      return arena_.data() + buffer.offset;
    case Space::kIo:
      return io_.data() + buffer.offset;
    case Space::kNone:
      break;
  }
  return nullptr;
}

}  // namespace stator
