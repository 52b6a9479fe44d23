#include "codegen/program_builder.h"

#include "codegen/merge_calls.h"
#include "codegen/prelude.h"
#include "ir/base/error.h"
#include "ir/facts.h"
#include "ir/storage.h"
#include "ir/views.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace stator {
namespace {

// Of the buffers of different kernels in one launch, at most: what moves more takes longer than a
// launch, and is better off with registers and threads of its own.
constexpr int64_t kMixedBytes = 32 << 20;

// Of what a kernel may touch of an argument.
int64_t BytesFrom(const KernelArg& arg) {
  return arg.value.type().Bytes() - arg.first * ByteWidth(arg.value.dtype());
}

// The two halves of a state are one entry.
std::string EntryName(const Param& state) {
  const std::string& whole = state.node->view().Str("half_of");
  return whole.empty() ? state.name : whole;
}

std::string FormOf(const StateEntry& state) {
  return state.type.ToString() + (state.halves ? " in halves" : "");
}

}  // namespace

PlanBuilder::PlanBuilder(const Target& target, const BuildOptions& options)
    : language_(target.kind() == DeviceKind::kCuda ? Language::kCuda : Language::kCpp),
      limits_(LimitsOf(target.sm())),
      deterministic_(options.deterministic),
      values_(options.values),
      merge_(options.merge) {
  plan_.name = options.plan_name;
  plan_.device = target.kind();
  plan_.target = target.kind() == DeviceKind::kCuda ? StrCat("sm_", target.sm()) : target.name();
}

void PlanBuilder::AddStates(const Graph& graph) {
  for (const Param& p : graph.states()) {
    const OpView op = p.node->view();
    const bool half = !op.Str("half_of").empty();
    StateEntry entry{EntryName(p),         p.node->type(),     plan_.state_bytes,
                     op.Str("role"),       op.Str("group"),    op.Str("init"),
                     op.Bool("trainable"), op.Bool("derived"), half};
    if (half) entry.type.dtype = DType::kF32;
    const auto [it, fresh] = state_index_.emplace(entry.name, plan_.states.size());
    if (!fresh) {
      const StateEntry& known = plan_.states[it->second];
      if (known.type != entry.type || known.halves != half) {
        Fail(ErrorCode::kInvalidArgument, "state ", entry.name, " is ", FormOf(known),
             " in one program and ", FormOf(entry), " in ", graph.name());
      }
      continue;
    }
    plan_.state_bytes += AlignBuffer(std::max<int64_t>(entry.StoredBytes(), 1));
    plan_.states.push_back(std::move(entry));
  }
}

BufferRef PlanBuilder::StateBuffer(const Param& state) const {
  const StateEntry& entry = plan_.states[state_index_.at(EntryName(state))];
  const bool low = entry.halves && state.node->type().dtype == DType::kU16;
  return {Space::kState, entry.offset + (low ? entry.LowHalves() : 0)};
}

int64_t PlanBuilder::AddIo(const Type& type) {
  const int64_t at = plan_.io_bytes;
  plan_.io_bytes += AlignBuffer(std::max<int64_t>(type.Bytes(), 1));
  return at;
}

void PlanBuilder::BeginProgram(const std::string& name, const Graph& graph, size_t steps) {
  plan_.programs.emplace_back();
  program_ = &plan_.programs.back();
  program_->name = name;
  program_->steps.reserve(steps);
  graph_ = &graph;
  inputs_.clear();
  outputs_.clear();
  arguments_.clear();
  traffic_.clear();
  step_of_region_.clear();
  last_step_.clear();
  wait_ = -1;
  joins_.clear();
  for (const Param& p : graph.inputs()) {
    PlanInput input{p.name, p.node->type(), {Space::kIo, AddIo(p.node->type())}};
    input.below = p.node->IntFact(fact::kBelow, 0);
    input.has_ignored = p.node->HasFact(fact::kIgnored);
    input.ignored = p.node->IntFact(fact::kIgnored, 0);
    inputs_[p.node] = input.buffer;
    program_->inputs.push_back(std::move(input));
  }
  for (const Output& o : graph.outputs()) {
    const std::string output = o.name.empty() ? StrCat("result", program_->outputs.size()) : o.name;
    program_->outputs.push_back({output, o.value.type(), {Space::kIo, AddIo(o.value.type())}});
    // What the arena would hold to the end is computed where it is read.
    if (StorageOf(o.value).space == Space::kArena)
      outputs_.emplace(o.value, program_->outputs.back().buffer);
  }
}

