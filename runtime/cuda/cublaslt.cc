#include "runtime/cuda/cublaslt.h"

#include "ir/base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/lt_product.h"
#include "runtime/cuda/matmul_layout.h"
#include "runtime/cuda/tuning.h"

#include <cublasLt.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

namespace stator {
namespace {

constexpr int kCandidates = 8;

template <typename T>
void SetPreference(const LtPreference& p, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  CheckLt(cublasLtMatmulPreferenceSetAttribute(p.handle, attribute, &value, sizeof value),
          "set a preference");
}

cublasLtEpilogue_t LtEpilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kGeluTanhAux:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::kBiasGeluTanhAux:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kNone:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

}  // namespace

void FillWithNoise(const DeviceMemory& memory) {
  std::vector<uint32_t> noise(size_t{1} << 20);
  uint32_t state = 1;
  for (uint32_t& word : noise) {
    state = state * 1664525u + 1013904223u;
    word = (state & 0x807f807fu) | 0x3f003f00u;  // signs and mantissas, exponents of 0.5 to 1
  }
  const int64_t block = static_cast<int64_t>(noise.size()) * 4;
  for (int64_t at = 0; at < memory.bytes(); at += block) {
    const size_t bytes = static_cast<size_t>(std::min(memory.bytes() - at, block));
    CheckCuda(cudaMemcpy(memory.data() + at, noise.data(), bytes, cudaMemcpyHostToDevice),
              "fill with noise");
  }
}

struct CublasLt::Impl {
  Impl(const std::string& device, const std::string& path, const MatMulOptions& o)
      : options(o), tuning(path, StrCat(device, " cublaslt ", CublasLt::Version())) {
    CheckLt(cublasLtCreate(&lt), "create a handle");
  }
  ~Impl() { (void)cublasLtDestroy(lt); }

  void Describe(LtProduct& p, const MatMulCall& call, const SpaceMap& spaces);
  std::vector<cublasLtMatmulAlgo_t> Candidates(const LtProduct& p) const;
  bool Takes(const LtProduct& p, const cublasLtMatmulAlgo_t& algorithm) const;
  double Time(LtProduct& p, const cublasLtMatmulAlgo_t& algorithm);
  cublasLtMatmulAlgo_t Choose(LtProduct& p, const std::string& key);

  MatMulOptions options;
  TuningFile tuning;
  cublasLtHandle_t lt = nullptr;
  std::map<std::string, cublasLtMatmulAlgo_t> chosen;
};

void CublasLt::Impl::Describe(LtProduct& p, const MatMulCall& call, const SpaceMap& spaces) {
  const LtProblem& q = p.problem;
  const DType in = q.matrix[kLtA].dtype;
  const cublasComputeType_t compute = in == DType::kF64 ? CUBLAS_COMPUTE_64F
                                      : in == DType::kF32 && options.tf32
                                          ? CUBLAS_COMPUTE_32F_FAST_TF32
                                          : CUBLAS_COMPUTE_32F;
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
            static_cast<int32_t>(LtDataType(q.bias, p.name)));
  }
  if (call.aux) {
    const LtMatrix& aux = q.matrix[kLtAux];
    SetDesc(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.pointer[kLtAux]);
    SetDesc(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux.ld);
    SetDesc(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, aux.batch_stride);
  }
  for (int o = 0; o < kLtAux; ++o) p.layout[o] = MakeLtLayout(q.matrix[o], q.batch, p.name);
}

std::vector<cublasLtMatmulAlgo_t> CublasLt::Impl::Candidates(const LtProduct& p) const {
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

bool CublasLt::Impl::Takes(const LtProduct& p, const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(lt, p.desc.handle, p.layout[kLtA].handle, p.layout[kLtB].handle,
                              p.layout[kLtC].handle, p.layout[kLtD].handle, &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<size_t>(kMatMulWorkspace);
}

// Milliseconds of a run, the least of three rounds.
double CublasLt::Impl::Time(LtProduct& p, const cublasLtMatmulAlgo_t& algorithm) {
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

cublasLtMatmulAlgo_t CublasLt::Impl::Choose(LtProduct& p, const std::string& key) {
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
  if (problem.empty || problem.no_terms) return MakeProductOfNoTerms(call, spaces, name);
  auto product = std::make_unique<LtProduct>();
  product->lt = impl_->lt;
  product->name = name;
  product->workspace = workspace;
  product->workspace_bytes = static_cast<size_t>(kMatMulWorkspace);
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
