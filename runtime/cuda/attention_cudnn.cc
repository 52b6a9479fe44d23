#if STATOR_WITH_CUDNN
#include "runtime/cuda/attention_cudnn.h"

#include "ir/base/error.h"
#include "runtime/cuda/attention_graph.h"
#include "runtime/cuda/attention_problem.h"
#include "runtime/cuda/check.h"
#include "runtime/fused_attention.h"
#include "runtime/kernel_cache.h"

#include <cudnn.h>
#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <vector>

namespace stator {
namespace {

// Pieces of one call run side by side on this many streams where the scratch suffices.
constexpr int kMaxStreams = 4;

void CheckDnn(cudnnStatus_t status, const char* doing) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  Fail(ErrorCode::kEnvironment, "cudnn: ", doing, ": ", cudnnGetErrorString(status));
}

struct BuiltGraph {
  std::unique_ptr<AttentionGraph> graph;
  std::string error;  // why cuDNN refused
  int64_t workspace() const { return graph == nullptr ? 0 : graph->workspace(); }
};

// The streams and events pieces fan out over; shared by all steps of one handle.
struct Lanes {
  std::vector<CudaStream> streams;
  std::vector<CudaEvent> joined;
  CudaEvent forked;

  void Grow(int count) {
    if (forked.get() == nullptr) forked = MakeEvent();
    while (static_cast<int>(streams.size()) + 1 < count) {
      streams.push_back(MakeStream());
      joined.push_back(MakeEvent());
    }
  }
};

class AttentionStep : public CudaStep {
 public:
  struct Piece {
    const BuiltGraph* built;
    AttentionPointers pointers;
    char* workspace;
  };

  AttentionStep(cudnnHandle_t handle, Lanes& lanes, int streams, std::vector<Piece> pieces,
                std::string name)
      : handle_(handle),
        lanes_(lanes),
        streams_(streams),
        pieces_(std::move(pieces)),
        name_(std::move(name)) {}

  void Enqueue(cudaStream_t stream) override {
    if (streams_ > 1) CheckCuda(cudaEventRecord(lanes_.forked.get(), stream), "fork attention");
    for (int lane = 1; lane < streams_; ++lane) {
      CheckCuda(cudaStreamWaitEvent(Lane(lane), lanes_.forked.get(), 0), "fork attention");
    }
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const int lane = static_cast<int>(i) % streams_;
      CheckDnn(cudnnSetStream(handle_, lane == 0 ? stream : Lane(lane)), "set the stream");
      Piece& piece = pieces_[i];
      const std::string fault = piece.built->graph->Run(handle_, piece.pointers, piece.workspace);
      if (!fault.empty()) Fail(ErrorCode::kEnvironment, name_, ": cudnn attention: ", fault);
    }
    for (int lane = 1; lane < streams_; ++lane) {
      const cudaEvent_t joined = lanes_.joined[static_cast<size_t>(lane) - 1].get();
      CheckCuda(cudaEventRecord(joined, Lane(lane)), "join attention");
      CheckCuda(cudaStreamWaitEvent(stream, joined, 0), "join attention");
    }
  }

 private:
  cudaStream_t Lane(int lane) const { return lanes_.streams[static_cast<size_t>(lane) - 1].get(); }

  cudnnHandle_t handle_;
  Lanes& lanes_;
  int streams_;
  std::vector<Piece> pieces_;
  std::string name_;
};

// Where the tensors of a piece begin that starts at `entry` and key head `head`.
AttentionPointers PointersOf(const AttentionCall& c, const SpaceMap& spaces, int64_t entry,
                             int64_t head) {
  AttentionPointers pointers;
  const auto add = [&](AttentionUid uid, const TensorRef& t, int64_t first, size_t axis = 2) {
    if (!t) return;
    const int64_t at = entry * t.strides[0] + first * t.strides[axis];
    pointers[uid] = spaces(t.buffer) + at * ByteWidth(t.type.dtype);
  };
  const int64_t q_head = c.q.type.dim(2) / c.k.type.dim(2) * head;
  add(kQ, c.q, q_head), add(kK, c.k, head), add(kV, c.v, head);
  add(kOut, c.out, q_head), add(kLse, c.lse, q_head, 1);
  if (c.backward) {
    add(kDOut, c.dout, q_head), add(kDQ, c.dq, q_head);
    add(kDK, c.dk, head), add(kDV, c.dv, head);
  }
  add(kKeyLengths, c.key_lengths, 0, 0);
  return pointers;
}

struct Part {
  int64_t first, count;
};

// [0, total) in parts of `chunk`, 0: all at once; the last may be smaller.
std::vector<Part> PartsOf(int64_t total, int64_t chunk) {
  std::vector<Part> parts;
  const int64_t step = chunk > 0 ? chunk : std::max<int64_t>(total, 1);
  for (int64_t first = 0; first < total; first += step) {
    parts.push_back({first, std::min(step, total - first)});
  }
  return parts;
}

}  // namespace

struct CudnnAttention::Impl {
  Impl(const std::string& device, const std::string& cache_dir)
      : cache(cache_dir), versions(StrCat("cudnn ", cudnnGetVersion(), " on ", device, " ")) {
    CheckDnn(cudnnCreate(&handle), "create a handle");
  }
  ~Impl() {
    graphs.clear();
    (void)cudnnDestroy(handle);
  }

