#include "ir/views.h"

#include "ir/base/error.h"
#include "ir/facts.h"

namespace stator {

bool IsViewNode(const Node& node) { return node.is_view(); }

bool IsComputedByRegion(const Node& node) { return node.StrFact(fact::kImpl) == "region"; }

Node* JoinedCall(const Node& node) {
  const Node* at = &node;
  while (true) {
    const int64_t from = IsViewNode(*at) ? 0 : at->IntFact(fact::kJoins, -1);
    if (from < 0) return at == &node ? nullptr : const_cast<Node*>(at);
    at = at->operand(static_cast<int>(from)).node;
  }
}

namespace {

// Library calls write all their results, wanted or not.
bool WritesEveryResult(OpClass op_class) {
  switch (op_class) {
    case OpClass::kContraction:
    case OpClass::kAttention:
    case OpClass::kSort:
    case OpClass::kScatter:
    case OpClass::kCustom:
      return true;
    default:
      return false;
  }
}

// The node that `v`, a library call's result, is computed further by inside the call; null if none.
const Node* JoinedUser(Value v) {
  if (!WritesEveryResult(v.node->op_class())) return nullptr;
  for (const Use& u : v.node->uses()) {
    // A sum may also read `v` as what is added to another product.
    if (u.node->operand(u.operand) == v && JoinedCall(*u.node) == v.node && !IsViewNode(*u.node))
      return u.node;
  }
  return nullptr;
}

// The part of `concat` that its operand `v` is.
View WindowIn(const Node& concat, Value v) {
  const int axis = concat.view().Axis("axis");
  View window{const_cast<Node&>(concat).result(), 0, DenseStrides(concat.type().shape)};
  for (const Value& part : concat.operands()) {
    if (part == v) break;
    window.at += part.shape()[axis] * window.strides[axis];
  }
  return window;
}

}  // namespace

View ResolveView(Value v) {
  if (!IsViewNode(*v.node)) {
    const Node* user = JoinedUser(v);
    if (user != nullptr && user->Is("concat")) return WindowIn(*user, v);
    return {v, 0, DenseStrides(v.shape())};
  }
  View view;
  view.at = v.node->IntFact(fact::kViewOffset, 0);
  view.strides = std::get<Dims>(v.node->facts().find(fact::kStrides)->second);
  // `strides` and `at` are relative to the storage, so only the base is looked up.
  Value base = v.node->operand(0);
  while (IsViewNode(*base.node)) base = base.node->operand(0);
  view.base = base;
  return view;
}

bool IsDense(const View& view, const Dims& shape) {
  if (view.at != 0) return false;
  const Dims dense = DenseStrides(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1 && view.strides[i] != dense[i]) return false;
  }
  return true;
}

int RegionOf(const Node& node) { return node.region(); }

std::vector<Use> UsesThroughViews(Value v) {
  std::vector<Use> all;
  AnyUseThroughViews(v, [&](const Use& use) {
    all.push_back(use);
    return false;
  });
  return all;
}

bool IsUsedOutsideThroughViews(Value v) {
  if (v.node->graph()->IsUsedOutside(v)) return true;
  for (const Use& u : v.node->uses()) {
    if (u.node->operand(u.operand) == v && IsViewNode(*u.node) &&
        IsUsedOutsideThroughViews(u.node->result())) {
      return true;
    }
  }
  return false;
}

bool IsMaterialized(Value v) {
  const int region = RegionOf(*v.node);
  if (region < 0) return false;
  if (WritesEveryResult(v.node->op_class()) && !IsComputedByRegion(*v.node))
    return JoinedUser(v) == nullptr;
  if (IsUsedOutsideThroughViews(v)) return true;
  return AnyUseThroughViews(v, [&](const Use& use) { return RegionOf(*use.node) != region; });
}

}  // namespace stator
