"""What a queue comes to, by attention."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch

from rlsched.errors import BadInputError
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.attention import QueueAttention
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.policy import NetworkPolicy, load_policy
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout

from .states import made_up, met
from .test_networks import layout_of, shaken

FEATURES, WIDTH, HEADS = 4, 8, 2


def queue(jobs: int, slots: int, seed: int = 0) -> torch.Tensor:
    """(1, slots, feature) with so many jobs."""
    actual = torch.zeros(1, slots, FEATURES)
    actual[:, :jobs] = torch.rand(1, jobs, FEATURES, generator=torch.Generator().manual_seed(seed))
    actual[:, :jobs, 0] = 1.0
    return actual


@pytest.fixture
def net() -> QueueAttention:
    torch.manual_seed(0)
    return QueueAttention(FEATURES, WIDTH, HEADS)


def test_by_hand(net: QueueAttention) -> None:
    """Job by job and head by head: weights in proportion to e to the score, of what the jobs are."""
    jobs = queue(5, 9)
    with torch.no_grad():
        value = [torch.relu(net.of_job.weight @ job + net.of_job.bias) for job in jobs[0, :5]]
        expected = []
        for head in range(HEADS):
            weights = [float(torch.exp(net.score.weight[head] @ e + net.score.bias[head])) for e in value]
            expected.append(sum(w * e for w, e in zip(weights, value, strict=True)) / sum(weights))
        actual = net(jobs)
    assert actual.shape == (1, net.size)
    torch.testing.assert_close(actual[0], torch.cat(expected))


def test_a_job_that_matters_is_noticed_among_thousands(net: QueueAttention) -> None:
    """A plain mean would hide it: one long job among 4,095 short ones moves it by a four-thousandth."""
    jobs = queue(4096, 4096)
    jobs[..., 1] = 0.0
    with torch.no_grad():
        net.of_job.weight.zero_()[0, 1] = 1.0
        net.of_job.bias.zero_()
        net.score.weight.zero_()[0, 0] = 20.0
        before = net(jobs)
        jobs[0, 1234, 1] = 1.0
        after = net(jobs)
    assert float(before.max()) == 0.0
    assert float(after[0, 0]) > 0.99  # the head that looks for it
    assert float(after[0, WIDTH]) == pytest.approx(1 / 4096)  # the other, a plain mean


def test_slots_without_jobs_are_none(net: QueueAttention) -> None:
    assert torch.equal(net(queue(3, 3)), net(queue(3, 500)))
    together = torch.cat([queue(0, 8), queue(8, 8)])
    actual = net(together)
    assert torch.equal(actual[0], torch.zeros(net.size))
    assert torch.isfinite(actual).all()
    assert torch.equal(net(queue(0, 8)), torch.zeros(1, net.size))


def test_what_it_sees_is_learned() -> None:
    layout = layout_of()
    policy = build_policy(layout, Network(attention=4))
    vectors, mask = made_up(layout, 30)
    mask[:, :2] = 1
    torch.distributions.Categorical(logits=policy(vectors, mask)).log_prob(mask.argmax(1)).sum().backward()
    for name in ("of_job", "score"):
        gradient = policy.get_parameter(f"attention.{name}.weight").grad
        assert gradient is not None
        assert float(gradient.abs().max()) > 0


@pytest.mark.parametrize("kind", ["mlp", "priority", "cnn"])
def test_it_is_a_job_scorers(kind: str) -> None:
    with pytest.raises(BadInputError, match=r"network.attention: not supported by network.kind="):
        build_policy(layout_of(), Network.model_validate({"kind": kind, "attention": 4}))


@pytest.mark.parametrize("attention", [0, 4])
def test_a_policy_is_saved_and_sees_longer_queues(attention: int, small: Scenario, tmp_path: Path) -> None:
    small = small.public
    layout = Layout.of(small.observation, small.decision, 1)
    network = Network(attention=attention)
    torch.manual_seed(0)
    NetworkPolicy(small, network, shaken(build_policy(layout, network)), 1, {}).save(tmp_path / "policy")
    policy = load_policy(tmp_path / "policy")
    vectors, mask = met(small)
    obs, legal = vectors.numpy(), mask.numpy().astype(np.int8)
    wide = policy.seeing(300)
    assert wide.layout.window == 300
    chosen, wait = policy.act(obs, legal), layout.num_actions - 1
    # The same states in a longer window, whose further slots are empty.
    to = wide.layout
    longer, allowed = np.zeros((len(obs), to.size), np.float32), np.zeros((len(obs), to.num_actions), np.int8)
    for block in layout.blocks:
        view = to.view(longer, block.name)
        view[tuple(slice(n) for n in (len(obs), *block.shape))] = layout.view(obs, block.name)
    allowed[:, :wait], allowed[:, -1] = legal[:, :wait], legal[:, -1]
    np.testing.assert_array_equal(wide.act(longer, allowed), np.where(chosen == wait, 300, chosen))
    assert len(set(chosen.tolist())) > 3  # it neither always waits nor always takes the same


def test_policies_without_it_are_the_ones_they_were(small: Scenario) -> None:
    """Their checksum tells nothing of a setting that they do not have, as it did before there was one."""
    small = small.public
    layout = Layout.of(small.observation, small.decision, 1)
    torch.manual_seed(0)
    net = build_policy(layout, Network())
    before = Network().model_dump_json(exclude={"lstm", "lstm_steps", "attention"})
    digest = sha256(small.observation.model_dump_json().encode())
    digest.update(small.decision.model_dump_json(exclude={"expiry_rule"}).encode())
    digest.update(before.encode())
    for name, value in net.state_dict().items():
        digest.update(name.replace("other_actions", "others").encode())  # as 0.1.0 named them
        digest.update(value.numpy().tobytes())
    assert NetworkPolicy(small, Network(), net, 1, {}).fingerprint == digest.hexdigest()
