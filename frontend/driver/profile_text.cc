// A profile for the terminal: the largest rows, and what all others sum to.
#include "frontend/driver/format.h"
#include "frontend/driver/profile_data.h"
#include "ir/base/str.h"

#include <algorithm>
#include <cmath>

namespace stator {
namespace {

constexpr size_t kRows = 20;  // of a table; --html and --json have all
constexpr size_t kNameWidth = 44;

std::string Shortened(const std::string& text, size_t width) {
  if (text.size() <= width) return text + std::string(width - text.size(), ' ');
  return text.substr(0, width - 3) + "...";
}

std::string Table(const char* title, const std::vector<ProfileRow>& rows, bool where) {
  std::string out =
      StrCat("\n", Shortened(title, kNameWidth),
             "  calls   us/update   share      GB/s  of copy     TFLOP/s  of peak  bound");
  out += where ? "   where\n" : "\n";
  double rest = 0, rest_share = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const ProfileRow& r = rows[i];
    if (i >= kRows) {
      rest += r.seconds, rest_share += r.share;
      continue;
    }
    out += Shortened(r.name, kNameWidth);
    out += Format("  %5d  %10.1f  %5.1f %%  %8.1f  %5.1f %%  %10.4f  %5.1f %%  %-6s", r.calls,
                  r.seconds * 1e6, r.share * 100, r.bytes_per_second() * 1e-9, r.of_copy() * 100,
                  r.flops_per_second() * 1e-12, r.of_math() * 100, Name(r.bound()));
    out += where ? StrCat("  ", r.where, "\n") : "\n";
  }
  if (rows.size() > kRows) {
    out += Shortened(StrCat("and ", rows.size() - kRows, " more"), kNameWidth);
    out += Format("         %10.1f  %5.1f %%\n", rest * 1e6, rest_share * 100);
  }
  return out;
}

std::string Slow(const std::vector<ProfileRow>& slow) {
  std::string out = Format(
      "\nmemory-bound kernels over %.0f %% of the update and below %.0f %% of copy "
      "speed: %zu\n",
      kSlowShare * 100, kSlowPart * 100, slow.size());
  for (const ProfileRow& r : slow) {
    out += Format("  %5.1f %% of the update, %5.1f %% of copy speed  ", r.share * 100,
                  r.of_copy() * 100);
    out += StrCat(r.name, "  ", r.where, "\n");
  }
  return out;
}

std::string Comparison(const Profile& first, const Profile& second) {
  const double a = first.step_seconds(), b = second.step_seconds();
  std::string out = StrCat("\n", first.variant, " against ", second.variant, "\n");
  for (const Profile* p : {&first, &second}) {
    double bytes = 0;
    for (const ProfiledStep& s : p->steps) bytes += s.bytes * s.runs;
    out += StrCat("  ", Shortened(p->variant, 10),
                  Format("%10.3f ms in %zu steps, %s read and written, %.3f ms by the clock\n",
                         p->step_seconds() * 1e3, p->steps.size(), FormatBytes(bytes).c_str(),
                         p->clock_seconds * 1e3));
  }
  out += StrCat("  ", first.variant, a <= b ? " saves " : " costs ",
                Format("%.3f ms an update, %.1f %% of ", std::abs(b - a) * 1e3,
                       b > 0 ? 100 * std::abs(b - a) / b : 0),
                second.variant, "\n");
  out += StrCat("  ", Shortened("scope", kNameWidth), "  us/update   against       saved\n");
  const std::vector<ScopeDifference> scopes = CompareScopes(first, second);
  for (size_t i = 0; i < std::min(kRows, scopes.size()); ++i) {
    const ScopeDifference& d = scopes[i];
    out += StrCat("  ", Shortened(d.scope, kNameWidth),
                  Format("  %9.1f %9.1f   %9.1f\n", d.first * 1e6, d.second * 1e6,
                         (d.second - d.first) * 1e6));
  }
  if (scopes.size() > kRows) out += StrCat("  and ", scopes.size() - kRows, " more\n");
  return out;
}

}  // namespace

std::string CeilingsText(const Ceilings& c) {
  std::string out = Format("copy %.1f GB/s read and written", c.copy * 1e-9);
  for (const auto& [dtype, flops] : c.matmul) {
    out += StrCat(", matmul ", Name(dtype), Format(" %.3f TFLOP/s", flops * 1e-12));
  }
  return out + ", measured in this run";
}

std::string ConditionsText(const DeviceConditions& c) {
  if (!c.why_not.empty()) return c.why_not;
  return Format("SM %.0f MHz, memory %.0f MHz, %.0f W, %.0f C, right after an update", c.sm_mhz,
                c.memory_mhz, c.watts, c.celsius);
}

std::string UpdateText(const Profile& p) {
  return Format("%.3f ms by the clock; %.3f ms in its %zu steps, %.3f ms between them",
                p.clock_seconds * 1e3, p.step_seconds() * 1e3, p.steps.size(),
                p.between_seconds() * 1e3);
}

std::string ProfileText(const Profile& p, const std::vector<Profile>& others) {
  const std::vector<ProfileRow> kernels = KernelRows(p);
  std::string out = StrCat("profile   ", p.title, ", ", p.variant, "\n");
  out += StrCat("data      ", p.data, "\n");
  out += StrCat("device    ", p.device, "\n");
  out += StrCat("timed by  ", p.method,
                Format("; medians of %lld updates after %lld\n", static_cast<long long>(p.updates),
                       static_cast<long long>(p.warmup)));
  out += StrCat("ceilings  ", CeilingsText(p.ceilings), "\n");
  out += StrCat("clocks    ", ConditionsText(p.conditions), "\n");
  out += StrCat("update    ", UpdateText(p), "\n");
  out += Table("kernel", kernels, true);
  out += Table("scope", ScopeRows(p), false);
  out += Slow(SlowRows(kernels));
  for (const Profile& other : others) out += Comparison(p, other);
  return out;
}

}  // namespace stator
