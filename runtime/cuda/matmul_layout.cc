#include "runtime/cuda/matmul_layout.h"

#include "ir/base/error.h"

#include <algorithm>

namespace stator {
namespace {

constexpr int64_t kMaxAlignment = 256;

// One axis that all operands share, with their strides along it.
struct BatchAxis {
  int64_t size;
  int64_t stride[kLtOperands];
};

// The last two axes of an operand.
struct Plane {
  int64_t rows = 1, cols = 1, row_stride = 0, col_stride = 0;
  bool row_major() const {
    return (col_stride == 1 || cols == 1) && (rows == 1 || row_stride >= cols);
  }
  Plane transposed() const { return {cols, rows, col_stride, row_stride}; }
};

Plane PlaneOf(const TensorRef& t, const std::string& name, const char* what) {
  const int r = t.type.rank();
  if (r < 2 || t.strides.size() != static_cast<size_t>(r)) {
    Fail(ErrorCode::kInvalidArgument, name, ": operand ", what, " needs two axes or more, got ",
         t.type.ToString(), " with strides ", t.strides);
  }
  return {t.type.dim(-2), t.type.dim(-1), t.strides[r - 2], t.strides[r - 1]};
}

int64_t BatchStride(const TensorRef& t, int axis_from_end, int64_t size, const std::string& name,
                    const char* what) {
  const int axis = t.type.rank() - axis_from_end;
  if (!t || axis < 0 || t.type.shape[axis] == 1) return 0;
  if (t.type.shape[axis] != size) {
    Fail(ErrorCode::kInvalidArgument, name, ": batch axes of operand ", what,
         " differ: ", t.type.ToString(), ", want ", size, " on axis ", axis);
  }
  return t.strides[axis];
}

int AlignmentOf(const TensorRef& t, const LtMatrix& m, const std::vector<LtLoop>& loops,
                int which) {
  if (!t) return kMaxAlignment;
  const int64_t width = ByteWidth(t.type.dtype);
  int64_t bits = t.buffer.offset | kMaxAlignment | m.batch_stride * width;
  for (const LtLoop& loop : loops) bits |= loop.stride[which] * width;
  return static_cast<int>(bits & -bits);
}

class Mapper {
 public:
  Mapper(const MatMulCall& call, const std::string& name) : call_(call), name_(name) {}

  LtProblem Map() {
    a_ = PlaneOf(call_.a, name_, "a"), b_ = PlaneOf(call_.b, name_, "b");
    d_ = PlaneOf(call_.d, name_, "d");
    if (call_.c) c_ = PlaneOf(call_.c, name_, "c");
    if (call_.aux) aux_ = PlaneOf(call_.aux, name_, "aux");
    Check();
    CollectBatch();
    MergeAxes();
    FoldIntoRows();
    p_.has_c = static_cast<bool>(call_.c);
    p_.epilogue = call_.epilogue;
    p_.empty = d_.rows == 0 || d_.cols == 0;
    p_.flops = 2.0 * static_cast<double>(d_.rows) * static_cast<double>(d_.cols) *
               static_cast<double>(a_.cols);
    for (const BatchAxis& axis : axes_) {
      p_.empty |= axis.size == 0;
      p_.flops *= static_cast<double>(axis.size);
    }
    p_.no_terms = a_.cols == 0;
    if (p_.empty || p_.no_terms) return p_;
    Orient();
    SplitBatch();
    Align();
    return p_;
  }

 private:
  [[noreturn]] void Unsupported(const char* what, const TensorRef& t) const {
    Fail(ErrorCode::kUnsupported, name_, ": matmul operand ", what, " ", t.type.ToString(),
         " with strides ", t.strides,
         " is no matrix that cuBLASLt takes (one of the last two strides must be 1, rows must not "
         "overlap, and c, aux and bias must lie as d does)");
  }

