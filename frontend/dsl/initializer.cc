#include "frontend/dsl/initializer.h"

#include "ir/base/error.h"
#include "ir/philox.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>
#include <thread>

namespace stator::dsl {
namespace {

// The random stream of one parameter.
struct Stream {
  uint64_t seed, path;

  PhiloxBlock At(uint64_t block, uint32_t attempt) const {
    // The block index fits 48 bits; its upper part shares a word with the attempt.
    return Philox(
        {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32) ^ (attempt << 16),
         static_cast<uint32_t>(path), static_cast<uint32_t>(path >> 32)},
        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  }
};

// In (0, 1), symmetric about 1/2.
double Unit(uint32_t word) { return (word + 0.5) * 0x1p-32; }

// Four standard normals by Box and Muller's transform. In f64, so that the results rounded to f32
// are the same whichever mathematical library computes them, but for exceedingly rare cases.
std::array<double, 4> Normals(const PhiloxBlock& w) {
  std::array<double, 4> z;
  for (int i = 0; i < 4; i += 2) {
    const double radius = std::sqrt(-2 * std::log(Unit(w[i])));
    const double angle = 2 * std::numbers::pi * Unit(w[i + 1]);
    z[i] = radius * std::cos(angle);
    z[i + 1] = radius * std::sin(angle);
  }
  return z;
}

// Element k from its own blocks: the first of their normals within two standard deviations.
double TruncatedNormal(const Stream& stream, uint64_t k) {
  for (uint32_t attempt = 0;; ++attempt) {
    for (const double z : Normals(stream.At(k, attempt))) {
      if (std::abs(z) <= 2) return z;
    }
  }
}

void Fill(Initializer::Kind kind, double scale, const Stream& stream, int64_t begin, int64_t end,
          float* out) {
  switch (kind) {
    case Initializer::Kind::kConstant:
      std::fill(out + begin, out + end, static_cast<float>(scale));
      return;
    case Initializer::Kind::kTruncatedNormal:
      for (int64_t k = begin; k < end; ++k) {
        out[k] = static_cast<float>(scale * TruncatedNormal(stream, k));
      }
      return;
    case Initializer::Kind::kNormal:
    case Initializer::Kind::kUniform:
      for (int64_t k = begin; k < end; k += 4) {  // `begin` is a multiple of 4
        const PhiloxBlock words = stream.At(k / 4, 0);
        std::array<double, 4> z;
        if (kind == Initializer::Kind::kNormal) {
          z = Normals(words);
        } else {
          for (int i = 0; i < 4; ++i) z[i] = 2 * Unit(words[i]) - 1;
        }
        for (int64_t i = 0; i < std::min<int64_t>(4, end - k); ++i) {
          out[k + i] = static_cast<float>(scale * z[i]);
        }
      }
      return;
  }
}

double Scale(const Initializer& init, const Type& type) {
  if (init.fan == Initializer::Fan::kNone) return init.value;
  const Dims& s = type.shape;
  const double n = std::max<int64_t>(1, type.NumElements());
  const double fan_in = s.size() < 2 ? n : n / std::max<int64_t>(1, s[0]);
  const double fan_out = s.size() < 2 ? n : n / std::max<int64_t>(1, s[1]);
  const double fans = init.fan == Initializer::Fan::kKaiming ? fan_in : (fan_in + fan_out) / 2;
  const bool uniform = init.kind == Initializer::Kind::kUniform;
  const double gain = init.fan == Initializer::Fan::kKaiming ? 2 : 1;  // of relu
  return std::sqrt((uniform ? 3 : 1) * gain / fans);
}

[[noreturn]] void Unknown(std::string_view text) {
  Fail(ErrorCode::kInvalidArgument, "initializer \"", text,
       "\" is none of zeros, ones, constant(v), normal(std), truncated_normal(std), "
       "uniform(bound), xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal");
}

}  // namespace

Initializer ParseInitializer(std::string_view text) {
  using Kind = Initializer::Kind;
  using Fan = Initializer::Fan;
  if (text == "zeros") return {Kind::kConstant, Fan::kNone, 0};
  if (text == "ones") return {Kind::kConstant, Fan::kNone, 1};
  if (text == "xavier_uniform") return {Kind::kUniform, Fan::kXavier};
  if (text == "xavier_normal") return {Kind::kNormal, Fan::kXavier};
  if (text == "kaiming_uniform") return {Kind::kUniform, Fan::kKaiming};
  if (text == "kaiming_normal") return {Kind::kNormal, Fan::kKaiming};

  const size_t open = text.find('(');
  if (open == text.npos || text.back() != ')') Unknown(text);
  const std::string_view name = text.substr(0, open);
  const std::string_view number = Trim(text.substr(open + 1, text.size() - open - 2));
  Initializer init;
  if (name == "constant")
    init.kind = Kind::kConstant;
  else if (name == "normal")
    init.kind = Kind::kNormal;
  else if (name == "truncated_normal")
    init.kind = Kind::kTruncatedNormal;
  else if (name == "uniform")
    init.kind = Kind::kUniform;
  else
    Unknown(text);
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), init.value);
  const bool whole = error == std::errc() && end == number.data() + number.size();
  if (!whole || (init.kind != Kind::kConstant && !(init.value >= 0))) Unknown(text);
  return init;
}

std::vector<float> Initialize(const std::string& text, const Type& type, uint64_t seed,
                              const std::string& path) {
  const Initializer init = ParseInitializer(text);
  const double scale = Scale(init, type);
  const Stream stream{seed, HashBytes(path)};
  const int64_t n = type.NumElements();
  std::vector<float> out(n);

  constexpr int64_t kPerThread = 1 << 16;  // a millisecond and more; a multiple of 4
  const int64_t threads = std::clamp<int64_t>(
      n / kPerThread, 1, std::max<int64_t>(1, std::thread::hardware_concurrency()));
  const int64_t share = (n / threads + 3) / 4 * 4;
  std::vector<std::jthread> pool;
  for (int64_t i = 1; i < threads; ++i) {
    pool.emplace_back([&, i] {
      Fill(init.kind, scale, stream, std::min(n, i * share), std::min(n, (i + 1) * share),
           out.data());
    });
  }
  Fill(init.kind, scale, stream, 0, std::min(n, share), out.data());
  pool.clear();
  return out;
}

}  // namespace stator::dsl
