#include "runtime/kernel_cache.h"

#include "ir/base/error.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

namespace stator {
namespace {

std::string FreshDir(const std::string& name) {
  const std::string dir = std::string(STATOR_BINARY_DIR) + "/" + name;
  std::filesystem::remove_all(dir);
  return dir;
}

std::vector<char> Blob(size_t n, char c) { return std::vector<char>(n, c); }

TEST(KernelCache, what_was_stored_is_loaded) {
  KernelCache cache(FreshDir("cache-a"));
  EXPECT_FALSE(cache.Load("key", "bin"));
  cache.Store("key", "bin", Blob(1000, 'x'));
  cache.Store("key", "bin", Blob(10, 'y'));
  EXPECT_EQ(cache.Load("key", "bin"), Blob(10, 'y'));
  EXPECT_FALSE(cache.Load("key", "txt"));
  cache.Store("empty", "bin", Blob(0, ' '));
  EXPECT_EQ(cache.Load("empty", "bin"), Blob(0, ' '));
}

TEST(KernelCache, stays_below_its_limit_and_keeps_what_is_used) {
  const std::string dir = FreshDir("cache-b");
  KernelCache cache(dir, 10'000);
  const auto age = [&](const std::string& key, int hours) {
    for (const char* extension : {"bin", "txt"}) {
      const std::string path = cache.PathOf(key, extension);
      std::filesystem::last_write_time(
          path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours));
    }
  };
  for (int i = 0; i < 4; ++i) {
    const std::string key = "k" + std::to_string(i);
    cache.Store(key, "bin", Blob(2000, 'x'));
    cache.Store(key, "txt", Blob(100, 'x'));
    age(key, 10 - i);
  }
  EXPECT_TRUE(cache.Load("k0", "bin"));  // used now
  cache.Store("new", "bin", Blob(3000, 'x'));
  EXPECT_TRUE(cache.Has("new", "bin"));
  EXPECT_TRUE(cache.Has("k0", "bin"));
  EXPECT_TRUE(cache.Has("k0", "txt"));
  EXPECT_FALSE(cache.Has("k1", "bin"));
  EXPECT_FALSE(cache.Has("k1", "txt"));
  EXPECT_TRUE(cache.Has("k3", "bin"));
}

TEST(KernelCache, place_is_chosen_by_option_then_environment) {
  EXPECT_EQ(KernelCacheDir("/some/where"), "/some/where");
  setenv("STATOR_CACHE", "/from/environment", 1);
  EXPECT_EQ(KernelCacheDir(""), "/from/environment");
  unsetenv("STATOR_CACHE");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(KernelCacheDir(""), "/xdg/stator");
  unsetenv("XDG_CACHE_HOME");
}

TEST(KernelCache, a_place_that_cannot_be_is_named) {
  EXPECT_THROW(KernelCache("/proc/stator-cache"), Error);
}

}  // namespace
}  // namespace stator
