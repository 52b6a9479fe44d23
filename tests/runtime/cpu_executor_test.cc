// The CPU executor over plans made by hand: kernels, state, inputs, tickets, memory.
#include "ir/base/error.h"
#include "runtime/cpu/module.h"
#include "tests/runtime/hand_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace stator {
namespace {

constexpr const char* kAxpy = R"(
extern "C" void axpy(void* const* args) {
  const float* x = (const float*)args[0];
  float* y = (float*)args[1];
#pragma omp parallel for
  for (long i = 0; i < 1000; ++i) y[i] = 2.0f * x[i] + y[i];
})";

// w += 2 x, and out is w.
HandPlan AxpyPlan() {
  HandPlan plan;
  const TensorRef x = plan.Input("x", {DType::kF32, {1000}}),
                  w = plan.State("w", {DType::kF32, {1000}});
  const TensorRef out = plan.Output("out", {DType::kF32, {1000}});
  plan.Step(KernelCall{plan.Kernel("axpy", kAxpy), {x.buffer, w.buffer}}, "axpy");
  plan.Step(CopyCall{w.buffer, out.buffer, 4000}, "copy");
  return plan;
}

std::string MessageOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(CpuExecutor, state_lives_between_runs) {
  const auto executor = MakeExecutor(AxpyPlan().plan(), TestOptions());
  const Tensor x = RandomTensor({DType::kF32, {1000}}, 1);
  EXPECT_EQ(executor->ReadState("w"), std::vector<char>(4000, 0));
  RunOnce(*executor, {{"x", x}});
  const Tensor twice = RunOnce(*executor, {{"x", x}}).at("out");
  Tensor expected(x.type);
  for (int64_t i = 0; i < 1000; ++i) expected.Set(i, 4 * x.f[i]);
  ExpectClose(twice, expected, 0, 0, "w");
  const std::vector<char> bytes = x.ToBytes();
  executor->WriteState("w", bytes);
  EXPECT_EQ(executor->ReadState("w"), bytes);
  executor->FillState("w", [](int64_t, std::span<char> out) { std::ranges::fill(out, 7); });
  EXPECT_EQ(executor->ReadState("w"), std::vector<char>(4000, 7));
}

TEST(CpuExecutor, wrong_names_and_sizes_are_named) {
  const auto executor = MakeExecutor(AxpyPlan().plan(), TestOptions());
  const std::vector<char> bytes(4000, 0);
  EXPECT_EQ(MessageOf([&] { executor->Enqueue("walk", {}); }),
            "plan hand has no program walk; it has run");
  EXPECT_EQ(MessageOf([&] { executor->Enqueue("run", {}); }), "program run: input x is missing");
  EXPECT_EQ(MessageOf([&] {
              executor->Enqueue("run", {{"x", Bytes(bytes.data(), 8)}});
            }),
            "program run: input x has 8 bytes, f32[1000] takes 4000");
  EXPECT_EQ(MessageOf([&] {
              executor->Enqueue("run", {{"x", bytes}, {"y", bytes}});
            }),
            "program run has no input y; it takes x");
  EXPECT_EQ(MessageOf([&] { executor->WriteState("w", Bytes(bytes.data(), 12)); }),
            "state w: 12 bytes given, f32[1000] takes 4000");
  EXPECT_EQ(MessageOf([&] { executor->ReadState("v"); }), "plan hand has no state v");
}

TEST(CpuExecutor, ids_out_of_range_are_found_before_the_run) {
  HandPlan plan;
  plan.Input("tokens", {DType::kI32, {2, 3}});
  plan.program().inputs[0].below = 10;
  const auto run = [&](std::vector<int64_t> ids) {
    Tensor tokens(Type{DType::kI32, {2, 3}});
    tokens.i = std::move(ids);
    RunOnce(plan.plan(), {{"tokens", tokens}});
  };
  run({0, 1, 2, 3, 4, 9});
  EXPECT_EQ(MessageOf([&] {
              run({0, 1, 2, 3, 10, 4});
            }),
            "input tokens[1,1] is 10, which is not in [0, 10)");
  plan.program().inputs[0].has_ignored = true;
  plan.program().inputs[0].ignored = -100;
  run({0, 1, 2, -100, 4, 9});
  EXPECT_EQ(MessageOf([&] {
              run({-1, 1, 2, 3, 10, 4});
            }),
            "input tokens[0,0] is -1, which is not in [0, 10) and not the ignored value -100");
}

