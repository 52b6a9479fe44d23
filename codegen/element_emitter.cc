#include "codegen/element_emitter.h"

#include "codegen/scalar.h"
#include "ir/base/error.h"
#include "ir/views.h"

#include <algorithm>
#include <numeric>

namespace stator {
namespace {

// Elements: a constant of this size is of a part of a tensor, not of a pattern within a row.
constexpr int64_t kFar = 1024;

}  // namespace

ElementEmitter::ElementEmitter(KernelArgs& args)
    : args_(args), vars_([this](const IndexExpr& of, const std::string& text, int depth) {
        const std::string name = NewName("q");
        const bool early = IsEarly(of);
        if (!early) late_.insert(name);
        AddIndexLine(depth, early,
                     StrCat("const idx_t ", name, " = ", DivisionText(of, text), ";"));
        return name;
      }) {}

// On a GPU a division of 32 bits without a sign costs a fraction of any other.
std::string ElementEmitter::DivisionText(const IndexExpr& of, const std::string& text) const {
  const size_t close = text.rfind(") ");
  if (options_.language != Language::kCuda || close == std::string::npos) return text;
  const char op = text[close + 2];
  if ((op != '/' && op != '%') || vars_.Min(of) < 0 || vars_.Max(of) > 0xffffffff) return text;
  return StrCat("(idx_t)((unsigned)", text, "u)");
}

void ElementEmitter::AddLine(int depth, const std::string& line) {
  streams_[depth] += line;
  streams_[depth] += '\n';
}

void ElementEmitter::AddIndexLine(int depth, bool early, const std::string& line) {
  early = early && options_.early && depth < kLaneDepth;
  if (early) early_[depth] += line + '\n';
  if (!early || depth == kChunkDepth) AddLine(depth, line);
}

void ElementEmitter::AddLoadLine(int depth, bool early, const std::string& line) {
  if (early && options_.early && depth < kLaneDepth) {
    early_[depth] += line + '\n';
  } else {
    AddLine(depth, line);
  }
}

std::string ElementEmitter::Variable(int depth, const std::string& type, const std::string& text) {
  const std::string name = NewName("x");
  AddLine(depth, StrCat("const ", type, " ", name, " = ", text, ";"));
  last_early_ = false;
  return name;
}

bool ElementEmitter::IsEarly(const IndexExpr& at) const {
  if (!guards_.empty() && !late_.empty()) return false;
  for (const auto& term : at.terms) {
    if (late_.contains(vars_.var(term.first).name)) return false;
  }
  return true;
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
  for (const auto& [key, text] : packed_) memo_[key] = {text, kLaneDepth, true, false};
}

namespace {

// A value of a narrow dtype is one that this dtype has.
std::string RoundedLiteral(double value, DType dtype) {
  return Literal(IsFloat(dtype) ? RoundFloat(dtype, value) : value, dtype);
}

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

void ElementEmitter::Define(Value v, const IndexExpr& at, const std::string& text, int depth) {
  memo_[KeyOf(v, vars_.Text(at), {})] = {text, depth, true, false};
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
    const IndexExpr inner = map.flat ? at : Strided(vars_, at, v.shape(), map.strides, map.at);
    return Emit(v.node->operand(0), inner);
  }
  const std::string key = KeyOf(v, vars_.Text(at), GuardText());
  if (const auto it = memo_.find(key); it != memo_.end()) {
    last_depth_ = it->second.depth;
    last_early_ = it->second.early;
    return it->second.text;
  }
  if (!guards_.empty()) {  // computed without a condition already
    const auto it = memo_.find(KeyOf(v, vars_.Text(at), {}));
    if (it != memo_.end()) {
      last_depth_ = it->second.depth;
      last_early_ = it->second.early;
      return it->second.text;
    }
  }
  int depth = kInvariant;
  const std::string text = EmitNode(v, at, &depth);
  const bool kept =
      text.size() > 1 && text[0] == 's' && std::isdigit(static_cast<unsigned char>(text[1]));
  memo_[key] = {text, depth, kept, last_early_};
  last_depth_ = depth;
  return text;
}

std::string ElementEmitter::EmitNode(Value v, const IndexExpr& at, int* depth) {
  const Node& node = *v.node;
  if (IsOutside(node)) return EmitLoad(v, at, depth);
  if (node.Is("constant")) {
    last_early_ = true;
    return RoundedLiteral(node.view().Float("value"), v.dtype());
  }
  if (node.Is("iota")) {
    const int axis = node.view().Ints("shape").empty()
                         ? 0
                         : NormalizeAxis(node.view().Int("axis"), v.type().rank(), "iota");
    const IndexExpr i = Delinearize(vars_, at, v.shape())[axis];
    *depth = vars_.Depth(i);
    return Variable(
        *depth, ComputeCType(v.dtype()),
        ConvertText(StrCat("(long long)(", vars_.Text(i), ")"), DType::kI64, v.dtype()));
  }
  if (node.Is("concat")) return EmitConcat(node, at, depth);
  if (node.Is("pad")) return EmitPad(node, at, depth);
  if (node.Is("gather")) return EmitGather(node, at, depth);
  if (node.Is("take_along")) return EmitTakeAlong(node, at, depth);
  if (node.Is("random_bits")) return EmitRandom(node, at, depth);
  STATOR_CHECK(node.op_class() == OpClass::kElementwise, "no way to emit ", node.op().name, " (",
               node.scope(), ") at ", vars_.Text(at));
  if (node.Is("equal")) {
    if (const std::string text = EmitLaneTest(node, at, depth); !text.empty()) return text;
  }
  std::vector<std::string> operands;
  // As deep as the deepest operand: broadcast values vary less than the position does.
  for (const Value& o : node.operands()) {
    operands.push_back(Emit(o, at));
    *depth = std::max(*depth, last_depth_);
  }
  const std::string type = ComputeCType(v.dtype());
  const bool keep = options_.keep && *depth == kLaneDepth && IsExpensive(node) && guards_.empty();
  // To widen a rounded result costs less than to compute it again from its operands.
  const bool pack = options_.pack && *depth == kLaneDepth && IsFloat(v.dtype()) &&
                    ByteWidth(v.dtype()) == 2 && guards_.empty();
  if (!keep && pack) return Pack(v, at, ScalarText(node, operands));
  if (!keep) return Variable(*depth, type, ScalarText(node, operands));
  const std::string name = NewName("s");
  kept_ += StrCat(type, " ", name, options_.kept_extent, ";\n");
  AddLine(*depth, StrCat(name, options_.lane_index, " = ", ScalarText(node, operands), ";"));
  last_early_ = false;
  return StrCat(name, options_.lane_index);
}

std::string ElementEmitter::Pack(Value v, const IndexExpr& at, const std::string& text) {
  const std::string type = ComputeCType(v.dtype()), x = Variable(kLaneDepth, type, text);
  const std::string name = NewName("s"), lanes = NewName("o");
  kept_ += StrCat("st_vec<", StorageCType(v.dtype()), ", ", options_.vector, "> ", name,
                  options_.slots, ";\n");
  AddLine(kChunkDepth, StrCat(type, " ", lanes, "[", options_.vector, "];"));
  AddLine(kLaneDepth, StrCat(lanes, "[v] = ", x, ";"));
  after_lane_ += StrCat("st_put_lanes(", name, options_.slot, ", ", lanes, ");\n");
  packed_[KeyOf(v, vars_.Text(at), {})] = StrCat(name, options_.slot, "[v]");
  return x;
}

// Whether this lane's position is the one that the vector looks for: a comparison with a literal,
// once the loops are unrolled. "" where `node` compares something else.
std::string ElementEmitter::EmitLaneTest(const Node& node, const IndexExpr& at, int* depth) {
  if (options_.language != Language::kCuda || options_.lane_var < 0 || !guards_.empty()) return "";
  const Value positions = node.operand(0), wanted = node.operand(1);
  const Dims& shape = positions.shape();
  if (!positions.node->Is("iota") || shape.empty()) return "";
  const int axis =
      NormalizeAxis(positions.node->view().Int("axis"), positions.type().rank(), "iota");
  const IndexExpr position = Delinearize(vars_, at, shape)[axis];
  if (position.Coefficient(options_.lane_var) != 1) return "";
  const std::string text = Emit(wanted, at),
                    type = positions.dtype() == DType::kI64 ? "unsigned long long" : "unsigned";
  if (last_depth_ == kLaneDepth || vars_.Depth(WithoutLane(position)) == kLaneDepth) return "";
  const std::string start =
      StrCat("(", type, ")", text, " - (", type, ")(", vars_.Text(WithoutLane(position)), ")");
  const std::string lane = Variable(kChunkDepth, type, start);
  *depth = kLaneDepth;
  const std::string is = StrCat("(", type, ")", vars_.var(options_.lane_var).name, " == ", lane);
  const std::string test = Variable(kLaneDepth, "bool", is);
  lane_tests_.push_back({test, StrCat("const bool ", test, " = ", is, ";\n"),
                         StrCat(lane, " < ", options_.vector, "u")});
  return test;
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

IndexExpr ElementEmitter::WithoutLane(const IndexExpr& at) const {
  IndexExpr start;
  start.constant = at.constant;
  for (const auto& term : at.terms) {
    if (term.first != options_.lane_var) start.terms.push_back(term);
  }
  return start;
}

std::string ElementEmitter::EmitLoad(Value base, const IndexExpr& at, int* depth) {
  *depth = std::max(vars_.Depth(at), GuardDepth());
  const bool cuda = options_.language == Language::kCuda;
  const bool vector = cuda && *depth == kLaneDepth && GuardDepth() < kLaneDepth && IsVector(at);
  if (vector) return EmitVectorLoad(args_.Read(base), base.dtype(), at);
  // What a row reads far into a tensor is pointed to, so that kernels of different parts are one.
  IndexExpr near = at;
  near.constant = 0;
  const bool far = cuda && *depth == kInvariant && at.constant >= kFar && vars_.Min(near) >= 0;
  const int64_t first = far ? at.constant : 0;
  if (!far) near = at;
  const std::string type = ComputeCType(base.dtype());
  const std::string guard = GuardText(),
                    element = StrCat(args_.Read(base, first), "[", vars_.Text(near), "]");
  const bool early = options_.early && IsEarly(at) && *depth < kLaneDepth;
  const bool slots = early && *depth == kChunkDepth;  // loaded in one loop, used in another
  const bool keep = cuda && options_.keep && guards_.empty() && (slots || *depth == kLaneDepth);
  const std::string name = NewName(keep ? "s" : "x");
  std::string value = base.dtype() == DType::kBool ? StrCat("(", element, " != 0)")
                                                   : StrCat("st_get(", element, ")");
  if (!guard.empty()) value = StrCat("(", guard, ") ? ", value, " : (", type, ")0");
  last_early_ = true;
  if (slots || keep) {
    (slots ? early_declarations_ : kept_) +=
        StrCat(type, " ", name, slots ? options_.slots : options_.kept_extent, ";\n");
    const std::string target = StrCat(name, slots ? options_.slot : options_.lane_index);
    AddLoadLine(*depth, early, StrCat(target, " = ", value, ";"));
    return target;
  }
  AddLoadLine(*depth, early, StrCat("const ", type, " ", name, " = ", value, ";"));
  return name;
}

// The lanes' elements at once. They stay packed as they are stored, and are widened where they are
// used. `own`: whether `pointer` is a row's own.
std::string ElementEmitter::EmitVectorLoad(const std::string& pointer, DType dtype,
                                           const IndexExpr& at, bool own) {
  const IndexExpr start = WithoutLane(at);
  const int depth = guards_.empty() ? vars_.Depth(start) : kChunkDepth;
  // What no row shares: worth a place in registers between sweeps.
  for (const auto& term : start.terms)
    own = own || options_.keep_alike || term.first != options_.chunk_var;
  const bool kept = options_.keep || options_.place;
  const bool early = options_.early && IsEarly(start) && (own || !kept);
  const bool keep = kept && own && depth == kChunkDepth && (early || guards_.empty());
  const std::string type = StrCat("st_vec<", StorageCType(dtype), ", ", options_.vector, ">");
  const bool alike =
      options_.place && !own && depth == kChunkDepth && guards_.empty() && IsEarly(start);
  const bool place = alike || (options_.place && keep && early);
  const std::string name = NewName(keep || alike ? "s" : "l");
  const bool slots = keep || (early && depth == kChunkDepth);
  const std::string target = slots && !place ? StrCat(name, options_.slot) : name;
  const std::string declaration = StrCat(type, " ", name, slots ? options_.slots : "", ";");
  if (place) {
    placed_vectors_.push_back({name, StrCat(StorageCType(dtype), ", ", options_.vector),
                               options_.vector * ByteWidth(dtype), alike});
  } else if (slots) {
    (early ? early_declarations_ : kept_) += declaration + '\n';
  } else {
    AddLoadLine(depth, early, declaration);
  }
  if (keep && !place) kept_vectors_.push_back(name);
  if (early && depth == kChunkDepth) early_bytes_ += options_.vector * ByteWidth(dtype);
  std::string load = StrCat("st_load<", options_.vector, ">(", pointer, " + ", vars_.Text(start),
                            ", ", target, ");");
  if (early && own && slots && !keep && guards_.empty())
    load = SharedLoad(pointer, dtype, start, target, load);
  const std::string guard = GuardText();
  if (alike) {
    alike_loads_ += load + '\n';
  } else {
    AddLoadLine(
        depth, early,
        guard.empty() ? load : StrCat("if (", guard, ") ", load, " else ", target, ".clear();"));
  }
  last_early_ = true;
  return dtype == DType::kBool ? StrCat("(", target, "[v] != 0)") : StrCat(target, "[v]");
}

// The load, or what stands for it when an earlier sweep has left the first chunks in shared memory.
// Threads meet only what they have put there themselves.
std::string ElementEmitter::SharedLoad(const std::string& pointer, DType dtype,
                                       const IndexExpr& start, const std::string& target,
                                       const std::string& load) {
  const std::string key = StrCat(pointer, '@', vars_.Text(start));
  if (const auto it = shared_.find(key); it != shared_.end()) {
    const std::string kept = StrCat(target, " = ", it->second.name, "[e];");
    return it->second.chunks == options_.shared_chunks
               ? kept
               : StrCat("if (c < ", it->second.chunks, ") ", kept, " else ", load);
  }
  const int64_t bytes = options_.shared_threads * options_.vector * ByteWidth(dtype);
  const int64_t chunks = std::min(options_.shared_chunks, options_.shared_bytes / bytes);
  if (!options_.share || chunks == 0) return load;
  options_.shared_bytes -= chunks * bytes;
  const std::string name = NewName("k");
  shared_[key] = {name, chunks};
  shared_declarations_ += StrCat("__shared__ st_vec<", StorageCType(dtype), ", ", options_.vector,
                                 "> ", name, "[", chunks * options_.shared_threads, "];\n");
  AddLine(kChunkDepth, chunks == options_.shared_chunks
                           ? StrCat(name, "[e] = ", target, ";")
                           : StrCat("if (c < ", chunks, ") ", name, "[e] = ", target, ";"));
  return load;
}

// A row that lies whole in one of the parts: the part is chosen once a row, its elements are loaded
// as a row's own. "" where the parts are computed, or meet within a row.
std::string ElementEmitter::EmitRowOfParts(const Node& node, const IndexExpr& at, int* depth) {
  if (options_.language != Language::kCuda || !guards_.empty()) return "";
  const int axis = node.view().Axis("axis");
  const Dims& shape = node.type().shape;
  const int64_t inner = DenseStrides(shape)[axis], extent = shape[axis] * inner;
  for (const Value& part : node.operands()) {
    if (!IsOutside(*part.node) || part.type().NumElements() == 0) return "";
  }
  // What varies within the row, and is the same in every part. Rows begin at multiples of `step`.
  IndexExpr row, within;
  within.constant = at.constant;
  int64_t step = 0;
  for (const auto& term : at.terms) {
    const bool of_row = vars_.var(term.first).depth == kInvariant;
    if (of_row) step = std::gcd(step, term.second);
    (of_row ? row : within).terms.push_back(term);
  }
  if (step == 0 || step % options_.vector != 0 || vars_.Min(within) < 0 ||
      vars_.Max(within) >= step)
    return "";
  if (vars_.Depth(within) != kLaneDepth || !IsVector(within)) return "";
  const IndexExpr outer = vars_.Div(row, extent), place = vars_.Mod(row, extent);
  int64_t low = 0;
  std::string text;
  bool early = true;
  for (int i = 0; i < node.num_operands(); ++i) {
    const int64_t size = node.operand(i).shape()[axis] * inner;
    if (size % step != 0) return "";  // a row would reach beyond the part
    std::string inside;
    const IndexExpr begin = outer * size + vars_.Window(place, low, size, &inside);
    early = early && IsEarly(begin);
    const std::string start = StrCat(args_.Read(node.operand(i)), " + (", vars_.Text(begin), ")");
    text += inside.empty() || i + 1 == node.num_operands()
                ? start
                : StrCat("(", inside, ") ? ", start, " : ");
    if (inside.empty()) break;
    low += size;
  }
  if (!early) return "";
  const std::string pointer = NewName("c");
  AddIndexLine(
      kInvariant, true,
      StrCat("const ", StorageCType(node.type().dtype), "* const ", pointer, " = ", text, ";"));
  *depth = kLaneDepth;
  return EmitVectorLoad(pointer, node.type().dtype, within, true);
}

std::string ElementEmitter::EmitConcat(const Node& node, const IndexExpr& at, int* depth) {
  if (const std::string row = EmitRowOfParts(node, at, depth); !row.empty()) return row;
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
  return Variable(*depth, type, StrCat(text, "(", type, ")0"));
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
      if (!(rest == IndexExpr{}))
        tests.push_back({StrCat("(", vars_.Text(rest), ") == 0"), vars_.Depth(rest)});
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
  return Variable(*depth, ComputeCType(node.type().dtype),
                  StrCat(inside_all, " ? ", value, " : ",
                         RoundedLiteral(node.view().Float("value"), node.type().dtype)));
}

IndexExpr ElementEmitter::DataIndex(const Node& node, Value indices, const IndexExpr& at,
                                    int64_t limit) {
  const std::string id = Emit(indices, at);
  const int depth = std::max(last_depth_, GuardDepth());
  const std::string name = NewName("g");
  const bool early = last_early_ && (guards_.empty() || late_.empty());
  if (!early) late_.insert(name);
  (void)node;
  std::string checked = StrCat("st_index(", id, ", ", limit, "ll)");
  if (!guards_.empty()) checked = StrCat("(", GuardText(), ") ? ", checked, " : 0");
  AddIndexLine(depth, early, StrCat("const idx_t ", name, " = (idx_t)(", checked, ");"));
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
  const auto arguments = [&](const IndexExpr& first) {
    return StrCat("(", k0, ", ", k1, ", (unsigned long long)(", vars_.Text(first), "), ",
                  static_cast<uint32_t>(node.view().Int("stream")), "u, (unsigned)", step);
  };
  if (options_.language == Language::kCpp || *depth < kLaneDepth || GuardDepth() == kLaneDepth ||
      !IsVector(at) || options_.vector % 4 != 0) {
    return Variable(*depth, "unsigned", StrCat("st_random", arguments(at), ")"));
  }
  // One block of the generator has the words of four lanes.
  const bool keep = options_.keep && guards_.empty();
  const std::string name = NewName(keep ? "s" : "l");
  if (keep) {
    kept_ += StrCat("unsigned ", name, options_.kept_extent, ";\n");
  } else {
    AddLine(kChunkDepth, StrCat("unsigned ", name, "[", options_.vector, "];"));
  }
  const std::string target = keep ? StrCat(name, options_.slot) : name;
  AddLine(kChunkDepth, StrCat("st_random_lanes", arguments(WithoutLane(at)), ", ", target, ");"));
  last_early_ = false;
  return StrCat(target, "[v]");
}

void ElementEmitter::StoreVector(Value v, const IndexExpr& at, const std::string& text,
                                 const char* store) {
  const std::string name = NewName("o"), type = ComputeCType(v.dtype());
  AddLine(kChunkDepth, StrCat(type, " ", name, "[", options_.vector, "];"));
  AddLine(kLaneDepth, StrCat(name, "[v] = ", text, ";"));
  after_lane_ += StrCat(store, "<", options_.vector, ">(", args_.Write(v), " + ",
                        vars_.Text(WithoutLane(at)), ", ", name, ");\n");
}

void ElementEmitter::EmitAndStore(Value value, const IndexExpr& from, Value v,
                                  const IndexExpr& at) {
  const Node& node = *value.node;
  const bool rounds = node.Is("cast") && !IsOutside(node) && value.dtype() == DType::kBF16 &&
                      node.operand(0).dtype() == DType::kF32;
  const bool vector = options_.language == Language::kCuda && options_.vector > 1 &&
                      vars_.Depth(at) == kLaneDepth && IsVector(at);
  if (rounds && vector && !options_.pack && !memo_.contains(KeyOf(value, vars_.Text(from), {}))) {
    StoreVector(v, at, Emit(node.operand(0), from), "st_store_rounded");
  } else {
    Store(v, at, Emit(value, from));
  }
}

void ElementEmitter::Store(Value v, const IndexExpr& at, const std::string& text) {
  const std::string pointer = args_.Write(v);
  const int depth = vars_.Depth(at);
  if (options_.language == Language::kCuda && depth == kLaneDepth && IsVector(at)) {
    const auto start = [&] {
      return StrCat("st_store<", options_.vector, ">(", pointer, " + ", vars_.Text(WithoutLane(at)),
                    ", ");
    };
    for (const auto& [key, packed] : packed_) {
      if (packed != text) continue;
      after_lane_ += StrCat(start(), text.substr(0, text.size() - 3), ");\n");  // without "[v]"
      return;
    }
    StoreVector(v, at, text, "st_store");
    return;
  }
  AddLine(depth, StrCat("st_put(", pointer, " + (", vars_.Text(at), "), ", text, ");"));
}

}  // namespace stator
