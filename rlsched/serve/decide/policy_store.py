"""The policies of a replica: loaded versions that decide, with their fallbacks, and new versions."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rlsched.errors import BadInputError
from rlsched.learn.policy import NetworkPolicy, load_policy
from rlsched.learn.policy_folder import SETTINGS, WEIGHTS
from rlsched.serve.api.requests import batch_of_one
from rlsched.serve.api.schema import Answer, BatchRequest, Fallback, PolicyName
from rlsched.serve.api.tokens import Tokens
from rlsched.serve.artefact import check_servable, example_request, units_of
from rlsched.serve.decide.batch import Batch
from rlsched.serve.decide.fallback import FallbackHeuristic
from rlsched.serve.decide.gate import GateResult, evaluate_gate
from rlsched.serve.decide.inference import BatchInference, NotFiniteError, Proposal, waiting_reasons
from rlsched.serve.settings import ServeConfig

LOG = logging.getLogger("rlsched.serve")

VERSION_DIGITS = 16  # digits of a policy's checksum that distinguish versions
SHADOW = "shadow"  # reason in answers: the heuristic decides and the policy is its shadow


Stamps = tuple[tuple[int, int, int] | None, ...]
"""Inode, modification time and size of a policy's settings and weights and, with a gate, of its trace."""


def stamps_of(folder: Path, config: ServeConfig) -> Stamps:
    """Stamps now; None while there is no such file, as during a replacement.

    The weights belong to them, since a copy of a folder may write them last.
    """
    files = [folder / SETTINGS, folder / WEIGHTS, *([] if config.gate is None else [config.gate.trace])]
    stamps: list[tuple[int, int, int] | None] = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(stamps)


@dataclass(eq=False)
class LoadedPolicy:
    """A version of a policy, ready to decide."""

    folder: Path  # that it was loaded from
    stamps: Stamps  # of its files then
    policy: NetworkPolicy  # as loaded
    inference: BatchInference  # for the policy's thread
    fallback_inference: BatchInference  # for the heuristic's thread, while `inference` hangs
    since: float  # time of loading, seconds since the epoch
    identity: PolicyName  # name and version in answers
    shadow: bool  # whether the heuristic decides: by the service's mode, or by the gate
    gate_result: GateResult | None  # of the gate; None: there is no gate

    @property
    def version(self) -> str:
        """First characters of its checksum."""
        return self.identity.version

    @property
    def gate(self) -> str:
        """Result of the gate and its consequence, in one line; empty without a gate."""
        if self.gate_result is None:
            return ""
        heuristic = self.inference.heuristic
        consequence = f"; {heuristic} decides, and the policy is its shadow" if self.shadow else ""
        return f"{self.identity.name} {self.gate_result.line}{consequence}"

    @property
    def gate_figures(self) -> dict[str, Any] | None:
        """Result of the gate as figures for machines; None without a gate."""
        return None if self.gate_result is None else self.gate_result.figures | {"line": self.gate}

    def decide(self, requests: Sequence[BatchRequest], *, explain: bool, failure: str = "") -> list[Answer]:
        """Decide about clusters; where the policy fails, the heuristic does.

        Args:
            requests: their clusters, one after the other.
            explain: also say why jobs wait, and what the heuristic would do.
            failure: why the heuristic decides without the policy, which may hang; empty: it does not.

        Raises:
            BadInputError: a state is invalid.
        """
        inference = self.fallback_inference if failure else self.inference
        answers: dict[int, Answer] = {}
        for batch in inference.batches(requests):
            proposals: list[Proposal] | None = None
            because = failure
            if not failure:
                try:
                    proposals = inference.by_policy(batch)
                except BadInputError:
                    raise
                except Exception as error:  # the cluster needs a decision, whatever the error
                    LOG.exception("policy %s failed", self.identity.name)
                    because = f"{type(error).__name__}: {error}"
            answers |= self._answers(inference, batch, proposals, because, explain)
        return [answers[k] for k in range(len(answers))]

    def _answers(
        self,
        inference: BatchInference,
        batch: Batch,
        proposals: list[Proposal] | None,
        failure: str,
        explain: bool,
    ) -> dict[int, Answer]:
        """Row of the request -> answer, from the policy's proposals, if any, and the heuristic's."""
        answers = {}
        for k, fallback in enumerate(inference.by_heuristic(batch)):
            proposal = None if proposals is None else proposals[k]
            used = fallback if proposal is None or self.shadow else proposal
            answers[int(batch.clusters.rows[k])] = Answer(
                decisions=used.decisions,
                decided_by="fallback" if used is fallback else "policy",
                because=failure or (SHADOW if self.shadow else None),
                agrees=None if proposal is None else proposal.moves == fallback.moves,
                waiting=waiting_reasons(batch, k, used) if explain else None,
                fallback=Fallback(str(inference.heuristic), fallback.decisions) if explain else None,
                shadow=proposal.decisions if self.shadow and proposal is not None else None,
                memory=None if proposal is None else proposal.memory,
            )
        return answers


