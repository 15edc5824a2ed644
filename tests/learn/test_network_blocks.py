"""Networks over every combination of observation blocks."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.critic import FAR, Critic
from rlsched.learn.networks.policies import JobScorer, build_policy
from rlsched.scenario import PRIVILEGED
from rlsched.sim.layout import Layout
from tests.learn.test_networks import BLOCKS, KINDS, layout_of, of_kind, shaken

from .states import made_up

GREEN = scenario.load("green-10", [])


@pytest.mark.parametrize("kind", [*KINDS, "cnn"])
def test_a_policy_never_looks_at_what_is_coming_and_the_critic_does(kind: str) -> None:
    layout = Layout.of(GREEN.observation, GREEN.decision, 2)
    vectors, mask = made_up(layout, 20)
    block = layout.block("coming")
    assert block is not None
    part = slice(block.offset, block.offset + block.size)
    second = vectors.clone()
    second[:, part] = 0
    net = shaken(build_policy(layout, of_kind(kind, units=(10, 10))))
    assert torch.equal(net(vectors, mask), net(second, mask))
    torch.manual_seed(0)
    critic = Critic(layout, (16,))
    assert not torch.equal(critic(vectors), critic(second))


def test_a_critic_sees_what_is_coming_by_how_far_it_is_from_what_is_usual() -> None:
    layout = Layout.of(GREEN.observation, GREEN.decision, 2)
    vectors, _ = made_up(layout, 20)
    block = layout.block("coming")
    assert block is not None
    part = slice(block.offset, block.offset + block.size)
    mean, spread = torch.rand(block.size), torch.rand(block.size) + 0.5
    critics = []
    for reported in [(mean.tolist(), spread.tolist()), ((), ())]:
        torch.manual_seed(0)
        critics.append(Critic(layout, (16,), reported))
    usual = vectors.clone()
    usual[:, part] = (vectors[:, part] - mean) / spread
    torch.testing.assert_close(critics[0](vectors), critics[1](usual))
    usual[:, part], vectors[:, part] = FAR, mean + 2 * FAR * spread
    torch.testing.assert_close(critics[0](vectors), critics[1](usual))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "blocks",
    [
        chosen
        for size in range(1, 5)
        for chosen in combinations(BLOCKS, size)
        if not PRIVILEGED.issuperset(chosen)
    ],
    ids="+".join,
)
def test_every_combination_of_blocks_works_or_is_refused(kind: str, blocks: tuple[str, ...]) -> None:
    layout = layout_of(*blocks)
    possible = "jobs" in blocks or kind == "mlp"
    if not possible:
        with pytest.raises(BadInputError, match=r"observation\.blocks"):
            build_policy(layout, of_kind(kind))
        return
    vectors, mask = made_up(layout, 5)
    assert build_policy(layout, of_kind(kind))(vectors, mask).shape == (5, 17)
    assert Critic(layout, (8, 8))(vectors).shape == (5,)


@pytest.mark.parametrize("name", scenario.names())
def test_every_shipped_scenario_has_a_default_network(name: str) -> None:
    shipped = scenario.load(name)
    net = build_policy(Layout.of(shipped.observation, shipped.decision, 1), Network())
    assert isinstance(net, JobScorer)
