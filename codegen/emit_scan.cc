// Running folds: one thread a line, one element after the other, as op `cumsum` defines.
#include "codegen/emit_region.h"
#include "codegen/scalar.h"
#include "ir/base/error.h"
#include "ir/views.h"

namespace stator {

EmittedKernel EmitScan(const Node& node, Language language) {
  STATOR_CHECK(node.op().reduce == ReduceKind::kSum, "no way to emit scan ", node.op().name);
  const OpView op = node.view();
  const int axis = op.Axis("axis");
  const Dims& shape = node.type().shape;
  const int64_t n = shape[axis], inner = DenseStrides(shape)[axis],
                lines = node.type().NumElements() / n;
  const DType dtype = node.type().dtype;
  const std::string type = ComputeCType(dtype);
  KernelArgs args;
  const Value from = ResolveView(node.operand(0)).base, to{const_cast<Node*>(&node), 0};
  const std::string in = args.Read(from), out = args.Write(to);
  const bool reverse = op.Bool("reverse"), exclusive = op.Bool("exclusive");
  const std::string line = StrCat(
      type, " sum = 0;\nfor (idx_t j = 0; j < ", n, "; ++j) {\n  const idx_t at = (l / ", inner,
      " * ", n, " + ", reverse ? StrCat(n - 1, " - j") : "j", ") * ", inner, " + l % ", inner,
      ";\n  const ", type, " next = (", type, ")(sum + st_get(", in, "[at]));\n  st_put(", out,
      " + at, ", exclusive ? "sum" : "next", ");\n  sum = next;\n}\n");
  EmittedKernel kernel;
  kernel.args = args.all();
  kernel.traffic.Read(from, Whole(from.type().NumElements()));
  kernel.traffic.Write(to);
  if (language == Language::kCpp) {
    kernel.body = StrCat("extern \"C\" void ", kKernelName,
                         "(void* const* args) {\n  typedef long long idx_t;\n", args.Unpacking(),
                         "#pragma omp parallel for schedule(static)\n  for (idx_t l = 0; l < ",
                         lines, "; ++l) {\n", Indent(line, 4), "  }\n}\n");
    return kernel;
  }
  kernel.block = 128;
  kernel.grid = (lines + 127) / 128;
  kernel.body =
      StrCat("extern \"C\" __global__ void ", kKernelName, "(", args.Declaration(),
             ") {\n  st_begin();\n  typedef long long idx_t;\n",
             "  const idx_t l = (idx_t)blockIdx.x * 128 + threadIdx.x;\n  if (l >= ", lines,
             ") return;\n", Indent(line, 2), "}\n");
  return kernel;
}

}  // namespace stator
