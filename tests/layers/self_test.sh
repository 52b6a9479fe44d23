#!/usr/bin/env bash
# The layer check must fail where it should: plants one forbidden include at a time in a copy of the
# tree and expects the check to name it; plants allowed ones and expects silence.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
for folder in ir passes codegen runtime frontend; do
  mkdir -p "$copy/$folder"
  [ -d "$root/$folder" ] && cp -r "$root/$folder" "$copy/"
done

failures=0
plant() { # forbidden|allowed <file> <line>...
  local expected=$1 file=$2 found=allowed output
  shift 2
  mkdir -p "$copy/$(dirname "$file")"
  printf '%s\n' "$@" >"$copy/$file"
  output=$("$here/check_layers.sh" "$copy" 2>&1) || true
  grep -q "^$file:" <<<"$output" && found=forbidden
  rm "$copy/$file"
  [ $found = "$expected" ] && return
  echo "$file with '$*' should be $expected, was $found"
  failures=$((failures + 1))
}

plant forbidden ir/planted.cc '#include "passes/pipeline.h"'
plant forbidden ir/planted.h '#  include "frontend/dsl/tensor.h"'
plant forbidden ir/planted.cc '#include <cuda_runtime.h>'
plant forbidden ir/planted.cc '#include "graph.h"'
plant forbidden passes/planted.cc '#include "codegen/emit.h"'
plant forbidden passes/analysis/planted.cc '#include <runtime/arena.h>'
plant forbidden codegen/planted.cc '#include "runtime/arena.h"'
plant forbidden codegen/planted.cc '#include "passes/analysis/liveness.h"'
plant forbidden codegen/planted.cc '#include <nvrtc.h>'
plant forbidden codegen/plan_planted.h '#include "ir/graph.h"'
plant forbidden ir/base/planted.h '#include "ir/graph.h"'
plant forbidden runtime/planted.cc '#include "ir/graph.h"'
plant forbidden runtime/planted.cc '#include "codegen/emit.h"'
plant forbidden runtime/cpu/planted.cc '#include <cudnn_frontend.h>'
plant forbidden runtime/planted.cc '#include <mpi.h>'
plant forbidden frontend/dsl/planted.cc '#include "runtime/executor.h"'
plant forbidden frontend/cli/planted.cc '#include "tests/support/text.h"'
plant forbidden frontend/cli/planted.cc '#include <nccl.h>'
plant forbidden codegen/planted.cc 'const char* k = R"(' '#include <a.h>' ')";' '#include <cuda.h>'

plant allowed ir/planted.cc '#include "ir/base/error.h"' '#include <vector>' '#include <fmt/format.h>'
plant allowed passes/planted.cc '#include "passes/pipeline.h"' '#include "ir/graph.h"'
plant allowed codegen/planted.cc '#include "codegen/plan.h"' '#include "ir/graph.h"'
plant allowed codegen/planted.cc 'const char* k = R"cuda(' '#include <cuda_bf16.h>' ')cuda";'
plant allowed codegen/planted.cc '// #include "runtime/arena.h"'
plant allowed runtime/planted.cc '#include "codegen/plan_generated.h"' '#include "ir/dtype.h"'
plant allowed runtime/cuda/planted.cc '#include <cudnn_frontend.h>' '#include <nvrtc.h>'
plant allowed runtime/comm/planted.cc '#include <nccl.h>' '#include <mpi.h>'
plant allowed frontend/driver/planted.cc '#include "runtime/arena.h"' '#include "codegen/emit.h"'

[ $failures = 0 ] && echo "layers: planted includes are seen"
exit $((failures > 0))
