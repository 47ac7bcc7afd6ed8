"""The public training code's golden vectors, reproduced by a draft forward inside real SGLang."""

from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from sglang_dspine.draft.block import prepare_block
from sglang_dspine.worker.round import propose
from tests.support.golden import VECTORS, contexts
from tests.support.models import cached, dense_qwen3, edit_json
from tests.support.pairs import Pair

TARGETS = {"full": {"num_hidden_layers": 8}, "window": {"num_hidden_layers": 4}}
RTOL = 2e-4  # float32 through another order of sums; ids are compared exactly


def target_for(name: str) -> str:
    """A random dense target of the drafter's width and vocabulary, with the golden embedding and head."""
    golden = load_file(VECTORS / name / "vectors.safetensors")
    embed, head = golden["target.embed"], golden["target.lm_head"]
    vocab, width = embed.shape

    def build(path):
        import shutil

        base = dense_qwen3(
            hidden_size=width, vocab_size=vocab, eos_token_id=1, pad_token_id=0, max_position_embeddings=512,
            **TARGETS[name],
        )  # fmt: skip
        shutil.copytree(base, path, dirs_exist_ok=True)
        weights = load_file(path / "model.safetensors")
        weights |= {"model.embed_tokens.weight": embed.float(), "lm_head.weight": head.float()}
        save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
        edit_json(path / "config.json", vocab_size=vocab)

    return cached(f"golden-{name}", build, golden=name)


def draft_golden(worker, case) -> None:
    """Write the golden context into the draft's KV and draft the golden block; the result is in the proposer."""
    runner, length = worker.model_runner, case.context_length
    slots = torch.arange(1, length + 17)
    runner.req_to_token_pool.req_to_token[1, : length + 16] = slots.to(torch.int32)
    worker._append_target_hidden_to_draft_kv_by_loc(
        target_hidden=case["target_features"], cache_loc=slots[:length], positions=torch.arange(length)
    )
    batch = SimpleNamespace(
        seq_lens=torch.tensor([length]), seq_lens_cpu=torch.tensor([length]), req_pool_indices=torch.tensor([1]),
        sampling_info=None, can_run_decode_cuda_graph=False, reqs=[],
    )  # fmt: skip
    draft_input = SimpleNamespace(bonus_tokens=case["anchor"], nxt_kv_lens_cpu=None)
    block = prepare_block(batch, draft_input, runner, 16, worker._mask_token_id)
    propose(worker, batch, draft_input, block)


@pytest.mark.parametrize("name", list(TARGETS))
def test_the_sglang_draft_reproduces_the_golden_block(engines, name, monkeypatch):
    monkeypatch.setenv("DSPINE_SELF_CHECK", "1")
    pair = Pair(target_for(name), str(VECTORS / name))
    worker = pair.served(engines, skip_tokenizer_init=True).draft_worker
    assert worker.self_check.cosine > 0.9999 and worker.self_check.linear_error < 1e-5
    for case in contexts(name, "f32"):
        with torch.inference_mode():
            draft_golden(worker, case)
        proposer = worker.draft_model.proposer
        assert proposer.candidates[0].tolist() == case["candidates"].tolist(), case.where
        assert proposer.tokens[0].tolist() == case["path"].tolist(), case.where
        scale = case["scores"].abs().max()
        assert ((proposer.scores[0] - case["scores"]).abs().max() / scale) < RTOL, case.where
