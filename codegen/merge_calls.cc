#include "codegen/merge_calls.h"

#include "codegen/emit_region.h"
#include "ir/base/error.h"

#include <algorithm>

namespace stator {
namespace {

// A kernel takes at most 32764 bytes of parameters (CUDA 12.1 on, sm_70 on).
constexpr size_t kTableBytes = 32000;

// Text between the parentheses of the kernel's parameter list, and between the braces of its body.
struct KernelText {
  std::string head, parameters, inner;
};

KernelText Parts(const std::string& body) {
  const size_t name = body.find(kKernelName), open = body.find('(', name),
               brace = body.find(") {\n", open);
  const size_t end = body.rfind('}');
  STATOR_CHECK(name != std::string::npos && brace != std::string::npos && end != std::string::npos,
               "a kernel's text has no head: ", body);
  return {body.substr(0, name), body.substr(open + 1, brace - open - 1),
          body.substr(brace + 4, end - brace - 4)};
}

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < list.size();) {
    const size_t comma = std::min(list.find(", ", at), list.size());
    parts.push_back(list.substr(at, comma - at));
    at = comma + 2;
  }
  return parts;
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

size_t Count(const std::string& text, std::string_view what) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++count;
  return count;
}

// The merged call's arguments: those that all calls share, then the others call by call. `slot`
// says for each argument of a call where it is: from the start when shared, within the call if not.
struct Table {
  std::vector<BufferRef> args;
  std::vector<bool> shared;
  std::vector<size_t> slot;
  size_t num_shared = 0, num_own = 0;
};

Table MakeTable(std::span<const KernelCall> calls) {
  Table t;
  const size_t count = calls[0].args.size();
  for (size_t i = 0; i < count; ++i) {
    const bool same = std::all_of(calls.begin(), calls.end(), [&](const KernelCall& c) {
      return c.args[i] == calls[0].args[i];
    });
    t.shared.push_back(same);
    t.slot.push_back(same ? t.num_shared++ : t.num_own++);
    if (same) t.args.push_back(calls[0].args[i]);
  }
  for (const KernelCall& call : calls) {
    for (size_t i = 0; i < count; ++i) {
      if (!t.shared[i]) t.args.push_back(call.args[i]);
    }
  }
  return t;
}

// "t.p[3]", "t.p[5 + 4 * m + 1]"; the table begins at entry `base` of what it is part of.
std::string Entry(const Table& t, const char* table, size_t arg, size_t base = 0) {
  if (t.shared[arg]) return StrCat(table, "[", base + t.slot[arg], "]");
  return StrCat(table, "[", base + t.num_shared + t.slot[arg], " + ", t.num_own, " * m]");
}

// Of one group in a merged kernel: `before` its body stands what is defined outside.
struct CudaPart {
  std::string before, body;
  int64_t blocks = 0;
};

// `number` tells the group's names from others', `base` is where its table begins. In `body` the
// variable `block` counts the group's blocks.
CudaPart PartOf(const SameCalls& group, const KernelText& text, size_t number, const Table& t,
                size_t base) {
  const std::string name = StrCat(kKernelName, "_", number);
  const std::vector<std::string> parameters = Split(text.parameters);
  std::string passed;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string type = parameters[i].substr(0, parameters[i].rfind(' '));
    passed += StrCat(", (", type, ")", Entry(t, "t.p", i, base));
  }
  CudaPart part;
  part.before =
      StrCat("static __device__ __forceinline__ void ", name, "(const unsigned st_block, ",
             text.parameters, ") {\n", Replaced(text.inner, "blockIdx.x", "st_block"), "}\n");
  const std::vector<KernelCall>& calls = group.calls;
  const int64_t each = calls[0].grid[0];
  std::string list;
  bool even = true;
  for (const KernelCall& c : calls) {
    even = even && c.grid[0] == each;
    list += StrCat(list.empty() ? "" : ", ", part.blocks);
    part.blocks += c.grid[0];
  }
  if (even) {
    part.body = StrCat("  const unsigned m = block / ", each, ", b = block % ", each, ";\n");
  } else {
    part.before +=
        StrCat("__constant__ unsigned ", name, "_first[", calls.size(), "] = {", list, "};\n");
    size_t reach = 1;
    while (2 * reach < calls.size()) reach *= 2;
    part.body = StrCat("  unsigned m = 0;\n#pragma unroll\n  for (unsigned s = ", reach,
                       "; s > 0; s /= 2) {\n    if (m + s < ", calls.size(), " && ", name,
                       "_first[m + s] <= block) m += s;\n  }\n  const unsigned b = block - ", name,
                       "_first[m];\n");
  }
  part.body += StrCat("  ", name, "(b", passed, ");\n");
  return part;
}

