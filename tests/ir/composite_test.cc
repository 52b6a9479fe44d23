// Composites against their formulas in f64, written here a second time.
#include "tests/ir/compare.h"
#include "tests/ir/random_inputs.h"
#include "tests/support/op_cases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

namespace stator {
namespace {

constexpr int64_t kRows = 3, kColumns = 37;

Tensor Random(DType dtype, const Dims& shape, uint64_t seed, double low = -3, double high = 3) {
  Tensor t(Type{dtype, shape});
  TestRandom random(seed);
  for (int64_t k = 0; k < t.size(); ++k) t.Set(k, random.Uniform(low, high));
  return t;
}

using Row = std::vector<double>;

Row RowOf(const Tensor& x, int64_t r) {
  return {x.f.begin() + r * kColumns, x.f.begin() + (r + 1) * kColumns};
}
double Sum(const Row& x) {
  double s = 0;
  for (const double v : x) s += v;
  return s;
}
double Mean(const Row& x) { return Sum(x) / static_cast<double>(x.size()); }
double Variance(const Row& x) {
  const double m = Mean(x);
  double s = 0;
  for (const double v : x) s += (v - m) * (v - m);
  return s / static_cast<double>(x.size());
}
double LogSumExp(const Row& x) {
  double s = 0;
  for (const double v : x) s += std::exp(v);
  return std::log(s);
}

// Applies `f` to each row of an f32 and a bf16 [kRows, kColumns] tensor and compares result 0.
void CheckRows(const std::string& op, const std::string& attrs,
               const std::function<Row(const Row&)>& f) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Tensor x = Random(dtype, {kRows, kColumns}, 3);
    const Tensor got = RunOp(op, StrCat("(", x.type.ToString(), ") ", attrs), {x})[0];
    Tensor want(got.type);
    int64_t k = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      for (const double v : f(RowOf(x, r))) want.Set(k++, v);
    }
    ASSERT_EQ(k, want.size());
    EXPECT_TRUE(Near(got, want, dtype == DType::kF32 ? 2e-6 : 8e-3)) << op << " " << Name(dtype);
  }
}

Row Map(const Row& x, const std::function<double(double)>& f) {
  Row y;
  for (const double v : x) y.push_back(f(v));
  return y;
}

TEST(Composite, mean) {
  CheckRows("mean", "{axes=[1]}", [](const Row& x) { return Row{Mean(x)}; });
}

TEST(Composite, variance) {
  CheckRows("variance", "{axes=[1]}", [](const Row& x) { return Row{Variance(x)}; });
  CheckRows("variance", "{axes=[1], correction=1}",
            [](const Row& x) { return Row{Variance(x) * kColumns / (kColumns - 1)}; });
}

TEST(Composite, logsumexp) {
  CheckRows("logsumexp", "{axes=[1]}", [](const Row& x) { return Row{LogSumExp(x)}; });
}

TEST(Composite, softmax) {
  CheckRows("softmax", "", [](const Row& x) {
    return Map(x, [l = LogSumExp(x)](double v) { return std::exp(v - l); });
  });
}

TEST(Composite, log_softmax) {
  CheckRows("log_softmax", "",
            [](const Row& x) { return Map(x, [l = LogSumExp(x)](double v) { return v - l; }); });
}

TEST(Composite, layer_norm) {
  CheckRows("layer_norm", "{eps=0.01}", [](const Row& x) {
    const double m = Mean(x), r = 1 / std::sqrt(Variance(x) + 0.01);
    return Map(x, [=](double v) { return (v - m) * r; });
  });
}

