// Checkpoints: out_dir/step-00002000/ holds
//   model.safetensors   parameters by name
//   state.safetensors   every other state that cannot be rebuilt: moments, counters, seeds
//   checkpoint.json     configuration, data position, versions, sizes of the two files above, and
//                       the CRC-32 of every tensor's bytes
// and out_dir/latest names the directory that counts. A directory is written under a temporary
// name, synced and renamed; `latest` is replaced after that, so that a crash at any moment leaves
// either the old checkpoint or the new one.
#pragma once

#include "runtime/executor.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace stator {

inline constexpr const char* kMetricsFile = "metrics.jsonl";  // of a run, beside its checkpoints
inline constexpr int kCheckpointVersion = 1;  // a reader accepts its own version and those before

struct CheckpointInfo {
  int64_t iteration = 0;  // batches consumed: the data position, as batches are a function of it
  std::map<std::string, std::string> config;    // as ConfigText gives it
  std::map<std::string, std::string> versions;  // of what wrote it: the plan's fingerprint
  // By tensor, as ChecksumText gives it; of a checkpoint that was read. An older one has none.
  std::map<std::string, std::string> checksums = {};
};

// States that a checkpoint holds: all but derived ones and gradient accumulators, which are zero
// between updates.
bool IsCheckpointed(const StateEntry& state);

// Returns the directory. Older checkpoints in `out_dir` are removed once the new one is in place.
// Throws `Error` (kIo; kInvalidArgument for a parameter that is not finite); what was there before
// stays loadable then.
std::string SaveCheckpoint(Executor& executor, const CheckpointInfo& info,
                           const std::string& out_dir);

// Whether `directory` is itself a checkpoint, whole or not.
bool IsCheckpoint(const std::string& directory);
// The directory that `out_dir` or `out_dir`/latest stands for, without a latest the newest one; ""
// when there is no checkpoint.
std::string FindCheckpoint(const std::string& out_dir);
// Calls `read` with FindCheckpoint(out_dir). Where that fails as a run beside this one has replaced
// the checkpoint, and so removed it, `read` is called with the next; a few times.
void WithCheckpoint(const std::string& out_dir,
                    const std::function<void(const std::string& directory)>& read);
// Throws `Error` (kIo, kParse) for a directory that is incomplete or of a later version.
CheckpointInfo ReadCheckpointInfo(const std::string& directory);

enum class Restore {
  kEverything,  // to go on training: every state must be there, none may be left over
  kParameters,  // to sample or evaluate: parameters only
};
// Writes the checkpoint's tensors into the executor's states, and rebuilds derived ones. Throws
// `Error` (kInvalidArgument) naming a state that is missing, left over or of another type, before
// any state is written; and (kParse) naming a tensor whose bytes are not what its checksum says.
void RestoreCheckpoint(Executor& executor, const std::string& directory, Restore what);

// Fills every state that has an initializer, and the seed of the random streams; derived states are
// rebuilt.
void InitializeStates(Executor& executor, uint64_t seed);

// Recomputes the derived states from the others: through the plan's program "derive" where it has
// one.
void RebuildDerivedStates(Executor& executor);

}  // namespace stator
