// The only file that includes cudnn_frontend.h, which is slow to compile.
#if STATOR_WITH_CUDNN
#include "runtime/cuda/attention_cudnn.h"

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "ir/base/error.h"
#include "runtime/cuda/attention_problem.h"
#include "runtime/cuda/check.h"

namespace stator {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

enum Uid : int64_t { kQ = 1, kK, kV, kOut, kLse, kDOut, kDQ, kDK, kDV, kQueryLengths, kKeyLengths };

// Chunks of one call run side by side on this many streams where the scratch suffices.
constexpr int kMaxStreams = 4;

void CheckDnn(cudnnStatus_t status, const char* doing) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  Fail(ErrorCode::kEnvironment, "cudnn: ", doing, ": ", cudnnGetErrorString(status));
}

struct BuiltGraph {
  std::shared_ptr<fe::graph::Graph> graph;
  int64_t workspace = 0;
  std::string error;  // why cuDNN refused
};

class GraphBuilder {
 public:
  explicit GraphBuilder(const AttentionProblem& p) : p_(p), graph_(*new_graph_) {
    const auto io = p.dtype == DType::kF16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16;
    graph_.set_io_data_type(io)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  BuiltGraph Build(cudnnHandle_t handle) {
    const Tensor q = Heads("q", kQ, p_.q, p_.heads, p_.query_len);
    const Tensor k = Heads("k", kK, p_.k, p_.kv_heads, p_.key_len);
    const Tensor v = Heads("v", kV, p_.v, p_.kv_heads, p_.key_len);
    p_.backward ? Backward(q, k, v) : Forward(q, k, v);
    BuiltGraph built;
    for (const auto& act : Acts(handle)) {
      if (fe::error_t status = act(); status.is_bad()) {
        built.error = status.get_message().empty()
                          ? StrCat("cuDNN status ", static_cast<int>(status.get_code()))
                          : status.get_message();
        return built;
      }
    }
    built.graph = new_graph_;
    if (graph_.get_workspace_size(built.workspace).is_bad()) built.error = "no workspace size";
    return built;
  }

 private:
  std::vector<std::function<fe::error_t()>> Acts(cudnnHandle_t handle) {
    return {[this] { return graph_.validate(); },
            [=, this] { return graph_.build_operation_graph(handle); },
            [this] { return graph_.create_execution_plans({fe::HeurMode_t::A}); },
            [this] { return graph_.check_support(); },
            [this] { return graph_.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE); }};
  }

  void Forward(const Tensor& q, const Tensor& k, const Tensor& v) {
    auto sdpa = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(p_.stats);
    Mask(sdpa);
    auto [out, lse] = graph_.sdpa(q, k, v, sdpa);
    Place(out, kOut, p_.out, p_.heads, p_.query_len).set_output(true);
    if (p_.stats) PlaceLse(*lse).set_output(true);
  }

  void Backward(const Tensor& q, const Tensor& k, const Tensor& v) {
    const Tensor out = Heads("out", kOut, p_.out, p_.heads, p_.query_len);
    const Tensor dout = Heads("dout", kDOut, p_.dout, p_.heads, p_.query_len);
    fe::graph::Tensor_attributes stats;
    const Tensor lse = graph_.tensor(PlaceLse(stats).set_name("lse"));
    auto sdpa = fe::graph::SDPA_backward_attributes()
                    .set_name("attention_grad")
                    .set_deterministic_algorithm(p_.deterministic);
    Mask(sdpa);
    auto [dq, dk, dv] = graph_.sdpa_backward(q, k, v, out, dout, lse, sdpa);
    Place(dq, kDQ, p_.dq, p_.heads, p_.query_len).set_output(true);
    Place(dk, kDK, p_.dk, p_.kv_heads, p_.key_len).set_output(true);
    Place(dv, kDV, p_.dv, p_.kv_heads, p_.key_len).set_output(true);
  }

  template <typename Attributes>
  void Mask(Attributes& a) {
    a.set_attn_scale(static_cast<float>(p_.scale));
    if (p_.causal) {
      a.set_diagonal_alignment(p_.bottom_right ? fe::DiagonalAlignment_t::BOTTOM_RIGHT
                                               : fe::DiagonalAlignment_t::TOP_LEFT);
      a.set_diagonal_band_right_bound(0);
    }
    // A query sees `window` keys, itself included: cuDNN masks j <= i - bound.
    if (p_.window > 0) a.set_diagonal_band_left_bound(p_.window);
    if (p_.key_lengths) {
      a.set_padding_mask(true);
      a.set_seq_len_q(Lengths("query_lengths", kQueryLengths));
      a.set_seq_len_kv(Lengths("key_lengths", kKeyLengths));
    }
  }

  Tensor Lengths(const char* name, Uid uid) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(name)
                             .set_uid(uid)
                             .set_dim({p_.batch, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(fe::DataType_t::INT32));
  }

