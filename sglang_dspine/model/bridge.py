"""Adjacent injection: after every layer, each row receives a message from the row before it.

Equations: docs/dspine-spec "Bridge". The predecessor enters only through two projections, the gate's
`G_pred p` and the message `M p`, so for tokens both are tabulated once (`project_codes`) and the code table itself is
not kept. Shapes: N blocks, w rows, H hidden, r transfer rank, m message size, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from ..kernels.bridge import inject
from ..kernels.bridge.naive import Injected, LayerBridge


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

    def layer(self, index: int) -> LayerBridge:
        """What layer `index`'s injection reads."""
        return LayerBridge(
            self.readouts[index], self.features_to_message, self.bias, self.writes[index], self.token_gate,
            self.token_message,
        )  # fmt: skip

    def inject(self, layer: int, residual: torch.Tensor, delta: torch.Tensor | None, anchor: torch.Tensor) -> Injected:
        """Inject into rows 1.. of h = residual + delta, what `layer` left.

        Args:
            residual, delta: [N, w, H]; no delta: h is the residual.
            anchor: [N] token ids of row 0.
        """
        return inject(residual, delta, anchor, self.layer(layer))

    @torch.no_grad()
    def project_codes(self, codes: torch.Tensor, chunk: int = 16384) -> None:
        """Tabulate both projections of every token's code. codes [V, r], unit rows; freed by the caller."""
        m = self.message_size
        gate, message = self.features_to_message[m : 2 * m].float(), self.features_to_message[2 * m :].float()
        for start in range(0, codes.shape[0], chunk):
            rows = codes[start : start + chunk].to(gate.device).float() * math.sqrt(self.rank)
            self.token_gate[start : start + chunk] = (rows @ gate.T).to(self.token_gate.dtype)
            self.token_message[start : start + chunk] = (rows @ message.T).to(self.token_message.dtype)


def _frozen(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(*shape), requires_grad=False)