def load_for_service(name: str, folder: Path, config: ServeConfig) -> LoadedPolicy:
    """Load a policy, check it with the gate if there is one, and let it decide once, which compiles it.

    Raises:
        BadInputError: there is no policy, it is damaged, it does not support the heuristic, or the gate
            cannot judge it.
    """
    stamps = stamps_of(folder, config)
    policy = load_policy(folder)
    check_servable(policy.scenario, str(folder))
    result = None if config.gate is None else evaluate_gate(policy, folder, config.gate)
    instead = None if result is None or result.passes else result.heuristic
    heuristic = FallbackHeuristic.named(config.fallback or instead, policy.scenario)
    inference = BatchInference(policy, units_of(policy.scenario), heuristic, config.limits.jobs)
    fallback_inference = inference.copy()
    (batch,) = inference.batches([batch_of_one(example_request(policy))])
    try:
        inference.by_policy(batch)
    except NotFiniteError as error:
        raise BadInputError(str(folder), str(error), "export another checkpoint of its run") from None
    inference.by_heuristic(batch)
    fallback_inference.by_heuristic(batch)
    return LoadedPolicy(
        folder=folder,
        stamps=stamps,
        policy=policy,
        inference=inference,
        fallback_inference=fallback_inference,
        since=time.time(),
        identity=PolicyName(name, policy.fingerprint[:VERSION_DIGITS]),
        shadow=instead is not None or config.mode == SHADOW,
        gate_result=result,
    )


class PolicyStore:
    """All policies of a replica. One thread at a time may use policies, and another one heuristics.

    Raises:
        BadInputError: a policy cannot be loaded.
    """

    def __init__(self, config: ServeConfig) -> None:
        self.config = config
        # By name, in their newest versions.
        self.policies = {name: load_for_service(name, path, config) for name, path in config.policies.items()}

    def find(self, name: str | None) -> LoadedPolicy:
        """The policy of that name; None: the first one.

        Raises:
            KeyError: there is none.
        """
        return self.policies[next(iter(self.policies)) if name is None else name]

    def reload(self) -> list[str]:
        """Load new versions from the folders; requests use the old one until the new one is ready.

        With a gate, a new version is judged before its use, and a new trace judges the old one again.

        Returns:
            Lines that say what was loaded, and what could not be.
        """
        lines = []
        for name, loaded in list(self.policies.items()):
            stamps = stamps_of(loaded.folder, self.config)
            if None in stamps or stamps == loaded.stamps:
                continue
            try:
                new = load_for_service(name, loaded.folder, self.config)
            except Exception as error:  # requests use the old one, whatever the error
                lines.append(f"{name} stays {loaded.version}: {error}")
                loaded.stamps = stamps  # not again before the files change again
            else:
                if new.version != loaded.version or not new.gate:  # else the trace is new
                    lines.append(f"{name} is {new.version} now, was {loaded.version}")
                lines += [new.gate] if new.gate else []
                self.policies[name] = new
        return lines


def describe_policies(policies: Mapping[str, LoadedPolicy]) -> list[dict[str, object]]:
    """Descriptions of loaded policies, for people and machines."""
    return [
        {
            "name": name,
            "version": loaded.version,
            "folder": str(loaded.folder),
            "loaded": loaded.since,
            "scenario": loaded.policy.scenario.name,
            "units": loaded.inference.units.tolist(),
            "resources": [resource.name for resource in loaded.policy.scenario.cluster.resources],
            "window": loaded.policy.scenario.decision.window,
            "horizon": loaded.policy.scenario.decision.horizon,
            "tick_s": loaded.policy.scenario.cluster.tick_s,
            "remembers": loaded.policy.recurrent,
            "fallback": str(loaded.inference.heuristic),
            "mode": SHADOW if loaded.shadow else "policy",
            "gate": loaded.gate_figures,
            "about": msgspec.to_builtins(loaded.policy.about),
        }
        for name, loaded in policies.items()
    ]


def keep_current(tokens: Tokens, store: PolicyStore, closing: threading.Event) -> None:
    """Load new tokens and new versions of policies, in a thread, until a process closes."""
    while not closing.wait(store.config.reload_s):
        for reload in (tokens.renew, store.reload):
            try:
                lines = reload()
            except Exception:  # the next time may succeed
                LOG.exception("new versions were not looked at")
                continue
            for line in lines:
                LOG.warning("%s", line)
