// Times of library steps at GPT-2 124M's shapes, printed for the log; they assert that results are
// there, never a speed.
#include "tests/gpu/attention_case.h"
#include "tests/gpu/plan_maker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#if STATOR_WITH_CUDA
#include "runtime/cuda/cuda_executor.h"
#endif

namespace stator::gpu_test {
namespace {

// Milliseconds a run of "main" takes, with runs back to back; the program copies no large inputs.
double Milliseconds(Executor& executor, int runs) {
  const auto go = [&] {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < runs; ++i) executor.Enqueue("main", {});
    executor.Synchronize();
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
    return ms.count() / runs;
  };
  go();
  return std::min({go(), go(), go()});
}

void WriteRandom(Executor& executor, const std::string& name, DType dtype, int64_t n) {
  std::vector<double> base = Random(dtype, std::min<int64_t>(n, 1 << 20), 5);
  const std::vector<char> block = ToBytes(dtype, base);
  std::vector<char> all(static_cast<size_t>(n * ByteWidth(dtype)));
  for (size_t at = 0; at < all.size(); at += block.size()) {
    std::memcpy(all.data() + at, block.data(), std::min(block.size(), all.size() - at));
  }
  executor.WriteState(name, all);
}

TEST(Figures, segment_sum_of_token_embeddings) {
  STATOR_NEEDS_GPU();
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    PlanMaker plan("embedding");
    const int64_t n = 65536, width = 768, rows = 50304;
    SegmentSumCall call;
    call.updates = plan.State("updates", dtype, {n, width});
    call.indices = plan.State("ids", DType::kI32, {n});
    call.out = plan.State("out", dtype, {rows, width});
    plan.Step(call);
    const auto executor = MakeCudaExecutor(plan.Finish(), Options());
    WriteRandom(*executor, "updates", dtype, n * width);
    std::vector<double> ids = Random(DType::kF32, n, 3);
    for (double& id : ids) id = std::floor(std::min(std::pow(50304.0, std::abs(id)), 50303.0));
    executor->WriteState("ids", ToBytes(DType::kI32, ids));
    std::printf("[ figure   ] segment sum %s [65536,768] into 50304 rows: %.4f ms\n",
                std::string(Name(dtype)).c_str(), Milliseconds(*executor, 200));
    EXPECT_EQ(executor->ReadState("out").size(),
              static_cast<size_t>(rows * width * ByteWidth(dtype)));
  }
}

TEST(Figures, sorts) {
  STATOR_NEEDS_GPU();
  struct Shape {
    DType dtype;
    int64_t rows, n;
  };
  for (const Shape shape :
       {Shape{DType::kF32, 8, 50304}, {DType::kU16, 1, 65536}, {DType::kF32, 1, 4194304}}) {
    PlanMaker plan("sort");
    SortCall call;
    call.keys = plan.State("keys", shape.dtype, {shape.rows, shape.n});
    call.indices = plan.State("indices", DType::kI32, {shape.rows, shape.n});
    plan.Step(call);
    const auto executor = MakeCudaExecutor(plan.Finish(), Options());
    WriteRandom(*executor, "keys", shape.dtype, shape.rows * shape.n);
    std::printf("[ figure   ] sort %s: %.4f ms\n", call.keys.type.ToString().c_str(),
                Milliseconds(*executor, 100));
  }
}

