#include "tests/gpu/plan_maker.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

namespace stator::gpu_test {
namespace {

// splitmix64
uint64_t Next(uint64_t* state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

template <typename T>
void Put(std::vector<char>& out, size_t i, T value) {
  std::memcpy(out.data() + i * sizeof(T), &value, sizeof value);
}
template <typename T>
T Get(const std::vector<char>& in, size_t i) {
  T value;
  std::memcpy(&value, in.data() + i * sizeof(T), sizeof value);
  return value;
}

std::string TargetHere() {
  std::string why;
  return HasCudaDevice(&why) ? StrCat("sm_", MakeCudaTarget(0)->sm()) : "sm_90";
}

}  // namespace

std::vector<char> ToBytes(DType dtype, const std::vector<double>& values) {
  std::vector<char> out(values.size() * static_cast<size_t>(ByteWidth(dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    switch (dtype) {
      case DType::kF64:
        Put(out, i, values[i]);
        break;
      case DType::kF32:
        Put(out, i, static_cast<float>(values[i]));
        break;
      case DType::kBF16:
      case DType::kF16:
        Put(out, i, FloatToBits16(dtype, static_cast<float>(values[i])));
        break;
      case DType::kI64:
        Put(out, i, static_cast<int64_t>(values[i]));
        break;
      case DType::kI32:
        Put(out, i, static_cast<int32_t>(values[i]));
        break;
      case DType::kU32:
        Put(out, i, static_cast<uint32_t>(values[i]));
        break;
      case DType::kU16:
        Put(out, i, static_cast<uint16_t>(values[i]));
        break;
      default:
        Put(out, i, static_cast<uint8_t>(values[i]));
        break;
    }
  }
  return out;
}

std::vector<double> FromBytes(DType dtype, const std::vector<char>& bytes) {
  std::vector<double> out(bytes.size() / static_cast<size_t>(ByteWidth(dtype)));
  for (size_t i = 0; i < out.size(); ++i) {
    switch (dtype) {
      case DType::kF64:
        out[i] = Get<double>(bytes, i);
        break;
      case DType::kF32:
        out[i] = Get<float>(bytes, i);
        break;
      case DType::kBF16:
      case DType::kF16:
        out[i] = BitsToFloat16(dtype, Get<uint16_t>(bytes, i));
        break;
      case DType::kI64:
        out[i] = static_cast<double>(Get<int64_t>(bytes, i));
        break;
      case DType::kI32:
        out[i] = Get<int32_t>(bytes, i);
        break;
      case DType::kU32:
        out[i] = Get<uint32_t>(bytes, i);
        break;
      case DType::kU16:
        out[i] = Get<uint16_t>(bytes, i);
        break;
      default:
        out[i] = Get<uint8_t>(bytes, i);
        break;
    }
  }
  return out;
}

std::vector<double> Random(DType dtype, int64_t n, uint64_t seed) {
  std::vector<double> out(static_cast<size_t>(n));
  for (double& v : out) {
    v = static_cast<double>(Next(&seed) >> 40) * (2.0 / (1 << 24)) - 1;
    v = RoundFloat(dtype, v);
  }
  return out;
}

std::vector<double> RandomInts(int64_t n, int64_t below, uint64_t seed) {
  std::vector<double> out(static_cast<size_t>(n));
  for (double& v : out) v = static_cast<double>(Next(&seed) % static_cast<uint64_t>(below));
  return out;
}

PlanMaker::PlanMaker(std::string name) {
  plan.name = std::move(name);
  plan.device = DeviceKind::kCuda;
  plan.target = TargetHere();
  NewProgram("main");
}

BufferRef PlanMaker::Take(Space space, int64_t bytes) {
  int64_t& used = space == Space::kState   ? plan.state_bytes
                  : space == Space::kArena ? plan.arena_bytes
                                           : plan.io_bytes;
  const BufferRef ref{space, used};
  used +=
      (std::max<int64_t>(1, bytes) + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  return ref;
}

TensorRef PlanMaker::Tensor(Space space, DType dtype, const Dims& shape) {
  const Type type{dtype, shape};
  return {Take(space, type.Bytes()), type, DenseStrides(shape)};
}

TensorRef PlanMaker::Input(const std::string& name, DType dtype, const Dims& shape,
                           const std::vector<double>& values) {
  const TensorRef t = Tensor(Space::kIo, dtype, shape);
  program().inputs.push_back({name, t.type, t.buffer});
  feeds_[name] = ToBytes(dtype, values);
  return t;
}

TensorRef PlanMaker::Output(const std::string& name, DType dtype, const Dims& shape) {
  const TensorRef t = Tensor(Space::kIo, dtype, shape);
  program().outputs.push_back({name, t.type, t.buffer});
  return t;
}

TensorRef PlanMaker::State(const std::string& name, DType dtype, const Dims& shape) {
  const TensorRef t = Tensor(Space::kState, dtype, shape);
  StateEntry entry;
  entry.name = name;
  entry.type = t.type;
  entry.offset = t.buffer.offset;
  plan.states.push_back(entry);
  return t;
}

void PlanMaker::NewProgram(const std::string& name) {
  plan.programs.emplace_back();
  program().name = name;
}

int PlanMaker::Kernel(const std::string& source, const std::string& name) {
  int module = -1;
  for (size_t i = 0; i < plan.modules.size(); ++i) {
    if (plan.modules[i].source == source) module = static_cast<int>(i);
  }
  if (module < 0) {
    module = static_cast<int>(plan.modules.size());
    plan.modules.push_back({Language::kCuda, source, "", {}});
  }
  plan.kernels.push_back({name, module});
  return static_cast<int>(plan.kernels.size()) - 1;
}

PlanStep& PlanMaker::Step(StepWork work, const std::string& name) {
  PlanStep step;
  step.name = name;
  step.scope = "test";
  step.work = std::move(work);
  program().steps.push_back(std::move(step));
  return program().steps.back();
}

Plan PlanMaker::Finish() const {
  Plan out = plan;
  for (Program& p : out.programs) p.arena_bytes = out.arena_bytes;
  return out;
}

std::map<std::string, Bytes> PlanMaker::Feeds() const {
  std::map<std::string, Bytes> out;
  for (const PlanInput& input : plan.programs[0].inputs) out[input.name] = feeds_.at(input.name);
  return out;
}

OutputMap PlanMaker::Run(ExecutionMode mode) const {
  const std::unique_ptr<Executor> executor = MakeCudaExecutor(Finish(), Options(mode));
  return executor->Wait(executor->Enqueue("main", Feeds()));
}

ExecutorOptions Options(ExecutionMode mode) {
  ExecutorOptions options;
  options.mode = mode;
  options.cache_dir = (std::filesystem::temp_directory_path() / "stator_gpu_test_cache").string();
  return options;
}

TensorRef ViewOf(const TensorRef& t, int64_t at, const Dims& shape, const Dims& strides) {
  TensorRef view = t;
  view.buffer.offset += at * ByteWidth(t.type.dtype);
  view.type.shape = shape;
  view.strides = strides;
  return view;
}

double RelativeError(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i]) {  // also infinities
      norm += std::isfinite(want[i]) ? want[i] * want[i] : 0;
      continue;
    }
    if (std::isnan(got[i]) != std::isnan(want[i])) return std::numeric_limits<double>::infinity();
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

}  // namespace stator::gpu_test
