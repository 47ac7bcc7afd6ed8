"""First tokens: a model's, or garbage (report 29)."""

from __future__ import annotations

import math

import pytest

from sglang_dspine.preflight.model import read_target
from sglang_dspine.serve.failure import ServeError
from sglang_dspine.serve.fallback import FALLBACKS, fallback
from sglang_dspine.serve.hardware import Gpu
from sglang_dspine.serve.probe import Probe, require_sane

from ..preflight.folders import target

pytestmark = pytest.mark.report(29)
UNIFORM = math.log(248320)


def test_text_that_a_model_finds_likely_is_no_garbage():
    assert Probe(2.5, 0.3, UNIFORM).problem is None


@pytest.mark.parametrize("loss", [UNIFORM, 0.7 * UNIFORM, math.inf, math.nan])
def test_losses_near_a_guess_or_not_finite_are_garbage_of_prefill_or_of_decode(loss):
    assert "prefill is garbage" in (Probe(loss, 0.1, UNIFORM).problem or "")
    assert "decode is garbage" in (Probe(2.5, loss, UNIFORM).problem or "")


def test_the_error_says_what_to_start_again_with(stand_in, monkeypatch):
    url = stand_in(STAND_IN_NATS="12")
    with pytest.raises(ServeError, match=r"garbage: 12\.00 nats .* try this"):
        require_sane(url, 248320, "try this")


def test_a_sane_server_passes(stand_in):
    assert require_sane(stand_in(), 248320, "").text == pytest.approx(1.0)


def test_an_nvfp4_target_is_sent_to_marlin_and_then_on(tmp_path):
    fp4 = read_target(target(tmp_path / "a", quantization_config={"quant_algo": "NVFP4"}))
    gpu = Gpu("NVIDIA GB10", (12, 1))
    assert "-- --fp4-gemm-backend marlin" in fallback(fp4, gpu, []) and "sm_121" in fallback(fp4, gpu, [])
    assert "-- --attention-backend triton" in fallback(fp4, gpu, ["--fp4-gemm-backend", "marlin"])
    plain = read_target(target(tmp_path / "b"))
    assert "--attention-backend triton" in fallback(plain, None, [])
    assert "every fallback flag" in fallback(fp4, gpu, [flag for _, flag, _, _ in FALLBACKS])


@pytest.mark.parametrize(("_", "flag", "value", "__"), FALLBACKS)
def test_sglang_takes_every_fallback_that_is_named(_, flag, value, __):
    from sglang_dspine.compat.check import sglang_root

    sources = (sglang_root() / "sglang/srt/arg_groups/fields").glob("*.py")
    choices = (sglang_root() / "sglang/srt/arg_groups/choices.py").read_text()
    known = "".join(path.read_text() for path in sources) + (sglang_root() / "sglang/srt/server_args.py").read_text()
    assert (flag in known or flag.removeprefix("--").replace("-", "_") in known) and f'"{value}"' in choices + known
