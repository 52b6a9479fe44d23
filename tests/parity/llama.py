"""Llama against PyTorch: the losses of 100 f32 AdamW steps from the same weights and batches agree to 1e-4.

  python3 tests/parity/llama.py --stator build/dev/tests/stator_losses [--size large --device cuda]
"""
import torch
import torch.nn.functional as F

import parity

SIZES = {
    "small": dict(n_layer=4, n_head=4, n_kv_head=2, n_embd=128, block_size=64, vocab_size=512, batch_size=4,
                  tie_weights=False),
    "tied": dict(n_layer=4, n_head=4, n_kv_head=1, n_embd=128, block_size=64, vocab_size=512, batch_size=4,
                 tie_weights=True),
    "large": dict(n_layer=4, n_head=16, n_kv_head=4, n_embd=1024, block_size=256, vocab_size=32000, batch_size=4,
                  tie_weights=False),
}
THETA = 10000.0


def hidden_width(c):
    """Of SwiGLU: 8/3 of the width, up to a multiple of 32."""
    return (8 * c["n_embd"] // 3 + 31) // 32 * 32


def shapes(c):
    """Parameters by Stator's names (frontend/dsl/models/llama.h)."""
    width, heads, groups = c["n_embd"], c["n_head"], c["n_kv_head"]
    head, hidden = width // heads, hidden_width(c)
    out = {"embed/w": (c["vocab_size"], width)}
    for i in range(c["n_layer"]):
        block = "h.%d/" % i
        out[block + "attn_norm/w"] = (width,)
        out[block + "attn/qkv/w"] = ((heads + 2 * groups) * head, width)
        out[block + "attn/proj/w"] = (width, heads * head)
        out[block + "mlp_norm/w"] = (width,)
        out[block + "mlp/gate_up/w"] = (2 * hidden, width)
        out[block + "mlp/down/w"] = (width, hidden)
    out["norm/w"] = (width,)
    if not c["tie_weights"]:
        out["lm_head/w"] = (c["vocab_size"], width)
    return out


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


def rotate(x, cos, sin):
    """Rotary positions of x [B,T,H,D]: the first half of a head pairs with the second."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def loss(p, c, tokens, targets):
    """Mean cross-entropy of targets [B,T] given tokens [B,T]."""
    heads, groups, head = c["n_head"], c["n_kv_head"], c["n_embd"] // c["n_head"]
    batch, length = tokens.shape
    x = F.embedding(tokens, p["embed/w"])  # [B,T,C]
    x = x.bfloat16() if c.get("low_stream") else x
    frequency = THETA ** (-torch.arange(0, head, 2, device=x.device, dtype=torch.float64) / head)
    angle = torch.outer(torch.arange(length, device=x.device, dtype=torch.float64), frequency)[:, None]  # [T,1,D/2]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    for i in range(c["n_layer"]):
        block = "h.%d/" % i
        qkv = F.linear(rms_norm(x, p[block + "attn_norm/w"]), p[block + "attn/qkv/w"])
        q, k, v = qkv.view(batch, length, heads + 2 * groups, head).split([heads, groups, groups], dim=2)
        y = parity.attention(rotate(q, cos, sin), rotate(k, cos, sin), v)
        x = x + F.linear(y, p[block + "attn/proj/w"])
        gate, up = F.linear(rms_norm(x, p[block + "mlp_norm/w"]), p[block + "mlp/gate_up/w"]).chunk(2, dim=-1)
        x = x + F.linear(F.silu(gate) * up, p[block + "mlp/down/w"])
    head_weight = p["embed/w"] if c["tie_weights"] else p["lm_head/w"]
    logits = F.linear(rms_norm(x, p["norm/w"]), head_weight)
    return F.cross_entropy(logits.view(-1, c["vocab_size"]), targets.reshape(-1))


if __name__ == "__main__":
    parity.main("llama", loss, shapes, SIZES)