BufferRef PlanBuilder::BufferOf(Value base) const {
  if (base.node->Is("input")) return inputs_.at(base.node);
  if (base.node->Is("state")) return StateBuffer({graph_->ParamName(base.node), base.node});
  if (const auto output = outputs_.find(base); output != outputs_.end()) return output->second;
  const Storage storage = StorageOf(base);
  STATOR_CHECK(storage.space != Space::kNone, base.node->op().name, " (", base.node->scope(),
               ") has no storage, but is read");
  if (storage.space == Space::kState) return StateBuffer(graph_->states()[storage.offset]);
  return {storage.space, storage.offset};
}

TensorRef PlanBuilder::TensorOf(Value v) const {
  if (!v) return {};
  const View view = ResolveView(v);
  TensorRef t{BufferOf(view.base), v.type(), view.strides};
  t.buffer.offset += view.at * ByteWidth(v.dtype());
  return t;
}

void PlanBuilder::BeginRegion(std::span<Node* const> nodes) {
  const auto ahead = last_step_.find(static_cast<int>(nodes[0]->IntFact(fact::kStream, 0)));
  step_of_region_[RegionOf(*nodes[0])] = ahead == last_step_.end() ? -1 : ahead->second;
  const auto waits = step_of_region_.find(static_cast<int>(nodes[0]->IntFact(fact::kWaits, -1)));
  if (waits != step_of_region_.end()) wait_ = std::max(wait_, waits->second);
}

PlanStep& PlanBuilder::AddStep(std::span<Node* const> nodes, StepWork work) {
  PlanStep step;
  step.work = std::move(work);
  // Named after what it computes: the distinct ops, in order, at most four.
  std::vector<std::string> ops;
  for (const Node* n : nodes) {
    if (ops.size() < 4 && n->op_class() != OpClass::kMovement && !n->Is("cast") &&
        std::find(ops.begin(), ops.end(), n->op().name) == ops.end()) {
      ops.push_back(n->op().name);
    }
    step.flops +=
        n->op().flops ? n->op().flops(n->view()) : static_cast<double>(n->type().NumElements());
  }
  step.name = ops.empty() ? "copy" : Join(ops, "+");
  step.scope = nodes.back()->scope();
  step.stream = static_cast<int>(nodes[0]->IntFact(fact::kStream, 0));
  const int here = static_cast<int>(program_->steps.size());
  step_of_region_[RegionOf(*nodes[0])] = last_step_[step.stream] = here;
  joins_.push_back(step.stream == 0 ? std::exchange(wait_, -1) : -1);
  program_->steps.push_back(std::move(step));
  NoteValues(nodes);
  return program_->steps.back();
}

// Of the last step.
void PlanBuilder::NoteValues(std::span<Node* const> nodes) {
  if (values_ == nullptr) return;
  const int step = static_cast<int>(program_->steps.size()) - 1;
  for (Node* n : nodes) {
    for (int i = 0; i < n->num_results(); ++i) {
      const Value v = n->result(i);
      if (StorageOf(v).space == Space::kNone || v.type().NumElements() == 0) continue;
      (*values_)[program_->name].push_back({step, v, BufferOf(v)});
    }
  }
}

int PlanBuilder::KernelIndex(const std::string& name, const std::string& body,
                             const std::string& helpers) {
  const auto known = kernel_by_body_.find(body);
  if (known != kernel_by_body_.end()) return known->second;
  std::string symbol = "k_";
  for (const char c : name) symbol += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  symbol += StrCat("_", Hex64(HashBytes(body)));
  const int index = static_cast<int>(plan_.kernels.size());
  plan_.kernels.push_back({symbol, 0});
  bodies_.push_back(body);
  helpers_.push_back(helpers);
  kernel_by_body_.emplace(body, index);
  return index;
}

