#include "tests/gpu/plan_maker.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#if STATOR_WITH_CUDA
#include "runtime/cuda/cuda_executor.h"
#include "runtime/cuda/device.h"
#endif

namespace stator::gpu_test {
namespace {

constexpr int kN = 4096;

// y = x * x + s; state += 1 in every element; a slow kernel for orderings; one that faults.
const std::string kSource = R"(
const int kN = 4096;
extern "C" __global__ void square(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kN) y[i] = x[i] * x[i];
}
extern "C" __global__ void add(const float* x, const float* y, float* z) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kN) z[i] = x[i] + y[i];
}
extern "C" __global__ void count(float* state) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kN) state[i] = state[i] + 1.0f;
}
extern "C" __global__ void slow(const float* x, float* y) {
  const long long end = clock64() + 2000000;
  while (clock64() < end) {}
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kN) y[i] = x[i];
}
extern "C" __global__ void fault(float* x) { *(volatile float*)(16) = x[0]; }
extern "C" __global__ void shared(const float* x, float* y) {
  extern __shared__ float block[];
  for (int i = threadIdx.x; i < 16384; i += blockDim.x) block[i] = x[i % kN];
  __syncthreads();
  for (int i = threadIdx.x; i < kN; i += blockDim.x) y[i] = block[i + 12288];
}
)";

KernelCall Call(PlanMaker& plan, const std::string& name, std::vector<BufferRef> args) {
  KernelCall call;
  call.kernel = plan.Kernel(kSource, name);
  call.args = std::move(args);
  call.grid[0] = kN / 256;
  call.block = 256;
  return call;
}

// Three streams: y = x^2 on 0, z = slow(x) on 1, then out = y + z on 0; the state counts on 2.
std::unique_ptr<PlanMaker> StreamPlan() {
  auto plan = std::make_unique<PlanMaker>("streams");
  const TensorRef x = plan->Input("x", DType::kF32, {kN}, Random(DType::kF32, kN, 1));
  const TensorRef out = plan->Output("out", DType::kF32, {kN});
  const TensorRef counted = plan->Output("counted", DType::kF32, {kN});
  const TensorRef y = plan->Tensor(Space::kArena, DType::kF32, {kN});
  const TensorRef z = plan->Tensor(Space::kArena, DType::kF32, {kN});
  const TensorRef state = plan->State("count", DType::kF32, {kN});
  plan->Step(Call(*plan, "square", {x.buffer, y.buffer}), "square");
  plan->Step(Call(*plan, "slow", {x.buffer, z.buffer}), "slow").stream = 1;
  PlanStep& sum = plan->Step(Call(*plan, "add", {y.buffer, z.buffer, out.buffer}), "add");
  sum.waits = {1};
  plan->Step(Call(*plan, "count", {state.buffer}), "count").stream = 2;
  PlanStep& copy = plan->Step(CopyCall{state.buffer, counted.buffer, kN * 4}, "copy");
  copy.stream = 1;
  copy.waits = {3};
  return plan;
}

TEST(CudaExecutor, gives_the_same_bits_eager_and_as_a_graph) {
  STATOR_NEEDS_GPU();
  const auto plan = StreamPlan();
  const OutputMap eager = plan->Run(ExecutionMode::kEager),
                  graph = plan->Run(ExecutionMode::kGraph);
  EXPECT_EQ(eager, graph);
  const auto out = FromBytes(DType::kF32, graph.at("out")), x = Random(DType::kF32, kN, 1);
  for (int i = 0; i < kN; ++i) {
    const float v = static_cast<float>(x[i]), square = v * v;
    ASSERT_EQ(static_cast<float>(out[i]), square + v) << i;
  }
}

