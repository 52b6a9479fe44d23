// The tuning file: GEMM algorithm choices by device, library version and problem. JSON, one object
// of entries; unknown devices and versions in it are kept. Behind it stand the choices that were
// recorded on devices we have and are part of the program (runtime/cuda/tuning/), so that a machine
// that starts with no file chooses as they did.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>

namespace stator {

// cublasLtMatmulAlgo_t, which may be stored for use with the same version of the library.
using AlgorithmBits = std::array<uint64_t, 8>;

struct TunedChoice {
  AlgorithmBits algorithm{};
  double milliseconds = 0;
};

class TuningFile {
 public:
  // Reads `path` if it is there; throws `Error` (kParse) naming it when it is damaged. `scope`
  // names device and library version: only its entries are seen.
  TuningFile(std::string path, std::string scope);

  ~TuningFile();
  TuningFile(const TuningFile&) = delete;
  TuningFile& operator=(const TuningFile&) = delete;

  std::optional<TunedChoice> Find(const std::string& key) const;
  const std::string& scope() const { return scope_; }
  // Keeps other processes from searching until Save, and reads what they have found since.
  void Lock();
  void Put(const std::string& key, const TunedChoice& choice);
  // Writes what was put, if anything: merged with what other processes wrote since, by rename.
  void Save();

 private:
  using Entries = std::map<std::string, std::map<std::string, TunedChoice>>;
  static Entries Read(const std::string& path);
  static Entries Parse(std::istream& in, const std::string& path);
  friend std::optional<TunedChoice> FindRecorded(const std::string& scope, const std::string& key);

  std::string path_, scope_;
  Entries entries_;
  bool changed_ = false;
  int lock_ = -1;
};

// A choice that came with the program.
std::optional<TunedChoice> FindRecorded(const std::string& scope, const std::string& key);

}  // namespace stator
