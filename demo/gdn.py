"""The gated delta rule in chunks, for training: what transformers' own fallback computes, in fewer kernels."""

import torch
import torch.nn.functional as F
from transformers.models.qwen3_5 import modeling_qwen3_5


def chunk_gated_delta_rule(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    chunk_size: int = 64,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    **_: object,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """S_t = exp(g_t) S_{t-1} (I - beta_t k_t k_tᵀ) + beta_t k_t v_tᵀ,  o_t = S_tᵀ q_t / sqrt(d), k and q unit.

    query, key, value [B, T, heads, d]; g, beta [B, T, heads]; states [B, heads, d, d] in float32.
    Always float32 inside, also under autocast: the triangular system is badly conditioned in bfloat16.
    """
    with torch.autocast(query.device.type, enabled=False):
        length, pad = query.shape[1], -query.shape[1] % chunk_size
        q, k, v = (F.pad(x.float().transpose(1, 2), (0, 0, 0, pad)) for x in (query, key, value))
        g, b = (F.pad(x.float().transpose(1, 2), (0, pad)).unflatten(2, (-1, chunk_size)) for x in (g, beta))
        q, k = (x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6) for x in (q, k))
        q = q * q.shape[-1] ** -0.5
        q, k, v = (x.unflatten(2, (-1, chunk_size)) for x in (q, k, v))  # [B, heads, chunks, C, d]

        total = g.cumsum(-1)
        future = torch.ones(chunk_size, chunk_size, dtype=torch.bool, device=q.device).triu(1)
        decay = (total[..., :, None] - total[..., None, :]).masked_fill(future, float("-inf")).exp()
        grown = total.exp()[..., None]
        k_beta = k * b[..., None]
        # Rows of a chunk depend on the earlier ones: one unit lower triangular solve undoes that.
        system = (k_beta @ k.mT) * decay
        right = torch.cat([v * b[..., None], k_beta * grown], dim=-1)
        u, w = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True).chunk(2, -1)
        inside = (q @ k.mT) * decay
        reads = torch.cat([w, q * grown], dim=-2)  # both read the state that enters the chunk
        k_out = (k * (total[..., -1:] - total).exp()[..., None]).mT
        last = total[..., -1].exp()[..., None, None]

        state = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1])
        state = state if initial_state is None else initial_state.float()
        outputs = []
        for c in range(q.shape[2]):
            old, read = (reads[:, :, c] @ state).chunk(2, dim=-2)
            new = u[:, :, c] - old
            outputs.append(read + inside[:, :, c] @ new)
            state = state * last[:, :, c] + k_out[:, :, c] @ new
        out = torch.stack(outputs, 2).flatten(2, 3)[:, :, :length].transpose(1, 2)
    return out.to(query.dtype), state if output_final_state else None


def install() -> None:
    """Make transformers' Qwen3.5 layers call the function above."""
    modeling_qwen3_5.torch_chunk_gated_delta_rule = chunk_gated_delta_rule
