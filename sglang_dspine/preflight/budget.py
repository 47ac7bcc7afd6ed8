"""The memory a server will take, line by line, before it starts (report 26).

SGLang sets aside `--mem-fraction-static` of the memory that is free when it starts: weights come out of that first,
recurrent states and KV caches share the rest. Graphs, activations and, on unified memory, everything else on the host
live in what the fraction leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..config import DraftConfig
from .files import weight_bytes
from .finding import FAIL, OK, WARN, Finding
from .gpu import Memory
from .model import Target
from .state import StateBytes, state_bytes
from .words import number_of, value_of

GB = 1e9
LEAST_TOKENS = 8192  # a server with less KV cache than this serves nobody
HOST_ROOM = 12e9  # on unified memory: graphs, activations, page cache and the other programs; at most a tenth of all
USUAL_REQUESTS = 48  # what DSPINE sets when --max-running-requests is not given
LARGE, RESERVES = 64e9, (5e9, 14e9)  # about what SGLang leaves of a small and of a large GPU when no fraction is given:
# its rule (arg_groups/memory_hook.py) adds up prefill chunk and graphs, both larger on a large one


@dataclass(frozen=True)
class Line:
    name: str
    bytes: int
    note: str = ""


@dataclass(frozen=True)
class Budget:
    memory: Memory
    fraction: float
    chosen: bool  # the fraction was given, and is not SGLang's own
    lines: tuple[Line, ...]  # what must fit into the fraction whatever the load
    per_token: int  # bytes of KV, target and draft
    requests: int
    state: StateBytes | None
    context: int
    most_tokens: int = 0  # --max-total-tokens; 0: not given

    @property
    def static(self) -> int:
        """What SGLang will set aside."""
        return int(self.memory.free * self.fraction)

    @property
    def fixed(self) -> int:
        return sum(line.bytes for line in self.lines)

    @property
    def room(self) -> int:
        """What the fraction leaves."""
        return self.memory.free - self.static

    @property
    def tokens(self) -> int:
        """KV tokens that all running requests share, about."""
        room = max(0, self.static - self.fixed) // max(self.per_token, 1)
        return min(room, self.most_tokens) if self.most_tokens else room


def plan_budget(
    target: Target, draft: Path | None, config: DraftConfig | None, words: Sequence[str], memory: Memory
) -> Budget:
    """words: the command that will run. draft, config: None while the drafter is not on this machine."""
    width = int(number_of(words, "--speculative-num-draft-tokens", config.block_size if config else 16))
    requests = int(number_of(words, "--max-running-requests", USUAL_REQUESTS))
    lines = [Line("target weights", weight_bytes(target.folder), str(target.quantised or "as stored"))]
    lines.append(_draft_line(draft, words))
    if target.head_quantised and target.hidden and target.vocab:
        copy = target.hidden * target.vocab * 2
        lines.append(Line("rows of the quantised head, for scores", copy, "BF16; none if its stored form can be read"))
    state = None
    if target.recurrent is not None:
        state = state_bytes(target.recurrent, words, width)
        other = state_bytes(target.recurrent, words, width, replay=not state.replay)
        lines += _state_lines(state, other, requests)
    fraction = value_of(words, "--mem-fraction-static")
    usual = max(0.5, 1 - RESERVES[memory.total > LARGE] / memory.total)
    context = int(number_of(words, "--context-length", target.context or LEAST_TOKENS))
    return Budget(
        memory=memory,
        fraction=number_of(words, "--mem-fraction-static", usual),
        chosen=fraction is not None,
        lines=tuple(lines),
        per_token=_target_kv(target, words) + _draft_kv(config, words),
        requests=requests,
        state=state,
        context=context,
        most_tokens=int(number_of(words, "--max-total-tokens", 0)),
    )


def _draft_line(draft: Path | None, words: Sequence[str]) -> Line:
    if draft is None:
        return Line("draft weights", 0, "not on this machine yet: not counted")
    online = value_of(words, "--speculative-draft-model-quantization") == "fp8"
    return Line(
        "draft weights", weight_bytes(draft), "while loading; FP8 halves BF16 layers later" if online else "as stored"
    )


def _state_lines(state: StateBytes, other: StateBytes, requests: int) -> list[Line]:
    kept = Line(
        "recurrent states",
        (state.slots * requests + 1) * state.slot,
        f"{requests} requests x {state.slots} slots of {state.slot / 1e6:.1f} MB",
    )
    what = "ReplaySSM rings" if state.replay else "states of the rows that a verify step decides"
    with_or = "with" if other.replay else "without"
    note = f"{state.verify / 1e6:.1f} MB a request; {with_or} ReplaySSM {other.verify / 1e6:.1f} MB"
    verify = Line(what, (requests + 1) * state.verify, note)
    return [kept, verify]


def _target_kv(target: Target, words: Sequence[str]) -> int:
    if not (target.attention_layers and target.kv_heads and target.head_dim):
        return 0
    asked = value_of(words, "--kv-cache-dtype") or "auto"
    size = 1 if asked.startswith("fp8") or (asked == "auto" and target.kv_fp8) else 2
    size = 4 if asked == "auto" and value_of(words, "--dtype") == "float32" else size
    return 2 * target.attention_layers * target.kv_heads * target.head_dim * size


def _draft_kv(config: DraftConfig | None, words: Sequence[str]) -> int:
    size = 4 if value_of(words, "--dtype") == "float32" else 2
    return 0 if config is None else 2 * config.num_layers * config.num_kv_heads * config.head_dim * size


def check_budget(budget: Budget) -> Finding:
    """FAIL when the server could not serve at all, WARN when it would serve less than the model can."""
    least = budget.fixed + LEAST_TOKENS * budget.per_token
    free = f"{budget.memory.free / GB:.1f} GB of {budget.memory.total / GB:.1f} GB free"
    if least > budget.static:
        short = (
            f"{free}; the server needs {least / budget.fraction / GB:.1f} GB free at --mem-fraction-static "
            f"{budget.fraction:.2f}"
        )
        return Finding(FAIL, "memory", short, _mend(budget))
    found = f"{free}, room for about {budget.tokens} tokens of KV cache"
    if budget.memory.unified and budget.room < min(HOST_ROOM, budget.memory.total / 10):
        tight = f"only {budget.room / GB:.1f} GB are left for graphs, activations and the rest of this machine"
        return Finding(WARN, "memory", f"{found}; {tight}", "lower --mem-fraction-static, or close other programs")
    if budget.tokens < budget.context:
        todo = "pass --context-length, fewer --max-running-requests, or --kv-cache-dtype fp8_e4m3"
        return Finding(WARN, "memory", f"{found}, less than one request of {budget.context}", todo)
    return Finding(OK, "memory", found)


def _mend(budget: Budget) -> str:
    """The cheapest cure first: other programs, then fewer requests, then a smaller target."""
    todo = "end what else uses this memory"
    if budget.state is not None and budget.requests > 1:
        todo += f", pass fewer --max-running-requests than {budget.requests}"
    if budget.state is not None and not budget.state.replay:
        todo += ", pass --enable-linear-replayssm-spec"
    return todo + ", or serve a smaller target"


def table(budget: Budget) -> list[str]:
    """The budget for a reader."""
    how = "as given" if budget.chosen else "about what SGLang will choose"
    rows = [(line.name, line.bytes, line.note) for line in budget.lines]
    a_token = f"{budget.per_token / 1e3:.1f} kB a token, draft included"
    caches = max(0, budget.static - budget.fixed)
    if budget.most_tokens:
        caches, a_token = (
            min(caches, budget.tokens * budget.per_token),
            f"at most {budget.most_tokens} tokens, {a_token}",
        )
    rows.append(("KV caches" if budget.most_tokens else "KV caches, and more states", caches, a_token))
    title = f"memory budget: {budget.memory.free / GB:.1f} GB is the {budget.memory.source}"
    lines = [f"{title}; {budget.fraction:.2f} of it is set aside ({how})"]
    lines += [f"  {size / GB:7.2f} GB  {name}" + (f"  ({note})" if note else "") for name, size, note in rows]
    left = "graphs, activations" + (", compilers and the rest of the host" if budget.memory.unified else "")
    return [*lines, f"  {budget.room / GB:7.2f} GB  left for {left}"]
