#include "frontend/cli/version.h"

namespace stator {

std::string VersionText() {
#ifdef STATOR_WITH_CUDA
  return "stator 0.1.0 (CPU and CUDA)";
#else
  return "stator 0.1.0 (CPU)";
#endif
}

}  // namespace stator
