// The bytes of a step, against what its kernel must move by hand and element by element.
#include "codegen/traffic.h"

#include "codegen/build_plan.h"
#include "codegen/emit_region.h"
#include "ir/index_expr.h"
#include "ir/text.h"
#include "ir/views.h"
#include "passes/pipeline.h"
#include "runtime/executor.h"
#include "tests/e2e/kernel_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace stator {
namespace {

std::vector<double> BytesFor(const std::string& text, const Target& target) {
  const std::unique_ptr<Graph> graph = ParseGraph(text);
  PassOptions options;
  options.target = &target;
  PassManager(LowerPasses()).Run(*graph, options);
  std::vector<double> bytes;
  const Plan plan = BuildPlan({{"f", graph.get()}}, target, {.plan_name = "f"});
  for (const PlanStep& step : plan.programs[0].steps) bytes.push_back(step.bytes);
  return bytes;
}

void ExpectBytes(const std::string& text, const std::vector<double>& bytes) {
  EXPECT_EQ(BytesFor(text, *MakeRecordedTarget("h200")), bytes) << text;
  EXPECT_EQ(BytesFor(text, *MakeCpuTarget()), bytes) << text;
}

// The queries of a packed projection, and the tables; every head needs all angles.
TEST(Traffic, rotary_reads_the_heads_that_it_turns) {
  ExpectBytes(R"(graph @f(%x: bf16[2,6,8,64], %c: f32[6,32], %s: f32[6,32]) -> bf16[2,6,4,64] {
  %0 = slice(%x) {starts=[0,0,0,0], limits=[2,6,4,64]} : bf16[2,6,4,64]
  %1 = rotary(%0, %c, %s) : bf16[2,6,4,64]
  return %1
})",
              {2 * (2 * 6 * 4 * 64 * 2) + 2 * (6 * 32 * 4)});
}

TEST(Traffic, rotary_of_two_operands_at_once_reads_the_tables_once) {
  ExpectBytes(
      R"(graph @f(%q: bf16[2,6,4,64], %k: bf16[2,6,4,64], %c: f32[6,32], %s: f32[6,32]) -> (bf16[2,6,4,64], bf16[2,6,4,64]) {
  %0 = rotary(%q, %c, %s) : bf16[2,6,4,64]
  %1 = rotary(%k, %c, %s) : bf16[2,6,4,64]
  return %0, %1
})",
      {4 * (2 * 6 * 4 * 64 * 2) + 2 * (6 * 32 * 4)});
}

// dq and dk turned back, under one launch on a GPU, then beside dv.
TEST(Traffic, rotary_backward_and_the_packed_gradient) {
  const std::string text =
      R"(graph @f(%q: bf16[2,6,4,64], %k: bf16[2,6,2,64], %v: bf16[2,6,2,64], %c: f32[6,32], %s: f32[6,32]) -> bf16[2,6,8,64] {
  %0 = neg(%s) : f32[6,32]
  %1 = rotary(%q, %c, %0) : bf16[2,6,4,64]
  %2 = rotary(%k, %c, %0) : bf16[2,6,2,64]
  %3 = concat(%1, %2, %v) {axis=2} : bf16[2,6,8,64]
  return %3
})";
  const double table = 6 * 32 * 4, q = 2 * 6 * 4 * 64 * 2, k = q / 2;
  const double negate = 2 * table, pack = 2 * (q + k + k);
  EXPECT_EQ(BytesFor(text, *MakeRecordedTarget("h200")),
            (std::vector<double>{negate, 2 * q + 2 * k + 2 * table, pack}));
  EXPECT_EQ(BytesFor(text, *MakeCpuTarget()),
            (std::vector<double>{negate, 2 * q + 2 * table, 2 * k + 2 * table, pack}));
}

TEST(Traffic, gated_unit_backward_reads_both_halves_and_writes_both) {
  ExpectBytes(R"(graph @f(%x: bf16[6,32], %d: bf16[6,16]) -> bf16[6,32] {
  %0 = slice(%x) {starts=[0,0], limits=[6,16]} : bf16[6,16]
  %1 = slice(%x) {starts=[0,16], limits=[6,32]} : bf16[6,16]
  %2 = sigmoid(%0) : bf16[6,16]
  %3 = mul(%2, %d) : bf16[6,16]
  %4 = mul(%3, %1) : bf16[6,16]
  %5 = concat(%4, %3) {axis=1} : bf16[6,32]
  return %5
})",
              {6 * 32 * 2 + 6 * 16 * 2 + 6 * 32 * 2});
}

