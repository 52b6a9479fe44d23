// Model: owns the graph that a DSL program declares. Scope: a path in it, which names parameters,
// nodes, errors, kernels and checkpoint entries: `h.3/mlp/up`.
#pragma once

#include "frontend/dsl/tensor.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace stator::dsl {

struct Loss;

enum class Mode {
  kTrain,
  kEvaluate,  // dropout does nothing; parameters and names are the same
};

// A path component and the line that wrote it.
struct ScopeName {
  template <typename T>
  requires std::convertible_to<T, std::string> ScopeName(const T& t,
                                                         Location l = Location::current())
      : text(t), loc(l) {}
  std::string text;
  Location loc;
};

struct ParameterOptions {
  bool trainable = true;  // false: frozen, no gradient and no optimizer state
  DType dtype = kF32;
};

class Scope {
 public:
  Scope operator/(const ScopeName& name) const;
  Scope parent() const;
  const std::string& path() const;  // "" for the root
  Model& model() const { return *model_; }

  // Declares the parameter `path/name`; `init` as in frontend/dsl/initializer.h. Throws `Error`
  // when it exists already: to share a parameter (tied weights), pass its Tensor on.
  Tensor Parameter(const std::string& name, const Dims& shape, const std::string& init,
                   const ParameterOptions& options = {}, Location loc = Location::current()) const;
  // Scalar or tensor constant, and 0, 1, 2, ... along `axis`.
  Tensor Constant(double value, const Dims& shape = {}, DType dtype = kF32) const;
  Tensor Iota(const Dims& shape, int axis, DType dtype = kI32) const;

 private:
  friend class Model;
  friend class Tensor;
  Scope(Model* model, int id) : model_(model), id_(id) {}
  Model* model_;
  int id_;
};

class Model {
 public:
  // `ops`: what the model may use, a user's own ops among them; it must outlive the model.
  explicit Model(const std::string& name, Mode mode = Mode::kTrain,
                 const OpRegistry& ops = DefaultOps());
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model();

  Mode mode() const { return mode_; }
  bool training() const { return mode_ == Mode::kTrain; }
  Graph& graph() { return *graph_; }
  const Graph& graph() const { return *graph_; }
  // Hands the graph over; the model and its tensors are of no use afterwards.
  std::unique_ptr<Graph> Release() { return std::move(graph_); }

  Scope scope() { return Scope(this, 0); }  // the root
  // A data input, fed for every step: token ids, targets, features.
  Tensor Input(const std::string& name, const Dims& shape, DType dtype,
               Location loc = Location::current());

  // The key of every random stream, u32[2], and the step counter, i64[]: states named as in
  // ir/training.h, declared on first use.
  Tensor Seed();
  Tensor Step();
  // The stream of random numbers of a dropout at `scope`: a hash of its path and of how many the
  // scope has had before.
  int64_t NewStream(const Scope& scope);

  // Adds the outputs "loss" and, where the loss counts tokens, "weight" (ir/training.h).
  void SetLoss(const Loss& loss);
  // A further named output: a metric, logits.
  void Output(const std::string& name, const Tensor& value);

  // Makes the parameters that match the glob frozen. Throws `Error` when none does.
  void Freeze(std::string_view pattern);
  int64_t NumParameters() const;                // elements of all parameters, frozen ones included
  Tensor FindParameter(std::string_view path);  // throws `Error` when absent

  // The rest is for op functions and layers.
  Tensor Wrap(Value v, const Scope& scope);
  Builder& BuilderAt(const Scope& scope);
  // " at model.cc:12": `loc`, or, where that is inside this library, the user's line that opened
  // the nearest enclosing scope. "" when there is none.
  std::string Where(const Scope& scope, const Location& loc) const;

 private:
  friend class Scope;
  friend class Tensor;
  struct ScopeEntry {
    std::string path;
    int parent;
    Location loc;
  };
  int Child(int parent, const ScopeName& name);

  std::unique_ptr<Graph> graph_;
  Mode mode_;
  Builder builder_;
  int order_ = 0;
  std::vector<ScopeEntry> scopes_;
  std::map<std::string, int> scope_ids_;
  std::map<int, int> streams_;  // how many a scope has had
  std::set<uint32_t> taken_streams_;
};

}  // namespace stator::dsl
