"""Faults the suite plants in the product: what each does, and which level must catch it.

The faults are the protocol's list. How to plant one is known only to the code it breaks, so a test registers an
injector, a context manager under which the product is wrong; planting a fault nobody registered is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

from sglang_dspine.errors import DSpineError

# "draft": proposals, table rows or q of two forms of the draft compared on identical inputs. Greedy target tokens
# stay right with any drafter, so E1 to E3 cannot see such a fault.
Level = Literal["E1", "E2", "E3", "E4", "draft"]
Injector = Callable[..., AbstractContextManager[Any]]


@dataclass(frozen=True)
class Fault:
    """One way of being wrong."""

    name: str
    does: str
    caught_by: tuple[Level, ...]  # each of these levels must catch it


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("state-one-early", "commits the recurrent state without the last accepted token", ("E1", "E2")),
        Fault("state-one-late", "commits the recurrent state with one rejected token", ("E1", "E2")),
        Fault("block-not-causal", "lets a row of the draft block see later rows", ("draft",)),
        Fault("anchor-masked", "embeds the mask token in row 0 instead of the anchor", ("draft",)),
        Fault("taps-off-by-one", "captures the target's hidden states one layer off", ("draft",)),
        Fault("positions-off-by-one", "gives the draft block positions n+1 .. n+B", ("draft",)),
        Fault("q-of-another-temperature", "hands over q at a temperature 10 % off the one drawn at", ("E4",)),
        Fault("q-swapped", "hands over q with the probabilities of two candidates exchanged", ("E4",)),
        Fault(
            "bonus-of-wrong-row",
            "takes the bonus token from the row before the last accepted one",
            ("E1", "E3"),
        ),
        Fault(
            "rejected-draft-kv-kept",
            "leaves a rejected token's keys and values in the draft cache",
            ("draft",),
        ),
    )
}

_injectors: dict[str, Injector] = {}


def injector(name: str) -> Callable[[Injector], Injector]:
    """Decorator: register how to plant the fault `name`."""
    _known(name)

    def register(plant: Injector) -> Injector:
        _injectors[name] = plant
        return plant

    return register


def planted(name: str, *args: Any, **kwargs: Any) -> AbstractContextManager[Any]:
    """Context under which the fault holds; arguments go to its injector."""
    _known(name)
    if name not in _injectors:
        raise DSpineError(f"fault {name!r} has no injector; expected a test to register one with injector({name!r})")
    return _injectors[name](*args, **kwargs)


def without_injector() -> set[str]:
    """Faults nobody knows how to plant yet."""
    return set(FAULTS) - set(_injectors)


def _known(name: str) -> None:
    if name not in FAULTS:
        raise DSpineError(f"unknown fault {name!r}; expected one of {', '.join(sorted(FAULTS))}")
