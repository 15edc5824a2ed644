"""Asking a running service over HTTP."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import msgspec

from rlsched.errors import BadInputError
from rlsched.integrations.slurm.asked import Asked
from rlsched.integrations.slurm.values import plain
from rlsched.json_files import parse_json
from rlsched.serve.api.schema import Answer, DecisionRequest
from rlsched.serve.api.tokens import read_tokens

TIMEOUT_S = 30.0
MOST_BYTES = 256 << 20
REMEDY = "name where rlsched serve answers, as in http://127.0.0.1:8000"

MINUS = "\N{MINUS SIGN}"
GATE_SIGNS = 1000
"""Of what a service says of its gate, at most."""


@dataclass(frozen=True)
class Service:
    """A service that decides.

    Attributes:
        url: of it, without a path.
        token: that it wants; None: none.
    """

    url: str
    token: str | None

    @classmethod
    def at(cls, url: str, token_file: Path | None) -> Service:
        """By its address.

        Raises:
            BadInputError: it is none or names a user, or there is no token in the file.
        """
        try:
            parts = urlsplit(url)
            told = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        except ValueError:  # a port that is no number
            told = False
        if not told or not url.isascii() or not url.isprintable() or " " in url:
            raise BadInputError("--url", f"value {_shown(url)!r} is no address", REMEDY)
        if "@" in url:
            problem = f"value {_shown(url)!r} holds a user name or password"
            raise BadInputError("--url", problem, "leave it out, and give a token with --token-file")
        tokens = read_tokens(token_file)
        return cls(url.rstrip("/"), tokens[0] if tokens else None)

    def policy(self, name: str | None) -> tuple[Asked, bool, str]:
        """What may be asked of a policy, whether it remembers, and what a gate found about it.

        Args:
            name: of the policy; None: the first one.

        Raises:
            BadInputError: it cannot be asked, or there is no such policy.
        """
        try:
            told = parse_json(self._ask("/v1/policy", None))
            policies = {str(policy["name"]): policy for policy in told["policies"]}
            found = policies[name] if name is not None else next(iter(policies.values()))
            asked = Asked(
                resources=tuple(map(str, found["resources"])),
                units=tuple(map(int, found["units"])),
                horizon=None if found["horizon"] is None else int(found["horizon"]),
                policy=name,
            )
            gate = found.get("gate")  # which older services do not know
            return asked, bool(found["remembers"]), _gate_line(gate)
        except KeyError as error:
            if name is not None and error.args == (name,):
                remedy = f"name one of {plain(', '.join(policies))}"
                raise BadInputError("--policy", f"unknown policy {name!r}", remedy) from None
            raise self._not_ours() from None
        except (ValueError, TypeError, StopIteration) as error:
            if isinstance(error, BadInputError):
                raise
            raise self._not_ours() from None

    def decide(self, request: DecisionRequest) -> Answer:
        """Ask it about a cluster.

        Raises:
            BadInputError: it cannot be asked, or refuses.
        """
        content = self._ask("/v1/decisions", msgspec.json.encode(request))
        try:
            return msgspec.json.decode(content, type=Answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self._not_ours() from None

    def _not_ours(self) -> BadInputError:
        return BadInputError("--url", f"{self.url} does not answer as rlsched serve does", REMEDY)

    def _ask(self, path: str, content: bytes | None) -> bytes:
        request = Request(f"{self.url}{path}", content, {"content-type": "application/json"})
        if self.token is not None:
            # Not sent on where the address sends us elsewhere.
            request.add_unredirected_header("authorization", f"Bearer {self.token}")
        try:
            with urlopen(request, timeout=TIMEOUT_S) as response:
                found: bytes = response.read(MOST_BYTES)
                return found
        except HTTPError as error:
            raise self._refused(error) from None
        except (URLError, OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            told = plain(str(reason) or type(reason).__name__)
            raise BadInputError("--url", f"{self.url} does not answer ({told})", REMEDY) from None

    def _refused(self, error: HTTPError) -> BadInputError:
        """What it says itself, where it does."""
        try:
            told = parse_json(error.read(1 << 16))["error"]
        except (ValueError, TypeError, KeyError, OSError, HTTPException):
            told = error.reason
        remedy = "give a token with --token-file" if error.code == 401 else "ask for what it serves"
        return BadInputError("--url", f"{self.url} answers {error.code}: {plain(str(told))}", remedy)


def _shown(url: str) -> str:
    """An address with `***` for its user name and password, wherever in it they end."""
    user, at, rest = url.rpartition("@")
    scheme = re.match(r"(https?://)?", user, re.IGNORECASE)
    return f"{scheme[0] if scheme else ''}***@{plain(rest)}" if at else plain(url)


def _gate_line(gate: Any) -> str:
    """What a service says its gate found; empty where it has none. A minus is written as on a keyboard."""
    return plain(str(gate["line"]).replace(MINUS, "-"), GATE_SIGNS) if gate else ""
