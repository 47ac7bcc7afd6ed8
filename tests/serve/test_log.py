"""SGLang's output on its way to the log."""

from __future__ import annotations

import io

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
