#include "codegen/plan.h"

namespace stator {

const Program* Plan::FindProgram(std::string_view wanted) const {
  for (const Program& program : programs) {
    if (program.name == wanted) return &program;
  }
  return nullptr;
}

const StateEntry* Plan::FindState(std::string_view wanted) const {
  for (const StateEntry& state : states) {
    if (state.name == wanted) return &state;
  }
  return nullptr;
}

}  // namespace stator
