#include "ir/index_expr.h"

#include "ir/base/error.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace stator {

IndexExpr IndexExpr::operator+(const IndexExpr& o) const {
  IndexExpr sum;
  sum.constant = constant + o.constant;
  size_t i = 0, j = 0;
  while (i < terms.size() || j < o.terms.size()) {
    if (j == o.terms.size() || (i < terms.size() && terms[i].first < o.terms[j].first)) {
      sum.terms.push_back(terms[i++]);
    } else if (i == terms.size() || o.terms[j].first < terms[i].first) {
      sum.terms.push_back(o.terms[j++]);
    } else {
      const int64_t c = terms[i].second + o.terms[j].second;
      if (c != 0) sum.terms.emplace_back(terms[i].first, c);
      ++i, ++j;
    }
  }
  return sum;
}

IndexExpr IndexExpr::operator+(int64_t k) const {
  IndexExpr sum = *this;
  sum.constant += k;
  return sum;
}

IndexExpr IndexExpr::operator*(int64_t k) const {
  IndexExpr product;
  if (k == 0) return product;
  product.constant = constant * k;
  for (const auto& [var, c] : terms) product.terms.emplace_back(var, c * k);
  return product;
}

int64_t IndexExpr::Coefficient(int var) const {
  for (const auto& [v, c] : terms) {
    if (v == var) return c;
  }
  return 0;
}

IndexExpr IndexSpace::AddVar(std::string name, int64_t extent, int depth) {
  IndexExpr e;
  if (extent == 1) return e;  // always 0
  vars_.push_back({std::move(name), extent, depth});
  e.terms.emplace_back(static_cast<int>(vars_.size()) - 1, 1);
  return e;
}

int64_t IndexSpace::Min(const IndexExpr& e) const {
  int64_t m = e.constant;
  for (const auto& [v, c] : e.terms) m += c < 0 ? c * (vars_[v].extent - 1) : 0;
  return m;
}

int64_t IndexSpace::Max(const IndexExpr& e) const {
  int64_t m = e.constant;
  for (const auto& [v, c] : e.terms) m += c > 0 ? c * (vars_[v].extent - 1) : 0;
  return m;
}

int IndexSpace::Depth(const IndexExpr& e) const {
  int depth = 0;
  for (const auto& [v, c] : e.terms) depth = std::max(depth, vars_[v].depth);
  return depth;
}

// Moves the terms with the smallest coefficients into `rest` as long as the others share a larger
// common factor with `d` that `rest` stays below.
IndexSpace::Parts IndexSpace::SplitBy(const IndexExpr& e, int64_t d) const {
  std::vector<std::pair<int, int64_t>> order = e.terms;
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::llabs(a.second) < std::llabs(b.second);
  });
  Parts best;
  best.big = e;
  for (size_t k = 0; k <= order.size(); ++k) {
    int64_t g = d;
    for (size_t i = k; i < order.size(); ++i) g = std::gcd(g, order[i].second);
    if (g <= 0) continue;
    IndexExpr rest, big;
    for (size_t i = 0; i < order.size(); ++i) {
      IndexExpr term;
      term.terms.push_back(order[i]);
      (i < k ? rest : big) = (i < k ? rest : big) + term;
    }
    int64_t r = e.constant % g;
    if (r < 0) r += g;
    rest.constant = r;
    big.constant = e.constant - r;
    if (Min(rest) < 0 || Max(rest) >= g || g < best.g) continue;
    best = {big, rest, g};
  }
  return best;
}

IndexExpr IndexSpace::Named(const IndexExpr& of, const std::string& text, int64_t extent) {
  for (const auto& [known, var] : known_) {
    if (known != text) continue;
    IndexExpr e;
    if (var >= 0) e.terms.emplace_back(var, 1);
    return e;
  }
  if (extent <= 1) return {};
  const int depth = Depth(of);
  const std::string name = define_ ? define_(of, text, depth) : StrCat("q", vars_.size());
  const IndexExpr e = AddVar(name, extent, depth);
  known_.emplace_back(text, e.terms.empty() ? -1 : e.terms[0].first);
  return e;
}

void IndexSpace::ForgetNamed(int depth) {
  std::erase_if(known_,
                [&](const auto& k) { return k.second >= 0 && vars_[k.second].depth >= depth; });
}

IndexExpr IndexSpace::Opaque(const std::string& text, int64_t extent, int depth) {
  return AddVar(text, extent, depth);
}

namespace {
IndexExpr Exactly(const IndexExpr& e, int64_t g) {
  IndexExpr q;
  q.constant = e.constant / g;
  for (const auto& [v, c] : e.terms) q.terms.emplace_back(v, c / g);
  return q;
}
}  // namespace

IndexExpr IndexSpace::Div(const IndexExpr& e, int64_t d) {
  if (d == 1) return e;
  if (Min(e) >= 0 && Max(e) < d) return {};
  const Parts p = SplitBy(e, d);
  const IndexExpr q = Exactly(p.big, p.g);
  const int64_t rest = d / p.g;
  if (rest == 1) return q;
  if (Min(q) >= 0 && Max(q) < rest) return {};
  return Named(q, StrCat("(", Text(q), ") / ", rest), Max(q) / rest + 1);
}

IndexExpr IndexSpace::Mod(const IndexExpr& e, int64_t d) {
  if (d == 1) return {};
  if (Min(e) >= 0 && Max(e) < d) return e;
  const Parts p = SplitBy(e, d);
  const IndexExpr q = Exactly(p.big, p.g);
  const int64_t rest = d / p.g;
  if (rest == 1) return p.rest;
  if (Min(q) >= 0 && Max(q) < rest) return q * p.g + p.rest;
  return Named(q, StrCat("(", Text(q), ") % ", rest), rest) * p.g + p.rest;
}

