"""The listening socket of a service, which stays open when HAProxy or its manager dies.

A small process holds the socket, too, and passes it to the next manager. When HAProxy dies, new connections
wait in the socket's queue until HAProxy is started again, instead of being refused.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

BACKLOG = 4096
LOOK_S = 1.0
"""Between two looks of the holder at whether its node is alive."""


def opened(host: str, port: int) -> socket.socket:
    """A new listening socket at an address; `*`: at all addresses of this machine.

    Raises:
        OSError: the port is taken, or the address is none of this machine.
    """
    host = "0.0.0.0" if host == "*" else host
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # Of a name with several, as localhost may have, the one that HAProxy would take.
    family, kind, protocol, _, address = min(addresses, key=lambda one: one[0] != socket.AF_INET)
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)
        made.setblocking(False)
    except OSError as error:
        made.close()
        problem = f"cannot bind socket ({error.strerror}) for [{host}:{port}]"
        raise OSError(error.errno, problem) from None
    return made


def held(path: str) -> socket.socket | None:
    """A duplicate of the socket that the holder process has; None if there is no such process.

    Args:
        path: of the Unix socket of the holder process.
    """
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5 * LOOK_S)
        try:
            client.connect(path)
            _, descriptors, _, _ = socket.recv_fds(client, 1, 1)
        except OSError:
            return None
    return socket.socket(fileno=descriptors[0]) if descriptors else None


def hold(descriptor: int, path: str, node: int) -> None:
    """Keep a socket open, and pass it to each process of this user that connects, until another process ends.

    Args:
        descriptor: of the socket.
        path: of the Unix socket at which processes connect.
        node: process id of the raylet; the holder ends after it.
    """
    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as answering:
        before = os.umask(0o177)
        answering.bind(path)
        os.umask(before)
        answering.listen()
        answering.settimeout(LOOK_S)
        while _alive(node):
            try:
                client, _ = answering.accept()
            except TimeoutError:
                continue
            with client, suppress(OSError):  # who client may have gone
                socket.send_fds(client, [b"."], [descriptor])


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:  # gone, or its number is another user's
        return False
    return True


if __name__ == "__main__":
    hold(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
