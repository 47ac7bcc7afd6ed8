"""SGLang's output on its way to the log."""

from __future__ import annotations

import io
import subprocess
import sys

from sglang_dspine.serve.log import ServerLog


def logged(tmp_path, text: bytes, secrets=()) -> ServerLog:
    log = ServerLog(tmp_path / "logs" / "1.log", secrets)
    log.copy(io.BytesIO(text))
    log.finish()
    return log


def test_a_secret_does_not_reach_the_file(tmp_path):
    log = logged(tmp_path, b"api_key='s3cret' and s3cret\nmore\n", ["s3cret"])
    assert log.path.read_text() == "api_key='<API_KEY>' and <API_KEY>\nmore\n"


def test_only_the_owner_reads_the_log(tmp_path):
    assert logged(tmp_path, b"").path.stat().st_mode & 0o777 == 0o600


def test_the_tail_is_the_end(tmp_path):
    log = logged(tmp_path, "\n".join(map(str, range(300))).encode())
    assert log.tail(200).splitlines() == list(map(str, range(100, 300)))


def test_progress_shows_what_sglang_said_last_and_no_list_of_arguments(tmp_path):
    noise = (
        b'[12:01] server_args={...}\n[12:01] INFO:  127.0.0.1 - "GET /health HTTP/1.1" 503\nUserWarning: something\n'
    )
    log = logged(tmp_path, b"[12:00] Load weight begin.\n" + noise)
    assert log.last_line() == "Load weight begin."


class FullFor(io.FileIO):
    """A file on a disk that is full for the first `times` writes."""

    times = 0

    def write(self, data) -> int:
        self.times -= 1
        return open("/dev/full", "wb", buffering=0).write(data) if self.times >= 0 else super().write(data)


def filling(tmp_path, times: int) -> ServerLog:
    log = ServerLog(tmp_path / "1.log")
    log._file.close()
    log._file = FullFor(log.path, "w")
    log._file.times = times
    return log


def test_a_server_whose_log_finds_no_room_is_read_on_and_stderr_is_told_once(tmp_path, capsys):
    log = filling(tmp_path, 10**9)
    chatty = "for i in range(40000): print(f'line {i} of the log')"  # more than a pipe holds
    with subprocess.Popen([sys.executable, "-c", chatty], stdout=subprocess.PIPE) as process:
        log.copy(process.stdout)
        try:
            assert process.wait(20) == 0
        finally:
            process.kill()
            log.finish()
    (told,) = capsys.readouterr().err.splitlines()
    assert str(log.path) in told and "No space left on device" in told
    assert log.tail(2).splitlines() == ["line 39998 of the log", "line 39999 of the log"]


def test_later_lines_are_written_again_and_the_gap_is_named(tmp_path):
    log = filling(tmp_path, 2)
    log.copy(io.BytesIO(b"a\nb\nc\nd\n"))
    log.finish()
    assert log.path.read_text() == "\n[serve.sh: 2 lines could not be written here]\nc\nd\n"


def test_the_log_before_this_one_is_kept_once(tmp_path):
    for text in (b"first", b"second", b"third"):
        log = logged(tmp_path, text)
    kept = {path.name: path.read_text() for path in log.path.parent.iterdir()}
    assert kept == {"1.log": "third", "1.log.1": "second"}
    assert log.path.with_name("1.log.1").stat().st_mode & 0o777 == 0o600
