#include "tests/runtime/hand_plan.h"

#include "ir/base/str.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace stator {
namespace {

int64_t Grow(int64_t* space, const Type& type) {
  const int64_t at = *space;
  *space += AlignBuffer(std::max<int64_t>(type.Bytes(), 1));
  return at;
}

}  // namespace

HandPlan::HandPlan() {
  plan_.name = "hand";
  plan_.target = "cpu";
  plan_.programs.emplace_back();
  program().name = "run";
}

TensorRef HandPlan::Input(const std::string& name, const Type& type) {
  const BufferRef buffer = {Space::kIo, Grow(&plan_.io_bytes, type)};
  PlanInput input;
  input.name = name, input.type = type, input.buffer = buffer;
  program().inputs.push_back(input);
  return {buffer, type, DenseStrides(type.shape)};
}

TensorRef HandPlan::Output(const std::string& name, const Type& type) {
  const BufferRef buffer = {Space::kIo, Grow(&plan_.io_bytes, type)};
  program().outputs.push_back({name, type, buffer});
  return {buffer, type, DenseStrides(type.shape)};
}

TensorRef HandPlan::State(const std::string& name, const Type& type) {
  const int64_t at = Grow(&plan_.state_bytes, type);
  StateEntry state;
  state.name = name, state.type = type, state.offset = at, state.role = "parameter";
  plan_.states.push_back(state);
  return {{Space::kState, at}, type, DenseStrides(type.shape)};
}

TensorRef HandPlan::Scratch(const Type& type) {
  const int64_t at = Grow(&plan_.arena_bytes, type);
  program().arena_bytes = plan_.arena_bytes;
  return {{Space::kArena, at}, type, DenseStrides(type.shape)};
}

int HandPlan::Kernel(const std::string& name, const std::string& source) {
  plan_.modules.push_back({Language::kCpp, source, "", {}});
  plan_.kernels.push_back({name, static_cast<int>(plan_.modules.size()) - 1});
  return static_cast<int>(plan_.kernels.size()) - 1;
}

void HandPlan::Step(StepWork work, const std::string& name) {
  PlanStep step;
  step.name = name, step.scope = "test", step.work = std::move(work);
  program().steps.push_back(std::move(step));
}

ExecutorOptions TestOptions(int threads) {
  ExecutorOptions options;
  options.threads = threads;
  options.cache_dir = std::string(STATOR_BINARY_DIR) + "/test-kernel-cache";
  return options;
}

std::map<std::string, Tensor> RunOnce(Executor& executor,
                                      const std::map<std::string, Tensor>& inputs) {
  std::map<std::string, std::vector<char>> bytes;
  std::map<std::string, Bytes> views;
  for (const auto& [name, tensor] : inputs) {
    bytes[name] = tensor.ToBytes();
    views[name] = bytes[name];
  }
  OutputMap outputs = executor.Wait(executor.Enqueue("run", views));
  std::map<std::string, Tensor> tensors;
  for (const PlanOutput& o : executor.plan().FindProgram("run")->outputs) {
    tensors[o.name] = Tensor::FromBytes(o.type, outputs.at(o.name).data());
  }
  return tensors;
}

std::map<std::string, Tensor> RunOnce(const Plan& plan, const std::map<std::string, Tensor>& inputs,
                                      int threads) {
  return RunOnce(*MakeExecutor(plan, TestOptions(threads)), inputs);
}

Tensor RandomTensor(const Type& type, uint64_t seed) {
  Tensor out(type);
  std::mt19937_64 random(seed);
  for (int64_t k = 0; k < out.size(); ++k) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53;
    if (IsFloat(type.dtype)) {
      out.Set(k, 4 * u - 2);
    } else {
      out.SetInt(k, static_cast<int64_t>(u * 5));
    }
  }
  return out;
}

void ExpectClose(const Tensor& actual, const Tensor& expected, double relative, double absolute,
                 const std::string& what) {
  ASSERT_EQ(actual.type.ToString(), expected.type.ToString()) << what;
  int64_t wrong = 0;
  std::string first;
  for (int64_t k = 0; k < expected.size(); ++k) {
    const double a = actual.Get(k), e = expected.Get(k);
    const bool same = a == e || (a != a && e != e) ||
                      (std::isfinite(e) && std::abs(a - e) <= absolute + relative * std::abs(e));
    if (same) continue;
    if (wrong++ == 0) first = StrCat("element ", k, " is ", a, ", expected ", e);
  }
  EXPECT_EQ(wrong, 0) << what << ": " << wrong << " of " << expected.size() << " differ; " << first;
}

}  // namespace stator
