"""What SGLang's DFLASH worker looks for to know that a drafter samples and hands over q."""

from __future__ import annotations

from torch import nn


class SelectorMarker(nn.Module):
    """Stands where DFlash2 keeps its candidate selector; DSpine's own selection lives in `draft/`."""

    def __init__(self, top_k: int) -> None:
        super().__init__()
        self.top_k = top_k
