"""Deciding for requests: policies by name, a heuristic where one fails, and new versions as they come."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rlsched.errors import BadInputError
from rlsched.learn.policy import SETTINGS, WEIGHTS, TrainedPolicy, load_policy
from rlsched.serve.api.requests import Sent, States
from rlsched.serve.api.schema import Answer, Fallback, PolicyName
from rlsched.serve.api.tokens import Tokens
from rlsched.serve.artefact import example_request, units_of
from rlsched.serve.decide.decider import Batch, Course, Decider, Heuristic, NotFiniteError
from rlsched.serve.decide.gate import Judged, judge
from rlsched.serve.settings import ServeConfig

LOG = logging.getLogger("rlsched.serve")

VERSION_DIGITS = 16
"""Of the checksum of a policy, which are enough to tell versions apart."""

SHADOW = "shadow"
"""Why a policy did not decide where it is only to be told of."""


class Stamp(NamedTuple):
    """Of a file: another one, another version."""

    inode: int
    modified_ns: int
    size: int

    @classmethod
    def of(cls, file: Path) -> Stamp | None:
        """None while there is none, as for a moment where it is replaced."""
        try:
            found = file.stat()
        except OSError:
            return None
        return cls(found.st_ino, found.st_mtime_ns, found.st_size)


Stamps = tuple[Stamp | None, ...]
"""Of a policy's settings and weights and, where there is a gate, of its trace."""


def stamps_of(folder: Path, config: ServeConfig) -> Stamps:
    """As the files are now; the weights too, since a copy of a folder may write them last."""
    files = [folder / SETTINGS, folder / WEIGHTS, *([] if config.gate is None else [config.gate.trace])]
    return tuple(map(Stamp.of, files))


@dataclass(eq=False)
class Served:
    """A version of a policy, ready to decide.

    Attributes:
        name: by which it is asked.
        folder: it was loaded from.
        stamps: of its files then.
        policy: as loaded.
        decider: of one thread.
        beside: of another, for the heuristic while `decider` hangs.
        since: seconds since the epoch at which it was loaded.
        called: as answers name it.
        shadow: whether the heuristic decides in its place: by the service's mode, or by the gate.
        judged: what the gate found; None where there is no gate.
    """

    name: str
    folder: Path
    stamps: Stamps
    policy: TrainedPolicy
    decider: Decider
    beside: Decider
    since: float
    called: PolicyName
    shadow: bool
    judged: Judged | None

    @property
    def version(self) -> str:
        """The beginning of its checksum."""
        return self.called.version

    @property
    def gate(self) -> str:
        """What the gate found and who therefore decides, in one line; empty where there is no gate."""
        if self.judged is None:
            return ""
        instead = f"; {self.decider.heuristic} decides, and the policy is its shadow" if self.shadow else ""
        return f"{self.name} {self.judged.line}{instead}"

    @property
    def gate_figures(self) -> dict[str, Any] | None:
        """The same for machines; None where there is no gate."""
        return None if self.judged is None else self.judged.figures | {"line": self.gate}

    def renew(self) -> None:
        """Have another decider from now on: the one that was may be in use for ever."""
        self.decider = self.decider.again()


def load_served(name: str, folder: Path, config: ServeConfig) -> Served:
    """Load a policy, hold it against the gate if there is one, and let it decide once, which compiles it.

    Raises:
        BadInputError: there is none, it is damaged, the heuristic means nothing to it, or the gate cannot
            judge it.
    """
    stamps = stamps_of(folder, config)
    policy = load_policy(folder)
    judged = None if config.gate is None else judge(policy, folder, config.gate)
    behind = judged is not None and not judged.passes
    chosen = config.fallback
    if chosen is None and judged is not None and behind:
        chosen = judged.heuristic
    heuristic = Heuristic.named(chosen, policy.scenario)
    units = units_of(policy.scenario)
    decider = Decider(policy, units, heuristic, config.limits.jobs)
    beside = decider.again()
    (batch,) = decider.read(States([example_request(policy)], [""]))
    try:
        decider.by_policy(batch)
    except NotFiniteError as error:
        raise BadInputError(str(folder), str(error), "export another checkpoint of its run") from None
    for one in (decider, beside):
        one.by_heuristic(batch)
    called = PolicyName(name, policy.fingerprint[:VERSION_DIGITS])
    shadow = behind or config.mode == SHADOW
    return Served(name, folder, stamps, policy, decider, beside, time.time(), called, shadow, judged)


