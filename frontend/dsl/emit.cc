#include "frontend/dsl/emit.h"

#include "ir/base/error.h"

namespace stator::dsl {

Scope ScopeOf(std::string_view what, std::span<const Tensor> operands, const Location& loc) {
  const Tensor* latest = nullptr;
  for (const Tensor& t : operands) {
    if (!t.defined()) continue;
    if (latest != nullptr && &t.model() != &latest->model()) {
      FailAt(what, latest->scope(), loc, "operands belong to different models");
    }
    if (latest == nullptr || t.MadeAfter(*latest)) latest = &t;
  }
  if (latest == nullptr) Fail(ErrorCode::kInvalidArgument, what, ": operand refers to nothing");
  return latest->scope();
}

Tensors EmitAt(const Scope& scope, const Location& loc, const BuildFn& build) {
  Model& model = scope.model();
  try {
    Tensors results;
    for (const Value& v : build(model.BuilderAt(scope))) results.push_back(model.Wrap(v, scope));
    return results;
  } catch (const Error& e) {
    std::string text = e.what();
    // Most errors of the IR name the node's scope; those from before there is a node do not.
    const std::string& path = scope.path();
    if (text.find(path) == text.npos) text += StrCat(" (", path, ')');
    throw Error(e.code(), text + model.Where(scope, loc));
  }
}

Tensor Emit(std::string_view what, std::initializer_list<Tensor> operands, const Location& loc,
            const std::function<Value(Builder&)>& build) {
  for (const Tensor& t : operands) {
    if (!t.defined()) Fail(ErrorCode::kInvalidArgument, what, ": operand refers to nothing");
  }
  const Scope scope = ScopeOf(what, {operands.begin(), operands.size()}, loc);
  return EmitAt(scope, loc, [&](Builder& b) { return Values{build(b)}; })[0];
}

void FailAt(std::string_view what, const Scope& scope, const Location& loc,
            const std::string& message) {
  const std::string path = scope.path().empty() ? "" : StrCat(" (", scope.path(), ')');
  Fail(ErrorCode::kInvalidArgument, what, path, ": ", message, scope.model().Where(scope, loc));
}

}  // namespace stator::dsl
