#include "codegen/ring_loop.h"

#include "codegen/kernel_text.h"

#include <algorithm>

namespace stator {

std::optional<RingText> RingLoop(const RingParts& p, int64_t batch) {
  const std::vector<Definition> all = Definitions(p.early + p.row_values);
  const auto unnamed = [](const Definition& d) { return d.name.empty(); };
  if (std::any_of(all.begin(), all.end(), unnamed)) return std::nullopt;
  std::string next, save, use, declare, spread, broadcast;
  for (const auto& [line, type, name] : Definitions(p.early)) {
    if (!Mentions(p.sweeps + p.row_values, name)) continue;
    next += StrCat(type, " ", name, "n = 0;\n");
    save += StrCat(name, "n = ", name, ";\n");
    use += StrCat("const ", type, " ", name, " = ", name, "n;\n");
  }
  for (const auto& [line, type, name] : all) {
    if (!Mentions(p.sweeps, name)) continue;
    declare += StrCat(type, " ", name, "b = 0;\n");
    spread += StrCat(name, "b = ", name, ";\n");
    broadcast +=
        StrCat("const ", type, " ", name, " = st_from_lane(", name, "b, q % ", batch, ");\n");
  }
  const auto lambda = [](const std::string& name, const std::string& parameter,
                         const std::string& body) {
    return StrCat("const auto ", name, " = [&](unsigned ", parameter, ") {\n", Indent(body, 2),
                  "};\n");
  };
  const std::string of_lane = StrCat("const unsigned q = q0 + t % ", batch, ";\n");
  const std::string ring =
      StrCat("unsigned char* const ring = st_shared + ", p.alike_bytes, " + (y * ", kRingRows,
             " + q % ", kRingRows, ") * ", p.row_bytes, ";\n");
  RingText text;
  text.before = StrCat("int turn = 0;\n(void)turn;\nunsigned q = 0;\n", next, declare);
  if (!next.empty())
    text.before += lambda("prepare", "q0", of_lane + If("q < total", p.head + p.early + save)) +
                   "prepare(0);\n";
  text.before +=
      lambda("fetch", "q", If("q < total", p.head + ring + p.early + p.loads) + "st_commit();\n");
  if (!p.alike_loads.empty()) text.before += p.alike_loads + "st_commit();\n";
  text.before += Unrolled("u", kRingRows, "fetch(u);\n");
  if (!p.alike_loads.empty())
    text.before += StrCat("st_wait<", kRingRows, ">();\n__syncthreads();\n");
  if (!spread.empty()) {
    const std::string values =
        StrCat("{\n", Indent(of_lane + p.head + use + p.row_values + spread, 2), "}\n");
    text.row = If(StrCat("q % ", batch, " == 0"),
                  "const unsigned q0 = q;\n" + values +
                      (next.empty() ? "" : StrCat("prepare(q0 + ", batch, ");\n")));
  }
  text.row += StrCat(p.head, ring, broadcast, "st_wait<", kRingRows - 1, ">();\n", p.sweeps,
                     "fetch(q + ", kRingRows, ");\n");
  return text;
}

}  // namespace stator
