#include "ir/graph.h"

#include "ir/base/error.h"
#include "ir/facts.h"

#include <algorithm>

namespace stator {

void Node::SetAttr(std::string_view name, Attr value) {
  const auto it = attrs_.find(name);
  STATOR_CHECK(it != attrs_.end(), op_->name, " has no attribute ", name);
  it->second = std::move(value);
  inferred_ = false;
}

void Node::NoteFact(std::string_view key, const Attr* value) {
  if (key == fact::kView) view_ = value != nullptr;
  if (key == fact::kRegion) region_ = value ? static_cast<int>(std::get<int64_t>(*value)) : -1;
}

void Node::CopyFacts(const Node& from) {
  facts_ = from.facts_;
  view_ = from.view_;
  region_ = from.region_;
}

void Node::SetFact(std::string_view key, Attr value) {
  NoteFact(key, &value);
  if (const auto it = facts_.find(key); it != facts_.end()) {
    it->second = std::move(value);
  } else {
    facts_.emplace(key, std::move(value));
  }
}

void Node::ClearFact(std::string_view key) {
  NoteFact(key, nullptr);
  if (const auto it = facts_.find(key); it != facts_.end()) facts_.erase(it);
}

int64_t Node::IntFact(std::string_view key, int64_t otherwise) const {
  const auto it = facts_.find(key);
  return it == facts_.end() ? otherwise : std::get<int64_t>(it->second);
}

std::string Node::StrFact(std::string_view key) const {
  const auto it = facts_.find(key);
  return it == facts_.end() ? "" : std::get<Symbol>(it->second).str();
}

AttrMap CompleteAttrs(const OpDef& def, AttrMap attrs, const std::string& where) {
  for (auto& [name, value] : attrs) {
    const AttrDef* known = def.FindAttr(name);
    if (known == nullptr) {
      Fail(ErrorCode::kInvalidArgument, where, ": no attribute named ", name);
    }
    if (known->value.index() == value.index()) continue;
    // Text and callers may write an integer where a float is meant.
    if (std::holds_alternative<double>(known->value) && std::holds_alternative<int64_t>(value)) {
      value = static_cast<double>(std::get<int64_t>(value));
      continue;
    }
    Fail(ErrorCode::kInvalidArgument, where, ": attribute ", name,
         " has the wrong kind: ", FormatAttr(value), ", like ", FormatAttr(known->value),
         " expected");
  }
  for (const AttrDef& a : def.attrs) {
    if (attrs.contains(a.name)) continue;
    if (a.required) Fail(ErrorCode::kInvalidArgument, where, ": attribute ", a.name, " is missing");
    attrs.emplace(a.name, a.value);
  }
  return attrs;
}

namespace {

// Nothing larger is a tensor; keeps counts of elements and bytes, and sums of a few, in 64 bits.
constexpr int64_t kMostElements = int64_t{1} << 50;

void CheckSize(const Type& type, const std::string& where) {
  int64_t elements = 1;
  for (const int64_t d : type.shape) {
    if (d == 0) return;
    if (elements > kMostElements / d) {
      Fail(ErrorCode::kInvalidArgument, where, ": ", type.ToString(),
           " has more than 2^50 elements");
    }
    elements *= d;
  }
}

}  // namespace

Graph::Graph(std::string name, const OpRegistry& ops) : name_(std::move(name)), ops_(&ops) {}
Graph::~Graph() = default;

Node* Graph::NextNode(const OpDef& def) {
  constexpr size_t kPiece = 64;
  const size_t id = static_cast<size_t>(num_ids_);
  if (id == storage_.size() * kPiece) storage_.push_back(std::make_unique<Node[]>(kPiece));
  Node* const node = &storage_.back()[id % kPiece];
  node->id_ = num_ids_;
  node->op_ = &def;
  node->graph_ = this;
  return node;
}

Node* Graph::NewNode(const OpDef& def, std::vector<Value> operands, AttrMap attrs, Symbol scope) {
  const std::string where = scope.empty() ? def.name : StrCat(def.name, " (", scope, ")");
  // Operand count and dtypes, before inference looks at shapes.
  const size_t declared = def.operands.size();
  const bool variadic = declared > 0 && def.operands.back().variadic;
  while (operands.size() < declared && def.operands[operands.size()].optional) {
    operands.push_back({});
  }
  if (operands.size() < declared || (operands.size() > declared && !variadic)) {
    Fail(ErrorCode::kInvalidArgument, where, ": takes ", declared, " operands, got ",
         operands.size());
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    const OperandDef& o = def.operands[std::min(i, declared - 1)];
    if (!operands[i]) {
      if (!o.optional)
        Fail(ErrorCode::kInvalidArgument, where, ": operand ", o.name, " is missing");
      continue;
    }
    STATOR_CHECK(operands[i].node->graph_ == this && !operands[i].node->erased_, where,
                 ": operand ", o.name, " belongs to another graph or was erased");
    if (!Contains(o.types, operands[i].dtype())) {
      Fail(ErrorCode::kInvalidArgument, where, ": operand ", o.name, " must be ", Name(o.types),
           ", got ", operands[i].type().ToString());
    }
  }
  Node* const node = NextNode(def);
  node->attrs_ = CompleteAttrs(def, std::move(attrs), where);
  node->operands_.assign(operands.begin(), operands.end());
  node->scope_ = scope;
  Types types;
  if (def.infer) {
    types = def.infer(node->view());
  } else {
    for (int i = 1; i < node->num_operands(); ++i) {
      if (node->operands_[i].type() == node->operands_[0].type()) continue;
      Fail(ErrorCode::kInvalidArgument, where,
           ": operand types differ: ", node->operands_[0].type().ToString(), " vs ",
           node->operands_[i].type().ToString());
    }
    types = {node->operands_[0].type()};
  }
  for (const Type& type : types) CheckSize(type, where);
  node->types_.assign(types.begin(), types.end());
  KeepNode(node);
  return node;
}

void Graph::KeepNode(Node* node) {
  ++num_ids_;
  for (int i = 0; i < node->num_operands(); ++i) {
    if (node->operands_[i]) node->operands_[i].node->uses_.push_back({node, i});
  }
}

void Graph::Link(Node* node, Node* before) {
  Node* after = before ? before->prev_ : tail_;
  node->prev_ = after;
  node->next_ = before;
  (after ? after->next_ : head_) = node;
  (before ? before->prev_ : tail_) = node;
  ++count_;
}

void Graph::Unlink(Node* node) {
  (node->prev_ ? node->prev_->next_ : head_) = node->next_;
  (node->next_ ? node->next_->prev_ : tail_) = node->prev_;
  node->prev_ = node->next_ = nullptr;
  --count_;
}

Value Graph::AddParam(const char* op, const std::string& name, Type type, const AttrMap& attrs,
                      std::vector<Param>* list) {
  CheckSize(type, StrCat(op, " ", name));
  if (params_.contains(name)) {
    Fail(ErrorCode::kInvalidArgument, op, " ", name, " is already declared");
  }
  AttrMap all = attrs;
  all["dtype"] = type.dtype;
  all["shape"] = type.shape;
  Node* node = NewNode(ops_->Get(op), {}, std::move(all), "");
  node->param_ = static_cast<int>(list->size());
  list->push_back({name, node});
  params_.emplace(name, node);
  return node->result();
}

Value Graph::AddInput(const std::string& name, Type type, const AttrMap& attrs) {
  return AddParam("input", name, std::move(type), attrs, &inputs_);
}

Value Graph::AddState(const std::string& name, Type type, const AttrMap& attrs) {
  return AddParam("state", name, std::move(type), attrs, &states_);
}

Value Graph::FindInput(std::string_view name) const {
  const auto it = params_.find(name);
  return it != params_.end() && it->second->Is("input") ? it->second->result() : Value{};
}

Value Graph::FindState(std::string_view name) const {
  const auto it = params_.find(name);
  return it != params_.end() && it->second->Is("state") ? it->second->result() : Value{};
}

const std::string& Graph::ParamName(const Node* node) const {
  STATOR_CHECK(node->param_ >= 0, "node is not in the signature of ", name_);
  return (node->Is("input") ? inputs_ : states_)[node->param_].name;
}

void Graph::RemoveParam(std::string_view name, std::vector<Param>* list) {
  const auto it =
      std::find_if(list->begin(), list->end(), [&](const Param& p) { return p.name == name; });
  STATOR_CHECK(it != list->end() && it->node->uses_.empty(), "parameter ", name, " is in use");
  it->node->erased_ = true;
  it->node->param_ = -1;
  params_.erase(it->name);
  for (auto after = list->erase(it); after != list->end(); ++after) --after->node->param_;
}

void Graph::RemoveInput(std::string_view name) { RemoveParam(name, &inputs_); }

void Graph::RemoveState(std::string_view name) {
  if (const Value state = FindState(name); state && state.node->next_state_ >= 0) {
    const int at = state.node->next_state_;
    --next_states_[at].value.node->outside_uses_;
    next_states_.erase(next_states_.begin() + at);
    for (size_t i = at; i < next_states_.size(); ++i) {
      next_states_[i].state->next_state_ = static_cast<int>(i);
    }
  }
  RemoveParam(name, &states_);
}

void Graph::AddOutput(const std::string& name, Value value) {
  outputs_.push_back({name, value});
  ++value.node->outside_uses_;
}

void Graph::SetOutput(int i, Value value) {
  --outputs_[i].value.node->outside_uses_;
  outputs_[i].value = value;
  ++value.node->outside_uses_;
}

void Graph::RemoveOutputs(const std::function<bool(const Output&)>& which) {
  std::erase_if(outputs_, [&](const Output& o) {
    const bool removed = which(o);
    if (removed) --o.value.node->outside_uses_;
    return removed;
  });
}

void Graph::SetNextState(Value state, Value next) {
  if (state.type() != next.type()) {
    Fail(ErrorCode::kInvalidArgument, "next value of state ", ParamName(state.node), " is ",
         next.type().ToString(), ", the state is ", state.type().ToString());
  }
  ++next.node->outside_uses_;
  if (const int at = state.node->next_state_; at >= 0) {
    --next_states_[at].value.node->outside_uses_;
    next_states_[at].value = next;
    return;
  }
  state.node->next_state_ = static_cast<int>(next_states_.size());
  next_states_.push_back({state.node, next});
}

void Graph::ClearNextStates() {
  for (const NextState& n : next_states_) {
    --n.value.node->outside_uses_;
    n.state->next_state_ = -1;
  }
  next_states_.clear();
}

Value Graph::FindNextState(const Node* state) const {
  return state->next_state_ < 0 ? Value{} : next_states_[state->next_state_].value;
}

Node* Graph::AddNode(const std::string& op, std::vector<Value> operands, AttrMap attrs,
                     Symbol scope, Node* before) {
  Node* node = NewNode(ops_->Get(op), std::move(operands), std::move(attrs), scope);
  Link(node, before);
  return node;
}

Node* Graph::AddCopy(const Node& node, std::span<const Value> operands, Node* before) {
  Node* const copy = NextNode(node.op());
  copy->operands_.assign(operands.begin(), operands.end());
  copy->types_.assign(node.types_.begin(), node.types_.end());
  copy->attrs_ = node.attrs_;
  copy->CopyFacts(node);
  copy->scope_ = node.scope_;
  copy->inferred_ = node.inferred_;
  for (int i = 0; i < copy->num_operands(); ++i) {
    const Value v = copy->operands_[i];
    copy->inferred_ = copy->inferred_ && (!v || v.type() == node.operand(i).type());
  }
  KeepNode(copy);
  Link(copy, before);
  return copy;
}

void Graph::RemoveUse(Value v, Node* user, int operand) {
  if (!v) return;
  auto& uses = v.node->uses_;
  // From the back: graphs are mostly taken down from their end.
  Use* at = uses.end();
  while (at != uses.begin() && !(at[-1] == Use{user, operand})) --at;
  STATOR_CHECK(at != uses.begin(), "use list out of step at ", user->op().name);
  uses.erase(at - 1);
}

void Graph::SetOperand(Node* node, int i, Value value) {
  const Value old = node->operands_[i];
  if (old == value) return;
  node->inferred_ = node->inferred_ && old && value && old.type() == value.type();
  RemoveUse(old, node, i);
  node->operands_[i] = value;
  if (value) value.node->uses_.push_back({node, i});
}

void Graph::ReplaceAllUses(Value from, Value to) {
  STATOR_CHECK(from.type() == to.type(), "replacing ", from.type().ToString(), " by ",
               to.type().ToString(), " from ", from.node->op().name);
  const std::vector<Use> uses(from.node->uses_.begin(), from.node->uses_.end());
  from.node->uses_.clear();
  for (const Use& u : uses) {
    Value& operand = u.node->operands_[u.operand];
    const bool moves = operand == from;
    if (moves) operand = to;
    (moves ? to : from).node->uses_.push_back(u);
  }
  if (from.node->outside_uses_ == 0) return;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].value == from) SetOutput(static_cast<int>(i), to);
  }
  for (const NextState& n : next_states_) {
    if (n.value == from) SetNextState(n.state->result(), to);
  }
}

