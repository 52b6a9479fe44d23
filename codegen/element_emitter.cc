#include "codegen/element_emitter.h"

#include <algorithm>

#include "codegen/scalar.h"
#include "ir/base/error.h"
#include "ir/views.h"

namespace stator {

std::string KernelArgs::Add(Value v, bool write) {
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i] == v && writes_[i] == write) return StrCat("a", i);
  }
  values_.push_back(v);
  writes_.push_back(write);
  return StrCat("a", values_.size() - 1);
}

std::string KernelArgs::Read(Value base) { return Add(base, false); }
std::string KernelArgs::Write(Value result) { return Add(result, true); }

std::string KernelArgs::Declaration() const {
  std::string out;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (i > 0) out += ", ";
    out += StrCat(writes_[i] ? "" : "const ", StorageCType(values_[i].dtype()), "* a", i);
  }
  return out;
}

std::string KernelArgs::Unpacking() const {
  std::string out;
  for (size_t i = 0; i < values_.size(); ++i) {
    const std::string type =
        StrCat(writes_[i] ? "" : "const ", StorageCType(values_[i].dtype()), "*");
    out += StrCat("  ", type, " const a", i, " = (", type, ")args[", i, "];\n");
  }
  return out;
}

ElementEmitter::ElementEmitter(KernelArgs& args)
    : args_(args), vars_([this](const IndexExpr&, const std::string& text, int depth) {
        const std::string name = NewName("q");
        AddLine(depth, StrCat("const idx_t ", name, " = ", text, ";"));
        return name;
      }) {}

void ElementEmitter::AddLine(int depth, const std::string& line) {
  streams_[depth] += line;
  streams_[depth] += '\n';
}

std::string ElementEmitter::TakeInvariant() { return std::exchange(streams_[0], {}); }
std::string ElementEmitter::TakeChunk() { return std::exchange(streams_[1], {}); }
std::string ElementEmitter::TakeLane() { return std::exchange(streams_[2], {}); }
std::string ElementEmitter::TakeAfterLane() { return std::exchange(after_lane_, {}); }
std::string ElementEmitter::TakeKeptDeclarations() { return std::exchange(kept_, {}); }

void ElementEmitter::BeginSweep() {
  std::erase_if(memo_, [](const auto& entry) {
    return entry.second.depth != kInvariant && !entry.second.kept;
  });
  vars_.ForgetNamed(kChunkDepth);
}

namespace {
std::string KeyOf(Value v, const std::string& at, const std::string& guard) {
  return StrCat(v.node->id(), '.', v.index, '@', at, '?', guard);
}
}  // namespace

std::string ElementEmitter::GuardText() const {
  std::string text;
  for (const Guard& g : guards_) text += StrCat(text.empty() ? "" : " && ", g.text);
  return text;
}

int ElementEmitter::GuardDepth() const {
  int depth = kInvariant;
  for (const Guard& g : guards_) depth = std::max(depth, g.depth);
  return depth;
}

void ElementEmitter::Define(Value v, const IndexExpr& at, const std::string& text) {
  memo_[KeyOf(v, vars_.Text(at), {})] = {text, kInvariant, true};
}

bool ElementEmitter::IsOutside(const Node& node) const {
  if (options_.inside.contains(&node)) return false;
  return node.Is("input") || node.Is("state") || RegionOf(node) >= 0;
}

std::string ElementEmitter::Emit(Value v, const IndexExpr& at) {
  AffineMap map;
  // A movement node is a change of position, whether or not it owns storage: unless somebody else
  // has computed it already.
  if (!IsOutside(*v.node) && MovementMap(*v.node, &map)) {
    const IndexExpr inner =
        map.flat ? at : Strided(vars_, at, v.shape(), map.strides, map.at);
    return Emit(v.node->operand(0), inner);
  }
  const std::string key = KeyOf(v, vars_.Text(at), GuardText());
  if (const auto it = memo_.find(key); it != memo_.end()) {
    last_depth_ = it->second.depth;
    return it->second.text;
  }
  if (!guards_.empty()) {  // computed without a condition already
    const auto it = memo_.find(KeyOf(v, vars_.Text(at), {}));
    if (it != memo_.end()) {
      last_depth_ = it->second.depth;
      return it->second.text;
    }
  }
  int depth = kInvariant;
  const std::string text = EmitNode(v, at, &depth);
  const bool kept = text.size() > 1 && text[0] == 's' && std::isdigit(static_cast<unsigned char>(text[1]));
  memo_[key] = {text, depth, kept};
  last_depth_ = depth;
  return text;
}

