#include "ir/op_registry.h"

#include "ir/base/error.h"
#include "ir/ops/ops.h"

#include <algorithm>

namespace stator {
namespace {

int EditDistance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

void OpRegistry::Add(OpDef def) {
  const std::string name = def.name;
  if (name.empty()) Fail(ErrorCode::kInvalidArgument, "an op record needs a name");
  if (!def.infer && def.op_class != OpClass::kElementwise) {
    Fail(ErrorCode::kInvalidArgument, name, ": an op record needs type inference");
  }
  if (def.op_class == OpClass::kComposite && !def.expand) {
    Fail(ErrorCode::kInvalidArgument, name, ": a composite op needs an expansion");
  }
  if (def.op_class == OpClass::kElementwise && def.scalar.empty()) {
    Fail(ErrorCode::kInvalidArgument, name, ": an elementwise op needs a scalar expression");
  }
  if (!ops_.emplace(name, std::move(def)).second) {
    Fail(ErrorCode::kInvalidArgument, "op ", name, " is already registered");
  }
}

const OpDef* OpRegistry::Find(std::string_view name) const {
  const auto it = ops_.find(name);
  return it == ops_.end() ? nullptr : &it->second;
}

const OpDef& OpRegistry::Get(std::string_view name) const {
  if (const OpDef* def = Find(name)) return *def;
  std::string_view nearest;
  int best = 3;
  for (const auto& [known, def] : ops_) {
    const int d = EditDistance(name, known);
    if (d < best) best = d, nearest = known;
  }
  if (nearest.empty()) Fail(ErrorCode::kInvalidArgument, "unknown op ", name);
  Fail(ErrorCode::kInvalidArgument, "unknown op ", name, "; did you mean ", nearest);
}

std::vector<const OpDef*> OpRegistry::All() const {
  std::vector<const OpDef*> all;
  for (const auto& [name, def] : ops_) all.push_back(&def);
  return all;
}

const OpRegistry& DefaultOps() {
  static const OpRegistry* const kOps = [] {
    auto* ops = new OpRegistry;
    AddDefaultOps(*ops);
    return ops;
  }();
  return *kOps;
}

}  // namespace stator
