// Plans as data: verification, files (also damaged and hostile ones), text.
#include "codegen/plan.h"

#include "codegen/plan_fbs.h"
#include "ir/base/error.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

namespace stator {
namespace {

TensorRef Ref(Space space, int64_t offset, DType dtype, const Dims& shape) {
  return {{space, offset}, {dtype, shape}, DenseStrides(shape)};
}

// One program with every kind of step.
Plan SamplePlan() {
  Plan plan;
  plan.name = "sample", plan.target = "cpu";
  plan.fingerprint = {{"onednn", "2.6.3"}, {"cpu.features", "avx2 fma"}};
  plan.state_bytes = 4096, plan.arena_bytes = 65536, plan.io_bytes = 4096;
  plan.states = {
      {"h.0/w", {DType::kF32, {16, 8}}, 0, "parameter", "decay", "normal(0.02)", true, false},
      {"h.0/w.m", {DType::kBF16, {16, 8}}, 512, "moment", "", "zeros", false, true},
      {"h.0/v", {DType::kF32, {16, 8}}, 1024, "parameter", "", "zeros", true, false, true}};
  plan.modules = {{Language::kCpp,
                   "extern \"C\" void k(void* const*) {}\n",
                   "cpu-123",
                   {'\x7f', 'E', 'L', 'F', '\0'}}};
  plan.kernels = {{"k", 0}};
  plan.notes = {"a note"};
  Program program;
  program.name = "train", program.arena_bytes = 40000;
  program.inputs = {{"tokens", {DType::kI32, {2, 4}}, {Space::kIo, 0}, 100, -1, true}};
  program.outputs = {{"loss", {DType::kF32, {}}, {Space::kIo, 256}}};
  const auto step = [&](const std::string& name, StepWork work) {
    program.steps.push_back({name, "h.0/mlp", std::move(work), 0, {}, 1e9, 2e6});
  };
  KernelCall kernel{0, {{Space::kState, 0}, {Space::kArena, 256}}};
  kernel.grid[1] = 7, kernel.block = 128, kernel.shared_bytes = 99, kernel.table = true;
  kernel.maps = {{Ref(Space::kArena, 0, DType::kBF16, {16, 64}), {8, 64}}};
  kernel.grid[0] = 6, kernel.cluster = 2, kernel.persistent = true;
  step("exp+add", kernel);
  MatMulCall matmul;
  matmul.a = Ref(Space::kArena, 0, DType::kF32, {4, 16});
  matmul.b = Ref(Space::kState, 0, DType::kF32, {16, 8});
  matmul.d = matmul.c = Ref(Space::kArena, 1024, DType::kF32, {4, 8});
  matmul.epilogue = Epilogue::kBias, matmul.bias = Ref(Space::kArena, 2048, DType::kF32, {8});
  matmul.tuning_key = "f32 4x8x16";
  step("matmul", matmul);
  AttentionCall attention;
  attention.backward = true, attention.causal = true, attention.window = 3, attention.scale = 0.25;
  attention.q_offset = 1, attention.stream = 12, attention.deterministic = false,
  attention.batch_chunk = 2, attention.head_chunk = 1;
  int64_t at = 4096;
  const auto place = [&](DType dtype, const Dims& shape) {
    const TensorRef ref = Ref(Space::kArena, at, dtype, shape);
    at += AlignBuffer(ref.type.Bytes());
    return ref;
  };
  for (TensorRef* t : {&attention.q, &attention.out, &attention.dout, &attention.dq})
    *t = place(DType::kF32, {1, 4, 2, 8});
  for (TensorRef* t : {&attention.k, &attention.v, &attention.dk, &attention.dv})
    *t = place(DType::kF32, {1, 5, 1, 8});
  attention.lse = place(DType::kF32, {1, 2, 4});
  attention.bias = place(DType::kF32, {1, 2, 4, 5}),
  attention.dbias = place(DType::kF32, {1, 2, 4, 5});
  attention.workspace = {Space::kArena, at}, attention.workspace_bytes = 100;
  step("attention_grad", attention);
  step("sort", SortCall{Ref(Space::kArena, 20480, DType::kF32, {3, 9}),
                        {},
                        Ref(Space::kArena, 20992, DType::kI32, {3, 9}),
                        true,
                        {},
                        0});
  step("segment_sum", SegmentSumCall{Ref(Space::kArena, 21504, DType::kF32, {6, 4}),
                                     Ref(Space::kIo, 0, DType::kI32, {6}),
                                     Ref(Space::kArena, 22016, DType::kF32, {9, 4}),
                                     {Space::kArena, 24576},
                                     512});
  step("fill", FillCall{{Space::kArena, 0}, 256, 255});
  step("copy", CopyCall{{Space::kArena, 0}, {Space::kIo, 256}, 4});
  program.steps.back().stream = 1, program.steps.back().waits = {0, 5};
  plan.programs.push_back(program);
  return plan;
}

std::string PathOf(const std::string& name) { return std::string(STATOR_BINARY_DIR) + "/" + name; }

std::string Slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void Spill(const std::string& path, const std::string& bytes) {
  std::filesystem::remove(path);  // writing over a file may wait for the disk
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string MessageOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

std::string Complaint(const std::function<void(Plan&)>& spoil) {
  Plan plan = SamplePlan();
  spoil(plan);
  return MessageOf([&] { VerifyPlan(plan); });
}

TEST(PlanFile, survives_a_round_trip) {
  const Plan plan = SamplePlan();
  VerifyPlan(plan);
  const std::string path = PathOf("round_trip.plan");
  SavePlan(plan, path);
  const Plan loaded = LoadPlan(path);
  EXPECT_EQ(DescribePlan(loaded, true), DescribePlan(plan, true));
  EXPECT_FALSE(loaded.states[0].halves);
  EXPECT_TRUE(loaded.states[2].halves);
  const std::string again = PathOf("round_trip_again.plan");
  SavePlan(loaded, again);
  EXPECT_EQ(Slurp(again), Slurp(path));
  const auto& kernel = std::get<KernelCall>(loaded.programs[0].steps[0].work);
  EXPECT_EQ(kernel.grid[1], 7);
  EXPECT_EQ(kernel.args, std::get<KernelCall>(plan.programs[0].steps[0].work).args);
  ASSERT_EQ(kernel.maps.size(), 1u);
  EXPECT_EQ(kernel.maps[0].tensor.type.ToString(), "bf16[16,64]");
  EXPECT_EQ(kernel.maps[0].tensor.strides, (Dims{64, 1}));
  EXPECT_EQ(kernel.maps[0].box, (Dims{8, 64}));
  EXPECT_EQ(kernel.cluster, 2);
  EXPECT_TRUE(kernel.persistent);
  const auto& attention = std::get<AttentionCall>(loaded.programs[0].steps[2].work);
  EXPECT_EQ(attention.scale, 0.25);
  EXPECT_EQ(attention.batch_chunk, 2);
  EXPECT_EQ(attention.head_chunk, 1);
  EXPECT_FALSE(attention.key_lengths);
  EXPECT_EQ(attention.dbias.type.ToString(), "f32[1,2,4,5]");
  EXPECT_EQ(loaded.modules[0].binary, plan.modules[0].binary);
  EXPECT_EQ(loaded.programs[0].inputs[0].ignored, -1);
  EXPECT_EQ(loaded.programs[0].steps[6].waits, (std::vector<int>{0, 5}));
}

TEST(PlanFile, missing_foreign_and_truncated_files_are_errors) {
  EXPECT_NE(MessageOf([] { LoadPlan("/nowhere/x.plan"); }).find("/nowhere/x.plan"),
            std::string::npos);
  const std::string path = PathOf("hostile.plan");
  Spill(path, "not a plan at all, but long enough to be read as one");
  EXPECT_EQ(MessageOf([&] { LoadPlan(path); }), path + ": not a stator plan");
  SavePlan(SamplePlan(), path);
  const std::string good = Slurp(path);
  for (size_t size = 0; size < good.size(); size += 1 + size / 16) {
    Spill(path, good.substr(0, size));
    EXPECT_NE(MessageOf([&] { LoadPlan(path); }), "no error") << size;
  }
}

TEST(PlanFile, a_flipped_bit_is_found) {
  const std::string path = PathOf("flipped.plan");
  SavePlan(SamplePlan(), path);
  const std::string good = Slurp(path);
  for (size_t k = 0; k < good.size(); k += 7) {
    std::string bad = good;
    bad[k] = static_cast<char>(bad[k] ^ (1 << (k % 8)));
    Spill(path, bad);
    EXPECT_NE(MessageOf([&] { LoadPlan(path); }), "no error") << k;
  }
}

// A file whose hash is right may hold anything: nothing of it may crash the reader.
TEST(PlanFile, bytes_made_to_deceive_are_refused_or_verified) {
  const std::string path = PathOf("deceiving.plan");
  SavePlan(SamplePlan(), path);
  const std::string good = Slurp(path);
  const std::string body = good.substr(0, good.size() - 8);
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string bad = body;
    for (int k = 0; k < 1 + round % 4; ++k) {
      bad[8 + random() % (bad.size() - 8)] = static_cast<char>(round % 2 == 0 ? random() : 0xff);
    }
    const uint64_t hash = HashBytes(bad);
    for (int k = 0; k < 8; ++k) bad.push_back(static_cast<char>(hash >> (8 * k)));
    Spill(path, bad);
    try {
      DescribePlan(LoadPlan(path), true);
    } catch (const Error&) {
    }
  }
}

TEST(PlanFile, an_unknown_version_is_named) {
  fbs::PlanT file = ToFileForm(SamplePlan());
  file.version = 9;
  flatbuffers::FlatBufferBuilder builder;
  fbs::FinishPlanBuffer(builder, fbs::Plan::Pack(builder, &file));
  std::string bytes(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  const uint64_t hash = HashBytes(bytes);
  for (int k = 0; k < 8; ++k) bytes.push_back(static_cast<char>(hash >> (8 * k)));
  const std::string path = PathOf("version.plan");
  Spill(path, bytes);
  EXPECT_EQ(
      MessageOf([&] { LoadPlan(path); }),
      path + ": the plan has format version 9, this stator reads version 3; make the plan anew");
}

TEST(PlanFile, an_old_file_stays_when_writing_fails) {
  EXPECT_NE(MessageOf([] { SavePlan(SamplePlan(), "/proc/x.plan"); }).find("/proc/x.plan"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists("/proc/x.plan"));
}

TEST(VerifyPlan, names_step_and_fault) {
  using Fault = std::function<void(Plan&)>;
  const auto step = [](Plan& p, int i) -> StepWork& { return p.programs[0].steps[i].work; };
  const std::vector<std::pair<std::string, Fault>> cases = {
      {"plan: program train, step 0 exp+add (h.0/mlp): there is no kernel 3",
       [&](Plan& p) { std::get<KernelCall>(step(p, 0)).kernel = 3; }},
      {"plan: program train, step 0 exp+add (h.0/mlp): an argument is outside its space: 0 bytes "
       "at 70000 of 65536",
       [&](Plan& p) { std::get<KernelCall>(step(p, 0)).args[1].offset = 70000; }},
      {"plan: program train, step 0 exp+add (h.0/mlp): there is no space 9",
       [&](Plan& p) { std::get<KernelCall>(step(p, 0)).args[1].space = static_cast<Space>(9); }},
      {"plan: program train, step 0 exp+add (h.0/mlp): a tile map's rows are not of 128 bytes",
       [&](Plan& p) { std::get<KernelCall>(step(p, 0)).maps[0].box[1] = 32; }},
      {"plan: program train, step 0 exp+add (h.0/mlp): a tile map has boxes of [257,64] in [16,64]",
       [&](Plan& p) { std::get<KernelCall>(step(p, 0)).maps[0].box[0] = 257; }},
      {"plan: program train, step 0 exp+add (h.0/mlp): a tile map is outside its space: 2048 bytes "
       "at 64512 of 65536",
       [&](Plan& p) { std::get<KernelCall>(step(p, 0)).maps[0].tensor.buffer.offset = 64512; }},
      {"plan: program train, step 0 exp+add (h.0/mlp): has clusters of 4 blocks in a grid of 6",
       [&](Plan& p) { std::get<KernelCall>(step(p, 0)).cluster = 4; }},
      {"plan: program train, step 1 matmul (h.0/mlp): shapes do not multiply: [4,15] x [16,8] -> "
       "[4,8]",
       [&](Plan& p) { std::get<MatMulCall>(step(p, 1)).a.type.shape[1] = 15; }},
      {"plan: program train, step 1 matmul (h.0/mlp): d overlaps an operand",
       [&](Plan& p) {
         auto& m = std::get<MatMulCall>(step(p, 1));
         m.d.buffer = m.c.buffer = m.a.buffer;
       }},
      {"plan: program train, step 1 matmul (h.0/mlp): c overlaps d but is not d",
       [&](Plan& p) { std::get<MatMulCall>(step(p, 1)).c.buffer.offset += 4; }},
      {"plan: program train, step 1 matmul (h.0/mlp): a is outside its space: 2056 bytes at 65280 "
       "of 65536",
       [&](Plan& p) {
         auto& m = std::get<MatMulCall>(step(p, 1));
         m.a.buffer.offset = 65280, m.a.strides = {166, 1};
       }},
      {"plan: program train, step 2 attention_grad (h.0/mlp): lse is absent",
       [&](Plan& p) { std::get<AttentionCall>(step(p, 2)).lse = {}; }},
      {"plan: program train, step 2 attention_grad (h.0/mlp): takes -2 batch entries at once",
       [&](Plan& p) { std::get<AttentionCall>(step(p, 2)).batch_chunk = -2; }},
      {"plan: program train, step 2 attention_grad (h.0/mlp): takes -1 of 1 key heads at once",
       [&](Plan& p) { std::get<AttentionCall>(step(p, 2)).head_chunk = -1; }},
      {"plan: program train, step 2 attention_grad (h.0/mlp): takes 2 of 1 key heads at once",
       [&](Plan& p) { std::get<AttentionCall>(step(p, 2)).head_chunk = 2; }},
      {"plan: program train, step 2 attention_grad (h.0/mlp): takes 1 key heads at once, which may "
       "be of one batch entry only, not of 2",
       [&](Plan& p) {
         auto& a = std::get<AttentionCall>(step(p, 2));
         for (TensorRef* t : {&a.q, &a.k, &a.v, &a.out, &a.lse, &a.dout, &a.dq, &a.dk, &a.dv}) {
           t->type.shape[0] = 2;
         }
       }},
      {"plan: program train, step 6 copy (h.0/mlp): waits for step 6",
       [&](Plan& p) { p.programs[0].steps[6].waits = {6}; }},
      {"plan: program train: needs 70000 bytes of an arena of 65536",
       [](Plan& p) { p.programs[0].arena_bytes = 70000; }},
      {"plan: program train: appears twice", [](Plan& p) { p.programs.push_back(p.programs[0]); }},
      {"plan: state h.0/w.m: it is misaligned: offset 520",
       [](Plan& p) { p.states[1].offset = 520; }},
      {"plan: state h.0/w.m: overlaps state h.0/w", [](Plan& p) { p.states[1].offset = 256; }},
      {"plan: state h.0/v: overlaps state h.0/w.m",
       [](Plan& p) { p.states[2].offset = 768 - 256; }},
      {"plan: state h.0/v: is bf16[16,8] in halves",
       [](Plan& p) { p.states[2].type.dtype = DType::kBF16; }},
      {"plan: kernel k: there is no module 1", [](Plan& p) { p.kernels[0].module = 1; }},
      {"plan: kernel k;x: is not an identifier", [](Plan& p) { p.kernels[0].name = "k;x"; }},
      {"plan: program train, output loss: overlaps input tokens",
       [](Plan& p) { p.programs[0].outputs[0].buffer.offset = 0; }},
  };
  for (const auto& [message, spoil] : cases) EXPECT_EQ(Complaint(spoil), message);
  EXPECT_EQ(Complaint([](Plan&) {}), "no error");
}

// The low halves are a buffer of their own.
TEST(StateEntry, halves_are_aligned) {
  StateEntry entry;
  entry.type = {DType::kF32, {3}}, entry.halves = true;
  EXPECT_EQ(entry.LowHalves(), 256);
  EXPECT_EQ(entry.StoredBytes(), 262);
}

TEST(DescribePlan, tells_the_pieces_of_attention) {
  Plan plan = SamplePlan();
  PlanStep& step = plan.programs[0].steps[2];
  auto& attention = std::get<AttentionCall>(step.work);
  const auto ends = [&](int64_t entries, int64_t heads) {
    attention.batch_chunk = entries, attention.head_chunk = heads;
    const std::string text = DescribeWork(plan, step);
    return text.substr(text.find(", causal, bias") + 14);
  };
  attention.k.type.shape = {6, 5, 4, 8};
  EXPECT_EQ(ends(0, 0), "");
  EXPECT_EQ(ends(2, 0), ", 2 of 6 batch entries at a time");
  EXPECT_EQ(ends(1, 3), ", 3 of 4 key heads at a time");
}

TEST(DescribePlan, tells_memory_to_the_byte) {
  const std::string text = DescribePlan(SamplePlan(), true);
  for (const char* part :
       {"plan sample for cpu", "65,536 bytes", "parameter", "1,024 bytes",
        "2 of 256 elements, 1 as bf16 and low 16 bits", "in   tokens i32[2,4] in [0, 100)",
        "f32[4,16] x f32[16,8] -> f32[4,8] + c", "a note", "onednn 2.6.3"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

}  // namespace
}  // namespace stator
