// Errors: what a user or the environment did wrong is an `Error`; what we did wrong is a CHECK.
#pragma once

#include "ir/base/str.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace stator {

enum class ErrorCode {
  kInvalidArgument,  // a value, shape or option that cannot work
  kParse,            // malformed text or file contents
  kIo,               // the file system or a stream failed
  kEnvironment,      // a library, driver or compiler is missing or does not fit
  kOutOfMemory,      // a byte budget or the device cannot hold the plan
  kUnsupported,      // legal, but not implemented for this target
  kRemote,           // another rank failed
};

// A fault of the user or the world. The message is lower case, without a full stop, and carries
// the values: `matmul: inner dimensions differ: 768 vs 512 (h.3/mlp/up)`.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

template <typename... Parts>
[[noreturn]] void Fail(ErrorCode code, const Parts&... parts) {
  throw Error(code, StrCat(parts...));
}

// Prints the location and `detail`, then aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& detail);

}  // namespace stator

#define STATOR_CHECK(condition, ...)                                                        \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      ::stator::CheckFailed(__FILE__, __LINE__, #condition, ::stator::StrCat(__VA_ARGS__)); \
    }                                                                                       \
  } while (false)
