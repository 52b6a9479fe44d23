// The only file that includes cudnn_frontend.h.
#if STATOR_WITH_CUDNN
#include "runtime/cuda/attention_graph.h"

#include "ir/base/error.h"

#include <cudnn_frontend.h>

#include <functional>

namespace stator {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

std::string Complaint(fe::error_t& status) {
  if (!status.get_message().empty()) return status.get_message();
  return StrCat("cuDNN status ", static_cast<int>(status.get_code()));
}

class GraphBuilder {
 public:
  explicit GraphBuilder(const AttentionProblem& p) : p_(p), graph_(*new_graph_) {
    const auto io = p.dtype == DType::kF16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16;
    graph_.set_io_data_type(io)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  std::shared_ptr<fe::graph::Graph> Build(cudnnHandle_t handle, std::string* why) {
    const Tensor q = Heads("q", kQ, p_.q, p_.heads, p_.query_len);
    const Tensor k = Heads("k", kK, p_.k, p_.kv_heads, p_.key_len);
    const Tensor v = Heads("v", kV, p_.v, p_.kv_heads, p_.key_len);
    p_.backward ? Backward(q, k, v) : Forward(q, k, v);
    for (const auto& act : Acts(handle)) {
      if (fe::error_t status = act(); status.is_bad()) {
        *why = Complaint(status);
        return nullptr;
      }
    }
    return new_graph_;
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

  Tensor Lengths(const char* name, AttentionUid uid) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(name)
                             .set_uid(uid)
                             .set_dim({p_.batch, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(fe::DataType_t::INT32));
  }

  Tensor Heads(const char* name, AttentionUid uid, const HeadStrides& s, int64_t heads,
               int64_t length) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(name)
                             .set_uid(uid)
                             .set_dim({p_.batch, heads, length, p_.head_dim})
                             .set_stride({s.b, s.h, s.t, 1}));
  }

  fe::graph::Tensor_attributes& Place(const Tensor& t, AttentionUid uid, const HeadStrides& s,
                                      int64_t heads, int64_t length) {
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

class FrontendGraph : public AttentionGraph {
 public:
  explicit FrontendGraph(std::shared_ptr<fe::graph::Graph> graph) : graph_(std::move(graph)) {
    if (graph_->get_workspace_size(workspace_).is_bad()) workspace_ = -1;
  }
  int64_t workspace() const override { return workspace_; }
  std::string Run(cudnnHandle_t handle, AttentionPointers& pointers, char* workspace) override {
    fe::error_t status = graph_->execute(handle, pointers, workspace);
    return status.is_bad() ? Complaint(status) : "";
  }
  std::vector<char> Serialize() const override {
    std::vector<uint8_t> bytes;
    if (graph_->serialize(bytes, false).is_bad()) return {};
    return {bytes.begin(), bytes.end()};
  }

 private:
  std::shared_ptr<fe::graph::Graph> graph_;
  int64_t workspace_ = 0;
};

}  // namespace

std::unique_ptr<AttentionGraph> BuildAttentionGraph(const AttentionProblem& problem,
                                                    cudnnHandle_t handle, std::string* why) {
  auto graph = GraphBuilder(problem).Build(handle, why);
  if (graph == nullptr) return nullptr;
  auto built = std::make_unique<FrontendGraph>(std::move(graph));
  if (built->workspace() >= 0) return built;
  *why = "cuDNN does not say what scratch it wants";
  return nullptr;
}

std::unique_ptr<AttentionGraph> ReadAttentionGraph(const std::vector<char>& bytes,
                                                   cudnnHandle_t handle) {
  auto graph = std::make_shared<fe::graph::Graph>();
  const std::vector<uint8_t> data(bytes.begin(), bytes.end());
  if (graph->deserialize(handle, data).is_bad()) return nullptr;
  auto read = std::make_unique<FrontendGraph>(std::move(graph));
  if (read->workspace() < 0) return nullptr;
  return read;
}

}  // namespace stator
#endif
