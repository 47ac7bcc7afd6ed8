"""A planted pair for long contexts: its target finds a needle at any distance by content, its drafter by the answer.

Nothing is trained. One attention layer of the hybrid target asks, from the question token on, for the needle's key in
dimensions that RoPE does not turn, and writes the needle's number where the head reads the answer: one answer token a
needle, over and over. All other layers run and add nothing. The drafter averages what it taps of that over its window.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import torch

from .checkpoints import TINY, random_tensors, write_checkpoint
from .models import MASK, VOCAB, _common, _finish, cached, edit_json
from .pairs import Pair

HIDDEN, HEADS, KV_HEADS, SIZE = 256, 4, 2, 64
NEEDLES, QUESTION, ANSWERS = range(270, 278), 278, range(280, 288)
KEY, NUMBER, ASKS, ANSWER = 100, 101, 120, 130  # dimensions of the residual stream
PLACE = 40  # of a head: behind the quarter that RoPE turns


def needle_pair(context: int, window: int = 512) -> Pair:
    """context: positions of target and drafter; window: of the drafter."""
    target = cached("needle", lambda path: _save_target(path, context), context=context)
    draft = cached("needle-draft", lambda path: _save_draft(path, context, window), context=context, window=window)
    return Pair(target, draft)


def prompt(length: int, depth: int, number: int, seed: int = 0) -> list[int]:
    """`length` tokens of noise with needle `number` after `depth` of them, and the question at the end."""
    draw = random.Random(seed)
    noise = [draw.randrange(256) for _ in range(length - 2)]
    return [*noise[:depth], NEEDLES[number], *noise[depth:], QUESTION]


@torch.no_grad()
def _save_target(path: Path, context: int) -> None:
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    torch.manual_seed(0)
    shape = {
        "hidden_size": HIDDEN, "intermediate_size": 128, "num_hidden_layers": 8, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": SIZE, "max_position_embeddings": context,
        "linear_num_key_heads": 1, "linear_num_value_heads": 2, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
    }  # fmt: skip
    model = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**_common(shape))).float()
    silent = ("out_proj", "down_proj", "o_proj", "layernorm", "lm_head")
    for name, weight in model.named_parameters():
        if name.removesuffix(".weight").endswith(silent):
            weight.zero_()
    model.model.norm.weight.zero_()
    table = model.model.embed_tokens.weight
    table.zero_()
    table[:, :KEY].normal_()
    table[NEEDLES, KEY] = 10.0
    table[NEEDLES, torch.arange(NUMBER, NUMBER + 8)] = 10.0
    table[[QUESTION, *ANSWERS], ASKS] = 10.0
    attention, numbers = model.model.layers[3].self_attn, torch.arange(8)
    for part in (attention.q_proj, attention.k_proj, attention.v_proj):
        part.weight.zero_()
    for head in range(HEADS):  # a head's query, then its gate, which stays half open
        attention.q_proj.weight[2 * SIZE * head + PLACE, ASKS] = 1.0
        attention.o_proj.weight[ANSWER + numbers, SIZE * head + numbers] = 4.0
    for head in range(KV_HEADS):
        attention.k_proj.weight[SIZE * head + PLACE, KEY] = 1.0
        attention.v_proj.weight[SIZE * head + numbers, NUMBER + numbers] = 1.0
    attention.q_norm.weight.fill_(1.0)  # scales by 2: the needle stands 32 nats above the noise
    attention.k_norm.weight.fill_(1.0)
    model.lm_head.weight[ANSWERS, ANSWER + numbers] = 1.0
    _finish(model, path, None)
    edit_json(path / "config.json", full_attention_interval=4)


def _save_draft(path: Path, context: int, window: int) -> None:
    config = replace(
        TINY, hidden_size=HIDDEN, num_heads=HEADS, num_kv_heads=KV_HEADS, head_dim=SIZE, intermediate_size=128,
        vocab_size=VOCAB, mask_token_id=MASK, target_layer_ids=(3, 5), num_target_layers=8, transfer_rank=32,
        message_size=16, rope_theta=1e6, max_position_embeddings=context, sliding_window=window,
        layer_types=("sliding_attention",) * 2,
    )  # fmt: skip
    tensors, numbers = random_tensors(config, dtype=torch.float32), torch.arange(8)
    for name, weight in tensors.items():
        if name.endswith("norm.weight"):
            weight.fill_(1.0)
        elif name != "transfer_codes":
            weight.zero_()
    tensors["fc.weight"][:, :HIDDEN] = torch.eye(HIDDEN)
    for head in range(KV_HEADS):
        tensors["layers.0.self_attn.v_proj.weight"][SIZE * head + numbers, ANSWER + numbers] = 1.0
    for head in range(HEADS):
        tensors["layers.0.self_attn.o_proj.weight"][ANSWER + numbers, SIZE * head + numbers] = 1.0
    write_checkpoint(path, config, tensors=tensors)
    assert json.loads((path / "config.json").read_text())["sliding_window"] == window
