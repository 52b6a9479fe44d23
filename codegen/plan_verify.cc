// VerifyPlan: what the runtime relies on without looking again. A plan may come from a file, so
// every index and extent is checked before anything follows it.
#include "codegen/plan.h"
#include "ir/base/error.h"

#include <algorithm>
#include <set>

namespace stator {
namespace {

// Nothing larger is a tensor; keeps sums of products from overflowing.
constexpr int64_t kMostElements = int64_t{1} << 50;

struct Extent {
  Space space;
  int64_t begin, end;  // bytes
};

bool Overlap(const Extent& a, const Extent& b) {
  return a.space == b.space && a.begin < b.end && b.begin < a.end;
}

class Verifier {
 public:
  explicit Verifier(const Plan& plan) : plan_(plan) {}

  void Run() {
    Check(plan_.state_bytes >= 0 && plan_.arena_bytes >= 0 && plan_.io_bytes >= 0,
          "a space has a negative size");
    VerifyStates();
    for (const Kernel& kernel : plan_.kernels) {
      where_ = "kernel " + kernel.name;
      Check(kernel.module >= 0 && kernel.module < static_cast<int>(plan_.modules.size()),
            "there is no module ", kernel.module);
      Check(IsIdentifier(kernel.name), "is not an identifier");
    }
    std::set<std::string> names;
    for (const Program& program : plan_.programs) {
      where_ = "program " + program.name;
      Check(names.insert(program.name).second, "appears twice");
      VerifyProgram(program);
    }
  }

 private:
  template <typename... Parts>
  void Check(bool holds, const Parts&... parts) const {
    if (!holds) Fail(ErrorCode::kInvalidArgument, "plan: ", where_, ": ", parts...);
  }

  static bool IsIdentifier(const std::string& name) {
    const auto letter = [](char c) {
      return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
    };
    const auto inside = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
    return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), inside);
  }

  int64_t SizeOf(Space space) const {
    switch (space) {
      case Space::kState:
        return plan_.state_bytes;
      case Space::kArena:
        return plan_.arena_bytes;
      case Space::kIo:
        return plan_.io_bytes;
      case Space::kNone:
        break;
    }
    Check(false, "there is no space ", static_cast<int>(space));
    return 0;
  }

  Extent CheckRange(const char* what, const BufferRef& buffer, int64_t bytes) const {
    const int64_t size = SizeOf(buffer.space);
    Check(
        bytes >= 0 && buffer.offset >= 0 && buffer.offset <= size && bytes <= size - buffer.offset,
        what, " is outside its space: ", bytes, " bytes at ", buffer.offset, " of ", size);
    return {buffer.space, buffer.offset, buffer.offset + bytes};
  }

  void CheckType(const char* what, const Type& type) const {
    Check(type.dtype <= DType::kBool, what, " has no dtype");
    Check(type.rank() <= 64, what, " has ", type.rank(), " axes");
    int64_t elements = 1;
    for (const int64_t d : type.shape) {
      Check(d >= 0 && d <= kMostElements, what, " has a bad shape ", type.shape);
      if (d > 0) {
        Check(elements <= kMostElements / d, what, " is too large: ", type.shape);
        elements *= d;
      }
    }
  }

  // A dense buffer of its own.
  Extent CheckBuffer(const char* what, const Type& type, const BufferRef& buffer) const {
    CheckType(what, type);
    Check(buffer.offset % kBufferAlignment == 0, what, " is misaligned: offset ", buffer.offset);
    return CheckRange(what, buffer, type.Bytes());
  }

  // A strided tensor: no index may leave the space.
  Extent CheckTensor(const char* what, const TensorRef& tensor) const {
    Check(static_cast<bool>(tensor), what, " is absent");
    CheckType(what, tensor.type);
    Check(tensor.strides.size() == tensor.type.shape.size(), what, " has ", tensor.strides.size(),
          " strides for ", tensor.type.shape.size(), " axes");
    const int64_t width = ByteWidth(tensor.type.dtype);
    Check(tensor.buffer.offset % width == 0, what, " is misaligned: offset ", tensor.buffer.offset);
    int64_t last = 0;
    for (int i = 0; i < tensor.type.rank(); ++i) {
      const int64_t n = tensor.type.shape[i], stride = tensor.strides[i];
      if (n == 0) return CheckRange(what, tensor.buffer, 0);
      Check(stride >= 0 && stride <= kMostElements && (n == 1 || stride <= kMostElements / (n - 1)),
            what, " has a bad stride ", stride);
      last += (n - 1) * stride;
    }
    return CheckRange(what, tensor.buffer, (last + 1) * width);
  }

