// States made in pieces from a source.
#include "runtime/program_io.h"

#include "ir/base/error.h"
#include "tests/runtime/hand_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace stator {
namespace {

constexpr int64_t kN = (int64_t{1} << 17) + 5;  // elements: three slices

StateEntry State(DType dtype, bool halves) {
  StateEntry s;
  s.name = "w";
  s.type = {dtype, {kN}};
  s.halves = halves;
  return s;
}

TEST(MakeElements, pieces_of_a_dense_state_are_its_bytes) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI64}) {
    const StateEntry state = State(dtype, false);
    const std::vector<char> bytes = RandomTensor(state.type, 1).ToBytes();
    std::vector<char> made(bytes.size());
    constexpr int64_t kPiece = 70'001;
    for (int64_t first = 0; first < kN; first += kPiece) {
      MakeElements(state, SourceOf(bytes), first, std::min(kPiece, kN - first),
                   made.data() + first * ByteWidth(dtype), nullptr);
    }
    EXPECT_EQ(made, bytes);
  }
}

TEST(MakeElements, halves_join_to_what_the_source_gave) {
  const StateEntry state = State(DType::kF32, true);
  const std::vector<char> bytes = RandomTensor(state.type, 1).ToBytes();
  std::vector<char> stored(static_cast<size_t>(state.StoredBytes()));
  constexpr int64_t kPiece = 70'001;
  for (int64_t first = 0; first < kN; first += kPiece) {
    MakeElements(state, SourceOf(bytes), first, std::min(kPiece, kN - first),
                 stored.data() + 2 * first, stored.data() + state.LowHalves() + 2 * first);
  }
  EXPECT_EQ(JoinHalves(state, stored), bytes);
  float second;
  uint16_t high;
  std::memcpy(&second, bytes.data() + 4, 4), std::memcpy(&high, stored.data() + 2, 2);
  EXPECT_EQ(high, HighHalf(second));
}

TEST(MakeElements, what_the_source_throws_is_thrown_on) {
  const StateEntry state = State(DType::kF32, false);
  std::vector<char> made(static_cast<size_t>(state.type.Bytes()));
  const auto source = [](int64_t offset, std::span<char>) {
    if (offset > 0) Fail(ErrorCode::kIo, "the file ends");
  };
  EXPECT_THROW(MakeElements(state, source, 0, kN, made.data(), nullptr), Error);
}

}  // namespace
}  // namespace stator