TEST(Composite, layer_norm_scales_shifts_and_returns_its_statistics) {
  const Tensor x = Random(DType::kF32, {kRows, kColumns}, 3),
               scale = Random(DType::kF32, {kColumns}, 4),
               bias = Random(DType::kF32, {kColumns}, 5);
  const auto got = RunOp("layer_norm", "(f32[3,37], f32[37], f32[37])", {x, scale, bias});
  Tensor y(x.type), mean(Type{DType::kF32, {kRows, 1}}), rstd(Type{DType::kF32, {kRows, 1}});
  for (int64_t r = 0; r < kRows; ++r) {
    const Row row = RowOf(x, r);
    const double s = 1 / std::sqrt(Variance(row) + 1e-5);
    mean.Set(r, Mean(row));
    rstd.Set(r, s);
    for (int64_t c = 0; c < kColumns; ++c) {
      y.Set(r * kColumns + c, (row[c] - Mean(row)) * s * scale.f[c] + bias.f[c]);
    }
  }
  EXPECT_TRUE(Near(got[0], y, 2e-6));
  EXPECT_TRUE(Near(got[1], mean, 1e-6));
  EXPECT_TRUE(Near(got[2], rstd, 1e-6));
}

TEST(Composite, rms_norm) {
  CheckRows("rms_norm", "{eps=0.01}", [](const Row& x) {
    const double r = 1 / std::sqrt(Mean(Map(x, [](double v) { return v * v; })) + 0.01);
    return Map(x, [=](double v) { return v * r; });
  });
}

TEST(Composite, activations) {
  const auto elementwise = [](const char* op, const char* attrs, double (*f)(double)) {
    CheckRows(op, attrs, [f](const Row& x) { return Map(x, f); });
  };
  elementwise("gelu", "", [](double x) { return x / 2 * (1 + std::erf(x / std::numbers::sqrt2)); });
  elementwise("gelu", "{approximate=\"tanh\"}", [](double x) {
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  });
  elementwise("silu", "", [](double x) { return x / (1 + std::exp(-x)); });
  elementwise("relu", "", [](double x) { return x > 0 ? x : 0; });
  elementwise("softplus", "", [](double x) { return std::log(1 + std::exp(x)); });
}

TEST(Composite, softplus_is_safe_far_from_zero) {
  const Tensor x = MakeTensor(DType::kF32, {4}, {-1000, -80, 80, 1000});
  const Tensor y = RunOp("softplus", "(f32[4])", {x})[0];
  EXPECT_TRUE(Near(y, MakeTensor(DType::kF32, {4}, {0, std::exp(-80.0), 80, 1000}), 1e-6));
}

TEST(Composite, rotary_turns_pairs_of_the_two_halves) {
  const int64_t batch = 2, time = 3, heads = 2, dim = 4, half = dim / 2;
  const Tensor x = Random(DType::kF32, {batch, time, heads, dim}, 3);
  Tensor cos(Type{DType::kF32, {time, half}}), sin(Type{DType::kF32, {time, half}}), want(x.type);
  for (int64_t k = 0; k < time * half; ++k)
    cos.Set(k, std::cos(0.3 * k)), sin.Set(k, std::sin(0.3 * k));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < time; ++t) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t j = 0; j < half; ++j) {
          const int64_t at = ((b * time + t) * heads + h) * dim + j;
          const double c = cos.f[t * half + j], s = sin.f[t * half + j];
          want.Set(at, x.f[at] * c - x.f[at + half] * s);
          want.Set(at + half, x.f[at + half] * c + x.f[at] * s);
        }
      }
    }
  }
  EXPECT_TRUE(
      Near(RunOp("rotary", "(f32[2,3,2,4], f32[3,2], f32[3,2])", {x, cos, sin})[0], want, 1e-6));
}

// A graph in bf16 rounds once: the f32 result rounded to bf16, not a chain of bf16 steps.
TEST(Composite, compute_in_f32_rounds_once) {
  const Tensor narrow = Random(DType::kBF16, {kRows, kColumns}, 9);
  Tensor wide = narrow;
  wide.type.dtype = DType::kF32;
  for (const char* op : {"softmax", "silu", "gelu", "log_softmax"}) {
    const Tensor got = RunOp(op, "(bf16[3,37])", {narrow})[0];
    const Tensor exact = RunOp(op, "(f32[3,37])", {wide})[0];
    for (int64_t k = 0; k < got.size(); ++k)
      EXPECT_EQ(got.f[k], RoundFloat(DType::kBF16, exact.f[k])) << op;
  }
}

}  // namespace
}  // namespace stator