std::string ElementEmitter::EmitNode(Value v, const IndexExpr& at, int* depth) {
  const Node& node = *v.node;
  if (IsOutside(node)) return EmitLoad(v, at, depth);
  if (node.Is("constant")) return Literal(node.view().Float("value"), v.dtype());
  if (node.Is("iota")) {
    const int axis = node.view().Ints("shape").empty() ? 0 : NormalizeAxis(node.view().Int("axis"), v.type().rank(), "iota");
    const IndexExpr i = Delinearize(vars_, at, v.shape())[axis];
    *depth = vars_.Depth(i);
    const std::string name = NewName("x");
    AddLine(*depth, StrCat("const ", ComputeCType(v.dtype()), " ", name, " = ",
                           ConvertText(StrCat("(long long)(", vars_.Text(i), ")"), DType::kI64, v.dtype()), ";"));
    return name;
  }
  if (node.Is("concat")) return EmitConcat(node, at, depth);
  if (node.Is("pad")) return EmitPad(node, at, depth);
  if (node.Is("gather")) return EmitGather(node, at, depth);
  if (node.Is("take_along")) return EmitTakeAlong(node, at, depth);
  if (node.Is("random_bits")) return EmitRandom(node, at, depth);
  STATOR_CHECK(node.op_class() == OpClass::kElementwise, "no way to emit ", node.op().name, " (",
               node.scope(), ") at ", vars_.Text(at));
  std::vector<std::string> operands;
  // As deep as the deepest operand: broadcast values vary less than the position does.
  for (const Value& o : node.operands()) {
    operands.push_back(Emit(o, at));
    *depth = std::max(*depth, last_depth_);
  }
  const std::string type = ComputeCType(v.dtype());
  const bool keep = options_.keep && *depth == kLaneDepth && IsExpensive(node) && guards_.empty();
  const std::string name = NewName(keep ? "s" : "x");
  if (keep) {
    kept_ += StrCat(type, " ", name, options_.kept_extent, ";\n");
    AddLine(*depth, StrCat(name, options_.lane_index, " = ", ScalarText(node, operands), ";"));
    return StrCat(name, options_.lane_index);
  }
  AddLine(*depth, StrCat("const ", type, " ", name, " = ", ScalarText(node, operands), ";"));
  return name;
}

bool ElementEmitter::IsVector(const IndexExpr& at) const {
  if (options_.vector <= 1 || options_.lane_var < 0) return false;
  if (at.constant % options_.vector != 0) return false;
  for (const auto& [var, c] : at.terms) {
    if (var == options_.lane_var ? c != 1 : c % options_.vector != 0) return false;
    if (var != options_.lane_var && vars_.var(var).depth == kLaneDepth) return false;
  }
  return at.Coefficient(options_.lane_var) == 1;
}