  void VerifyStates() {
    std::set<std::string> names;
    std::vector<std::pair<Extent, std::string>> extents;
    for (const StateEntry& state : plan_.states) {
      where_ = "state " + state.name;
      Check(names.insert(state.name).second, "appears twice");
      Check(!state.halves || state.type.dtype == DType::kF32, "is ", state.type.ToString(),
            " in halves");
      Extent e = CheckBuffer("it", state.type, {Space::kState, state.offset});
      if (state.halves) e = CheckRange("it", {Space::kState, state.offset}, state.StoredBytes());
      if (e.end > e.begin) extents.emplace_back(e, state.name);
    }
    std::sort(extents.begin(), extents.end(),
              [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
    for (size_t i = 1; i < extents.size(); ++i) {
      where_ = "state " + extents[i].second;
      Check(!Overlap(extents[i - 1].first, extents[i].first), "overlaps state ",
            extents[i - 1].second);
    }
  }

  void VerifyProgram(const Program& program) {
    Check(program.arena_bytes >= 0 && program.arena_bytes <= plan_.arena_bytes, "needs ",
          program.arena_bytes, " bytes of an arena of ", plan_.arena_bytes);
    std::vector<std::pair<Extent, std::string>> io;
    const auto add = [&](const std::string& kind, const std::string& name, const Type& type,
                         const BufferRef& buffer) {
      where_ = StrCat("program ", program.name, ", ", kind, " ", name);
      Check(buffer.space == Space::kIo, "is not in the io space");
      const Extent e = CheckBuffer("it", type, buffer);
      for (const auto& [other, other_name] : io) {
        Check(!Overlap(e, other), "overlaps ", other_name);
      }
      io.emplace_back(e, StrCat(kind, " ", name));
    };
    std::set<std::string> inputs, outputs;
    for (const PlanInput& input : program.inputs) {
      add("input", input.name, input.type, input.buffer);
      Check(inputs.insert(input.name).second, "appears twice");
      Check(input.below >= 0 && (input.below == 0 || IsInteger(input.type.dtype)),
            "has a bound but is ", input.type.ToString());
    }
    for (const PlanOutput& output : program.outputs) {
      add("output", output.name, output.type, output.buffer);
      Check(outputs.insert(output.name).second, "appears twice");
    }
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const PlanStep& step = program.steps[s];
      where_ = StrCat("program ", program.name, ", step ", s, " ", step.name);
      if (!step.scope.empty()) where_ += " (" + step.scope + ")";
      Check(step.stream >= 0, "is on stream ", step.stream);
      for (const int w : step.waits) {
        Check(w >= 0 && w < static_cast<int>(s), "waits for step ", w);
      }
      std::visit([this](const auto& work) { Verify(work); }, step.work);
    }
  }

  void Verify(const KernelCall& call) const {
    Check(call.kernel >= 0 && call.kernel < static_cast<int>(plan_.kernels.size()),
          "there is no kernel ", call.kernel);
    for (const BufferRef& arg : call.args) CheckRange("an argument", arg, 0);
    for (const int64_t g : call.grid) Check(g >= 0 && g <= 0x7fffffff, "has a grid of ", g);
    Check(call.block >= 0 && call.block <= 1024 && call.shared_bytes >= 0, "has a block of ",
          call.block, " threads, ", call.shared_bytes, " shared bytes");
    Check(!call.table || call.args.size() * 8 <= 32764, "has a table of ", call.args.size(),
          " buffers");
    for (const TileMap& map : call.maps) Verify(map);
    Check(call.cluster >= 1 && call.cluster <= 16 && call.grid[0] % call.cluster == 0,
          "has clusters of ", call.cluster, " blocks in a grid of ", call.grid[0]);
  }

  // What a tensor map can say (CUDA driver API, cuTensorMapEncodeTiled), with rows of 128 bytes.
  void Verify(const TileMap& map) const {
    CheckTensor("a tile map", map.tensor);
    const Dims &shape = map.tensor.type.shape, &strides = map.tensor.strides;
    const int64_t width = ByteWidth(map.tensor.type.dtype);
    const size_t rank = shape.size();
    Check(rank >= 2 && rank <= 5 && map.box.size() == rank, "a tile map has ", rank,
          " axes, its box ", map.box.size());
    Check(map.tensor.buffer.offset % 16 == 0 && strides[rank - 1] == 1 &&
              map.box[rank - 1] * width == 128,
          "a tile map's rows are not of 128 bytes");
    for (size_t i = 0; i < rank; ++i) {
      Check(shape[i] >= 1 && shape[i] <= 0xffffffff && map.box[i] >= 1 && map.box[i] <= 256,
            "a tile map has boxes of ", map.box, " in ", shape);
      Check(i + 1 == rank || strides[i] * width % 16 == 0, "a tile map has strides ", strides);
    }
  }

  void Verify(const MatMulCall& call) const {
    const Extent a = CheckTensor("a", call.a), b = CheckTensor("b", call.b);
    const Extent d = CheckTensor("d", call.d);
    const Dims &as = call.a.type.shape, &bs = call.b.type.shape, &ds = call.d.type.shape;
    const size_t r = ds.size();
    Check(r >= 2 && as.size() == r && bs.size() == r && as[r - 1] == bs[r - 2] &&
              as[r - 2] == ds[r - 2] && bs[r - 1] == ds[r - 1],
          "shapes do not multiply: ", as, " x ", bs, " -> ", ds);
    for (size_t i = 0; i + 2 < r; ++i) {
      Check(as[i] == ds[i] && bs[i] == ds[i], "batch axes differ: ", as, " x ", bs, " -> ", ds);
    }
    Check(!Overlap(d, a) && !Overlap(d, b), "d overlaps an operand");
    Check(call.epilogue >= Epilogue::kNone && call.epilogue <= Epilogue::kBiasGeluTanhAux,
          "has no epilogue ", static_cast<int>(call.epilogue));
    const bool wants_bias =
        call.epilogue == Epilogue::kBias || call.epilogue == Epilogue::kBiasGeluTanhAux;
    const bool wants_aux =
        call.epilogue == Epilogue::kGeluTanhAux || call.epilogue == Epilogue::kBiasGeluTanhAux;
    if (call.c) {
      const Extent c = CheckTensor("c", call.c);
      Check(call.c.type.shape == ds, "c is ", call.c.type.shape, ", d is ", ds);
      const bool same = call.c.buffer == call.d.buffer && call.c.strides == call.d.strides &&
                        call.c.type == call.d.type;
      Check(same || !Overlap(c, d), "c overlaps d but is not d");
    }
    if (wants_bias) {
      CheckTensor("bias", call.bias);
      Check(call.bias.type.NumElements() == ds[r - 1], "bias is ", call.bias.type.shape);
    }
    if (wants_aux) {
      CheckTensor("aux", call.aux);
      Check(call.aux.type.shape == ds, "aux is ", call.aux.type.shape, ", d is ", ds);
    }
  }

  void Verify(const AttentionCall& call) const;

  void Verify(const SortCall& call) const {
    CheckTensor("keys", call.keys);
    CheckTensor("indices", call.indices);
    Check(call.keys.type.rank() >= 1 && call.indices.type.shape == call.keys.type.shape,
          "indices are ", call.indices.type.shape, ", keys ", call.keys.type.shape);
    Check(IsInteger(call.indices.type.dtype), "indices are ", call.indices.type.ToString());
    if (call.values) {
      CheckTensor("values", call.values);
      Check(call.values.type == call.keys.type, "values are ", call.values.type.ToString(),
            ", keys ", call.keys.type.ToString());
    }
    if (call.workspace) CheckRange("workspace", call.workspace, call.workspace_bytes);
  }

  void Verify(const SegmentSumCall& call) const {
    const Extent out = CheckTensor("out", call.out);
    Check(!Overlap(CheckTensor("updates", call.updates), out) &&
              !Overlap(CheckTensor("indices", call.indices), out),
          "out overlaps an operand");
    Check(call.out.type.rank() == 2 && call.updates.type.rank() == 2 &&
              call.updates.type.dim(1) == call.out.type.dim(1) &&
              call.indices.type.NumElements() == call.updates.type.dim(0),
          "shapes do not fit: updates ", call.updates.type.shape, ", indices ",
          call.indices.type.shape, ", out ", call.out.type.shape);
    Check(IsInteger(call.indices.type.dtype), "indices are ", call.indices.type.ToString());
    if (call.workspace) CheckRange("workspace", call.workspace, call.workspace_bytes);
  }

  void Verify(const FillCall& call) const { CheckRange("the buffer", call.buffer, call.bytes); }

  void Verify(const CopyCall& call) const {
    Check(!Overlap(CheckRange("source", call.from, call.bytes),
                   CheckRange("destination", call.to, call.bytes)) ||
              call.from == call.to,
          "source and destination overlap");
  }

  const Plan& plan_;
  std::string where_ = "sizes";
};

// q, out [B,T,H,D]; k, v [B,S,G,D]; lse [B,H,T]; bias [B|1,H|1,T,S].
void Verifier::Verify(const AttentionCall& call) const {
  CheckTensor("q", call.q);
  CheckTensor("k", call.k);
  const Dims &q = call.q.type.shape, &k = call.k.type.shape;
  Check(q.size() == 4 && k.size() == 4 && k[0] == q[0] && k[3] == q[3] && k[2] > 0 &&
            q[2] % k[2] == 0,
        "shapes do not fit: q ", q, ", k ", k);
  const auto check = [&](const char* what, const TensorRef& tensor, bool required,
                         const Dims& shape) {
    if (!tensor && !required) return;
    CheckTensor(what, tensor);
    Check(tensor.type.shape == shape, what, " is ", tensor.type.shape, ", should be ", shape);
  };
  const Dims rows = {q[0], q[2], q[1]};
  check("v", call.v, true, k);
  check("q_segments", call.q_segments, false, {q[0], q[1]});
  check("k_segments", call.k_segments, false, {q[0], k[1]});
  check("key_lengths", call.key_lengths, false, {q[0]});
  check("out", call.out, true, q);
  check("lse", call.lse, call.backward, rows);
  check("dout", call.dout, call.backward, q);
  check("dlse", call.dlse, false, rows);
  check("dq", call.dq, false, q);
  check("dk", call.dk, false, k);
  check("dv", call.dv, false, k);
  if (call.bias) {
    CheckTensor("bias", call.bias);
    const Dims& b = call.bias.type.shape;
    Check(b.size() == 4 && (b[0] == 1 || b[0] == q[0]) && (b[1] == 1 || b[1] == q[2]) &&
              b[2] == q[1] && b[3] == k[1],
          "bias is ", b, " for q ", q, ", k ", k);
    check("dbias", call.dbias, false, b);
  }
  Check(static_cast<bool>(call.q_segments) == static_cast<bool>(call.k_segments),
        "needs both segment tensors or none");
  Check(call.dropout >= 0 && call.dropout < 1, "has dropout ", call.dropout);
  Check(call.window >= 0, "has window ", call.window);
  Check(call.batch_chunk >= 0, "takes ", call.batch_chunk, " batch entries at once");
  Check(call.head_chunk >= 0 && call.head_chunk <= k[2], "takes ", call.head_chunk, " of ", k[2],
        " key heads at once");
  Check(call.head_chunk == 0 || call.batch_chunk == 1 || q[0] <= 1, "takes ", call.head_chunk,
        " key heads at once, which may be of one batch entry only, not of ",
        call.batch_chunk == 0 ? q[0] : call.batch_chunk);
  if (call.dropout > 0) {
    CheckTensor("seed", call.seed);
    CheckTensor("step", call.step);
    Check(call.seed.type.NumElements() == 2 && call.step.type.NumElements() == 1, "seed is ",
          call.seed.type.ToString(), ", step ", call.step.type.ToString());
  }
  if (call.workspace) CheckRange("workspace", call.workspace, call.workspace_bytes);
}

}  // namespace

void VerifyPlan(const Plan& plan) { Verifier(plan).Run(); }

}  // namespace stator
