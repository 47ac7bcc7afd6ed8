"""Environment to settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglang_dspine.serve.failure import ServeError
from sglang_dspine.serve.settings import Settings, read_settings


def test_nothing_set_means_the_loopback_interface():
    settings = read_settings({})
    assert (settings.host, settings.port, settings.api_key) == ("127.0.0.1", 30000, None)


def test_an_empty_variable_counts_as_unset():
    assert read_settings({"PORT": "", "HOST": "", "API_KEY": ""}).port == 30000


@pytest.mark.parametrize("port", ["x", "0", "65536", "nan"])
def test_a_port_that_is_none_is_refused_with_what_was_found(port):
    with pytest.raises(ServeError, match=f"PORT={port}: expected a number from 1 to 65535"):
        read_settings({"PORT": port})


@pytest.mark.parametrize(
    ("host", "reached"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("10.1.2.3", "10.1.2.3")],
)
def test_the_url_is_one_that_this_machine_reaches(host, reached):
    assert Settings(host=host, port=81).url == f"http://{reached}:81"


def test_state_lies_where_the_system_keeps_it_unless_told():
    assert read_settings({"XDG_STATE_HOME": "/s"}).state == Path("/s/sglang-dspine")
    assert read_settings({"XDG_STATE_HOME": "/s", "DSPINE_STATE": "/d"}).state == Path("/d")


def test_a_failed_check_is_passed_over_only_when_asked_for():
    assert not read_settings({}).lenient and read_settings({"PREFLIGHT": "warn"}).lenient
    with pytest.raises(ServeError, match="PREFLIGHT=off: expected refuse or warn"):
        read_settings({"PREFLIGHT": "off"})


def test_image_and_cache_of_the_container_can_be_named():
    settings = read_settings({"IMAGE": "mine:1", "DSPINE_CACHE": "/c"})
    assert settings.image == "mine:1" and settings.cache == Path("/c") and read_settings({}).image is None
