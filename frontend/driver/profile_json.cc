// A profile as JSON: everything that was measured, for programs; and as a trace for Perfetto.
#include "frontend/driver/json.h"
#include "frontend/driver/profile_data.h"
#include "ir/base/str.h"

#include <set>

namespace stator {
namespace {

Json Row(const ProfileRow& r) {
  return Json::Object{{"name", r.name},
                      {"where", r.where},
                      {"kind", r.kind},
                      {"calls", r.calls},
                      {"us", r.seconds * 1e6},
                      {"share", r.share},
                      {"bytes", r.bytes},
                      {"flops", r.flops},
                      {"gb_per_s", r.bytes_per_second() * 1e-9},
                      {"of_copy", r.of_copy()},
                      {"tflop_per_s", r.flops_per_second() * 1e-12},
                      {"of_peak", r.of_math()},
                      {"bound", Name(r.bound())}};
}

Json Rows(const std::vector<ProfileRow>& rows) {
  Json::Array out;
  for (const ProfileRow& r : rows) out.push_back(Row(r));
  return out;
}

Json Steps(const Profile& p) {
  Json::Array out;
  const double total = p.step_seconds();
  for (const ProfiledStep& s : p.steps) {
    out.push_back(Json::Object{{"program", s.program},
                               {"step", s.index},
                               {"runs", s.runs},
                               {"name", s.name},
                               {"scope", s.scope},
                               {"kind", s.kind},
                               {"kernel", s.kernel},
                               {"us", s.seconds * 1e6},
                               {"share", total > 0 ? s.update_seconds() / total : 0},
                               {"bytes", s.bytes},
                               {"flops", s.flops}});
  }
  return out;
}

Json Conditions(const DeviceConditions& c) {
  if (!c.why_not.empty()) return Json::Object{{"why_not", c.why_not}};
  return Json::Object{{"sm_mhz", c.sm_mhz},
                      {"memory_mhz", c.memory_mhz},
                      {"watts", c.watts},
                      {"celsius", c.celsius}};
}

Json::Object Whole(const Profile& p) {
  Json::Object matmul;
  for (const auto& [dtype, flops] : p.ceilings.matmul) {
    matmul.emplace_back(std::string(Name(dtype)), flops * 1e-12);
  }
  const std::vector<ProfileRow> kernels = KernelRows(p);
  return {{"title", p.title},
          {"variant", p.variant},
          {"device", p.device},
          {"data", p.data},
          {"method", p.method},
          {"updates", p.updates},
          {"warmup", p.warmup},
          {"clock_ms", p.clock_seconds * 1e3},
          {"steps_ms", p.step_seconds() * 1e3},
          {"between_ms", p.between_seconds() * 1e3},
          {"copy_gb_per_s", p.ceilings.copy * 1e-9},
          {"matmul_tflop_per_s", std::move(matmul)},
          {"conditions", Conditions(p.conditions)},
          {"kernels", Rows(kernels)},
          {"scopes", Rows(ScopeRows(p))},
          {"slow", Rows(SlowRows(kernels))},
          {"steps", Steps(p)}};
}

// A complete event of Chrome's trace format; times in microseconds.
Json Span(const std::string& name, const std::string& category, int track, double start, double end,
          Json::Object args) {
  return Json::Object{{"name", name},
                      {"cat", category},
                      {"ph", "X"},
                      {"ts", start * 1e6},
                      {"dur", (end - start) * 1e6},
                      {"pid", 0},
                      {"tid", track},
                      {"args", std::move(args)}};
}

Json Named(const char* what, int track, const std::string& name) {
  return Json::Object{{"name", what},
                      {"ph", "M"},
                      {"pid", 0},
                      {"tid", track},
                      {"args", Json::Object{{"name", name}}}};
}

// "h.3/attn/qkv" -> "h.3"
std::string TopScope(const std::string& scope) { return scope.substr(0, scope.find('/')); }

// Neighbours with the same text as one span each.
template <typename Text>
void AddTrack(const Profile& p, int track, const char* category, Text text, Json::Array& events) {
  const std::vector<TimelineEntry>& t = p.timeline;
  for (size_t i = 0; i < t.size();) {
    const std::string name = text(p.steps[static_cast<size_t>(t[i].step)]);
    size_t end = i + 1;
    // A step that is not behind the one before it begins another run of the program.
    while (end < t.size() && t[end].step > t[end - 1].step &&
           text(p.steps[static_cast<size_t>(t[end].step)]) == name) {
      ++end;
    }
    if (!name.empty())
      events.push_back(Span(name, category, track, t[i].start, t[end - 1].end, {}));
    i = end;
  }
}

}  // namespace

std::string ProfileJson(const Profile& profile, const std::vector<Profile>& others) {
  Json::Object whole = Whole(profile);
  Json::Array compared;
  for (const Profile& p : others) compared.push_back(Whole(p));
  whole.emplace_back("compared", std::move(compared));
  return PrintJson(whole, 1) + "\n";
}

std::string ProfileTrace(const Profile& p) {
  enum { kPrograms, kScopes, kSteps };
  Json::Array events = {Named("process_name", 0, StrCat(p.title, " on ", p.device)),
                        Named("thread_name", kPrograms, "programs"),
                        Named("thread_name", kScopes, "scopes"),
                        Named("thread_name", kSteps, "steps")};
  AddTrack(
      p, kPrograms, "program", [](const ProfiledStep& s) { return s.program; }, events);
  AddTrack(
      p, kScopes, "scope", [](const ProfiledStep& s) { return TopScope(s.scope); }, events);
  for (const TimelineEntry& t : p.timeline) {
    const ProfiledStep& s = p.steps[static_cast<size_t>(t.step)];
    const double seconds = t.end - t.start;
    events.push_back(Span(s.scope.empty() ? s.name : StrCat(s.scope, " ", s.name), s.kind, kSteps,
                          t.start, t.end,
                          {{"program", s.program},
                           {"step", s.index},
                           {"kernel", s.kernel},
                           {"bytes", s.bytes},
                           {"flops", s.flops},
                           {"GB/s", seconds > 0 ? s.bytes / seconds * 1e-9 : 0.0},
                           {"TFLOP/s", seconds > 0 ? s.flops / seconds * 1e-12 : 0.0}}));
  }
  return PrintJson(Json::Object{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}) +
         "\n";
}

}  // namespace stator
