// Counter-based random numbers: f(seed, step, stream, element index), see ir/philox.h. Nothing else
// enters, so recompute, replay, resharding and the CPU give the same bits.
#include "ir/ops/random.h"

#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"
#include "ir/philox.h"

#include <cmath>

namespace stator {
namespace {

std::vector<OperandDef> SeedAndStep() {
  return {{"seed", TypeSet::kAnyInteger}, {.name = "step", .types = TypeSet::kIndex}};
}

Types InferRandom(const OpView& op, DType dtype) {
  CheckSeed(op, 0);
  for (const int64_t d : op.Ints("shape")) {
    if (d < 0)
      Fail(ErrorCode::kInvalidArgument, op.Where(), ": negative size in ", op.Ints("shape"));
  }
  return {{dtype, op.Ints("shape")}};
}

void RandomBitsReference(const OpView& op, Operands in, Results out) {
  const auto seed0 = static_cast<uint32_t>(in[0]->i[0]), seed1 = static_cast<uint32_t>(in[0]->i[1]);
  PhiloxBlock words{};
  for (int64_t k = 0; k < out[0].size(); ++k) {
    if (k % 4 == 0) words = RandomBlock(seed0, seed1, in[1]->i[0], op.Int("stream"), k / 4);
    out[0].SetInt(k, words[k % 4]);
  }
}

Types InferDropout(const OpView& op) {
  CheckSeed(op, 1);
  CheckDropoutRate(op, op.Float("rate"));
  return {op.type(0)};
}

}  // namespace

void CheckSeed(const OpView& op, int i) {
  if (op.type(i) != Type{DType::kU32, {2}}) BadOperand(op, "the seed is a u32[2]", op.type(i));
  if (op.type(i + 1) != Type{DType::kI64, {}})
    BadOperand(op, "the step is an i64[]", op.type(i + 1));
}

void CheckDropoutRate(const OpView& op, double rate) {
  if (rate >= 0 && rate < 1) return;
  Fail(ErrorCode::kInvalidArgument, op.Where(), ": dropout rate ", rate, " is not in [0,1)");
}

int64_t DropoutThreshold(double rate) { return static_cast<int64_t>(std::ldexp(rate, 32)); }

Value DropoutMask(Builder& b, Value seed, Value step, const Dims& shape, int64_t stream,
                  double rate) {
  const Value bits = b.Create1("random_bits", {seed, step}, {{"shape", shape}, {"stream", stream}});
  return b.Ge(bits, b.ConstantLike(static_cast<double>(DropoutThreshold(rate)), bits));
}

void AddRandomOps(OpRegistry& ops) {
  // Element k is word k % 4 of Philox4x32-10 with counter (low and high word of k / 4, low word of
  // `stream`, low word of step) and the seed as key.
  ops.Add({
      .name = "random_bits",
      .op_class = OpClass::kRandom,
      .operands = SeedAndStep(),
      .attrs = {{"shape", Dims{}, true}, {"stream", int64_t{0}}},
      .infer = [](const OpView& op) { return InferRandom(op, DType::kU32); },
      .reference = RandomBitsReference,
      .flops =
          [](const OpView& op) {
            return 20.0 * static_cast<double>(NumElements(op.Ints("shape")));
          },
      .samples = {"(u32[2], i64[]) {shape=[4,8]}", "(u32[2], i64[]) {shape=[7], stream=3}",
                  "(u32[2], i64[]) {shape=[]}", "(u32[2], i64[]) {shape=[0,3]}"},
  });
  // f32 in [0,1): the top 24 bits times 2^-24.
  ops.Add({
      .name = "uniform",
      .op_class = OpClass::kComposite,
      .operands = SeedAndStep(),
      .attrs = {{"shape", Dims{}, true}, {"stream", int64_t{0}}},
      .infer = [](const OpView& op) { return InferRandom(op, DType::kF32); },
      .expand = [](Builder& b, const OpView& op) -> Values {
        const Value bits = b.Create1("random_bits", {op.in(0), op.in(1)}, op.attrs());
        return {b.Mul(b.Cast(b.Div(bits, 256), DType::kF32), 0x1p-24)};
      },
      .flops =
          [](const OpView& op) {
            return 22.0 * static_cast<double>(NumElements(op.Ints("shape")));
          },
      .samples = {"(u32[2], i64[]) {shape=[4,8]}", "(u32[2], i64[]) {shape=[7], stream=3}"},
  });
  // x / (1 - rate) where the element's random bits are at least floor(rate * 2^32), else 0. The
  // gradient draws the same bits again, so no mask is kept.
  ops.Add({
      .name = "dropout",
      .op_class = OpClass::kComposite,
      .operands = {{"x", TypeSet::kAnyFloat},
                   {"seed", TypeSet::kAnyInteger},
                   {"step", TypeSet::kIndex}},
      .attrs = {{"rate", 0.5, true}, {"stream", int64_t{0}}},
      .precision = Precision::kComputeInF32,
      .infer = InferDropout,
      .expand = [](Builder& b, const OpView& op) -> Values {
        const Value x = op.in(0);
        const double rate = op.Float("rate");
        if (rate == 0) return {x};
        const Value keep = DropoutMask(b, op.in(1), op.in(2), x.shape(), op.Int("stream"), rate);
        return {b.Select(keep, b.Mul(x, 1 / (1 - rate)), b.ConstantLike(0, x))};
      },
      .grad = [](Builder& b, const OpView& op, const Values& dy) -> Values {
        return {b.Create1("dropout", {dy[0], op.in(1), op.in(2)}, op.attrs()), Value{}, Value{}};
      },
      .flops =
          [](const OpView& op) { return 22.0 * static_cast<double>(op.type(0).NumElements()); },
      .samples = {"(f32[4,8], u32[2], i64[]) {rate=0.25}",
                  "(bf16[3,5], u32[2], i64[]) {rate=0.5, stream=7}",
                  "(f32[5], u32[2], i64[]) {rate=0}", "(f32[0,2], u32[2], i64[]) {rate=0.1}"},
  });
}

}  // namespace stator
