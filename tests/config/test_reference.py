"""The reference form: brought to what the reference ran, and each overruled statement told."""

from dataclasses import replace

import pytest

from sglang_dspine.checkpoint import Layout
from sglang_dspine.config import load_config
from sglang_dspine.config.source import _log_once, read_source
from sglang_dspine.errors import CheckpointError
from tests.support.checkpoints import TINY, edit_config, edit_tensors, write_checkpoint


@pytest.fixture
def folder(tmp_path):
    write_checkpoint(tmp_path, layout=Layout.REFERENCE)
    return tmp_path


def test_a_reference_config_in_agreement_changes_nothing(folder):
    assert load_config(folder) == TINY
    assert read_source(folder).notes == ()


def test_block_window_and_top_k_are_those_of_the_reference(folder, caplog):
    _log_once.cache_clear()
    edit_config(
        folder,
        block_size=8,
        dflash_config__block_size=4,
        dspine_config__top_k=5,
        layer_types=["sliding_attention"] * 2,
        use_sliding_window=True,
        sliding_window=99,
    )
    with caplog.at_level("WARNING"):
        assert load_config(folder) == TINY
        load_config(folder)
    notes = read_source(folder).notes
    for stated in ("block_size 8", "block_size 4", "top_k 5", "sliding_window 99", "use_sliding_window True"):
        assert any(note.startswith(stated) for note in notes), stated
    assert any("layer_types" in note for note in notes)
    assert len(caplog.records) == len(notes) == 6  # once each, though loaded twice


def test_rank_and_message_size_come_from_the_weights(folder):
    edit_config(folder, dspine_config=None, architectures=["Other"], model_type="other", block_size=None)
    assert load_config(folder) == TINY


def test_a_stated_rank_that_the_weights_contradict_is_not_overruled(folder):
    edit_config(folder, dspine_config__transfer_rank=8)
    assert load_config(folder) == replace(TINY, transfer_rank=8)  # and its shapes then do not fit


def test_entries_of_the_source_drafter_are_left_out_with_a_note(folder):
    edit_config(folder, dflash_config__projector_type="domino")
    assert load_config(folder) == TINY
    assert any("projector_type" in note for note in read_source(folder).notes)


@pytest.mark.parametrize("name", ["dflash_config__mask_token_id", "dflash_config__target_layer_ids"])
def test_mask_and_taps_are_never_guessed(folder, name):
    edit_config(folder, **{name: None})
    with pytest.raises(CheckpointError, match="is missing"):
        load_config(folder)


def test_codes_in_the_model_file_make_it_no_reference_form(folder, tmp_path):
    edit_tensors(folder, model__transfer_codes=write_checkpoint(tmp_path / "other")["transfer_codes"])
    edit_config(folder, block_size=8, dflash_config__block_size=8)
    assert load_config(folder).block_size == 8
