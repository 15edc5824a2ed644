"""Who is asked: an exported policy in this process, or a service."""

from __future__ import annotations

from pathlib import Path

from rlsched.integrations.slurm.asked import Asked
from rlsched.integrations.slurm.remote import Service
from rlsched.serve.api.requests import States
from rlsched.serve.api.schema import Answer, DecisionRequest
from rlsched.serve.decide.engine import Engine
from rlsched.serve.settings import Gate, ServeConfig

POLICY = "the policy"
"""What the only policy is called, in notes."""


class Local:
    """An exported policy, asked in this process.

    Args:
        folder: that rlsched export wrote.
        fallback: order:rule of the heuristic beside it; None: the usual one.
        gate: where it stands back for the heuristic; None: nowhere.

    Attributes:
        about: what it may be asked.
        remembers: whether it would remember what it is asked.
        gate: what the gate found about it, in one line; empty where there is none.

    Raises:
        BadInputError: it cannot be loaded, or not be judged.
    """

    def __init__(self, folder: Path, fallback: str | None, gate: Gate | None = None) -> None:
        self._engine = Engine(ServeConfig(policies={POLICY: folder}, fallback=fallback, gate=gate))
        self._served = self._engine.find(None)
        scenario = self._served.policy.scenario
        self.remembers = self._served.policy.remembers
        self.gate = self._served.gate
        self.about = Asked(
            resources=tuple(resource.name for resource in scenario.cluster.resources),
            units=tuple(self._served.decider.units.tolist()),
            horizon=scenario.decision.horizon,
            most=self._engine.config.limits.jobs,
        )

    def decide(self, request: DecisionRequest) -> Answer:
        """What is to be done about a cluster.

        Raises:
            BadInputError: it means nothing to the policy.
        """
        (answer,) = self._engine.answer(self._served, States([request], ("",)), explain=True)
        return answer


class Remote:
    """A policy of a running service.

    Args:
        url: of the service.
        token_file: with the token that it wants; None: none.
        policy: by name; None: the first one.

    Attributes:
        about: what it may be asked.
        remembers: whether it would remember what it is asked.
        gate: what the service's gate found about it, in one line; empty where there is none.

    Raises:
        BadInputError: it cannot be asked.
    """

    def __init__(self, url: str, token_file: Path | None, policy: str | None) -> None:
        self._service = Service.at(url, token_file)
        self.about, self.remembers, self.gate = self._service.policy(policy)

    def decide(self, request: DecisionRequest) -> Answer:
        """What is to be done about a cluster.

        Raises:
            BadInputError: the service cannot be asked, or refuses.
        """
        return self._service.decide(request)
