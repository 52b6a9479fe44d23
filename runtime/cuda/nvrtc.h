// CUDA C++ source to machine code with NVRTC. Needs libnvrtc alone: neither a GPU nor a driver.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stator {

class KernelCache;

// Compiles for compute capability `sm` (90 means 9.0), fused multiply-add only where the source
// asks for it, IEEE division and square root, denormals kept. Sources that use instructions of one
// architecture alone (wgmma, setmaxnreg, tcgen05) get its `a` variant. The source stands alone: no
// include paths are given. Throws `Error` with `name`, the compiler's log and the lines it names.
// `report` gets what the assembler says of registers, spills and lost speed.
std::vector<char> CompileCuda(const std::string& source, int sm, const std::string& name,
                              std::string* report = nullptr);

// "13.0", of the library that was loaded.
std::string NvrtcVersion();

// The cache key of a source: its text, the architecture and the compiler's version and options.
std::string CudaSourceKey(std::string_view source, int sm);

struct CudaSource {
  std::string name;  // for errors
  std::string_view source;
};

// Cubins of all sources, from the cache where it has them, otherwise compiled in parallel threads
// and stored, the source beside it. The first error in the order of `sources` is thrown.
std::vector<std::vector<char>> CompileCudaCached(std::span<const CudaSource> sources, int sm,
                                                 KernelCache& cache);

}  // namespace stator
