"""The listening socket of a service, which stays open when HAProxy, its manager or Ray dies.

The process of `rlsched serve` opens it, and passes it to each manager of HAProxy. Until an HAProxy takes
connections, they wait in the socket's queue instead of being refused.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rlsched.errors import BadInputError

BACKLOG = 4096

FIRST_PASSED = 3  # descriptor of the first socket that systemd passes

RETRY_S = 0.1
ANSWER_S = 5.0  # longest time in which the process with the socket shares it


def opened(host: str, port: int) -> socket.socket:
    """Open a listening socket at an address; `*`: at all addresses of this machine.

    Raises:
        OSError: the port is taken, or the address is not of this machine.
    """
    host = "0.0.0.0" if host == "*" else host
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # Of several addresses, as of localhost, the one that HAProxy would take.
    family, kind, protocol, _, address = min(addresses, key=lambda info: info[0] != socket.AF_INET)
    opened_socket = socket.socket(family, kind, protocol)
    try:
        opened_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened_socket.bind(address)
        opened_socket.listen(BACKLOG)
        opened_socket.setblocking(False)
    except OSError:
        opened_socket.close()
        raise
    return opened_socket


def passed(host: str, port: int) -> socket.socket | None:
    """The listening socket that systemd passes to this process; None: it passes none (sd_listen_fds(3)).

    It must listen at this host, or at all addresses, and at this port.

    Raises:
        BadInputError: there are several, or it is of another kind, address or port.
    """
    process, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "0")
    os.environ.pop("LISTEN_FDNAMES", None)
    if process != str(os.getpid()) or count == "0":
        return None
    remedy = "write one ListenStream=ADDRESS:PORT into the unit of the socket"
    if count != "1":
        raise BadInputError("LISTEN_FDS", f"systemd passes {count} sockets", remedy)
    inherited = socket.socket(fileno=FIRST_PASSED)
    listens = inherited.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if not listens or inherited.family not in {socket.AF_INET, socket.AF_INET6}:
        raise BadInputError("LISTEN_FDS", "systemd passes no socket that listens at a port", remedy)
    its_host, its_port = inherited.getsockname()[:2]
    hosts = {info[4][0] for info in socket.getaddrinfo("0.0.0.0" if host == "*" else host, port)}
    if its_port != port or its_host not in {*hosts, "0.0.0.0", "::"}:
        problem = f"systemd passes a socket that listens at {its_host}:{its_port}, not at {host}:{port}"
        raise BadInputError("--port", problem, f"add --host {its_host} --port {its_port}")
    inherited.setblocking(False)
    os.set_inheritable(FIRST_PASSED, False)
    return inherited


def received(path: str) -> socket.socket:
    """A duplicate of the socket that another process shares at the path of a Unix socket.

    Raises:
        OSError: no process shares one.
    """
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(ANSWER_S)
        client.connect(path)
        _, descriptors, _, _ = socket.recv_fds(client, 1, 1)
    if not descriptors:
        raise ConnectionAbortedError(f"{path}: passed no socket")
    return socket.socket(fileno=descriptors[0])


@contextmanager
def shared(listening: socket.socket, path: str) -> Iterator[None]:
    """Share a socket, in a thread, with each process of this user that connects to a Unix socket."""
    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        Path(path).chmod(0o600)
        server.listen()

        over = threading.Event()

        def answer() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    if over.wait(RETRY_S):
                        return
                    continue  # the client has gone, or there are no descriptors
                with client, suppress(OSError):  # the client may have gone
                    socket.send_fds(client, [b"."], [listening.fileno()])

        thread = threading.Thread(target=answer, name="rlsched-listener", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            server.shutdown(socket.SHUT_RDWR)  # ends accept()
            thread.join()
            Path(path).unlink(missing_ok=True)
