"""What the parity scripts share: weights and batches that both sides read, the PyTorch training loop, the comparison.

A model is a function of a dictionary of tensors under Stator's parameter names, so that the file of weights is that
dictionary. Needs only PyTorch (1.13 or later) and NumPy.
"""
import argparse
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

LIMIT = 1e-4  # largest relative difference of two losses of one step


def write_safetensors(path, tensors):
    """8 bytes of header length, a JSON header, the data: https://github.com/huggingface/safetensors, "Format"."""
    header, offset = {}, 0
    for name, array in tensors.items():
        end = offset + array.nbytes
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            f.write(np.ascontiguousarray(array, dtype="<f4").tobytes())


def make_weights(shapes, n_layer, seed=1):
    """Matrices as a model starts with them; scales and biases away from 1 and 0, where their gradients would hide."""
    random = np.random.RandomState(seed)
    weights = {}
    for name, shape in shapes.items():
        noise = random.standard_normal(shape)
        if len(shape) == 1:
            is_scale = name.endswith("/w")
            value = (1 if is_scale else 0) + (0.1 if is_scale else 0.02) * noise
        else:
            residual = "/proj/" in name or "/down/" in name
            value = (0.02 / math.sqrt(2 * n_layer) if residual else 0.02) * noise
        weights[name] = value.astype(np.float32)
    return weights


def make_text(steps, batch, length, vocab, seed=2):
    """int32 [steps, batch, length + 1]: tokens as frequent as words are, every other one following from the last. A loss
    falls from the first steps on."""
    random = np.random.RandomState(seed)
    frequency = 1 / np.arange(1, vocab + 1)
    tokens = random.choice(vocab, (steps, batch, length + 1), p=frequency / frequency.sum()).astype(np.int32)
    for t in range(1, length + 1, 2):
        tokens[..., t] = tokens[..., t - 1] * 7 % vocab
    return tokens


def make_batches(steps, batch, length, vocab, seed=2):
    """int32 [steps, batch, length + 1]: a chain that a model can learn, with three steps in ten at random."""
    random = np.random.RandomState(seed)
    follows = random.permutation(vocab)
    tokens = np.empty((steps, batch, length + 1), np.int32)
    tokens[..., 0] = random.randint(0, vocab, (steps, batch))
    for t in range(length):
        jumps = random.random_sample((steps, batch)) < 0.3
        tokens[..., t + 1] = np.where(jumps, random.randint(0, vocab, (steps, batch)), follows[tokens[..., t]])
    return tokens


