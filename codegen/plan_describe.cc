// A plan as text for people: what memory it takes, to the byte, and what it does.
#include "codegen/plan.h"
#include "ir/base/str.h"

#include <algorithm>
#include <cstdio>
#include <set>

namespace stator {
namespace {

std::string Grouped(int64_t n) {  // 1234567 -> "1,234,567"
  const std::string digits = std::to_string(n);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string Scaled(double v, double base, const char* const* units) {
  int u = 0;
  while (v >= base && units[u + 1] != nullptr) v /= base, ++u;
  char text[64];
  std::snprintf(text, sizeof(text), u == 0 ? "%.0f %s" : "%.2f %s", v, units[u]);
  return text;
}

std::string BinarySize(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", nullptr};
  return Scaled(bytes, 1024, kUnits);
}

std::string Operations(double flops) {
  static constexpr const char* kUnits[] = {"flop",  "kflop", "Mflop", "Gflop",
                                           "Tflop", "Pflop", nullptr};
  return Scaled(flops, 1000, kUnits);
}

std::string Left(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string Right(const std::string& text, size_t width) {
  return std::string(text.size() < width ? width - text.size() : 0, ' ') + text;
}

std::string SizeLine(const std::string& what, int64_t bytes, const std::string& more) {
  return StrCat("  ", Left(what, 20), Right(Grouped(bytes), 18), " bytes  ",
                Right(BinarySize(static_cast<double>(bytes)), 10), more.empty() ? "" : "  " + more,
                "\n");
}

constexpr const char* kWorkNames[] = {"kernel",      "matmul", "attention", "sort",
                                      "segment_sum", "fill",   "copy"};
static_assert(std::variant_size_v<StepWork> == std::size(kWorkNames));

std::string Counted(size_t n, const std::string& noun) {
  return StrCat(n, " ", noun, n == 1 ? "" : "s");
}

// ", 2 of 12 key heads at a time": where attention is called in pieces.
std::string Pieces(const AttentionCall& c) {
  const Dims& k = c.k.type.shape;  // [B,S,G,D]
  if (c.head_chunk > 0) return StrCat(", ", c.head_chunk, " of ", k[2], " key heads at a time");
  if (c.batch_chunk > 0)
    return StrCat(", ", c.batch_chunk, " of ", k[0], " batch entries at a time");
  return "";
}

// What a step works on, in one phrase.
struct Detail {
  const Plan& plan;
  std::string operator()(const KernelCall& c) const {
    return StrCat(plan.kernels[c.kernel].name, ", ", Counted(c.args.size(), "buffer"),
                  c.maps.empty() ? "" : StrCat(", ", Counted(c.maps.size(), "tile map")));
  }
  std::string operator()(const MatMulCall& c) const {
    return StrCat(c.a.type.ToString(), " x ", c.b.type.ToString(), " -> ", c.d.type.ToString(),
                  c.c ? " + c" : "", c.epilogue == Epilogue::kNone ? "" : " with epilogue");
  }
  std::string operator()(const AttentionCall& c) const {
    return StrCat(c.backward ? "backward " : "", c.q.type.ToString(), ", keys ",
                  c.k.type.ToString(), c.causal ? ", causal" : "", c.bias ? ", bias" : "",
                  Pieces(c));
  }
  std::string operator()(const SortCall& c) const { return c.keys.type.ToString(); }
  std::string operator()(const SegmentSumCall& c) const {
    return StrCat(c.updates.type.ToString(), " -> ", c.out.type.ToString(),
                  c.accumulate ? " + out" : "");
  }
  std::string operator()(const FillCall& c) const { return StrCat(Grouped(c.bytes), " bytes"); }
  std::string operator()(const CopyCall& c) const { return StrCat(Grouped(c.bytes), " bytes"); }
};

std::string DescribeState(const Plan& plan) {
  std::vector<std::string> roles;  // in order of appearance
  for (const StateEntry& s : plan.states) {
    if (std::find(roles.begin(), roles.end(), s.role) == roles.end()) roles.push_back(s.role);
  }
  std::string out = SizeLine("state", plan.state_bytes, StrCat(plan.states.size(), " entries"));
  for (const std::string& role : roles) {
    int64_t bytes = 0, elements = 0, count = 0, halves = 0;
    for (const StateEntry& s : plan.states) {
      if (s.role != role) continue;
      bytes += s.type.Bytes(), elements += s.type.NumElements(), ++count, halves += s.halves;
    }
    out += SizeLine("  " + role, bytes,
                    StrCat(count, " of ", Grouped(elements), " elements",
                           halves > 0 ? StrCat(", ", halves, " as bf16 and low 16 bits") : ""));
  }
  return out;
}

std::string DescribeSteps(const Plan& plan, const Program& program) {
  size_t name_width = 4, scope_width = 5;
  for (const PlanStep& s : program.steps) {
    name_width = std::max(name_width, std::min<size_t>(s.name.size(), 40));
    scope_width = std::max(scope_width, std::min<size_t>(s.scope.size(), 32));
  }
  std::string out = StrCat("    ", Right("#", 5), "  ", Left("name", name_width), "  ",
                           Left("scope", scope_width), "  ", Right("work", 12), "  ",
                           Right("memory", 12), "  what\n");
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const PlanStep& s = program.steps[i];
    out += StrCat("    ", Right(std::to_string(i), 5), "  ", Left(s.name, name_width), "  ",
                  Left(s.scope, scope_width), "  ", Right(Operations(s.flops), 12), "  ",
                  Right(BinarySize(s.bytes), 12), "  ", DescribeWork(plan, s),
                  s.stream == 0 ? "" : StrCat(", on stream ", s.stream), "\n");
  }
  return out;
}

std::string DescribeProgram(const Plan& plan, const Program& program, bool steps) {
  double flops = 0, bytes = 0;
  std::vector<int64_t> counts(std::size(kWorkNames), 0);
  for (const PlanStep& s : program.steps) {
    flops += s.flops, bytes += s.bytes;
    ++counts[s.work.index()];
  }
  std::vector<std::string> parts;
  for (size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] > 0) parts.push_back(StrCat(counts[k], " ", kWorkNames[k]));
  }
  std::string out = StrCat("\nprogram ", program.name, ": ", Counted(program.steps.size(), "step"),
                           parts.empty() ? "" : StrCat(" (", Join(parts, ", "), ")"), ", ",
                           Operations(flops), ", ", BinarySize(bytes), " read and written\n");
  for (const PlanInput& i : program.inputs) {
    out += StrCat("    in   ", i.name, " ", i.type.ToString(),
                  i.below > 0 ? StrCat(" in [0, ", i.below, ")") : "", "\n");
  }
  for (const PlanOutput& o : program.outputs) {
    out += StrCat("    out  ", o.name, " ", o.type.ToString(), "\n");
  }
  return steps ? out + DescribeSteps(plan, program) : out;
}

}  // namespace

