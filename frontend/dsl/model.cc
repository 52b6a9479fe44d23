#include "frontend/dsl/model.h"

#include "frontend/dsl/emit.h"
#include "frontend/dsl/initializer.h"
#include "frontend/dsl/loss.h"
#include "ir/base/error.h"
#include "ir/training.h"

#include <algorithm>
#include <cctype>

namespace stator::dsl {
namespace {

// Files of this library are no help in an error: its author looks for a line of their own.
bool InLibrary(std::string_view file) {
  return file.find("frontend/dsl/") != file.npos && file.find("tests/") == file.npos;
}

std::string LineText(const Location& loc) {
  std::string_view file = loc.file;
  if (const size_t slash = file.rfind('/'); slash != file.npos) file.remove_prefix(slash + 1);
  return StrCat(" at ", file, ':', loc.line);
}

void CheckName(const std::string& name, std::string_view what, const std::string& parent) {
  const bool ok = !name.empty() && name.front() != '/' && name.back() != '/' &&
                  std::all_of(name.begin(), name.end(), [](unsigned char c) {
                    return std::isalnum(c) || c == '_' || c == '.' || c == '-' || c == '/';
                  });
  if (ok) return;
  Fail(ErrorCode::kInvalidArgument, what, " \"", name, "\" in \"", parent,
       "\": a name has letters, digits and _ . - /");
}

}  // namespace

Model& Tensor::model() const {
  if (model_ == nullptr) Fail(ErrorCode::kInvalidArgument, "tensor refers to nothing");
  return *model_;
}

int64_t Tensor::dim(int axis) const {
  return shape()[NormalizeAxis(axis, rank(), StrCat("dim (", scope().path(), ')'))];
}

Scope Tensor::scope() const { return Scope(&model(), scope_); }

Tensor Tensor::In(const Scope& scope) const { return model().Wrap(value_, scope); }

Scope Scope::operator/(const ScopeName& name) const {
  return Scope(model_, model_->Child(id_, name));
}

Scope Scope::parent() const { return Scope(model_, model_->scopes_[id_].parent); }
const std::string& Scope::path() const { return model_->scopes_[id_].path; }

Tensor Scope::Parameter(const std::string& name, const Dims& shape, const std::string& init,
                        const ParameterOptions& options, Location loc) const {
  CheckName(name, "parameter", path());
  const std::string full = path().empty() ? name : StrCat(path(), '/', name);
  const std::string what = StrCat("parameter ", full);
  if (model_->graph().FindState(full) || model_->graph().FindInput(full)) {
    FailAt(what, *this, loc, "already declared; to share it, pass its Tensor on");
  }
  if (std::any_of(shape.begin(), shape.end(), [](int64_t d) { return d < 0; })) {
    FailAt(what, *this, loc, StrCat("sizes must not be negative: ", shape));
  }
  ParseInitializer(init);
  const Value v = model_->graph().AddState(
      full, {options.dtype, shape},
      {{"role", std::string("parameter")}, {"trainable", options.trainable}, {"init", init}});
  return model_->Wrap(v, *this);
}

Tensor Scope::Constant(double value, const Dims& shape, DType dtype) const {
  return model_->Wrap(model_->BuilderAt(*this).Constant(value, dtype, shape), *this);
}

Tensor Scope::Iota(const Dims& shape, int axis, DType dtype) const {
  return model_->Wrap(model_->BuilderAt(*this).Iota(dtype, shape, axis), *this);
}

Model::Model(const std::string& name, Mode mode, const OpRegistry& ops)
    : graph_(std::make_unique<Graph>(name, ops)), mode_(mode), builder_(*graph_) {
  scopes_.push_back({"", 0, Location()});
  scope_ids_[""] = 0;
}

Model::~Model() = default;

Tensor Model::Input(const std::string& name, const Dims& shape, DType dtype, Location loc) {
  CheckName(name, "input", "");
  if (graph_->FindInput(name) || graph_->FindState(name)) {
    FailAt(StrCat("input ", name), scope(), loc, "already declared");
  }
  return Wrap(graph_->AddInput(name, {dtype, shape}), scope());
}

Tensor Model::Seed() {
  const std::string name(training::kSeed);
  Value v = graph_->FindState(name);
  if (!v) v = graph_->AddState(name, {kU32, {2}}, {{"role", std::string("seed")}});
  return Wrap(v, scope());
}

Tensor Model::Step() {
  const std::string name(training::kStep);
  Value v = graph_->FindState(name);
  if (!v) v = graph_->AddState(name, {kI64, {}}, {{"role", std::string("counter")}});
  return Wrap(v, scope());
}

int64_t Model::NewStream(const Scope& scope) {
  // Generators take 32 bits of a stream (ir/philox.h); a hash that is taken already tries again.
  for (;;) {
    const int nth = streams_[scope.id_]++;
    const auto stream = static_cast<uint32_t>(HashBytes(StrCat(scope.path(), '#', nth)));
    if (taken_streams_.insert(stream).second) return stream;
  }
}

void Model::SetLoss(const Loss& loss) {
  const auto scalar = [&](const Tensor& t, std::string_view what) {
    if (t.dtype() == kF32 && t.rank() == 0) return;
    Fail(ErrorCode::kInvalidArgument, what, " must be f32[], got ", t.value().type().ToString());
  };
  scalar(loss.mean, "loss");
  Output(std::string(training::kLoss), loss.mean);
  if (!loss.weight.defined()) return;
  scalar(loss.weight, "loss weight");
  Output(std::string(training::kWeight), loss.weight);
}

void Model::Output(const std::string& name, const Tensor& value) {
  CheckName(name, "output", "");
  for (const stator::Output& o : graph_->outputs()) {
    if (o.name == name) Fail(ErrorCode::kInvalidArgument, "output ", name, " is already declared");
  }
  if (&value.model() != this) {
    Fail(ErrorCode::kInvalidArgument, "output ", name, " belongs to another model");
  }
  graph_->AddOutput(name, value.value());
}

void Model::Freeze(std::string_view pattern) {
  int matched = 0;
  for (const Param& p : graph_->states()) {
    if (p.node->view().Str("role") != "parameter" || !GlobMatch(pattern, p.name)) continue;
    p.node->SetAttr("trainable", false);
    ++matched;
  }
  if (matched == 0) {
    Fail(ErrorCode::kInvalidArgument, "freeze: no parameter matches \"", pattern, '"');
  }
}

int64_t Model::NumParameters() const {
  int64_t n = 0;
  for (const Param& p : graph_->states()) {
    if (p.node->view().Str("role") == "parameter") n += p.node->type().NumElements();
  }
  return n;
}

Tensor Model::FindParameter(std::string_view path) {
  const Value v = graph_->FindState(path);
  if (!v || v.node->view().Str("role") != "parameter") {
    Fail(ErrorCode::kInvalidArgument, "no parameter is named ", path);
  }
  const size_t slash = path.rfind('/');
  const auto it = scope_ids_.find(std::string(slash == path.npos ? "" : path.substr(0, slash)));
  return Wrap(v, Scope(this, it == scope_ids_.end() ? 0 : it->second));
}

Tensor Model::Wrap(Value v, const Scope& scope) {
  Tensor t;
  t.value_ = v;
  t.model_ = this;
  t.scope_ = scope.id_;
  t.order_ = ++order_;
  return t;
}

Builder& Model::BuilderAt(const Scope& scope) {
  STATOR_CHECK(graph_ != nullptr, "model used after its graph was released");
  builder_.SetScope(scope.path());
  return builder_;
}

std::string Model::Where(const Scope& scope, const Location& loc) const {
  if (loc.line != 0 && !InLibrary(loc.file)) return LineText(loc);
  for (int id = scope.id_; id != 0; id = scopes_[id].parent) {
    if (!InLibrary(scopes_[id].loc.file)) return LineText(scopes_[id].loc);
  }
  return "";
}

int Model::Child(int parent, const ScopeName& name) {
  const std::string& outer = scopes_[parent].path;
  CheckName(name.text, "scope", outer);
  const std::string path = parent == 0 ? name.text : StrCat(outer, '/', name.text);
  const auto [it, inserted] = scope_ids_.emplace(path, static_cast<int>(scopes_.size()));
  if (inserted) scopes_.push_back({path, parent, name.loc});
  return it->second;
}

}  // namespace stator::dsl
