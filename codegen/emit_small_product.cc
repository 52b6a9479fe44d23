// The kernel of a region with a matrix product of few elements (fact `tile`): the product's loop is
// the text of codegen/small_product_text.h, what the region computes from it comes after it, vector
// by vector.
//
// Such a product takes less time than a launch: what counts is how soon a block has its operands. A
// block asks for all of them at once; for B even before the kernels ahead have ended where it is a
// state: its memory is written behind its last reader in a program, and another program's writes
// end before this one begins. What the region reads besides is asked for before it multiplies.
#include "codegen/emit_region.h"
#include "codegen/scalar.h"
#include "codegen/small_product_text.h"
#include "ir/base/error.h"
#include "ir/facts.h"
#include "ir/views.h"

namespace stator {
namespace {

constexpr int kVector = 8;

class SmallProductWriter {
 public:
  explicit SmallProductWriter(const RegionParts& parts)
      : parts_(parts),
        product_(*parts.product),
        emitter_(args_),
        m_(product_.type().shape[0]),
        n_(product_.type().shape[1]),
        k_(product_.operand(0).shape()[1]),
        by_rows_(product_.view().Bool("transpose_b")) {
    const Dims& tile = std::get<Dims>(product_.facts().find(fact::kTile)->second);
    rows_ = tile[0], columns_ = tile[1];
    STATOR_CHECK(m_ % rows_ == 0 && n_ % columns_ == 0 && parts.sweeps == 1 && !parts.wide_index,
                 "no way to emit the product ", product_.scope());
    for (const Node* fold : parts.column_folds)
      STATOR_CHECK(parts.space.chunk == rows_, fold->scope(), ": chunks of ", parts.space.chunk);
  }

  EmittedKernel Write() {
    const View a = ResolveView(product_.operand(0)), b = ResolveView(product_.operand(1));
    const std::string from_a =
        StrCat(args_.Read(a.base), " + (", a.at, " + m0 * ", a.strides[0], "), ", a.strides[0]);
    const std::string from_b =
        StrCat(args_.Read(b.base), " + (", b.at, " + n0",
               by_rows_ ? StrCat(" * ", b.strides[0]) : "", "), ", b.strides[0]);
    const std::string load_b = StrCat("  P::load_b(", from_b, ");\n"), epilogue = Epilogue();
    const int block = SmallProductThreads(static_cast<int>(rows_));
    const int bytes = SmallProductBytes(static_cast<int>(rows_), static_cast<int>(columns_),
                                        static_cast<int>(k_), by_rows_);
    EmittedKernel kernel;
    kernel.body =
        StrCat("extern \"C\" __global__ void __launch_bounds__(", block, ") ", kKernelName, "(",
               args_.Declaration(), ") {\n  typedef int idx_t;\n  typedef st_small_product<", n_,
               ", ", k_, ", ", rows_, ", ", columns_, by_rows_ ? ", true" : ", false",
               "> P;\n  static_assert(P::BYTES == ", bytes, " && P::THREADS == ", block,
               ", \"\");\n  const idx_t m0 = blockIdx.x / ", n_ / columns_, " * ", rows_,
               ", n0 = blockIdx.x % ", n_ / columns_, " * ", columns_,
               ";\n  const int t = threadIdx.x % P::VECTORS, y = threadIdx.x / P::VECTORS;\n");
    const std::string begin = "  st_await();\n";
    kernel.body += b.base.node->Is("state") ? load_b + begin : begin + load_b;
    kernel.body += StrCat("  P::load_a(", from_a, ");\n", Indent(epilogue, 2), "}\n");
    kernel.helpers = SmallProductText();
    kernel.args = args_.all();
    kernel.grid = m_ / rows_ * (n_ / columns_);
    kernel.block = block;
    kernel.shared_bytes = bytes;
    return kernel;
  }

 private:
  std::string Epilogue() {
    const IndexExpr full = BeginEpilogue(emitter_, parts_, kVector, "[u]", "[P::UNITS]");
    std::string declare, add, finish;
    for (size_t i = 0; i < parts_.column_folds.size(); ++i) {
      Node* fold = parts_.column_folds[i];
      const std::string g = StrCat("g", i), h = StrCat("h", i), op = FoldOp(*fold),
                        type = ComputeCType(fold->type().dtype);
      const std::string shape = StrCat("<", op, ", P::VECTORS, ", kVector, ", P::LINES / 8>(");
      emitter_.AddLine(kLaneDepth, StrCat(g, "[v] = ", emitter_.Emit(fold->operand(0), full), ";"));
      // Lanes of the tree that a thread adds up: 8 of each column, spread over the block.
      declare += StrCat(type, " ", h, "[8 * P::VECTORS * ", kVector, " / P::THREADS];\n",
                        Unrolled("q", StrCat("8 * P::VECTORS * ", kVector, " / P::THREADS"),
                                 StrCat(h, "[q] = ", op, "::identity();\n")));
      add += StrCat("st_add_columns", shape, g, ", ", h, ", t, y);\n");
      finish += StrCat("{\n  const auto total = st_fold_added_columns", shape, h,
                       ", t, y);\n  const idx_t j = y * P::VECTORS + t;\n  if (j < ", columns_,
                       ") st_put(", args_.Write(fold->result()), " + (m0 / ", rows_, " * ", n_,
                       " + n0 + j), total);\n}\n");
    }
    const std::string loads = emitter_.TakeEarlyChunk(), arrays = emitter_.TakeEarlyDeclarations();
    const std::string early = emitter_.TakeEarlyInvariant(), invariant = emitter_.TakeInvariant();
    const std::string chunk = emitter_.TakeChunk(), lanes = emitter_.TakeLane(),
                      after = emitter_.TakeAfterLane();
    const std::string row = "const idx_t r = m0 + u * P::LINES + y;\n(void)r;\n";
    std::string kept;
    for (size_t i = 0; i < parts_.column_folds.size(); ++i) {
      kept +=
          StrCat(ComputeCType(parts_.column_folds[i]->type().dtype), " g", i, "[", kVector, "];\n");
    }
    return StrCat(
        "const idx_t e = n0 / ", kVector, " + t;\n(void)e;\n", early, arrays,
        loads.empty() ? "" : Unrolled("u", "P::UNITS", row + loads), invariant,
        "P::multiply();\nst_let_next();\n", declare,
        Unrolled("u", "P::UNITS",
                 StrCat(row, "float p[", kVector, "];\nP::take(u * P::LINES + y, t, p);\n", kept,
                        chunk, Unrolled("v", StrCat(kVector), lanes), after, add)),
        finish);
  }

  const RegionParts& parts_;
  const Node& product_;
  KernelArgs args_;
  ElementEmitter emitter_;
  int64_t m_, n_, k_, rows_ = 0, columns_ = 0;
  bool by_rows_;  // B is stored as [N, K]
};

}  // namespace

EmittedKernel EmitSmallProduct(const RegionParts& parts) {
  return SmallProductWriter(parts).Write();
}

}  // namespace stator