std::string ElementEmitter::EmitLoad(Value base, const IndexExpr& at, int* depth) {
  const std::string pointer = args_.Read(base);
  const std::string type = ComputeCType(base.dtype());
  *depth = std::max(vars_.Depth(at), GuardDepth());
  const std::string guard = GuardText();
  const auto converted = [&](const std::string& element) {
    return base.dtype() == DType::kBool ? StrCat("(", element, " != 0)") : StrCat("st_get(", element, ")");
  };
  const bool cuda = options_.language == Language::kCuda;
  if (cuda && *depth == kLaneDepth && GuardDepth() < kLaneDepth && IsVector(at)) {
    IndexExpr start;  // without the lane
    start.constant = at.constant;
    for (const auto& term : at.terms) {
      if (term.first != options_.lane_var) start.terms.push_back(term);
    }
    const bool keep = options_.keep && guards_.empty();
    const std::string name = NewName(keep ? "s" : "l");
    const int v = options_.vector;
    std::string target = name;
    if (keep) {
      kept_ += StrCat(type, " ", name, options_.kept_extent, ";\n");
      target = StrCat(name, options_.chunk_index);
    } else {
      AddLine(kChunkDepth, StrCat(type, " ", name, "[", v, "];"));
    }
    const std::string load = StrCat("st_load<", v, ">(", pointer, " + ", vars_.Text(start), ", ", target, ");");
    if (guard.empty()) {
      AddLine(kChunkDepth, load);
    } else {
      AddLine(kChunkDepth, StrCat("if (", guard, ") { ", load, " } else { for (int z = 0; z < ", v,
                                  "; ++z) ", target, "[z] = 0; }"));
    }
    return keep ? StrCat(name, options_.lane_index) : StrCat(name, "[v]");
  }
  const bool keep = cuda && options_.keep && *depth == kLaneDepth && guards_.empty();
  const std::string name = NewName(keep ? "s" : "x");
  std::string value = converted(StrCat(pointer, "[", vars_.Text(at), "]"));
  if (!guard.empty()) value = StrCat("(", guard, ") ? ", value, " : (", type, ")0");
  if (keep) {
    kept_ += StrCat(type, " ", name, options_.kept_extent, ";\n");
    AddLine(*depth, StrCat(name, options_.lane_index, " = ", value, ";"));
    return StrCat(name, options_.lane_index);
  }
  AddLine(*depth, StrCat("const ", type, " ", name, " = ", value, ";"));
  return name;
}

std::string ElementEmitter::EmitConcat(const Node& node, const IndexExpr& at, int* depth) {
  const int axis = node.view().Axis("axis");
  const Dims& shape = node.type().shape;
  const int64_t inner = DenseStrides(shape)[axis], extent = shape[axis] * inner;
  const IndexExpr outer = vars_.Div(at, extent), within = vars_.Mod(at, extent);
  const std::string type = ComputeCType(node.type().dtype);
  std::string text;
  *depth = vars_.Depth(at);
  int64_t low = 0;
  for (int i = 0; i < node.num_operands(); ++i) {
    const int64_t size = node.operand(i).shape()[axis] * inner;
    if (size == 0) continue;
    std::string inside;
    const IndexExpr part = vars_.Window(within, low, size, &inside);
    if (!inside.empty()) guards_.push_back({StrCat("(", inside, ")"), vars_.Depth(within)});
    const std::string value = Emit(node.operand(i), outer * size + part);
    *depth = std::max(*depth, last_depth_);
    if (!inside.empty()) guards_.pop_back();
    if (inside.empty()) return value;  // the position is known to be in this part
    text += StrCat("(", inside, ") ? ", value, " : ");
    low += size;
  }
  const std::string name = NewName("x");
  AddLine(*depth, StrCat("const ", type, " ", name, " = ", text, "(", type, ")0;"));
  return name;
}

std::string ElementEmitter::EmitPad(const Node& node, const IndexExpr& at, int* depth) {
  const Dims &low = node.view().Ints("low"), &interior = node.view().Ints("interior");
  const Dims& from = node.operand(0).shape();
  *depth = vars_.Depth(at);
  // Axes that are not padded travel together.
  const Dims& shape = node.type().shape;
  std::vector<IndexExpr> index = Delinearize(vars_, at, shape);
  const Dims dense = DenseStrides(from);
  IndexExpr flat;
  std::vector<Guard> tests;
  for (size_t k = 0; k < shape.size(); ++k) {
    const int64_t step = interior.empty() ? 1 : interior[k] + 1;
    if (shape[k] == from[k] && step == 1) {
      flat = flat + index[k] * dense[k];
      continue;
    }
    std::string inside;
    IndexExpr i = vars_.Window(index[k], low[k], (from[k] - 1) * step + 1, &inside);
    if (!inside.empty()) tests.push_back({StrCat("(", inside, ")"), vars_.Depth(index[k])});
    if (step != 1) {
      const IndexExpr rest = vars_.Mod(i, step);
      if (!(rest == IndexExpr{})) tests.push_back({StrCat("(", vars_.Text(rest), ") == 0"), vars_.Depth(rest)});
      i = vars_.Div(i, step);
    }
    flat = flat + i * dense[k];
  }
  std::vector<Guard> outer = guards_;
  guards_.insert(guards_.end(), tests.begin(), tests.end());
  const std::string value = Emit(node.operand(0), flat);
  *depth = std::max(*depth, last_depth_);
  guards_ = tests;
  const std::string inside_all = GuardText();
  guards_ = std::move(outer);
  if (tests.empty()) return value;
  const std::string name = NewName("x"), type = ComputeCType(node.type().dtype);
  AddLine(*depth, StrCat("const ", type, " ", name, " = ", inside_all, " ? ", value, " : ",
                         Literal(node.view().Float("value"), node.type().dtype), ";"));
  return name;
}

