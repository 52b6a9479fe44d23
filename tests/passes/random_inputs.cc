#include "tests/passes/random_inputs.h"

#include "ir/base/str.h"
#include "passes/analysis/shadows.h"

namespace stator::testing {
namespace {

Tensor RandomTensor(const std::string& name, const Type& type) {
  Tensor t(type);
  for (int64_t k = 0; k < t.size(); ++k) {
    const uint64_t hash = HashBytes(StrCat(name, '/', k));
    if (IsFloat(type.dtype)) {
      t.Set(k, static_cast<double>(hash >> 11) * 0x1p-52 - 1);
    } else {
      t.SetInt(k, static_cast<int64_t>(hash % (type.dtype == DType::kBool ? 2 : 3)));
    }
  }
  return t;
}

}  // namespace

std::map<std::string, Tensor> RandomParams(const Graph& graph,
                                           std::map<std::string, Tensor> given) {
  for (const Param& p : graph.inputs()) {
    if (!given.contains(p.name)) given.emplace(p.name, RandomTensor(p.name, p.node->type()));
  }
  const auto whole = [&](const std::string& name, const Dims& shape) {
    return given.contains(name) ? given.at(name) : RandomTensor(name, {DType::kF32, shape});
  };
  for (const Param& p : graph.states()) {
    if (given.contains(p.name)) continue;
    const Type& type = p.node->type();
    const std::string& half_of = p.node->view().Str("half_of");
    if (!half_of.empty()) {
      given.emplace(p.name, HalfOf(whole(half_of, type.shape), type.dtype));
    } else if (IsShadow(*p.node)) {
      const Tensor master = whole(ShadowedName(p.name), type.shape);
      Tensor& shadow = given.emplace(p.name, Tensor(type)).first->second;
      for (int64_t k = 0; k < master.size(); ++k) shadow.Set(k, master.Get(k));
    } else {
      const bool parameter = p.node->view().Str("role") == "parameter";
      given.emplace(p.name, parameter ? RandomTensor(p.name, type) : Tensor(type));
    }
  }
  return given;
}

}  // namespace stator::testing
