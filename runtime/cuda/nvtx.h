// Named ranges of the host's timeline, which Nsight shows; free of cost when no tool listens.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <string>

namespace stator {

class NvtxRange {
 public:
  explicit NvtxRange(const std::string& name) { (void)nvtxRangePushA(name.c_str()); }
  ~NvtxRange() { (void)nvtxRangePop(); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace stator
