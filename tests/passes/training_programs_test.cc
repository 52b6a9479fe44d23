// The programs of a run, executed by the interpreter over one table of states.
#include "passes/training_programs.h"

#include "ir/base/error.h"
#include "ir/builder.h"
#include "ir/interpreter.h"
#include "passes/analysis/shadows.h"
#include "passes/pipeline.h"
#include "tests/passes/random_inputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace stator::testing {
namespace {

using States = std::map<std::string, Tensor>;

OptimizerSpec Momentum() {
  OptimizerSpec spec;
  spec.schedule = [](Builder& b, Value step) {
    return b.Div(b.Constant(0.05, DType::kF32), b.Add(step, 1));
  };
  spec.update = [](Builder& b, const ParameterUpdate& u) {
    const Value m =
        b.graph().AddState(u.name + ".m", u.parameter.type(), {{"role", std::string("moment")}});
    const Value next = b.Add(b.Mul(m, 0.9), u.gradient);
    b.graph().SetNextState(m, next);
    return b.Sub(u.parameter, b.Mul(next, u.learning_rate));
  };
  return spec;
}

// Two layers over `rows` rows and a masked squared error: a loss that counts what it averages.
std::unique_ptr<Graph> TwoLayers(int64_t rows, bool dropout = false) {
  auto graph = std::make_unique<Graph>("model");
  Builder b(*graph);
  const Value x = graph->AddInput("x", {DType::kF32, {rows, 4}});
  const Value mask = graph->AddInput("mask", {DType::kF32, {rows, 1}});
  const AttrMap trainable = {{"trainable", true}};
  const Value v = graph->AddState("v", {DType::kF32, {4, 8}}, trainable);
  const Value c = graph->AddState("c", {DType::kF32, {8}}, trainable);
  const Value w = graph->AddState("w", {DType::kF32, {8, 2}}, trainable);
  Value h = b.Create1("gelu", {b.Add(b.MatMul(x, v), c)});
  if (dropout) {
    const Value seed = graph->AddState("seed", {DType::kU32, {2}}, {{"role", std::string("seed")}});
    const Value step =
        graph->AddState("step", {DType::kI64, {}}, {{"role", std::string("counter")}});
    h = b.Create1("dropout", {h, seed, step}, {{"rate", 0.5}, {"stream", int64_t{3}}});
  }
  const Value y = b.MatMul(h, w);
  const Value sum = b.Sum(b.Mul(b.Mul(y, y), mask), Dims{}, true);
  const Value count = b.Sum(mask, Dims{}, true);
  graph->AddOutput("loss", b.Div(sum, b.Max2(count, b.Constant(1, DType::kF32))));
  graph->AddOutput("weight", count);
  return graph;
}

States StatesOf(const TrainingGraphs& graphs) {
  States states;
  for (const Graph* g : graphs.all()) states = RandomParams(*g, std::move(states));
  return states;
}

InterpreterResult RunOn(const Graph& graph, States& states, const States& inputs) {
  States params = states;
  for (const auto& [name, value] : inputs) params[name] = value;
  InterpreterResult result = Interpret(graph, params);
  for (const auto& [name, value] : result.next_states) states[name] = value;
  return result;
}

Tensor Output(const Graph& graph, const InterpreterResult& result, const std::string& name) {
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    if (graph.outputs()[i].name == name) return result.outputs[i];
  }
  ADD_FAILURE() << "no output " << name;
  return {};
}

Tensor Rows(const Tensor& t, int64_t begin, int64_t end) {
  const int64_t width = t.size() / t.type.shape[0];
  Tensor part(Type{t.type.dtype, {end - begin, width}});
  for (int64_t k = 0; k < part.size(); ++k) part.f[k] = t.f[begin * width + k];
  return part;
}

States Batch(int64_t rows) {
  States inputs;
  Tensor x(Type{DType::kF32, {rows, 4}}), mask(Type{DType::kF32, {rows, 1}});
  for (int64_t k = 0; k < x.size(); ++k) x.Set(k, std::sin(1.0 + static_cast<double>(k)));
  for (int64_t k = 0; k < rows; ++k) mask.Set(k, k % 3 == 0 ? 0 : 1);
  return {{"x", x}, {"mask", mask}};
}

class TrainingProgramsTest : public ::testing::Test {
 protected:
  TrainingProgramsTest() : spec_(Momentum()) { options_.optimizer = &spec_; }
  OptimizerSpec spec_;
  PassOptions options_;
};

