// Plans as files: a flatbuffer (codegen/plan.fbs) followed by eight bytes, the hash of what is
// before them, so that a damaged file is told from one that was made wrong.
#include "codegen/plan_fbs.h"
#include "ir/base/error.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace stator {
namespace {

constexpr size_t kHashBytes = 8;

std::string HashOf(std::string_view bytes) {
  const uint64_t hash = HashBytes(bytes);
  std::string out;
  for (size_t i = 0; i < kHashBytes; ++i) out.push_back(static_cast<char>(hash >> (8 * i)));
  return out;
}

// Readers of `path` see the old file or the new one, never a part; also after a power cut. Nothing
// but a regular file is replaced: to rename over a device would take its name away.
void WriteFile(const std::string& asked, std::string_view bytes) {
  namespace fs = std::filesystem;
  const bool there = fs::exists(asked);
  if (there && !fs::is_regular_file(asked)) {
    Fail(ErrorCode::kIo, "cannot write ", asked, ": it is not a regular file");
  }
  const std::string path = there ? fs::canonical(asked).string() : asked;  // behind a link
  const std::string temporary = StrCat(path, ".tmp.", getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool ok = fd >= 0;
  while (ok && !bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    ok = n > 0 || (n < 0 && errno == EINTR);
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
  ok = ok && fsync(fd) == 0;
  if (fd >= 0) ok = close(fd) == 0 && ok;
  if (ok && rename(temporary.c_str(), path.c_str()) == 0) return;
  const std::string why = std::strerror(errno);
  unlink(temporary.c_str());
  Fail(ErrorCode::kIo, "cannot write ", path, ": ", why);
}

Plan ParsePlan(std::string_view file) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(file.data());
  if (file.size() < 2 * kHashBytes || !fbs::PlanBufferHasIdentifier(bytes)) {
    Fail(ErrorCode::kParse, "not a stator plan");
  }
  const size_t size = file.size() - kHashBytes;
  if (HashOf(file.substr(0, size)) != file.substr(size)) {
    Fail(ErrorCode::kParse, "the file is damaged: its hash does not match its contents");
  }
  flatbuffers::Verifier verifier(bytes, size, /*max_depth=*/64, /*max_tables=*/100'000'000);
  if (!fbs::VerifyPlanBuffer(verifier)) Fail(ErrorCode::kParse, "the file's structure is invalid");
  const fbs::Plan* table = fbs::GetPlan(bytes);
  if (table->version() != kPlanVersion) {
    Fail(ErrorCode::kParse, "the plan has format version ", table->version(),
         ", this stator reads version ", kPlanVersion, "; make the plan anew");
  }
  fbs::PlanT unpacked;
  table->UnPackTo(&unpacked);
  return FromFileForm(unpacked);
}

}  // namespace

void SavePlan(const Plan& plan, const std::string& path) {
  const fbs::PlanT unpacked = ToFileForm(plan);
  flatbuffers::FlatBufferBuilder builder(1 << 20);
  fbs::FinishPlanBuffer(builder, fbs::Plan::Pack(builder, &unpacked));
  std::string file(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  file += HashOf(file);
  WriteFile(path, file);
}

Plan LoadPlan(const std::string& path) {
  std::error_code none;
  if (std::filesystem::exists(path, none) && !std::filesystem::is_regular_file(path, none)) {
    Fail(ErrorCode::kIo, path, " is not a regular file");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) Fail(ErrorCode::kIo, "cannot read ", path, ": ", std::strerror(errno));
  const std::string file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) Fail(ErrorCode::kIo, "cannot read ", path);
  try {
    Plan plan = ParsePlan(file);
    VerifyPlan(plan);
    return plan;
  } catch (const Error& e) {
    Fail(ErrorCode::kParse, path, ": ", e.what());
  }
}

}  // namespace stator