void PlanBuilder::AddKernel(std::span<Node* const> nodes, const EmittedKernel& kernel) {
  if (language_ == Language::kCuda && kernel.grid == 0) return;  // no element, no block
  KernelCall call;
  for (const KernelArg& arg : kernel.args) {
    call.args.push_back(BufferOf(arg.value));
    call.args.back().offset += arg.first * ByteWidth(arg.value.dtype());
  }
  for (const EmittedMap& map : kernel.maps) {
    const TensorRef viewed = TensorOf(map.value);
    call.maps.push_back({{viewed.buffer, {map.value.dtype(), map.shape}, map.strides}, map.box});
  }
  call.grid[0] = kernel.grid;
  call.block = kernel.block;
  call.shared_bytes = kernel.shared_bytes, call.cluster = kernel.cluster,
  call.persistent = kernel.persistent;
  PlanStep& step = AddStep(nodes, std::move(call));
  step.bytes = kernel.traffic.Bytes();
  std::get<KernelCall>(step.work).kernel = KernelIndex(step.name, kernel.body, kernel.helpers);
  traffic_.resize(program_->steps.size());
  traffic_.back() = kernel.traffic;
  arguments_.resize(program_->steps.size());
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    arguments_.back().push_back({BytesFrom(kernel.args[i]), kernel.args[i].write});
  }
}

// Whether neither of two steps that call a kernel writes what the other touches.
bool PlanBuilder::AreUnrelated(size_t a, size_t b) const {
  const auto& steps = program_->steps;
  const auto &x = std::get<KernelCall>(steps[a].work), &y = std::get<KernelCall>(steps[b].work);
  for (size_t i = 0; i < x.args.size(); ++i) {
    for (size_t j = 0; j < y.args.size(); ++j) {
      const Argument &of_a = arguments_[a][i], &of_b = arguments_[b][j];
      if (!of_a.written && !of_b.written) continue;
      const BufferRef &p = x.args[i], &q = y.args[j];
      if (p.space == q.space && p.offset < q.offset + of_b.bytes &&
          q.offset < p.offset + of_a.bytes) {
        return false;
      }
    }
  }
  return true;
}

PlanStep PlanBuilder::Merged(size_t first, size_t next) {
  const std::span<const PlanStep> steps = std::span(program_->steps).subspan(first, next - first);
  std::vector<SameCalls> groups;
  std::map<int, size_t> at;  // by kernel
  PlanStep out;
  out.scope = steps[0].scope;
  out.stream = steps[0].stream;
  std::vector<std::string> names;
  for (const PlanStep& step : steps) {
    const auto& call = std::get<KernelCall>(step.work);
    const auto [place, fresh] = at.emplace(call.kernel, groups.size());
    if (fresh) groups.push_back({bodies_[call.kernel], {}});
    groups[place->second].calls.push_back(call);
    if (std::find(names.begin(), names.end(), step.name) == names.end()) names.push_back(step.name);
    out.flops += step.flops;
    // The scopes' common beginning.
    size_t same = 0, end = 0;
    while (same < std::min(out.scope.size(), step.scope.size()) &&
           out.scope[same] == step.scope[same]) {
      if (out.scope[same++] == '/') end = same - 1;
    }
    if (same < std::max(out.scope.size(), step.scope.size())) out.scope.resize(end);
  }
  Traffic traffic;
  for (size_t s = first; s < next; ++s) traffic.Add(traffic_[s]);
  out.bytes = traffic.Bytes();
  if (names.size() > 2) names.resize(2), names.push_back("..");
  const std::string name = Join(names, ", ");
  out.name = StrCat(name, " x", steps.size());
  MergedCall merged = MergeCalls(language_, groups);
  merged.call.kernel = KernelIndex(groups.size() > 1 ? "mixed" : name, merged.body);
  out.work = std::move(merged.call);
  return out;
}

// Where the launch that begins with step `first` ends.
size_t PlanBuilder::EndOfLaunch(size_t first) {
  const std::vector<PlanStep>& steps = program_->steps;
  size_t args = 0, next = first;
  int64_t blocks = 0, shared = 0;
  int64_t bytes = 0;
  bool same = true, mixes = true;
  std::map<std::string, int64_t> helpers;
  for (; next < steps.size(); ++next) {
    const auto* call = std::get_if<KernelCall>(&steps[next].work);
    if (call == nullptr || !call->maps.empty() || steps[next].stream != steps[first].stream) break;
    const auto [known, fresh] = needs_.try_emplace(call->kernel);
    if (fresh) known->second = NeedsOf(bodies_[call->kernel], language_, *call);
    const MergeNeeds& needs = known->second;
    same = same && call->kernel == std::get<KernelCall>(steps[first].work).kernel;
    mixes = mixes && needs.mixes;
    args += call->args.size(), blocks += call->grid[0];
    for (const Argument& a : arguments_[next]) bytes += a.bytes;
    for (const auto& [helper, size] : needs.shared)
      shared += helpers.emplace(helper, size).second ? size : 0;
    if (!needs.merges || args > MostArguments() || blocks > 0x7fffffff) break;
    if (!same && (!mixes || bytes > kMixedBytes || shared > kMixedShared)) break;
    bool unrelated = true;
    for (size_t s = first; s < next && unrelated; ++s) unrelated = AreUnrelated(s, next);
    if (!unrelated) break;
  }
  return std::max(next, first + 1);
}

