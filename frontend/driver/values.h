// The values of a compiled step by names that people can write, and figures of them.
#pragma once

#include "codegen/build_plan.h"
#include "ir/tensor.h"
#include "runtime/executor.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stator {

// A value that some step of a program stores. What fusion keeps in registers has no name here.
struct NamedValue {
  std::string name;     // "h.3/attn/proj/matmul", "backward/h.3/attn/proj/matmul.2"
  std::string program;  // whose step writes it
  StepValue at;
  // Of a value that is stored in halves (passes/split_masters.cc) `at` is the high one; both are
  // there after step at.step.
  std::optional<StepValue> low = {};

  Type type() const;
  // Its elements, once step at.step is done.
  std::vector<char> Read(Executor& executor) const;
};

// Of the programs of an update, in the order in which they are written. A name is the scope and the
// op; values that are no part of the forward pass begin with their phase; later ones of the same
// name get a number, what is stored in halves is one value under the name of the whole, and further
// results of an op theirs: "h.3/attn/core/attention[1]".
std::vector<NamedValue> NameValues(const StepValues& values);

// Those whose names match `pattern` (* is any run of characters), or, when none does, the last
// value of every module whose scope matches, which is its output. Throws `Error`
// (kInvalidArgument), which starts with `what` and says what is near, when neither matches.
std::vector<NamedValue> FindValues(const std::vector<NamedValue>& values,
                                   const std::string& pattern, const std::string& what);

// Figures of a tensor by name: absmax, rms, mean, min, max, nonfinite (a count).
using Figures = std::vector<std::pair<std::string, double>>;
std::vector<std::string> FigureNames();
// `names` must be among FigureNames(). Of an empty tensor all are 0. Elements that are not finite
// count as such in every figure: the maximum of a tensor with a nan is nan.
Figures ComputeFigures(const Tensor& tensor, const std::vector<std::string>& names);

}  // namespace stator
