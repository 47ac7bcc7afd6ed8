"""Proposals of one checkpoint behind every anchor, a layer in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..checkpoint.fp8 import quantise_rows
from ..checkpoint.lazy import LazyWeights
from ..config import DraftConfig
from ..errors import DSpineError
from ..reference.arithmetic import Arithmetic
from ..reference.bridge import Bridge
from ..reference.candidates import top_candidates
from ..reference.layerwise import layerwise_states
from ..reference.table import Refiner, refine_serially
from .captures import Captures, Text, finite

BLOCKS_PER_TEXT = 24
_TAPS = 1 << 28  # bytes of captures drafted behind together


@dataclass(frozen=True)
class Anchor:
    """One block to draft: behind position `at` of a text."""

    text: int
    at: int


@dataclass(frozen=True)
class Drafted:
    """Of one checkpoint, for A anchors: R proposals, K candidates a row."""

    candidates: Tensor  # int64 [A, R, K]
    tokens: Tensor  # int64 [A, R] greedy proposals
    finite: bool = True  # all that the proposals were made from


@dataclass(frozen=True)
class QuantisedInputs(Arithmetic):
    """Products with FP8 weights take their input token by token in FP8, as SGLang serves them."""

    weights: set[int] = field(default_factory=set)  # addresses of the weights in memory that are FP8

    def product(self, x: Tensor, y: Tensor) -> Tensor:
        if y.data_ptr() in self.weights:
            values, scale = quantise_rows(x.reshape(-1, x.shape[-1]))
            x = (values.float() * scale).to(x.dtype).view(x.shape)
        return super().product(x, y)


def checked_anchors(captures: Captures, config: DraftConfig) -> list[Anchor]:
    """`anchors_of` captures of a target of this drafter. Raises DSpineError for others, and for too short texts."""
    captures.check(config)
    anchors = anchors_of(captures, config)
    if not anchors:
        raise DSpineError(f"captures: expected a text with {config.block_size} tokens written, found none so long")
    return anchors


def anchors_of(captures: Captures, config: DraftConfig) -> list[Anchor]:
    """Evenly over what the target wrote, each with a whole block of text behind it; else the end of each text."""
    found = []
    for index, text in enumerate(captures.texts):
        last = len(text.tokens) - config.block_size
        if text.written == len(text.tokens):
            places = [len(text.tokens) - 1]
        elif last < text.written:
            continue
        else:
            count = min(BLOCKS_PER_TEXT, last - text.written + 1)
            places = sorted({round(p) for p in torch.linspace(text.written, last, count).tolist()})
        found += [Anchor(index, at) for at in places]
    return found


def draft(
    config: DraftConfig,
    read: LazyWeights,
    captures: Captures,
    anchors: list[Anchor],
    progress: Callable[[int], None] = lambda count: None,
) -> Drafted:
    """Draft behind every anchor, in float32 arithmetic on the values of the checkpoint behind `read`."""
    parts = []
    for chunk in _chunks(captures, anchors):
        parts.append(_draft(config, read, captures, chunk))
        progress(len(chunk))
    return Drafted(
        torch.cat([p.candidates for p in parts]), torch.cat([p.tokens for p in parts]), all(p.finite for p in parts)
    )


def _chunks(captures: Captures, anchors: list[Anchor]) -> Iterator[list[Anchor]]:
    row = captures.texts[0].taps.shape[1] * 4
    chunk: list[Anchor] = []
    for anchor in anchors:
        longest = max(a.at for a in [*chunk, anchor])
        if chunk and (len(chunk) + 1) * longest * row > _TAPS:
            yield chunk
            chunk = []
        chunk.append(anchor)
    if chunk:
        yield chunk


@torch.inference_mode()
def _draft(config: DraftConfig, read: LazyWeights, captures: Captures, anchors: list[Anchor]) -> Drafted:
    arithmetic = QuantisedInputs()

    def watched(*prefixes: str) -> dict[str, Tensor]:
        weights = read(*prefixes)
        arithmetic.weights.clear()
        arithmetic.weights.update(tensor.data_ptr() for name, tensor in weights.items() if read.is_fp8(name))
        return weights

    texts = [captures.texts[a.text] for a in anchors]
    tokens = torch.stack([text.tokens[a.at] for text, a in zip(texts, anchors, strict=True)])  # [A]
    lengths = torch.tensor([a.at for a in anchors])
    taps = torch.stack([_padded(text, a.at, int(lengths.max())) for text, a in zip(texts, anchors, strict=True)])
    h = captures.mask.float().expand(len(anchors), config.block_size, -1).clone()
    h[:, 0] = captures.embed[tokens].float()
    states = layerwise_states(
        h, taps, read.rows("transfer_codes", tokens.tolist()), lengths, config, watched, arithmetic
    )
    vocab, head = min(config.vocab_size, len(captures.head)), captures.head.float()
    candidates = top_candidates(states.block_hidden[:, 1:], head, config.top_k, vocab, arithmetic)
    proposals = _walk(config, read, states.pre_injection[:, 1:], candidates, tokens, head, arithmetic)
    return Drafted(candidates, proposals, finite(states.block_hidden) and finite(states.pre_injection))


def _walk(
    config: DraftConfig,
    read: LazyWeights,
    x: Tensor,
    candidates: Tensor,
    anchor: Tensor,
    head: Tensor,
    arithmetic: Arithmetic,
) -> Tensor:
    """Greedy proposals [A, R] from x [A, R, H]; of codes and head only the rows that occur."""
    ids, place = torch.cat([candidates.flatten(), anchor]).unique(return_inverse=True)
    among, start = place[: candidates.numel()].view(candidates.shape), place[candidates.numel() :]
    codes = read.rows("transfer_codes", ids.tolist())
    bridge = Bridge.from_weights({**read("injection."), "transfer_codes": codes}, config.num_layers)
    refiner = Refiner(bridge, read("norm.")["norm.weight"], head[ids], config.rms_norm_eps)
    return ids[refine_serially(x, among, start, refiner, arithmetic)[0]]


def _padded(text: Text, length: int, longest: int) -> Tensor:
    taps = text.taps.new_zeros(longest, text.taps.shape[1], dtype=torch.float32)
    taps[:length] = text.taps[:length]
    return taps
