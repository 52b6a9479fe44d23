#include "frontend/dsl/initializer.h"

#include "frontend/dsl/draws.h"
#include "ir/base/error.h"
#include "ir/base/parallel.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace stator::dsl {
namespace {

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

Law LawOf(Initializer::Kind kind) {
  if (kind == Initializer::Kind::kUniform) return Law::kUniform;
  return kind == Initializer::Kind::kNormal ? Law::kNormal : Law::kTruncatedNormal;
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
  if (error != std::errc::result_out_of_range && !whole) Unknown(text);
  if (error != std::errc() || !std::isfinite(static_cast<float>(init.value))) {
    Fail(ErrorCode::kInvalidArgument, "initializer \"", text,
         "\": the number is not finite as f32");
  }
  if (init.kind != Kind::kConstant && init.value < 0) Unknown(text);
  return init;
}

Draws::Draws(std::string_view init, const Type& type, uint64_t seed, std::string_view path)
    : initializer_(ParseInitializer(init)),
      scale_(Scale(initializer_, type)),
      seed_(seed),
      path_(HashBytes(path)) {}

void Draws::Fill(int64_t begin, std::span<float> out) const {
  if (initializer_.kind == Initializer::Kind::kConstant) {
    std::fill(out.begin(), out.end(), static_cast<float>(scale_));
    return;
  }
  DrawFunction* const draw = DrawFunctions().back();
  const Law law = LawOf(initializer_.kind);
  const Stream stream = {seed_, path_};
  const int64_t end = begin + static_cast<int64_t>(out.size());
  for (int64_t at = begin; at < end;) {
    const int64_t batch = at / kDrawBatch, skip = at % kDrawBatch;
    float* const to = out.data() + (at - begin);
    const int64_t count = std::min(kDrawBatch - skip, end - at);
    if (count == kDrawBatch) {
      draw(law, scale_, stream, batch, to);
    } else {
      std::array<float, kDrawBatch> whole;
      draw(law, scale_, stream, batch, whole.data());
      std::copy_n(whole.begin() + skip, count, to);
    }
    at += count;
  }
}

std::vector<float> Initialize(const std::string& init, const Type& type, uint64_t seed,
                              const std::string& path) {
  const Draws draws(init, type, seed, path);
  std::vector<float> out(static_cast<size_t>(type.NumElements()));
  constexpr size_t kSlice = 1 << 16;
  ParallelFor((out.size() + kSlice - 1) / kSlice, [&](size_t slice) {
    const std::span<float> rest = std::span(out).subspan(slice * kSlice);
    draws.Fill(static_cast<int64_t>(slice * kSlice), rest.first(std::min(kSlice, rest.size())));
  });
  return out;
}

}  // namespace stator::dsl
