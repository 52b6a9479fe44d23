#!/usr/bin/env bash
# Parity on a GPU: GPT-2 124M and a 4-layer Llama, 100 f32 steps each, Stator against the PyTorch of this
# machine. Exit status 0 only when both agree to 1e-4.
#   tests/parity/run_gpu.sh build/dev/tests/stator_losses [RESULTS.jsonl]
# PYTHON names another interpreter than python3.
set -uo pipefail
program=${1:?usage: run_gpu.sh STATOR_LOSSES [RESULTS.jsonl]}
results=${2:-/dev/null}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
failed=0
for model in "gpt2 --size 124m" "llama --size large"; do
  read -ra words <<<"$model"
  "$python" "$here/${words[0]}.py" --stator "$program" --device cuda "${words[@]:1}" | tee -a "$results" || failed=1
done
exit $failed
