#include "runtime/cuda/cublaslt.h"

#include <cublasLt.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "ir/base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/matmul_layout.h"
#include "runtime/cuda/tuning.h"

namespace stator {
namespace {

constexpr int kCandidates = 8;

void CheckLt(cublasStatus_t status, const std::string& doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  Fail(ErrorCode::kEnvironment, "cublaslt: ", doing, ": ", cublasLtGetStatusName(status));
}

cudaDataType DataType(DType dtype, const std::string& name) {
  switch (dtype) {
    case DType::kF64: return CUDA_R_64F;
    case DType::kF32: return CUDA_R_32F;
    case DType::kBF16: return CUDA_R_16BF;
    case DType::kF16: return CUDA_R_16F;
    default:
      Fail(ErrorCode::kUnsupported, name, ": cuBLASLt multiplies f64, f32, bf16 and f16, not ",
           Name(dtype));
  }
}

template <typename T, cublasStatus_t (*Destroy)(T)>
struct LtHandle {
  T handle = nullptr;
  LtHandle() = default;
  LtHandle(LtHandle&& o) noexcept : handle(std::exchange(o.handle, nullptr)) {}
  LtHandle& operator=(LtHandle&& o) noexcept {
    std::swap(handle, o.handle);
    return *this;
  }
  ~LtHandle() {
    if (handle != nullptr) (void)Destroy(handle);
  }
};
using LtDesc = LtHandle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using LtLayout = LtHandle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using LtPreference = LtHandle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <typename T>
void SetDesc(const LtDesc& desc, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  CheckLt(cublasLtMatmulDescSetAttribute(desc.handle, attribute, &value, sizeof value),
          "describe a product");
}

template <typename T>
void SetPreference(const LtPreference& p, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  CheckLt(cublasLtMatmulPreferenceSetAttribute(p.handle, attribute, &value, sizeof value),
          "set a preference");
}

LtLayout MakeLayout(const LtMatrix& m, int64_t batch, const std::string& name) {
  LtLayout layout;
  CheckLt(cublasLtMatrixLayoutCreate(&layout.handle, DataType(m.dtype, name),
                                     static_cast<uint64_t>(m.rows), static_cast<uint64_t>(m.cols),
                                     m.ld),
          "describe a matrix");
  const int32_t count = static_cast<int32_t>(batch);
  CheckLt(cublasLtMatrixLayoutSetAttribute(layout.handle, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                           sizeof count),
          "describe a batch");
  CheckLt(cublasLtMatrixLayoutSetAttribute(layout.handle,
                                           CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &m.batch_stride, sizeof m.batch_stride),
          "describe a batch");
  return layout;
}

cublasLtEpilogue_t LtEpilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kBias: return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kGeluTanhAux: return CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::kBiasGeluTanhAux: return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kNone: break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// K = 0, or nothing at all: d is c, or zero.
class NoTerms : public CudaStep {
 public:
  NoTerms(const MatMulCall& call, const SpaceMap& spaces, const std::string& name)
      : to_(spaces(call.d.buffer)), from_(spaces(call.c.buffer)),
        bytes_(static_cast<size_t>(call.d.type.Bytes())) {
    const Dims dense = DenseStrides(call.d.type.shape);
    if (call.epilogue != Epilogue::kNone ||
        (bytes_ > 0 && (call.d.strides != dense || (call.c && call.c.strides != dense)))) {
      Fail(ErrorCode::kUnsupported, name, ": matmul over no terms with strides or an epilogue");
    }
  }
  void Enqueue(cudaStream_t stream) override {
    if (bytes_ == 0 || to_ == from_) return;
    CheckCuda(from_ == nullptr
                  ? cudaMemsetAsync(to_, 0, bytes_, stream)
                  : cudaMemcpyAsync(to_, from_, bytes_, cudaMemcpyDeviceToDevice, stream),
              "fill an empty product");
  }

 private:
  char *to_, *from_;
  size_t bytes_;
};

struct Product : CudaStep {
  void Enqueue(cudaStream_t stream) override { Loop(0, pointer, stream); }

  void Loop(size_t depth, char* const (&at)[kLtOperands], cudaStream_t stream) {
    if (depth == problem.loops.size()) return Run(at, stream);
    const LtLoop& loop = problem.loops[depth];
    for (int64_t i = 0; i < loop.count; ++i) {
      char* here[kLtOperands];
      for (int o = 0; o < kLtOperands; ++o) {
        here[o] = at[o] + i * loop.stride[o] * ByteWidth(problem.matrix[o].dtype);
      }
      Loop(depth + 1, here, stream);
    }
  }

