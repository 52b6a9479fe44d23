// Rows held by one block and by clusters of 2, 4 and 16, against f64: log-sum-exps and their
// gradient; a cross-entropy whose gradient overwrites the logits that other blocks pick their
// targets from.
#include "codegen/build_plan.h"
#include "ir/base/error.h"
#include "ir/dtype.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "tests/gpu/plan_maker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace stator::gpu_test {
namespace {

constexpr int64_t kRows = 67;  // one is left over where a cluster takes two
constexpr double kInf = std::numeric_limits<double>::infinity();

// exp(x - logsumexp(x)) of every row, and the log-sum-exp.
std::string GraphText(int64_t n) {
  const std::string type = StrCat("f32[", kRows, ",", n, "]"), rows = StrCat("f32[", kRows, ",1]");
  return StrCat("graph @f(%x: bf16[", kRows, ",", n, "]) -> (bf16[", kRows, ",", n, "], ", rows,
                ") {\n  %0 = cast(%x) {to=f32} : ", type,
                "\n  %1 = online_logsumexp(%0) {axes=[1]} : ", rows,
                "\n  %2 = broadcast(%1) {shape=[", kRows, ",", n, "]} : ", type,
                "\n  %3 = exp_sub(%0, %2) : ", type, "\n  %4 = cast(%3) {to=bf16} : bf16[", kRows,
                ",", n, "]\n  return %4, %1\n}\n");
}

// The first rows have an infinity, nothing but negative ones, a NaN, one value alone.
double Element(int64_t r, int64_t i, int64_t n) {
  if (r == 0 && i == n - 3) return kInf;
  if (r == 1) return -kInf;
  if (r == 2 && i == n / 2) return NAN;
  if (r == 3) return 2.5;
  const uint64_t hash = static_cast<uint64_t>(r * n + i + 1) * 0x9e3779b97f4a7c15ull;
  return RoundFloat(DType::kBF16, static_cast<double>(hash >> 40) / (1 << 24) * 16 - 8);
}

bool Near(double got, double want, double tolerance) {
  if (std::isnan(want) || std::isinf(want)) return std::isnan(want) ? std::isnan(got) : got == want;
  return std::abs(got - want) <= tolerance * std::abs(want);
}

TEST(LongRows, equal_f64) {
  STATOR_NEEDS_GPU();
  const auto target = MakeCudaTarget(0);
  for (const int64_t n : {16392, 50304, 128256, 262144, 1048576}) {
    SCOPED_TRACE(n);
    const auto graph = ParseGraph(GraphText(n));
    PassOptions options;
    options.target = target.get();
    PassManager(LowerPasses()).Run(*graph, options);
    const Plan plan = BuildPlan({{"f", graph.get()}}, *target, {.plan_name = "f"});
    int cluster = 0;
    for (const PlanStep& step : plan.programs[0].steps) {
      if (const auto* call = std::get_if<KernelCall>(&step.work))
        cluster = std::max(cluster, call->cluster);
    }
    if (target->sm() >= 90) {
      EXPECT_EQ(cluster, n < 65536 ? 1 : n < 131072 ? 2 : n < 300000 ? 4 : 16);
    }
    std::vector<uint16_t> x(kRows * n);
    for (int64_t k = 0; k < kRows * n; ++k) {
      const auto value = static_cast<float>(Element(k / n, k % n, n));
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      x[k] = static_cast<uint16_t>(bits >> 16);
    }
    const auto executor = MakeExecutor(plan, {.mode = ExecutionMode::kGraph});
    std::vector<std::vector<char>> first;
    for (int turn = 0; turn < 2; ++turn) {
      executor->Wait(executor->Enqueue(
          "f", {{"x", Bytes(reinterpret_cast<const char*>(x.data()), x.size() * 2)}}));
      std::vector<std::vector<char>> outputs;
      for (const PlanOutput& o : executor->plan().FindProgram("f")->outputs)
        outputs.push_back(executor->ReadBuffer(o.buffer, o.type.Bytes()));
      if (turn == 0) {
        first = std::move(outputs);
      } else {
        EXPECT_EQ(first, outputs) << "two runs differ";
      }
    }
    int64_t off = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      double largest = -kInf, sum = 0;
      bool nan = false;
      for (int64_t i = 0; i < n; ++i)
        largest = std::max(largest, Element(r, i, n)), nan = nan || std::isnan(Element(r, i, n));
      for (int64_t i = 0; i < n && std::isfinite(largest); ++i)
        sum += std::exp(Element(r, i, n) - largest);
      const double lse = nan ? NAN : std::isfinite(largest) ? largest + std::log(sum) : largest;
      float got;
      std::memcpy(&got, first[1].data() + 4 * r, 4);
      EXPECT_TRUE(Near(got, lse, 1e-6)) << "row " << r << ": " << got << ", should be " << lse;
      for (int64_t i = 0; i < n; ++i) {
        const uint32_t bits =
            static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(first[0].data())[r * n + i])
            << 16;
        float y;
        std::memcpy(&y, &bits, 4);
        if (!Near(y, std::exp(Element(r, i, n) - lse), 1.0 / 128) && off++ == 0) {
          ADD_FAILURE() << "row " << r << ", element " << i << ": " << y << ", should be "
                        << std::exp(Element(r, i, n) - lse);
        }
      }
    }
    EXPECT_EQ(off, 0);
  }
}