// Rows are swept twice, and folded along columns as well: the sums of one chunk, then of all.
TEST(Traffic, norm_backward_reads_its_rows_once) {
  ExpectBytes(R"(graph @f(%x: f32[32,16], %y: f32[32,16]) -> (f32[32,16], f32[1,16]) {
  %0 = mul(%x, %y) : f32[32,16]
  %1 = sum(%0) {axes=[1]} : f32[32,1]
  %2 = broadcast(%1) {shape=[32,16]} : f32[32,16]
  %3 = sub(%y, %2) : f32[32,16]
  %4 = sum(%3) {axes=[0]} : f32[1,16]
  return %3, %4
})",
              {3 * (32 * 16 * 4) + 16 * 4, 2 * (16 * 4)});
}

std::string Embedding(int rows) {
  return StrCat("graph @f(%w: bf16[", rows, R"(,16], %i: i32[2,6], %p: bf16[6,16], %s: f32[16])
    -> (bf16[2,6,16], bf16[2,6,16]) {
  %0 = gather(%w, %i) {axis=0} : bf16[2,6,16]
  %1 = broadcast(%p) {shape=[2,6,16]} : bf16[2,6,16]
  %2 = add(%0, %1) : bf16[2,6,16]
  %3, %4 = rms_norm(%2, %s) : bf16[2,6,16], f32[2,6,1]
  return %2, %3
})");
}

TEST(Traffic, embedding_reads_the_rows_that_are_picked) {
  const double rest = 2 * 6 * 4 + 6 * 16 * 2 + 16 * 4 + 2 * (2 * 6 * 16 * 2);
  ExpectBytes(Embedding(1000), {2 * 6 * 16 * 2 + rest});
  ExpectBytes(Embedding(5), {5 * 16 * 2 + rest});  // no row twice
}

// A row of logits once, though one of it is picked too; of the targets a part.
TEST(Traffic, cross_entropy_reads_its_rows_once) {
  ExpectBytes(R"(graph @f(%x: f32[8,40], %t: i32[24]) -> f32[8,1] {
  %0 = slice(%t) {starts=[8], limits=[16]} : i32[8]
  %1 = reshape(%0) {shape=[8,1]} : i32[8,1]
  %2 = take_along(%x, %1) {axis=1} : f32[8,1]
  %3 = logsumexp(%x) {axes=[1]} : f32[8,1]
  %4 = sub(%3, %2) : f32[8,1]
  return %4
})",
              {8 * 40 * 4 + 8 * 4 + 8 * 4});
  ExpectBytes(R"(graph @f(%x: f32[8,40], %t: i32[8,1]) -> f32[8,1] {
  %0 = take_along(%x, %t) {axis=1} : f32[8,1]
  %1 = neg(%0) : f32[8,1]
  return %1
})",
              {3 * (8 * 4)});
}

TEST(Traffic, scans_read_and_write_all) {
  ExpectBytes(R"(graph @f(%x: f32[9,4]) -> f32[9,4] {
  %0 = cumsum(%x) {axis=0} : f32[9,4]
  return %0
})",
              {2 * (9 * 4 * 4)});
}

TEST(Traffic, segment_sums_read_updates_and_what_they_add_to) {
  ExpectBytes(R"(graph @f(%u: f32[6,4], %i: i32[6]) -> f32[9,4] {
  %0 = segment_sum(%u, %i) {rows=9} : f32[9,4]
  return %0
})",
              {6 * 4 * 4 + 6 * 4 + 9 * 4 * 4});
  // Added to a product, which is copied to the output first: the rows that get updates are read and
  // written.
  ExpectBytes(
      R"(graph @f(%a: f32[9,8], %b: f32[8,4], %u: f32[6,4], %i: i32[6]) -> f32[9,4] {
  %0 = matmul(%a, %b) : f32[9,4]
  %1 = segment_sum(%u, %i) {rows=9} : f32[9,4]
  %2 = add(%0, %1) : f32[9,4]
  return %2
})",
      {9 * 8 * 4 + 8 * 4 * 4 + 9 * 4 * 4, 2 * (9 * 4 * 4), 6 * 4 * 4 + 6 * 4 + 2 * (6 * 4 * 4)});
}

