// Affine index arithmetic over bounded variables: what a view does to an element's position. The
// fusion pass uses it to see whether two accesses coincide, the emitters to print addresses.
#pragma once

#include "ir/graph.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace stator {

// constant + sum of coefficient * variable. Terms are sorted by variable and never zero.
struct IndexExpr {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> terms;

  bool operator==(const IndexExpr&) const = default;
  IndexExpr operator+(const IndexExpr& o) const;
  IndexExpr operator*(int64_t k) const;
  IndexExpr operator+(int64_t k) const;
  int64_t Coefficient(int var) const;
};

// The variables in play. Quotients that do not simplify become variables of their own.
class IndexSpace {
 public:
  struct Var {
    std::string name;    // its C text
    int64_t extent = 0;  // in [0, extent)
    int depth = 0;       // free for the user: which loop it varies in
  };
  // Called when a new variable is made for a quotient, remainder or clamp: must define it. `of` is
  // the expression it is computed from, `text` its C text in terms of earlier variables.
  using Define =
      std::function<std::string(const IndexExpr& of, const std::string& text, int depth)>;

  explicit IndexSpace(Define define = {}) : define_(std::move(define)) {}

  IndexExpr AddVar(std::string name, int64_t extent, int depth);
  const Var& var(int i) const { return vars_[i]; }

  int64_t Min(const IndexExpr& e) const;
  int64_t Max(const IndexExpr& e) const;
  int Depth(const IndexExpr& e) const;  // the largest of its variables', 0 for a constant

  // For e >= 0.
  IndexExpr Div(const IndexExpr& e, int64_t d);
  IndexExpr Mod(const IndexExpr& e, int64_t d);
  // e - low where that lies in [0, size), otherwise some value in that range; `inside` gets the C
  // condition, "" when always true.
  IndexExpr Window(const IndexExpr& e, int64_t low, int64_t size, std::string* inside);
  // A variable for a value known only at run time, in [0, extent).
  IndexExpr Opaque(const std::string& text, int64_t extent, int depth);

  // Quotients that vary at `depth` or deeper will be defined anew when next asked for.
  void ForgetNamed(int depth);

  std::string Text(const IndexExpr& e) const;

 private:
  struct Parts {
    IndexExpr big, rest;  // e = big + rest, big a multiple of g, 0 <= rest < g
    int64_t g = 1;
  };
  Parts SplitBy(const IndexExpr& e, int64_t d) const;
  IndexExpr Named(const IndexExpr& of, const std::string& text, int64_t extent);

  Define define_;
  std::vector<Var> vars_;
  std::vector<std::pair<std::string, int>> known_;  // text -> variable, to share quotients
};

// The index along every axis of `shape` of the element at row-major position `flat`.
std::vector<IndexExpr> Delinearize(IndexSpace& space, IndexExpr flat, const Dims& shape);

// `at` + sum of index * stride, where `flat` is the row-major position in `shape`. Adjacent axes
// that a single stride covers are taken together.
IndexExpr Strided(IndexSpace& space, const IndexExpr& flat, const Dims& shape, const Dims& strides,
                  int64_t at);

// A broadcast, reshape, transpose or slice as strides over its operand's dense elements. False for
// other movement ops.
struct AffineMap {
  Dims strides;
  int64_t at = 0;
  bool flat = false;  // reshape: the position does not change
};
bool MovementMap(const Node& node, AffineMap* map);

// The nearest operand that is not a movement node with an affine map, and the position in it.
Value BaseOfMovements(Value v);
std::pair<Value, IndexExpr> PullThroughViews(IndexSpace& space, Value v, IndexExpr flat);

}  // namespace stator
