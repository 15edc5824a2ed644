"""HTTP client of a running decision service."""

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
from rlsched.integrations.slurm.advice_settings import AdviceSettings
from rlsched.integrations.slurm.values import printable
from rlsched.json_files import parse_json
from rlsched.serve.api.schema import Answer, DecisionRequest
from rlsched.serve.api.tokens import read_tokens

TIMEOUT_S = 30.0
MAX_BYTES = 256 << 20
REMEDY = "give the address of rlsched serve, as in http://127.0.0.1:8000"

MINUS = "\N{MINUS SIGN}"
MAX_GATE_CHARACTERS = 1000


@dataclass(frozen=True)
class ServiceClient:
    """A client of one service."""

    url: str  # of the service, without a path
    token: str | None  # bearer token; None: the service needs none

    @classmethod
    def connect(cls, url: str, token_file: Path | None) -> ServiceClient:
        """Make a client for an address.

        Raises:
            BadInputError: the address is invalid or has a user name, or the file holds no token.
        """
        try:
            parts = urlsplit(url)
            is_http = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        except ValueError:  # the port is not a number
            is_http = False
        if not is_http or not url.isascii() or not url.isprintable() or " " in url:
            raise BadInputError("--url", f"value {_without_password(url)!r} is not an address", REMEDY)
        if "@" in url:
            problem = f"value {_without_password(url)!r} holds a user name or password"
            raise BadInputError("--url", problem, "remove it, and give a token with --token-file")
        tokens = read_tokens(token_file)
        return cls(url.rstrip("/"), tokens[0] if tokens else None)

    def policy(self, name: str | None) -> tuple[AdviceSettings, bool, str]:
        """A policy of the service: its settings, whether it has a memory, and the line of its gate.

        Args:
            name: of the policy; None: the first one.

        Raises:
            BadInputError: the service fails, or has no such policy.
        """
        try:
            listing = parse_json(self._send("/v1/policy", None))
            policies = {str(policy["name"]): policy for policy in listing["policies"]}
            entry = policies[name] if name is not None else next(iter(policies.values()))
            settings = AdviceSettings(
                resources=tuple(map(str, entry["resources"])),
                trained_units=tuple(map(int, entry["units"])),
                horizon=None if entry["horizon"] is None else int(entry["horizon"]),
                policy=name,
            )
            gate = entry.get("gate")  # older services have none
            return settings, bool(entry["remembers"]), _gate_line(gate)
        except KeyError as error:
            if name is not None and error.args == (name,):
                remedy = f"name one of {printable(', '.join(policies))}"
                raise BadInputError("--policy", f"unknown policy {name!r}", remedy) from None
            raise self._wrong_service() from None
        except (ValueError, TypeError, StopIteration) as error:
            if isinstance(error, BadInputError):
                raise
            raise self._wrong_service() from None

    def decide(self, request: DecisionRequest) -> Answer:
        """Send a request for a decision.

        Raises:
            BadInputError: the service fails, or refuses the request.
        """
        content = self._send("/v1/decisions", msgspec.json.encode(request))
        try:
            return msgspec.json.decode(content, type=Answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self._wrong_service() from None

    def _wrong_service(self) -> BadInputError:
        return BadInputError("--url", f"{self.url} does not answer as rlsched serve does", REMEDY)

    def _send(self, path: str, content: bytes | None) -> bytes:
        request = Request(f"{self.url}{path}", content, {"content-type": "application/json"})
        if self.token is not None:
            # A redirection must not pass the token on.
            request.add_unredirected_header("authorization", f"Bearer {self.token}")
        try:
            with urlopen(request, timeout=TIMEOUT_S) as response:
                body: bytes = response.read(MAX_BYTES)
                return body
        except HTTPError as error:
            raise self._refusal(error) from None
        except (URLError, OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            text = printable(str(reason) or type(reason).__name__)
            raise BadInputError("--url", f"{self.url} does not answer ({text})", REMEDY) from None

    def _refusal(self, error: HTTPError) -> BadInputError:
        """The error of a refused request, with the service's reason where it has one."""
        try:
            reason = parse_json(error.read(1 << 16))["error"]
        except (ValueError, TypeError, KeyError, OSError, HTTPException):
            reason = error.reason
        remedy = "give a token with --token-file" if error.code == 401 else "send what the service supports"
        return BadInputError("--url", f"{self.url} answers {error.code}: {printable(str(reason))}", remedy)


def _without_password(url: str) -> str:
    """An address with `***` for its user name and password, wherever in it they end."""
    user, at, rest = url.rpartition("@")
    scheme = re.match(r"(https?://)?", user, re.IGNORECASE)
    return f"{scheme[0] if scheme else ''}***@{printable(rest)}" if at else printable(url)


def _gate_line(gate: Any) -> str:
    """The result of the service's gate in one line, with ASCII minus signs; empty where it has none."""
    return printable(str(gate["line"]).replace(MINUS, "-"), MAX_GATE_CHARACTERS) if gate else ""
