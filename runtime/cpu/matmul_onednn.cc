// Matrix products by oneDNN: Debian 12 has 2.6, Ubuntu 24.04 has 3.x; they differ in how a
// primitive is described. Everything is decided, compiled and bound at load; a run only executes.
#include "ir/base/error.h"
#include "runtime/cpu/matmul.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace stator {
namespace {

using dnnl::memory;

std::optional<memory::data_type> DnnlType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return memory::data_type::f32;
    case DType::kBF16:
      return memory::data_type::bf16;
    case DType::kF16:
      return memory::data_type::f16;
    default:
      return std::nullopt;
  }
}

// A batch axis of stride 0 becomes an axis of size 1, which oneDNN broadcasts. Strides of axes of
// size 1 are made to look dense, since oneDNN reads a layout out of them.
std::optional<memory::desc> Describe(DType dtype, const MatMulShape& s, int64_t rows,
                                     int64_t columns, const Dims& strides) {
  const std::optional<memory::data_type> type = DnnlType(dtype);
  if (!type) return std::nullopt;
  const size_t r = s.batch.size();
  memory::dims dims(s.batch.begin(), s.batch.end()), at(strides.begin(), strides.end());
  dims.push_back(rows), dims.push_back(columns);
  if ((rows > 1 && at[r] == 0) || (columns > 1 && at[r + 1] == 0)) return std::nullopt;
  if (columns == 1) at[r + 1] = rows == 1 || at[r] > 1 ? 1 : rows;
  if (rows == 1) at[r] = at[r + 1] > 1 ? 1 : columns;
  int64_t extent = std::max(at[r] * rows, at[r + 1] * columns);
  for (size_t i = r; i-- > 0;) {
    if (at[i] == 0) dims[i] = 1, at[i] = extent;
    extent = std::max(extent, at[i] * dims[i]);
  }
  return memory::desc(dims, *type, at);
}

class OneDnnMatMul : public CpuMatMul {
 public:
  OneDnnMatMul(const dnnl::engine& engine, const dnnl::matmul::primitive_desc& description)
      : engine_(engine),
        stream_(engine),
        primitive_(description),
        scratch_(description.scratchpad_desc()),
        implementation_(description.impl_info_str()) {}

  void Bind(int argument, const memory::desc& d, char* data) {
    arguments_.emplace(argument, memory(d, engine_, data));
  }

  int64_t scratch_bytes() const override { return static_cast<int64_t>(scratch_.get_size()); }
  void BindScratch(char* p) override { Bind(DNNL_ARG_SCRATCHPAD, scratch_, p); }
  const char* implementation() const override { return implementation_.c_str(); }
  void Run() override { primitive_.execute(stream_, arguments_); }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  memory::desc scratch_;
  std::string implementation_;
  std::unordered_map<int, memory> arguments_;
};

dnnl::matmul::primitive_desc MakeDescription(const dnnl::engine& engine, const memory::desc& a,
                                             const memory::desc& b, const memory::desc* bias,
                                             const memory::desc& d,
                                             const dnnl::primitive_attr& attr) {
#if DNNL_VERSION_MAJOR >= 3
  if (bias != nullptr) return {engine, a, b, *bias, d, attr};
  return {engine, a, b, d, attr};
#else
  if (bias != nullptr) return {dnnl::matmul::desc(a, b, *bias, d), attr, engine};
  return {dnnl::matmul::desc(a, b, d), attr, engine};
#endif
}

bool SameTensor(const TensorRef& x, const TensorRef& y) {
  return x.buffer == y.buffer && x.type == y.type && x.strides == y.strides;
}

std::unique_ptr<CpuMatMul> TryOneDnn(const MatMulCall& call, const CpuMemory& cpu) {
  const MatMulShape s = SimplifyMatMul(call);
  if (s.m == 0 || s.n == 0 || s.k == 0 || call.a.type.dtype != call.b.type.dtype) return nullptr;
  for (const int64_t b : s.batch) {
    if (b == 0) return nullptr;
  }
  const auto a = Describe(call.a.type.dtype, s, s.m, s.k, s.a);
  const auto b = Describe(call.b.type.dtype, s, s.k, s.n, s.b);
  const auto d = Describe(call.d.type.dtype, s, s.m, s.n, s.d);
  if (!a || !b || !d) return nullptr;

  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  std::optional<memory::desc> bias, c;
  if (call.epilogue == Epilogue::kBias) {
    const auto type = DnnlType(call.bias.type.dtype);
    if (!type || call.bias.strides.back() != 1) return nullptr;
    memory::dims dims(s.batch.size() + 2, 1), strides(s.batch.size() + 2, s.n);
    dims.back() = s.n, strides.back() = 1;
    bias = memory::desc(dims, *type, strides);
  }
  const bool in_place = call.c && SameTensor(call.c, call.d);
  if (call.c) {
    dnnl::post_ops post;
    if (in_place) {
      post.append_sum(1.0f);
    } else {
      c = Describe(call.c.type.dtype, s, s.m, s.n, s.c);
      if (!c) return nullptr;
      post.append_binary(dnnl::algorithm::binary_add, *c);
    }
    attr.set_post_ops(post);
  }
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const auto description = MakeDescription(engine, *a, *b, bias ? &*bias : nullptr, *d, attr);
  // Its reference loops are slower than ours.
  if (std::string_view(description.impl_info_str()).find("ref") == 0) return nullptr;
  auto out = std::make_unique<OneDnnMatMul>(engine, description);
  out->Bind(DNNL_ARG_SRC, *a, cpu.At(call.a.buffer));
  out->Bind(DNNL_ARG_WEIGHTS, *b, cpu.At(call.b.buffer));
  out->Bind(DNNL_ARG_DST, *d, cpu.At(call.d.buffer));
  if (bias) out->Bind(DNNL_ARG_BIAS, *bias, cpu.At(call.bias.buffer));
  if (c) out->Bind(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, *c, cpu.At(call.c.buffer));
  return out;
}

}  // namespace

std::unique_ptr<CpuMatMul> MakeOneDnnMatMul(const MatMulCall& call, const CpuMemory& memory) {
  try {
    return TryOneDnn(call, memory);
  } catch (const dnnl::error&) {
    return nullptr;  // not a problem for this oneDNN on this processor
  }
}

std::string OneDnnVersion() {
  const dnnl::version_t* v = dnnl::version();
  return StrCat(v->major, ".", v->minor, ".", v->patch);
}

}  // namespace stator