TEST(CpuExecutor, tickets_are_taken_once_and_kept_for_a_while) {
  const auto executor = MakeExecutor(AxpyPlan().plan(), TestOptions());
  const std::vector<char> bytes(4000, 0);
  const int64_t first = executor->Enqueue("run", {{"x", bytes}});
  for (int i = 1; i < Executor::kMaxInFlight; ++i) executor->Enqueue("run", {{"x", bytes}});
  EXPECT_EQ(executor->Wait(first).size(), 1u);
  EXPECT_NE(MessageOf([&] { executor->Wait(first); }), "no error");
  const int64_t old = executor->Enqueue("run", {{"x", bytes}});
  for (int i = 0; i < Executor::kMaxInFlight; ++i) executor->Enqueue("run", {{"x", bytes}});
  EXPECT_NE(MessageOf([&] { executor->Wait(old); }), "no error");
  EXPECT_NE(MessageOf([&] { executor->Wait(1000); }), "no error");
  EXPECT_NE(MessageOf([&] { executor->Wait(-1); }), "no error");
}

TEST(CpuExecutor, stepwise_shows_every_buffer) {
  const auto executor = MakeExecutor(AxpyPlan().plan(), TestOptions());
  const Tensor x = RandomTensor({DType::kF32, {1000}}, 1);
  const std::vector<char> bytes = x.ToBytes();
  std::vector<int> steps;
  executor->RunStepwise("run", {{"x", bytes}}, [&](int step, Executor& self) {
    steps.push_back(step);
    EXPECT_EQ(self.ReadBuffer({Space::kIo, 0}, 4000), bytes);
  });
  EXPECT_EQ(steps, (std::vector<int>{0, 1}));
  EXPECT_NE(MessageOf([&] { executor->ReadBuffer({Space::kState, 0}, 1 << 20); }), "no error");
}

TEST(CpuExecutor, memory_is_what_the_plan_says) {
  HandPlan plan = AxpyPlan();
  const MemoryReport report = MakeExecutor(plan.plan(), TestOptions())->memory();
  EXPECT_EQ(report.state, plan.plan().state_bytes);
  EXPECT_EQ(report.arena, plan.plan().arena_bytes);
  EXPECT_EQ(report.io, plan.plan().io_bytes);
}

TEST(CpuExecutor, too_large_for_the_machine_is_an_error) {
  HandPlan plan;
  plan.plan().arena_bytes = int64_t{1} << 50;
  EXPECT_NE(MessageOf([&] { MakeExecutor(plan.plan(), TestOptions()); }).find("plan hand needs"),
            std::string::npos);
}

TEST(CpuExecutor, compiler_errors_carry_its_words) {
  HandPlan plan;
  plan.Step(KernelCall{
      plan.Kernel("broken", "extern \"C\" void broken(void* const*) { undeclared(); }"), {}});
  EXPECT_NE(MessageOf([&] { MakeExecutor(plan.plan(), TestOptions()); }).find("undeclared"),
            std::string::npos);
}

// Sets a variable for a scope.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    setenv(name, value, 1);
  }
  ~Environment() {
    if (had_)
      setenv(name_, old_.c_str(), 1);
    else
      unsetenv(name_);
  }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

