"""One GPU, one run: Stator, torch.compile in its modes and JAX train the same model, one after another.

  python3 bench/side_by_side.py --stator build/dev/stator_train_steps --work gpt2-124m [--work ...] [--seconds 5] [--out FILE]
  python3 bench/side_by_side.py --stator build/dev/stator_train_steps --work all --sides stator,torch --out bench/results/h200.json

Every side runs in a process of its own for at least --seconds of steady state, with synthetic tokens, bf16 compute, f32
master weights, AdamW and clipping at 1. While it runs, clocks, watts and used memory of the GPU are sampled. The figures
of a side are medians a step; a side that fails is listed with its error, not left out. Prints a table and writes JSON.

Stator is timed from the end of one update to the end of the next, with the next batch's upload under way, as in `stator
train`. The other scripts are in bench/peers; they time steps by CUDA events, or blocks of steps by the clock (JAX).
peak_gib is each framework's own account (Stator: all it allocates before the first step, without libraries), device_gib
what the driver says is in use. Ends with 1 when a side failed.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# Shapes by name; ms is what a step takes about, which says how many steps fill the time. `stator` has keys for
# our side alone: a byte budget, where without one a step would take more than 0.75 of the peers' memory.
WORKS = {
    "gpt2-124m": dict(model="gpt2-124m", batch=64, seq=1024, vocab=50304, ms=120),
    "gpt2-1.5b": dict(model="gpt2-1.5b", batch=16, seq=1024, vocab=50304, ms=340, stator=["memory=48GiB"]),
    "llama-1b": dict(model="llama-1b", batch=8, seq=4096, vocab=128256, ms=505, stator=["memory=51GiB"]),
    "gpt2-124m-t8192": dict(model="gpt2-124m", batch=8, seq=8192, vocab=50304, ms=200),
    "gpt2-124m-t32768": dict(model="gpt2-124m", batch=2, seq=32768, vocab=50304, ms=435),
    "vocab-262144": dict(model="gpt2-124m", batch=16, seq=1024, vocab=262144, ms=72),
    "vocab-1048576": dict(model="gpt2-124m", batch=8, seq=1024, vocab=1048576, ms=109, stator=["memory=19.6GiB"]),
    "tiny": dict(model="tiny", batch=8, seq=128, vocab=256, ms=1),
}

STATOR_MODELS = {
    "tiny": dict(model="gpt2", n_layer=4, n_head=4, n_embd=128),
    "gpt2-124m": dict(model="gpt2", n_layer=12, n_head=12, n_embd=768),
    "gpt2-1.5b": dict(model="gpt2", n_layer=48, n_head=25, n_embd=1600),
    "llama-1b": dict(model="llama", n_layer=16, n_head=32, n_kv_head=8, n_embd=2048, ffn_dim=8192, rope_theta=500000),
}

SIDES = {
    "stator": ["fast=true"],
    "stator-deterministic": [],
    "torch": ["--mode", "compile", "--sdpa", "cudnn"],
    "torch-fa2": ["--mode", "compile"],
    "torch-graphs": ["--mode", "graphs"],
    "torch-autotune": ["--mode", "autotune", "--sdpa", "cudnn"],
    "torch-deterministic": ["--mode", "compile", "--deterministic"],
    "jax": [],
}


class Sampler:
    """Clocks (MHz), power (W) and used memory (MiB) of GPU 0, every 100 ms, while the block runs."""

    def __enter__(self):
        self.rows = []
        self.process = subprocess.Popen(
            ["nvidia-smi", "-i", "0", "--query-gpu=clocks.sm,power.draw,memory.used", "--format=csv,noheader,nounits",
             "-lms", "100"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.thread = threading.Thread(target=self.read)
        self.thread.start()
        return self

    def read(self):
        for line in self.process.stdout:
            try:
                self.rows.append([float(x) for x in line.split(",")])
            except ValueError:
                pass  # "[N/A]" where the driver does not tell

    def __exit__(self, *_):
        self.process.terminate()
        self.thread.join()

    def figures(self):
        """Medians where the power is within a fifth of its peak, which is the step loop; the peak of memory is of all."""
        if not self.rows:
            return {}
        peak = max(r[1] for r in self.rows)
        busy = [r for r in self.rows if r[1] >= 0.8 * peak]
        return dict(sm_mhz=statistics.median(r[0] for r in busy), watts=round(statistics.median(r[1] for r in busy), 1),
                    device_gib=round(max(r[2] for r in self.rows) / 1024, 2))


def run_stator(program, work, steps, extra):
    keys = dict(STATOR_MODELS[work["model"]], batch_size=work["batch"], block_size=work["seq"], vocab_size=work["vocab"],
                dtype="bf16", device="cuda", max_iters=100000, learning_rate=3e-4, schedule="constant", min_lr=3e-4, warmup_iters=0, weight_decay=0.1,
                beta2=0.95)
    command = [program] + ["%s=%s" % item for item in keys.items()] + work.get("stator", []) + extra
    done = subprocess.run(command, input="stream 5\nstream %d\n" % steps, capture_output=True, text=True)
    if done.returncode != 0:
        return dict(error=(done.stderr or done.stdout)[-400:])
    try:
        first, _, stream = [json.loads(line) for line in done.stdout.splitlines()]
    except ValueError:
        return dict(error="not three lines of JSON: " + done.stdout[-400:])
    times = sorted(stream["ms"][2:])
    ms = times[len(times) // 2]
    return dict(first, ms=round(ms, 3), ms_min=round(times[0], 3), tok_s=round(work["batch"] * work["seq"] / ms * 1e3),
                loss=stream["loss"], peak_gib=round((first["state"] + first["arena"]) / 2**30, 2))


def run_peer(script, work, steps, extra):
    command = [sys.executable, os.path.join(HERE, "peers", script), "--model", work["model"], "--batch",
               str(work["batch"]), "--seq", str(work["seq"]), "--vocab", str(work["vocab"]), "--steps", str(steps)]
    environment = dict(os.environ, XLA_PYTHON_CLIENT_PREALLOCATE="false")
    if "--deterministic" in extra:
        environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    done = subprocess.run(command + extra, capture_output=True, text=True, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        return dict(error=(done.stderr or done.stdout)[-400:])
    return json.loads(lines[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stator", required=True, help="the program stator_train_steps")
    parser.add_argument("--work", action="append", required=True, help="one of, or several times: all, " + ", ".join(WORKS))
    parser.add_argument("--sides", default="stator,stator-deterministic,torch,torch-fa2,jax",
                        help="of: " + ", ".join(SIDES))
    parser.add_argument("--seconds", type=float, default=5, help="steady state of each side, at least")
    parser.add_argument("--out", help="JSON file; written after every side")
    args = parser.parse_args()
    names = list(WORKS) if "all" in args.work else args.work
    for name, known in [(n, WORKS) for n in names] + [(s, SIDES) for s in args.sides.split(",")]:
        if name not in known:
            parser.error("no %s; there are %s" % (name, ", ".join(known)))
    if not 0 < args.seconds < 3600:
        parser.error("--seconds is %s: it must be above 0 and less than an hour" % args.seconds)
    if not os.access(args.stator, os.X_OK):
        parser.error("--stator: %s is no program" % args.stator)
    if shutil.which("nvidia-smi") is None:
        parser.error("there is no nvidia-smi here: this needs an NVIDIA GPU and its driver")
    if args.out:
        open(args.out, "a").close()  # an error before the runs, not after them
    results = []
    print("%-18s %-22s %9s %11s %9s %7s %7s" % ("work", "side", "ms/step", "tokens/s", "GiB used", "MHz", "W"))
    for name in names:
        work = WORKS[name]
        steps = max(20, int(args.seconds * 1000 / work["ms"] * 1.2) + 5)
        for side in args.sides.split(","):
            with Sampler() as sampler:
                if side.startswith("stator"):
                    result = run_stator(args.stator, work, steps, SIDES[side])
                else:
                    result = run_peer("jax_gpt.py" if side == "jax" else "torch_gpt.py", work, steps, SIDES[side])
            result.update(work=name, side=side, steps=steps, **sampler.figures())
            if side.startswith("stator") and "stator" in work:
                result["keys"] = work["stator"]
            results.append(result)
            if "error" in result:
                last = (result["error"].strip().splitlines() or ["it said nothing"])[-1]
                print("%-18s %-22s failed: %s" % (name, side, last), flush=True)
            else:
                print("%-18s %-22s %9.3f %11d %9s %7s %7s" % (
                    name, side, result["ms"], result["tok_s"], result.get("device_gib", "?"), result.get("sm_mhz", "?"),
                    result.get("watts", "?")), flush=True)
            if args.out:
                with open(args.out + ".tmp", "w") as f:
                    json.dump(results, f, indent=1)
                os.replace(args.out + ".tmp", args.out)
    return 1 if any("error" in r for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
