#include "tests/frontend/dsl/dsl_support.h"

#include "frontend/dsl/initializer.h"
#include "ir/text.h"
#include "ir/verifier.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace stator::dsl {

stator::Tensor Host(const Type& type, const std::vector<double>& elements) {
  stator::Tensor t(type);
  STATOR_CHECK(t.size() == static_cast<int64_t>(elements.size()), "element count");
  for (int64_t k = 0; k < t.size(); ++k) t.Set(k, elements[k]);
  return t;
}

std::vector<stator::Tensor> Run(const Graph& graph, Params params) {
  VerifyGraph(graph);
  for (const Param& p : graph.states()) {
    if (params.contains(p.name)) continue;
    stator::Tensor t(p.node->type());
    if (IsFloat(t.type.dtype)) {
      const std::vector<float> init = Initialize(p.node->view().Str("init"), t.type, 0, p.name);
      for (int64_t k = 0; k < t.size(); ++k) t.Set(k, init[k]);
    }
    params.emplace(p.name, t);
  }
  return Interpret(graph, params).outputs;
}

std::vector<double> Eval(const Tensor& t, const Params& params) {
  const std::unique_ptr<Graph> copy = [&] {
    Graph& g = t.model().graph();
    g.AddOutput("test", t.value());
    std::unique_ptr<Graph> clone = g.Clone();
    g.RemoveOutputs([](const Output& o) { return o.name == "test"; });
    return clone;
  }();
  const stator::Tensor result = Run(*copy, params).back();
  std::vector<double> out;
  for (int64_t k = 0; k < result.size(); ++k) out.push_back(result.Get(k));
  return out;
}

void ExpectGolden(const Graph& graph, const std::string& name) {
  VerifyGraph(graph);
  const std::string text = PrintGraph(graph);
  EXPECT_EQ(PrintGraph(*ParseGraph(text)), text);
  const std::string path = StrCat(STATOR_SOURCE_DIR, "/tests/frontend/dsl/golden/", name, ".ir");
  if (std::getenv("STATOR_UPDATE") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file) << path << " is missing; STATOR_UPDATE=1 writes it";
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str()) << path << "; STATOR_UPDATE=1 rewrites it";
}

}  // namespace stator::dsl
