"""A token id is the byte's own value."""

import pytest
from transformers import AutoTokenizer

from demo.text import END_OF_TEXT, IM_END, IM_START, MASK, chat
from demo.tokenizer import SPECIALS, byte_alphabet, save_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder, 512)
    return AutoTokenizer.from_pretrained(folder)


def test_the_alphabet_has_one_character_for_each_byte():
    assert len(set(byte_alphabet())) == 256


@pytest.mark.parametrize("text", ["def f(x):\n\treturn  x\r\n", "naïve 猫 🐈", "\x00\x7f\u00ad", " "])
def test_ids_are_the_bytes_of_the_text(tokenizer, text):
    assert tokenizer.encode(text) == list(text.encode())
    assert tokenizer.decode(list(text.encode())) == text


def test_specials_follow_the_bytes(tokenizer):
    assert tokenizer.convert_tokens_to_ids(SPECIALS) == [END_OF_TEXT, IM_START, IM_END, MASK]
    assert tokenizer.eos_token_id == IM_END and tokenizer.mask_token_id == MASK


def test_the_chat_template_writes_what_the_model_was_trained_on(tokenizer):
    messages = [{"role": "user", "content": "Write the function f."}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    trained = chat("Write the function f.", "ANSWER")
    assert tokenizer.encode(prompt) == trained[: trained.index(ord("A"), len(prompt) // 2)]
