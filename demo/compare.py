"""Is the text of DSPINE the text of plain decode, and are its drafts accepted?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sglang_dspine.serve.ask import Answer

LEAST_LENGTH = 3.0  # accepted length that the demo pair must reach
LEAST_TOKENS = 200  # tokens without which "none differs" would say little


@dataclass(frozen=True)
class Finding:
    """What a check saw, for the reader, and what is wrong with it; nothing when it passes."""

    line: str
    problem: str | None = None


def compare(texts: Iterable[tuple[Answer, Answer]]) -> Finding:
    """`texts`: pairs of DSPINE's answer and plain decode's. Token by token; needs float32 on both sides."""
    pairs = [(ours.ids, plain.ids) for ours, plain in texts]
    compared = sum(max(len(ours), len(plain)) for ours, plain in pairs)
    differ = sum(count_differing(*pair) for pair in pairs)
    line = f"{differ} of {compared} differ from plain decode"
    if compared < LEAST_TOKENS:
        return Finding(line, f"only {compared} tokens could be compared; expected at least {LEAST_TOKENS}")
    return Finding(line, f"{line}; expected 0" if differ else None)


def count_differing(ours: Sequence[int], plain: Sequence[int]) -> int:
    """Positions whose tokens differ; a text that ends early differs in every position it lacks."""
    return sum(a != b for a, b in zip_longest(ours, plain))


def judge_length(accepted_length: float | None, tokens: int, rounds: int) -> Finding:
    if accepted_length is None:
        return Finding("accepted length not reported", "no verify rounds reported: this server does not speculate")
    line = f"accepted length {accepted_length:.2f} ({tokens} tokens, {rounds} rounds; a text's first takes none)"
    low = accepted_length < LEAST_LENGTH
    return Finding(line, f"accepted length {accepted_length:.2f}; expected at least {LEAST_LENGTH}" if low else None)
