// Times of library steps at the shapes of models, printed for the log; they assert that results are
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

// An attention and how its backward pass is divided; chunks of 0 are the whole.
struct AttentionFigure {
  int64_t b, h, g, t;
  bool deterministic;
  int64_t chunk, head_chunk, streams;
};

// The forward pass, which needs next to no scratch, is whole as in a plan.
void PrintFigure(const AttentionFigure& f, const Target& target) {
  AttentionCase c;
  c.b = f.b, c.h = f.h, c.g = f.g, c.t = c.s = f.t, c.causal = true;
  c.deterministic = f.deterministic;
  const int64_t for_forward = target.AttentionWorkspace(QueryOf(c, false));
  c.chunk = f.chunk, c.head_chunk = f.head_chunk, c.streams = f.streams;
  const int64_t for_piece = AlignBuffer(target.AttentionWorkspace(QueryOf(c, true)));
  const int64_t workspace = std::max(for_piece * c.streams, for_forward) + kBufferAlignment;
  PlanMaker plan("attention");
  AttentionCall call;
  const auto state = [&](const char* name, int64_t heads) {
    return plan.State(name, c.dtype, {c.b, c.t, heads, c.d});
  };
  call.q = state("q", c.h), call.k = state("k", c.g), call.v = state("v", c.g);
  call.out = state("out", c.h);
  call.lse = plan.State("lse", DType::kF32, {c.b, c.h, c.t});
  call.causal = true, call.scale = 0.125, call.deterministic = c.deterministic;
  call.workspace_bytes = workspace, call.workspace = plan.Take(Space::kArena, workspace);
  plan.Step(call);
  call.backward = true, call.batch_chunk = c.chunk, call.head_chunk = c.head_chunk;
  call.dout = state("dout", c.h);
  call.dq = state("dq", c.h), call.dk = state("dk", c.g), call.dv = state("dv", c.g);
  plan.Step(call);
  const auto begin = std::chrono::steady_clock::now();
  const auto executor = MakeCudaExecutor(plan.Finish(), Options());
  const std::chrono::duration<double> load = std::chrono::steady_clock::now() - begin;
  for (const char* name : {"q", "k", "v", "dout"}) {
    WriteRandom(*executor, name, c.dtype,
                c.b * c.t * (*name == 'k' || *name == 'v' ? c.g : c.h) * c.d);
  }
  const std::string entries = c.chunk == 0 ? "all" : StrCat(c.chunk);
  const std::string heads = c.head_chunk == 0 ? "all" : StrCat(c.head_chunk);
  std::printf(
      "[ figure   ] attention %s %s, entries %s, key heads %s, streams %d: %.3f ms forward "
      "and backward, %.0f MiB, loaded in %.3f s\n",
      StrCat(c.b, ",", c.h, "/", c.g, ",", c.t, ",", c.d).c_str(),
      c.deterministic ? "deterministic" : "fast", entries.c_str(), heads.c_str(),
      static_cast<int>(c.streams), Milliseconds(*executor, f.t > 8192 ? 4 : 20),
      static_cast<double>(workspace) / (1 << 20), load.count());
}

TEST(Figures, attention_in_pieces) {
  STATOR_NEEDS_GPU();
  const std::unique_ptr<Target> target = MakeCudaTarget(0);
  std::string why;
  if (!target->SupportsAttention(QueryOf({}, true), &why)) GTEST_SKIP() << why;
  for (const AttentionFigure& f : {AttentionFigure{64, 12, 12, 1024, false, 0, 0, 1},
                                   {64, 12, 12, 1024, true, 0, 0, 1},
                                   {64, 12, 12, 1024, true, 8, 0, 2},
                                   {8, 32, 8, 4096, false, 0, 0, 1},
                                   {8, 32, 8, 4096, true, 1, 0, 1},
                                   {8, 32, 8, 4096, true, 1, 4, 2},
                                   {8, 32, 8, 4096, true, 1, 4, 4},
                                   {8, 32, 8, 4096, true, 1, 2, 4},
                                   {8, 12, 12, 8192, false, 0, 0, 1},
                                   {8, 12, 12, 8192, true, 1, 0, 1},
                                   {8, 12, 12, 8192, true, 1, 6, 2},
                                   {8, 12, 12, 8192, true, 1, 3, 4},
                                   {8, 12, 12, 8192, true, 1, 3, 2},
                                   {2, 12, 12, 32768, false, 0, 0, 1},
                                   {2, 12, 12, 32768, true, 1, 0, 1},
                                   {2, 12, 12, 32768, true, 1, 1, 2},
                                   {2, 12, 12, 32768, true, 1, 2, 1},
                                   {2, 12, 12, 32768, true, 1, 1, 1}}) {
    PrintFigure(f, *target);
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
