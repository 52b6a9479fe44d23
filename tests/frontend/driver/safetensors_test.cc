#include "frontend/driver/safetensors.h"

#include "frontend/driver/file.h"
#include "frontend/driver/json.h"
#include "tests/frontend/driver/driver_support.h"

#include <gtest/gtest.h>

#include <cstring>

namespace stator {
namespace {

void WriteRaw(const std::string& path, const std::string& header, const std::string& data,
              uint64_t claimed) {
  OutputFile file(path);
  char prefix[8];
  std::memcpy(prefix, &claimed, 8);
  file.Write(std::span<const char>(prefix, 8));
  file.WriteText(header);
  file.WriteText(data);
  file.Close();
}

class Safetensors : public testing::Test {
 protected:
  std::string Reject(const std::string& header, const std::string& data) {
    WriteRaw(path_, header, data, header.size());
    const std::string message = ErrorOf([&] { SafetensorsFile file(path_); });
    EXPECT_HAS(message, path_);
    return message;
  }
  TempDir dir_;
  std::string path_ = dir_ / "x.safetensors";
};

TEST_F(Safetensors, written_tensors_read_back) {
  const std::map<std::string, std::vector<char>> contents = {
      {"a/w", std::vector<char>(24, 'x')}, {"empty", {}}, {"scalar", {1, 2}}};
  WriteSafetensors(path_,
                   {{"a/w", {DType::kF32, {2, 3}}},
                    {"empty", {DType::kI64, {0, 7}}},
                    {"scalar", {DType::kBF16, {}}}},
                   {{"format", "test"}}, [&](const std::string& n) { return contents.at(n); });
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.metadata().at("format"), "test");
  ASSERT_EQ(file.tensors().size(), 3u);
  for (const auto& [name, bytes] : contents) {
    ASSERT_NE(file.Find(name), nullptr) << name;
    EXPECT_EQ(file.Read(*file.Find(name)), bytes) << name;
  }
  EXPECT_EQ(file.Find("a/w")->type, (Type{DType::kF32, {2, 3}}));
  EXPECT_EQ(file.Find("b"), nullptr);
}

TEST_F(Safetensors, data_starts_aligned_to_eight_bytes) {
  WriteSafetensors(path_, {{"w", {DType::kF32, {1}}}}, {},
                   [](const std::string&) { return std::vector<char>(4); });
  EXPECT_EQ(SafetensorsFile(path_).Find("w")->offset % 8, 0);
}

TEST_F(Safetensors, a_file_without_room_for_its_header_is_refused) {
  WriteFileAtomically(path_, "abc");
  EXPECT_HAS(ErrorOf([&] { SafetensorsFile file(path_); }), "3 bytes are no");
  WriteRaw(path_, "{}", "", 1000);
  EXPECT_HAS(ErrorOf([&] { SafetensorsFile file(path_); }), "header of 1000 bytes");
  WriteRaw(path_, "{}", "", ~uint64_t{0});
  EXPECT_HAS(ErrorOf([&] { SafetensorsFile file(path_); }), "header of 18446744073709551615 bytes");
}

TEST_F(Safetensors, hostile_headers_are_refused) {
  EXPECT_HAS(Reject("[1]", ""), "no JSON object");
  EXPECT_HAS(Reject("{\"a\":", ""), "malformed");
  EXPECT_HAS(Reject("{} x", ""), "malformed");
  EXPECT_HAS(Reject(std::string(100000, '['), ""), "nested deeper");
  EXPECT_HAS(Reject("{\"\xff\":{}}", ""), "malformed");
  EXPECT_HAS(Reject(R"({"a":{}})", ""), "no string 'dtype'");
  EXPECT_HAS(Reject(R"({"a":7})", ""), "not an object");
  EXPECT_HAS(Reject(R"({"__metadata__":{"k":1}})", ""), "metadata 'k'");
  EXPECT_HAS(Reject(R"({"a":{"dtype":"I16","shape":[1],"data_offsets":[0,2]}})", "ab"),
             "dtype 'I16' is not supported");
  EXPECT_HAS(Reject(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,2]}})", "ab"),
             "'shape' holds something that is no size");
  EXPECT_HAS(Reject(R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,2]}})", "ab"), "'shape'");
  EXPECT_HAS(Reject(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0]}})", "ab"), "no pair");
  EXPECT_HAS(
      Reject(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,18446744073709551615]}})", "ab"),
      "beyond 64 bits");
}

TEST_F(Safetensors, sizes_must_match_their_ranges) {
  EXPECT_HAS(Reject(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "abcd"),
             "f32[2] takes 8 bytes, the header gives it 4");
  EXPECT_HAS(Reject(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "abc"),
             "outside the 3 of data");
  EXPECT_HAS(Reject(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}})", "ab"), "outside");
  // 2^62 * 4 elements of four bytes wrap around to zero.
  EXPECT_HAS(
      Reject(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", ""),
      "beyond 64 bits");
}

TEST_F(Safetensors, ranges_cover_the_data_once) {
  EXPECT_HAS(Reject(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                    "abcd"),
             "tensor 'b' starts");
  EXPECT_HAS(Reject(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                    "abc"),
             "tensor 'b' starts");
  EXPECT_HAS(Reject(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "abc"),
             "2 bytes belong to no tensor");
}

TEST_F(Safetensors, a_name_given_twice_is_refused) {
  EXPECT_HAS(Reject(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                    "ab"),
             "'a' is given twice");
}

TEST(Json, prints_what_it_parses) {
  const std::string text = R"({"b":[1,-2.5,true,null,"x\"y"],"a":{}})";
  EXPECT_EQ(PrintJson(ParseJson(text, "t")), text);
}

}  // namespace
}  // namespace stator
