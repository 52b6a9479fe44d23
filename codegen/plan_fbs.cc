// A Plan and its file's form, field for field. Both directions of every record stand side by side:
// Write makes the file's form, Read ours.
#include "codegen/plan_fbs.h"

#include "ir/base/error.h"

#include <algorithm>
#include <memory>

namespace stator {
namespace {

fbs::Buffer Write(const BufferRef& b) { return {static_cast<int>(b.space), b.offset}; }

BufferRef Read(const fbs::Buffer& b) { return {static_cast<Space>(b.space()), b.offset()}; }

BufferRef Read(const std::unique_ptr<fbs::Buffer>& b) {
  return b == nullptr ? BufferRef{} : Read(*b);
}

std::unique_ptr<fbs::Buffer> WritePtr(const BufferRef& b) {
  return std::make_unique<fbs::Buffer>(Write(b));
}

DType ReadDType(const std::string& name) {
  const std::optional<DType> dtype = ParseDType(name);
  if (!dtype) Fail(ErrorCode::kParse, "there is no dtype '", name, "'");
  return *dtype;
}

std::unique_ptr<fbs::TensorT> Write(const BufferRef& buffer, const Type& type,
                                    const Dims& strides) {
  auto out = std::make_unique<fbs::TensorT>();
  out->buffer = WritePtr(buffer);
  out->dtype = Name(type.dtype);
  out->shape = type.shape;
  out->strides = strides;
  return out;
}

std::unique_ptr<fbs::TensorT> Write(const TensorRef& t) {
  return t ? Write(t.buffer, t.type, t.strides) : nullptr;
}

TensorRef Read(const std::unique_ptr<fbs::TensorT>& t) {
  if (t == nullptr || t->buffer == nullptr) return {};
  return {Read(t->buffer), {ReadDType(t->dtype), t->shape}, t->strides};
}

fbs::KernelCallT Write(const KernelCall& call) {
  fbs::KernelCallT out;
  out.kernel = call.kernel;
  for (const BufferRef& arg : call.args) out.args.push_back(Write(arg));
  out.grid.assign(call.grid, call.grid + 3);
  out.block = call.block;
  out.shared_bytes = call.shared_bytes;
  out.table = call.table;
  for (const TileMap& map : call.maps) {
    auto m = std::make_unique<fbs::TileMapT>();
    m->tensor = Write(map.tensor), m->box = map.box;
    out.maps.push_back(std::move(m));
  }
  out.cluster = call.cluster, out.persistent = call.persistent;
  return out;
}

KernelCall Read(const fbs::KernelCallT& call) {
  KernelCall out;
  out.kernel = call.kernel;
  for (const fbs::Buffer& arg : call.args) out.args.push_back(Read(arg));
  if (call.grid.size() != 3) Fail(ErrorCode::kParse, "a grid has ", call.grid.size(), " sizes");
  std::copy(call.grid.begin(), call.grid.end(), out.grid);
  out.block = call.block;
  out.shared_bytes = call.shared_bytes;
  out.table = call.table;
  for (const auto& map : call.maps) out.maps.push_back({Read(map->tensor), map->box});
  out.cluster = call.cluster, out.persistent = call.persistent;
  return out;
}

fbs::MatMulCallT Write(const MatMulCall& call) {
  fbs::MatMulCallT out;
  out.a = Write(call.a), out.b = Write(call.b), out.d = Write(call.d), out.c = Write(call.c);
  out.bias = Write(call.bias), out.aux = Write(call.aux);
  out.epilogue = static_cast<int>(call.epilogue);
  out.tuning_key = call.tuning_key;
  return out;
}

MatMulCall Read(const fbs::MatMulCallT& call) {
  return {.a = Read(call.a),
          .b = Read(call.b),
          .d = Read(call.d),
          .c = Read(call.c),
          .bias = Read(call.bias),
          .aux = Read(call.aux),
          .epilogue = static_cast<Epilogue>(call.epilogue),
          .tuning_key = call.tuning_key};
}

template <typename Call, typename Tensor>
std::vector<Tensor*> AttentionTensors(Call& c) {
  return {&c.q,           &c.k,    &c.v,    &c.bias, &c.q_segments, &c.k_segments,
          &c.key_lengths, &c.seed, &c.step, &c.out,  &c.lse,        &c.dout,
          &c.dlse,        &c.dq,   &c.dk,   &c.dv,   &c.dbias};
}

fbs::AttentionCallT Write(const AttentionCall& call) {
  fbs::AttentionCallT out;
  out.backward = call.backward;
  for (const TensorRef* t : AttentionTensors<const AttentionCall, const TensorRef>(call)) {
    out.tensors.push_back(Write(t->buffer, t->type, t->strides));
  }
  out.causal = call.causal, out.window = call.window, out.scale = call.scale;
  out.q_offset = call.q_offset, out.dropout = call.dropout, out.stream = call.stream;
  out.deterministic = call.deterministic, out.batch_chunk = call.batch_chunk;
  out.head_chunk = call.head_chunk;
  out.workspace = WritePtr(call.workspace), out.workspace_bytes = call.workspace_bytes;
  return out;
}

AttentionCall Read(const fbs::AttentionCallT& call) {
  AttentionCall out;
  out.backward = call.backward;
  const std::vector<TensorRef*> tensors = AttentionTensors<AttentionCall, TensorRef>(out);
  if (call.tensors.size() != tensors.size()) {
    Fail(ErrorCode::kParse, "an attention has ", call.tensors.size(), " tensors");
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (Read(call.tensors[i]->buffer)) *tensors[i] = Read(call.tensors[i]);
  }
  out.causal = call.causal, out.window = call.window, out.scale = call.scale;
  out.q_offset = call.q_offset, out.dropout = call.dropout, out.stream = call.stream;
  out.deterministic = call.deterministic, out.batch_chunk = call.batch_chunk;
  out.head_chunk = call.head_chunk;
  out.workspace = Read(call.workspace), out.workspace_bytes = call.workspace_bytes;
  return out;
}

fbs::SortCallT Write(const SortCall& call) {
  fbs::SortCallT out;
  out.keys = Write(call.keys), out.values = Write(call.values), out.indices = Write(call.indices);
  out.descending = call.descending;
  out.workspace = WritePtr(call.workspace), out.workspace_bytes = call.workspace_bytes;
  return out;
}

SortCall Read(const fbs::SortCallT& call) {
  return {Read(call.keys), Read(call.values),    Read(call.indices),
          call.descending, Read(call.workspace), call.workspace_bytes};
}

fbs::SegmentSumCallT Write(const SegmentSumCall& call) {
  fbs::SegmentSumCallT out;
  out.updates = Write(call.updates), out.indices = Write(call.indices), out.out = Write(call.out);
  out.workspace = WritePtr(call.workspace), out.workspace_bytes = call.workspace_bytes;
  out.accumulate = call.accumulate;
  return out;
}

SegmentSumCall Read(const fbs::SegmentSumCallT& call) {
  return {Read(call.updates),   Read(call.indices),   Read(call.out),
          Read(call.workspace), call.workspace_bytes, call.accumulate};
}

fbs::FillCallT Write(const FillCall& call) {
  fbs::FillCallT out;
  out.buffer = WritePtr(call.buffer), out.bytes = call.bytes, out.value = call.value;
  return out;
}

FillCall Read(const fbs::FillCallT& call) { return {Read(call.buffer), call.bytes, call.value}; }

fbs::CopyCallT Write(const CopyCall& call) {
  fbs::CopyCallT out;
  out.from = WritePtr(call.from), out.to = WritePtr(call.to), out.bytes = call.bytes;
  return out;
}

CopyCall Read(const fbs::CopyCallT& call) { return {Read(call.from), Read(call.to), call.bytes}; }

std::unique_ptr<fbs::StepT> Write(const PlanStep& step) {
  auto out = std::make_unique<fbs::StepT>();
  out->name = step.name, out->scope = step.scope;
  std::visit([&](const auto& work) { out->work.Set(Write(work)); }, step.work);
  out->stream = step.stream, out->waits = step.waits;
  out->flops = step.flops, out->bytes = step.bytes;
  return out;
}

StepWork ReadWork(const fbs::WorkUnion& work) {
  if (const auto* call = work.AsKernelCall()) return Read(*call);
  if (const auto* call = work.AsMatMulCall()) return Read(*call);
  if (const auto* call = work.AsAttentionCall()) return Read(*call);
  if (const auto* call = work.AsSortCall()) return Read(*call);
  if (const auto* call = work.AsSegmentSumCall()) return Read(*call);
  if (const auto* call = work.AsFillCall()) return Read(*call);
  if (const auto* call = work.AsCopyCall()) return Read(*call);
  Fail(ErrorCode::kParse, "a step has no work that this version knows");
}

PlanStep Read(const fbs::StepT& step) {
  return {step.name,  step.scope, ReadWork(step.work), step.stream,
          step.waits, step.flops, step.bytes};
}

std::unique_ptr<fbs::ProgramT> Write(const Program& program) {
  auto out = std::make_unique<fbs::ProgramT>();
  out->name = program.name, out->arena_bytes = program.arena_bytes;
  for (const PlanInput& input : program.inputs) {
    auto i = std::make_unique<fbs::InputT>();
    i->name = input.name, i->tensor = Write(input.buffer, input.type, {});
    i->below = input.below, i->ignored = input.ignored, i->has_ignored = input.has_ignored;
    out->inputs.push_back(std::move(i));
  }
  for (const PlanOutput& output : program.outputs) {
    auto o = std::make_unique<fbs::OutputT>();
    o->name = output.name, o->tensor = Write(output.buffer, output.type, {});
    out->outputs.push_back(std::move(o));
  }
  for (const PlanStep& step : program.steps) out->steps.push_back(Write(step));
  return out;
}

Program Read(const fbs::ProgramT& program) {
  Program out;
  out.name = program.name, out.arena_bytes = program.arena_bytes;
  for (const auto& i : program.inputs) {
    const TensorRef t = Read(i->tensor);
    out.inputs.push_back({i->name, t.type, t.buffer, i->below, i->ignored, i->has_ignored});
  }
  for (const auto& o : program.outputs) {
    const TensorRef t = Read(o->tensor);
    out.outputs.push_back({o->name, t.type, t.buffer});
  }
  for (const auto& s : program.steps) out.steps.push_back(Read(*s));
  return out;
}

std::unique_ptr<fbs::StateT> Write(const StateEntry& state) {
  auto out = std::make_unique<fbs::StateT>();
  out->name = state.name, out->dtype = Name(state.type.dtype), out->shape = state.type.shape;
  out->offset = state.offset, out->role = state.role, out->group = state.group;
  out->init = state.init, out->trainable = state.trainable, out->derived = state.derived;
  out->halves = state.halves;
  return out;
}

StateEntry Read(const fbs::StateT& s) {
  return {s.name,      {ReadDType(s.dtype), s.shape},
          s.offset,    s.role,
          s.group,     s.init,
          s.trainable, s.derived,
          s.halves};
}

}  // namespace

fbs::PlanT ToFileForm(const Plan& plan) {
  fbs::PlanT out;
  out.version = kPlanVersion;
  out.name = plan.name, out.device = static_cast<int>(plan.device), out.target = plan.target;
  for (const auto& [key, value] : plan.fingerprint) {
    auto f = std::make_unique<fbs::FingerprintT>();
    f->key = key, f->value = value;
    out.fingerprint.push_back(std::move(f));
  }
  for (const StateEntry& state : plan.states) out.states.push_back(Write(state));
  out.state_bytes = plan.state_bytes, out.arena_bytes = plan.arena_bytes,
  out.io_bytes = plan.io_bytes;
  for (const KernelModule& module : plan.modules) {
    auto m = std::make_unique<fbs::ModuleT>();
    m->language = static_cast<int>(module.language), m->source = module.source, m->key = module.key;
    m->binary.assign(module.binary.begin(), module.binary.end());
    out.modules.push_back(std::move(m));
  }
  for (const Kernel& kernel : plan.kernels) {
    auto k = std::make_unique<fbs::KernelT>();
    k->name = kernel.name, k->module_index = kernel.module;
    out.kernels.push_back(std::move(k));
  }
  for (const Program& program : plan.programs) out.programs.push_back(Write(program));
  out.notes = plan.notes;
  return out;
}

Plan FromFileForm(const fbs::PlanT& plan) {
  Plan out;
  out.name = plan.name, out.target = plan.target;
  if (plan.device != static_cast<int>(DeviceKind::kCpu) &&
      plan.device != static_cast<int>(DeviceKind::kCuda)) {
    Fail(ErrorCode::kParse, "there is no device kind ", plan.device);
  }
  out.device = static_cast<DeviceKind>(plan.device);
  for (const auto& f : plan.fingerprint) out.fingerprint[f->key] = f->value;
  for (const auto& state : plan.states) out.states.push_back(Read(*state));
  out.state_bytes = plan.state_bytes, out.arena_bytes = plan.arena_bytes,
  out.io_bytes = plan.io_bytes;
  for (const auto& m : plan.modules) {
    if (m->language != static_cast<int>(Language::kCpp) &&
        m->language != static_cast<int>(Language::kCuda)) {
      Fail(ErrorCode::kParse, "there is no language ", m->language);
    }
    out.modules.push_back({static_cast<Language>(m->language),
                           m->source,
                           m->key,
                           {m->binary.begin(), m->binary.end()}});
  }
  for (const auto& k : plan.kernels) out.kernels.push_back({k->name, k->module_index});
  for (const auto& program : plan.programs) out.programs.push_back(Read(*program));
  out.notes = plan.notes;
  return out;
}

}  // namespace stator
