"""Policies that give advice: an exported one in this process, or one of a running service."""

from __future__ import annotations

import re
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import msgspec

from rlsched.errors import BadInputError
from rlsched.integrations.slurm.advice_settings import AdviceSettings
from rlsched.integrations.slurm.values import printable
from rlsched.json_files import parse_json
from rlsched.serve.api.requests import batch_of_one
from rlsched.serve.api.schema import Answer, DecisionRequest
from rlsched.serve.api.tokens import read_tokens
from rlsched.serve.decide.policy_store import PolicyStore
from rlsched.serve.settings import Gate, ServeConfig

POLICY = "the policy"  # name of the exported policy in notes

TIMEOUT_S = 30.0
MAX_BYTES = 256 << 20
REMEDY = "give the address of rlsched serve, as in http://127.0.0.1:8000"

MINUS = "\N{MINUS SIGN}"
MAX_GATE_CHARACTERS = 1000


class ExportedPolicy:
    """An exported policy that runs in this process.

    Its `settings` hold its resources. `remembers` is true if it has a memory (LSTM), which starts empty for
    each request. `gate_line` is the result of the gate in one line; empty where there is no gate.

    Args:
        folder: that rlsched export wrote.
        fallback: heuristic:rule that is compared with the policy; None: the default one.
        gate: when the heuristic decides instead; None: never.

    Raises:
        BadInputError: the policy cannot be loaded or compared with the heuristics.
    """

    def __init__(self, folder: Path, fallback: str | None, gate: Gate | None = None) -> None:
        config = ServeConfig(policies={POLICY: folder}, fallback=fallback, gate=gate)
        self._served = PolicyStore(config).find(None)
        scenario = self._served.policy.scenario
        self.remembers = self._served.policy.recurrent
        self.gate_line = self._served.gate
        self.settings = AdviceSettings(
            resources=tuple(resource.name for resource in scenario.cluster.resources),
            trained_units=tuple(self._served.inference.units.tolist()),
            horizon=scenario.decision.horizon,
            max_jobs=config.limits.jobs,
        )

    def decide(self, request: DecisionRequest) -> Answer:
        """Decide about a cluster.

        Raises:
            BadInputError: the request does not fit the policy.
        """
        (answer,) = self._served.decide([batch_of_one(request)], explain=True)
        return answer


class ServedPolicy:
    """A policy of a running service, asked over HTTP; its attributes are those of `ExportedPolicy`.

    Args:
        url: of the service.
        token_file: holds the bearer token; None: the service needs none.
        policy: its name; None: the first one.

    Raises:
        BadInputError: the address is invalid or has a user name, the file holds no token, or the service does
            not answer or has no such policy.
    """

    def __init__(self, url: str, token_file: Path | None, policy: str | None) -> None:
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
        self._url, self._token = url.rstrip("/"), tokens[0] if tokens else None
        try:
            listing = parse_json(self._send("/v1/policy", None))
            policies = {str(entry["name"]): entry for entry in listing["policies"]}
            if policy is not None and policy not in policies:
                remedy = f"name one of {printable(', '.join(policies))}"
                raise BadInputError("--policy", f"unknown policy {policy!r}", remedy)
            entry = next(iter(policies.values())) if policy is None else policies[policy]
            self.settings = AdviceSettings(
                resources=tuple(map(str, entry["resources"])),
                trained_units=tuple(map(int, entry["units"])),
                horizon=None if entry["horizon"] is None else int(entry["horizon"]),
                policy=policy,
            )
            self.remembers = bool(entry["remembers"])
            gate = entry.get("gate")  # older services have none
            line = str(gate["line"]).replace(MINUS, "-") if gate else ""
            self.gate_line = printable(line, MAX_GATE_CHARACTERS)
        except (KeyError, ValueError, TypeError, StopIteration) as error:
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
        return BadInputError("--url", f"{self._url} does not answer as rlsched serve does", REMEDY)

    def _send(self, path: str, content: bytes | None) -> bytes:
        request = Request(f"{self._url}{path}", content, {"content-type": "application/json"})
        if self._token is not None:
            # A redirection must not pass the token on.
            request.add_unredirected_header("authorization", f"Bearer {self._token}")
        try:
            with urlopen(request, timeout=TIMEOUT_S) as response:
                body: bytes = response.read(MAX_BYTES)
                return body
        except HTTPError as error:
            raise self._refusal(error) from None
        except (URLError, OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            text = printable(str(reason) or type(reason).__name__)
            raise BadInputError("--url", f"{self._url} does not answer ({text})", REMEDY) from None

    def _refusal(self, error: HTTPError) -> BadInputError:
        """The error of a refused request, with the service's reason where it has one."""
        try:
            reason = parse_json(error.read(1 << 16))["error"]
        except (ValueError, TypeError, KeyError, OSError, HTTPException):
            reason = error.reason
        remedy = "give a token with --token-file" if error.code == 401 else "send what the service supports"
        return BadInputError("--url", f"{self._url} answers {error.code}: {printable(str(reason))}", remedy)


def _without_password(url: str) -> str:
    """An address with `***` for its user name and password, wherever in it they end."""
    user, at, rest = url.rpartition("@")
    scheme = re.match(r"(https?://)?", user, re.IGNORECASE)
    return f"{scheme[0] if scheme else ''}***@{printable(rest)}" if at else printable(url)
