"""What a target left behind while it wrote: all that drafting its text again needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..config import DraftConfig
from ..errors import DSpineError

SYNTHETIC_VOCAB = 4096  # rows of a made-up head, at most
SYNTHETIC_LENGTHS = tuple(range(9, 41))  # one block behind each: 480 rows, where 4 blocks gave 60 and chance ruled


@dataclass(frozen=True)
class Text:
    """One sequence of S tokens."""

    taps: Tensor  # [S, taps·H] captured layers, concatenated
    tokens: Tensor  # int64 [S]
    written: int  # from this place on the target wrote the tokens itself, greedily; S if it wrote none


@dataclass(frozen=True)
class Captures:
    texts: tuple[Text, ...]
    embed: Tensor  # [>= V', H] of the target; V' tokens occur
    head: Tensor  # [>= V', H]
    mask: Tensor  # [H] embedding of the mask token
    source: str  # for the report

    @property
    def written(self) -> bool:
        """Whether there is text of the target's own to accept against."""
        return any(text.written < len(text.tokens) for text in self.texts)

    def check(self, config: DraftConfig) -> None:
        """Raises DSpineError unless these captures are of a target of this drafter."""
        width = len(config.target_layer_ids) * config.hidden_size
        for i, text in enumerate(self.texts):
            if tuple(text.taps.shape) != (len(text.tokens), width):
                raise DSpineError(
                    f"captures: text {i}: expected taps [{len(text.tokens)}, {width}], found {list(text.taps.shape)}; "
                    f"this drafter's taps are the outputs of layers {list(config.target_layer_ids)}"
                )
            if len(text.tokens) and not 0 <= int(text.tokens.min()) <= int(text.tokens.max()) < len(self.embed):
                raise DSpineError(
                    f"captures: text {i}: expected token ids in [0, {len(self.embed)}), the rows of embed"
                )
            if not 0 < text.written <= len(text.tokens):
                raise DSpineError(
                    f"captures: text {i}: expected written in [1, {len(text.tokens)}], found {text.written}"
                )
        self._check_values()
        shapes = [tuple(tensor.shape) for tensor in (self.embed, self.head, self.mask)]
        if shapes != [(len(self.embed), config.hidden_size)] * 2 + [(config.hidden_size,)]:
            raise DSpineError(
                f"captures: expected embed and head [tokens, {config.hidden_size}], mask [{config.hidden_size}]; "
                f"found {', '.join(str(list(shape)) for shape in shapes)}"
            )

    def _check_values(self) -> None:
        named = {f"text {i}: taps": text.taps for i, text in enumerate(self.texts)}
        for name, tensor in {**named, "embed": self.embed, "head": self.head, "mask": self.mask}.items():
            if not finite(tensor):
                raise DSpineError(f"captures: {name}: expected finite numbers; what wrote them is broken")


def finite(tensor: Tensor) -> bool:
    """Without a copy of it."""
    return tensor.numel() == 0 or all(bool(end.isfinite()) for end in tensor.aminmax())


def synthetic(config: DraftConfig) -> Captures:
    """Random captures, embedding and head: they show how far the numbers move, and nothing about acceptance."""
    random = torch.Generator().manual_seed(4)
    rows = min(config.vocab_size, SYNTHETIC_VOCAB)
    width = len(config.target_layer_ids) * config.hidden_size
    embed, head, mask = (torch.randn(n, config.hidden_size, generator=random) for n in (rows, rows, 1))
    texts = []
    for length in SYNTHETIC_LENGTHS:
        taps = torch.randn(length + 1, width, generator=random)
        texts.append(Text(taps, torch.randint(rows, (length + 1,), generator=random), length + 1))
    return Captures(tuple(texts), embed, head, mask[0], "synthetic captures, embedding and head")


def save_captures(path: Path, captures: Captures) -> None:
    """One safetensors file: embed, head, mask, and for text i `i.taps`, `i.tokens`, `i.written`."""
    tensors = {"embed": captures.embed, "head": captures.head, "mask": captures.mask}
    for i, text in enumerate(captures.texts):
        tensors |= {f"{i}.taps": text.taps, f"{i}.tokens": text.tokens, f"{i}.written": torch.tensor(text.written)}
    save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, path)


def load_captures(path: Path) -> Captures:
    """What `save_captures` wrote. Raises DSpineError for any other file."""
    try:
        tensors = load_file(path)
        count = sum(name.endswith(".taps") for name in tensors)
        texts = tuple(
            Text(tensors[f"{i}.taps"], tensors[f"{i}.tokens"], int(tensors[f"{i}.written"])) for i in range(count)
        )
        if not texts:
            raise KeyError("0.taps")
        return Captures(texts, tensors["embed"], tensors["head"], tensors["mask"], path.name)
    except (OSError, SafetensorError, KeyError) as error:
        raise DSpineError(f"{path}: is no file of captures: {error!r}") from error
