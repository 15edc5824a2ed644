"""The image encoder: it draws what the simulator draws, and decides among legal actions."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.images import EXTRA_LAYERS, JOB_UNITS, ImagePolicy, draw_images
from rlsched.learn.networks.policies import build_policy
from rlsched.sim.simulator import VectorSimulator

FAILING = ("power.kind=synthetic", "power.level=0.5", "power.probability=0.5", "power.forecast_error=0.1")


def played(*overrides: str, steps: int) -> VectorSimulator:
    """A vector of a scenario with a horizon after so many random steps."""
    chosen = scenario.load("green-10", ["observation.blocks=[jobs,queue,profile,image]", *overrides])
    feed = EpisodeFeed(chosen)
    sim = VectorSimulator(chosen, feed.units, 3, feed.max_jobs, draw_images=True)
    for env in range(3):
        episode = feed.evaluation(env, 0)
        sim.load(env, episode.jobs, power=episode.power)
    rng = random.Random(0)
    for _ in range(steps):
        sim.step(np.array([rng.choice(np.flatnonzero(row).tolist()) for row in sim.mask]))
    return sim


@pytest.mark.parametrize("placement", ["now", "horizon"])
@pytest.mark.parametrize("units", [10, 37])
def test_the_network_draws_what_the_simulator_draws(placement: str, units: int) -> None:
    """Also where running jobs hold more than is forecast to be on."""
    sizes = [f"cluster.resources.{r}.units={units + r}" for r in range(2)]
    overfull = 0
    for steps in range(0, 200, 10):
        sim = played(f"decision.placement={placement}", *FAILING, *sizes, steps=steps)
        profile = torch.from_numpy(sim.layout.view(sim.obs, "profile").copy())
        assert (draw_images(profile, sim.units[0].tolist()).numpy() == sim.images).all()
        overfull += int((sim.state.used > sim.state.on).sum())
    assert overfull


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_sizes_are_those_of_the_table(size: str) -> None:
    sim = played(steps=5)
    net = build_policy(sim.layout, Network(kind="cnn", size=size, units=(10, 10)))
    assert isinstance(net, ImagePolicy)
    convolutions = [layer for layer in net.modules() if isinstance(layer, torch.nn.Conv2d)]
    assert [(layer.kernel_size, layer.stride) for layer in convolutions] == [((4, 4), (2, 2))] * (
        1 + EXTRA_LAYERS[size]
    )
    assert {layer.out_channels for layer in convolutions} == {32}
    assert net.of_rest[0].out_features == JOB_UNITS[size]
    logits = net(torch.from_numpy(sim.obs), torch.from_numpy(sim.mask).float())
    assert logits.shape == sim.mask.shape
    assert (sim.mask[np.arange(3), logits.argmax(1).numpy()] == 1).all()


def test_every_weight_learns() -> None:
    sim = played(steps=60)
    net = build_policy(sim.layout, Network(kind="cnn", units=(10, 10)))
    with torch.no_grad():
        net.head.weight.mul_(100.0)
    logits = net(torch.from_numpy(sim.obs), torch.ones(sim.mask.shape))
    torch.distributions.Categorical(logits=logits).log_prob(torch.tensor([0, 1, 2])).sum().backward()
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in net.parameters())


@pytest.mark.parametrize(
    ("overrides", "network", "line"),
    [
        (["observation.blocks=[jobs,queue]"], {"units": (10, 10)}, "network.kind cnn reads profile"),
        ([], {"size": "large", "units": (3, 3)}, "4 convolutions, too many for an image of 48 x 6 cells"),
        ([], {}, "network.units: are not known"),
    ],
)
def test_what_it_cannot_work_with(overrides: list[str], network: dict[str, object], line: str) -> None:
    chosen = scenario.load("green-10", overrides)
    layout = VectorSimulator(chosen, [10, 10], 1, 1).layout
    with pytest.raises(BadInputError, match=line):
        build_policy(layout, Network.model_validate({"kind": "cnn", **network}))
