// The parts of the preludes that belong to one language; prelude.cc puts them around what both
// share.
#pragma once

namespace stator {

extern const char* const kCppHead;
extern const char* const kCppHalf;
extern const char* const kCppTail;
extern const char* const kCudaHead;
extern const char* const kCudaTail;

}  // namespace stator
