"""GPT-2 against PyTorch: the losses of 100 f32 AdamW steps from the same weights and batches agree to 1e-4.

  python3 tests/parity/gpt2.py --stator build/dev/tests/stator_losses [--size 124m --device cuda]
"""
import torch.nn.functional as F

import parity

# At 3e-4 without a warm-up, 124M leaves its first losses in spikes that double any difference a step: PyTorch in f32
# then leaves PyTorch in f64 as far as Stator does (--double). At the mean rate of a real warm-up the steps are well
# conditioned, and a difference is one of arithmetic.
SIZES = {
    "small": dict(n_layer=4, n_head=4, n_embd=128, block_size=64, vocab_size=512, batch_size=4),
    "124m": dict(n_layer=12, n_head=12, n_embd=768, block_size=256, vocab_size=50257, batch_size=4, learning_rate=6e-5),
    "curve": dict(n_layer=12, n_head=12, n_embd=768, block_size=512, vocab_size=50304, batch_size=16, learning_rate=1e-4),
    "train": dict(n_layer=4, n_head=4, n_embd=128, block_size=128, vocab_size=256, batch_size=16),
}


def shapes(c):
    """Parameters by Stator's names (frontend/dsl/models/gpt2.h); the head is the token embedding."""
    width = c["n_embd"]
    out = {"wte/w": (c["vocab_size"], width), "wpe/w": (c["block_size"], width)}

    def linear(name, rows, columns):
        out[name + "/w"], out[name + "/b"] = (rows, columns), (rows,)

    def norm(name):
        out[name + "/w"], out[name + "/b"] = (width,), (width,)

    for i in range(c["n_layer"]):
        block = "h.%d/" % i
        norm(block + "ln_1")
        linear(block + "attn/qkv", 3 * width, width)
        linear(block + "attn/proj", width, width)
        norm(block + "ln_2")
        linear(block + "mlp/up", 4 * width, width)
        linear(block + "mlp/down", width, 4 * width)
    norm("ln_f")
    return out


def loss(p, c, tokens, targets):
    """Mean cross-entropy of targets [B,T] given tokens [B,T]."""
    width, heads = c["n_embd"], c["n_head"]
    batch, length = tokens.shape

    def linear(name, x):
        return F.linear(x, p[name + "/w"], p[name + "/b"])

    def norm(name, x):
        return F.layer_norm(x, (width,), p[name + "/w"], p[name + "/b"], eps=1e-5)

    x = F.embedding(tokens, p["wte/w"]) + p["wpe/w"][:length]  # [B,T,C]
    x = x.bfloat16() if c.get("low_stream") else x
    for i in range(c["n_layer"]):
        block = "h.%d/" % i
        qkv = linear(block + "attn/qkv", norm(block + "ln_1", x)).view(batch, length, 3 * heads, width // heads)
        y = parity.attention(*qkv.split(heads, dim=2), fused=c.get("fused_attention", False))
        x = x + linear(block + "attn/proj", y)
        hidden = F.gelu(linear(block + "mlp/up", norm(block + "ln_2", x)), approximate="tanh")
        x = x + linear(block + "mlp/down", hidden)
    logits = F.linear(norm("ln_f", x), p["wte/w"])
    return F.cross_entropy(logits.view(-1, c["vocab_size"]), targets.reshape(-1))


if __name__ == "__main__":
    parity.main("gpt2", loss, shapes, SIZES)
