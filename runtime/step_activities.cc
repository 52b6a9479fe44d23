#include "runtime/step_activities.h"

#include "ir/base/error.h"

#include <algorithm>
#include <numeric>

namespace stator {

std::string AssignActivities(const Plan& plan, const Program& program,
                             const std::vector<int>& counts, std::vector<DeviceActivity> activities,
                             std::vector<StepSpan>* spans) {
  STATOR_CHECK(counts.size() == program.steps.size(), counts.size(), " counts for ",
               program.steps.size(), " steps");
  for (const PlanStep& step : program.steps) {
    if (step.stream != 0) return "the program has several streams";
  }
  const auto expected = static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), 0));
  if (activities.size() != expected) {
    return StrCat("the device reported ", activities.size(), " activities, the program has ",
                  expected);
  }
  std::stable_sort(activities.begin(), activities.end(),
                   [](const DeviceActivity& a, const DeviceActivity& b) {
                     return a.start != b.start ? a.start < b.start : a.end < b.end;
                   });
  spans->assign(program.steps.size(), {});
  const uint64_t zero = activities.empty() ? 0 : activities[0].start;
  const auto seconds = [zero](uint64_t ns) { return static_cast<double>(ns - zero) * 1e-9; };
  size_t at = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    StepSpan& span = (*spans)[i];
    // A step without work on the device is a moment.
    span.start = span.end = i == 0 ? 0 : (*spans)[i - 1].end;
    for (int k = 0; k < counts[i]; ++k, ++at) {
      const DeviceActivity& activity = activities[at];
      const auto* call = std::get_if<KernelCall>(&program.steps[i].work);
      if (call != nullptr && activity.kernel != plan.kernels[call->kernel].name) {
        return StrCat("step ", i, " should run ", plan.kernels[call->kernel].name,
                      ", the device reported ",
                      activity.kernel.empty() ? "a copy or fill" : activity.kernel);
      }
      if (k == 0) span.start = seconds(activity.start);
      span.end = std::max(k == 0 ? 0 : span.end, seconds(activity.end));
    }
  }
  return "";
}

}  // namespace stator
