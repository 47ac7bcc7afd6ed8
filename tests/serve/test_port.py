"""Who has a port."""

from __future__ import annotations

import os
import socket

import pytest

from sglang_dspine.serve.failure import ServeError
from sglang_dspine.serve.port import free_port, listener, require_free


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def taken(request):
    address = "127.0.0.1" if request.param == socket.AF_INET else "::1"
    with socket.socket(request.param) as other:
        try:
            other.bind((address, 0))
        except OSError:
            pytest.skip(f"no {address} here")
        other.listen()
        yield address, other.getsockname()[1]


def test_a_listener_is_named_by_its_process(taken):
    assert f"process {os.getpid()} (" in listener(taken[1])


def test_nobody_listens_on_a_free_port():
    assert listener(free_port()) is None


def test_a_port_that_is_only_connected_from_has_no_listener(taken):
    with socket.create_connection(taken) as client:
        assert listener(client.getsockname()[1]) is None


def test_a_busy_port_is_refused_with_its_holder_and_what_to_do(taken, tmp_path):
    with pytest.raises(ServeError, match=rf"process {os.getpid()} .*listens there\); set HOST= or PORT="):
        require_free(*taken, tmp_path)
