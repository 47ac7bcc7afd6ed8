"""E4's samples from an engine in this process, and exact laws from transformers in float32."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import torch

from sglang_dspine.exactness.filters import Sampling, target_law
from sglang_dspine.exactness.laws import Laws
from sglang_dspine.exactness.samples import Cells, Samples
from sglang_dspine.exactness.served_samples import deepest

from ..support.engine import Request
from ..support.models import transformers_model

AT_ONCE = 1024


def draw(engine, prompts, sampling: Sampling, requests: int, length: int) -> tuple[Samples, float]:
    """`requests` sequences, prompts in turn, and the mean accepted length of their rounds.

    The engine draws from torch's generator of this process. It is seeded: a test at level alpha that drew anew every
    time would fail once in 1 / alpha runs of a correct server.
    """
    torch.manual_seed(0)
    params = {**sampling.params(), "max_new_tokens": length, "ignore_eos": True}
    wanted = [Request(prompts[i % len(prompts)], params) for i in range(requests)]
    # in parts: the scheduler looks through all that wait at every step
    parts = (wanted[start : start + AT_ONCE] for start in range(0, requests, AT_ONCE))
    outputs = [out for part in parts for out in engine.generate(part, limit=100_000)]
    tokens = np.array([out.output_ids for out in outputs])
    assert tokens.shape == (requests, length)
    accepted = [a for out in outputs for a in out.accept_lengths]
    return Samples(np.arange(requests) % len(prompts), tokens), float(np.mean(accepted))


@torch.no_grad()
def laws_of(path: str, prompts, cells: Cells, sampling: Sampling) -> Laws:
    """Law of every cell over the whole vocabulary."""
    wanted = list(zip(cells.prompt.tolist(), cells.prefix, strict=True))
    model, rows = transformers_model(path), {}
    alike = defaultdict(list)  # batches need texts of one length
    for prompt, prefix in deepest(wanted):
        alike[prompt, len(prefix)].append(prefix)
    for (prompt, _), prefixes in alike.items():
        for part in (prefixes[i : i + 256] for i in range(0, len(prefixes), 256)):
            ids = torch.tensor([[*prompts[prompt], *prefix] for prefix in part])
            logits = model(ids).logits[:, len(prompts[prompt]) - 1 :].double().numpy()
            for prefix, found in zip(part, logits, strict=True):
                rows.update({(prompt, prefix[:k]): row for k, row in enumerate(found)})
    laws = []
    for node in wanted:
        law = target_law(rows[node], sampling)
        ids = np.flatnonzero(law)
        ids = ids[np.argsort(-law[ids], kind="stable")]
        laws.append((ids, law[ids], 0.0))
    return Laws.stack(laws)