TEST(CudaExecutor, keeps_runs_in_order_with_many_in_flight) {
  STATOR_NEEDS_GPU();
  const auto plan = StreamPlan();
  for (const ExecutionMode mode : {ExecutionMode::kEager, ExecutionMode::kGraph}) {
    const auto executor = MakeCudaExecutor(plan->Finish(), Options(mode));
    std::vector<std::vector<char>> feeds;
    std::vector<int64_t> tickets;
    for (int run = 0; run < 11; ++run) {
      feeds.push_back(ToBytes(DType::kF32, Random(DType::kF32, kN, 100 + run)));
      tickets.push_back(executor->Enqueue("main", {{"x", feeds.back()}}));
      // Reads lie behind by two runs; the input may be overwritten once it was enqueued.
      if (run >= 2) {
        const OutputMap out = executor->Wait(tickets[run - 2]);
        EXPECT_EQ(FromBytes(DType::kF32, out.at("counted"))[7], run - 1);
        const auto x = Random(DType::kF32, kN, 100 + run - 2);
        const auto y = FromBytes(DType::kF32, out.at("out"));
        const float v = static_cast<float>(x[11]), square = v * v;
        EXPECT_EQ(static_cast<float>(y[11]), square + v);
      }
      feeds.back().assign(feeds.back().size(), 0);
    }
    EXPECT_THROW(executor->Wait(tickets[0]), Error);  // gone
    EXPECT_NO_THROW(executor->Wait(tickets[9]));
    EXPECT_THROW(executor->Wait(tickets[9]), Error);  // taken
    EXPECT_THROW(executor->Wait(1000), Error);
    executor->Synchronize();
    EXPECT_EQ(FromBytes(DType::kF32, executor->ReadState("count"))[0], 11);
  }
}

TEST(CudaExecutor, reads_and_writes_state) {
  STATOR_NEEDS_GPU();
  const auto plan = StreamPlan();
  const auto executor = MakeCudaExecutor(plan->Finish(), Options());
  EXPECT_EQ(FromBytes(DType::kF32, executor->ReadState("count"))[5], 0);  // zeroed at load
  const auto ramp = ToBytes(DType::kF32, Random(DType::kF32, kN, 9));
  executor->WriteState("count", ramp);
  EXPECT_EQ(executor->ReadState("count"), ramp);
  EXPECT_THROW(executor->WriteState("count", Bytes(ramp.data(), 8)), Error);
  EXPECT_THROW(executor->ReadState("nothing"), Error);
}

// Several pieces are on their way, by turns through the same two blocks.
TEST(CudaExecutor, states_of_many_pieces_arrive_whole) {
  STATOR_NEEDS_GPU();
  constexpr int64_t kMany = 13'000'064;  // 50 MiB of f32
  const auto plan = StreamPlan();
  plan->State("dense", DType::kF32, {kMany});
  plan->State("split", DType::kF32, {kMany});
  Plan finished = plan->Finish();
  for (StateEntry& s : finished.states) s.halves = s.name == "split";
  const auto executor = MakeCudaExecutor(finished, Options());
  const auto bytes = ToBytes(DType::kF32, Random(DType::kF32, kMany, 9));
  const auto other = ToBytes(DType::kF32, Random(DType::kF32, kMany, 10));
  executor->WriteState("dense", bytes);
  executor->WriteState("split", other);
  EXPECT_TRUE(executor->ReadState("dense") == bytes);
  EXPECT_TRUE(executor->ReadState("split") == other);
  const auto broken = [](int64_t offset, std::span<char>) {
    if (offset > 20'000'000) Fail(ErrorCode::kIo, "the file ends");
  };
  EXPECT_THROW(executor->FillState("split", broken), Error);
  executor->WriteState("split", bytes);
  EXPECT_TRUE(executor->ReadState("split") == bytes);
}

