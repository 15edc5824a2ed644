"""Small policies, exported, and the service in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from msgspec.structs import asdict

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.blocks import EncodedPolicy
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.policy import NetworkPolicy
from rlsched.scenario import Scenario
from rlsched.serve.api.requests import batch_of_one, to_columns
from rlsched.serve.api.schema import Answer, BatchRequest, ClusterState, DecisionRequest
from rlsched.serve.artefact import export_policy
from rlsched.serve.decide.policy_store import PolicyStore
from rlsched.serve.settings import ServeConfig
from rlsched.sim.layout import Layout

from .states import Ask

HPC = ("lublin-256", "episode.jobs=96", "decision.window=32", "decision.action_rule=hold")


GREEN = ("green-10",)


def untrained(settled: Scenario, network: Network | None = None, seed: int = 0) -> NetworkPolicy:
    """A policy with noise in its weights, so that jobs differ, and one that hardly waits."""
    torch.manual_seed(seed)
    network = network or Network(hidden=(16,))
    resources = len(settled.cluster.resources)
    net = build_policy(Layout.of(settled.observation, settled.decision, resources), network)
    with torch.no_grad():
        for weights in net.parameters():
            weights += 0.05 * torch.randn_like(weights)
    if isinstance(net, EncodedPolicy):
        net.shift_noop(-20.0)
    return NetworkPolicy(settled, network, net.eval(), resources, {"algo": "ppo", "seed": seed})


def feed_of(name: str, *overrides: str) -> EpisodeFeed:
    """Episodes of a scenario."""
    return EpisodeFeed(scenario.load(name, overrides))


Export = Callable[..., Path]


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """`exported("lublin-256", "decision.window=32", seed=1)`: the folder of a policy."""

    def export(name: str, *overrides: str, seed: int = 0, network: Network | None = None) -> Path:
        folder = tmp_path_factory.mktemp("policies")
        untrained(feed_of(name, *overrides).scenario, network, seed).save(folder / "run")
        export_policy(folder / "run", folder / "policy")
        return folder / "policy"

    return export


@pytest.fixture(scope="session")
def hpc(exported: Export) -> Path:
    """A policy for a cluster without a horizon."""
    return exported(*HPC)


@pytest.fixture(scope="session")
def green(exported: Export) -> Path:
    """A policy for a datacenter with power."""
    return exported(*GREEN)


@pytest.fixture
def one_torch_thread() -> Iterator[None]:
    """As replicas compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def store(hpc: Path, green: Path, exported: Export) -> PolicyStore:
    fit = exported(*HPC, "decision.action_rule=fit")
    memory = {"hpc": hpc, "green": green, "fit": fit}
    return PolicyStore(ServeConfig(policies=memory))


@pytest.fixture
def ask(store: PolicyStore) -> Ask:
    def answer_both_ways(cluster: ClusterState, policy: str = "hpc") -> Answer:
        """As a state and as columns, which come to the same, answer or refusal."""
        served = store.find(policy)
        result: list[Answer | str] = []
        refusals: list[BadInputError] = []
        single = batch_of_one(DecisionRequest(**asdict(cluster)))
        for request in (single, BatchRequest(columns=to_columns([cluster]))):
            try:
                result += served.decide([request], explain=True)
            except BadInputError as error:
                refusals.append(error)
                result.append(str(error).removeprefix("columns[0]."))
        assert result[0] == result[1]
        if isinstance(result[0], Answer):
            return result[0]
        raise refusals[0]

    return answer_both_ways
