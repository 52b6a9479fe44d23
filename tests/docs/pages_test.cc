// What pages say of the code: the model of docs/tour.md, whose text is docs/tour/tiny.ir, and the
// ops that docs/ir.md lists.
#include "frontend/dsl/dsl.h"
#include "ir/text.h"
#include "tests/docs/document.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

using namespace stator::dsl;

namespace {

void DeclareTiny(Model& m) {
  const Tensor x = m.Input("x", {64, 32}, kF32), y = m.Input("y", {64, 8}, kF32);
  const Tensor h = RmsNorm(m.scope() / "norm", x);
  const Tensor prediction = Linear(m.scope() / "out", h, 8, {.bias = false});
  m.SetLoss(MeanSquaredError(prediction, y));
}

TEST(Tour, starts_from_the_text_of_its_model) {
  Model m("tiny");
  DeclareTiny(m);
  const std::string path = STATOR_SOURCE_DIR "/docs/tour/tiny.ir";
  const std::string text = stator::PrintGraph(m.graph());
  if (std::getenv("STATOR_UPDATE_TESTS") != nullptr) std::ofstream(path) << text;
  EXPECT_EQ(stator::testing::ReadWholeFile(path), text);
}

TEST(IrPage, lists_every_op) {
  std::string text = stator::testing::ReadWholeFile(STATOR_SOURCE_DIR "/docs/ir.md");
  text = text.substr(text.find("\n## 7. Ops"));
  std::istringstream words(std::regex_replace(text, std::regex("[`|,;]"), " "));
  const std::set<std::string> listed{std::istream_iterator<std::string>(words), {}};
  for (const stator::OpDef* op : stator::DefaultOps().All()) {
    EXPECT_TRUE(listed.contains(op->name)) << op->name;
  }
}

}  // namespace
