#include "codegen/merge_calls.h"

#include <algorithm>

#include "codegen/emit_region.h"
#include "ir/base/error.h"

namespace stator {
namespace {

// A kernel takes at most 32764 bytes of parameters (CUDA 12.1 on, sm_70 on).
constexpr size_t kTableBytes = 32000;

// Text between the parentheses of the kernel's parameter list, and between the braces of its body.
struct KernelText {
  std::string head, parameters, inner;
};

KernelText Parts(const std::string& body) {
  const size_t name = body.find(kKernelName), open = body.find('(', name), brace = body.find(") {\n", open);
  const size_t end = body.rfind('}');
  STATOR_CHECK(name != std::string::npos && brace != std::string::npos && end != std::string::npos,
               "a kernel's text has no head: ", body);
  return {body.substr(0, name), body.substr(open + 1, brace - open - 1), body.substr(brace + 4, end - brace - 4)};
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
    const bool same = std::all_of(calls.begin(), calls.end(),
                                  [&](const KernelCall& c) { return c.args[i] == calls[0].args[i]; });
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

// "t.p[3]", "t.p[5 + 4 * m + 1]".
std::string Entry(const Table& t, const char* table, size_t arg) {
  if (t.shared[arg]) return StrCat(table, "[", t.slot[arg], "]");
  return StrCat(table, "[", t.num_shared + t.slot[arg], " + ", t.num_own, " * m]");
}

std::string CudaBody(const std::string& body, const Table& t, std::span<const KernelCall> calls) {
  const KernelText text = Parts(body);
  const std::vector<std::string> parameters = Split(text.parameters);
  std::string passed;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string type = parameters[i].substr(0, parameters[i].rfind(' '));
    passed += StrCat(", (", type, ")", Entry(t, "t.p", i));
  }
  const int64_t each = calls[0].grid[0];
  const bool even = std::all_of(calls.begin(), calls.end(), [&](const KernelCall& c) { return c.grid[0] == each; });
  std::string find, starts;
  if (even) {
    find = StrCat("  const unsigned m = blockIdx.x / ", each, ", b = blockIdx.x % ", each, ";\n");
  } else {
    int64_t first = 0;
    std::string list;
    for (const KernelCall& c : calls) {
      list += StrCat(list.empty() ? "" : ", ", first);
      first += c.grid[0];
    }
    starts = StrCat("__constant__ unsigned ", kKernelName, "_first[", calls.size(), "] = {", list, "};\n");
    size_t reach = 1;
    while (2 * reach < calls.size()) reach *= 2;
    find = StrCat("  unsigned m = 0;\n#pragma unroll\n  for (unsigned s = ", reach, "; s > 0; s /= 2) {\n    if (m + s < ", calls.size(),
                  " && ", kKernelName, "_first[m + s] <= blockIdx.x) m += s;\n  }\n  const unsigned b = blockIdx.x - ", kKernelName, "_first[m];\n");
  }
  return StrCat("static __device__ __forceinline__ void ", kKernelName, "_one(const unsigned st_block, ", text.parameters, ") {\n",
                Replaced(text.inner, "blockIdx.x", "st_block"), "}\nstruct ", kKernelName, "_table { void* p[", t.args.size(), "]; };\n",
                starts, text.head, kKernelName, "(const __grid_constant__ ", kKernelName, "_table t) {\n", find, "  ", kKernelName,
                "_one(b", passed, ");\n}\n");
}

std::string CppBody(const std::string& body, const Table& t, size_t calls) {
  constexpr std::string_view kParallel = "#pragma omp parallel for";
  const KernelText text = Parts(body);
  // Threads go from call to call without waiting for each other.
  const bool threads = text.inner.find(kParallel) != std::string::npos;
  std::string args;
  for (size_t i = 0; i < t.shared.size(); ++i) args += StrCat(i == 0 ? "" : ", ", Entry(t, "table", i));
  return StrCat("static void ", kKernelName, "_one(", text.parameters, ") {\n",
                Replaced(text.inner, kParallel, "#pragma omp for nowait"), "}\nextern \"C\" void ", kKernelName,
                "(void* const* table) {\n", threads ? "#pragma omp parallel\n" : "", "  for (int m = 0; m < ", calls,
                "; ++m) {\n    void* const args[] = {", args, "};\n    ", kKernelName, "_one(args);\n  }\n}\n");
}

}  // namespace

size_t MostMerged(size_t args) { return kTableBytes / (8 * std::max<size_t>(args, 1)); }

MergedCall MergeCalls(const std::string& body, Language language, std::span<const KernelCall> calls) {
  MergedCall merged;
  if (calls.size() < 2 || calls[0].shared_bytes != 0) return merged;
  for (const char* unknown : {"gridDim", "blockIdx.y", "blockIdx.z"}) {
    if (body.find(unknown) != std::string::npos) return merged;
  }
  // A second parallel loop would need the first one's results.
  if (language == Language::kCpp && Count(body, "#pragma omp parallel") > 1) return merged;
  int64_t blocks = 0;
  for (const KernelCall& call : calls) {
    if (call.grid[1] != 1 || call.grid[2] != 1) return merged;
    blocks += call.grid[0];
  }
  if (blocks > 0x7fffffff) return merged;
  Table table = MakeTable(calls);
  const bool cuda = language == Language::kCuda;
  merged.body = cuda ? CudaBody(body, table, calls) : CppBody(body, table, calls.size());
  merged.call.block = calls[0].block;
  merged.call.grid[0] = cuda ? blocks : calls[0].grid[0];
  merged.call.table = cuda;
  merged.call.args = std::move(table.args);
  return merged;
}

}  // namespace stator
