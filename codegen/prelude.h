// The text at the head of every generated translation unit: storage types, conversions, the scalar
// language's helpers (ir/ops/elementwise.cc lists their semantics), lane folds.
#pragma once

#include "codegen/plan.h"

#include <string>

namespace stator {

const std::string& Prelude(Language language);

}  // namespace stator