std::string CudaBody(std::span<const SameCalls> groups, MergedCall& merged) {
  constexpr std::string_view kBegin = "  st_begin();\n";
  std::vector<KernelText> texts;
  bool begins = true;
  for (const SameCalls& group : groups) {
    texts.push_back(Parts(group.body));
    begins = begins && texts.back().inner.starts_with(kBegin);
    merged.call.block = std::max(merged.call.block, group.calls[0].block);
  }
  const bool one = groups.size() == 1;
  std::string before, body;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (begins) texts[g].inner.erase(0, kBegin.size());
    const Table table = MakeTable(groups[g].calls);
    CudaPart part = PartOf(groups[g], texts[g], g, table, merged.call.args.size());
    merged.call.args.insert(merged.call.args.end(), table.args.begin(), table.args.end());
    const int64_t first = merged.call.grid[0], block = groups[g].calls[0].block;
    merged.call.grid[0] += part.blocks;
    before += part.before;
    const std::string define = first == 0
                                   ? "  const unsigned block = blockIdx.x;\n"
                                   : StrCat("  const unsigned block = blockIdx.x - ", first, ";\n");
    if (one) {
      body = define + part.body;
      break;
    }
    if (g + 1 < groups.size())
      body += StrCat("  if (blockIdx.x < ", merged.call.grid[0], ") {\n");
    else
      body += "  {\n";
    body += Indent(define, 2);
    // Threads beyond a narrower kernel's end are done: barriers do not count them.
    if (block < merged.call.block) body += StrCat("    if (threadIdx.x >= ", block, ") return;\n");
    body += Indent(part.body, 2) + "    return;\n  }\n";
  }
  const std::string head =
      one ? texts[0].head
          : StrCat("extern \"C\" __global__ void __launch_bounds__(", merged.call.block, ") ");
  return StrCat(before, "struct ", kKernelName, "_table { void* p[", merged.call.args.size(),
                "]; };\n", head, kKernelName, "(const __grid_constant__ ", kKernelName,
                "_table t) {\n", begins ? kBegin : "", body, "}\n");
}

std::string CppBody(const std::string& body, const Table& t, size_t calls) {
  constexpr std::string_view kParallel = "#pragma omp parallel for";
  const KernelText text = Parts(body);
  // Threads go from call to call without waiting for each other.
  const bool threads = text.inner.find(kParallel) != std::string::npos;
  std::string args;
  for (size_t i = 0; i < t.shared.size(); ++i)
    args += StrCat(i == 0 ? "" : ", ", Entry(t, "table", i));
  return StrCat("static void ", kKernelName, "_one(", text.parameters, ") {\n",
                Replaced(text.inner, kParallel, "#pragma omp for nowait"), "}\nextern \"C\" void ",
                kKernelName, "(void* const* table) {\n", threads ? "#pragma omp parallel\n" : "",
                "  for (int m = 0; m < ", calls, "; ++m) {\n    void* const args[] = {", args,
                "};\n    ", kKernelName, "_one(args);\n  }\n}\n");
}

}  // namespace

size_t MostArguments() { return kTableBytes / 8; }

MergeNeeds NeedsOf(const std::string& body, Language language, const KernelCall& call) {
  constexpr int kMixedBlock = 256;  // threads: more would take registers from everyone
  constexpr std::string_view kColumns = "st_fold_columns<";
  MergeNeeds needs;
  if (call.shared_bytes != 0 || call.table || call.grid[1] != 1 || call.grid[2] != 1) return needs;
  for (const char* unknown : {"gridDim", "blockIdx.y", "blockIdx.z"}) {
    if (body.find(unknown) != std::string::npos) return needs;
  }
  // A second parallel loop would need the first one's results.
  needs.merges = language == Language::kCuda || Count(body, "#pragma omp parallel") <= 1;
  needs.mixes = language == Language::kCuda && call.block <= kMixedBlock &&
                body.find("__shared__") == body.npos && body.find("st_add_columns") == body.npos;
  for (size_t at = 0;
       (at = body.find(kColumns, at)) != body.npos;) {  // "st_fold_columns<op, P, V>("
    at += kColumns.size();
    const std::string arguments = body.substr(at, body.find(">(", at) - at);
    const size_t v = arguments.rfind(", "), p = arguments.rfind(", ", v - 1);
    const int width =
        arguments.find("double") != arguments.npos || arguments.find("long") != arguments.npos ? 8
                                                                                               : 4;
    needs.shared[arguments] = int64_t{8} * std::stoi(arguments.substr(p + 2)) *
                              std::stoi(arguments.substr(v + 2)) * width;
  }
  return needs;
}

MergedCall MergeCalls(Language language, std::span<const SameCalls> groups) {
  MergedCall merged;
  if (language == Language::kCuda) {
    merged.call.grid[0] = 0;
    merged.body = CudaBody(groups, merged);
    merged.call.table = true;
    return merged;
  }
  STATOR_CHECK(groups.size() == 1, "a C++ kernel of several texts");
  const std::vector<KernelCall>& calls = groups[0].calls;
  Table table = MakeTable(calls);
  merged.body = CppBody(groups[0].body, table, calls.size());
  merged.call.block = calls[0].block;
  merged.call.grid[0] = calls[0].grid[0];
  merged.call.args = std::move(table.args);
  return merged;
}

}  // namespace stator