def attention(q, k, v, fused=False):
    """Causal attention of q [B,T,H,D] over k, v [B,T,G,D], by its formula unless `fused`; [B,T,H*D]."""
    b, t, h, d = q.shape
    k, v = (x.repeat_interleave(h // x.shape[2], dim=2) if x.shape[2] != h else x for x in (k, v))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if fused:
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
        unseen = torch.ones(t, t, dtype=torch.bool, device=q.device).triu(1)
        scores = (q @ k.transpose(2, 3)) / math.sqrt(d)
        y = F.softmax(scores.masked_fill(unseen, float("-inf")), dim=-1) @ v
    return y.transpose(1, 2).reshape(b, t, h * d)


class Training:
    """f32 AdamW on a model's loss(parameters, config, tokens, targets): decay of matrices alone, clipping at 1."""

    def __init__(self, loss, config, weights, device, dtype=torch.float32):
        self.loss, self.config = loss, config
        self.parameters = {n: torch.tensor(w, device=device, dtype=dtype, requires_grad=True) for n, w in weights.items()}
        values = list(self.parameters.values())
        groups = [{"params": [p for p in values if p.dim() >= 2], "weight_decay": 0.1},
                  {"params": [p for p in values if p.dim() < 2], "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=config["learning_rate"], betas=(0.9, 0.95), eps=1e-8)

    def step(self, rows):
        """One update from rows [B, T + 1]; the loss and the gradient's norm before clipping, still on the device."""
        with torch.autocast(rows.device.type, dtype=torch.bfloat16, enabled=self.config.get("autocast", False)):
            loss = self.loss(self.parameters, self.config, rows[:, :-1], rows[:, 1:])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters.values(), 1.0)
        self.optimizer.step()
        return loss.detach(), norm


def run_torch(loss, config, weights, batches, device, dtype):
    training = Training(loss, config, weights, device, dtype)
    steps = [training.step(torch.from_numpy(rows).long().to(device)) for rows in batches]
    return [x.item() for x, _ in steps], [n.item() for _, n in steps]


def stator_settings(config, steps, device):
    """The keys that make Stator's model and optimizer those of Training."""
    keys = {k: v for k, v in config.items() if k in ("model", "n_layer", "n_head", "n_kv_head", "n_embd", "block_size",
                                                     "batch_size", "vocab_size", "tie_weights", "learning_rate")}
    keys.update(schedule="constant", warmup_iters=0, min_lr=config["learning_rate"], max_iters=steps, weight_decay=0.1, beta1=0.9, beta2=0.95,
                grad_clip=1, dtype="bf16" if config.get("autocast") else "f32", device=device)
    return ["%s=%s" % (k, str(v).lower() if isinstance(v, bool) else v) for k, v in keys.items()]


def run_stator(program, config, weights, batches, device, keys=()):
    with tempfile.TemporaryDirectory() as folder:
        weights_path, batches_path = os.path.join(folder, "weights.safetensors"), os.path.join(folder, "batches.i32")
        write_safetensors(weights_path, weights)
        batches.astype("<i4").tofile(batches_path)
        command = [program, weights_path, batches_path] + stator_settings(config, len(batches), device) + list(keys)
        # Threads that wait sleep: spinning ones take a busy machine from those they wait for.
        environment = dict(os.environ, OMP_WAIT_POLICY=os.environ.get("OMP_WAIT_POLICY", "passive"))
        done = subprocess.run(command, stdout=subprocess.PIPE, env=environment)
        if done.returncode != 0:
            sys.exit("%s failed" % " ".join(command))
        return json.loads(done.stdout)


def largest_difference(a, b):
    """(relative difference, step); a NaN on either side counts as infinite."""
    differences = [abs(x - y) / abs(y) if math.isfinite(x) and math.isfinite(y) else math.inf for x, y in zip(a, b)]
    worst = max(range(len(differences)), key=differences.__getitem__)
    return differences[worst], worst


def window_means(losses, width=20):
    return [sum(losses[i:i + width]) / len(losses[i:i + width]) for i in range(0, len(losses), width)]


def noise_and_distances(ours, peers):
    """Of each curve in `ours` to the mean of `peers`, the largest difference of two window means, and the mean one; of
    peers, the largest between two of them. For the windows that begin before step 100, and for the rest."""
    means = [window_means(x) for x in peers]
    middle = [sum(x) / len(x) for x in zip(*means)]
    parts = {"first_100_steps": range(0, min(5, len(middle))), "after_them": range(5, len(middle))}
    report = {}
    for part, windows in parts.items():
        if not windows:
            continue
        between = [abs(a[i] - b[i]) for k, a in enumerate(means) for b in means[:k] for i in windows]
        apart = {}
        for name, losses in ours.items():
            signed = [x - m for x, m in zip(window_means(losses), middle)]
            apart[name] = {"largest": max(abs(signed[i]) for i in windows),
                           "mean": sum(signed[i] for i in windows) / len(windows)}
        report[part] = {"largest_between_two_torch_runs": max(between), "from_their_mean": apart}
    return report


def compare_curves(name, loss, config, weights, batches, args):
    """bf16: curves of Stator, one for each of --keys, against runs of PyTorch's autocast that differ in the order of the
    batches' rows alone, which changes no loss but by rounding. The distance of two of these is the noise; means of 20
    steps are compared. A curve passes that is no farther from the runs' mean than two of them are from each other. Two runs
    may lie close by chance, where spikes of the loss double every difference: hence four."""
    config = dict(config, autocast=True, fused_attention=hasattr(F, "scaled_dot_product_attention"))
    orders = [np.arange(config["batch_size"]), np.arange(config["batch_size"])[::-1]]
    orders += [np.random.RandomState(k).permutation(config["batch_size"]) for k in range(2, args.torch_runs)]
    raw = {}

    def keep(label, losses):
        raw[label] = losses
        if args.curves:
            with open(args.curves, "w") as f:
                json.dump(raw, f)

    stator = {}
    for keys in args.keys or [""]:
        label = ("stator " + keys).strip()
        stator[label] = run_stator(args.stator, config, weights, batches, args.device, keys.split())["losses"]
        keep(label, stator[label])
    peers = []
    for k in range(args.torch_runs):
        peers.append(run_torch(loss, config, weights, batches[:, orders[k]], args.device, torch.float32)[0])
        keep("torch %d" % k, peers[-1])
    if args.low_stream:
        low = dict(config, low_stream=True)
        stator["torch, stream in bf16"] = run_torch(loss, low, weights, batches, args.device, torch.float32)[0]
        keep("torch, stream in bf16", stator["torch, stream in bf16"])
    report = noise_and_distances(stator, peers)
    passed = {k: all(part["from_their_mean"][k]["largest"] <= part["largest_between_two_torch_runs"] for part in report.values())
              for k in stator}
    print(json.dumps({"model": name, "size": args.size, "steps": args.steps, "dtype": "bf16", "torch": torch.__version__,
                      "learning_rate": config["learning_rate"], "windows_of_20_steps": report, "within_noise": passed,
                      "curves": {k: [round(x, 5) for x in window_means(v)] for k, v in raw.items()}}))
    sys.exit(0 if all(v for k, v in passed.items() if k.startswith("stator")) else 1)


def main(name, loss, shapes, sizes):
    parser = argparse.ArgumentParser(description="%s, Stator against PyTorch: losses of the same steps" % name)
    parser.add_argument("--stator", required=True, help="the program stator_losses")
    parser.add_argument("--size", choices=sorted(sizes), default="small")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--learning-rate", type=float, help="in place of the size's own")
    parser.add_argument("--double", action="store_true", help="PyTorch in f64, to see how far f32 itself drifts")
    parser.add_argument("--bf16", action="store_true", help="curves in bf16 against autocast's, within its own noise")
    parser.add_argument("--keys", action="append", help="with --bf16: key=value ... of one more Stator run, as keep_f32=*residual; "
                        "\"\": as it is")
    parser.add_argument("--torch-runs", type=int, default=4, help="with --bf16: runs of autocast, 2 or more")
    parser.add_argument("--low-stream", action="store_true", help="with --bf16: PyTorch with its residual stream in bf16 too")
    parser.add_argument("--curves", help="with --bf16: file for the losses of every step")
    args = parser.parse_args()

    # f32 means f32: no TF32 in products.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    config = dict({"learning_rate": 3e-4}, **sizes[args.size], model=name)
    if args.learning_rate:
        config["learning_rate"] = args.learning_rate
    weights = make_weights(shapes(config), config["n_layer"])
    batches = (make_text if args.bf16 else make_batches)(args.steps, config["batch_size"], config["block_size"], config["vocab_size"])
    if args.bf16:
        compare_curves(name, loss, config, weights, batches, args)
    ours = run_stator(args.stator, config, weights, batches, args.device)
    losses, norms = run_torch(loss, config, weights, batches, args.device,
                              torch.float64 if args.double else torch.float32)
    if len(ours["losses"]) != args.steps:
        sys.exit("stator gave %d losses for %d steps" % (len(ours["losses"]), args.steps))
    difference, step = largest_difference(ours["losses"], losses)
    norm_difference, _ = largest_difference(ours["grad_norms"], norms)
    passed = difference <= LIMIT
    print(json.dumps({
        "model": name, "size": args.size, "steps": args.steps, "stator_device": ours["device"],
        "torch": torch.__version__ + (" f64" if args.double else ""), "torch_device":
        torch.cuda.get_device_name() if args.device == "cuda" else "cpu",
        "learning_rate": config["learning_rate"], "parameters": int(sum(w.size for w in weights.values())),
        "max_relative_loss_difference": difference, "at_step": step, "limit": LIMIT,
        "max_relative_grad_norm_difference": norm_difference,
        "first_loss": [ours["losses"][0], losses[0]], "last_loss": [ours["losses"][-1], losses[-1]],
        "passed": passed}))
    sys.exit(0 if passed else 1)