class Engine:
    """All policies of a replica. One thread at a time may ask policies, and another one heuristics.

    Args:
        config: what is served.

    Attributes:
        served: by name, as they are now.

    Raises:
        BadInputError: a policy cannot be served.
    """

    def __init__(self, config: ServeConfig) -> None:
        self.config = config
        self.served = {name: load_served(name, path, config) for name, path in config.policies.items()}
        self.first = next(iter(self.served))

    def find(self, name: str | None) -> Served:
        """The policy of that name, or the first one.

        Raises:
            KeyError: there is none.
        """
        return self.served[self.first if name is None else name]

    def answer(self, served: Served, sent: Sent, *, explain: bool) -> list[Answer]:
        """Decide about clusters; where the policy fails, the heuristic does.

        Args:
            served: by which policy.
            sent: clusters.
            explain: also why jobs wait, and what the heuristic would do.

        Raises:
            BadInputError: a state means nothing.
        """
        decider = served.decider
        found: dict[int, Answer] = {}
        for batch in decider.read(sent):
            courses: list[Course] | None = None
            failed = ""
            try:
                courses = decider.by_policy(batch)
            except BadInputError:
                raise
            except Exception as error:  # whatever it is, the cluster is not to stand still for it
                LOG.exception("policy %s failed", served.name)
                failed = f"{type(error).__name__}: {error}"
            found |= self._answers(served, decider, batch, courses, failed, explain)
        return [found[k] for k in range(len(sent.where))]

    def fall_back(
        self,
        served: Served,
        sent: Sent,
        *,
        because: str,
        explain: bool,
    ) -> list[Answer]:
        """What the heuristic does, while the policy may hang.

        Args:
            served: which policy is not asked.
            sent: clusters.
            because: why it is not.
            explain: as for `answer`.

        Raises:
            BadInputError: a state means nothing.
        """
        found: dict[int, Answer] = {}
        for batch in served.beside.read(sent):
            found |= self._answers(served, served.beside, batch, None, because, explain)
        return [found[k] for k in range(len(sent.where))]

    def _answers(
        self,
        served: Served,
        decider: Decider,
        batch: Batch,
        courses: list[Course] | None,
        failed: str,
        explain: bool,
    ) -> dict[int, Answer]:
        others = decider.by_heuristic(batch)
        shadow = served.shadow
        found = {}
        for k, row in enumerate(batch.rows):
            course, other = None if courses is None else courses[k], others[k]
            decided = other if course is None or shadow else course
            found[row] = Answer(
                decisions=decided.decisions,
                decided_by="fallback" if decided is other else "policy",
                because=failed or (SHADOW if shadow else None),
                agrees=None if course is None else course.moved == other.moved,
                waiting=decider.waiting(batch, k, decided) if explain else None,
                fallback=Fallback(str(decider.heuristic), other.decisions) if explain else None,
                shadow=course.decisions if shadow and course is not None else None,
                memory=None if course is None else course.memory,
            )
        return found

    def reload(self) -> list[str]:
        """Load what has a new version in its folder; requests go on with the old one until it is ready.

        With a gate a new version is judged before it is taken up, and so is the old one by a new trace.

        Returns:
            What was loaded, and what could not be, in words.
        """
        told = []
        for name, served in list(self.served.items()):
            stamps = stamps_of(served.folder, self.config)
            if None in stamps or stamps == served.stamps:
                continue
            try:
                new = load_served(name, served.folder, self.config)
            except Exception as error:  # whatever it is, requests go on with the old one
                told.append(f"{name} stays {served.version}: {error}")
                served.stamps = stamps  # not again before the files change again
            else:
                if new.version != served.version or not new.gate:  # else it is the trace that is new
                    told.append(f"{name} is {new.version} now, was {served.version}")
                told += [new.gate] if new.gate else []
                self.served[name] = new
        return told


def by_name(policies: Mapping[str, Served]) -> list[dict[str, object]]:
    """What is served, for people and machines."""
    return [
        {
            "name": name,
            "version": served.version,
            "folder": str(served.folder),
            "loaded": served.since,
            "scenario": served.policy.scenario.name,
            "units": served.decider.units.tolist(),
            "resources": [resource.name for resource in served.policy.scenario.cluster.resources],
            "window": served.policy.scenario.decision.window,
            "horizon": served.policy.scenario.decision.horizon,
            "tick_s": served.policy.scenario.cluster.tick_s,
            "remembers": served.policy.recurrent,
            "fallback": str(served.decider.heuristic),
            "mode": SHADOW if served.shadow else "policy",
            "gate": served.gate_figures,
            "about": msgspec.to_builtins(served.policy.about),
        }
        for name, served in policies.items()
    ]


def keep_current(tokens: Tokens, engine: Engine, closing: threading.Event) -> None:
    """Look for new tokens and new versions of policies, in a thread, until a process closes."""
    while not closing.wait(engine.config.reload_s):
        for renew in (tokens.renew, engine.reload):
            try:
                lines = renew()
            except Exception:  # the next time may be better
                LOG.exception("new versions were not looked at")
                continue
            for line in lines:
                LOG.warning("%s", line)
