// How op functions and layers make nodes: in the scope their operands imply, with errors that name
// the scope and the user's line.
#pragma once

#include "frontend/dsl/model.h"
#include "ir/base/str.h"

#include <functional>
#include <initializer_list>
#include <span>

namespace stator::dsl {

using BuildFn = std::function<Values(Builder&)>;

// The scope of the operand whose handle was made last. Absent operands are skipped. Throws `Error`
// when all are absent or they belong to different models; `what` names the op.
Scope ScopeOf(std::string_view what, std::span<const Tensor> operands, const Location& loc);

// Runs `build` with a builder in `scope`. An `Error` from it gets the line appended.
Tensors EmitAt(const Scope& scope, const Location& loc, const BuildFn& build);
Tensor Emit(std::string_view what, std::initializer_list<Tensor> operands, const Location& loc,
            const std::function<Value(Builder&)>& build);

// Throws `Error`: `what (h.3/mlp): message at model.cc:12`.
[[noreturn]] void FailAt(std::string_view what, const Scope& scope, const Location& loc,
                         const std::string& message);

}  // namespace stator::dsl