IndexExpr IndexSpace::Window(const IndexExpr& e, int64_t low, int64_t size, std::string* inside) {
  inside->clear();
  if (Min(e) >= low && Max(e) < low + size) return e + (-low);
  // The condition and the clamp need only the part that can cross the window's edges.
  const Parts p = SplitBy(e, std::gcd(low, size) == 0 ? 1 : std::gcd(low, size));
  const IndexExpr q = Exactly(p.big, p.g);
  const int64_t first = low / p.g, count = size / p.g;
  std::vector<std::string> tests;
  if (Min(q) < first) tests.push_back(StrCat("(", Text(q), ") >= ", first));
  if (Max(q) >= first + count) tests.push_back(StrCat("(", Text(q), ") < ", first + count));
  *inside = tests.empty() ? "" : Join(tests, " && ");
  if (tests.empty()) return e + (-low);
  const std::string shifted = Text(q + (-first));
  return Named(q, StrCat("(", *inside, ") ? ", shifted, " : 0"), count) * p.g + p.rest;
}

std::string IndexSpace::Text(const IndexExpr& e) const {
  std::string out;
  for (const auto& [v, c] : e.terms) {
    if (!out.empty()) out += c < 0 ? " - " : " + ";
    if (out.empty() && c < 0) out += "-";
    const int64_t k = std::llabs(c);
    out += k == 1 ? vars_[v].name : StrCat(k, " * ", vars_[v].name);
  }
  if (e.constant != 0 || out.empty()) {
    if (out.empty()) return std::to_string(e.constant);
    out += StrCat(e.constant < 0 ? " - " : " + ", std::llabs(e.constant));
  }
  return out;
}

std::vector<IndexExpr> Delinearize(IndexSpace& space, IndexExpr flat, const Dims& shape) {
  std::vector<IndexExpr> at(shape.size());
  int first = 0;  // the leading axis that varies needs no remainder
  while (first + 1 < static_cast<int>(shape.size()) && shape[first] == 1) ++first;
  for (int k = static_cast<int>(shape.size()) - 1; k >= 0; --k) {
    if (k == first) {
      at[k] = flat;
      break;
    }
    if (shape[k] == 1) continue;
    at[k] = space.Mod(flat, shape[k]);
    flat = space.Div(flat, shape[k]);
  }
  return at;
}

IndexExpr Strided(IndexSpace& space, const IndexExpr& flat, const Dims& shape, const Dims& strides,
                  int64_t at) {
  // Axes of size 1 drop out; runs that one stride covers merge.
  Dims sizes, steps;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (!sizes.empty() && steps.back() == strides[i] * shape[i]) {
      sizes.back() *= shape[i];
      steps.back() = strides[i];
    } else {
      sizes.push_back(shape[i]);
      steps.push_back(strides[i]);
    }
  }
  IndexExpr sum;
  sum.constant = at;
  // Delinearize by hand to skip the axes whose stride is 0.
  IndexExpr rest = flat;
  for (int k = static_cast<int>(sizes.size()) - 1; k >= 0; --k) {
    if (steps[k] != 0) sum = sum + (k == 0 ? rest : space.Mod(rest, sizes[k])) * steps[k];
    bool needed = false;
    for (int i = 0; i < k; ++i) needed = needed || steps[i] != 0;
    if (!needed) break;
    rest = space.Div(rest, sizes[k]);
  }
  return sum;
}

Value BaseOfMovements(Value v) {
  const auto moves = [](const Node& n) {
    return n.op_class() == OpClass::kMovement && n.num_operands() == 1 &&
           (n.Is("reshape") || n.Is("broadcast") || n.Is("transpose") || n.Is("slice"));
  };
  while (moves(*v.node)) v = v.node->operand(0);
  return v;
}

bool MovementMap(const Node& node, AffineMap* map) {
  if (node.op_class() != OpClass::kMovement || node.num_operands() != 1) return false;
  const Dims& from = node.operand(0).shape();
  const Dims dense = DenseStrides(from);
  *map = {};
  if (node.Is("reshape")) {
    map->flat = true;
    map->strides = DenseStrides(node.type().shape);
    return true;
  }
  if (node.Is("broadcast")) {
    const size_t extra = node.type().shape.size() - from.size();
    map->strides.assign(node.type().shape.size(), 0);
    for (size_t i = 0; i < from.size(); ++i) {
      map->strides[i + extra] = from[i] == 1 && node.type().shape[i + extra] != 1 ? 0 : dense[i];
    }
    return true;
  }
  if (node.Is("transpose")) {
    for (const int64_t p : node.view().Ints("permutation")) map->strides.push_back(dense[p]);
    return true;
  }
  if (node.Is("slice")) {
    const Dims &starts = node.view().Ints("starts"), &steps = node.view().Ints("steps");
    for (size_t i = 0; i < from.size(); ++i) {
      map->strides.push_back(dense[i] * (steps.empty() ? 1 : steps[i]));
      map->at += dense[i] * starts[i];
    }
    return true;
  }
  return false;
}

std::pair<Value, IndexExpr> PullThroughViews(IndexSpace& space, Value v, IndexExpr flat) {
  AffineMap map;
  while (MovementMap(*v.node, &map)) {
    if (!map.flat) flat = Strided(space, flat, v.shape(), map.strides, map.at);
    v = v.node->operand(0);
  }
  return {v, flat};
}

}  // namespace stator