IndexExpr ElementEmitter::DataIndex(const Node& node, Value indices, const IndexExpr& at,
                                    int64_t limit) {
  const std::string id = Emit(indices, at);
  const int depth = std::max(last_depth_, GuardDepth());
  const std::string name = NewName("g");
  (void)node;
  std::string checked = StrCat("st_index(", id, ", ", limit, "ll)");
  if (!guards_.empty()) checked = StrCat("(", GuardText(), ") ? ", checked, " : 0");
  AddLine(depth, StrCat("const idx_t ", name, " = (idx_t)(", checked, ");"));
  return vars_.Opaque(name, limit, depth);
}

std::string ElementEmitter::EmitGather(const Node& node, const IndexExpr& at, int* depth) {
  const int axis = node.view().Axis("axis");
  const Value data = node.operand(0), indices = node.operand(1);
  const int64_t inner = DenseStrides(data.shape())[axis], limit = data.shape()[axis];
  const int64_t picks = indices.type().NumElements();
  const IndexExpr pick_and_outer = vars_.Div(at, inner);
  const IndexExpr pick = vars_.Mod(pick_and_outer, picks), outer = vars_.Div(pick_and_outer, picks);
  const IndexExpr row = DataIndex(node, indices, pick, limit);
  const std::string text = Emit(data, outer * (limit * inner) + row * inner + vars_.Mod(at, inner));
  *depth = std::max(vars_.Depth(at), last_depth_);
  return text;
}

std::string ElementEmitter::EmitTakeAlong(const Node& node, const IndexExpr& at, int* depth) {
  const int axis = node.view().Axis("axis");
  const Value data = node.operand(0), indices = node.operand(1);
  const int64_t inner = DenseStrides(data.shape())[axis], limit = data.shape()[axis];
  const int64_t picks = indices.shape()[axis];
  const IndexExpr row = DataIndex(node, indices, at, limit);
  const IndexExpr outer = vars_.Div(at, inner * picks);
  const std::string text = Emit(data, outer * (limit * inner) + row * inner + vars_.Mod(at, inner));
  *depth = std::max(vars_.Depth(at), last_depth_);
  return text;
}

std::string ElementEmitter::EmitRandom(const Node& node, const IndexExpr& at, int* depth) {
  IndexExpr zero, one;
  one.constant = 1;
  const std::string k0 = Emit(node.operand(0), zero), k1 = Emit(node.operand(0), one);
  const std::string step = Emit(node.operand(1), zero);
  *depth = std::max(vars_.Depth(at), GuardDepth());  // the key is loaded under the guards
  const std::string name = NewName("x");
  AddLine(*depth, StrCat("const unsigned ", name, " = st_random(", k0, ", ", k1,
                         ", (unsigned long long)(", vars_.Text(at), "), ",
                         static_cast<uint32_t>(node.view().Int("stream")), "u, (unsigned)", step, ");"));
  return name;
}

void ElementEmitter::Store(Value v, const IndexExpr& at, const std::string& text) {
  const std::string pointer = args_.Write(v);
  const int depth = vars_.Depth(at);
  if (options_.language == Language::kCuda && depth == kLaneDepth && IsVector(at)) {
    const std::string name = NewName("o"), type = ComputeCType(v.dtype());
    IndexExpr start;
    start.constant = at.constant;
    for (const auto& term : at.terms) {
      if (term.first != options_.lane_var) start.terms.push_back(term);
    }
    AddLine(kChunkDepth, StrCat(type, " ", name, "[", options_.vector, "];"));
    AddLine(kLaneDepth, StrCat(name, "[v] = ", text, ";"));
    after_lane_ += StrCat("st_store<", options_.vector, ">(", pointer, " + ", vars_.Text(start), ", ",
                          name, ");\n");
    return;
  }
  AddLine(depth, StrCat("st_put(", pointer, " + (", vars_.Text(at), "), ", text, ");"));
}

}  // namespace stator
