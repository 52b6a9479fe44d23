// An op is one record. Passes switch on the op's class and read the record; they never name ops.
#pragma once

#include "ir/attr.h"
#include "ir/type.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stator {

class Builder;
class Node;
struct Tensor;

// A use of one result of one node. Cheap to copy; a null Value stands for an absent optional
// operand or an absent gradient.
struct Value {
  Node* node = nullptr;
  int index = 0;

  explicit operator bool() const { return node != nullptr; }
  const Type& type() const;
  DType dtype() const { return type().dtype; }
  const Dims& shape() const { return type().shape; }
  bool operator==(const Value&) const = default;
};
// Orders by node id, so that containers of Values iterate the same way on every run.
bool operator<(const Value& a, const Value& b);

// For tables that are looked up and not walked through: addresses have no order that repeats.
struct ValueHash {
  size_t operator()(const Value& v) const {
    return std::hash<const Node*>()(v.node) * 31 + static_cast<size_t>(v.index);
  }
};

using Values = std::vector<Value>;
using Types = std::vector<Type>;

// What a pass may do with an op follows from its class alone.
enum class OpClass {
  kSource,       // input, state, constant: no operands
  kElementwise,  // result[i] = scalar(operands[i]); equal shapes
  kReduce,       // folds axes to size 1 by `reduce`
  kScan,         // running fold along an axis
  kMovement,     // result[i] = operand[f(i)]: broadcast, reshape, transpose, slice, concat, pad
  kGather,       // result[i] = data[index[..]]
  kScatter,      // segment sums and other indexed writes
  kSort,
  kContraction,
  kAttention,
  kConvolution,
  kRandom,  // counter-based bits
  kQuantize,
  kCollective,
  kLoop,
  kComposite,  // defined by `expand`
  kCustom,     // a user's own kernel
};
std::string_view Name(OpClass op_class);

// What the mixed-precision pass does with an op.
enum class Precision {
  kFollow,        // computes in whatever dtype its operands have
  kLow,           // wants low-precision operands (contractions, attention)
  kComputeInF32,  // low-precision operands and results, f32 inside, in expansion and gradient
  kF32,           // f32 operands and results (losses, optimizer)
};

enum class TypeSet { kAny, kAnyFloat, kAnyInteger, kAnyNumber, kBoolOnly, kIndex /* i32, i64 */ };
bool Contains(TypeSet set, DType dtype);
std::string_view Name(TypeSet set);

// The values an operand makes sense with. Generated tests draw inputs from it; a compiled program
// checks kIndex operands before it uses them.
enum class Domain {
  kAny,
  kPositive,
  kNonZero,
  kIndex,    // 0 <= v < limit, or the value of `ignore_attr`
  kLength,   // 0 <= v <= limit
  kSegment,  // small non-negative numbers, rising along the last axis
};

struct OperandDef {
  std::string name;
  TypeSet types = TypeSet::kAny;
  bool optional = false;
  bool variadic = false;  // last operand only: one or more
  bool wide = false;      // f32 (or f64) also where mixed precision narrows the op's other operands
  Domain domain = Domain::kAny;
  // The limit of kIndex and kLength: an attribute's value, or the size of an earlier operand along
  // an axis that an attribute names or `limit_axis` gives. See IndexLimit.
  std::string limit_attr = {};
  int limit_operand = 0;
  std::string limit_axis_attr = {};
  int limit_axis = 0;
  std::string ignore_attr = {};
};

struct AttrDef {
  Symbol name;
  Attr value;             // the default; also fixes the attribute's kind
  bool required = false;  // the default is then only an example of the kind
};

// The fold of a reduce or scan op: identity, and the combining expression over `a` and `b` in the
// portable scalar language (codegen/prelude). The order of combination is ir/reduce_tree.h's.
enum class ReduceKind { kNone, kSum, kMax, kMin, kProd, kAny, kAll, kLogSumExp };

