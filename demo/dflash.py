"""A DFlash-style drafter for the demo's target: the same backbone without the bridge, so that the bridge's worth shows.

As in "DFlash", a block's rows see one another in both directions and none hears what its predecessor came to; each
proposes its best token by the target's head. Config and names as SGLang's DFLASH reads them (`DFlashDraftModel`).
B sequences, S positions, A anchors a sequence, N = 16 rows a block, H hidden.
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import Qwen3_5ForCausalLM

from .distil import lesson, observe
from .drafter import Layer, RMSNorm, Shape, draft_config, linear


class FlashDrafter(nn.Module):
    def __init__(self, s: Shape | None = None) -> None:
        super().__init__()
        self.s = s = s or Shape()
        self.fc = linear(len(s.taps) * s.hidden, s.hidden)
        self.hidden_norm, self.norm = RMSNorm(s.hidden, s.eps), RMSNorm(s.hidden, s.eps)
        self.layers = nn.ModuleList([Layer(s) for _ in range(s.layers)])

    def geometry(self, anchor_at: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """anchor_at [B, A] -> positions of block rows [B, A·N] and of context [B, S], attention mask.

        Every row sees all context before its anchor, and its whole block.
        """
        n, a = self.s.block, anchor_at.shape[1]
        where_ctx = torch.arange(length, device=anchor_at.device).expand(len(anchor_at), -1)
        where = (anchor_at[..., None] + torch.arange(n, device=anchor_at.device)).flatten(1)
        seen = where_ctx[:, None] < anchor_at.repeat_interleave(n, 1)[..., None]
        block = torch.arange(a * n, device=anchor_at.device) // n
        inside = (block[:, None] == block).expand(len(anchor_at), -1, -1)
        return where, where_ctx, torch.cat([seen, inside], -1)[:, None]

    def forward(
        self,
        taps: torch.Tensor,
        tokens: torch.Tensor,
        anchor_at: torch.Tensor,
        embed: torch.Tensor,
        head: torch.Tensor,
    ) -> torch.Tensor:
        """taps [B, S, taps·H], tokens [B, S], anchor_at [B, A]; the target's embed, head [V, H] -> [B, A, N-1, V]."""
        ctx = self.hidden_norm(self.fc(taps))
        ids = F.pad(tokens.gather(1, anchor_at)[..., None], (0, self.s.block - 1), value=self.s.mask)
        geometry = self.geometry(anchor_at, taps.shape[1])
        h = embed[ids].flatten(1, 2)
        for layer in self.layers:
            h = layer(h, ctx, *geometry)
        return self.norm(h.unflatten(1, (-1, self.s.block))[:, :, 1:]) @ head.T


def flash_loss(
    drafter: FlashDrafter, model: Qwen3_5ForCausalLM, tokens: torch.Tensor, anchor_at: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The DSpine drafter's labels and row weights (`distil.lesson`), for the only head there is."""
    taps, logits = observe(model, tokens, drafter.s.taps)
    embed, head = model.model.embed_tokens.weight.detach(), model.lm_head.weight.detach()
    scores = drafter(taps, tokens, anchor_at, embed, head)
    taught = lesson(tokens, logits, anchor_at, drafter.s.block)
    return taught.cross_entropy(scores), taught.right(scores)


def flash_config(s: Shape, max_length: int) -> dict[str, object]:
    """The DSpine drafter's config without bridge and window."""
    config = draft_config(s, max_length)
    for name in ("dspine_config", "sliding_window", "max_window_layers"):
        del config[name]
    return config | {
        "architectures": ["DFlashDraftModel"],
        "is_causal": False,
        "layer_types": ["full_attention"] * s.layers,
        "use_sliding_window": False,
    }


def save_flash(drafter: FlashDrafter, folder: Path, max_length: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.bfloat16().cpu().contiguous() for name, tensor in drafter.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(flash_config(drafter.s, max_length), indent=2) + "\n")


def load_flash(folder: Path, device: str = "cpu") -> FlashDrafter:
    drafter = FlashDrafter()
    drafter.load_state_dict({k: v.float() for k, v in load_file(folder / "model.safetensors").items()})
    return drafter.to(device).eval()
