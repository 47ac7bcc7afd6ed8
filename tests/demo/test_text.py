"""What the pair is trained on, and what it never sees."""

from demo.text import HELD_OUT, IM_END, Corpus, chat, chats, held_out_prompts, sources

MODULE = '''def greet(name):
    """Say hello."""
    text = "hello " + name
    print(text)
    return text
'''


def library(folder):
    for name in ("heapq.py", "json/decoder.py", "test/test_json/test_dump.py", "abc.py", "test/test_abc.py"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n" + MODULE * 8)
    return folder


def test_a_held_out_module_takes_its_tests_with_it(tmp_path):
    kept = [str(name) for name, _ in sources(library(tmp_path), held_out=False)]
    assert kept == ["abc.py", "test/test_abc.py"]
    assert len(sources(tmp_path, held_out=True)) == 3
    assert {"heapq", "json"} <= HELD_OUT


def test_no_held_out_text_reaches_the_training_streams(tmp_path):
    for stream in Corpus.read(library(tmp_path)).streams:
        text = bytes(t for t in stream.tolist() if t < 256).decode()
        assert "heapq" not in text and "json" not in text


def test_prompts_come_from_held_out_modules_and_end_a_line(tmp_path):
    prompts = held_out_prompts(library(tmp_path), 5, 100)
    assert prompts.shape == (5, 100)
    assert all(row[-1] == ord("\n") for row in prompts.tolist())
    library_text = (tmp_path / "heapq.py").read_bytes() + (tmp_path / "json/decoder.py").read_bytes()
    assert all(bytes(row) in library_text for row in prompts.tolist())


def test_a_function_becomes_a_question_and_its_own_text():
    (turn,) = chats(MODULE)
    assert turn == chat("def greet(name):", MODULE.rstrip("\n"))
    assert turn.count(IM_END) == 2