// A weight in halves and a moment: every one read and written. And the output, 4 bytes, under the
// same launch on a GPU.
TEST(Traffic, updates_in_place_read_and_write) {
  const std::string text =
      R"(graph @f(%g: f32[7,3], state %w.bf16: bf16[7,3] {half_of="w", trainable=true}, state %w.low: u16[7,3] {half_of="w", trainable=true}, state %m: f32[7,3] {role="moment"}) -> f32[] {
  %0 = add(%m, %g) : f32[7,3]
  %1 = join_halves(%w.bf16, %w.low) : f32[7,3]
  %2 = sub(%1, %0) : f32[7,3]
  %3 = high_half(%2) : bf16[7,3]
  %4 = low_half(%2) : u16[7,3]
  %5 = constant() {value=1} : f32[]
  return %5
  next %w.bf16 = %3
  next %w.low = %4
  next %m = %0
})";
  const double update = 7 * 3 * (4 + 2 * (2 + 2 + 4));
  EXPECT_EQ(BytesFor(text, *MakeRecordedTarget("h200")), (std::vector<double>{update + 4}));
  EXPECT_EQ(BytesFor(text, *MakeCpuTarget()), (std::vector<double>{update, 4}));
}

TEST(Traffic, windows_that_overlap_count_once) {
  ExpectBytes(R"(graph @f(%x: f32[10,8]) -> f32[9,8] {
  %0 = slice(%x) {starts=[0,0], limits=[9,8]} : f32[9,8]
  %1 = slice(%x) {starts=[1,0], limits=[10,8]} : f32[9,8]
  %2 = sub(%1, %0) : f32[9,8]
  return %2
})",
              {10 * 8 * 4 + 9 * 8 * 4});
  // A column of a matrix, for each of its rows.
  ExpectBytes(R"(graph @f(%x: f32[10,8], %y: f32[10,3]) -> f32[10,3] {
  %0 = slice(%x) {starts=[0,2], limits=[10,3]} : f32[10,1]
  %1 = broadcast(%0) {shape=[10,3]} : f32[10,3]
  %2 = mul(%1, %y) : f32[10,3]
  return %2
})",
              {10 * 4 + 2 * (10 * 3 * 4)});
}

// What decides which kernels share a launch are whole buffers: these are too large to be mixed,
// though little is read of them.
TEST(Traffic, decides_no_launch) {
  const auto steps = [](int64_t rows) {
    const std::string x = StrCat("bf16[", rows, ",8]");
    return BytesFor(StrCat("graph @f(%x: ", x, ", %y: ", x, R"() -> (bf16[2,8], bf16[2,8]) {
  %0 = slice(%x) {starts=[0,0], limits=[2,8]} : bf16[2,8]
  %1 = slice(%y) {starts=[0,0], limits=[2,8]} : bf16[2,8]
  %2 = exp(%0) : bf16[2,8]
  %3 = mul(%1, %1) : bf16[2,8]
  return %2, %3
})"),
                    *MakeRecordedTarget("h200"));
  };
  EXPECT_EQ(steps(1 << 10), (std::vector<double>{4 * (2 * 8 * 2)}));
  EXPECT_EQ(steps(1 << 21), (std::vector<double>{2 * (2 * 8 * 2), 2 * (2 * 8 * 2)}));
}

// Elements that a region reads, found one by one.
class Elements {
 public:
  explicit Elements(const RegionParts& parts) : parts_(parts) {}

  void NeedAll(Value v) {
    for (int64_t i = 0; i < v.type().NumElements(); ++i) Need(v, i);
  }
  // False where a run tells which elements they are.
  bool known() const { return known_; }
  int64_t Bytes() const {
    int64_t bytes = 0;
    for (const auto& [v, count] : read_) bytes += count * ByteWidth(v.dtype());
    return bytes;
  }

 private:
  void Need(Value v, int64_t i) {
    std::vector<bool>& seen = seen_[v];
    seen.resize(static_cast<size_t>(v.type().NumElements()));
    if (seen[static_cast<size_t>(i)]) return;
    seen[static_cast<size_t>(i)] = true;
    const Node& node = *v.node;
    const bool inside = parts_.inside.contains(&node);
    if (!inside && (node.Is("input") || node.Is("state") || RegionOf(node) >= 0)) {
      ++read_[v];
      return;
    }
    AffineMap map;
    if (node.Is("gather") || node.Is("take_along")) {
      known_ = false;
    } else if (MovementMap(node, &map)) {
      Need(node.operand(0), map.flat ? i : Moved(i, v.shape(), map));
    } else if (node.Is("concat")) {
      const int axis = node.view().Axis("axis");
      const int64_t inner = DenseStrides(v.shape())[axis], extent = v.shape()[axis];
      int64_t at = i / inner % extent;
      for (const Value& part : node.operands()) {
        const int64_t size = part.shape()[axis];
        if (at >= 0 && at < size)
          Need(part, (i / (inner * extent) * size + at) * inner + i % inner);
        at -= size;
      }
    } else if (node.Is("pad")) {
      NeedPadded(node, i);
    } else if (node.op_class() == OpClass::kElementwise) {
      for (const Value& o : node.operands()) Need(o, i);
    } else if (!node.Is("fold") || !inside) {
      for (const Value& o : node.operands()) NeedAll(o);
    }
  }

