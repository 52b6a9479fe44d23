#include "frontend/driver/pretrained.h"

#include "frontend/driver/safetensors.h"
#include "tests/frontend/driver/driver_support.h"
#include "tests/frontend/driver/fake_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace stator {
namespace {

std::vector<float> Floats(const std::vector<char>& bytes) {
  std::vector<float> v(bytes.size() / 4);
  std::memcpy(v.data(), bytes.data(), bytes.size());
  return v;
}

class Pretrained : public testing::Test {
 protected:
  Pretrained() : executor_({Matrix("qkv/w", {4, 2}), Matrix("b", {2})}) {}
  static StateEntry Matrix(const std::string& name, const Dims& shape) {
    StateEntry s = F32State(name, 0, "parameter");
    s.type.shape = shape;
    return s;
  }
  void Write(const std::vector<TensorToWrite>& tensors) {
    WriteSafetensors(path_, tensors, {}, [&](const std::string& name) {
      std::vector<char> bytes;
      for (const TensorToWrite& t : tensors) {
        if (t.name != name) continue;
        for (int64_t i = 0; i < t.type.NumElements(); ++i) {
          const float v = static_cast<float>(i + (name == "model.v.weight"   ? 10
                                                  : name == "lm_head.weight" ? head_starts_at_
                                                                             : 0));
          const uint16_t half = FloatToBits16(DType::kBF16, v);
          const char* from = t.type.dtype == DType::kF32 ? reinterpret_cast<const char*>(&v)
                                                         : reinterpret_cast<const char*>(&half);
          bytes.insert(bytes.end(), from, from + ByteWidth(t.type.dtype));
        }
      }
      return bytes;
    });
  }
  int head_starts_at_ = 0;
  TempDir dir_;
  std::string path_ = dir_ / "w.safetensors";
  FakeExecutor executor_;
};

TEST_F(Pretrained, parts_are_stacked_and_narrow_floats_widened) {
  Write({{"model.q.weight", {DType::kBF16, {2, 2}}},
         {"model.v.weight", {DType::kF32, {2, 2}}},
         {"b", {DType::kF32, {2}}}});
  LoadPretrained(executor_, path_,
                 {{"qkv/w", {"model.q.weight", "model.v.weight"}, false, {2, 2}}});
  EXPECT_EQ(Floats(executor_.ReadState("qkv/w")), (std::vector<float>{0, 1, 2, 3, 10, 11, 12, 13}));
  EXPECT_EQ(Floats(executor_.ReadState("b")), (std::vector<float>{0, 1}));
}

TEST_F(Pretrained, transposed_matrices_are_turned_and_the_prefix_may_be_missing) {
  Write({{"c_attn.weight", {DType::kF32, {2, 4}}}, {"c_attn.bias", {DType::kF32, {2}}}});
  LoadPretrained(
      executor_, path_,
      {{"qkv/w", {"transformer.c_attn.weight"}, true}, {"b", {"transformer.c_attn.bias"}, false}});
  EXPECT_EQ(Floats(executor_.ReadState("qkv/w")), (std::vector<float>{0, 4, 1, 5, 2, 6, 3, 7}));
}

TEST_F(Pretrained, what_is_missing_or_of_another_shape_is_named_before_any_write) {
  Write({{"b", {DType::kF32, {2}}}});
  EXPECT_HAS(ErrorOf([&] { LoadPretrained(executor_, path_, {}); }), "has no 'qkv/w'");
  EXPECT_HAS(ErrorOf([&] {
               LoadPretrained(executor_, path_, {{"qkv/w", {"t.x"}, false}});
             }),
             "has neither 'qkv/w' nor 't.x'");
  Write({{"qkv/w", {DType::kF32, {4, 2}}}, {"b", {DType::kF32, {3}}}});
  EXPECT_HAS(ErrorOf([&] { LoadPretrained(executor_, path_, {}); }),
             path_ + ": 'b' is [3], 'b' of [2] needs [2]");
  EXPECT_EQ(executor_.writes, 0);
}

TEST_F(Pretrained, each_part_has_its_own_shape) {
  const auto error = [&](const Dims& q, const Dims& v) {
    Write({{"q", {DType::kF32, q}}, {"v", {DType::kF32, v}}, {"b", {DType::kF32, {2}}}});
    return ErrorOf([&] {
      LoadPretrained(executor_, path_, {{"qkv/w", {"q", "v"}, false, {3, 1}}});
    });
  };
  EXPECT_EQ(error({3, 2}, {1, 2}), "");
  EXPECT_HAS(error({1, 2}, {3, 2}), path_ + ": 'q' is [1,2], 'qkv/w' of [4,2] needs [3,2]");
  EXPECT_HAS(error({3, 2}, {1, 5}), "'v' is [1,5], 'qkv/w' of [4,2] needs [1,2]");
  EXPECT_HAS(error({3, 2}, {1}), "'v' is [1], 'qkv/w' of [4,2] needs [1,2]");
  Write({{"q", {DType::kF32, {4, 2}}}, {"b", {DType::kF32, {2}}}});
  EXPECT_HAS(ErrorOf([&] {
               LoadPretrained(executor_, path_, {{"qkv/w", {"q"}, true}});
             }),
             "'q' is [4,2], 'qkv/w' of [4,2] needs [2,4]");
}

// Of a tied model of two layers, by our names, and what else the file has.
class PretrainedExtra : public Pretrained {
 protected:
  PretrainedExtra() {
    executor_ = FakeExecutor(
        {Matrix("wte/w", {4, 2}), Matrix("h.0/ln_1/w", {2}), Matrix("h.1/ln_1/w", {2})});
  }
  std::string ErrorWith(const std::vector<std::string>& extra, const Dims& shape = {2}) {
    std::vector<TensorToWrite> tensors = {{"wte/w", {DType::kF32, {4, 2}}},
                                          {"h.0/ln_1/w", {DType::kF32, {2}}},
                                          {"h.1/ln_1/w", {DType::kF32, {2}}}};
    for (const std::string& name : extra) tensors.push_back({name, {DType::kF32, shape}});
    Write(tensors);
    return ErrorOf([&] { LoadPretrained(executor_, path_, {}); });
  }
};

TEST_F(PretrainedExtra, what_the_model_does_not_read_is_refused_before_any_write) {
  EXPECT_HAS(ErrorWith({"model.layers.0.mlp.gate_proj.bias"}),
             path_ +
                 ": the model does not read 1 of its tensors: "
                 "'model.layers.0.mlp.gate_proj.bias'");
  EXPECT_HAS(ErrorWith({"a\nb\x1b[1m"}), "does not read 1 of its tensors: 'a\\nb\\x1b[1m'");
  EXPECT_HAS(ErrorWith({"a", "b", "c", "d"}), "4 of its tensors: 'a', 'b', 'c', ...");
  EXPECT_EQ(executor_.writes, 0);
}

TEST_F(PretrainedExtra, the_option_that_reads_it_is_named) {
  const auto ends = [&](const std::string& name) {
    const std::string error = ErrorWith({name});
    return error.substr(std::min(error.find("; "), error.size()));
  };
  EXPECT_EQ(ends("model.layers.0.mlp.gate_proj.bias"), "");
  EXPECT_EQ(ends("model.layers.1.self_attn.q_proj.bias"), "; try --qkv_bias");
  EXPECT_EQ(ends("model.layers.1.self_attn.k_norm.weight"), "; try --qk_norm");
  EXPECT_EQ(ends("transformer.h.1.attn.c_attn.bias"), "; try --bias");
  EXPECT_EQ(ends("ln_f.bias"), "; try --bias");
  EXPECT_EQ(ends("h.1/attn/qkv/b"), "; try --bias (gpt2) or --qkv_bias (llama)");
  EXPECT_EQ(ends("lm_head/w"), "; try --tie_weights=false");
  EXPECT_EQ(ends("h.2/attn/qkv/w"), "; try --n_layer=3");
  EXPECT_EQ(ends("h.4.ln_1.bias"), "; try --n_layer=5");
  EXPECT_EQ(ends("model.layers.11.input_layernorm.weight"), "; try --n_layer=12");
  EXPECT_HAS(ErrorWith({"h.2.ln_1.weight", "h.1.ln_1.bias"}), "; try --bias, --n_layer=3");
}

TEST_F(PretrainedExtra, buffers_are_passed_over) {
  EXPECT_EQ(ErrorWith({"h.0.attn.bias", "transformer.h.0.attn.masked_bias",
                       "model.layers.0.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"}),
            "");
  EXPECT_HAS(ErrorWith({"model.layers.0.self_attn.bias"}), "does not read 1");
}

TEST_F(PretrainedExtra, a_tied_head_equals_the_embedding) {
  EXPECT_EQ(ErrorWith({"lm_head.weight"}, {4, 2}), "");
  const std::string refusal =
      "'lm_head.weight'; try --tie_weights=false (the head is not the embedding)";
  EXPECT_HAS(ErrorWith({"lm_head.weight"}, {2, 4}), refusal);
  head_starts_at_ = 1;
  EXPECT_HAS(ErrorWith({"lm_head.weight"}, {4, 2}), refusal);
}

}  // namespace
}  // namespace stator
