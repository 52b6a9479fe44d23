// Initial values of parameters. An initializer is text, because it lives in a state's `init`
// attribute and so travels through passes and plans:
//
//   zeros  ones  constant(v)
//   normal(std)              mean 0
//   truncated_normal(std)    normal(std), values beyond two std drawn again
//   uniform(bound)           in [-bound, bound]
//   xavier_uniform           bound sqrt(6 / (fan_in + fan_out))      (Glorot and Bengio 2010)
//   xavier_normal            std  sqrt(2 / (fan_in + fan_out))
//   kaiming_uniform          bound sqrt(6 / fan_in), for relu         (He et al. 2015)
//   kaiming_normal           std  sqrt(2 / fan_in)
//
// Numbers are finite as f32. For a weight [out, in, ...]: fan_in = in * rest, fan_out = out * rest;
// a vector's fans are its size. An element is a function of (seed, path, its index): neither the
// order of declaration nor the number of threads nor the machine matters.
#pragma once

#include "ir/type.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stator::dsl {

struct Initializer {
  enum class Kind { kConstant, kNormal, kTruncatedNormal, kUniform };
  // What the scale of a normal or uniform one is derived from.
  enum class Fan { kNone, kXavier, kKaiming };
  Kind kind = Kind::kConstant;
  Fan fan = Fan::kNone;
  double value = 0;  // the constant, std or bound, where `fan` is kNone; finite as f32
};

// Throws `Error` for anything else than the above.
Initializer ParseInitializer(std::string_view text);

// The elements of one parameter in row-major order, drawn where they are asked for; the caller
// rounds them to the type's dtype. Threads may share one.
class Draws {
 public:
  // Throws `Error` as ParseInitializer does.
  Draws(std::string_view init, const Type& type, uint64_t seed, std::string_view path);
  // Elements `begin` on.
  void Fill(int64_t begin, std::span<float> out) const;

 private:
  Initializer initializer_;
  double scale_;
  uint64_t seed_, path_;
};

// All of them, drawn in threads.
std::vector<float> Initialize(const std::string& init, const Type& type, uint64_t seed,
                              const std::string& path);

}  // namespace stator::dsl