TEST(CudaExecutor, visits_steps_one_by_one) {
  STATOR_NEEDS_GPU();
  const auto plan = StreamPlan();
  const Plan finished = plan->Finish();
  const auto executor = MakeCudaExecutor(finished, Options());
  const auto& first = std::get<KernelCall>(finished.programs[0].steps[0].work);
  const OutputMap want = plan->Run();
  std::vector<int> seen;
  executor->RunStepwise("main", plan->Feeds(), [&](int step, Executor& self) {
    seen.push_back(step);
    if (step != 0) return;
    const auto y = FromBytes(DType::kF32, self.ReadBuffer(first.args[1], kN * 4));
    const float v = static_cast<float>(Random(DType::kF32, kN, 1)[3]);
    EXPECT_EQ(static_cast<float>(y[3]), v * v);
  });
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3, 4}));
  const PlanOutput& out = finished.programs[0].outputs[0];
  EXPECT_EQ(executor->ReadBuffer(out.buffer, out.type.Bytes()), want.at("out"));
}

// Needs no GPU, as a plan may be finished elsewhere.
TEST(CompiledPlan, holds_machine_code_and_its_key) {
#if !STATOR_WITH_CUDA
  GTEST_SKIP() << "this build has no CUDA";
#endif
  Plan plan = StreamPlan()->Finish();
  CompilePlan(plan, Options());
  EXPECT_FALSE(plan.modules[0].key.empty());
  EXPECT_FALSE(plan.modules[0].binary.empty());
  plan.target = "gpu";
  plan.modules[0].binary.clear();
  EXPECT_THROW(CompilePlan(plan, Options()), Error);
}

TEST(CompiledPlan, runs_without_its_source) {
  STATOR_NEEDS_GPU();
  const auto maker = StreamPlan();
  Plan plan = maker->Finish();
  CompilePlan(plan, Options());
  plan.modules[0].source = "no compiler would take this";
  const auto executor = MakeCudaExecutor(plan, Options());
  EXPECT_EQ(executor->Wait(executor->Enqueue("main", maker->Feeds())), maker->Run());
}

TEST(CudaExecutor, raises_the_limit_of_dynamic_shared_memory) {
  STATOR_NEEDS_GPU();
  PlanMaker plan("shared");
  const TensorRef x = plan.Input("x", DType::kF32, {kN}, Random(DType::kF32, kN, 1));
  const TensorRef y = plan.Output("y", DType::kF32, {kN});
  KernelCall call = Call(plan, "shared", {x.buffer, y.buffer});
  call.grid[0] = 1;
  call.shared_bytes = 65536;
  plan.Step(call);
  EXPECT_EQ(FromBytes(DType::kF32, plan.Run().at("y")), Random(DType::kF32, kN, 1));
  std::get<KernelCall>(plan.plan.programs[0].steps[0].work).shared_bytes = 1 << 20;
  EXPECT_THROW(plan.Run(), Error);
}

