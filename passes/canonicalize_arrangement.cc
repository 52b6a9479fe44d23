// Movement that does nothing or that two nodes do where one can, reductions over nothing, and
// transposes that a contraction can read through.
#include "passes/canonicalize_rules.h"

#include <algorithm>

namespace stator {
namespace {

// Movement to the same type that leaves every element where it is.
Value MovesNothing(Builder&, const Node& n) {
  if (n.op_class() != OpClass::kMovement || n.operand(0).type() != n.type()) return {};
  if (n.Is("transpose")) {
    const Dims& p = n.view().Ints("permutation");
    return std::is_sorted(p.begin(), p.end()) ? n.operand(0) : Value{};
  }
  // Equal shapes leave a broadcast, a reshape, a concat of one, a pad (which never crops) and a
  // slice no choice.
  return n.num_operands() == 1 ? n.operand(0) : Value{};
}

// reshape(reshape(x)) and broadcast(broadcast(x)): the outer one says it all.
Value SameTwice(Builder& b, const Node& n) {
  if (!n.Is("reshape") && !n.Is("broadcast")) return {};
  const Node& inner = *n.operand(0).node;
  if (&inner.op() != &n.op()) return {};
  return b.Create1(n.op().name, {inner.operand(0)}, n.attrs());
}

// Any view of a single element spread over a shape: the element spread over the other shape.
Value MovedSpread(Builder& b, const Node& n) {
  if (n.op_class() != OpClass::kMovement || n.num_operands() != 1 || n.Is("broadcast")) return {};
  if (n.op().FindAttr("value") != nullptr) return {};  // padding adds other elements
  const Node& spread = *n.operand(0).node;
  if (!spread.Is("broadcast") || spread.operand(0).type().NumElements() != 1) return {};
  return b.Broadcast(b.Reshape(spread.operand(0), {}), n.type().shape);
}

Value TransposeTwice(Builder& b, const Node& n) {
  if (!n.Is("transpose") || !n.operand(0).node->Is("transpose")) return {};
  const Node& inner = *n.operand(0).node;
  Dims composed;
  for (const int64_t axis : n.view().Ints("permutation")) {
    composed.push_back(inner.view().Ints("permutation")[axis]);
  }
  return b.Transpose(inner.operand(0), composed);
}

// A transpose that only moves axes of size 1 keeps the order of the elements in memory.
Value TransposeOfOnes(Builder& b, const Node& n) {
  if (!n.Is("transpose")) return {};
  const Dims& shape = n.operand(0).shape();
  Dims moved;
  for (const int64_t axis : n.view().Ints("permutation")) {
    if (shape[axis] != 1) moved.push_back(axis);
  }
  return std::is_sorted(moved.begin(), moved.end()) ? b.Reshape(n.operand(0), n.type().shape)
                                                    : Value{};
}

int64_t StepOf(const OpView& slice, size_t axis) {
  const Dims& steps = slice.Ints("steps");  // empty: all 1
  return steps.empty() ? 1 : steps[axis];
}

Value SliceTwice(Builder& b, const Node& n) {
  if (!n.Is("slice") || !n.operand(0).node->Is("slice")) return {};
  const OpView outer = n.view(), inner = n.operand(0).node->view();
  Dims starts, limits, steps;
  for (size_t i = 0; i < outer.Ints("starts").size(); ++i) {
    const int64_t step_in = StepOf(inner, i), step_out = StepOf(outer, i);
    const int64_t start = inner.Ints("starts")[i] + outer.Ints("starts")[i] * step_in;
    const int64_t count = n.type().shape[i];
    starts.push_back(start);
    steps.push_back(step_in * step_out);
    limits.push_back(count == 0 ? start : start + (count - 1) * step_in * step_out + 1);
  }
  return b.Slice(inner.in(0), starts, limits, steps);
}

// cast(concat(parts)) to a narrower type: the parts are narrowed before they are put together.
Value NarrowedConcat(Builder& b, const Node& n) {
  if (!n.Is("cast") || !n.operand(0).node->Is("concat")) return {};
  const Node& concat = *n.operand(0).node;
  if (concat.uses().size() != 1 || concat.graph()->IsUsedOutside(n.operand(0))) return {};
  if (ByteWidth(n.type().dtype) >= ByteWidth(concat.type().dtype)) return {};
  std::vector<Value> parts;
  for (const Value& part : concat.operands()) parts.push_back(b.Cast(part, n.type().dtype));
  return b.Concat(parts, concat.view().Axis("axis"));
}

// A fold over axes of size 1 only: one element, which no identity is mixed into.
Value ReducesNothing(Builder&, const Node& n) {
  if (n.op_class() != OpClass::kReduce || n.op().reduce == ReduceKind::kNone) return {};
  return n.operand(0).type() == n.type() && n.num_operands() == 1 ? n.operand(0) : Value{};
}

bool SwapsLastTwo(const Node& n) {
  if (!n.Is("transpose")) return false;
  Dims p = n.view().Ints("permutation");
  if (p.size() < 2) return false;
  std::swap(p[p.size() - 1], p[p.size() - 2]);
  return std::is_sorted(p.begin(), p.end());
}

// matmul(transpose(a), b): contractions read either order, by their transpose_a and transpose_b.
Value TransposedOperand(Builder& b, const Node& n) {
  if (n.op_class() != OpClass::kContraction) return {};
  static constexpr const char* kFlags[] = {"transpose_a", "transpose_b"};
  std::vector<Value> operands(n.operands().begin(), n.operands().end());
  AttrMap attrs = n.attrs();
  bool changed = false;
  for (int i = 0; i < std::min(2, n.num_operands()); ++i) {
    const auto flag = attrs.find(kFlags[i]);
    if (flag == attrs.end() || !SwapsLastTwo(*operands[i].node)) continue;
    flag->second = !std::get<bool>(flag->second);
    operands[i] = operands[i].node->operand(0);
    changed = true;
  }
  return changed ? b.Create1(n.op().name, operands, attrs) : Value{};
}

}  // namespace

const std::vector<Rule>& ArrangementRules() {
  static const std::vector<Rule> kRules = {
      {"movement that does nothing -> x", MovesNothing},
      {"reshape(reshape(x)) -> reshape(x)", SameTwice},
      {"reshape(broadcast(scalar)) -> broadcast(scalar)", MovedSpread},
      {"transpose(transpose(x)) -> transpose(x)", TransposeTwice},
      {"transpose of size-1 axes -> reshape", TransposeOfOnes},
      {"slice(slice(x)) -> slice(x)", SliceTwice},
      {"cast(concat(x)) -> concat(cast(x)), narrower", NarrowedConcat},
      {"fold over size-1 axes -> x", ReducesNothing},
      {"matmul(transpose(a), b) -> matmul(a, b) {transpose_a}", TransposedOperand},
  };
  return kRules;
}

}  // namespace stator
