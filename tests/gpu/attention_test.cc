#include "tests/gpu/attention_case.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace stator::gpu_test {
namespace {

// Also skips where this build or machine has no cuDNN.
#define STATOR_NEEDS_ATTENTION(target)                              \
  STATOR_NEEDS_GPU();                                               \
  const std::unique_ptr<Target> target = MakeCudaTarget(0);         \
  do {                                                              \
    std::string missing;                                            \
    if (!target->SupportsAttention(QueryOf({}, false), &missing)) { \
      GTEST_SKIP() << "no fused attention: " << missing;            \
    }                                                               \
  } while (false)

std::vector<AttentionCase> Cases() {
  std::vector<AttentionCase> cases;
  const auto add = [&](const std::string& name) -> AttentionCase& {
    cases.push_back({});
    cases.back().name = name;
    return cases.back();
  };
  add("full");
  add("causal").causal = true;
  add("half").dtype = DType::kF16;
  AttentionCase& grouped = add("causal grouped packed");
  grouped.causal = grouped.packed = true, grouped.g = 2;
  AttentionCase& window = add("causal window");
  window.causal = true, window.window = 24, window.packed = true;
  AttentionCase& lengths = add("key lengths");
  lengths.key_lengths = {128, 37};
  AttentionCase& causal_lengths = add("causal key lengths");
  causal_lengths.key_lengths = {5, 100}, causal_lengths.causal = true;
  AttentionCase& none = add("an entry without keys");
  none.key_lengths = {0, 90}, none.causal = none.packed = true;
  AttentionCase& chunks = add("chunks with a rest");
  chunks.b = 5, chunks.chunk = 2, chunks.causal = true, chunks.packed = true;
  chunks.t = chunks.s = 192;
  AttentionCase& lanes = add("chunks side by side");
  lanes.b = 6, lanes.chunk = 2, lanes.streams = 3, lanes.causal = true;
  lanes.t = lanes.s = 192;
  AttentionCase& heads = add("heads with a rest, packed");
  heads.h = 6, heads.g = 3, heads.chunk = 1, heads.head_chunk = 2;
  heads.causal = heads.packed = true;
  AttentionCase& head_lanes = add("heads side by side");
  head_lanes.b = 1, head_lanes.h = head_lanes.g = 7, head_lanes.head_chunk = 2;
  head_lanes.t = 160, head_lanes.s = 224, head_lanes.streams = 4;
  AttentionCase& head_lengths = add("heads and key lengths");
  head_lengths.h = 6, head_lengths.g = 3, head_lengths.chunk = 1, head_lengths.head_chunk = 2;
  head_lengths.b = 3, head_lengths.key_lengths = {128, 37, 90}, head_lengths.streams = 3;
  AttentionCase& single = add("one head at a time, packed, window");
  single.h = 8, single.g = 2, single.chunk = single.head_chunk = 1, single.streams = 2;
  single.causal = single.packed = true, single.window = 24, single.dtype = DType::kF16;
  AttentionCase& odd = add("odd lengths, head 80");
  odd.t = 77, odd.s = 101, odd.d = 80;
  AttentionCase& offset = add("queries at the end of the keys");
  offset.t = 64, offset.s = 192, offset.q_offset = 128, offset.causal = true;
  AttentionCase& wide = add("head 128");
  wide.d = 128, wide.causal = true, wide.h = 2, wide.g = 1;
  AttentionCase& small = add("short, head 32");
  small.b = 8, small.h = small.g = 4, small.d = 32, small.causal = small.packed = true;
  AttentionCase& part = add("short, 80 rows of 16");
  part.t = part.s = 80, part.d = 16, part.h = part.g = 3, part.causal = true;
  AttentionCase& few = add("short, 16 rows");
  few.t = few.s = 16, few.d = 48, few.h = few.g = 2, few.dtype = DType::kF16;
  AttentionCase& loose = add("not deterministic");
  loose.deterministic = false, loose.causal = true;
  return cases;
}

TEST(Attention, agrees_with_the_definition_forward_and_backward) {
  STATOR_NEEDS_ATTENTION(target);
  for (const AttentionCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    std::string why;
    EXPECT_TRUE(target->SupportsAttention(QueryOf(c, true), &why)) << why;
    const auto built = BuildAttention(c, *target);
    OutputMap out;
    try {
      out = built->plan.Run();
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    const AttentionValues got = ReadAttention(*built, out), want = ReferenceAttention(c, *built);
    const double o = RelativeError(got.out, want.out), l = RelativeError(got.lse, want.lse);
    const double q = RelativeError(got.dq, want.dq), k = RelativeError(got.dk, want.dk);
    const double v = RelativeError(got.dv, want.dv);
    std::printf(
        "[ figure   ] attention %s: relative errors out %.1e lse %.1e dq %.1e dk %.1e dv %.1e\n",
        c.name.c_str(), o, l, q, k, v);
    EXPECT_LT(o, 5e-3);
    EXPECT_LT(l, 1e-5);
    EXPECT_LT(q, 1e-2);
    EXPECT_LT(k, 1e-2);
    EXPECT_LT(v, 1e-2);
  }
}

TEST(Attention, deterministic_bits_repeat_whatever_the_chunks_and_the_mode) {
  STATOR_NEEDS_ATTENTION(target);
  struct Chunks {
    int64_t entries, heads;
  };
  for (const int64_t kv_heads : {8, 4}) {
    std::set<OutputMap> results;
    for (const Chunks chunks : {Chunks{0, 0}, {1, 0}, {3, 0}, {1, 3}, {1, 1}}) {
      for (const int64_t streams : {1, 4}) {
        AttentionCase c;
        c.b = 4, c.h = 8, c.g = kv_heads, c.t = c.s = 512, c.causal = c.packed = true;
        c.chunk = chunks.entries, c.head_chunk = chunks.heads, c.streams = streams;
        const auto built = BuildAttention(c, *target);
        for (const ExecutionMode mode : {ExecutionMode::kEager, ExecutionMode::kGraph}) {
          const auto executor = MakeCudaExecutor(built->plan.Finish(), Options(mode));
          for (int run = 0; run < 3; ++run) {
            results.insert(executor->Wait(executor->Enqueue("main", built->plan.Feeds())));
          }
        }
      }
    }
    EXPECT_EQ(results.size(), 1u) << kv_heads << " key heads";
  }
}

TEST(Attention, says_why_it_is_refused) {
  STATOR_NEEDS_ATTENTION(target);
  const auto why = [&](const std::function<void(AttentionQuery&)>& change) {
    AttentionQuery q = QueryOf({}, true);
    change(q);
    std::string text;
    EXPECT_FALSE(target->SupportsAttention(q, &text));
    return text;
  };
  const auto window_and_lengths = [](AttentionQuery& q) {
    q.causal = q.has_window = q.has_key_lengths = true;
  };
  EXPECT_NE(why(window_and_lengths).find("window"), std::string::npos);
  EXPECT_NE(why([](AttentionQuery& q) { q.dtype = DType::kF32; }).find("f32"), std::string::npos);
  EXPECT_NE(why([](AttentionQuery& q) { q.head_dim = 20; }).find("20"), std::string::npos);
  EXPECT_NE(why([](AttentionQuery& q) { q.dropout = true; }).find("dropout"), std::string::npos);
  EXPECT_NE(why([](AttentionQuery& q) { q.has_segments = true; }).find("segment"),
            std::string::npos);
  EXPECT_NE(why([](AttentionQuery& q) { q.has_lse_gradient = true; }).find("log-sum-exp"),
            std::string::npos);
}

TEST(Attention, that_wants_more_scratch_than_the_plan_has_is_an_error_at_load) {
  STATOR_NEEDS_ATTENTION(target);
  AttentionCase c;
  c.causal = true, c.t = c.s = 256;
  const auto built = BuildAttention(c, *target);
  PlanStep& last = built->plan.plan.programs[0].steps.back();
  std::get<AttentionCall>(last.work).workspace_bytes = 256;
  EXPECT_THROW(built->plan.Run(), Error);
}

}  // namespace
}  // namespace stator::gpu_test