TEST_F(TrainingProgramsTest, micro_batches_of_unequal_weight_train_as_one_batch) {
  options_.micro_batches = 1;
  const TrainingGraphs whole = BuildTrainingGraphs(*TwoLayers(12), options_);
  options_.micro_batches = 3;
  const TrainingGraphs split = BuildTrainingGraphs(*TwoLayers(4), options_);
  States a = StatesOf(whole), b = StatesOf(split);
  const States batch = Batch(12);
  for (int step = 0; step < 3; ++step) {
    const InterpreterResult r = RunOn(*whole.train, a, batch);
    for (int m = 0; m < 3; ++m) {
      RunOn(*split.accumulate, b,
            {{"x", Rows(batch.at("x"), 4 * m, 4 * m + 4)},
             {"mask", Rows(batch.at("mask"), 4 * m, 4 * m + 4)}});
    }
    const InterpreterResult u = RunOn(*split.update, b, {});
    for (const char* name : {"loss", "grad_norm", "lr", "finite", "weight"}) {
      EXPECT_NEAR(Output(*whole.train, r, name).Get(0), Output(*split.update, u, name).Get(0), 1e-5)
          << name;
    }
    for (const char* name : {"v", "c", "w", "w.m"}) {
      for (int64_t k = 0; k < a.at(name).size(); ++k)
        EXPECT_NEAR(a.at(name).f[k], b.at(name).f[k], 1e-5);
    }
    EXPECT_EQ(b.at("step").i[0], step + 1);
  }
  for (const auto& [name, value] : b) {
    if (!name.starts_with("grad/") && !name.starts_with("sum/")) continue;
    for (const double x : value.f) EXPECT_EQ(x, 0) << name;
  }
}

TEST_F(TrainingProgramsTest, a_batch_that_is_not_finite_changes_nothing) {
  const TrainingGraphs graphs = BuildTrainingGraphs(*TwoLayers(6), options_);
  States states = StatesOf(graphs);
  const States before = states;
  States batch = Batch(6);
  batch.at("x").f[5] = std::numeric_limits<double>::infinity();
  const InterpreterResult r = RunOn(*graphs.train, states, batch);
  EXPECT_EQ(Output(*graphs.train, r, "finite").i[0], 0);
  for (const auto& [name, value] : before) {
    EXPECT_EQ(value.f, states.at(name).f) << name;
    EXPECT_EQ(value.i, states.at(name).i) << name;
  }
}

TEST_F(TrainingProgramsTest, a_sum_that_is_not_finite_is_cleared) {
  options_.micro_batches = 2;
  const TrainingGraphs graphs = BuildTrainingGraphs(*TwoLayers(6), options_);
  States states = StatesOf(graphs);
  States batch = Batch(6);
  batch.at("x").f[5] = std::numeric_limits<double>::infinity();
  RunOn(*graphs.accumulate, states, batch);
  const Tensor w = states.at("w");
  RunOn(*graphs.update, states, {});
  EXPECT_EQ(w.f, states.at("w").f);
  EXPECT_EQ(states.at("grad/w").f, std::vector<double>(16, 0.0));
}

TEST_F(TrainingProgramsTest, no_token_at_all_gives_zero_loss_and_gradient) {
  options_.micro_batches = 2;
  const TrainingGraphs graphs = BuildTrainingGraphs(*TwoLayers(6), options_);
  States states = StatesOf(graphs), batch = Batch(6);
  for (double& m : batch.at("mask").f) m = 0;
  for (int m = 0; m < 2; ++m) RunOn(*graphs.accumulate, states, batch);
  const InterpreterResult u = RunOn(*graphs.update, states, {});
  EXPECT_EQ(Output(*graphs.update, u, "loss").f[0], 0);
  EXPECT_EQ(Output(*graphs.update, u, "grad_norm").f[0], 0);
}

TEST_F(TrainingProgramsTest, micro_batches_draw_different_dropout_and_evaluate_draws_none) {
  options_.micro_batches = 2;
  const TrainingGraphs graphs = BuildTrainingGraphs(*TwoLayers(6, /*dropout=*/true), options_);
  States states = StatesOf(graphs);
  const States batch = Batch(6);
  const double first =
      Output(*graphs.accumulate, RunOn(*graphs.accumulate, states, batch), "loss").f[0];
  const double second =
      Output(*graphs.accumulate, RunOn(*graphs.accumulate, states, batch), "loss").f[0];
  EXPECT_NE(first, second);
  const Tensor w = states.at("w");
  RunOn(*graphs.update, states, {});
  EXPECT_EQ(states.at("micro_batch").i[0], 0);
  EXPECT_NE(w.f, states.at("w").f);

  const TrainingGraphs plain = BuildTrainingGraphs(*TwoLayers(6), options_);
  States a = states, b = states;
  const double dropped = Output(*graphs.evaluate, RunOn(*graphs.evaluate, a, batch), "loss").f[0];
  const double without = Output(*plain.evaluate, RunOn(*plain.evaluate, b, batch), "loss").f[0];
  EXPECT_EQ(dropped, without);
  EXPECT_TRUE(graphs.evaluate->next_states().empty());
}

