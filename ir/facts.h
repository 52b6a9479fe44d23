// Keys of the facts that passes leave on nodes, printed after `#` in the text form.
// A new one is named here and gets its kind in ir/facts.cc.
#pragma once

#include "ir/attr.h"

#include <string_view>

namespace stator::fact {

inline constexpr std::string_view kPhase = "phase";   // "forward", "backward", "update"
inline constexpr std::string_view kF32Group = "f32";  // int: nodes that compute in f32 together
inline constexpr std::string_view kImpl =
    "impl";  // "library", or of a product "region": its region's kernel
inline constexpr std::string_view kTile =
    "tile";  // Dims, of such a product with few elements: rows and columns a block
inline constexpr std::string_view kRegion = "region";  // int: fused into one kernel with equals
inline constexpr std::string_view kInline =
    "inline";  // true: recomputed wherever its region reads it
inline constexpr std::string_view kAssembled =
    "assembled";  // true: a concat whose equal parts are written where they are computed
inline constexpr std::string_view kView = "view";  // true: result 0 aliases operand 0's storage
inline constexpr std::string_view kStrides = "strides";      // of a view, in elements of its base
inline constexpr std::string_view kViewOffset = "at";        // of a view, in elements of its base
inline constexpr std::string_view kRecompute = "recompute";  // true: a clone made to save memory
inline constexpr std::string_view kStream = "stream";  // int: 0 unless said; others run beside it,
                                                       // behind what stands before them on stream 0
inline constexpr std::string_view kWaits =
    "waits";  // int: the region of another stream that must have ended,
              // and with it those before it on that stream
inline constexpr std::string_view kSpace = "space";    // per result: Dims of ir/space.h values
inline constexpr std::string_view kOffset = "offset";  // per result: Dims, see ir/storage.h
inline constexpr std::string_view kInPlace =
    "inplace";  // per result: Dims, operand whose storage it
                // takes, -2 another of its region, or -1
inline constexpr std::string_view kScratch = "scratch";  // int: bytes of arena its kernels need
inline constexpr std::string_view kScratchAt = "scratch_at";  // int: where they are in the arena

inline constexpr std::string_view kJoins = "joins";  // int: the operand whose library call computes
                                                     // this node as well; its only use is here
inline constexpr std::string_view kTogether =
    "together";  // int: unrelated regions that run next to each other
                 // under one launch, so as if at once
inline constexpr std::string_view kEpilogue =
    "epilogue";  // of a contraction: "bias", "accumulate"; what
                 // joins it says the rest
inline constexpr std::string_view kBatchChunk =
    "batch_chunk";  // int: batch entries a library call takes
inline constexpr std::string_view kHeadChunk =
    "head_chunk";  // int: key heads, each with its query heads, that a library call takes of one
                   // batch entry
inline constexpr std::string_view kBelow = "below";  // int, of an input: its ids are in [0, below)
inline constexpr std::string_view kIgnored =
    "ignored";  // int, of an input: the id that is let pass

// A value of the kind that the fact `key` has; null where no fact is named so.
const Attr* Example(std::string_view key);

}  // namespace stator::fact
