#include "frontend/driver/pretrained.h"

#include "frontend/driver/safetensors.h"
#include "tests/frontend/driver/driver_support.h"
#include "tests/frontend/driver/fake_executor.h"

#include <gtest/gtest.h>

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
          const float v = static_cast<float>(i + (name == "model.v.weight" ? 10 : 0));
          const uint16_t half = FloatToBits16(DType::kBF16, v);
          const char* from = t.type.dtype == DType::kF32 ? reinterpret_cast<const char*>(&v)
                                                         : reinterpret_cast<const char*>(&half);
          bytes.insert(bytes.end(), from, from + ByteWidth(t.type.dtype));
        }
      }
      return bytes;
    });
  }
  TempDir dir_;
  std::string path_ = dir_ / "w.safetensors";
  FakeExecutor executor_;
};

TEST_F(Pretrained, parts_are_stacked_and_narrow_floats_widened) {
  Write({{"model.q.weight", {DType::kBF16, {2, 2}}},
         {"model.v.weight", {DType::kF32, {2, 2}}},
         {"b", {DType::kF32, {2}}}});
  LoadPretrained(executor_, path_, {{"qkv/w", {"model.q.weight", "model.v.weight"}, false}});
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
             "has no 't.x'");
  Write({{"qkv/w", {DType::kF32, {4, 2}}}, {"b", {DType::kF32, {3}}}});
  EXPECT_HAS(ErrorOf([&] { LoadPretrained(executor_, path_, {}); }),
             "'b' is f32[2], 'b' in " + path_ + " makes it [3]");
  EXPECT_EQ(executor_.writes, 0);
}

}  // namespace
}  // namespace stator
