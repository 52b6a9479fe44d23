// Starting weights from a file: a safetensors file by our parameter names, or one that Hugging Face
// wrote for the same model.
#pragma once

#include "frontend/dsl/models/weight_names.h"
#include "runtime/executor.h"

#include <string>
#include <vector>

namespace stator {

// Writes every parameter of the plan. Names are ours where the file has them, else those of
// `sources`, with or without their first component ("transformer."). f32, f16 and bf16 files are
// read. Derived states are rebuilt. Throws `Error` naming the tensor that is missing or of another
// shape, or those that the model does not read, before any parameter is written. A file may hold
// Hugging Face's buffers too, and the head of a tied embedding where it equals that bit for bit.
void LoadPretrained(Executor& executor, const std::string& path,
                    const std::vector<dsl::WeightSource>& sources);

}  // namespace stator