void Graph::Erase(Node* node) {
  STATOR_CHECK(node->uses_.empty() && node->outside_uses_ == 0, "erasing ", node->op().name, " (",
               node->scope(), ") which still has uses");
  for (int i = 0; i < node->num_operands(); ++i) RemoveUse(node->operands_[i], node, i);
  node->operands_.clear();
  Unlink(node);
  node->erased_ = true;
}

void Graph::MoveBefore(Node* node, Node* before) {
  if (node == before) return;
  Unlink(node);
  Link(node, before);
}

int Graph::EraseDead() {
  std::vector<char> live(num_ids_, 0);
  for (const Output& o : outputs_) live[o.value.node->id_] = 1;
  for (const NextState& n : next_states_) live[n.value.node->id_] = 1;
  int erased = 0;
  for (Node* node = tail_; node != nullptr;) {
    Node* previous = node->prev_;
    if (live[node->id_]) {
      for (const Value& v : node->operands_) {
        if (v) live[v.node->id_] = 1;
      }
    } else {
      Erase(node);
      ++erased;
    }
    node = previous;
  }
  return erased;
}

std::vector<Node*> Graph::Nodes() const {
  std::vector<Node*> nodes;
  nodes.reserve(count_);
  for (Node* n = head_; n != nullptr; n = n->next_) nodes.push_back(n);
  return nodes;
}

