"""Is a port free, and if not, who has it?"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from .failure import ServeError
from .record import find_record

LISTENING = "0A"  # state in /proc/net/tcp (tcp(7), proc(5))


def require_free(host: str, port: int, state: Path) -> None:
    """Raise ServeError, naming who serves there, unless `port` can be bound."""
    record = find_record(state, port)
    if record is not None:
        raise ServeError(f"{record.what} is served at {record.url}; stop it with ./serve.sh --stop, or set PORT=")
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
            probe.bind(address)
    except OSError as error:
        other = listener(port)
        by = f" ({other} listens there)" if other else ""
        raise ServeError(
            f"{host} port {port} cannot be used: {error.strerror or error}{by}; set HOST= or PORT="
        ) from None


def listener(port: int) -> str | None:
    """Who listens on a TCP port of this machine, on whatever address: "process 123 (nginx)", or "another user's
    process" where /proc does not say; None when nobody does."""
    sockets = _listening(port)
    if not sockets:
        return None
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(handle) in sockets for handle in (folder / "fd").iterdir()):
                return f"process {folder.name} ({(folder / 'comm').read_text().strip()})"
        except OSError:  # not ours to look into, or gone meanwhile
            continue
    return "another user's process"


def _listening(port: int) -> set[str]:
    """Sockets that listen on `port`, as a process's fd links spell them."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, rows):
            if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(f"socket:[{fields[9]}]")
    return found


def free_port() -> int:
    """Some free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
