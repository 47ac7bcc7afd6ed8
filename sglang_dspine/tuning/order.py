"""The order in which widths are visited: there and back again (A B C C B A), so that a slow drift of the machine or a
growing context weighs on all of them alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def there_and_back(widths: Sequence[int], visits: int) -> Iterator[int]:
    """Every width `visits` times."""
    for turn in range(visits):
        yield from widths if turn % 2 == 0 else reversed(widths)
