#include "frontend/driver/values.h"

#include "frontend/driver/config.h"
#include "ir/base/error.h"
#include "ir/facts.h"
#include "runtime/program_io.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

namespace stator {
namespace {

// The value that a high or a low half is of.
Value WholeOf(const StepValue& half) { return half.value.node->operand(0); }

// The values that a program stores as two halves, and those that it stores whole.
struct Halves {
  std::map<Value, const StepValue*> low;  // by the whole
  std::set<Value> stored;

  explicit Halves(const std::vector<StepValue>& values) {
    for (const StepValue& v : values) {
      if (v.value.node->Is("low_half")) low[WholeOf(v)] = &v;
      stored.insert(v.value);
    }
  }
};

std::string BaseName(const Node& node) {
  const std::string phase = node.StrFact(fact::kPhase);
  std::string name = phase.empty() || phase == "forward" ? "" : phase + "/";
  if (!node.scope().empty()) name += node.scope() + "/";
  return name + node.op().name;
}

// "h.3/attn/qkv/matmul" lies in "h.3", "h.3/attn" and "h.3/attn/qkv".
std::vector<std::string> ScopesOf(const std::string& name) {
  std::vector<std::string> scopes;
  for (size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1)) {
    scopes.push_back(name.substr(0, at));
  }
  return scopes;
}

[[noreturn]] void FailToFind(const std::vector<NamedValue>& values, const std::string& pattern,
                             const std::string& what) {
  std::set<std::string> known;
  for (const NamedValue& v : values) {
    known.insert(v.name);
    for (const std::string& scope : ScopesOf(v.name)) known.insert(scope);
  }
  Fail(ErrorCode::kInvalidArgument, what, ": '", pattern, "' matches no value that the step stores",
       NearNames(pattern, {known.begin(), known.end()}));
}

// Sums and extremes in one pass.
struct Sums {
  double absmax = 0, squares = 0, sum = 0, min = INFINITY, max = -INFINITY, nonfinite = 0;
  bool nan = false;
  void Add(double v) {
    nan = nan || std::isnan(v);
    nonfinite += !std::isfinite(v);
    absmax = std::max(absmax, std::abs(v));
    min = std::min(min, v), max = std::max(max, v);
    squares += v * v, sum += v;
  }
};

struct Figure {
  const char* name;
  double (*of)(const Sums&, double count);
};
constexpr Figure kFigures[] = {
    {"absmax", [](const Sums& s, double) { return s.nan ? NAN : s.absmax; }},
    {"rms", [](const Sums& s, double n) { return std::sqrt(s.squares / n); }},
    {"mean", [](const Sums& s, double n) { return s.sum / n; }},
    {"min", [](const Sums& s, double) { return s.nan ? NAN : s.min; }},
    {"max", [](const Sums& s, double) { return s.nan ? NAN : s.max; }},
    {"nonfinite", [](const Sums& s, double) { return s.nonfinite; }},
};

}  // namespace

Type NamedValue::type() const {
  return low ? Type{DType::kF32, at.value.type().shape} : at.value.type();
}

std::vector<char> NamedValue::Read(Executor& executor) const {
  std::vector<char> stored = executor.ReadBuffer(at.buffer, at.value.type().Bytes());
  if (!low) return stored;
  StateEntry entry;
  entry.type = type(), entry.halves = true;
  stored.resize(static_cast<size_t>(entry.LowHalves()));
  const std::vector<char> rest = executor.ReadBuffer(low->buffer, low->value.type().Bytes());
  stored.insert(stored.end(), rest.begin(), rest.end());
  return JoinHalves(entry, stored);
}

std::vector<NamedValue> NameValues(const StepValues& values) {
  std::vector<NamedValue> out;
  std::map<std::string, int> seen;
  for (const char* program : {"train", "accumulate", "update"}) {
    const auto it = values.find(program);
    if (it == values.end()) continue;
    const Halves halves(it->second);
    for (const StepValue& v : it->second) {
      if (v.value.node->Is("low_half")) continue;  // goes with the high one
      NamedValue named{"", program, v};
      Value whole = v.value;
      if (v.value.node->Is("high_half")) {
        whole = WholeOf(v);
        if (halves.stored.contains(whole)) continue;
        const auto low = halves.low.find(whole);
        STATOR_CHECK(low != halves.low.end(), BaseName(*whole.node),
                     ": its high half is stored, its low one is not");
        named.low = *low->second;
        named.at.step = std::max(v.step, named.low->step);
      }
      std::string name = BaseName(*whole.node);
      if (whole.index > 0) name += StrCat("[", whole.index, "]");
      if (const int count = ++seen[name]; count > 1) name += StrCat(".", count);
      named.name = std::move(name);
      out.push_back(std::move(named));
    }
  }
  return out;
}

std::vector<NamedValue> FindValues(const std::vector<NamedValue>& values,
                                   const std::string& pattern, const std::string& what) {
  std::vector<NamedValue> found;
  std::map<std::string, size_t> last;  // by scope
  for (size_t i = 0; i < values.size(); ++i) {
    if (GlobMatch(pattern, values[i].name)) found.push_back(values[i]);
    if (values[i].at.value.index > 0) continue;  // what an op keeps for its gradient
    for (const std::string& scope : ScopesOf(values[i].name)) {
      if (GlobMatch(pattern, scope)) last[scope] = i;
    }
  }
  if (!found.empty()) return found;
  if (last.empty()) FailToFind(values, pattern, what);
  std::set<size_t> indices;  // a module and its only part end in the same value
  for (const auto& [scope, index] : last) indices.insert(index);
  for (const size_t i : indices) found.push_back(values[i]);
  return found;
}

std::vector<std::string> FigureNames() {
  std::vector<std::string> names;
  for (const Figure& f : kFigures) names.emplace_back(f.name);
  return names;
}

Figures ComputeFigures(const Tensor& tensor, const std::vector<std::string>& names) {
  Sums sums;
  for (int64_t i = 0; i < tensor.size(); ++i) sums.Add(tensor.Get(i));
  Figures out;
  for (const std::string& name : names) {
    const auto* figure = std::find_if(std::begin(kFigures), std::end(kFigures),
                                      [&](const Figure& f) { return name == f.name; });
    STATOR_CHECK(figure != std::end(kFigures), "no figure is named ", name);
    out.emplace_back(name,
                     tensor.size() == 0 ? 0 : figure->of(sums, static_cast<double>(tensor.size())));
  }
  return out;
}

}  // namespace stator