// The loss of logits x w, the gradient of its sum by x. Rows of x pick a column of w, so that
// logits are exact.
std::string CrossEntropyText(int64_t n) {
  const std::string full = StrCat("[", kRows, ",", n, "]"), rows = StrCat("[", kRows, ",1]");
  return StrCat("graph @f(%x: bf16[", kRows, ",8], %w: bf16[8,", n, "], %t: i32", rows, ") -> (f32",
                rows, ", bf16[", kRows, ",8]) {\n  %0 = matmul(%x, %w) {out=bf16} : bf16", full,
                "\n  %1 = cast(%0) {to=f32} : f32", full,
                "\n  %2 = online_logsumexp(%1) {axes=[1]} : f32", rows,
                "\n  %3 = take_along(%1, %t) {axis=1} : f32", rows, "\n  %4 = sub(%2, %3) : f32",
                rows, "\n  %5 = broadcast(%2) {shape=", full, "} : f32", full,
                "\n  %6 = exp_sub(%1, %5) : f32", full, "\n  %7 = cast(%6) {to=bf16} : bf16", full,
                "\n  %8 = matmul(%7, %w) {out=bf16, transpose_b=true} : bf16[", kRows,
                ",8]\n  return %4, %8\n}\n");
}

TEST(LongRows, are_picked_from_before_they_are_overwritten) {
  STATOR_NEEDS_GPU();
  const auto target = MakeCudaTarget(0);
  for (const int64_t n : {50304, 128256, 1048576}) {
    SCOPED_TRACE(n);
    const auto graph = ParseGraph(CrossEntropyText(n));
    PassOptions options;
    options.target = target.get();
    PassManager(LowerPasses()).Run(*graph, options);
    const Plan plan = BuildPlan({{"f", graph.get()}}, *target, {.plan_name = "f"});
    bool overwrites = false;
    for (const PlanStep& step : plan.programs[0].steps) {
      const auto* call = std::get_if<KernelCall>(&step.work);
      if (call == nullptr) continue;
      for (size_t i = 0; i < call->args.size(); ++i)
        overwrites =
            overwrites || std::count(call->args.begin(), call->args.end(), call->args[i]) > 1;
    }
    EXPECT_TRUE(overwrites);
    std::vector<double> x(kRows * 8), w(8 * n), t(kRows);
    for (int64_t r = 0; r < kRows; ++r) x[r * 8 + r % 8] = 1;
    for (int64_t k = 0; k < 8 * n; ++k) w[k] = Element(4 + k / n, k % n, n);
    for (int64_t r = 0; r < kRows; ++r) t[r] = static_cast<double>((r * 7919 + r * r) * 977 % n);
    const std::vector<char> xs = ToBytes(DType::kBF16, x), ws = ToBytes(DType::kBF16, w),
                            ts = ToBytes(DType::kI32, t);
    const auto executor = MakeExecutor(plan, {.mode = ExecutionMode::kGraph});
    executor->Wait(executor->Enqueue("f", {{"x", Bytes(xs.data(), xs.size())},
                                           {"w", Bytes(ws.data(), ws.size())},
                                           {"t", Bytes(ts.data(), ts.size())}}));
    const std::vector<PlanOutput>& outputs = executor->plan().FindProgram("f")->outputs;
    const std::vector<double> loss =
        FromBytes(DType::kF32, executor->ReadBuffer(outputs[0].buffer, outputs[0].type.Bytes()));
    const std::vector<double> dx =
        FromBytes(DType::kBF16, executor->ReadBuffer(outputs[1].buffer, outputs[1].type.Bytes()));
    for (int64_t column = 0; column < 8; ++column) {
      const double* const logits = &w[column * n];
      double sum = 0, mean = 0;
      for (int64_t i = 0; i < n; ++i) sum += std::exp(logits[i]);
      for (int64_t i = 0; i < n; ++i) mean += std::exp(logits[i]) / sum * logits[i];
      for (int64_t r = column; r < kRows; r += 8) {
        EXPECT_NEAR(loss[r], std::log(sum) - logits[static_cast<int64_t>(t[r])], 1e-4)
            << "row " << r;
        EXPECT_NEAR(dx[r * 8 + column], mean, 0.02 * std::abs(mean)) << "row " << r;
      }
    }
  }
}

}  // namespace
}  // namespace stator::gpu_test
