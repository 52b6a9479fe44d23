// A vector whose first N elements lie in the object itself: most nodes have one result, and one or
// two operands and uses. Stays where it was made, like the nodes that hold it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace stator {

template <typename T, uint32_t N>
class SmallVector {
 public:
  SmallVector() = default;
  SmallVector(const SmallVector&) = delete;
  SmallVector& operator=(const SmallVector&) = delete;
  ~SmallVector() { Release(); }

  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }

  void push_back(T value) {
    if (size_ == capacity_) Reserve(2 * capacity_);
    new (data_ + size_) T(std::move(value));
    ++size_;
  }
  template <typename Iterator>
  void assign(Iterator first, Iterator last) {
    clear();
    Reserve(static_cast<uint32_t>(last - first));
    for (; first != last; ++first) new (data_ + size_++) T(*first);
  }
  void erase(T* at) {
    std::move(at + 1, end(), at);
    std::destroy_at(data_ + --size_);
  }
  void clear() {
    std::destroy(begin(), end());
    size_ = 0;
  }

 private:
  T* Inline() { return reinterpret_cast<T*>(inline_); }

  void Reserve(uint32_t capacity) {
    if (capacity <= capacity_) return;
    T* const larger = std::allocator<T>().allocate(capacity);
    std::uninitialized_move(begin(), end(), larger);
    const uint32_t size = size_;
    Release();
    data_ = larger, size_ = size, capacity_ = capacity;
  }
  void Release() {
    std::destroy(begin(), end());
    if (data_ != Inline()) std::allocator<T>().deallocate(data_, capacity_);
  }

  T* data_ = Inline();
  uint32_t size_ = 0, capacity_ = N;
  alignas(T) std::byte inline_[N * sizeof(T)];
};

}  // namespace stator