void PlanBuilder::MergeSteps() {
  std::vector<PlanStep>& steps = program_->steps;
  arguments_.resize(steps.size());
  traffic_.resize(steps.size());
  std::vector<PlanStep> out;
  out.reserve(steps.size());
  std::vector<int> place(steps.size());
  for (size_t first = 0; first < steps.size();) {
    const size_t end = EndOfLaunch(first);
    for (size_t s = first; s < end; ++s) place[s] = static_cast<int>(out.size());
    if (end - first > 1) {
      out.push_back(Merged(first, end));
    } else {
      out.push_back(std::move(steps[first]));
    }
    first = end;
  }
  std::vector<int> joins(out.size(), -1);
  for (size_t s = 0; s < steps.size(); ++s) {
    if (joins_[s] >= 0) joins[place[s]] = std::max(joins[place[s]], place[joins_[s]]);
  }
  joins_ = std::move(joins);
  if (values_ != nullptr) {
    for (StepValue& v : (*values_)[program_->name]) v.step = place[v.step];
  }
  steps = std::move(out);
}

// A step of another stream begins when all before it on stream 0 have ended; stream 0 waits where
// the facts say so. What nobody waits for is on stream 0.
void PlanBuilder::SetWaits() {
  std::vector<PlanStep>& steps = program_->steps;
  const int joined = joins_.empty() ? -1 : *std::max_element(joins_.begin(), joins_.end());
  for (int s = joined + 1; s < static_cast<int>(steps.size()); ++s) steps[s].stream = 0;
  int main = -1, waited_for_main = -1, waited_for_side = -1;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].stream == 0) {
      if (joins_[s] > waited_for_side) steps[s].waits = {waited_for_side = joins_[s]};
      main = static_cast<int>(s);
    } else if (main > waited_for_main) {
      steps[s].waits = {waited_for_main = main};
    }
  }
}

// NVRTC compiles modules in parallel threads; a C++ compiler is called once.
constexpr size_t kCudaModules = 8;

// The text of the kernels that are called, in the order of their first call; the others go. A
// kernel joins the module with the least text.
void PlanBuilder::EmitKernels() {
  std::vector<int> place(bodies_.size(), -1);
  std::vector<Kernel> kernels;
  std::vector<int> shared;  // modules of kernels that need no helpers
  const size_t most = language_ == Language::kCuda ? kCudaModules : 1;
  for (Program& program : plan_.programs) {
    for (PlanStep& step : program.steps) {
      auto* call = std::get_if<KernelCall>(&step.work);
      if (call == nullptr) continue;
      int& at = place[call->kernel];
      if (at < 0) {
        at = static_cast<int>(kernels.size());
        Kernel kernel = plan_.kernels[call->kernel];
        std::string source = bodies_[call->kernel];
        for (size_t k; (k = source.find(kKernelName)) != std::string::npos;) {
          source.replace(k, kKernelName.size(), kernel.name);
        }
        auto& modules = plan_.modules;
        const std::string& helpers = helpers_[call->kernel];
        if (!helpers.empty()) {
          kernel.module = static_cast<int>(modules.size());
          modules.push_back({language_, StrCat(Prelude(language_), helpers, "\n", source), "", {}});
        } else {
          if (shared.size() < most) {
            shared.push_back(static_cast<int>(modules.size()));
            modules.push_back({language_, Prelude(language_), "", {}});
          }
          kernel.module = *std::min_element(shared.begin(), shared.end(), [&](int a, int b) {
            return modules[a].source.size() < modules[b].source.size();
          });
          modules[kernel.module].source += "\n" + source;
        }
        kernels.push_back(std::move(kernel));
      }
      call->kernel = at;
    }
  }
  plan_.kernels = std::move(kernels);
}

