// Which step an activity of the device belongs to.
#include "runtime/step_activities.h"

#include <gtest/gtest.h>

namespace stator {
namespace {

// A kernel, a product of two kernels, a step without work, a copy.
Plan HandPlan() {
  Plan plan;
  plan.kernels = {{"k_add", 0}};
  Program& program = plan.programs.emplace_back();
  for (const StepWork& work : {StepWork(KernelCall()), StepWork(MatMulCall()), StepWork(FillCall()),
                               StepWork(CopyCall())}) {
    program.steps.emplace_back().work = work;
  }
  return plan;
}

const std::vector<int> kCounts = {1, 2, 0, 1};

TEST(StepActivities, go_to_steps_in_the_order_of_their_starts) {
  const Plan plan = HandPlan();
  std::vector<StepSpan> spans;
  const std::string why = AssignActivities(
      plan, plan.programs[0], kCounts,
      {{6000, 7000, ""}, {1000, 2000, "k_add"}, {4000, 5000, "reduce"}, {2500, 4000, "gemm"}},
      &spans);
  ASSERT_EQ(why, "");
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_DOUBLE_EQ(spans[0].start, 0);
  EXPECT_DOUBLE_EQ(spans[0].seconds(), 1e-6);
  EXPECT_DOUBLE_EQ(spans[1].start, 1.5e-6);
  EXPECT_DOUBLE_EQ(spans[1].end, 4e-6);
  EXPECT_EQ(spans[2].seconds(), 0);
  EXPECT_DOUBLE_EQ(spans[3].seconds(), 1e-6);
}

TEST(StepActivities, that_do_not_fit_are_refused_with_the_reason) {
  Plan plan = HandPlan();
  std::vector<StepSpan> spans;
  const auto why = [&](std::vector<DeviceActivity> a) {
    return AssignActivities(plan, plan.programs[0], kCounts, std::move(a), &spans);
  };
  EXPECT_EQ(why({{0, 1, "k_add"}}), "the device reported 1 activities, the program has 4");
  EXPECT_EQ(why({{0, 1, "gemm"}, {1, 2, "k_add"}, {2, 3, "x"}, {3, 4, ""}}),
            "step 0 should run k_add, the device reported gemm");
  plan.programs[0].steps[3].stream = 1;
  EXPECT_EQ(why({{0, 1, "k_add"}, {1, 2, "g"}, {2, 3, "x"}, {3, 4, ""}}),
            "the program has several streams");
}

}  // namespace
}  // namespace stator
