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
  for (const Param& p : graph.states()) {
    if (given.contains(p.name)) continue;
    const bool parameter = p.node->view().Str("role") == "parameter";
    given.emplace(p.name,
                  parameter ? RandomTensor(p.name, p.node->type()) : Tensor(p.node->type()));
    if (!IsShadow(*p.node)) continue;
    const Tensor& master = given.at(ShadowedName(p.name));
    for (int64_t k = 0; k < master.size(); ++k) given.at(p.name).Set(k, master.Get(k));
  }
  return given;
}

}  // namespace stator::testing
