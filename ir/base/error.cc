#include "ir/base/error.h"

#include <cstdio>
#include <cstdlib>

namespace stator {

void CheckFailed(const char* file, int line, const char* condition, const std::string& detail) {
  std::fprintf(stderr, "stator: internal error at %s:%d: %s\n%s\n", file, line, condition,
               detail.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace stator
