// Needs NVRTC, but no GPU.
#if STATOR_WITH_NVRTC
#include "runtime/cuda/nvrtc.h"

#include "ir/base/error.h"
#include "runtime/kernel_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace stator {
namespace {

TEST(Nvrtc, names_the_offending_line) {
  try {
    CompileCuda("extern \"C\" __global__ void k(float* x) {\n  x[0] = y;\n}\n", 90, "broken");
    FAIL() << "compiled";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("broken"), what.npos) << what;
    EXPECT_NE(what.find("identifier \"y\" is undefined"), what.npos) << what;
    EXPECT_NE(what.find("2:   x[0] = y;"), what.npos) << what;
  }
}

TEST(Nvrtc, takes_instructions_of_one_architecture) {
  const std::string source =
      "extern \"C\" __global__ void __launch_bounds__(128, 1) k() {\n"
      "  asm volatile(\"setmaxnreg.inc.sync.aligned.u32 240;\");\n}\n";
  EXPECT_FALSE(CompileCuda(source, 90, "registers").empty());
}

TEST(Nvrtc, keys_tell_sources_and_architectures_apart) {
  EXPECT_NE(CudaSourceKey("a", 90), CudaSourceKey("b", 90));
  EXPECT_NE(CudaSourceKey("a", 80), CudaSourceKey("a", 90));
  EXPECT_EQ(CudaSourceKey("a", 90), CudaSourceKey("a", 90));
}

TEST(Nvrtc, compiles_equal_sources_once_and_reads_them_back) {
  const std::string dir = (std::filesystem::temp_directory_path() / "stator_nvrtc_test").string();
  std::filesystem::remove_all(dir);
  KernelCache cache(dir);
  const std::string one = "extern \"C\" __global__ void one(int* x) { x[0] = 1; }";
  const std::string two = "extern \"C\" __global__ void two(int* x) { x[0] = 2; }";
  const CudaSource sources[] = {{"a", one}, {"b", two}, {"c", one}};
  const auto first = CompileCudaCached(sources, 90, cache);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first[0], first[2]);
  EXPECT_NE(first[0], first[1]);
  EXPECT_TRUE(cache.Has(CudaSourceKey(one, 90), "cu"));
  EXPECT_EQ(CompileCudaCached(sources, 90, cache), first);
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace stator
#endif