bool Graph::IsUsedOutside(Value v) const {
  if (v.node->outside_uses_ == 0 || v.node->num_results() == 1) return v.node->outside_uses_ > 0;
  for (const Output& o : outputs_) {
    if (o.value == v) return true;
  }
  for (const NextState& n : next_states_) {
    if (n.value == v) return true;
  }
  return false;
}

std::unique_ptr<Graph> Graph::Clone() const {
  auto copy = std::make_unique<Graph>(name_, *ops_);
  Values params;
  for (const Param& p : inputs_) {
    params.push_back(copy->AddInput(p.name, p.node->type(), p.node->attrs()));
    params.back().node->CopyFacts(*p.node);
  }
  for (const Param& p : states_) {
    params.push_back(copy->AddState(p.name, p.node->type(), p.node->attrs()));
    params.back().node->CopyFacts(*p.node);
  }
  std::vector<Node*> map(num_ids_, nullptr);
  size_t k = 0;
  for (const auto* list : {&inputs_, &states_}) {
    for (const Param& p : *list) map[p.node->id_] = params[k++].node;
  }
  const auto mapped = [&](Value v) { return v ? Value{map[v.node->id_], v.index} : Value{}; };
  Values operands;
  for (Node* n = head_; n != nullptr; n = n->next_) {
    operands.clear();
    for (const Value& v : n->operands_) operands.push_back(mapped(v));
    map[n->id_] = copy->AddCopy(*n, operands);
  }
  for (const Output& o : outputs_) copy->AddOutput(o.name, mapped(o.value));
  for (const NextState& n : next_states_) {
    copy->SetNextState(map[n.state->id_]->result(), mapped(n.value));
  }
  return copy;
}

Values InlineGraph(const Graph& from, const Values& params, Graph& to, Node* before) {
  std::vector<Values> results(from.max_id());
  size_t k = 0;
  for (const auto* list : {&from.inputs(), &from.states()}) {
    for (const Param& p : *list) {
      STATOR_CHECK(k < params.size(), "too few parameters to inline ", from.name());
      results[p.node->id()] = {params[k++]};
    }
  }
  const auto mapped = [&](Value v) { return v ? results[v.node->id()][v.index] : Value{}; };
  for (const Node* n = from.first(); n != nullptr; n = n->next()) {
    std::vector<Value> operands;
    for (const Value& v : n->operands()) operands.push_back(mapped(v));
    Node* c = to.AddNode(n->op().name, std::move(operands), n->attrs(), n->scope(), before);
    for (const auto& [key, value] : n->facts()) c->SetFact(key, value);
    for (int i = 0; i < c->num_results(); ++i) results[n->id()].push_back(c->result(i));
  }
  Values out;
  for (const Output& o : from.outputs()) out.push_back(mapped(o.value));
  return out;
}

}  // namespace stator
