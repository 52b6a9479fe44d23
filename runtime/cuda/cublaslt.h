// Matrix products through cuBLASLt: an algorithm per problem, chosen at load.
#pragma once

#include "codegen/plan.h"
#include "runtime/cuda/resources.h"
#include "runtime/cuda/step.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace stator {

// Scratch of one stream's products, bytes; shared by all of them.
inline constexpr int64_t kMatMulWorkspace = int64_t{32} << 20;

struct MatMulOptions {
  bool tf32 = false;      // f32 operands rounded to tf32: faster, about 3 digits
  bool search = false;    // time the heuristic's candidates for problems nobody has chosen for
  bool recorded = false;  // take the choices that came with the program before searching
  bool thorough = false;  // search at leisure: for a table to record
  std::function<void()> before_search = {};  // called once, if ever: fills the operands
};

// Random numbers near 1 in any float dtype: algorithms are timed on these, since a chip runs faster
// on zeros.
void FillWithNoise(const DeviceMemory& memory);

// Chooses among algorithms whose bits repeat from run to run: split-K reductions in a fixed order,
// in f32. The choice depends on tuning key, problem, device and library version alone: the tuning
// file's where it has one, the recorded one, the fastest of the heuristic's first eight when
// searching (of sixteen where a run is short), which goes into the file, else its first.
class CublasLt {
 public:
  // The tuning file is written by SaveTuning alone.
  CublasLt(const std::string& device_name, const std::string& tuning_file,
           const MatMulOptions& options);
  ~CublasLt();

  // `workspace` has kMatMulWorkspace bytes. Throws `Error` with `name` when no algorithm takes the
  // call. A search runs the product, on whatever the buffers hold.
  CudaStepPtr Prepare(const MatMulCall& call, const SpaceMap& spaces, char* workspace,
                      const std::string& name);

  void SaveTuning();

  static std::string Version();  // "13.1.0"

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stator
