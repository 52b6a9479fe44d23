#include "frontend/dsl/initializer.h"

#include "frontend/dsl/draws.h"
#include "tests/frontend/dsl/dsl_support.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

namespace stator::dsl {
namespace {

struct Moments {
  double mean = 0, std = 0, kurtosis = 0, max = 0;
};

Moments MomentsOf(const std::vector<float>& v) {
  Moments m;
  for (const float x : v) m.mean += x;
  m.mean /= v.size();
  double second = 0, fourth = 0;
  for (const float x : v) {
    const double d = x - m.mean;
    second += d * d;
    fourth += d * d * d * d;
    m.max = std::max(m.max, std::abs(double{x}));
  }
  second /= v.size();
  m.std = std::sqrt(second);
  m.kurtosis = fourth / v.size() / (second * second);
  return m;
}

constexpr int64_t kRows = 512, kColumns = 1024;  // 2^19 elements
std::vector<float> Make(const std::string& init, uint64_t seed = 1, const std::string& path = "w") {
  return Initialize(init, {kF32, {kRows, kColumns}}, seed, path);
}

TEST(Initializer, constants) {
  EXPECT_EQ(Initialize("zeros", {kF32, {3}}, 1, "w"), std::vector<float>(3, 0));
  EXPECT_EQ(Initialize("ones", {kF32, {3}}, 1, "w"), std::vector<float>(3, 1));
  EXPECT_EQ(Initialize("constant(-2.5)", {kF32, {}}, 1, "w"), std::vector<float>(1, -2.5));
  EXPECT_TRUE(Initialize("normal(1)", {kF32, {0, 4}}, 1, "w").empty());
}

TEST(Initializer, normal_has_the_moments_of_a_normal) {
  const Moments m = MomentsOf(Make("normal(0.02)"));
  EXPECT_NEAR(m.mean, 0, 0.02 * 0.006);  // four standard errors
  EXPECT_NEAR(m.std, 0.02, 0.02 * 0.004);
  EXPECT_NEAR(m.kurtosis, 3, 0.03);
  EXPECT_GT(m.max, 0.02 * 4);
}

TEST(Initializer, truncated_normal_stays_within_two_std) {
  const Moments m = MomentsOf(Make("truncated_normal(0.5)"));
  EXPECT_NEAR(m.mean, 0, 0.003);
  EXPECT_NEAR(m.std, 0.5 * 0.8796, 0.002);  // of a normal cut at two
  EXPECT_LE(m.max, 1);
}

TEST(Initializer, uniform_fills_its_interval) {
  const Moments m = MomentsOf(Make("uniform(0.1)"));
  EXPECT_NEAR(m.mean, 0, 0.0004);
  EXPECT_NEAR(m.std, 0.1 / std::sqrt(3), 0.0003);
  EXPECT_NEAR(m.kurtosis, 1.8, 0.01);
  EXPECT_LE(m.max, 0.1f);
}

TEST(Initializer, fans_are_columns_in_and_rows_out) {
  const double sum = kRows + kColumns;
  EXPECT_NEAR(MomentsOf(Make("xavier_uniform")).max, std::sqrt(6 / sum), 1e-4);
  EXPECT_NEAR(MomentsOf(Make("xavier_normal")).std, std::sqrt(2 / sum), 2e-4);
  EXPECT_NEAR(MomentsOf(Make("kaiming_uniform")).max, std::sqrt(6.0 / kColumns), 1e-4);
  EXPECT_NEAR(MomentsOf(Make("kaiming_normal")).std, std::sqrt(2.0 / kColumns), 2e-4);
}

// These numbers are what a seed means: a change of them breaks everyone's runs.
TEST(Initializer, values_are_stable) {
  const std::vector<float> n = Initialize("normal(1)", {kF32, {6}}, 1337, "h.0/mlp/up/w");
  const std::vector<float> u = Initialize("uniform(1)", {kF32, {6}}, 1337, "h.0/mlp/up/w");
  const std::vector<float> t = Initialize("truncated_normal(1)", {kF32, {3}}, 1337, "w");
  const std::vector<float> normal = {-0.73169297, 0.94256997, -1.375152,
                                     -0.67557526, 1.1188358,  -0.79746103};
  const std::vector<float> uniform = {-0.018584356, -0.2898818,  -0.38157246,
                                      0.1453536,    -0.22176102, 0.80289036};
  for (int i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(n[i], normal[i]) << i;
  for (int i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(u[i], uniform[i]) << i;
  const std::vector<float> truncated = {-0.49280784, -1.3651751, 0.26658264};
  for (int i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(t[i], truncated[i]) << i;
}

TEST(Initializer, an_element_depends_on_seed_path_and_index_alone) {
  const std::vector<float> few = Initialize("normal(1)", {kF32, {1000}}, 1, "w");
  // Large enough to be made by several threads.
  const std::vector<float> many = Initialize("normal(1)", {kF32, {(3 << 20) + 5}}, 1, "w");
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_NE(many[many.size() - 1], 0);
  EXPECT_NE(few, Initialize("normal(1)", {kF32, {1000}}, 2, "w"));
  EXPECT_NE(few, Initialize("normal(1)", {kF32, {1000}}, 1, "v"));
  EXPECT_NE(few, Initialize("normal(1)", {kF32, {1000}}, uint64_t{1} << 32, "w"));
}

TEST(Initializer, a_part_is_drawn_as_in_the_whole) {
  for (const char* init : {"normal(0.1)", "truncated_normal(0.1)", "uniform(0.1)", "constant(3)"}) {
    const Type type = {kF32, {10, 100}};
    const std::vector<float> whole = Initialize(init, type, 1, "w");
    const Draws draws(init, type, 1, "w");
    for (const int64_t begin : {0, 3, 256, 700}) {
      std::vector<float> part(300);
      draws.Fill(begin, part);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin)) << init << begin;
    }
  }
}

double Unit(uint32_t word) { return (word + 0.5) * 0x1p-32; }

// As Normals of draws.cc, by the mathematical library.
std::array<double, 4> LibraryNormals(const PhiloxBlock& w) {
  std::array<double, 4> z;
  for (int i = 0; i < 4; i += 2) {
    const double radius = std::sqrt(-2 * std::log(Unit(w[i])));
    const double angle = 2 * std::numbers::pi * Unit(w[i + 1]);
    z[i] = radius * std::cos(angle), z[i + 1] = radius * std::sin(angle);
  }
  return z;
}

// An f32 differs where the f64 is within its error of the middle between two: some 1e-8 of them.
TEST(Draws, normals_are_those_of_the_mathematical_library) {
  const Stream stream{1337, 7};
  constexpr int64_t kBatches = 40'000;  // 1e7 elements
  std::array<float, kDrawBatch> drawn;
  int64_t differ = 0;
  for (int64_t batch = 0; batch < kBatches; ++batch) {
    DrawFunctions().back()(Law::kNormal, 0.02, stream, batch, drawn.data());
    for (int64_t i = 0; i < kDrawBatch; i += 4) {
      const auto z =
          LibraryNormals(stream.At(static_cast<uint64_t>((batch * kDrawBatch + i) / 4), 0));
      for (int j = 0; j < 4; ++j) {
        const auto expected = static_cast<float>(0.02 * z[j]);
        if (drawn[i + j] == expected) continue;
        ++differ;
        EXPECT_EQ(drawn[i + j], std::nextafter(expected, drawn[i + j]));
      }
    }
  }
  EXPECT_LE(differ, 2);
}

TEST(Draws, truncated_normals_are_the_first_within_two) {
  const Stream stream{1337, 7};
  std::array<float, kDrawBatch> drawn;
  for (int64_t batch = 0; batch < 2000; ++batch) {
    DrawFunctions().back()(Law::kTruncatedNormal, 0.5, stream, batch, drawn.data());
    for (int64_t i = 0; i < kDrawBatch; ++i) {
      double first = 3;
      for (uint32_t attempt = 0; std::abs(first) > 2; ++attempt) {
        for (const double z :
             LibraryNormals(stream.At(static_cast<uint64_t>(batch * kDrawBatch + i), attempt))) {
          if (std::abs(first) > 2) first = z;
        }
      }
      ASSERT_FLOAT_EQ(drawn[i], static_cast<float>(0.5 * first)) << batch << " " << i;
    }
  }
}

// Runs begin alike whatever instructions the machine has.
TEST(Draws, every_width_of_vectors_gives_the_same_bits) {
  for (const Law law : {Law::kUniform, Law::kNormal, Law::kTruncatedNormal}) {
    for (DrawFunction* const draw : DrawFunctions()) {
      for (int64_t batch = 0; batch < 4000; ++batch) {
        // Also past 2^32 blocks.
        const int64_t at = batch % 2 == 0 ? batch : (int64_t{1} << 38) / kDrawBatch + batch - 2000;
        std::array<float, kDrawBatch> expected, drawn;
        DrawFunctions().front()(law, 0.02, {3, 5}, at, expected.data());
        draw(law, 0.02, {3, 5}, at, drawn.data());
        ASSERT_EQ(std::memcmp(drawn.data(), expected.data(), sizeof drawn), 0) << at;
      }
    }
  }
}

TEST(Initializer, parameters_are_not_correlated) {
  const std::vector<float> a = Make("normal(1)", 1, "h.0/w"), b = Make("normal(1)", 1, "h.1/w");
  double product = 0;
  for (size_t k = 0; k < a.size(); ++k) product += double{a[k]} * b[k];
  EXPECT_NEAR(product / a.size(), 0, 0.006);
}

TEST(Initializer, unknown_text_is_refused) {
  for (const char* text : {"", "zero", "normal", "normal()", "normal(x)", "normal(1", "normal(-1)",
                           "normal(1, 2)", "gauss(1)", "zeros()"}) {
    EXPECT_HAS(ErrorOf([&] { ParseInitializer(text); }), StrCat("\"", text, "\" is none of"));
  }
}

TEST(Initializer, numbers_are_finite_as_f32) {
  for (const char* text : {"normal(nan)", "normal(inf)", "normal(1e300)", "normal(1e999)",
                           "uniform(1e39)", "constant(nan)", "constant(-inf)", "constant(-4e38)"}) {
    EXPECT_HAS(ErrorOf([&] { ParseInitializer(text); }),
               StrCat("\"", text, "\": the number is not finite as f32"));
  }
  EXPECT_EQ(ParseInitializer("constant(-3.4028235e+38)").value, -3.4028235e38);
  EXPECT_EQ(ParseInitializer("uniform(0)").value, 0);
}

}  // namespace
}  // namespace stator::dsl
