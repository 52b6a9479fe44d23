// What cuDNN's attention can stand for: one rule for the live device and for recorded ones.
#pragma once

#include "ir/target.h"

#include <string>

namespace stator {

// Why cuDNN's graphs cannot compute what is asked, whatever the device; "" when they may.
std::string WhyNotFused(const AttentionQuery& query);

}  // namespace stator
