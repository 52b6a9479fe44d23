// The set of ops a graph may use. The default set is a constant; a user's own ops extend a copy.
#pragma once

#include "ir/op_def.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stator {

class OpRegistry {
 public:
  // Throws `Error` when the name is taken or the record is incomplete for its class.
  void Add(OpDef def);
  const OpDef* Find(std::string_view name) const;  // null when absent
  const OpDef& Get(std::string_view name) const;   // throws `Error`, suggesting near names
  // In name order.
  std::vector<const OpDef*> All() const;

 private:
  std::map<std::string, OpDef, std::less<>> ops_;
};

// Every op in ir/ops/.
const OpRegistry& DefaultOps();

}  // namespace stator
