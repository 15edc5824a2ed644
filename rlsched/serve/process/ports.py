"""Ports of this machine: free ports, and the service that answers at a port."""

from __future__ import annotations

import socket
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from random import SystemRandom

from rlsched.errors import BadInputError
from rlsched.serve.process.listener import opened

INSTANCE = "x-rlsched-instance"
"""Header of a ready service's answer: distinguishes services that were started for one port."""

ANSWER_S = 1.0  # longest time in which a ready service answers; before, connections wait

QUIET_PORTS = range(20_000, 30_000)
"""Below ephemeral ports (from 32,768) and Serve's (30,000), above those of Ray's workers (to 19,999)."""


def free_ports(count: int) -> list[int]:
    """Different free ports of this machine, none of them ephemeral.

    Ray's processes take dozens of ephemeral ports while they start. The choice does not use this process's
    random numbers: two processes with the same seed would get the same ports.
    """
    free = []
    for port in SystemRandom().sample(QUIET_PORTS, len(QUIET_PORTS)):
        with socket.socket() as trial, suppress(OSError):
            trial.bind(("", port))
            free.append(port)
        if len(free) == count:
            return free
    raise OSError(f"there are no {count} free ports from {QUIET_PORTS.start} to {QUIET_PORTS.stop}")


def check_port(host: str, port: int) -> None:
    """Refuse a port that is not free.

    Raises:
        BadInputError: the port is taken, or not allowed.
    """
    if host == "*":  # HAProxy's word, which Serve cannot listen on
        raise BadInputError("--host", "'*' is not an address", "use 0.0.0.0 for all addresses")
    try:
        opened(host, port).close()
    except OSError as error:
        problem = f"cannot listen on {host}:{port} ({error.strerror})"
        raise BadInputError("--port", problem, "name another --port or --host") from None


def port_taken(host: str, port: int) -> BadInputError:
    """The error for a port that another service took while this one started."""
    return BadInputError(
        "--port", f"another service has taken {host}:{port}", "name another --port or --host"
    )


def instance_at(host: str, port: int) -> str | None:
    """Instance of the service that is ready at a port; empty: not given; None: there is none."""
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    connection = HTTPConnection(address, port, timeout=ANSWER_S)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        return answer.getheader(INSTANCE, "") if answer.status == HTTPStatus.OK else None
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()