  void Check() const {
    const bool fits = a_.rows == d_.rows && b_.cols == d_.cols && a_.cols == b_.rows;
    if (!fits) {
      Fail(ErrorCode::kInvalidArgument, name_, ": matmul shapes differ: ", call_.a.type.ToString(),
           " x ", call_.b.type.ToString(), " = ", call_.d.type.ToString());
    }
    const auto same = [&](const Plane& p) { return p.rows == d_.rows && p.cols == d_.cols; };
    if (call_.c && (!same(c_) || call_.c.type.dtype != call_.d.type.dtype))
      Unsupported("c", call_.c);
    const bool wants_aux =
        call_.epilogue == Epilogue::kGeluTanhAux || call_.epilogue == Epilogue::kBiasGeluTanhAux;
    if (wants_aux != static_cast<bool>(call_.aux) || (call_.aux && !same(aux_))) {
      Unsupported("aux", call_.aux);
    }
    if (wants_aux && call_.aux.type.dtype != call_.d.type.dtype) Unsupported("aux", call_.aux);
    const bool wants_bias =
        call_.epilogue == Epilogue::kBias || call_.epilogue == Epilogue::kBiasGeluTanhAux;
    const bool has_bias = static_cast<bool>(call_.bias);
    if (wants_bias != has_bias || (has_bias && (call_.bias.type.NumElements() != d_.cols ||
                                                (call_.bias.strides.size() == 1 &&
                                                 call_.bias.strides[0] != 1 && d_.cols > 1)))) {
      Unsupported("bias", call_.bias);
    }
  }

  void CollectBatch() {
    for (int from_end = call_.d.type.rank(); from_end > 2; --from_end) {
      const int64_t size = call_.d.type.shape[call_.d.type.rank() - from_end];
      if (size == 1) continue;
      BatchAxis axis{size, {}};
      axis.stride[kLtA] = BatchStride(call_.a, from_end, size, name_, "a");
      axis.stride[kLtB] = BatchStride(call_.b, from_end, size, name_, "b");
      axis.stride[kLtC] = BatchStride(call_.c, from_end, size, name_, "c");
      axis.stride[kLtD] = BatchStride(call_.d, from_end, size, name_, "d");
      axis.stride[kLtAux] = BatchStride(call_.aux, from_end, size, name_, "aux");
      if (axis.stride[kLtD] == 0) Unsupported("d", call_.d);
      axes_.push_back(axis);
    }
  }

  void MergeAxes() {
    for (size_t i = axes_.size(); i > 1; --i) {
      BatchAxis &outer = axes_[i - 2], &inner = axes_[i - 1];
      bool merges = true;
      for (int o = 0; o < kLtOperands; ++o)
        merges &= outer.stride[o] == inner.stride[o] * inner.size;
      if (!merges) continue;
      inner.size *= outer.size;
      std::swap(outer, inner);
      axes_.erase(axes_.begin() + static_cast<int64_t>(i) - 1);
    }
  }

  // [B,T,C] x [C,N]: one product of B*T rows.
  void FoldIntoRows() {
    while (!axes_.empty()) {
      const BatchAxis& axis = axes_.back();
      const auto continues = [&](const Plane& p, LtOperand o, bool present) {
        return !present || d_.rows == 1 || axis.stride[o] == p.row_stride * p.rows;
      };
      if (axis.stride[kLtB] != 0 || !continues(a_, kLtA, true) || !continues(d_, kLtD, true) ||
          !continues(c_, kLtC, static_cast<bool>(call_.c)) ||
          !continues(aux_, kLtAux, static_cast<bool>(call_.aux))) {
        return;
      }
      if (d_.rows == 1) {
        a_.row_stride = axis.stride[kLtA], d_.row_stride = axis.stride[kLtD];
        c_.row_stride = axis.stride[kLtC], aux_.row_stride = axis.stride[kLtAux];
      }
      for (Plane* p : {&a_, &d_, &c_, &aux_}) p->rows *= axis.size;
      axes_.pop_back();
    }
  }

  // Places a plane as `rows` x `cols` in column-major order; false when it is stored the other way.
  static bool Place(const Plane& p, LtMatrix* m) {
    const Plane t = p.transposed();
    if (!t.row_major()) return false;
    m->rows = p.rows, m->cols = p.cols;
    m->ld = std::max<int64_t>({1, p.rows, p.cols == 1 ? 1 : p.col_stride});
    return true;
  }

