// Graph: nodes at stable addresses in a topological order, explicit state, named outputs.
#pragma once

#include "ir/attr.h"
#include "ir/base/small_vector.h"
#include "ir/op_def.h"
#include "ir/op_registry.h"

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace stator {

class Graph;

struct Use {
  Node* node;
  int operand;
  bool operator==(const Use&) const = default;
};

// One op applied to operands. Created and rewired by Graph only.
class Node {
 public:
  int id() const { return id_; }
  const OpDef& op() const { return *op_; }
  OpClass op_class() const { return op_->op_class; }
  bool Is(std::string_view op_name) const { return op_->name == op_name; }

  std::span<const Value> operands() const { return {operands_.begin(), operands_.size()}; }
  Value operand(int i) const { return operands_[i]; }
  int num_operands() const { return static_cast<int>(operands_.size()); }
  int num_results() const { return static_cast<int>(types_.size()); }
  Value result(int i = 0) { return {this, i}; }
  const Type& type(int i = 0) const { return types_[i]; }
  // Uses of all results by other nodes (graph outputs and next states are not among them).
  std::span<const Use> uses() const { return {uses_.begin(), uses_.size()}; }

  const AttrMap& attrs() const { return attrs_; }
  // Changes an attribute that does not alter result types.
  void SetAttr(std::string_view name, Attr value);
  OpView view() const { return OpView(*op_, operands(), attrs_, this); }
  // Whether result types were inferred from the operands' types and attributes as they are now.
  bool inferred() const { return inferred_; }

  // Where in the model the node comes from: `h.3/mlp/up`.
  const std::string& scope() const { return scope_; }
  void SetScope(Symbol scope) { scope_ = scope; }

  // Decisions of passes; keys in ir/facts.h.
  const AttrMap& facts() const { return facts_; }
  void SetFact(std::string_view key, Attr value);
  void ClearFact(std::string_view key);
  int64_t IntFact(std::string_view key, int64_t otherwise) const;
  std::string StrFact(std::string_view key) const;  // "" when absent
  bool HasFact(std::string_view key) const { return facts_.find(key) != facts_.end(); }
  // The two facts that are asked for at every turn, `view` and `region`, without a search.
  bool is_view() const { return view_; }
  int region() const { return region_; }  // -1: none

  Node* next() const { return next_; }
  Node* prev() const { return prev_; }
  Graph* graph() const { return graph_; }

 private:
  friend class Graph;
  void CopyFacts(const Node& from);
  void NoteFact(std::string_view key, const Attr* value);

  int id_ = 0;
  const OpDef* op_ = nullptr;
  Graph* graph_ = nullptr;
  SmallVector<Value, 2> operands_;
  SmallVector<Type, 1> types_;
  SmallVector<Use, 2> uses_;
  AttrMap attrs_, facts_;
  Symbol scope_;
  Node* prev_ = nullptr;
  Node* next_ = nullptr;
  bool erased_ = false, inferred_ = true, view_ = false;
  int region_ = -1;
  int outside_uses_ = 0;  // outputs and next states that take a result
  int next_state_ = -1;   // of a state: where its next value is listed
  int param_ = -1;        // of an input or state: where it is in the signature
};

// An entry of the graph's signature: an `input` or `state` node and its name.
struct Param {
  std::string name;
  Node* node;
};

struct Output {
  std::string name;  // may be empty
  Value value;
};

// The value that becomes `state`'s next contents when the program has run.
struct NextState {
  Node* state;
  Value value;
};

class Graph {
 public:
  explicit Graph(std::string name, const OpRegistry& ops = DefaultOps());
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  const OpRegistry& ops() const { return *ops_; }

  // A data input, fed anew for every run. Throws `Error` for a name already taken.
  Value AddInput(const std::string& name, Type type, const AttrMap& attrs = {});
  // A state entry; attributes as in op `state` (role, trainable, group, derived, init).
  Value AddState(const std::string& name, Type type, const AttrMap& attrs = {});
  const std::vector<Param>& inputs() const { return inputs_; }
  const std::vector<Param>& states() const { return states_; }
  Value FindInput(std::string_view name) const;  // null when absent
  Value FindState(std::string_view name) const;
  // The signature name of an `input` or `state` node.
  const std::string& ParamName(const Node* node) const;
  void RemoveInput(std::string_view name);  // must be unused
  void RemoveState(std::string_view name);  // must be unused

  void AddOutput(const std::string& name, Value value);
  void SetOutput(int i, Value value);  // may change its type
  void RemoveOutputs(const std::function<bool(const Output&)>& which);
  const std::vector<Output>& outputs() const { return outputs_; }
  // Throws `Error` where the types differ.
  void SetNextState(Value state, Value next);
  void ClearNextStates();
  const std::vector<NextState>& next_states() const { return next_states_; }
  Value FindNextState(const Node* state) const;  // null when the state is only read

  // Inserts before `before` (null: at the end). Attributes left out take their defaults. Throws
  // `Error` for operands or attributes the op does not accept.
  Node* AddNode(const std::string& op, std::vector<Value> operands, AttrMap attrs, Symbol scope,
                Node* before = nullptr);
  // A copy of `node`, of this graph or another, facts included. Operands are of the types that
  // `node`'s are of, so that nothing is inferred again.
  Node* AddCopy(const Node& node, std::span<const Value> operands, Node* before = nullptr);

  void SetOperand(Node* node, int i, Value value);
  // Everywhere: operands, outputs, next states.
  void ReplaceAllUses(Value from, Value to);
  // `node` must have no uses left, and be neither input nor state.
  void Erase(Node* node);
  void MoveBefore(Node* node, Node* before);  // null: to the end
  // Erases nodes that no output or next state depends on. Returns how many.
  int EraseDead();

  // All nodes but inputs and states, in order, as a snapshot that edits do not disturb.
  std::vector<Node*> Nodes() const;
  Node* first() const { return head_; }
  int num_nodes() const { return count_; }
  int max_id() const { return num_ids_; }
  bool IsUsedOutside(Value v) const;  // by an output or as a next state

  std::unique_ptr<Graph> Clone() const;

 private:
  // The node that is made next; it counts, and uses its operands, once it is kept.
  Node* NextNode(const OpDef& def);
  void KeepNode(Node* node);
  Node* NewNode(const OpDef& def, std::vector<Value> operands, AttrMap attrs, Symbol scope);
  void Link(Node* node, Node* before);
  void Unlink(Node* node);
  void RemoveUse(Value v, Node* user, int operand);
  Value AddParam(const char* op, const std::string& name, Type type, const AttrMap& attrs,
                 std::vector<Param>* list);
  void RemoveParam(std::string_view name, std::vector<Param>* list);

  std::string name_;
  const OpRegistry* ops_;
  std::vector<std::unique_ptr<Node[]>> storage_;  // in pieces, which walks go through in order
  int num_ids_ = 0;
  Node* head_ = nullptr;
  Node* tail_ = nullptr;
  int count_ = 0;
  std::vector<Param> inputs_, states_;
  std::map<std::string, Node*, std::less<>> params_;  // both, by name
  std::vector<Output> outputs_;
  std::vector<NextState> next_states_;
};

// Copies the body of `from` into `to` before `before`, with `from`'s inputs and states replaced by
// `params` (inputs first, then states, in signature order). Returns the values of `from`'s outputs.
Values InlineGraph(const Graph& from, const Values& params, Graph& to, Node* before = nullptr);

// Fills in defaults and checks kinds; throws `Error` for unknown or missing attributes.
AttrMap CompleteAttrs(const OpDef& def, AttrMap attrs, const std::string& where);

}  // namespace stator
