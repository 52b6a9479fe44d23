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
#include <optional>
#include <utility>
#include <vector>

namespace stator {
namespace {

constexpr int kCandidates = 8;
constexpr int kShortCandidates = 16;  // where a run takes next to nothing
constexpr double kShort = 0.05;       // milliseconds of a run and two events

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
  int64_t filled = std::min(memory.bytes(), static_cast<int64_t>(noise.size()) * 4);
  if (filled == 0) return;
  CheckCuda(
      cudaMemcpy(memory.data(), noise.data(), static_cast<size_t>(filled), cudaMemcpyHostToDevice),
      "fill with noise");
  while (filled < memory.bytes()) {
    const int64_t more = std::min(memory.bytes() - filled, filled);
    CheckCuda(cudaMemcpy(memory.data() + filled, memory.data(), static_cast<size_t>(more),
                         cudaMemcpyDeviceToDevice),
              "fill with noise");
    filled += more;
  }
  CheckCuda(cudaDeviceSynchronize(), "fill with noise");
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
  double Time(LtProduct& p, const cublasLtMatmulAlgo_t& algorithm, int runs);
  double TimeShort(LtProduct& p, const cublasLtMatmulAlgo_t& algorithm, int rounds);
  cublasLtMatmulAlgo_t Search(LtProduct& p, const std::string& key);
  cublasLtMatmulAlgo_t Choose(LtProduct& p, const std::string& key);

  MatMulOptions options;
  TuningFile tuning;
  cublasLtHandle_t lt = nullptr;
  std::map<std::string, cublasLtMatmulAlgo_t> chosen;
  CudaStream stream;  // of timing
  CudaEvent begin, end;
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
  cublasLtMatmulHeuristicResult_t results[kShortCandidates];
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      lt, p.desc.handle, p.layout[kLtA].handle, p.layout[kLtB].handle, p.layout[kLtC].handle,
      p.layout[kLtD].handle, preference.handle, kShortCandidates, results, &count);
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

// Milliseconds of a run, the least of `runs`.
double CublasLt::Impl::Time(LtProduct& p, const cublasLtMatmulAlgo_t& algorithm, int runs) {
  if (stream.get() == nullptr) {
    stream = MakeStream();
    for (CudaEvent* event : {&begin, &end}) {
      cudaEvent_t raw = nullptr;
      CheckCuda(cudaEventCreate(&raw), "create an event");
      *event = CudaEvent(raw);
    }
  }
  p.algorithm = algorithm;
  float best = 1e30f;
  for (int run = 0; run < runs; ++run) {
    CheckCuda(cudaEventRecord(begin.get(), stream.get()), "time a product");
    p.Enqueue(stream.get());
    CheckCuda(cudaEventRecord(end.get(), stream.get()), "time a product");
    CheckCuda(cudaEventSynchronize(end.get()), "time " + p.name);
    float ms = 0;
    CheckCuda(cudaEventElapsedTime(&ms, begin.get(), end.get()), "time a product");
    best = std::min(best, ms);
  }
  return best;
}

namespace {

CudaGraph CaptureRuns(LtProduct& p, const cublasLtMatmulAlgo_t& algorithm, int runs,
                      cudaStream_t stream) {
  p.algorithm = algorithm;
  cudaGraph_t graph = nullptr;
  CheckCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "load a product");
  for (int run = 0; run < runs; ++run) p.Enqueue(stream);
  CheckCuda(cudaStreamEndCapture(stream, &graph), "load a product");
  return CudaGraph(graph);
}

// Loads the algorithm's kernel, which a first launch would otherwise do while the clock runs.
void Preload(LtProduct& p, const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream) {
  (void)CaptureRuns(p, algorithm, 1, stream);
}

}  // namespace

