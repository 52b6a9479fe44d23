// An interned string: equal texts are one object, so that a copy is a pointer. Names of attributes
// and facts, their words, and scopes stand on tens of thousands of nodes, and are a few hundred
// texts.
#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace stator {

class Symbol {
 public:
  Symbol() : Symbol(std::string_view()) {}
  // The text is kept for the life of the process, under a lock: any thread may ask.
  Symbol(std::string_view text);  // NOLINT(google-explicit-constructor)
  Symbol(const std::string& text) : Symbol(std::string_view(text)) {}
  Symbol(const char* text) : Symbol(std::string_view(text)) {}

  const std::string& str() const { return *text_; }
  operator const std::string&() const { return *text_; }
  operator std::string_view() const { return *text_; }
  bool empty() const { return text_->empty(); }

  // Addresses say which are equal, never which comes first.
  bool operator==(const Symbol& other) const { return text_ == other.text_; }
  bool operator==(std::string_view other) const { return *text_ == other; }
  std::strong_ordering operator<=>(const Symbol& other) const { return *text_ <=> *other.text_; }

 private:
  const std::string* text_;
};

}  // namespace stator
