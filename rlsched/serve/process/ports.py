"""Ports of this machine: which are free, and which service answers at one."""

from __future__ import annotations

import socket
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from random import SystemRandom

from rlsched.errors import BadInputError

INSTANCE = "x-rlsched-instance"
"""Field of a ready service's answer: which one it is, where two were started for one port."""

ANSWER_S = 1.0
"""In which a service that is ready answers; until it is, connections wait."""

QUIET_PORTS = range(20_000, 30_000)
"""Below those that systems give away (from 32,768) and Serve's (30,000), above Ray's workers' (to 19,999)."""


def free_ports(count: int) -> list[int]:
    """Different ports of this machine that nobody has now, and that no system gives to who wants any.

    Ray's processes want dozens while they start. The ports do not follow the random numbers of this process:
    two processes with the same seed would get the same ones.
    """
    free = []
    for port in SystemRandom().sample(QUIET_PORTS, len(QUIET_PORTS)):
        with socket.socket() as found, suppress(OSError):
            found.bind(("", port))
            free.append(port)
        if len(free) == count:
            return free
    raise OSError(f"there are no {count} free ports from {QUIET_PORTS.start} to {QUIET_PORTS.stop}")


def check_port(host: str, port: int) -> None:
    """Refuse a port that somebody has.

    Raises:
        BadInputError: it is taken, or not ours to take.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, port))
        except OSError as error:
            raise BadInputError(
                "--port",
                f"cannot listen on {host}:{port} ({error.strerror})",
                "name another --port or --host",
            ) from None


def taken(host: str, port: int) -> BadInputError:
    """The error of a port that another service took while this one started."""
    return BadInputError(
        "--port", f"another service has taken {host}:{port}", "name another --port or --host"
    )


def answering(host: str, port: int) -> str | None:
    """Which service is ready there; empty: it does not say; None: none."""
    there = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    asked = HTTPConnection(there, port, timeout=ANSWER_S)
    try:
        asked.request("GET", "/readyz")
        answer = asked.getresponse()
        return answer.getheader(INSTANCE, "") if answer.status == HTTPStatus.OK else None
    except (OSError, HTTPException):
        return None
    finally:
        asked.close()