TEST(Figures, attention_of_124m) {
  STATOR_NEEDS_GPU();
  const std::unique_ptr<Target> target = MakeCudaTarget(0);
  struct Choice {
    bool deterministic;
    int64_t chunk, streams;
  };
  for (const Choice choice : {Choice{false, 0, 1}, Choice{true, 0, 1}, Choice{true, 8, 2}}) {
    AttentionCase c;
    c.b = 64, c.h = c.g = 12, c.t = c.s = 1024, c.causal = true;
    c.deterministic = choice.deterministic, c.chunk = choice.chunk, c.streams = choice.streams;
    const AttentionQuery query = QueryOf(c, true);
    std::string why;
    if (!target->SupportsAttention(query, &why)) GTEST_SKIP() << why;
    const int64_t workspace = target->AttentionWorkspace(query) * c.streams + 1024;
    PlanMaker plan("attention");
    AttentionCall call;
    const Dims heads = {c.b, c.t, c.h, c.d};
    for (auto [name, t] : {std::pair{"q", &call.q},
                           {"k", &call.k},
                           {"v", &call.v},
                           {"dout", &call.dout},
                           {"out", &call.out},
                           {"dq", &call.dq},
                           {"dk", &call.dk},
                           {"dv", &call.dv}}) {
      *t = plan.State(name, c.dtype, heads);
    }
    call.lse = plan.State("lse", DType::kF32, {c.b, c.h, c.t});
    call.causal = true, call.scale = 0.125, call.batch_chunk = c.chunk;
    call.deterministic = c.deterministic;
    AttentionCall forward = call;
    forward.workspace_bytes = call.workspace_bytes = workspace;
    forward.workspace = call.workspace = plan.Take(Space::kArena, workspace);
    forward.dout = forward.dq = forward.dk = forward.dv = {};
    call.backward = true;
    plan.Step(forward);
    plan.Step(call);
    const auto begin = std::chrono::steady_clock::now();
    const auto executor = MakeCudaExecutor(plan.Finish(), Options());
    const std::chrono::duration<double> load = std::chrono::steady_clock::now() - begin;
    std::printf("[ figure   ] loading two attention graphs: %.3f s\n", load.count());
    for (const char* name : {"q", "k", "v", "dout"}) {
      WriteRandom(*executor, name, c.dtype, c.b * c.t * c.h * c.d);
    }
    std::printf(
        "[ figure   ] attention 64,12,1024,64 %s chunk %d streams %d: %.3f ms forward and "
        "backward, %.0f MiB\n",
        c.deterministic ? "deterministic" : "fast", static_cast<int>(c.chunk),
        static_cast<int>(c.streams), Milliseconds(*executor, 20),
        static_cast<double>(workspace) / (1 << 20));
  }
}

#if STATOR_WITH_CUDA
TEST(Figures, matmul_search) {
  STATOR_NEEDS_GPU();
  for (const bool search : {false, true}) {
    PlanMaker plan("up");
    MatMulCall call;
    call.a = plan.State("x", DType::kBF16, {65536, 768});
    const TensorRef w = plan.State("w", DType::kBF16, {3072, 768});
    call.b = ViewOf(w, 0, {768, 3072}, {1, 768});
    call.d = plan.State("y", DType::kBF16, {65536, 3072});
    plan.Step(call);
    ExecutorOptions options = Options();
    options.tuning_file =
        options.cache_dir + StrCat("/figures_", search ? "search" : "plain", ".json");
    CudaExecutor executor(plan.Finish(), options, {.tf32 = false, .search = search});
    WriteRandom(executor, "x", DType::kBF16, 65536 * 768);
    WriteRandom(executor, "w", DType::kBF16, 3072 * 768);
    std::printf("[ figure   ] up [65536,768]x[768,3072] bf16, %s: %.4f ms\n",
                search ? "best of 8" : "first heuristic", Milliseconds(executor, 50));
  }
}

// A tiny program's cost a run from the host's side: the floor of a step.
TEST(Figures, smallest_run) {
  STATOR_NEEDS_GPU();
  for (const ExecutionMode mode : {ExecutionMode::kEager, ExecutionMode::kGraph}) {
    PlanMaker plan("tiny");
    const TensorRef x = plan.State("x", DType::kF32, {1024});
    for (int i = 0; i < 100; ++i) plan.Step(FillCall{x.buffer, 4096, i});
    const auto executor = MakeCudaExecutor(plan.Finish(), Options(mode));
    std::printf("[ figure   ] 100 fills, %s: %.4f ms a run\n",
                mode == ExecutionMode::kEager ? "eager" : "graph", Milliseconds(*executor, 200));
  }
}
#endif

}  // namespace
}  // namespace stator::gpu_test