// `load` must fail with `code` and a message that has `text`.
template <typename F>
void ExpectError(const F& load, ErrorCode code, const std::string& text) {
  try {
    load();
    ADD_FAILURE() << "no error; wanted: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(CudaExecutor, refuses_bad_plans_and_inputs_with_their_names) {
  STATOR_NEEDS_GPU();
  const auto plan = StreamPlan();
  Plan huge = plan->Finish();
  huge.arena_bytes = int64_t{1} << 42;
  ExpectError([&] { MakeCudaExecutor(huge, Options()); }, ErrorCode::kOutOfMemory, "arena");
  Plan other = plan->Finish();
  other.target = "sm_75";
  ExpectError([&] { MakeCudaExecutor(other, Options()); }, ErrorCode::kEnvironment, "sm_75");
  Plan missing = plan->Finish();
  missing.kernels[0].name = "absent";
  ExpectError([&] { MakeCudaExecutor(missing, Options()); }, ErrorCode::kEnvironment, "absent");
  Plan broken = plan->Finish();
  broken.modules[0].source = "extern \"C\" __global__ void square() { oops; }";
  ExpectError([&] { MakeCudaExecutor(broken, Options()); }, ErrorCode::kEnvironment, "oops");
  Plan outside = plan->Finish();
  std::get<KernelCall>(outside.programs[0].steps[0].work).args[0].offset = int64_t{1} << 40;
  ExpectError([&] { MakeCudaExecutor(outside, Options()); }, ErrorCode::kInvalidArgument, "square");

  const auto executor = MakeCudaExecutor(plan->Finish(), Options());
  ExpectError([&] { executor->Enqueue("other", {}); }, ErrorCode::kInvalidArgument, "main");
  ExpectError([&] { executor->Enqueue("main", {}); }, ErrorCode::kInvalidArgument, "x");
}

TEST(CudaExecutor, checks_ids_before_they_are_used) {
  STATOR_NEEDS_GPU();
  PlanMaker plan("ids");
  const TensorRef ids = plan.Input("tokens", DType::kI32, {8}, {0, 1, 2, 3, 4, 5, 6, -100});
  const TensorRef out = plan.Output("out", DType::kI32, {8});
  plan.Step(CopyCall{ids.buffer, out.buffer, 32});
  PlanInput& input = plan.plan.programs[0].inputs[0];
  input.below = 7, input.ignored = -100, input.has_ignored = true;
  const auto executor = MakeCudaExecutor(plan.Finish(), Options());
  EXPECT_EQ(
      FromBytes(DType::kI32, executor->Wait(executor->Enqueue("main", plan.Feeds())).at("out")),
      (std::vector<double>{0, 1, 2, 3, 4, 5, 6, -100}));
  const auto bad = ToBytes(DType::kI32, {0, 1, 2, 3, 4, 7, 6, 0});
  ExpectError(
      [&] {
        executor->Enqueue("main", {{"tokens", bad}});
      },
      ErrorCode::kInvalidArgument, "tokens");
}

#if STATOR_WITH_CUDA
TEST(CudaExecutor, allocates_nothing_after_load) {
  STATOR_NEEDS_GPU();
  const auto plan = StreamPlan();
  CudaExecutor executor(plan->Finish(), Options());
  const int64_t before = DeviceBytesUsed();
  for (int run = 0; run < 20; ++run) executor.Enqueue("main", plan->Feeds());
  executor.Synchronize();
  EXPECT_EQ(DeviceBytesUsed(), before);
  EXPECT_GE(executor.GraphNodes("main"), 5u);
  const MemoryReport memory = executor.memory();
  EXPECT_EQ(memory.state, plan->plan.state_bytes);
  std::printf("[ figure   ] libraries of a small plan: %.1f MiB\n",
              static_cast<double>(memory.libraries) / (1 << 20));
}

TEST(DeviceFacts, name_every_library_and_its_path) {
  const DeviceFacts facts = FindDeviceFacts();
  std::string why;
  EXPECT_EQ(HasCudaDevice(&why), facts.why_no_device.empty()) << why;
  for (const LibraryFact& fact : facts.libraries) {
    std::printf("[ facts    ] %s %s %s %s\n", fact.name.c_str(), fact.version.c_str(),
                fact.path.c_str(), fact.note.c_str());
  }
  EXPECT_GE(facts.libraries.size(), 6u);
}
#endif

// The last test of the file: a fault ends the process's use of the device, so it runs in a child.
TEST(CudaExecutorDeathTest, names_the_program_of_an_asynchronous_fault) {
  STATOR_NEEDS_GPU();
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        PlanMaker plan("faulty");
        const TensorRef x = plan.Input("x", DType::kF32, {kN}, Random(DType::kF32, kN, 1));
        plan.Step(Call(plan, "fault", {x.buffer}), "fault");
        const auto executor = MakeCudaExecutor(plan.Finish(), Options());
        try {
          executor->Wait(executor->Enqueue("main", plan.Feeds()));
        } catch (const Error& error) {
          std::fprintf(stderr, "%s\n", error.what());
          std::_Exit(3);
        }
        std::_Exit(0);
      },
      testing::ExitedWithCode(3), "faulty.*main.*illegal");
}

}  // namespace
}  // namespace stator::gpu_test