  Tensor Heads(const char* name, Uid uid, const HeadStrides& s, int64_t heads, int64_t length) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(name)
                             .set_uid(uid)
                             .set_dim({p_.batch, heads, length, p_.head_dim})
                             .set_stride({s.b, s.h, s.t, 1}));
  }

  fe::graph::Tensor_attributes& Place(const Tensor& t, Uid uid, const HeadStrides& s, int64_t heads,
                                      int64_t length) {
    return t->set_uid(uid)
        .set_dim({p_.batch, heads, length, p_.head_dim})
        .set_stride({s.b, s.h, s.t, 1});
  }

  fe::graph::Tensor_attributes& PlaceLse(fe::graph::Tensor_attributes& t) {
    return t.set_uid(kLse)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim({p_.batch, p_.heads, p_.query_len, 1})
        .set_stride({p_.heads * p_.query_len, p_.query_len, 1, 1});
  }

  const AttentionProblem& p_;
  std::shared_ptr<fe::graph::Graph> new_graph_ = std::make_shared<fe::graph::Graph>();
  fe::graph::Graph& graph_;
};

// The streams and events chunks fan out over; shared by all steps of one handle.
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
    std::unordered_map<int64_t, void*> pointers;
    char* workspace;
  };

  AttentionStep(cudnnHandle_t handle, Lanes& lanes, int streams, std::vector<Piece> pieces,
                std::string name)
      : handle_(handle), lanes_(lanes), streams_(streams), pieces_(std::move(pieces)),
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
      fe::error_t status =
          piece.built->graph->execute(handle_, piece.pointers, piece.workspace);
      if (status.is_bad()) {
        Fail(ErrorCode::kEnvironment, name_, ": cudnn attention: ", status.get_message());
      }
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

}  // namespace

struct CudnnAttention::Impl {
  Impl() { CheckDnn(cudnnCreate(&handle), "create a handle"); }
  ~Impl() {
    graphs.clear();
    (void)cudnnDestroy(handle);
  }

  const BuiltGraph& Get(const AttentionProblem& problem) {
    const auto [at, fresh] = graphs.try_emplace(problem.Key());
    if (fresh) at->second = GraphBuilder(problem).Build(handle);
    return at->second;
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

CudnnAttention::CudnnAttention() : impl_(std::make_unique<Impl>()) {}
CudnnAttention::~CudnnAttention() = default;

bool CudnnAttention::Supports(const AttentionQuery& query, std::string* why) {
  std::string reason = WhyNotFused(query);
  if (reason.empty()) reason = impl_->Get(ProblemOf(query)).error;
  if (why != nullptr) *why = reason;
  return reason.empty();
}

int64_t CudnnAttention::Workspace(const AttentionQuery& query) {
  if (!WhyNotFused(query).empty()) return 0;
  return impl_->Get(ProblemOf(query)).workspace;
}

CudaStepPtr CudnnAttention::Prepare(const AttentionCall& call, const SpaceMap& spaces,
                                    const std::string& name) {
  const int64_t batch = call.q.type.dim(0);
  const int64_t chunk = call.batch_chunk > 0 ? std::min(call.batch_chunk, batch) : batch;
  const auto graph_for = [&](int64_t entries) -> const BuiltGraph& {
    const BuiltGraph& built = impl_->Get(ProblemOf(call, entries, name));
    if (!built.error.empty()) {
      Fail(ErrorCode::kUnsupported, name, ": cudnn ", CudnnFact().version,
           " takes no such attention: ", built.error);
    }
    if (built.workspace > call.workspace_bytes) {
      Fail(ErrorCode::kEnvironment, name, ": cudnn ", CudnnFact().version, " wants ",
           built.workspace, " bytes of scratch for ", entries, " batch entries, the plan has ",
           call.workspace_bytes, ": compile the plan again with this cuDNN");
    }
    return built;
  };
  std::vector<AttentionStep::Piece> pieces;
  int64_t stride = kBufferAlignment;
  for (int64_t first = 0; first < batch; first += chunk) {
    const int64_t entries = std::min(chunk, batch - first);
    const BuiltGraph& built = graph_for(entries);
    stride = std::max(stride, (built.workspace + kBufferAlignment - 1) / kBufferAlignment *
                                  kBufferAlignment);
    AttentionStep::Piece piece{&built, {}, nullptr};
    const auto add = [&](Uid uid, const TensorRef& t) {
      if (!t) return;
      piece.pointers[uid] =
          spaces(t.buffer) + first * t.strides[0] * ByteWidth(t.type.dtype);
    };
    add(kQ, call.q), add(kK, call.k), add(kV, call.v), add(kOut, call.out), add(kLse, call.lse);
    if (call.backward) add(kDOut, call.dout), add(kDQ, call.dq), add(kDK, call.dk), add(kDV, call.dv);
    if (call.key_lengths) {
      add(kKeyLengths, call.key_lengths);
      piece.pointers[kQueryLengths] = impl_->QueryLengths(batch, call.q.type.dim(1));
    }
    pieces.push_back(std::move(piece));
  }
  // As many chunks at once as the scratch has room for; the bits do not depend on it.
  const int64_t fit = std::max<int64_t>(1, call.workspace_bytes / stride);
  const int streams = static_cast<int>(
      std::min<int64_t>({fit, kMaxStreams, static_cast<int64_t>(std::max<size_t>(1, pieces.size()))}));
  impl_->lanes.Grow(streams);
  for (size_t i = 0; i < pieces.size(); ++i) {
    pieces[i].workspace = spaces(call.workspace) + static_cast<int64_t>(i) % streams * stride;
  }
  return std::make_unique<AttentionStep>(impl_->handle, impl_->lanes, streams, std::move(pieces),
                                         name);
}

}  // namespace stator
#endif
