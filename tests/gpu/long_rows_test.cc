// Rows held by one block and by clusters of 2, 4 and 16: log-sum-exps, and the gradient that overwrites
// the row, against f64.
#include "codegen/build_plan.h"
#include "ir/base/error.h"
#include "ir/dtype.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "tests/gpu/plan_maker.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace stator::gpu_test {
namespace {

constexpr int64_t kRows = 66;
constexpr double kInf = std::numeric_limits<double>::infinity();

// exp(x - logsumexp(x)) of every row, and the log-sum-exp.
std::string GraphText(int64_t n) {
  const std::string type = StrCat("f32[", kRows, ",", n, "]"), rows = StrCat("f32[", kRows, ",1]");
  return StrCat("graph @f(%x: bf16[", kRows, ",", n, "]) -> (bf16[", kRows, ",", n, "], ", rows, ") {\n  %0 = cast(%x) {to=f32} : ", type,
                "\n  %1 = online_logsumexp(%0) {axes=[1]} : ", rows, "\n  %2 = broadcast(%1) {shape=[", kRows, ",", n, "]} : ", type,
                "\n  %3 = exp_sub(%0, %2) : ", type, "\n  %4 = cast(%3) {to=bf16} : bf16[", kRows, ",", n, "]\n  return %4, %1\n}\n");
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
      if (const auto* call = std::get_if<KernelCall>(&step.work)) cluster = std::max(cluster, call->cluster);
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
      executor->Wait(executor->Enqueue("f", {{"x", Bytes(reinterpret_cast<const char*>(x.data()), x.size() * 2)}}));
      std::vector<std::vector<char>> outputs;
      for (const PlanOutput& o : executor->plan().FindProgram("f")->outputs) outputs.push_back(executor->ReadBuffer(o.buffer, o.type.Bytes()));
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
      for (int64_t i = 0; i < n; ++i) largest = std::max(largest, Element(r, i, n)), nan = nan || std::isnan(Element(r, i, n));
      for (int64_t i = 0; i < n && std::isfinite(largest); ++i) sum += std::exp(Element(r, i, n) - largest);
      const double lse = nan ? NAN : std::isfinite(largest) ? largest + std::log(sum) : largest;
      float got;
      std::memcpy(&got, first[1].data() + 4 * r, 4);
      EXPECT_TRUE(Near(got, lse, 1e-6)) << "row " << r << ": " << got << ", should be " << lse;
      for (int64_t i = 0; i < n; ++i) {
        const uint32_t bits = static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(first[0].data())[r * n + i]) << 16;
        float y;
        std::memcpy(&y, &bits, 4);
        if (!Near(y, std::exp(Element(r, i, n) - lse), 1.0 / 128) && off++ == 0) {
          ADD_FAILURE() << "row " << r << ", element " << i << ": " << y << ", should be " << std::exp(Element(r, i, n) - lse);
        }
      }
    }
    EXPECT_EQ(off, 0);
  }
}

}  // namespace
}  // namespace stator::gpu_test