TEST(CpuExecutor, a_compiled_plan_runs_without_a_compiler) {
  Plan plan = AxpyPlan().plan();
  CompilePlan(plan, TestOptions());
  EXPECT_FALSE(plan.modules[0].binary.empty());
  const std::string path = std::string(STATOR_BINARY_DIR) + "/compiled.plan";
  SavePlan(plan, path);
  const Environment no_compiler("CXX", "/nowhere/c++"), no_path("PATH", "/nowhere");
  ExecutorOptions options = TestOptions();
  options.cache_dir = std::string(STATOR_BINARY_DIR) + "/empty-kernel-cache";
  std::filesystem::remove_all(options.cache_dir);
  const auto executor = MakeExecutor(LoadPlan(path), options);
  Tensor x(Type{DType::kF32, {1000}});
  x.f.assign(1000, 1.0);
  EXPECT_EQ(RunOnce(*executor, {{"x", x}}).at("out").f, std::vector<double>(1000, 2.0));
  EXPECT_NE(MessageOf([&] { MakeExecutor(AxpyPlan().plan(), options); }).find("$CXX"),
            std::string::npos);
}

TEST(CpuExecutor, binaries_of_another_machine_are_compiled_anew) {
  Plan plan = AxpyPlan().plan();
  CompilePlan(plan, TestOptions());
  plan.fingerprint[kCpuFeaturesKey] += " avx9000";
  plan.modules[0].binary.assign(100, 'x');  // would not load
  Tensor x(Type{DType::kF32, {1000}});
  EXPECT_EQ(RunOnce(plan, {{"x", x}}).at("out").f, std::vector<double>(1000, 0.0));
}

TEST(CpuExecutor, a_damaged_cache_entry_is_made_anew) {
  ExecutorOptions options = TestOptions();
  options.cache_dir = std::string(STATOR_BINARY_DIR) + "/damaged-kernel-cache";
  std::filesystem::remove_all(options.cache_dir);
  Tensor x(Type{DType::kF32, {1000}});
  for (const uint64_t size :
       {0, 100, 1000, 5000}) {  // the header alone, and some of what it promises
    MakeExecutor(AxpyPlan().plan(), options);
    int damaged = 0;
    for (const auto& file : std::filesystem::directory_iterator(options.cache_dir)) {
      if (file.path().extension() != ".so") continue;
      EXPECT_GT(file.file_size(), size);
      std::filesystem::resize_file(file.path(), size);
      ++damaged;
    }
    EXPECT_EQ(damaged, 1);
    EXPECT_EQ(RunOnce(*MakeExecutor(AxpyPlan().plan(), options), {{"x", x}}).at("out").f,
              std::vector<double>(1000, 0.0));
  }
}

TEST(Targets, by_name) {
  EXPECT_EQ(MakeRecordedTarget("H200")->sm(), 90);
  EXPECT_NE(MessageOf([] { MakeRecordedTarget("tpu"); }).find("h200"), std::string::npos);
  EXPECT_EQ(MakeCpuTarget()->kind(), DeviceKind::kCpu);
  std::string why;
  AttentionQuery query{};
  query.batch = 8, query.heads = query.kv_heads = 12, query.query_len = query.key_len = 1024;
  query.head_dim = 64, query.dtype = DType::kBF16, query.causal = true;
  EXPECT_TRUE(MakeRecordedTarget("h200")->SupportsAttention(query, &why)) << why;
  AttentionQuery narrow = query;
  narrow.dtype = DType::kF32;
  EXPECT_FALSE(MakeRecordedTarget("h200")->SupportsAttention(narrow, &why));
  EXPECT_NE(why.find("f32"), std::string::npos);
  AttentionQuery lse = query;
  lse.backward = lse.has_lse_gradient = true;
  EXPECT_FALSE(MakeRecordedTarget("h200")->SupportsAttention(lse, &why));
  EXPECT_NE(why.find("log-sum-exp"), std::string::npos);
  AttentionQuery middle = query;
  middle.key_len = 2048, middle.q_offset = 512;
  EXPECT_FALSE(MakeRecordedTarget("h200")->SupportsAttention(middle, &why));
  EXPECT_NE(why.find("512"), std::string::npos);
  middle.q_offset = 1024;
  EXPECT_TRUE(MakeRecordedTarget("h200")->SupportsAttention(middle, &why)) << why;
}

}  // namespace
}  // namespace stator
