"""Is a port free?"""

from __future__ import annotations

import socket
from pathlib import Path

from .failure import ServeError
from .record import find_record


def require_free(host: str, port: int, state: Path) -> None:
    """Raise ServeError, naming who serves there if it is ours, unless `port` can be bound."""
    record = find_record(state, port)
    if record is not None:
        raise ServeError(f"{record.what} is served at {record.url}; stop it with ./serve.sh --stop, or set PORT=")
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
            probe.bind(address)
    except OSError as error:
        raise ServeError(f"{host} port {port} cannot be used: {error.strerror or error}; set HOST= or PORT=") from None


def free_port() -> int:
    """Some free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
