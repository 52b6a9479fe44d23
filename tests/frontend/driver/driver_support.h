// Helpers of the driver's tests.
#pragma once

#include "ir/base/error.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace stator {

// A folder of a test's own, removed with it.
class TempDir {
 public:
  TempDir() {
    path_ = (std::filesystem::temp_directory_path() / "stator-test-XXXXXX").string();
    STATOR_CHECK(mkdtemp(path_.data()) != nullptr, path_);
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// The message of the `Error` that `f` throws; "" when it throws none.
template <typename F>
std::string ErrorOf(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

inline bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
#define EXPECT_HAS(text, part) EXPECT_PRED2(Has, text, part)

}  // namespace stator
