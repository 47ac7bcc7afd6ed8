"""The drafter in its training form: many anchors per sequence at once, names as in the checkpoint.

B sequences, S positions, A anchors a sequence, N = 16 rows a block, H hidden, r transfer rank, m message.
The serving form (a KV pool, one anchor a request) is the package's; both compute the same function.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

from .text import MASK, VOCAB


@dataclass(frozen=True)
class Shape:
    hidden: int = 192
    intermediate: int = 320
    layers: int = 3
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    rank: int = 128
    message: int = 64
    top_k: int = 16
    block: int = 16
    window: int = 512
    theta: float = 10000.0
    eps: float = 1e-6
    target_layers: int = 8
    vocab: int = VOCAB
    mask: int = MASK
    taps: tuple[int, ...] = (1, 3, 5, 6)  # layer outputs: hidden_states[id + 1] in transformers


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)).to(x.dtype) * self.weight


def linear(inputs: int, outputs: int, std: float = 0.05) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=std)
    return layer


def rotate(x: torch.Tensor, position: torch.Tensor, theta: float) -> torch.Tensor:
    """x [B, heads, T, d], position [B, T] -> x turned by RoPE (halves, not pairs)."""
    half = x.shape[-1] // 2
    frequency = theta ** -(torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = position[:, None, :, None].float() * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Attention(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.s = s
        self.q_proj = linear(s.hidden, s.heads * s.head_dim)
        self.k_proj = linear(s.hidden, s.kv_heads * s.head_dim)
        self.v_proj = linear(s.hidden, s.kv_heads * s.head_dim)
        self.o_proj = linear(s.heads * s.head_dim, s.hidden)
        self.q_norm, self.k_norm = RMSNorm(s.head_dim, s.eps), RMSNorm(s.head_dim, s.eps)

    def forward(
        self,
        x: torch.Tensor,
        ctx: torch.Tensor,
        where: torch.Tensor,
        where_ctx: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """x [B, A·N, H] block rows, ctx [B, S, H], where their positions, mask [B, 1, A·N, S + A·N]."""
        s, both = self.s, torch.cat([ctx, x.to(ctx.dtype)], 1)
        q = self.q_norm(self.q_proj(x).unflatten(-1, (s.heads, s.head_dim))).transpose(1, 2)
        k = self.k_norm(self.k_proj(both).unflatten(-1, (s.kv_heads, s.head_dim))).transpose(1, 2)
        v = self.v_proj(both).unflatten(-1, (s.kv_heads, s.head_dim)).transpose(1, 2)
        q, k = rotate(q, where, s.theta), rotate(k, torch.cat([where_ctx, where], 1), s.theta)
        k, v = (t.repeat_interleave(s.heads // s.kv_heads, 1) for t in (k, v))
        out = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, attn_mask=mask)
        return self.o_proj(out.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = linear(s.hidden, s.intermediate), linear(s.hidden, s.intermediate)
        self.down_proj = linear(s.intermediate, s.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(s), MLP(s)
        self.input_layernorm = RMSNorm(s.hidden, s.eps)
        self.post_attention_layernorm = RMSNorm(s.hidden, s.eps)

    def forward(self, h: torch.Tensor, ctx: torch.Tensor, *geometry: torch.Tensor) -> torch.Tensor:
        h = h + self.self_attn(self.input_layernorm(h), ctx, *geometry)
        return h + self.mlp(self.post_attention_layernorm(h))


class Injection(nn.Module):
    """The bridge: row i hears the feature that row i-1 holds after the same layer."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.scale = math.sqrt(s.rank)
        self.readouts = nn.ModuleList([linear(s.hidden, s.rank) for _ in range(s.layers)])
        self.writes = nn.ModuleList([linear(s.message, s.hidden, 0.02) for _ in range(s.layers)])
        self.message = linear(s.rank, s.message)
        self.receiver_gate, self.predecessor_gate = linear(s.rank, s.message), linear(s.rank, s.message)
        self.bias = nn.Parameter(torch.zeros(s.message))

    def feature(self, layer: int, h: torch.Tensor) -> torch.Tensor:
        return self.scale * F.normalize(self.readouts[layer](h).float(), dim=-1, eps=1e-6)

    def write(self, layer: int, h: torch.Tensor, f: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        """h + scale · d for rows with features f and predecessor features p."""
        gate = torch.sigmoid(self.receiver_gate(f) + self.predecessor_gate(p) + self.bias)
        delta = self.writes[layer](gate * self.message(p))
        return h + h.float().square().mean(-1, keepdim=True).sqrt() * delta


@dataclass
class Drafted:
    """All of [B, A, N-1, …]: the proposal rows of every anchor."""

    unary: torch.Tensor  # [..., V] logits of the candidate head
    before: torch.Tensor  # [..., H] last residual stream before its injection
    feature: torch.Tensor  # [..., r] its feature
    all_features: list[torch.Tensor]  # one [..., r] per layer


class Drafter(nn.Module):
    transfer_codes: torch.Tensor
    transfer_ready: torch.Tensor

    def __init__(self, s: Shape | None = None) -> None:
        super().__init__()
        self.s = s = s or Shape()
        self.fc = linear(len(s.taps) * s.hidden, s.hidden)
        self.hidden_norm, self.norm = RMSNorm(s.hidden, s.eps), RMSNorm(s.hidden, s.eps)
        self.layers = nn.ModuleList([Layer(s) for _ in range(s.layers)])
        self.injection = Injection(s)
        self.register_buffer("transfer_codes", F.normalize(torch.randn(s.vocab, s.rank), dim=-1).bfloat16().float())
        self.register_buffer("transfer_ready", torch.tensor(True))

    def code(self, token: torch.Tensor) -> torch.Tensor:
        return self.injection.scale * self.transfer_codes[token]

    def geometry(self, anchor_at: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """anchor_at [B, A] -> positions of block rows [B, A·N] and of context [B, S], attention mask."""
        n, a = self.s.block, anchor_at.shape[1]
        where_ctx = torch.arange(length, device=anchor_at.device).expand(len(anchor_at), -1)
        where = (anchor_at[..., None] + torch.arange(n, device=anchor_at.device)).flatten(1)
        first = anchor_at.repeat_interleave(n, 1)[..., None]
        seen = (where_ctx[:, None] < first) & (where_ctx[:, None] > where[..., None] - self.s.window)
        row = torch.arange(a * n, device=anchor_at.device)
        inside = (row[:, None] // n == row // n) & (row[:, None] >= row)
        mask = torch.cat([seen, inside.expand(len(anchor_at), -1, -1)], -1)[:, None]
        return where, where_ctx, mask

    def forward(
        self,
        taps: torch.Tensor,
        tokens: torch.Tensor,
        anchor_at: torch.Tensor,
        embed: torch.Tensor,
        head: torch.Tensor,
    ) -> Drafted:
        """taps [B, S, taps·H], tokens [B, S], anchor_at [B, A]; the target's embed and head [V, H]."""
        a = anchor_at.shape[1]
        ctx = self.hidden_norm(self.fc(taps))
        anchor = tokens.gather(1, anchor_at)
        ids = F.pad(anchor[..., None], (0, self.s.block - 1), value=self.s.mask)
        geometry = self.geometry(anchor_at, taps.shape[1])
        h, features = embed[ids].flatten(1, 2), []
        for i, layer in enumerate(self.layers):
            before = layer(h, ctx, *geometry).unflatten(1, (a, self.s.block))
            f = self.injection.feature(i, before)
            features.append(f[:, :, 1:])
            previous = torch.cat([self.code(anchor)[:, :, None], f[:, :, 1:-1]], 2)
            after = self.injection.write(i, before[:, :, 1:], f[:, :, 1:], previous)
            h = torch.cat([before[:, :, :1], after], 2).flatten(1, 2)
        unary = self.norm(after) @ head.T
        return Drafted(unary, before[:, :, 1:], f[:, :, 1:], features)

    def transition(self, d: Drafted, previous: torch.Tensor, head: torch.Tensor) -> torch.Tensor:
        """Scores over the whole vocabulary given each row's predecessor token [B, A, N-1] -> [..., V]."""
        y = self.injection.write(self.s.layers - 1, d.before, d.feature, self.code(previous))
        return self.norm(y) @ head.T

    def walk(self, d: Drafted, anchor: torch.Tensor, head: torch.Tensor) -> torch.Tensor:
        """Greedy path [B, A, N-1]: each row's best of its top-K candidates given the token before."""
        path, token = [], anchor
        for i in range(self.s.block - 1):
            row = Drafted(d.unary[:, :, i], d.before[:, :, i], d.feature[:, :, i], [])
            scores = self.transition(row, token, head)
            kept = row.unary.topk(self.s.top_k).indices
            token = kept.gather(-1, scores.gather(-1, kept).argmax(-1, keepdim=True))[..., 0]
            path.append(token)
        return torch.stack(path, -1)


def draft_config(s: Shape, max_length: int) -> dict[str, object]:
    return {
        "architectures": ["DSpineDraftModel"],
        "model_type": "qwen3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "block_size": s.block,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        "dflash_config": {"block_size": s.block, "mask_token_id": s.mask, "target_layer_ids": list(s.taps)},
        "dspine_config": {"transfer_rank": s.rank, "message_size": s.message, "top_k": s.top_k},
        "dtype": "bfloat16",
        "head_dim": s.head_dim,
        "hidden_act": "silu",
        "hidden_size": s.hidden,
        "initializer_range": 0.05,
        "intermediate_size": s.intermediate,
        "is_causal": True,
        "layer_types": ["sliding_attention"] * s.layers,
        "max_position_embeddings": max_length,
        "max_window_layers": s.layers,
        "num_attention_heads": s.heads,
        "num_hidden_layers": s.layers,
        "num_key_value_heads": s.kv_heads,
        "num_target_layers": s.target_layers,
        "rms_norm_eps": s.eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": s.theta},
        "sliding_window": s.window,
        "tie_word_embeddings": False,
        "use_cache": True,
        "use_sliding_window": True,
        "vocab_size": s.vocab,
    }


def save_drafter(drafter: Drafter, folder: Path, max_length: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        k: (v if v.dtype == torch.bool else v.bfloat16()).cpu().contiguous() for k, v in drafter.state_dict().items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(draft_config(drafter.s, max_length), indent=2) + "\n")


def load_drafter(folder: Path, device: str = "cpu") -> Drafter:
    drafter, weights = Drafter(), load_file(folder / "model.safetensors")
    drafter.load_state_dict({k: v if v.dtype == torch.bool else v.float() for k, v in weights.items()})
    return drafter.to(device).eval()
