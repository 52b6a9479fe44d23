#include "codegen/traffic.h"

#include "codegen/emit_region.h"
#include "ir/index_expr.h"
#include "ir/views.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

namespace stator {
namespace {

int64_t CountOf(const std::set<Window>& windows, int64_t elements) {
  return CountUnion(std::vector<Window>(windows.begin(), windows.end()), elements);
}

// Follows what a region computes back to what it reads, as codegen/element_emitter.h does.
class Reader {
 public:
  Reader(const RegionParts& parts, Traffic* traffic) : parts_(parts), traffic_(*traffic) {}

  void Need(Value v) {
    if (v.type().NumElements() > 0) Need(v, Whole(v.type().NumElements()), {});
  }

 private:
  // `picker`: elements of `v` are read that it picks, one for each of `w` on its own result.
  void Need(Value v, const Window& w, Value picker) {
    if (v.type().NumElements() == 0 || !seen_.emplace(v, w, picker).second) return;
    const Node& node = *v.node;
    const bool inside = parts_.inside.contains(&node);
    if (!inside && (node.Is("input") || node.Is("state") || RegionOf(node) >= 0)) {
      picker ? traffic_.Pick(v, picker, w) : traffic_.Read(v, w);
      return;
    }
    AffineMap map;
    if (!picker && MovementMap(node, &map)) return NeedMoved(v, w, map);
    if (!picker && node.Is("concat")) return NeedParts(node, w);
    if (!picker && node.Is("pad")) return NeedPadded(node, w);
    if (node.Is("gather")) return NeedPicked(v, w, picker);
    if (node.Is("take_along")) {
      Need(node.operand(0), w, picker ? picker : v);
      return Need(node.operand(1), w, picker);
    }
    // A fold is computed whole, and its operand asked for where it is. So are scans, products and
    // the key of random bits.
    if (node.Is("fold") && inside) return;
    const bool each = picker || node.op_class() == OpClass::kElementwise;
    for (const Value& o : node.operands()) {
      if (!o) continue;
      each ? Need(o, w, picker) : Need(o);
    }
  }

  void NeedMoved(Value v, const Window& w, const AffineMap& map) {
    const Value from = v.node->operand(0);
    if (map.flat) return Need(from, w, {});
    const auto moved = Through(w, v.shape(), map.strides, map.at);
    moved ? Need(from, *moved, {}) : Need(from);
  }

  void NeedParts(const Node& concat, const Window& w) {
    const int axis = concat.view().Axis("axis");
    const Dims& shape = concat.type().shape;
    const int64_t inner = DenseStrides(shape)[axis],
                  outer = concat.type().NumElements() / (shape[axis] * inner);
    int64_t low = 0;
    for (const Value& part : concat.operands()) {
      const int64_t size = part.shape()[axis];
      NeedPart(part, Clip(w, {outer, shape[axis], inner}, low, size));
      low += size;
    }
  }

  void NeedPart(Value part, const std::optional<std::vector<Window>>& windows) {
    if (!windows) return Need(part);
    for (const Window& w : *windows) Need(part, w, {});
  }

  // Axis by axis; whole where neighbours are apart in the result.
  void NeedPadded(const Node& pad, const Window& w) {
    const Value from = pad.operand(0);
    if (from.type().NumElements() == 0) return;
    const Dims &low = pad.view().Ints("low"), &interior = pad.view().Ints("interior");
    if (std::any_of(interior.begin(), interior.end(), [](int64_t i) { return i != 0; }))
      return Need(from);
    Dims shape = pad.type().shape;
    std::vector<Window> windows = {w};
    for (size_t k = 0; k < shape.size(); ++k) {
      const int64_t inner = DenseStrides(shape)[k], outer = NumElements(shape) / (shape[k] * inner);
      std::vector<Window> clipped;
      for (const Window& one : windows) {
        const auto parts = Clip(one, {outer, shape[k], inner}, low[k], from.shape()[k]);
        if (!parts) return Need(from);
        clipped.insert(clipped.end(), parts->begin(), parts->end());
      }
      shape[k] = from.shape()[k];
      windows = std::move(clipped);
    }
    NeedPart(from, windows);
  }

  void NeedPicked(Value rows, const Window& w, Value picker) {
    const Node& gather = *rows.node;
    const Value data = gather.operand(0), indices = gather.operand(1);
    if (picker) {
      Need(data, w, picker);
      return Need(indices, w, picker);
    }
    Need(data, w, rows);
    const int axis = gather.view().Axis("axis");
    const int64_t inner = DenseStrides(data.shape())[axis], picks = indices.type().NumElements(),
                  outer = gather.type().NumElements() / (picks * inner);
    const auto picked = Through(w, {outer, picks, inner}, {0, 1, 0}, 0);
    picked ? Need(indices, *picked, {}) : Need(indices);
  }

  const RegionParts& parts_;
  Traffic& traffic_;
  std::set<std::tuple<Value, Window, Value>> seen_;
};

}  // namespace

void Traffic::Add(const Traffic& other) {
  for (const auto& [base, reads] : other.reads_) {
    Reads& own = reads_[base];
    own.windows.insert(reads.windows.begin(), reads.windows.end());
    for (const auto& [picker, windows] : reads.picks)
      own.picks[picker].insert(windows.begin(), windows.end());
  }
  written_.insert(other.written_.begin(), other.written_.end());
}

double Traffic::Bytes() const {
  int64_t bytes = 0;
  for (const auto& [base, reads] : reads_) {
    const int64_t elements = base.type().NumElements();
    int64_t count = CountOf(reads.windows, elements);
    for (const auto& [picker, windows] : reads.picks)
      count += CountOf(windows, picker.type().NumElements());
    bytes += std::min(count, elements) * ByteWidth(base.dtype());
  }
  for (const Value& v : written_) bytes += v.type().Bytes();
  return static_cast<double>(bytes);
}

std::set<Value> Traffic::read() const {
  std::set<Value> bases;
  for (const auto& [base, reads] : reads_) bases.insert(base);
  return bases;
}

Traffic TrafficOf(const RegionParts& parts) {
  Traffic traffic;
  Reader reader(parts, &traffic);
  const auto write = [&](const Value& v) { traffic.Write(v); };
  for (const auto& folds : parts.row_folds) {
    for (const Node* f : folds) reader.Need(f->operand(0));
  }
  for (Node* f : parts.column_folds) reader.Need(f->operand(0)), write(f->result());
  for (const Value& v : parts.full_outputs) reader.Need(v), write(v);
  for (const Value& v : parts.row_outputs) reader.Need(v), write(v);
  for (Node* concat : parts.assembled) {
    for (const Value& part : concat->operands()) reader.Need(part);
    write(concat->result());
  }
  return traffic;
}

}  // namespace stator