// As Time, of one run among others in a graph: events would take longer than a short product, and
// of two kernels where another algorithm has one only the graph shows the cost.
double CublasLt::Impl::TimeShort(LtProduct& p, const cublasLtMatmulAlgo_t& algorithm, int rounds) {
  constexpr int kRuns = 20;
  const CudaGraph graph = CaptureRuns(p, algorithm, kRuns, stream.get());
  cudaGraphExec_t raw = nullptr;
  CheckCuda(cudaGraphInstantiate(&raw, graph.get(), 0), "time a product");
  const CudaGraphExec exec(raw);
  float best = 1e30f;
  for (int round = 0; round <= rounds; ++round) {
    CheckCuda(cudaEventRecord(begin.get(), stream.get()), "time a product");
    CheckCuda(cudaGraphLaunch(exec.get(), stream.get()), "time a product");
    CheckCuda(cudaEventRecord(end.get(), stream.get()), "time a product");
    CheckCuda(cudaEventSynchronize(end.get()), "time " + p.name);
    float ms = 0;
    CheckCuda(cudaEventElapsedTime(&ms, begin.get(), end.get()), "time a product");
    if (round > 0) best = std::min(best, ms);
  }
  return best / kRuns;
}

// All candidates once, then those near the best again: a model's products take 0.2 s. The first
// run of the first candidate warms the operands up and is not counted.
cublasLtMatmulAlgo_t CublasLt::Impl::Search(LtProduct& p, const std::string& key) {
  constexpr double kLong = 2;  // milliseconds: of such products fewer candidates are tried
  constexpr size_t kFew = 4;
  constexpr double kNear = 1.08;  // a single run may be this much too slow
  std::vector<cublasLtMatmulAlgo_t> candidates = Candidates(p);
  std::vector<double> ms;
  if (options.before_search) std::exchange(options.before_search, {})();
  (void)Time(p, candidates[0], 1);
  const bool is_short = Time(p, candidates[0], 2) < kShort;
  if (!is_short) candidates.resize(std::min<size_t>(candidates.size(), kCandidates));
  const auto time = [&](const cublasLtMatmulAlgo_t& algorithm, int runs) {
    return is_short ? TimeShort(p, algorithm, 2 * runs) : Time(p, algorithm, runs);
  };
  const int rounds = options.thorough ? 8 : 2;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!options.thorough && i >= kFew && ms[0] > kLong) break;
    if (!is_short) Preload(p, candidates[i], stream.get());
    ms.push_back(time(candidates[i], options.thorough ? 4 : 1));
  }
  const double limit = *std::min_element(ms.begin(), ms.end()) * kNear;
  TunedChoice choice;
  choice.milliseconds = 1e30;
  cublasLtMatmulAlgo_t algorithm{};
  for (size_t i = 0; i < ms.size(); ++i) {
    if (ms[i] > limit) continue;
    if (options.thorough || ms[i] < kLong) ms[i] = std::min(ms[i], time(candidates[i], rounds));
    if (ms[i] >= choice.milliseconds) continue;
    choice.milliseconds = ms[i];
    algorithm = candidates[i];
  }
  std::memcpy(choice.algorithm.data(), &algorithm, sizeof algorithm);
  tuning.Put(key, choice);
  return algorithm;
}

cublasLtMatmulAlgo_t CublasLt::Impl::Choose(LtProduct& p, const std::string& key) {
  static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(AlgorithmBits));
  const auto bits = [](const TunedChoice& choice) {
    cublasLtMatmulAlgo_t algorithm{};
    std::memcpy(&algorithm, choice.algorithm.data(), sizeof algorithm);
    return algorithm;
  };
  const auto from_file = [&]() -> std::optional<cublasLtMatmulAlgo_t> {
    const auto tuned = tuning.Find(key);
    if (!tuned) return std::nullopt;
    if (Takes(p, bits(*tuned))) return bits(*tuned);
    Fail(ErrorCode::kEnvironment, p.name, ": the tuning file's algorithm for ", key,
         " does not run here: remove the file to tune again");
  };
  if (const auto known = from_file()) return *known;
  if (options.recorded) {
    const auto recorded = FindRecorded(tuning.scope(), key);
    if (recorded && Takes(p, bits(*recorded))) return bits(*recorded);
  }
  if (!options.search) return Candidates(p)[0];
  tuning.Lock();
  if (const auto known = from_file()) return *known;  // another process was faster
  return Search(p, key);
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