  void Run(char* const (&at)[kLtOperands], cudaStream_t stream) {
    if (!problem.loops.empty() && problem.epilogue >= Epilogue::kGeluTanhAux) {
      SetDesc(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, at[kLtAux]);
    }
    const double one = 1, zero = 0;
    const float one_f = 1, zero_f = 0;
    const bool wide = problem.matrix[kLtA].dtype == DType::kF64;
    const void* alpha = wide ? static_cast<const void*>(&one) : &one_f;
    const void* no_c = wide ? static_cast<const void*>(&zero) : &zero_f;
    CheckLt(cublasLtMatmul(lt, desc.handle, alpha, at[kLtA], layout[kLtA].handle, at[kLtB],
                           layout[kLtB].handle, problem.has_c ? alpha : no_c, at[kLtC],
                           layout[kLtC].handle, at[kLtD], layout[kLtD].handle, &algorithm, workspace,
                           static_cast<size_t>(kMatMulWorkspace), stream),
            name + ": run " + problem.Key());
  }

  cublasLtHandle_t lt = nullptr;
  LtProblem problem;
  LtDesc desc;
  LtLayout layout[kLtAux];
  char* pointer[kLtOperands] = {};
  char* workspace = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  std::string name;
};

}  // namespace

struct CublasLt::Impl {
  Impl(const std::string& device, const std::string& path, const MatMulOptions& o)
      : options(o), tuning(path, StrCat(device, " cublaslt ", CublasLt::Version())) {
    CheckLt(cublasLtCreate(&lt), "create a handle");
  }
  ~Impl() { (void)cublasLtDestroy(lt); }

  void Describe(Product& p, const MatMulCall& call, const SpaceMap& spaces);
  std::vector<cublasLtMatmulAlgo_t> Candidates(const Product& p) const;
  bool Takes(const Product& p, const cublasLtMatmulAlgo_t& algorithm) const;
  double Time(Product& p, const cublasLtMatmulAlgo_t& algorithm);
  cublasLtMatmulAlgo_t Choose(Product& p, const std::string& key);

  MatMulOptions options;
  TuningFile tuning;
  cublasLtHandle_t lt = nullptr;
  std::map<std::string, cublasLtMatmulAlgo_t> chosen;
};

void CublasLt::Impl::Describe(Product& p, const MatMulCall& call, const SpaceMap& spaces) {
  const LtProblem& q = p.problem;
  const DType in = q.matrix[kLtA].dtype;
  const cublasComputeType_t compute =
      in == DType::kF64 ? CUBLAS_COMPUTE_64F
      : in == DType::kF32 && options.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  CheckLt(cublasLtMatmulDescCreate(&p.desc.handle, compute,
                                   in == DType::kF64 ? CUDA_R_64F : CUDA_R_32F),
          "describe a product");
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  SetDesc(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, op(q.transpose_a));
  SetDesc(p.desc, CUBLASLT_MATMUL_DESC_TRANSB, op(q.transpose_b));
  SetDesc(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, LtEpilogue(q.epilogue));
  p.pointer[kLtA] = spaces(q.swapped ? call.b.buffer : call.a.buffer);
  p.pointer[kLtB] = spaces(q.swapped ? call.a.buffer : call.b.buffer);
  p.pointer[kLtD] = spaces(call.d.buffer);
  p.pointer[kLtC] = q.has_c ? spaces(call.c.buffer) : p.pointer[kLtD];
  p.pointer[kLtAux] = spaces(call.aux.buffer);
  if (call.bias) {
    SetDesc(p.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, spaces(call.bias.buffer));
    SetDesc(p.desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
            static_cast<int32_t>(DataType(q.bias, p.name)));
  }
  if (call.aux) {
    const LtMatrix& aux = q.matrix[kLtAux];
    SetDesc(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.pointer[kLtAux]);
    SetDesc(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux.ld);
    SetDesc(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, aux.batch_stride);
  }
  for (int o = 0; o < kLtAux; ++o) p.layout[o] = MakeLayout(q.matrix[o], q.batch, p.name);
}

std::vector<cublasLtMatmulAlgo_t> CublasLt::Impl::Candidates(const Product& p) const {
  LtPreference preference;
  CheckLt(cublasLtMatmulPreferenceCreate(&preference.handle), "create a preference");
  SetPreference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                static_cast<uint64_t>(kMatMulWorkspace));
  // In-place split-K adds in the order in which blocks arrive, output-type partials round early.
  SetPreference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  constexpr cublasLtMatmulPreferenceAttributes_t kAlignment[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  for (int o = 0; o < kLtAux; ++o) {
    SetPreference(preference, kAlignment[o], static_cast<uint32_t>(p.problem.matrix[o].alignment));
  }
  cublasLtMatmulHeuristicResult_t results[kCandidates];
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      lt, p.desc.handle, p.layout[kLtA].handle, p.layout[kLtB].handle, p.layout[kLtC].handle,
      p.layout[kLtD].handle, preference.handle, kCandidates, results, &count);
  std::vector<cublasLtMatmulAlgo_t> found;
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i) {
    if (results[i].state == CUBLAS_STATUS_SUCCESS) found.push_back(results[i].algo);
  }
  if (found.empty()) {
    Fail(ErrorCode::kUnsupported, p.name, ": cuBLASLt ", CublasLt::Version(),
         " has no algorithm for ", p.problem.Key(), " (", cublasLtGetStatusName(status), ")");
  }
  return found;
}

