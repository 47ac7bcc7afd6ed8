"""Seeded requests: the text is plain decode's, seed by seed, however batched.

SGLang honours seeds under `--enable-deterministic-inference`, whose batch-invariant products want a GPU. The CPU
stand-in is batch-invariant by itself, so here only the sampler is told. Seeds beside min-p are left out: there SGLang
0.5.23 stops at an assertion of its own, with a drafter and without.
"""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from unittest import mock

from ..exactness.bigram_pair import bigram
from ..support.engine import Request
from ..support.prompts import random_prompts

SETTINGS = [{"temperature": 1.0}, {"temperature": 0.7, "top_p": 0.9, "top_k": 40}, {"temperature": 1.3, "top_p": 0.8}]


@contextmanager
def seeds_honoured(engine):
    """What the flag does to sampling."""
    from sglang.srt.sampling import sampling_batch_info as module

    def told(real=module.get_exec):
        deterministic = SimpleNamespace(enable_deterministic_inference=True)
        return SimpleNamespace(deterministic=deterministic, features=real().features)

    sampler = engine.model_runner.sampler
    with mock.patch.object(module, "get_exec", told), mock.patch.object(sampler, "enable_deterministic", True):
        yield engine


def requests(setting: dict, shift: int = 0) -> list[Request]:
    common = {**setting, "max_new_tokens": 24, "ignore_eos": True}
    return [
        Request(ids, {**common, "sampling_seed": 7 + i + shift}) for i, ids in enumerate(random_prompts((5, 12, 21)))
    ]


def test_a_seeded_text_is_plain_decodes_and_hangs_on_its_seed(engines):
    """Requests of one setting at a time: SGLang draws by rank where any request of a batch has a top-k or top-p."""
    pair = bigram()  # its proposals are often what a seed chooses
    with seeds_honoured(pair.plain(engines)) as plain:
        expected = [plain.generate([request])[0].output_ids for s in SETTINGS for request in requests(s)]
    with seeds_honoured(pair.served(engines)) as drafting:
        outputs = [out for s in SETTINGS for out in drafting.generate(requests(s))]
        assert [out.output_ids for out in outputs] == expected
        assert max(length for out in outputs for length in out.accept_lengths) > 1
        others = [out.output_ids for s in SETTINGS for out in drafting.generate(requests(s, shift=100))]
    assert all(a != b for a, b in zip(others, expected, strict=True))
