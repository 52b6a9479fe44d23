#include "codegen/kernel_args.h"

#include "codegen/scalar.h"
#include "ir/base/str.h"

#include <algorithm>

namespace stator {

std::string KernelArgs::Add(const KernelArg& arg) {
  const auto same = [&](const KernelArg& a) {
    return a.value == arg.value && a.write == arg.write && a.first == arg.first;
  };
  const auto known = std::find_if(all_.begin(), all_.end(), same);
  const auto i = known - all_.begin();
  if (known == all_.end()) all_.push_back(arg);
  return StrCat("a", i);
}

std::string KernelArgs::Read(Value base, int64_t first) { return Add({base, false, first}); }
std::string KernelArgs::Write(Value result) { return Add({result, true}); }

std::string KernelArgs::Declaration() const {
  std::string out;
  for (size_t i = 0; i < all_.size(); ++i) {
    out += StrCat(i > 0 ? ", " : "", all_[i].write ? "" : "const ",
                  StorageCType(all_[i].value.dtype()), "* a", i);
  }
  return out;
}

std::string KernelArgs::Unpacking() const {
  std::string out;
  for (size_t i = 0; i < all_.size(); ++i) {
    const std::string type =
        StrCat(all_[i].write ? "" : "const ", StorageCType(all_[i].value.dtype()), "*");
    out += StrCat("  ", type, " const a", i, " = (", type, ")args[", i, "];\n");
  }
  return out;
}

}  // namespace stator
