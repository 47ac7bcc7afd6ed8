"""A time budget instead of a step count: a training run always ends, anneals and saves."""

import math
import time


class Clock:
    """`done` runs from 0 to 1 over `seconds`, or over `steps` if that comes first."""

    def __init__(self, seconds: float, steps: int | None = None) -> None:
        self.seconds, self.steps, self.step, self.start = seconds, steps, 0, time.monotonic()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.start

    @property
    def done(self) -> float:
        return max(self.elapsed / self.seconds, self.step / self.steps if self.steps else 0.0)

    def tick(self) -> bool:
        """Count a step; True while there is budget for another."""
        self.step += 1
        return self.done < 1.0

    def rate(self, peak: float, warm_steps: int = 100) -> float:
        """Learning rate: linear warm-up, then cosine down to a fiftieth."""
        cosine = 0.5 * (1 + math.cos(math.pi * min(self.done, 1.0)))
        return peak * min(1.0, (self.step + 1) / warm_steps) * (0.02 + 0.98 * cosine)