namespace {

// What the call adds to the product: the other operand of the sum that joins it. A bias is looked
// at as stored, before it is widened and repeated.
Value Addend(std::span<Node* const> nodes, bool stored) {
  for (const Node* n : nodes) {
    if (!n->Is("add") || !n->HasFact(fact::kJoins)) continue;
    Value v = n->operand(1 - static_cast<int>(n->IntFact(fact::kJoins, 0)));
    while (stored && (IsViewNode(*v.node) || v.node->Is("cast"))) v = v.node->operand(0);
    return v;
  }
  return {};
}

}  // namespace

void PlanBuilder::AddMatMul(const Node& node, std::span<Node* const> nodes) {
  if (node.type().NumElements() == 0) return;
  const auto swapped = [](TensorRef t, bool swap) {
    const size_t r = t.strides.size();
    if (swap) {
      std::swap(t.strides[r - 1], t.strides[r - 2]);
      std::swap(t.type.shape[r - 1], t.type.shape[r - 2]);
    }
    return t;
  };
  MatMulCall call;
  call.a = swapped(TensorOf(node.operand(0)), node.view().Bool("transpose_a"));
  call.b = swapped(TensorOf(node.operand(1)), node.view().Bool("transpose_b"));
  call.d = TensorOf(nodes.back()->result());
  const std::string epilogue = node.StrFact(fact::kEpilogue);
  if (epilogue == "bias") {
    call.bias = TensorOf(Addend(nodes, true));
    call.epilogue = Epilogue::kBias;
  } else if (epilogue == "accumulate") {
    call.c = TensorOf(Addend(nodes, false));
  }
  call.tuning_key = StrCat(call.a.type.ToString(), call.a.strides, "x", call.b.type.ToString(),
                           call.b.strides, "->", call.d.type.ToString());
  double bytes = 0;
  for (const TensorRef* t : {&call.a, &call.b, &call.c, &call.bias, &call.d}) {
    if (*t) bytes += static_cast<double>(t->type.Bytes());
  }
  AddStep(nodes, std::move(call)).bytes = bytes;
}

void PlanBuilder::AddAttention(const Node& node, std::span<Node* const> nodes) {
  const OpView op = node.view();
  const auto named = [&](const char* name) {
    const int i = node.op().FindOperand(name);
    return i < 0 ? TensorRef{} : TensorOf(op.in(i));
  };
  AttentionCall call;
  call.backward = node.op().FindOperand("dout") >= 0;
  call.q = named("q"), call.k = named("k"), call.v = named("v");
  call.bias = named("bias"), call.q_segments = named("q_segments");
  call.k_segments = named("k_segments"), call.key_lengths = named("key_lengths");
  call.seed = named("seed"), call.step = named("step");
  Node* self = const_cast<Node*>(&node);
  // A result that nobody reads has no storage: the call leaves it out.
  const auto result = [&](int i) {
    const bool there = i < node.num_results() &&
                       StorageOf(ResolveView(self->result(i)).base).space != Space::kNone;
    return there ? TensorOf(self->result(i)) : TensorRef{};
  };
  if (call.backward) {
    call.out = named("out"), call.lse = named("lse"), call.dout = named("dout"),
    call.dlse = named("dlse");
    call.dq = result(0), call.dk = result(1), call.dv = result(2), call.dbias = result(3);
  } else {
    call.out = result(0);
    call.lse = result(1);
  }
  call.causal = op.Bool("causal");
  call.window = op.Int("window");
  call.scale = op.Float("scale");
  if (call.scale == 0) call.scale = 1 / std::sqrt(static_cast<double>(call.q.type.shape[3]));
  call.q_offset = op.Int("q_offset");
  call.dropout = op.Float("dropout");
  call.stream = op.Int("stream");
  call.deterministic = deterministic_;
  call.batch_chunk = node.IntFact(fact::kBatchChunk, 0);
  call.head_chunk = node.IntFact(fact::kHeadChunk, 0);
  call.workspace_bytes = node.IntFact(fact::kScratch, 0);
  if (const int64_t at = ScratchOffset(node); at >= 0) call.workspace = {Space::kArena, at};
  double bytes = 0;
  for (const Value& v : node.operands()) bytes += v ? static_cast<double>(v.type().Bytes()) : 0;
  for (int i = 0; i < node.num_results(); ++i) bytes += static_cast<double>(node.type(i).Bytes());
  // Named after itself, whatever joins it.
  std::vector<Node*> named_last(nodes.begin(), nodes.end());
  std::erase(named_last, self);
  named_last.push_back(self);
  AddStep(named_last, std::move(call)).bytes = bytes;
}

