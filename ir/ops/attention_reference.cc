// Attention by its definition, in f64, one query row at a time.
#include "ir/ops/attention.h"
#include "ir/ops/random.h"
#include "ir/philox.h"

#include <cmath>
#include <limits>

namespace stator {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

class Problem {
 public:
  Problem(const OpView& op, const AttentionOperands& at, Operands in)
      : d_(CheckAttention(op, at)), op_(op), at_(at), in_(in) {
    rate_ = op.Float("dropout");
  }

  const AttentionDims& dims() const { return d_; }
  int64_t Group(int64_t h) const { return h / (d_.heads / d_.groups); }
  // Where the D elements of a query head, and of a key head, begin.
  int64_t QueryAt(int64_t b, int64_t t, int64_t h) const {
    return ((b * d_.queries + t) * d_.heads + h) * d_.head_dim;
  }
  int64_t KeyAt(int64_t b, int64_t s, int64_t h) const {
    return ((b * d_.keys + s) * d_.groups + Group(h)) * d_.head_dim;
  }
  int64_t RowAt(int64_t b, int64_t h, int64_t t) const {
    return (b * d_.heads + h) * d_.queries + t;
  }
  int64_t BiasAt(int64_t b, int64_t h, int64_t t, int64_t s) const {
    const Dims& shape = in_[at_.bias]->type.shape;
    return (((shape[0] == 1 ? 0 : b) * shape[1] + (shape[1] == 1 ? 0 : h)) * d_.queries + t) *
               d_.keys +
           s;
  }

  double Dot(const Tensor& x, int64_t i, const Tensor& y, int64_t j) const {
    double sum = 0;
    for (int64_t c = 0; c < d_.head_dim; ++c) sum += x.f[i + c] * y.f[j + c];
    return sum;
  }

  bool Sees(int64_t b, int64_t t, int64_t s) const {
    const int64_t p = t + op_.Int("q_offset"), window = op_.Int("window");
    if (op_.Bool("causal") && s > p) return false;
    if (window > 0 && p - s >= window) return false;
    if (op_.has(at_.q_segments) &&
        in_[at_.q_segments]->i[b * d_.queries + t] != in_[at_.k_segments]->i[b * d_.keys + s]) {
      return false;
    }
    return !op_.has(at_.key_lengths) || s < in_[at_.key_lengths]->i[b];
  }

  double Score(int64_t b, int64_t h, int64_t t, int64_t s) const {
    if (!Sees(b, t, s)) return -kInf;
    const double bias = op_.has(at_.bias) ? in_[at_.bias]->f[BiasAt(b, h, t, s)] : 0;
    return d_.scale * Dot(*in_[at_.q], QueryAt(b, t, h), *in_[at_.k], KeyAt(b, s, h)) + bias;
  }

  // What dropout multiplies a softmax value by.
  double Kept(int64_t b, int64_t h, int64_t t, int64_t s) const {
    if (rate_ == 0) return 1;
    const Tensor &seed = *in_[at_.seed], &step = *in_[at_.step];
    const int64_t k = RowAt(b, h, t) * d_.keys + s;
    const PhiloxBlock words =
        RandomBlock(static_cast<uint32_t>(seed.i[0]), static_cast<uint32_t>(seed.i[1]), step.i[0],
                    op_.Int("stream"), k / 4);
    return static_cast<int64_t>(words[k % 4]) >= DropoutThreshold(rate_) ? 1 / (1 - rate_) : 0;
  }

  // f(b, h, t) for every query row.
  template <typename F>
  void ForRows(const F& f) const {
    for (int64_t b = 0; b < d_.batch; ++b) {
      for (int64_t h = 0; h < d_.heads; ++h) {
        for (int64_t t = 0; t < d_.queries; ++t) f(b, h, t);
      }
    }
  }

 private:
  AttentionDims d_;
  const OpView& op_;
  const AttentionOperands& at_;
  Operands in_;
  double rate_;
};

// Sums in f64 that become a tensor of a narrower dtype at the end.
class Accumulator {
 public:
  explicit Accumulator(Tensor& to) : to_(to), sum_(to.size(), 0.0) {}
  ~Accumulator() {
    for (int64_t k = 0; k < to_.size(); ++k) to_.Set(k, sum_[k]);
  }
  double& operator[](int64_t k) { return sum_[k]; }

 private:
  Tensor& to_;
  std::vector<double> sum_;
};

}  // namespace

void AttentionReference(const OpView& op, Operands in, Results out) {
  const Problem problem(op, kForward, in);
  const AttentionDims& d = problem.dims();
  problem.ForRows([&](int64_t b, int64_t h, int64_t t) {
    std::vector<double> scores(d.keys), row(d.head_dim, 0.0);
    double largest = -kInf, sum = 0;
    for (int64_t s = 0; s < d.keys; ++s) {
      scores[s] = problem.Score(b, h, t, s);
      largest = std::fmax(largest, scores[s]);
    }
    const double shift = largest == -kInf ? 0 : largest;
    for (int64_t s = 0; s < d.keys; ++s) {
      const double e = std::exp(scores[s] - shift);
      sum += e;
      const double weight = e * problem.Kept(b, h, t, s);
      if (weight == 0) continue;  // an unseen key's value is not read
      for (int64_t c = 0; c < d.head_dim; ++c)
        row[c] += weight * in[2]->f[problem.KeyAt(b, s, h) + c];
    }
    for (int64_t c = 0; c < d.head_dim; ++c) {
      out[0].Set(problem.QueryAt(b, t, h) + c, sum == 0 ? 0 : row[c] / sum);
    }
    out[1].Set(problem.RowAt(b, h, t), std::log(sum) + shift);
  });
}

void AttentionGradReference(const OpView& op, Operands in, Results out) {
  const Problem problem(op, kBackward, in);
  const AttentionDims& d = problem.dims();
  Accumulator dq(out[0]), dk(out[1]), dv(out[2]);
  Tensor none(Type{DType::kF64, {0}});
  Accumulator dbias(out.size() > 3 ? out[3] : none);
  problem.ForRows([&](int64_t b, int64_t h, int64_t t) {
    const int64_t qi = problem.QueryAt(b, t, h), row = problem.RowAt(b, h, t);
    const double lse = in[kLse]->f[row] == -kInf ? 0 : in[kLse]->f[row];
    const double dlse = op.has(kDlse) ? in[kDlse]->f[row] : 0;
    const double inner = problem.Dot(*in[kDout], qi, *in[kOut], qi) - dlse;
    for (int64_t s = 0; s < d.keys; ++s) {
      const double score = problem.Score(b, h, t, s);
      if (score == -kInf) continue;  // unseen, whatever the row's lse is
      const double p = std::exp(score - lse);
      if (p == 0) continue;
      const int64_t ki = problem.KeyAt(b, s, h);
      const double kept = problem.Kept(b, h, t, s);
      const double ds = p * (kept * problem.Dot(*in[kDout], qi, *in[2], ki) - inner);
      for (int64_t c = 0; c < d.head_dim; ++c) {
        dq[qi + c] += d.scale * ds * in[1]->f[ki + c];
        dk[ki + c] += d.scale * ds * in[0]->f[qi + c];
        dv[ki + c] += p * kept * in[kDout]->f[qi + c];
      }
      if (op.has(kBackward.bias)) dbias[problem.BiasAt(b, h, t, s)] += ds;
    }
  });
}

}  // namespace stator