std::string DescribeWork(const Plan& plan, const PlanStep& step) {
  return StrCat(kWorkNames[step.work.index()], " ", std::visit(Detail{plan}, step.work));
}

std::string DescribePlan(const Plan& plan, bool steps) {
  std::string out = StrCat("plan ", plan.name, " for ", plan.target, "\n");
  out += DescribeState(plan);
  out += SizeLine("arena", plan.arena_bytes, "the largest program's");
  for (const Program& p : plan.programs) out += SizeLine("  " + p.name, p.arena_bytes, "");
  out += SizeLine("inputs and outputs", plan.io_bytes, "");
  out += SizeLine("total", plan.state_bytes + plan.arena_bytes + plan.io_bytes,
                  "without libraries and context");
  size_t source = 0;
  for (const KernelModule& m : plan.modules) source += m.source.size();
  out += StrCat("  ", Counted(plan.kernels.size(), "kernel"), " in ",
                Counted(plan.modules.size(), "module"), ", ",
                BinarySize(static_cast<double>(source)), " of source\n");
  for (const Program& p : plan.programs) out += DescribeProgram(plan, p, steps);
  if (!plan.notes.empty()) out += "\nnotes\n";
  for (const std::string& note : plan.notes) out += StrCat("  ", note, "\n");
  if (!plan.fingerprint.empty()) out += "\nmade with\n";
  for (const auto& [key, value] : plan.fingerprint) out += StrCat("  ", key, " ", value, "\n");
  return out;
}

}  // namespace stator