void PlanBuilder::AddSort(const Node& node) {
  if (node.type().NumElements() == 0) return;
  Node* self = const_cast<Node*>(&node);
  STATOR_CHECK(node.view().Axis("axis") == node.type().rank() - 1,
               "sorts run along the last axis after lower-views");
  SortCall call;
  call.keys = TensorOf(node.operand(0));
  if (StorageOf(self->result(0)).space != Space::kNone) call.values = TensorOf(self->result(0));
  if (StorageOf(self->result(1)).space != Space::kNone) call.indices = TensorOf(self->result(1));
  call.descending = node.view().Bool("descending");
  Node* const nodes[] = {self};
  AddStep(nodes, std::move(call)).bytes = 3.0 * static_cast<double>(node.type().Bytes());
}

void PlanBuilder::AddSegmentSum(const Node& node, std::span<Node* const> nodes) {
  if (node.type().NumElements() == 0) return;
  SegmentSumCall call;
  call.updates = TensorOf(node.operand(0));
  call.indices = TensorOf(node.operand(1));
  call.out = TensorOf(nodes.back()->result());
  call.accumulate = node.StrFact(fact::kEpilogue) == "accumulate";
  // As [n, width] into [rows, width].
  const int64_t n = node.operand(1).type().NumElements(), rows = node.type().shape[0];
  const auto plane = [](TensorRef& t, int64_t r, int64_t w) {
    t.type.shape = {r, w};
    t.strides = {w, 1};
  };
  const int64_t width = rows == 0 ? 1 : node.type().NumElements() / rows;
  plane(call.updates, n, width);
  plane(call.out, rows, width);
  call.indices.type.shape = {n};
  call.indices.strides = {1};
  // What is added to is there: where the planner could not give it to the sum, it is copied first.
  if (call.accumulate) {
    const Value addend = Addend(nodes, false);
    const int64_t size = addend.type().Bytes();
    if (BufferOf(addend) != call.out.buffer) {
      AddStep(nodes, CopyCall{BufferOf(addend), call.out.buffer, size}).bytes =
          2.0 * static_cast<double>(size);
    }
  }
  const double updates = static_cast<double>(call.updates.type.Bytes()),
               indices = static_cast<double>(call.indices.type.Bytes()),
               out = static_cast<double>(call.out.type.Bytes());
  AddStep(nodes, std::move(call)).bytes =
      updates + indices + (call.accumulate ? 2 * std::min(updates, out) : out);
}

void PlanBuilder::EndProgram() {
  if (merge_) MergeSteps();
  SetWaits();
  const auto copy = [&](const std::string& name, Value v, BufferRef to) {
    const BufferRef from = BufferOf(v);
    if (from == to || v.type().Bytes() == 0) return;
    PlanStep step;
    step.name = "copy";
    step.scope = name;
    step.bytes = 2.0 * static_cast<double>(v.type().Bytes());
    step.work = CopyCall{from, to, v.type().Bytes()};
    program_->steps.push_back(std::move(step));
  };
  // Outputs first: a next state may overwrite the state that an output is.
  for (size_t i = 0; i < graph_->outputs().size(); ++i) {
    copy(program_->outputs[i].name, graph_->outputs()[i].value, program_->outputs[i].buffer);
  }
  for (const NextState& s : graph_->next_states()) {
    copy(graph_->ParamName(s.state), s.value, BufferOf(s.state->result()));
  }
  int64_t peak = 0;
  for (const Node* n : graph_->Nodes()) {
    for (int i = 0; i < n->num_results(); ++i) {
      const Storage s = StorageOf({const_cast<Node*>(n), i});
      if (s.space == Space::kArena)
        peak = std::max(peak, s.offset + AlignBuffer(n->type(i).Bytes()));
    }
    if (const int64_t at = ScratchOffset(*n); at >= 0)
      peak = std::max(peak, at + AlignBuffer(n->IntFact(fact::kScratch, 0)));
  }
  program_->arena_bytes = peak;
  plan_.arena_bytes = std::max(plan_.arena_bytes, peak);
}

Plan PlanBuilder::Finish() {
  EmitKernels();
  for (KernelModule& m : plan_.modules)
    m.key = Hex64(HashBytes(m.source, 1)) + Hex64(HashBytes(m.source, 2));
  return std::move(plan_);
}

}  // namespace stator
