// What a profile found, as plain data, and its sums by kernel and by scope. The printers of
// `stator profile` (profile_text, profile_json, profile_trace, profile_html) read this and no more.
#pragma once

#include "codegen/plan.h"
#include "frontend/driver/ceilings.h"
#include "runtime/timed_run.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stator {

// A step of the plan. Bytes and flops are the IR's: what it must read, write and compute at least.
struct ProfiledStep {
  std::string program;
  int index = 0;  // in its program
  int runs = 1;   // of its program in an update
  std::string name, scope;
  std::string kind;    // "kernel", "matmul", "attention", ...
  std::string kernel;  // what equal steps share: a kernel's name, or a library call with its shapes
  DType dtype = DType::kF32;    // whose product speed bounds it
  double bytes = 0, flops = 0;  // of one run
  double seconds = 0;           // of one run, median

  double update_seconds() const { return seconds * runs; }
};

// A step as it ran in one update, seconds from its beginning; programs follow without gaps.
struct TimelineEntry {
  int step = 0;  // index into Profile::steps
  double start = 0, end = 0;
};

struct Profile {
  std::string title;    // "gpt2, 4 layers of width 128, f32"
  std::string variant;  // "fused", "unfused"
  std::string device;   // "h200, sm_90"
  std::string data;
  std::string method;  // how steps were timed
  int64_t updates = 0, warmup = 0;
  double clock_seconds = 0;  // of an update without timing its steps, by the host's clock
  Ceilings ceilings;
  DeviceConditions conditions;  // right after a timed update
  std::vector<ProfiledStep> steps;
  std::vector<TimelineEntry> timeline;

  double step_seconds() const;  // of an update: the sum over its steps
  // Of the timeline's update: when no step ran.
  double between_seconds() const;
};

enum class Bound { kNothing, kMemory, kMath };
const char* Name(Bound bound);  // "-", "memory", "math"

// Steps of one kernel or one scope, summed over an update.
struct ProfileRow {
  std::string name;
  std::string where;  // of a kernel: the scope it runs in, "h.*/attn"; "several" for more than two
  std::string kind;
  int calls = 0;
  double seconds = 0, bytes = 0, flops = 0;
  double share = 0;           // of the steps' sum
  double memory_seconds = 0;  // what the bytes take at copy speed
  double math_seconds = 0;    // what the flops take at the product speed of the steps' dtypes

  Bound bound() const;
  double bytes_per_second() const { return seconds > 0 ? bytes / seconds : 0; }
  double flops_per_second() const { return seconds > 0 ? flops / seconds : 0; }
  // Parts of the ceilings that are reached.
  double of_copy() const { return seconds > 0 ? memory_seconds / seconds : 0; }
  double of_math() const { return seconds > 0 ? math_seconds / seconds : 0; }
};

// The layer's number left open: "h.3/attn" -> "h.*/attn".
std::string ScopePattern(const std::string& scope);

// Longest first.
std::vector<ProfileRow> KernelRows(const Profile& profile);
std::vector<ProfileRow> ScopeRows(const Profile& profile);

// Memory-bound kernels of more than kSlowShare of the update that reach less than kSlowPart of copy
// speed: where a better kernel would pay.
inline constexpr double kSlowShare = 0.01, kSlowPart = 0.9;
std::vector<ProfileRow> SlowRows(const std::vector<ProfileRow>& kernels);

// What another variant of the same model takes beside the first.
struct ScopeDifference {
  std::string scope;
  double first = 0, second = 0;  // seconds of an update
};
std::vector<ScopeDifference> CompareScopes(const Profile& first, const Profile& second);

// "copy 19.5 GB/s read and written, matmul f32 0.120 TFLOP/s, measured in this run"
std::string CeilingsText(const Ceilings& ceilings);
std::string ConditionsText(const DeviceConditions& conditions);
// "107.6 ms by the clock; 105.2 ms in its 341 steps, 0.3 ms between them"
std::string UpdateText(const Profile& profile);

// The printers. `others`: the variants compared with the first.
std::string ProfileText(const Profile& profile, const std::vector<Profile>& others);
std::string ProfileJson(const Profile& profile, const std::vector<Profile>& others);
std::string ProfileTrace(const Profile& profile);  // Chrome's trace event format, for Perfetto
std::string ProfileHtml(const Profile& profile, const std::vector<Profile>& others);

}  // namespace stator
