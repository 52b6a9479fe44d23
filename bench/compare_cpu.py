"""The small GPT of `./run train` on the CPU in f32: a training step of Stator against PyTorch eager.

  python3 bench/compare_cpu.py --stator build/dev/stator_train_steps [--threads 2] [--out bench/results/cpu_small_gpt.json]

Both take turns in one run (A B A B ...), a few steps a turn, so that whatever else the machine does falls on both. Same
model, batch, AdamW, clipping and threads. PyTorch's faster choices are taken where its version has them: fused AdamW,
scaled_dot_product_attention. Compare the ratio of medians; on a busy machine the ratio of minima too, and with one
thread that of processor time, which leaves out what others took.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "parity"))
import gpt2  # noqa: E402
import parity  # noqa: E402

CONFIG = dict(n_layer=4, n_head=4, n_embd=128, block_size=128, vocab_size=256, batch_size=16, learning_rate=1e-3)


class TorchSteps:
    def __init__(self, threads):
        torch.set_num_threads(threads)
        config = dict(CONFIG, fused_attention=hasattr(F, "scaled_dot_product_attention"))
        weights = parity.make_weights(gpt2.shapes(config), config["n_layer"])
        self.training = parity.Training(gpt2.loss, config, weights, "cpu")
        self.fused = hasattr(torch.optim.AdamW, "_init_group") and torch.__version__ >= "2.4"
        for group in self.training.optimizer.param_groups:
            if self.fused:
                group["fused"], group["foreach"] = True, False
        rows = parity.make_batches(1, config["batch_size"], config["block_size"], config["vocab_size"])[0]
        self.rows = torch.from_numpy(rows).long()

    def run(self, count):
        """Milliseconds of each step, by the clock and in processor time of all threads."""
        wall, cpu = [], []
        for _ in range(count):
            start, cpu_start = time.perf_counter(), time.process_time()
            loss, norm = self.training.step(self.rows)
            loss.item(), norm.item()
            cpu.append((time.process_time() - cpu_start) * 1e3)
            wall.append((time.perf_counter() - start) * 1e3)
        return wall, cpu


class StatorSteps:
    def __init__(self, program, threads):
        keys = ["%s=%s" % (k, v) for k, v in CONFIG.items()] + ["threads=%d" % threads]
        self.process = subprocess.Popen([program] + keys, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()  # the first step

    def run(self, count):
        self.process.stdin.write("run %d\n" % count)
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit("stator_train_steps ended")
        answer = json.loads(answer)
        return answer["ms"], answer["cpu_ms"]


def processor():
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def summary(wall, cpu):
    return {"median_ms": statistics.median(wall), "min_ms": min(wall), "median_cpu_ms": statistics.median(cpu),
            "min_cpu_ms": min(cpu), "steps": len(wall)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stator", required=True, help="the program stator_train_steps")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--steps", type=int, default=10, help="steps of a turn")
    parser.add_argument("--out", help="JSON file to write")
    args = parser.parse_args()
    sides = {"torch": TorchSteps(args.threads), "stator": StatorSteps(args.stator, args.threads)}
    times, cpu_times = {name: [] for name in sides}, {name: [] for name in sides}
    load = os.getloadavg()[0]
    for turn in range(args.turns + 1):
        for name, side in sides.items():
            wall, cpu = side.run(args.steps)
            if turn > 0:  # the first warms up
                times[name] += wall[1:]  # the first of a turn wakes its threads
                cpu_times[name] += cpu[1:]
    result = {name: summary(times[name], cpu_times[name]) for name in sides}
    # By turn: both sides of a turn saw the same machine.
    per_turn = args.steps - 1
    ratios = [statistics.median(times["stator"][i:i + per_turn]) / statistics.median(times["torch"][i:i + per_turn])
              for i in range(0, len(times["torch"]), per_turn)]
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], stdout=subprocess.PIPE, text=True,
                            cwd=os.path.dirname(os.path.abspath(__file__))).stdout.strip()
    result.update(
        ratio_of_medians=result["stator"]["median_ms"] / result["torch"]["median_ms"],
        ratio_of_minima=result["stator"]["min_ms"] / result["torch"]["min_ms"],
        ratio_of_cpu_medians=result["stator"]["median_cpu_ms"] / result["torch"]["median_cpu_ms"],
        median_of_turn_ratios=statistics.median(ratios), what="stator / torch eager, below 1: Stator is faster",
        model=CONFIG, threads=args.threads, torch_version=torch.__version__, fused_adamw=sides["torch"].fused,
        processor=processor(), load_average_before=load, commit=commit, date=time.strftime("%Y-%m-%d"))
    text = json.dumps(result, indent=1)
    print(text)
    if args.out:
        os.makedirs(os.path.dirname(args.out) or ".", exist_ok=True)
        with open(args.out, "w") as f:
            f.write(text + "\n")


if __name__ == "__main__":
    main()
