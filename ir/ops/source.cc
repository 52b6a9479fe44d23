// Ops without operands.
#include "ir/ops/helpers.h"
#include "ir/ops/ops.h"

namespace stator {

void AddSourceOps(OpRegistry& ops) {
  const auto declared = [](const OpView& op) {
    return Types{{op.Dtype("dtype"), op.Ints("shape")}};
  };
  ops.Add({
      .name = "input",
      .op_class = OpClass::kSource,
      .attrs = {{"dtype", DType::kF32, true}, {"shape", Dims{}, true}},
      .infer = declared,
  });
  // A parameter, optimizer moment, counter or other value that lives between runs. `role` is
  // "parameter", "moment", "gradient", "counter" or free text; `derived` states can be rebuilt from
  // others and stay out of checkpoints; `init` names an initializer: "zeros", "normal(0.02)". Where
  // a bf16 and a u16 state hold the halves of an f32 one, `half_of` is its name, and the other
  // attributes are its own (passes/split_masters.cc).
  ops.Add({
      .name = "state",
      .op_class = OpClass::kSource,
      .attrs = {{"dtype", DType::kF32, true},
                {"shape", Dims{}, true},
                {"role", std::string("parameter")},
                {"trainable", false},
                {"group", std::string()},
                {"derived", false},
                {"half_of", std::string()},
                {"init", std::string("zeros")}},
      .infer = declared,
  });
  ops.Add({
      .name = "constant",
      .op_class = OpClass::kSource,
      .attrs = {{"value", 0.0, true}, {"dtype", DType::kF32}},
      .infer =
          [](const OpView& op) {
            return Types{{op.Dtype("dtype"), {}}};
          },
      .reference = [](const OpView& op, auto,
                      std::span<Tensor> out) { out[0].Set(0, op.Float("value")); },
      .flops = NoFlops,
      .samples = {"() {value=1.5}", "() {value=3, dtype=i32}", "() {value=-inf, dtype=bf16}",
                  "() {value=1, dtype=bool}", "() {value=nan}"},
  });
  ops.Add({
      .name = "iota",
      .op_class = OpClass::kSource,
      .attrs = {{"dtype", DType::kI32}, {"shape", Dims{}, true}, {"axis", int64_t{0}}},
      .infer =
          [](const OpView& op) {
            NormalizeAxis(op.Int("axis"), static_cast<int>(op.Ints("shape").size()), op.Where());
            return Types{{op.Dtype("dtype"), op.Ints("shape")}};
          },
      .reference =
          [](const OpView& op, auto, std::span<Tensor> out) {
            const int axis = NormalizeAxis(op.Int("axis"), out[0].type.rank(), op.Where());
            int64_t k = 0;
            for (Index it(out[0].type.shape); !it.done(); it.Next()) out[0].SetInt(k++, it[axis]);
          },
      .flops = NoFlops,
      .samples = {"() {shape=[4]}", "() {shape=[2,3], axis=1, dtype=f32}",
                  "() {shape=[3,1,5], axis=-1, dtype=i64}", "() {shape=[0,3]}",
                  "() {shape=[300], dtype=bf16}"},
  });
}

}  // namespace stator