  const BuiltGraph& Get(const AttentionProblem& problem) {
    const auto [at, fresh] = graphs.try_emplace(problem.Key());
    BuiltGraph& built = at->second;
    if (!fresh) return built;
    const std::string facts = versions + problem.Key();
    const std::string key = Hex64(HashBytes(facts)) + Hex64(HashBytes(facts, 1));
    if (const auto bytes = cache.Load(key, "cudnn"))
      built.graph = ReadAttentionGraph(*bytes, handle);
    if (built.graph != nullptr) return built;
    built.graph = BuildAttentionGraph(problem, handle, &built.error);
    if (built.graph == nullptr) return built;
    if (const std::vector<char> bytes = built.graph->Serialize(); !bytes.empty()) {
      cache.Store(key, "cudnn", std::span<const char>(bytes));
    }
    return built;
  }

  // [B] i32, every entry `length`.
  void* QueryLengths(int64_t batch, int64_t length) {
    DeviceMemory& memory = lengths[{batch, length}];
    if (memory.data() == nullptr) {
      memory = DeviceMemory(batch * 4, "query lengths");
      const std::vector<int32_t> host(static_cast<size_t>(batch), static_cast<int32_t>(length));
      CheckCuda(cudaMemcpy(memory.data(), host.data(), host.size() * 4, cudaMemcpyHostToDevice),
                "upload query lengths");
    }
    return memory.data();
  }

  KernelCache cache;
  std::string versions;
  cudnnHandle_t handle = nullptr;
  std::map<std::string, BuiltGraph> graphs;
  std::map<std::pair<int64_t, int64_t>, DeviceMemory> lengths;
  Lanes lanes;
};

LibraryFact CudnnFact() {
  const size_t v = cudnnGetVersion();
  Dl_info info{};
  const bool found = dladdr(reinterpret_cast<const void*>(&cudnnGetVersion), &info) != 0;
  return {"cuDNN", StrCat(v / 10000, ".", v / 100 % 100, ".", v % 100),
          found && info.dli_fname != nullptr ? info.dli_fname : "", ""};
}

CudnnAttention::CudnnAttention(const std::string& device_name, const std::string& cache_dir)
    : impl_(std::make_unique<Impl>(device_name, cache_dir)) {}
CudnnAttention::~CudnnAttention() = default;

bool CudnnAttention::Supports(const AttentionQuery& query, std::string* why) {
  std::string reason = WhyNotFused(query);
  if (reason.empty()) reason = impl_->Get(ProblemOf(query)).error;
  if (why != nullptr) *why = reason;
  return reason.empty();
}

int64_t CudnnAttention::Workspace(const AttentionQuery& query) {
  if (!WhyNotFused(query).empty()) return 0;
  return impl_->Get(ProblemOf(query)).workspace();
}

CudaStepPtr CudnnAttention::Prepare(const AttentionCall& call, const SpaceMap& spaces,
                                    const std::string& name) {
  const int64_t batch = call.q.type.dim(0), kv_heads = call.k.type.dim(2);
  const int64_t group = call.q.type.dim(2) / kv_heads;  // query heads that share a key head
  const auto graph_for = [&](int64_t entries, int64_t heads) -> const BuiltGraph& {
    const BuiltGraph& built = impl_->Get(ProblemOf(call, entries, heads, name));
    if (!built.error.empty()) {
      Fail(ErrorCode::kUnsupported, name, ": cudnn ", CudnnFact().version,
           " takes no such attention: ", built.error);
    }
    if (built.workspace() > call.workspace_bytes) {
      Fail(ErrorCode::kEnvironment, name, ": cudnn ", CudnnFact().version, " wants ",
           built.workspace(), " bytes of scratch for ", entries, " batch entries of ",
           heads * group, " heads, the plan has ", call.workspace_bytes,
           ": compile the plan again with this cuDNN");
    }
    return built;
  };
  std::vector<AttentionStep::Piece> pieces;
  int64_t stride = kBufferAlignment;
  for (const Part& entries : PartsOf(batch, call.batch_chunk)) {
    for (const Part& heads : PartsOf(kv_heads, call.head_chunk)) {
      const BuiltGraph& built = graph_for(entries.count, heads.count);
      stride = std::max(stride, AlignBuffer(built.workspace()));
      pieces.push_back({&built, PointersOf(call, spaces, entries.first, heads.first), nullptr});
      if (call.key_lengths) {
        pieces.back().pointers[kQueryLengths] = impl_->QueryLengths(batch, call.q.type.dim(1));
      }
    }
  }
  // As many pieces at once as the scratch has room for; the bits do not depend on it.
  const int64_t fit = std::max<int64_t>(1, call.workspace_bytes / stride);
  const int streams = static_cast<int>(std::min<int64_t>(
      {fit, kMaxStreams, static_cast<int64_t>(std::max<size_t>(1, pieces.size()))}));
  impl_->lanes.Grow(streams);
  for (size_t i = 0; i < pieces.size(); ++i) {
    pieces[i].workspace = spaces(call.workspace) + static_cast<int64_t>(i) % streams * stride;
  }
  return std::make_unique<AttentionStep>(impl_->handle, impl_->lanes, streams, std::move(pieces),
                                         name);
}

}  // namespace stator
#endif