TEST_F(TrainingProgramsTest, shadows_follow_their_masters) {
  options_.compute_dtype = DType::kBF16;
  for (const int micro_batches : {1, 2}) {
    options_.micro_batches = micro_batches;
    const TrainingGraphs graphs = BuildTrainingGraphs(*TwoLayers(6), options_);
    States states = StatesOf(graphs);
    const States batch = Batch(6), start = states;
    for (int step = 0; step < 2; ++step) {
      if (graphs.train) RunOn(*graphs.train, states, batch);
      for (int m = 0; graphs.accumulate && m < 2; ++m) RunOn(*graphs.accumulate, states, batch);
      if (graphs.update) RunOn(*graphs.update, states, {});
    }
    int shadows = 0;
    for (const auto& [name, value] : states) {
      if (!name.ends_with(".bf16")) continue;
      ++shadows;
      const Tensor& master = states.at(ShadowedName(name));
      EXPECT_NE(master.f, start.at(ShadowedName(name)).f);
      for (int64_t k = 0; k < value.size(); ++k) {
        EXPECT_EQ(value.f[k], RoundFloat(DType::kBF16, master.f[k])) << name;
      }
    }
    EXPECT_EQ(shadows, 2);  // v and w; the bias is added in f32
    EXPECT_TRUE(graphs.evaluate->FindState("w.bf16"));
  }
}

// Halves hold what a master and its shadow hold, as long as none is halfway between two bf16s.
TEST_F(TrainingProgramsTest, split_masters_train_like_whole_ones) {
  options_.compute_dtype = DType::kBF16;
  for (const int micro_batches : {1, 2}) {
    options_.micro_batches = micro_batches;
    const TrainingGraphs whole = BuildTrainingGraphs(*TwoLayers(6), options_);
    const TrainingGraphs split = BuildTrainingGraphs(*TwoLayers(6), options_);
    for (Graph* graph : split.all()) {
      PassManager(StatePasses()).Run(*graph, options_);
      EXPECT_FALSE(graph->FindState("w"));
    }
    States a = StatesOf(whole), b = StatesOf(split);
    for (int step = 0; step < 3; ++step) {
      for (const auto& [graphs, states] : {std::pair(&whole, &a), std::pair(&split, &b)}) {
        if (graphs->train) RunOn(*graphs->train, *states, Batch(6));
        for (int m = 0; graphs->accumulate && m < 2; ++m) {
          RunOn(*graphs->accumulate, *states, Batch(6));
        }
        if (graphs->update) RunOn(*graphs->update, *states, {});
      }
    }
    for (const std::string name : {"v", "w"}) {
      EXPECT_EQ(a.at(name + ".bf16").f, b.at(name + ".bf16").f);
      for (int64_t k = 0; k < a.at(name).size(); ++k) {
        EXPECT_EQ(LowHalf(static_cast<float>(a.at(name).f[k])), b.at(name + ".low").i[k]);
      }
    }
    EXPECT_EQ(a.at("c").f, b.at("c").f);  // added in f32, has no shadow
  }
}

TEST_F(TrainingProgramsTest, bf16_trains_like_f32) {
  const TrainingGraphs wide = BuildTrainingGraphs(*TwoLayers(12), options_);
  options_.compute_dtype = DType::kBF16;
  const TrainingGraphs narrow = BuildTrainingGraphs(*TwoLayers(12), options_);
  States a = StatesOf(wide), b = StatesOf(narrow);
  const States batch = Batch(12);
  double first = 0, last = 0;
  for (int step = 0; step < 10; ++step) {
    last = Output(*wide.train, RunOn(*wide.train, a, batch), "loss").f[0];
    const double low = Output(*narrow.train, RunOn(*narrow.train, b, batch), "loss").f[0];
    if (step == 0) first = last;
    EXPECT_NEAR(low, last, 0.02 * first);
  }
  EXPECT_LT(last, 0.5 * first);
}

TEST_F(TrainingProgramsTest, lower_passes_keep_every_bit_of_the_update) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    options_.compute_dtype = dtype;
    const TrainingGraphs graphs = BuildTrainingGraphs(*TwoLayers(6), options_);
    const std::unique_ptr<Graph> lowered = graphs.train->Clone();
    PassManager({FindPass("expand-composites")}).Run(*lowered, options_);
    const std::unique_ptr<Graph> expanded = lowered->Clone();
    std::vector<Pass> rest = LowerPasses();
    rest.erase(rest.begin());
    PassManager(rest).Run(*lowered, options_);
    States a = StatesOf(graphs), b = a;
    RunOn(*expanded, a, Batch(6));
    RunOn(*lowered, b, Batch(6));
    for (const auto& [name, value] : a) EXPECT_EQ(value.f, b.at(name).f) << name;
  }
}

TEST_F(TrainingProgramsTest, a_model_without_loss_is_an_error) {
  Graph graph("m");
  graph.AddState("w", {DType::kF32, {}}, {{"trainable", true}});
  EXPECT_THROW(BuildTrainingGraphs(graph, options_), Error);
}

}  // namespace
}  // namespace stator::testing
