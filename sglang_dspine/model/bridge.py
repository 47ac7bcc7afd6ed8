"""Adjacent injection: after every layer, each row receives a message from the row before it.

Equations: docs/dspine-spec "Bridge". The predecessor enters only through two projections, the gate's
`G_pred p` and the message `M p`, so for tokens both are tabulated once (`project_codes`) and the code table itself is
not kept. Shapes: N blocks, w rows, H hidden, r transfer rank, m message size, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import nn

SMALLEST = 1e-12  # a shorter feature is not stretched to unit length; sqrt(r) / SMALLEST still is a float32


class Bridge(nn.Module):
    """Weights of the code bridge; shared across layers except read-out and write."""

    def __init__(self, num_layers: int, hidden: int, rank: int, message: int, vocab: int) -> None:
        super().__init__()
        self.rank, self.message_size, self.vocab = rank, message, vocab
        self.readouts = nn.ParameterList(_frozen(rank, hidden) for _ in range(num_layers))  # R_l
        self.writes = nn.ParameterList(_frozen(hidden, message) for _ in range(num_layers))  # W_l
        # rows: G_recv | G_pred | M, so that one GEMM serves a row as receiver and as predecessor
        self.features_to_message = _frozen(3 * message, rank)
        self.bias = _frozen(message)
        self.token_gate = _frozen(vocab, message)  # G_pred sqrt(r) code[v]
        self.token_message = _frozen(vocab, message)  # M sqrt(r) code[v]

    def features(self, layer: int, h: torch.Tensor) -> torch.Tensor:
        """f = sqrt(r) R h / ||R h||, normalised in fp32, finite for a zero vector. h [N, w, H] -> [N, w, r]"""
        read = (h @ self.readouts[layer].T).float()
        norm = read.norm(dim=-1, keepdim=True).clamp_min(SMALLEST)
        return (read * (math.sqrt(self.rank) / norm)).to(h.dtype)

    def forward(self, layer: int, h: torch.Tensor, anchor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Inject into rows 1.. of h.

        Args:
            h: [N, w, H] residual stream after `layer`.
            anchor: [N] token ids of row 0.
        Returns:
            h with the message added [N, w, H] (row 0 as it was), and the receiver gate before the predecessor's
            part, G_recv f_i + b, for rows 1.. [N, w-1, m]: the table of the last layer needs it.
        """
        m = self.message_size
        projected = self.features(layer, h) @ self.features_to_message.T  # [N, w, 3m]
        receive, gate, message = projected[:, 1:, :m], projected[:, :-1, m : 2 * m], projected[:, :-1, 2 * m :]
        # row 1 follows the anchor, whose predecessor features are its token's code, not its own state
        gate = torch.cat([self.token_gate[anchor][:, None], gate[:, 1:]], 1)
        message = torch.cat([self.token_message[anchor][:, None], message[:, 1:]], 1)
        receive = receive + self.bias
        write = (torch.sigmoid(receive + gate) * message) @ self.writes[layer].T  # [N, w-1, H]
        rows = h[:, 1:] + row_scale(h[:, 1:]) * write
        return torch.cat([h[:, :1], rows], 1), receive

    @torch.no_grad()
    def project_codes(self, codes: torch.Tensor, chunk: int = 16384) -> None:
        """Tabulate both projections of every token's code. codes [V, r], unit rows; freed by the caller."""
        m = self.message_size
        gate, message = self.features_to_message[m : 2 * m].float(), self.features_to_message[2 * m :].float()
        for start in range(0, codes.shape[0], chunk):
            rows = codes[start : start + chunk].to(gate.device).float() * math.sqrt(self.rank)
            self.token_gate[start : start + chunk] = (rows @ gate.T).to(self.token_gate.dtype)
            self.token_message[start : start + chunk] = (rows @ message.T).to(self.token_message.dtype)


def row_scale(h: torch.Tensor) -> torch.Tensor:
    """||h|| / sqrt(H) of each row, in fp32, cast to h's dtype. [..., H] -> [..., 1]"""
    return (h.float().norm(dim=-1, keepdim=True) / math.sqrt(h.shape[-1])).to(h.dtype)


def _frozen(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(*shape), requires_grad=False)
