#include "frontend/driver/check_programs.h"

#include "frontend/driver/report.h"
#include "ir/base/error.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace stator {
namespace {

constexpr double kReferenceCost =
    2e10;  // operations of an update that the interpreter is asked for

std::map<std::string, std::vector<char>> ReadOutputs(Executor& executor, const Program& program) {
  std::map<std::string, std::vector<char>> outputs;
  for (const PlanOutput& o : program.outputs) {
    outputs["output " + o.name] = executor.ReadBuffer(o.buffer, o.type.Bytes());
  }
  return outputs;
}

// What the state table holds for `state`, be it half of an entry.
Tensor StateTensor(const Param& state, const std::map<std::string, std::vector<char>>& table) {
  const Type& type = state.node->type();
  const std::string& whole = state.node->view().Str("half_of");
  if (whole.empty()) return Tensor::FromBytes(type, table.at(state.name).data());
  Type joined = type;
  joined.dtype = DType::kF32;
  return HalfOf(Tensor::FromBytes(joined, table.at(whole).data()), type.dtype);
}

// "matmul f32[4,8] (h.0/mlp/up), by step 12 matmul"
std::string Where(const Program& program, const StepValue& v) {
  const Node& n = *v.value.node;
  return StrCat(n.op().name, " ", v.value.type().ToString(), n.scope().empty() ? "" : " (",
                n.scope(), n.scope().empty() ? "" : ")", ", by step ", v.step, " ",
                program.steps[v.step].name);
}

}  // namespace

ProgramCheck::ProgramCheck(CheckedPlan fused, CheckedPlan unfused, std::string reference)
    : fused_(std::move(fused)), unfused_(std::move(unfused)), reference_(std::move(reference)) {}

ProgramCheck::States ProgramCheck::ReadStates(Executor& executor) const {
  States states;
  for (const StateEntry& s : executor.plan().states) states[s.name] = executor.ReadState(s.name);
  return states;
}

bool ProgramCheck::WantsReference(const Graph& graph) const {
  return reference_ == "yes" || (reference_ == "auto" && ReferenceCost(graph) <= kReferenceCost);
}

ProgramCheck::Stored ProgramCheck::RunUnfused(const std::string& name, const Feed& feed,
                                              const States& before, ProgramFindings& found) {
  Executor& executor = *unfused_.executor;
  const Program& program = *executor.plan().FindProgram(name);
  const Graph& graph = *unfused_.graphs.at(name);
  std::optional<ReferenceWalk> walk;
  if (WantsReference(graph)) {
    std::map<std::string, Tensor> params;
    for (const Param& p : graph.inputs())
      params[p.name] = Tensor::FromBytes(p.node->type(), feed.at(p.name).data());
    for (const Param& p : graph.states()) params[p.name] = StateTensor(p, before);
    walk.emplace(graph, std::move(params));
  } else if (reference_ != "no") {
    found.lines.push_back(
        Format("interpreter         not asked: %.3g operations", ReferenceCost(graph)));
  }
  std::set<Key> wanted;  // by the fused plan too
  for (const StepValue& v : fused_.values[name]) wanted.insert({v.value.node->id(), v.value.index});

  Stored stored;
  int compared = 0, exact = 0, differing = 0;
  double nearest = 0;  // largest difference, as a part of what is allowed
  std::string nearest_text, first;
  auto next = unfused_.values[name].begin();
  const auto end = unfused_.values[name].end();
  executor.RunStepwise(name, feed, [&](int step, Executor& self) {
    for (; next != end && next->step == step; ++next) {
      const Value v = next->value;
      std::vector<char> bytes = self.ReadBuffer(next->buffer, v.type().Bytes());
      if (walk) {
        const Difference d = walk->Check(v, Tensor::FromBytes(v.type(), bytes.data()));
        const double allowed = ToleranceOf(*v.node);
        ++compared;
        exact += d.largest == 0 && d.count == 0;
        differing += d.count > 0;
        if (d.count > 0 && first.empty()) first = StrCat(Where(program, *next), ": ", d.ToString());
        if (d.largest / allowed > nearest) {
          nearest = d.largest / allowed;
          nearest_text = StrCat("; nearest to its limit: ", v.node->op().name, " (",
                                v.node->scope(), "), ", Format("%.2g of %.2g", d.largest, allowed));
        }
      }
      if (wanted.contains({v.node->id(), v.index}))
        stored[{v.node->id(), v.index}] = std::move(bytes);
    }
  });
  if (!walk) return stored;
  if (differing == 0) {
    found.lines.push_back(StrCat("interpreter         ", compared, " values agree, ", exact,
                                 " of them to the bit", nearest_text));
  } else {
    found.agree = false;
    found.lines.push_back(StrCat(
        "interpreter         ", differing, " of ", compared,
        " values differ, each on the operands that the plan computed; the first is ", first));
  }
  return stored;
}

