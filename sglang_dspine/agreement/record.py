"""Captures of a target that transformers can run: it continues prompts greedily, and its layers are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from safetensors import SafetensorError

from ..checkpoint.target import check_against_target
from ..config import DraftConfig
from ..errors import DSpineError
from .captures import Captures, Text

# Continued by the target when the user gives no prompts of their own.
BUILT_IN = (
    "def moving_average(values, window):\n    \"\"\"Mean of each run of `window` values.\"\"\"\n",
    "class Inventory:\n    def __init__(self):\n        self.items = {}\n\n    def add(self, name, count):\n",
    "import csv\n\ndef read_rows(path):\n    with open(path, newline='') as file:\n",
    "The water cycle has three stages. In the first,",
    "List the steps to replace a bicycle tube:\n1.",
    "{\"name\": \"Ada\", \"age\": 36}\n{\"name\": \"Alan\", \"age\": 41}\n{\"name\":",
    "To find the area of a circle of radius 3, we",
    "for i in range(10):\n    if i % 2 == 0:\n        print(i)\n    else:\n",
)  # fmt: skip


NEW_TOKENS = 96  # that the target writes behind each prompt


def check_target(target: str, config: DraftConfig, device: str, prompts: Sequence[str] = ()) -> None:
    """Whether `record` can begin, without reading a weight.

    Raises:
        DSpineError: transformers knows no such target, it is not this drafter's, PyTorch lacks the device, or a prompt
            has no token or leaves no room to write.
    """
    from transformers import AutoConfig, AutoTokenizer

    try:
        torch.ones(1, device=device).sum().item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise DSpineError(f"--device {device}: this PyTorch cannot use it ({_first_line(error)}); use cpu") from None
    with _told(target), _quiet():
        found = AutoConfig.from_pretrained(target).get_text_config()
        tokenizer = AutoTokenizer.from_pretrained(target)
        lengths = [len(tokenizer(prompt)["input_ids"]) for prompt in prompts]
    check_against_target(config, found.hidden_size, config.vocab_size, found.num_hidden_layers)
    _check_lengths(target, lengths, getattr(found, "max_position_embeddings", None))


def _check_lengths(target: str, lengths: Sequence[int], most: int | None) -> None:
    for number, length in enumerate(lengths, start=1):
        if length == 0:
            raise DSpineError(f"--target {target}: its tokenizer makes no token of prompt {number}; is it all there?")
        if most is not None and length + NEW_TOKENS > most:
            raise DSpineError(
                f"--target {target}: expected prompts of at most {most - NEW_TOKENS} tokens, so that {NEW_TOKENS} can "
                f"follow; prompt {number} has {length}"
            )


@torch.no_grad()
def record(
    target: str,
    prompts: Sequence[str],
    layers: Sequence[int],
    mask_token: int,
    new_tokens: int = NEW_TOKENS,
    device: str = "cpu",
    progress: Callable[[], None] = lambda: None,
) -> Captures:
    """Let `target` continue each prompt by `new_tokens` greedy tokens, and capture the outputs of `layers`.

    The end-of-text token does not stop it, so that every text has the same weight.
    Raises:
        DSpineError: transformers cannot load or run it, in its own words.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with _told(target), _quiet():
        tokenizer = AutoTokenizer.from_pretrained(target)
        model: Any = AutoModelForCausalLM.from_pretrained(target, dtype="auto")
        model = model.to(device).eval()
        texts = []
        for prompt in prompts:
            ids = tokenizer(prompt, return_tensors="pt")["input_ids"].to(device)
            length = ids.shape[1] + new_tokens
            whole = model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, min_length=length, max_length=length,
                pad_token_id=0,
            )  # fmt: skip
            states = model(input_ids=whole, use_cache=False, output_hidden_states=True).hidden_states
            taps = torch.cat([states[layer + 1][0] for layer in layers], -1)  # states[0] is the embedding
            texts.append(Text(taps.cpu(), whole[0].cpu(), ids.shape[1]))
            progress()
    embed, head = model.get_input_embeddings().weight.detach().cpu(), model.lm_head.weight.detach().cpu()
    return Captures(
        tuple(texts),
        embed,
        head,
        embed[mask_token],
        f"{len(texts)} greedy text{'s' * (len(texts) != 1)} of {new_tokens} tokens",
    )


@contextmanager
def _told(target: str) -> Iterator[None]:
    """What transformers raises, as one sentence; out of memory is one of its RuntimeErrors."""
    try:
        yield
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        raise DSpineError(f"--target {target}: transformers cannot run it: {_first_line(error)}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Transformers' bars and advice on faster kernels, which would stand between the lines of our own progress."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
