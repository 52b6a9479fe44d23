// Helpers of the DSL's tests.
#pragma once

#include "frontend/dsl/model.h"
#include "ir/base/error.h"
#include "ir/interpreter.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace stator::dsl {

// A host tensor with these elements.
stator::Tensor Host(const Type& type, const std::vector<double>& elements);

using Params = std::map<std::string, stator::Tensor>;

// The only output of `graph`, with states not in `params` made by their initializers (seed 0).
std::vector<stator::Tensor> Run(const Graph& graph, Params params);
// The elements of one tensor of a model.
std::vector<double> Eval(const Tensor& t, const Params& params = {});

// Compares with tests/frontend/dsl/golden/<name>.ir. STATOR_UPDATE=1 in the environment writes the
// file instead.
void ExpectGolden(const Graph& graph, const std::string& name);

// The message of the `Error` that `f` throws; fails when it throws none.
template <typename F>
std::string ErrorOf(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

inline bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
#define EXPECT_HAS(text, part) EXPECT_PRED2(Has, text, part)

}  // namespace stator::dsl
