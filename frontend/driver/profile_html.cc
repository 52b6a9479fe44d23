// A profile as one page that loads nothing: figures, roofline, timeline, and tables that sort.
#include "frontend/driver/format.h"
#include "frontend/driver/html.h"
#include "frontend/driver/profile_data.h"
#include "frontend/driver/profile_svg.h"
#include "ir/base/str.h"

namespace stator {
namespace {

using Row = std::vector<HtmlCell>;

std::string RowsTable(const char* what, const std::vector<ProfileRow>& rows, bool where) {
  std::vector<std::string> heads = {what,        "calls",   "us / update", "share %", "GB/s",
                                    "% of copy", "TFLOP/s", "% of peak",   "bound"};
  if (where) heads.push_back("where");
  std::vector<Row> cells;
  for (const ProfileRow& r : rows) {
    Row row = {HtmlWords(r.name),
               HtmlNumber("%.0f", r.calls),
               HtmlNumber("%.1f", r.seconds * 1e6),
               HtmlNumber("%.2f", r.share * 100),
               HtmlNumber("%.1f", r.bytes_per_second() * 1e-9),
               HtmlNumber("%.1f", r.of_copy() * 100),
               HtmlNumber("%.4f", r.flops_per_second() * 1e-12),
               HtmlNumber("%.1f", r.of_math() * 100),
               HtmlWords(Name(r.bound()))};
    if (where) row.push_back(HtmlWords(r.where));
    cells.push_back(std::move(row));
  }
  return HtmlTable(heads, cells);
}

std::string StepsTable(const Profile& p) {
  const double total = p.step_seconds();
  std::vector<Row> cells;
  for (const ProfiledStep& s : p.steps) {
    cells.push_back({HtmlWords(s.program), HtmlNumber("%.0f", s.index), HtmlWords(s.scope),
                     HtmlWords(s.name), HtmlNumber("%.1f", s.seconds * 1e6),
                     HtmlNumber("%.2f", total > 0 ? 100 * s.update_seconds() / total : 0),
                     HtmlNumber("%.3f", s.bytes * 1e-6), HtmlNumber("%.3f", s.flops * 1e-6),
                     HtmlWords(s.kernel)});
  }
  return HtmlTable(
      {"program", "step", "scope", "name", "us / run", "share %", "MB", "Mflop", "kernel"}, cells);
}

std::string Fact(const std::string& term, const std::string& text) {
  return StrCat("<dt>", HtmlText(term), "</dt><dd>", HtmlText(text), "</dd>\n");
}

std::string Facts(const Profile& p) {
  return StrCat("<dl>", Fact("device", p.device), Fact("data", p.data),
                Fact("timed by", StrCat(p.method, Format("; medians of %lld updates after %lld",
                                                         static_cast<long long>(p.updates),
                                                         static_cast<long long>(p.warmup)))),
                Fact("ceilings", CeilingsText(p.ceilings)),
                Fact("clocks", ConditionsText(p.conditions)), Fact("update", UpdateText(p)),
                "</dl>\n");
}

std::string Slow(const std::vector<ProfileRow>& kernels) {
  const std::vector<ProfileRow> slow = SlowRows(kernels);
  std::string out = Format(
      "<h2>Memory-bound, over %.0f %% of the update, below %.0f %% of copy speed"
      "</h2>\n",
      kSlowShare * 100, kSlowPart * 100);
  if (slow.empty()) return out + "<p>No kernel.</p>\n";
  return out + RowsTable("kernel", slow, true);
}

std::string Comparison(const Profile& first, const Profile& second) {
  std::vector<Row> cells;
  for (const ScopeDifference& d : CompareScopes(first, second)) {
    cells.push_back({HtmlWords(d.scope), HtmlNumber("%.1f", d.first * 1e6),
                     HtmlNumber("%.1f", d.second * 1e6),
                     HtmlNumber("%.1f", (d.second - d.first) * 1e6)});
  }
  const double a = first.step_seconds(), b = second.step_seconds();
  return StrCat(
      "<h2>", HtmlText(first.variant), " against ", HtmlText(second.variant), "</h2>\n<p>",
      Format("%.3f ms in %zu steps against %.3f ms in %zu steps: %.3f ms saved an update.", a * 1e3,
             first.steps.size(), b * 1e3, second.steps.size(), (b - a) * 1e3),
      "</p>\n",
      HtmlTable({"scope", first.variant + ", us", second.variant + ", us", "saved, us"}, cells));
}

constexpr const char* kKey =
    "<p class=\"faint\"><i class=\"key kernel\"></i>generated kernel<i class=\"key "
    "matmul\"></i>matmul"
    "<i class=\"key attention\"></i>attention<i class=\"key other\"></i>sort, sum, copy, "
    "fill</p>\n";

}  // namespace

std::string ProfileHtml(const Profile& p, const std::vector<Profile>& others) {
  const std::vector<ProfileRow> kernels = KernelRows(p);
  std::string body =
      StrCat("<h1>", HtmlText(StrCat(p.title, ", ", p.variant)), "</h1>\n", Facts(p));
  body += StrCat("<h2>Roofline</h2>\n", kKey, RooflineSvg(p, kernels));
  body += StrCat("<h2>One update</h2>\n", kKey, TimelineSvg(p), Slow(kernels));
  for (const Profile& other : others) body += Comparison(p, other);
  body += StrCat("<h2>Kernels</h2>\n", RowsTable("kernel", kernels, true));
  body += StrCat("<h2>Scopes</h2>\n", RowsTable("scope", ScopeRows(p), false));
  body += StrCat("<h2>Steps</h2>\n", StepsTable(p));
  body +=
      "<p class=\"faint\">Bytes and flops are what the IR must read, write and compute at least; a "
      "value that stays in a cache can make a step faster than copy speed.</p>\n";
  return HtmlPage("stator profile: " + p.title, body);
}

}  // namespace stator
