#include "ir/base/symbol.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_set>

namespace stator {
namespace {

struct Hash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// A set of nodes: its strings stay where they are.
class Table {
 public:
  const std::string* Find(std::string_view text) {
    {
      const std::shared_lock lock(mutex_);
      if (const auto it = texts_.find(text); it != texts_.end()) return &*it;
    }
    const std::unique_lock lock(mutex_);
    return &*texts_.emplace(text).first;
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_set<std::string, Hash, std::equal_to<>> texts_;
};

}  // namespace

Symbol::Symbol(std::string_view text) {
  static Table* const kTable = new Table;
  static const std::string* const kEmpty = kTable->Find("");
  text_ = text.empty() ? kEmpty : kTable->Find(text);
}

}  // namespace stator