  void Orient() {
    p_.swapped = d_.row_major();
    if (!p_.swapped && !d_.transposed().row_major()) Unsupported("d", call_.d);
    if (!p_.swapped && p_.epilogue != Epilogue::kNone) Unsupported("d", call_.d);
    // The product cuBLASLt sees: D = A x B, or its transpose D' = B' x A'.
    const TensorRef& left = p_.swapped ? call_.b : call_.a;
    const TensorRef& right = p_.swapped ? call_.a : call_.b;
    const Plane lt_a = p_.swapped ? b_.transposed() : a_;
    const Plane lt_b = p_.swapped ? a_.transposed() : b_;
    const auto place = [&](const Plane& p, LtMatrix* m, bool* transpose, const TensorRef& t,
                           const char* what) {
      *transpose = !Place(p, m);
      if (*transpose && !Place(p.transposed(), m)) Unsupported(what, t);
      m->dtype = t.type.dtype;
    };
    place(lt_a, &p_.matrix[kLtA], &p_.transpose_a, left, p_.swapped ? "b" : "a");
    place(lt_b, &p_.matrix[kLtB], &p_.transpose_b, right, p_.swapped ? "a" : "b");
    const auto place_result = [&](const Plane& p, LtOperand o, const TensorRef& t,
                                  const char* what) {
      if (!t) return;
      if (!Place(p_.swapped ? p.transposed() : p, &p_.matrix[o])) Unsupported(what, t);
      p_.matrix[o].dtype = t.type.dtype;
    };
    place_result(d_, kLtD, call_.d, "d");
    p_.matrix[kLtC] = p_.matrix[kLtD];
    place_result(c_, kLtC, call_.c, "c");
    place_result(aux_, kLtAux, call_.aux, "aux");
    if (call_.bias) p_.bias = call_.bias.type.dtype;
    if (p_.swapped) {
      for (BatchAxis& axis : axes_) std::swap(axis.stride[kLtA], axis.stride[kLtB]);
    }
  }

  // The longest axis becomes the strided batch.
  void SplitBatch() {
    if (axes_.empty()) return;
    size_t longest = axes_.size() - 1;
    for (size_t i = axes_.size(); i-- > 0;) {
      if (axes_[i].size > axes_[longest].size) longest = i;
    }
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (!p_.has_c) axes_[i].stride[kLtC] = axes_[i].stride[kLtD];
      if (i == longest) {
        p_.batch = axes_[i].size;
        for (int o = 0; o < kLtOperands; ++o) p_.matrix[o].batch_stride = axes_[i].stride[o];
        continue;
      }
      LtLoop loop{axes_[i].size, {}};
      std::copy(std::begin(axes_[i].stride), std::end(axes_[i].stride), loop.stride);
      p_.loops.push_back(loop);
    }
  }

  void Align() {
    const TensorRef* refs[kLtOperands] = {p_.swapped ? &call_.b : &call_.a,
                                          p_.swapped ? &call_.a : &call_.b,
                                          p_.has_c ? &call_.c : &call_.d, &call_.d, &call_.aux};
    for (int o = 0; o < kLtOperands; ++o) {
      p_.matrix[o].alignment = AlignmentOf(*refs[o], p_.matrix[o], p_.loops, o);
    }
  }

  const MatMulCall& call_;
  const std::string& name_;
  LtProblem p_;
  Plane a_, b_, c_, d_, aux_;
  std::vector<BatchAxis> axes_;
};

}  // namespace

LtProblem MapMatMul(const MatMulCall& call, const std::string& name) {
  return Mapper(call, name).Map();
}

std::string LtProblem::Key() const {
  const auto text = [&](LtOperand o) {
    const LtMatrix& m = matrix[o];
    return StrCat(" ", Name(m.dtype), " ", m.rows, "x", m.cols, "/", m.ld, "+", m.batch_stride, "@",
                  m.alignment);
  };
  std::string key =
      StrCat(transpose_a ? "T" : "N", transpose_b ? "T" : "N", text(kLtA), text(kLtB));
  key += text(kLtD);
  if (has_c) key += " beta" + text(kLtC);
  if (batch > 1) key += StrCat(" batch ", batch);
  if (epilogue != Epilogue::kNone) {
    key += StrCat(" epilogue ", static_cast<int>(epilogue), " ", Name(bias), text(kLtAux));
  }
  return key;
}

}  // namespace stator
