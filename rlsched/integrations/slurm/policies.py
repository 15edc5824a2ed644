"""Policies that give advice: an exported one in this process, or one of a running service."""

from __future__ import annotations

from pathlib import Path

from rlsched.integrations.slurm.advice_settings import AdviceSettings
from rlsched.integrations.slurm.service_client import ServiceClient
from rlsched.serve.api.schema import Answer, DecisionRequest
from rlsched.serve.decide.policy_store import PolicyStore
from rlsched.serve.settings import Gate, ServeConfig

POLICY = "the policy"  # name of the exported policy in notes


class ExportedPolicy:
    """An exported policy that runs in this process.

    Args:
        folder: that rlsched export wrote.
        fallback: heuristic:rule that is compared with the policy; None: the default one.
        gate: when the heuristic decides instead; None: never.

    Attributes:
        settings: the policy's resources.
        remembers: it has a memory (LSTM), which starts empty for each request.
        gate_line: result of the gate in one line; empty where there is no gate.

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
        (answer,) = self._served.decide([request], explain=True)
        return answer


class ServedPolicy:
    """A policy of a running service.

    Args:
        url: of the service.
        token_file: holds the bearer token; None: the service needs none.
        policy: its name; None: the first one.

    Attributes:
        settings: the policy's resources.
        remembers: it has a memory (LSTM), which starts empty for each request.
        gate_line: result of the service's gate in one line; empty where there is no gate.

    Raises:
        BadInputError: the service does not answer.
    """

    def __init__(self, url: str, token_file: Path | None, policy: str | None) -> None:
        self._client = ServiceClient.connect(url, token_file)
        self.settings, self.remembers, self.gate_line = self._client.policy(policy)

    def decide(self, request: DecisionRequest) -> Answer:
        """Decide about a cluster.

        Raises:
            BadInputError: the service fails, or refuses the request.
        """
        return self._client.decide(request)
