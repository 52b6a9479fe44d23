// A program outside the tree, against the installed headers and libraries.
#include "ir/dtype.h"

#include <cstdio>

int main() {
  const std::string_view name = stator::Name(stator::DType::kBF16);
  std::printf("%.*s is %d bytes wide\n", static_cast<int>(name.size()), name.data(),
              stator::ByteWidth(stator::DType::kBF16));
  return name == "bf16" ? 0 : 1;
}