  static int64_t Moved(int64_t i, const Dims& shape, const AffineMap& map) {
    int64_t at = map.at;
    for (size_t k = shape.size(); k-- > 0; i /= shape[k]) at += i % shape[k] * map.strides[k];
    return at;
  }

  void NeedPadded(const Node& pad, int64_t i) {
    const Dims &low = pad.view().Ints("low"), &interior = pad.view().Ints("interior");
    const Dims &from = pad.operand(0).shape(), dense = DenseStrides(from);
    int64_t at = 0;
    for (size_t k = from.size(); k-- > 0; i /= pad.type().shape[k]) {
      const int64_t step = interior.empty() ? 1 : interior[k] + 1,
                    index = i % pad.type().shape[k] - low[k];
      if (index < 0 || index % step != 0 || index / step >= from[k]) return;
      at += index / step * dense[k];
    }
    Need(pad.operand(0), at);
  }

  const RegionParts& parts_;
  std::map<Value, std::vector<bool>> seen_;
  std::map<Value, int64_t> read_;  // elements
  bool known_ = true;
};

constexpr int64_t kMostElements = 1 << 14;

struct Tally {
  int kernels = 0, more = 0;  // more: that count more than they read
};

std::map<int, std::vector<Node*>> RegionsOf(const Graph& graph) {
  std::map<int, std::vector<Node*>> regions;
  for (Node* n : graph.Nodes()) {
    if (RegionOf(*n) >= 0) regions[RegionOf(*n)].push_back(n);
  }
  return regions;
}

void Compare(const Graph& graph, const std::string& name, Tally* tally) {
  for (const auto& [region, nodes] : RegionsOf(graph)) {
    // Library calls, and what takes long to go through.
    const auto is_other = [](const Node* n) {
      return n->type().NumElements() > kMostElements || n->op_class() == OpClass::kContraction ||
             n->op_class() == OpClass::kAttention || n->op_class() == OpClass::kScatter ||
             n->op_class() == OpClass::kSort || n->op_class() == OpClass::kScan;
    };
    if (std::any_of(nodes.begin(), nodes.end(), is_other)) continue;
    const RegionParts parts = AnalyzeRegion(nodes);
    Elements elements(parts);
    int64_t written = 0;
    const auto write = [&](Value v) { written += v.type().Bytes(); };
    for (const auto& folds : parts.row_folds) {
      for (const Node* f : folds) elements.NeedAll(f->operand(0));
    }
    for (Node* f : parts.column_folds) elements.NeedAll(f->operand(0)), write(f->result());
    for (const auto* outputs : {&parts.full_outputs, &parts.row_outputs}) {
      for (const Value& v : *outputs) elements.NeedAll(v), write(v);
    }
    for (Node* concat : parts.assembled) {
      for (const Value& part : concat->operands()) elements.NeedAll(part);
      write(concat->result());
    }
    if (!elements.known()) continue;
    const double bytes = TrafficOf(parts).Bytes(),
                 expected = static_cast<double>(elements.Bytes() + written);
    EXPECT_GE(bytes, expected) << name;
    ++tally->kernels, tally->more += bytes > expected;
  }
}

TEST(Traffic, counts_every_element_once) {
  Tally tally;
  const auto target = MakeRecordedTarget("h200");
  PassOptions options;
  options.target = target.get();
  for (const auto& make : {+[] { return KernelCases(); }, +[] { return GradientCases(); },
                           +[] { return OddCases(); }}) {
    const std::vector<KernelCase> cases = make();
    for (const KernelCase& c : cases) {
      PassManager(LowerPasses()).Run(*c.graph, options);
      Compare(*c.graph, c.name, &tally);
    }
  }
  EXPECT_GT(tally.kernels, 500);
  EXPECT_EQ(tally.more, 0);
}

std::string Names(const std::set<Value>& values) {
  std::vector<std::string> names;
  for (const Value& v : values) names.push_back(StrCat(v.node->op().name, " %", v.node->id()));
  return Join(names, ", ");
}

struct Emitted {
  int kernels = 0, products = 0;
};