void ProgramCheck::RunFused(const std::string& name, const Feed& feed, const Stored& want,
                            ProgramFindings& found) {
  Executor& executor = *fused_.executor;
  const Program& program = *executor.plan().FindProgram(name);
  int compared = 0, differing = 0;
  std::string first;
  auto next = fused_.values[name].begin();
  const auto end = fused_.values[name].end();
  executor.RunStepwise(name, feed, [&](int step, Executor& self) {
    for (; next != end && next->step == step; ++next) {
      const Value v = next->value;
      const auto it = want.find({v.node->id(), v.index});
      if (it == want.end()) continue;
      const std::vector<char> bytes = self.ReadBuffer(next->buffer, v.type().Bytes());
      STATOR_CHECK(bytes.size() == it->second.size(), "node ", v.node->id(),
                   " is not the same in both plans");
      ++compared;
      if (bytes == it->second) continue;
      const Difference d = Compare(Tensor::FromBytes(v.type(), bytes.data()),
                                   Tensor::FromBytes(v.type(), it->second.data()), 0);
      if (d.count == 0) continue;  // NaNs of other bits
      ++differing;
      if (!first.empty()) continue;
      first = StrCat(Where(program, *next), ": ", d.ToString());
    }
  });
  if (differing == 0) {
    found.lines.push_back(StrCat("fused = unfused     ", compared, " values, to the bit"));
  } else {
    found.agree = false;
    found.lines.push_back(StrCat("fused and unfused   ", differing, " of ", compared,
                                 " values differ; the first is ", first));
  }
}

void ProgramCheck::CompareEnds(const std::string& what, const States& got, const States& want,
                               ProgramFindings& found) const {
  for (const auto& [name, bytes] : want) {
    if (got.at(name) == bytes) continue;
    found.agree = false;
    found.lines.push_back(StrCat(what, ": ", name, " differs at the end"));
    return;
  }
}

ProgramFindings ProgramCheck::Run(const std::string& name, const Feed& feed) {
  Executor &fused = *fused_.executor, &unfused = *unfused_.executor;
  const Program* program = fused.plan().FindProgram(name);
  STATOR_CHECK(program != nullptr, "the plan has no program ", name);
  ProgramFindings found;
  const auto write = [](Executor& to, const States& states) {
    for (const auto& [state, bytes] : states) to.WriteState(state, bytes);
  };
  const auto ends = [&](Executor& executor) {
    States all = ReadStates(executor);
    all.merge(ReadOutputs(executor, *executor.plan().FindProgram(name)));
    return all;
  };
  const States before = ReadStates(fused);
  write(unfused, before);
  const Stored stored = RunUnfused(name, feed, before, found);
  const States want = ends(unfused);
  RunFused(name, feed, stored, found);
  const States stepwise = ends(fused);
  CompareEnds("fused and unfused", stepwise, want, found);
  write(fused, before);
  fused.Wait(fused.Enqueue(name, feed));
  CompareEnds("replayed and stepwise", ends(fused), stepwise, found);
  if (found.agree) found.lines.push_back("replayed = stepwise states and outputs, to the bit");
  for (const PlanOutput& o : program->outputs) {
    if (o.type.NumElements() == 1) {
      found.scalars.push_back(
          {o.name, Tensor::FromBytes(o.type, stepwise.at("output " + o.name).data()).Get(0)});
    }
  }
  return found;
}

}  // namespace stator
