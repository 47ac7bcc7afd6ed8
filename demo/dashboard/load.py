"""Users that come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from sglang_dspine.serve.ask import Asker

from ..text import held_out_prompts, stdlib_path

USERS = (1, 2, 5, 8, 3, 1)  # phases of equal length
PROMPTS, PROMPT_BYTES, NEW_TOKENS = 24, 256, 64


def load(url: str, api_key: str | None, seconds: float, users: Sequence[int] = USERS) -> int:
    """Keep users[i] requests running in the i-th phase of `seconds`. Returns how many answers came."""
    prompts = held_out_prompts(stdlib_path(), PROMPTS, PROMPT_BYTES).tolist()
    asker, began, answers = Asker(url, api_key), time.monotonic(), []
    phase_s = seconds / len(users)

    def user(number: int) -> None:
        turn = number
        while (at := time.monotonic() - began) < seconds:
            if number >= users[int(at / phase_s)]:
                time.sleep(0.2)
                continue
            answers.append(asker.ask(prompts[turn % len(prompts)], NEW_TOKENS))
            turn += max(users)

    threads = [threading.Thread(target=user, args=(number,)) for number in range(max(users))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(answers)
