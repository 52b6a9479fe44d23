#include "frontend/driver/profile_svg.h"

#include "frontend/driver/format.h"
#include "frontend/driver/html.h"
#include "ir/base/str.h"

#include <algorithm>
#include <cmath>

namespace stator {
namespace {

constexpr double kWidth = 1000, kHeight = 420, kLeft = 70, kRight = 20, kTop = 20, kBottom = 45;

// Decades from `low` to `high` along a side of the plot.
struct LogAxis {
  int low, high;
  double from, to;  // in the drawing
  double At(double v) const { return from + (to - from) * (std::log10(v) - low) / (high - low); }
};

std::string Line(const char* kind, double x1, double y1, double x2, double y2) {
  return StrCat("<line class=\"", kind, "\"",
                Format(" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x1, y1, x2, y2));
}

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return StrCat("<text", Format(" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor),
                HtmlText(text), "</text>\n");
}

std::string Power(int exponent) {
  return exponent >= -2 && exponent <= 4 ? Format("%g", std::pow(10, exponent))
                                         : Format("1e%d", exponent);
}

std::string Grid(const LogAxis& x, const LogAxis& y) {
  std::string out;
  for (int e = x.low; e <= x.high; ++e) {
    const double at = x.At(std::pow(10, e));
    out += Line("axis", at, y.from, at, y.to) + Text(at, y.from + 16, "middle", Power(e));
  }
  for (int e = y.low; e <= y.high; ++e) {
    const double at = y.At(std::pow(10, e));
    out += Line("axis", x.from, at, x.to, at) + Text(x.from - 6, at + 4, "end", Power(e));
  }
  out += Text((x.from + x.to) / 2, kHeight - 8, "middle", "flop / byte (by the IR)");
  return out + Text(x.from, kTop - 7, "start", "TFLOP/s");
}

// Each product ceiling with the copy's slope that leads to it.
std::string Roofs(const Profile& p, const LogAxis& x, const LogAxis& y) {
  std::string out;
  const double copy = p.ceilings.copy * 1e-12;  // TB/s
  const double floor = std::pow(10, y.low), left = std::pow(10, x.low),
               right = std::pow(10, x.high);
  double top = 0;
  for (const auto& [dtype, flops] : p.ceilings.matmul) {
    const double peak = flops * 1e-12;
    top = std::max(top, peak);
    out += Line("roof", x.At(std::clamp(peak / copy, left, right)), y.At(peak), x.to, y.At(peak));
    out += Text(x.to - 4, y.At(peak) - 5, "end",
                StrCat("matmul ", Name(dtype), Format(" %.3g TFLOP/s", peak)));
  }
  const double begin = std::max(left, floor / copy), end = std::min(right, top / copy);
  out += Line("roof", x.At(begin), y.At(begin * copy), x.At(end), y.At(end * copy));
  const double middle = std::sqrt(begin * end);
  return out + Text(x.At(middle) - 8, y.At(middle * copy) - 8, "end",
                    Format("copy %.3g GB/s", copy * 1e3));
}

}  // namespace

std::string ColourOf(const std::string& kind) {
  return kind == "kernel" || kind == "matmul" || kind == "attention" ? kind : "other";
}

std::string RooflineSvg(const Profile& p, const std::vector<ProfileRow>& kernels) {
  double least_x = 0.1, most_x = 100, least_y = 1e-3, most_y = 1e-3;
  for (const auto& [dtype, flops] : p.ceilings.matmul) {
    most_y = std::max(most_y, flops * 1e-12);
    most_x = std::max(most_x, 4 * flops / p.ceilings.copy);
  }
  least_y = most_y / 1e3;
  int left_out = 0;
  for (const ProfileRow& r : kernels) {
    const bool drawn = r.flops > 0 && r.bytes > 0 && r.seconds > 0;
    left_out += !drawn;
    if (!drawn) continue;
    least_x = std::min(least_x, r.flops / r.bytes), most_x = std::max(most_x, r.flops / r.bytes);
    least_y = std::min(least_y, r.flops_per_second() * 1e-12);
    most_y = std::max(most_y, r.flops_per_second() * 1e-12);
  }
  const auto low = [](double v) { return static_cast<int>(std::floor(std::log10(v))); };
  const auto high = [](double v) { return static_cast<int>(std::ceil(std::log10(v) + 1e-9)); };
  const LogAxis x{low(least_x), high(most_x), kLeft, kWidth - kRight};
  const LogAxis y{low(least_y), high(most_y), kHeight - kBottom, kTop};
  std::string out = Format(
      "<div class=\"scroll\"><svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
      "aria-label=\"roofline\">\n",
      kWidth, kHeight);
  out += Grid(x, y) + Roofs(p, x, y);
  for (const ProfileRow& r : kernels) {
    if (!(r.flops > 0 && r.bytes > 0 && r.seconds > 0)) continue;
    out += StrCat(
        "<circle class=\"", ColourOf(r.kind), "\"",
        Format(" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">", x.At(r.flops / r.bytes),
               y.At(r.flops_per_second() * 1e-12), 3 + 40 * std::sqrt(r.share)),
        "<title>", HtmlText(r.name),
        Format(": %.1f %% of the update, %.3g flop/byte, %.3g TFLOP/s, %.3g GB/s", r.share * 100,
               r.flops / r.bytes, r.flops_per_second() * 1e-12, r.bytes_per_second() * 1e-9),
        "</title></circle>\n");
  }
  out += "</svg></div>\n";
  if (left_out > 0) {
    out +=
        Format("<p class=\"faint\">%d kernels that only move bytes are not drawn.</p>\n", left_out);
  }
  return out;
}

std::string TimelineSvg(const Profile& p) {
  double end = 0;
  for (const TimelineEntry& t : p.timeline) end = std::max(end, t.end);
  if (end <= 0) return "<p>No step took time.</p>\n";
  constexpr double kBar = 60;
  std::string out =
      "<p><label>zoom <input id=\"zoom\" type=\"range\" min=\"0\" max=\"7\" step=\"0.25\" "
      "value=\"0\">"
      "</label></p>\n<div class=\"scroll\"><svg id=\"timeline\" width=\"100%\" height=\"90\" "
      "role=\"img\" aria-label=\"timeline\">\n";
  for (const TimelineEntry& t : p.timeline) {
    if (t.end <= t.start) continue;
    const ProfiledStep& s = p.steps[static_cast<size_t>(t.step)];
    out +=
        StrCat("<rect class=\"", ColourOf(s.kind), "\"",
               Format(" x=\"%.4f%%\" y=\"4\" width=\"%.4f%%\" height=\"%.0f\">",
                      100 * t.start / end, 100 * (t.end - t.start) / end, kBar),
               "<title>",
               HtmlText(StrCat(s.program, " ", s.index, " ", s.scope, " ", s.name, ", ", s.kernel)),
               Format(": %.1f us at %.3f ms", (t.end - t.start) * 1e6, t.start * 1e3),
               "</title></rect>\n");
  }
  for (int i = 0; i <= 10; ++i) {
    const char* anchor = i == 0 ? "start" : i == 10 ? "end" : "middle";
    out += StrCat("<text", Format(" x=\"%d%%\" y=\"82\" text-anchor=\"%s\">%.3g ms</text>\n",
                                  i * 10, anchor, end * 1e3 * i / 10));
  }
  return out + "</svg></div>\n";
}

}  // namespace stator