bool CublasLt::Impl::Takes(const Product& p, const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(
      lt, p.desc.handle, p.layout[kLtA].handle, p.layout[kLtB].handle, p.layout[kLtC].handle,
      p.layout[kLtD].handle, &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<size_t>(kMatMulWorkspace);
}

// Milliseconds of a run, the least of three rounds.
double CublasLt::Impl::Time(Product& p, const cublasLtMatmulAlgo_t& algorithm) {
  constexpr int kRounds = 3, kRuns = 3;
  const CudaStream stream = MakeStream();
  cudaEvent_t raw[2];
  for (cudaEvent_t& event : raw) CheckCuda(cudaEventCreate(&event), "create an event");
  const CudaEvent begin(raw[0]), end(raw[1]);
  p.algorithm = algorithm;
  p.Enqueue(stream.get());
  float best = 1e30f;
  for (int round = 0; round < kRounds; ++round) {
    CheckCuda(cudaEventRecord(begin.get(), stream.get()), "time a product");
    for (int run = 0; run < kRuns; ++run) p.Enqueue(stream.get());
    CheckCuda(cudaEventRecord(end.get(), stream.get()), "time a product");
    CheckCuda(cudaEventSynchronize(end.get()), "time " + p.name);
    float ms = 0;
    CheckCuda(cudaEventElapsedTime(&ms, begin.get(), end.get()), "time a product");
    best = std::min(best, ms / kRuns);
  }
  return best;
}

cublasLtMatmulAlgo_t CublasLt::Impl::Choose(Product& p, const std::string& key) {
  static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(AlgorithmBits));
  cublasLtMatmulAlgo_t algorithm{};
  if (const auto tuned = tuning.Find(key)) {
    std::memcpy(&algorithm, tuned->algorithm.data(), sizeof algorithm);
    if (Takes(p, algorithm)) return algorithm;
    Fail(ErrorCode::kEnvironment, p.name, ": the tuning file's algorithm for ", key,
         " does not run here: remove the file to tune again");
  }
  const std::vector<cublasLtMatmulAlgo_t> candidates = Candidates(p);
  if (!options.search) return candidates[0];
  TunedChoice choice;
  choice.milliseconds = 1e30;
  for (const cublasLtMatmulAlgo_t& candidate : candidates) {
    const double ms = Time(p, candidate);
    if (ms >= choice.milliseconds) continue;
    choice.milliseconds = ms;
    algorithm = candidate;
  }
  std::memcpy(choice.algorithm.data(), &algorithm, sizeof algorithm);
  tuning.Put(key, choice);
  return algorithm;
}

CublasLt::CublasLt(const std::string& device_name, const std::string& tuning_file,
                   const MatMulOptions& options)
    : impl_(std::make_unique<Impl>(device_name, tuning_file, options)) {}

CublasLt::~CublasLt() = default;

CudaStepPtr CublasLt::Prepare(const MatMulCall& call, const SpaceMap& spaces, char* workspace,
                              const std::string& name) {
  LtProblem problem = MapMatMul(call, name);
  if (problem.empty || problem.no_terms) return std::make_unique<NoTerms>(call, spaces, name);
  auto product = std::make_unique<Product>();
  product->lt = impl_->lt;
  product->name = name;
  product->workspace = workspace;
  product->problem = std::move(problem);
  impl_->Describe(*product, call, spaces);
  const std::string key = StrCat(call.tuning_key, call.tuning_key.empty() ? "" : " | ",
                                 product->problem.Key(), impl_->options.tf32 ? " tf32" : "");
  const auto known = impl_->chosen.find(key);
  product->algorithm = known != impl_->chosen.end() ? known->second : impl_->Choose(*product, key);
  impl_->chosen.emplace(key, product->algorithm);
  return product;
}

void CublasLt::SaveTuning() { impl_->tuning.Save(); }

std::string CublasLt::Version() {
  const size_t v = cublasLtGetVersion();
  return StrCat(v / 10000, ".", v / 100 % 100, ".", v % 100);
}

}  // namespace stator
