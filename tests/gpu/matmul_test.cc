#include "tests/gpu/matmul_cases.h"
#include "tests/gpu/plan_maker.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#if STATOR_WITH_CUDA
#include "runtime/cuda/cuda_executor.h"
#endif

namespace stator::gpu_test {
namespace {

double Tolerance(DType out) {
  switch (out) {
    case DType::kF64:
      return 1e-13;
    case DType::kF32:
      return 1e-5;
    case DType::kF16:
      return 1e-3;
    default:
      return 5e-3;
  }
}

// One product in a program of its own; what the device gives and what the definition does.
struct Built {
  PlanMaker plan{"matmul"};
  MatMulCall call;
  MatMulReference want;
  std::string in_place;  // the state that d lies in
};

std::unique_ptr<Built> BuildCase(const MatMulCase& c, uint64_t seed) {
  auto built = std::make_unique<Built>();
  const Laid a = LayOut(c.a, c.batch, c.m, c.k), b = LayOut(c.b, c.batch, c.k, c.n);
  const Laid d = LayOut(c.d, c.batch, c.m, c.n);
  const auto x = Random(c.in, a.elements, seed), y = Random(c.in, b.elements, seed + 1);
  const auto start = Random(c.out, d.elements, seed + 2), bias = Random(c.out, c.n, seed + 3);
  MatMulCall& call = built->call;
  PlanMaker& plan = built->plan;
  call.a = ViewOf(plan.Input("a", c.in, {a.elements}, x), 0, a.shape, a.strides);
  call.b = ViewOf(plan.Input("b", c.in, {b.elements}, y), 0, b.shape, b.strides);
  const TensorRef out = plan.Output("d", c.out, {d.elements});
  call.d = ViewOf(out, 0, d.shape, d.strides);
  if (c.c == CKind::kNone) plan.Step(FillCall{out.buffer, out.type.Bytes(), 0xff}, "poison");
  if (c.c != CKind::kNone) {
    const TensorRef initial = plan.Input("c", c.out, {d.elements}, start);
    call.c = ViewOf(initial, 0, d.shape, d.strides);
    if (c.c == CKind::kInPlace) {
      plan.Step(CopyCall{initial.buffer, out.buffer, out.type.Bytes()}, "copy");
      call.c = call.d;
    }
  }
  call.epilogue = c.epilogue;
  if (c.epilogue == Epilogue::kBias || c.epilogue == Epilogue::kBiasGeluTanhAux) {
    call.bias = plan.Input("bias", c.out, {c.n}, bias);
  }
  if (c.epilogue == Epilogue::kGeluTanhAux || c.epilogue == Epilogue::kBiasGeluTanhAux) {
    call.aux = plan.Output("aux", c.out, d.shape);
  }
  plan.Step(call, "matmul");
  built->want = ReferenceMatMul(call, x, y, start, bias);
  return built;
}

TEST(MatMul, agrees_with_the_definition_in_every_layout_and_dtype) {
  STATOR_NEEDS_GPU();
  uint64_t seed = 1;
  for (const MatMulCase& c : MatMulCases()) {
    SCOPED_TRACE(StrCat(c.name, " ", c.m, "x", c.n, "x", c.k, " ", Name(c.in), " layouts ",
                        static_cast<int>(c.a), static_cast<int>(c.b), static_cast<int>(c.d)));
    const auto built = BuildCase(c, seed += 10);
    OutputMap out;
    ASSERT_NO_THROW(out = built->plan.Run(ExecutionMode::kEager));
    const auto d = Gather(built->call.d, FromBytes(c.out, out.at("d")));
    EXPECT_LT(RelativeError(d, built->want.d), Tolerance(c.out));
    if (built->call.aux) {
      EXPECT_LT(RelativeError(FromBytes(c.out, out.at("aux")), built->want.aux), Tolerance(c.out));
    }
  }
}

TEST(MatMul, of_no_terms_is_c_or_zero) {
  STATOR_NEEDS_GPU();
  for (const CKind c : {CKind::kNone, CKind::kSeparate}) {
    const auto built = BuildCase({"empty",
                                  {},
                                  8,
                                  8,
                                  0,
                                  Layout::kRows,
                                  Layout::kRows,
                                  Layout::kRows,
                                  DType::kF32,
                                  DType::kF32,
                                  c},
                                 5);
    EXPECT_EQ(FromBytes(DType::kF32, built->plan.Run().at("d")), built->want.d);
  }
}

TEST(MatMul, accumulates_in_f32_state_over_runs) {
  STATOR_NEEDS_GPU();
  PlanMaker plan("accumulate");
  const int64_t m = 96, n = 64, k = 128;
  const auto x = Random(DType::kBF16, k * m, 1), y = Random(DType::kBF16, k * n, 2);
  MatMulCall call;
  call.a = ViewOf(plan.Input("a", DType::kBF16, {k, m}, x), 0, {m, k}, {1, m});
  call.b = plan.Input("b", DType::kBF16, {k, n}, y);
  call.d = call.c = plan.State("gradient", DType::kF32, {m, n});
  plan.Step(call);
  const auto executor = MakeCudaExecutor(plan.Finish(), Options());
  for (int run = 0; run < 3; ++run) executor->Enqueue("main", plan.Feeds());
  MatMulReference want =
      ReferenceMatMul(call, x, y, std::vector<double>(static_cast<size_t>(m * n)), {});
  for (double& v : want.d) v *= 3;
  EXPECT_LT(RelativeError(FromBytes(DType::kF32, executor->ReadState("gradient")), want.d), 1e-5);
}

TEST(MatMul, that_cublaslt_does_not_take_is_an_error_at_load) {
  STATOR_NEEDS_GPU();
  PlanMaker plan("bad");
  MatMulCall call;
  call.a =
      ViewOf(plan.Input("a", DType::kF32, {64}, Random(DType::kF32, 64, 1)), 0, {4, 8}, {16, 2});
  call.b = plan.Input("b", DType::kF32, {8, 4}, Random(DType::kF32, 32, 1));
  call.d = plan.Output("d", DType::kF32, {4, 4});
  plan.Step(call, "odd strides");
  try {
    plan.Run();
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("odd strides"), std::string::npos) << error.what();
  }
}

#if STATOR_WITH_CUDA
TEST(MatMul, searched_algorithms_persist_and_repeat_their_bits) {
  STATOR_NEEDS_GPU();
  const auto built = BuildCase({"tuned",
                                {},
                                512,
                                384,
                                1024,
                                Layout::kRows,
                                Layout::kColumns,
                                Layout::kRows,
                                DType::kBF16,
                                DType::kBF16},
                               3);
  ExecutorOptions options = Options();
  options.tuning_file = options.cache_dir + "/tuning_test.json";
  std::filesystem::remove(options.tuning_file);
  std::set<std::vector<char>> results;
  for (const bool search : {true, false}) {
    CudaExecutor executor(built->plan.Finish(), options, {.tf32 = false, .search = search});
    for (int run = 0; run < 3; ++run) {
      results.insert(executor.Wait(executor.Enqueue("main", built->plan.Feeds())).at("d"));
    }
    ASSERT_TRUE(std::filesystem::exists(options.tuning_file));
  }
  EXPECT_EQ(results.size(), 1u);
  EXPECT_LT(RelativeError(FromBytes(DType::kBF16, *results.begin()), built->want.d), 5e-3);
}
#endif

}  // namespace
}  // namespace stator::gpu_test