// One op at one place: its record, operands and attributes; results once the node exists.
class OpView {
 public:
  OpView(const struct OpDef& def, std::span<const Value> operands, const AttrMap& attrs,
         const Node* node = nullptr)
      : def_(&def), operands_(operands), attrs_(&attrs), node_(node) {}

  const OpDef& def() const { return *def_; }
  int num_operands() const { return static_cast<int>(operands_.size()); }
  Value in(int i) const { return i < num_operands() ? operands_[i] : Value{}; }
  std::span<const Value> operands() const { return operands_; }
  bool has(int i) const { return static_cast<bool>(in(i)); }
  const Type& type(int i) const { return in(i).type(); }
  Value out(int i) const;             // needs a node
  const Type& out_type(int i) const;  // needs a node
  const Node* node() const { return node_; }

  const Attr& attr(std::string_view name) const;
  const AttrMap& attrs() const { return *attrs_; }
  int64_t Int(std::string_view name) const { return std::get<int64_t>(attr(name)); }
  double Float(std::string_view name) const { return std::get<double>(attr(name)); }
  bool Bool(std::string_view name) const { return std::get<bool>(attr(name)); }
  const std::string& Str(std::string_view name) const { return std::get<Symbol>(attr(name)); }
  const Dims& Ints(std::string_view name) const { return std::get<Dims>(attr(name)); }
  DType Dtype(std::string_view name) const { return std::get<DType>(attr(name)); }
  // `name` as an axis of operand `operand`, counted from the front.
  int Axis(std::string_view name, int operand = 0) const;
  // The op's name and scope for messages: `matmul (h.3/mlp)`.
  std::string Where() const;

 private:
  const OpDef* def_;
  std::span<const Value> operands_;
  const AttrMap* attrs_;
  const Node* node_;
};

// The limit of operand `i`, whose domain is kIndex or kLength.
int64_t IndexLimit(const OpView& op, int i);
// The out-of-range value that operand `i` may hold besides, if any.
std::optional<int64_t> IgnoredIndex(const OpView& op, int i);

struct OpDef {
  std::string name;
  OpClass op_class = OpClass::kElementwise;
  std::vector<OperandDef> operands = {};
  std::vector<AttrDef> attrs = {};
  Precision precision = Precision::kFollow;
  // Results may differ in the last bits between implementations (matmul, attention).
  bool tolerance = false;

  // Result types; throws `Error` naming the op and the shapes. Required, except that elementwise
  // ops default to the first operand's type.
  std::function<Types(const OpView&)> infer = {};

  // Composite ops: the definition in simpler ops.
  std::function<Values(Builder&, const OpView&)> expand = {};

  // Elementwise ops: one expression over the operand names in the portable scalar language that
  // both emitters accept; `$attr` stands for an attribute's value, `T` for the compute type.
  std::string scalar = {};

  ReduceKind reduce = ReduceKind::kNone;

  // The gradient: one Value per operand, null where there is none. `dy[i]` is null where result i
  // has no gradient; at least one is not null.
  std::function<Values(Builder&, const OpView&, const Values& dy)> grad = {};

  // The definition by plain loops, in f64 where it matters. Composite ops without one are
  // interpreted through `expand`. `out` tensors come sized and zeroed.
  std::function<void(const OpView&, std::span<const Tensor* const> in, std::span<Tensor> out)>
      reference = {};

  // Of a gradient op that comes by its forward op's results on the way: the name of that op. The
  // forward op's operands are the first ones here, and its results the first ones here.
  std::string also_computes = {};

  // Floating-point operations, counting a fused multiply-add as two. Default: one an element of
  // every operand.
  std::function<double(const OpView&)> flops = {};

  // "(f32[4,8], i32[4]) {axis=1}": cases that the generated tests run.
  std::vector<std::string> samples = {};

  int FindOperand(std::string_view name) const;
  const AttrDef* FindAttr(std::string_view name) const;
};

}  // namespace stator
