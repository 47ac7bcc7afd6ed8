"""The hooks refuse other sources, half an installation, and settings under which rows would be lost."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from sglang.srt import runtime_context
from sglang.srt.plugins.hook_registry import HookRegistry

from .overlay import PATCHES, apply, copied, hooks, installed_hooks

hooks()
from sglang_gdn_replay import fold, pool, rings, sources  # noqa: E402
from sglang_gdn_replay.sources import ReplayError  # noqa: E402

pytestmark = pytest.mark.report(2)


def test_the_installed_sources_are_those_the_hooks_were_written_for():
    sources.require_sources()


def test_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(sources, "version", lambda name: "0.5.24")
    with pytest.raises(ReplayError, match=r"0\.5\.24, expected 0\.5\.23"):
        hooks().register()
    assert sources.POOL.replace(":", ".") not in HookRegistry._hooks


def look_in(folder, monkeypatch):
    """Let the hooks find SGLang's modules in `folder`, where it has them."""
    real = sources.find_spec

    def elsewhere(module):
        there = folder / (module.replace(".", "/") + ".py")
        return SimpleNamespace(origin=str(there)) if there.exists() else real(module)

    monkeypatch.setattr(sources, "find_spec", elsewhere)


def test_patched_sources_are_refused_and_the_reader_is_told_why(monkeypatch, tmp_path):
    copied(tmp_path)
    assert apply(PATCHES[0], tmp_path).returncode == 0
    look_in(tmp_path, monkeypatch)
    with pytest.raises(ReplayError, match="uninstall this hook"):
        hooks().register()


def test_the_masking_patch_alone_does_not_stand_in_their_way(monkeypatch, tmp_path):
    copied(tmp_path)
    assert apply(PATCHES[1], tmp_path).returncode == 0
    look_in(tmp_path, monkeypatch)
    sources.require_sources()


def configurator(**changes):
    return SimpleNamespace(**{"hybrid_gdn_config": "gdn", "hybrid_kda_config": None, **changes})


@pytest.fixture
def hooked():
    with installed_hooks():  # SGLang's modules are imported here, before anything of theirs is replaced
        yield


@pytest.fixture
def asked(monkeypatch):
    """A server that wants rings under DFLASH."""
    mamba = SimpleNamespace(enable_linear_replayssm_spec=True)
    monkeypatch.setattr(runtime_context, "get_exec", lambda: SimpleNamespace(mamba=mamba))
    monkeypatch.setattr(runtime_context, "get_spec", lambda: SimpleNamespace(speculative_algorithm="dflash"))
    return mamba


def made(ring: int = 16, block: int = 16, base="cursors", states=None):
    cache = SimpleNamespace(replayssm_d=torch.empty(1, 2, 3, ring, 4), intermediate_ssm=states,
                            intermediate_conv_window=[torch.empty(1, 2, block, 5, 3)])  # fmt: skip
    return SimpleNamespace(mamba_pool=SimpleNamespace(replayssm_cache_base=base, mamba_cache=cache))


def test_half_an_installation_is_refused_before_a_pool_is_built(asked):
    with pytest.raises(ReplayError, match="update_mamba_state_after_mtp_verify is not in place"):
        pool.build_pool(lambda c: made(), configurator())


@pytest.mark.full  # the imports alone take long
def test_the_pool_is_built_as_if_the_target_were_kda_and_the_pretence_ends_there(hooked, asked):
    seen, it = [], configurator()
    pool.build_pool(lambda c: seen.append(c.hybrid_kda_config) or made(), it)
    assert seen == ["gdn"] and it.hybrid_kda_config is None
    with pytest.raises(KeyError):
        pool.build_pool(lambda c: {}["broken"], it)
    assert it.hybrid_kda_config is None


@pytest.mark.parametrize("changes", [{"hybrid_gdn_config": None}, {"hybrid_kda_config": "kda"}])
def test_other_targets_are_left_to_sglang(asked, changes):
    it = configurator(**changes)
    kept = dict(vars(it))
    assert pool.build_pool(lambda c: dict(vars(c)), it) == kept


def test_without_the_flag_nothing_changes(asked):
    asked.enable_linear_replayssm_spec = False
    assert pool.build_pool(lambda c: c.hybrid_kda_config, configurator()) is None


@pytest.mark.parametrize(("ring", "block", "number"), [(16, 17, 32), (8, 8, 16), (24, 16, 16)])
def test_a_ring_that_cannot_hold_a_block_is_refused_with_the_number_to_pass(ring, block, number):
    with pytest.raises(ValueError, match=f"--linear-replayssm-cache-len {ring}: .* pass {number}$"):
        rings.require_rings(made(ring, block).mamba_pool)
    rings.require_rings(made(16, 16).mamba_pool)


@pytest.mark.parametrize("wrong", [{"base": None}, {"states": torch.empty(1)}])
def test_a_pool_without_rings_is_no_success(wrong):
    with pytest.raises(ReplayError, match="without rings"):
        rings.require_rings(made(**wrong).mamba_pool)


@pytest.mark.full
def test_ragged_verify_is_refused(hooked, asked, monkeypatch):
    monkeypatch.setenv("SGLANG_RAGGED_VERIFY_MODE", "compact")
    with pytest.raises(ValueError, match="pass static"):
        pool.build_pool(lambda c: made(), configurator())


def test_a_target_without_rings_commits_sglangs_way():
    backend = SimpleNamespace(
        linear_attn_backend=SimpleNamespace(
            req_to_token_pool=SimpleNamespace(mamba_pool=SimpleNamespace(replayssm_cache_base=None))
        )
    )
    calls = []
    fold.commit(lambda *given: calls.append(given), backend, 1, 2, 3, 4, 5)
    assert calls == [(backend, 1, 2, 3, 4, 5)]


@pytest.mark.parametrize(("held", "begin", "flag"), [(0, 0, 0), (9, 0, 0), (0, 2, 1), (3, 0, 1)])
def test_a_first_commit_without_effect_is_an_error(held, begin, flag):
    it = made().mamba_pool
    it.replayssm_spec_write_pos, it.replayssm_cache_base = torch.tensor([0, held]), torch.tensor([0, begin])
    it.replayssm_is_flush = torch.tensor([0, flag])
    state = SimpleNamespace(temporal=torch.empty(0))
    with pytest.raises(ReplayError, match="first commit of 3 rows"):
        fold.look_once(it, state, torch.tensor([1]), torch.tensor([3]))
    it.replayssm_spec_write_pos[1], it.replayssm_cache_base[1], it.replayssm_is_flush[1] = 3, 0, 0
    assert fold.look_once(it, state, torch.tensor([1]), torch.tensor([3]))