// What a kernel is given is what it is said to read and write.
void CompareArguments(const Graph& graph, const Target& target, const std::string& name,
                      Emitted* count) {
  const Language language = target.sm() > 0 ? Language::kCuda : Language::kCpp;
  for (const auto& [region, nodes] : RegionsOf(graph)) {
    const auto is_other = [](const Node* n) {
      return (n->op_class() == OpClass::kContraction && !IsComputedByRegion(*n)) ||
             n->op_class() == OpClass::kAttention || n->op_class() == OpClass::kScatter ||
             n->op_class() == OpClass::kSort || n->op_class() == OpClass::kScan;
    };
    if (std::any_of(nodes.begin(), nodes.end(), is_other)) continue;
    const RegionParts parts = AnalyzeRegion(nodes);
    if (parts.space.elements() == 0) continue;  // whose text no element reaches
    const EmittedKernel kernel = EmitRegion(nodes, language, LimitsOf(90));
    std::set<Value> read, written;
    for (const KernelArg& arg : kernel.args) {
      // Text may name what has no element.
      if (arg.value.type().NumElements() > 0) (arg.write ? written : read).insert(arg.value);
    }
    for (const EmittedMap& map : kernel.maps) read.insert(ResolveView(map.value).base);
    EXPECT_EQ(Names(kernel.traffic.read()), Names(read)) << name;
    EXPECT_EQ(Names(kernel.traffic.written()), Names(written)) << name;
    ++count->kernels, count->products += parts.product != nullptr;
  }
}

TEST(Traffic, is_of_the_arguments_that_kernels_have) {
  Emitted count;
  for (const bool gpu : {false, true}) {
    const auto target = gpu ? MakeRecordedTarget("h200") : MakeCpuTarget();
    PassOptions options;
    options.target = target.get();
    for (const auto& make : {+[] { return KernelCases(); }, +[] { return GradientCases(); },
                             +[] { return OddCases(); }}) {
      for (const KernelCase& c : make()) {
        PassManager(LowerPasses()).Run(*c.graph, options);
        CompareArguments(*c.graph, *target, c.name, &count);
      }
    }
  }
  EXPECT_GT(count.kernels, 1000);
}

// Kernels that only larger shapes have: long rows, a ring of rows, products of tiles by bulk copies
// and of few elements.
TEST(Traffic, is_of_the_arguments_that_kernels_of_large_shapes_have) {
  const auto target = MakeRecordedTarget("h200");
  Emitted count;
  const auto compare = [&](const std::string& text, OwnMatmul own_matmul) {
    const std::unique_ptr<Graph> graph = ParseGraph(text);
    PassOptions options;
    options.target = target.get();
    options.own_matmul = own_matmul;
    PassManager(LowerPasses()).Run(*graph, options);
    CompareArguments(*graph, *target, text, &count);
  };
  compare(R"(graph @f(%x: bf16[512,50304], %t: i32[512,1]) -> f32[512,1] {
  %0 = cast(%x) {to=f32} : f32[512,50304]
  %1 = take_along(%0, %t) {axis=1} : f32[512,1]
  %2 = logsumexp(%0) {axes=[1]} : f32[512,1]
  %3 = sub(%2, %1) : f32[512,1]
  return %3
})",
          OwnMatmul::kWhereFaster);
  compare(R"(graph @f(%x: bf16[65536,768], %y: bf16[65536,768], %s: f32[768])
    -> (bf16[65536,768], f32[1,768]) {
  %0 = mul(%x, %y) : bf16[65536,768]
  %1 = cast(%0) {to=f32} : f32[65536,768]
  %2 = sum(%1) {axes=[1]} : f32[65536,1]
  %3 = broadcast(%2) {shape=[65536,768]} : f32[65536,768]
  %4 = broadcast(%s) {shape=[65536,768]} : f32[65536,768]
  %5 = mul(%3, %4) : f32[65536,768]
  %6 = cast(%5) {to=bf16} : bf16[65536,768]
  %7 = sum(%5) {axes=[0]} : f32[1,768]
  return %6, %7
})",
          OwnMatmul::kWhereFaster);
  EXPECT_EQ(count.products, 0);
  const std::string product = R"(graph @f(%p: bf16[256,256], %w: bf16[128,128], %y: bf16[256,128])
    -> bf16[256,128] {
  %0 = slice(%p) {starts=[0,128], limits=[256,256]} : bf16[256,128]
  %1 = matmul(%0, %w) {out=bf16} : bf16[256,128]
  %2 = sigmoid(%1) : bf16[256,128]
  %3 = mul(%2, %y) : bf16[256,128]
  return %3
})";
  compare(product, OwnMatmul::kWherePossible);
  EXPECT_EQ(count.products, 1);
  compare(product, OwnMatmul::kWhereFaster);  // of few elements
  EXPECT_EQ(count.products, 2);
}

}  // namespace
}  // namespace stator
