"""The networks: the one mask, symmetry over the window, size, linear scores, gradients."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from rlsched import scenario
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.blocks import ILLEGAL, masked
from rlsched.learn.networks.critic import SMALL, Critic
from rlsched.learn.networks.policies import LINEAR_SCALE, JobHeads, JobScorer, build_policy, mean_job
from rlsched.scenario import Decision, Observation, ObservationBlock, Scenario
from rlsched.sim.layout import Layout

from .states import made_up, met

BLOCKS = tuple(
    name for name in get_args(ObservationBlock) if name not in {"image", "profile", "coming", "supply"}
)
KINDS = ("job_scorer", "attention", "mlp")


def of_kind(kind: str, **settings: Any) -> Network:
    """Settings of a kind of network; attention is a job scorer's."""
    chosen = {"attention": 3} if kind == "attention" else {"kind": kind}
    return Network.model_validate(chosen | settings)


def layout_of(*blocks: str, window: int = 16, resources: int = 1, **decision: Any) -> Layout:
    observation = Observation.model_validate({"blocks": blocks or BLOCKS, "event_horizon": 8})
    return Layout.of(observation, Decision(window=window, **decision), resources)


def shaken(net: nn.Module, seed: int = 0) -> nn.Module:
    """The network with other weights than it begins with."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in net.parameters():
            value.add_(0.1 * torch.randn(value.shape, generator=generator))
    return net


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("trained", [False, True])
def test_illegal_actions_have_exactly_no_probability(kind: str, trained: bool) -> None:
    layout = layout_of()
    net = build_policy(layout, of_kind(kind))
    net = shaken(net) if trained else net
    vectors, mask = made_up(layout, 500)
    logits = net(vectors, mask)
    assert torch.isfinite(logits).all()
    probability = torch.softmax(logits, dim=1)
    assert (probability[mask == 0] == 0).all()
    torch.testing.assert_close(probability.sum(1), torch.ones(500))
    chosen = mask.gather(1, logits.argmax(1, keepdim=True))
    assert (chosen == 1).all()
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    assert torch.isfinite(entropy).all()
    assert (entropy > -1e-6).all()


def test_the_mask_is_a_finite_minimum() -> None:
    logits = masked(torch.zeros(1, 3), torch.tensor([[1.0, 0.0, 1.0]]))
    assert logits.tolist() == [[0.0, ILLEGAL, 0.0]]


def permuted(layout: Layout, vectors: Tensor, mask: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """The same states with the slots of the window in another order."""
    block = layout.block("jobs")
    assert block is not None
    jobs = vectors[:, block.offset : block.offset + block.size].view(-1, *block.shape)[:, order]
    second = vectors.clone()
    second[:, block.offset : block.offset + block.size] = jobs.flatten(1)
    return second, torch.cat([mask[:, :-1][:, order], mask[:, -1:]], dim=1)


@pytest.mark.parametrize("kind", ["job_scorer", "attention"])
@pytest.mark.parametrize("states", ["made up", "met"])
def test_job_scorer_does_not_care_where_in_the_window_a_job_stands(
    states: str, kind: str, small: Scenario
) -> None:
    layout = layout_of() if states == "made up" else Layout.of(small.observation, small.decision, 1)
    vectors, mask = made_up(layout, 200) if states == "made up" else met(small)
    net = shaken(build_policy(layout, of_kind(kind)))
    order = torch.randperm(layout.num_actions - 1, generator=torch.Generator().manual_seed(1))
    expected = net(vectors, mask)
    actual = net(*permuted(layout, vectors, mask, order))
    torch.testing.assert_close(actual[:, :-1], expected[:, :-1][:, order], rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(actual[:, -1], expected[:, -1], rtol=1e-4, atol=1e-3)


def test_other_actions_compete_with_the_best_job() -> None:
    """By what its head adds to the best score; where there is no job, by nothing but its head."""
    layout = layout_of("jobs", "queue", horizon=8, action_rule="fit")
    vectors, mask = made_up(layout, 200)
    mask[::5, : layout.window] = 0.0
    mask[:, layout.window :] = 1.0  # both may be done
    policy = build_policy(layout, Network())
    assert isinstance(policy, JobScorer)
    shaken(policy)
    heads = policy.judge()
    assert isinstance(heads, JobHeads)
    shaken(heads, 1)
    encoded = policy.encode(vectors, mask)
    scores = heads(encoded)
    jobs, rest = scores[:, : layout.window], scores[:, layout.window :]
    best = jobs.max(1, keepdim=True).values.where(mask[:, : layout.window].any(1, keepdim=True), 0.0)
    added = torch.cat([head(encoded.around) for head in heads.other_actions], 1)
    torch.testing.assert_close(rest, best + added, rtol=1e-5, atol=1e-5)
    assert rest.shape[1] == 2
    assert float((rest[::5, 0] - rest[::5, 1]).detach().abs().min()) > 0
    assert bool((jobs == ILLEGAL).eq(mask[:, : layout.window] < 0.5).all())


def test_waiting_has_a_separate_level() -> None:
    """Scores of jobs move all jobs against the no-op, and not the no-op with them."""
    layout = layout_of()
    vectors, mask = made_up(layout, 50)
    net = shaken(build_policy(layout, Network()))
    assert isinstance(net, JobScorer)
    with torch.no_grad():
        before = net(vectors, mask)
        net.body[-1].bias += 2.0
        after = net(vectors, mask)
    jobs = mask[:, :-1] > 0.5
    torch.testing.assert_close((after - before)[:, :-1][jobs], torch.full_like(after[:, :-1][jobs], 12.0))
    torch.testing.assert_close(after[:, -1], before[:, -1])


def test_the_linear_score_is_that_of_job_features_and_their_products_with_the_history() -> None:
    """Beside what the layers say, which is nothing here."""
    simulated = scenario.load("lublin-sizes")
    layout = Layout.of(simulated.observation, simulated.decision, 1)
    net = shaken(build_policy(layout, Network()))
    assert isinstance(net, JobScorer)
    assert net.order is not None
    nn.init.zeros_(net.body[-1].weight)
    nn.init.zeros_(net.body[-1].bias)
    vectors, mask = made_up(layout, 200)
    mask[:, :3] = 1
    jobs, history = (net.blocks(vectors, name) for name in ("jobs", "history"))
    score = torch.zeros(mask[:, :-1].shape)
    for j in range(jobs.shape[2]):
        score += net.linear.weight[0, j] * jobs[..., j]
        for k in range(history.shape[1]):
            score += net.order.weight[j, k] * jobs[..., j] * history[:, [k]]
    legal = mask[:, :-1] > 0
    logits = net(vectors, mask)[:, :-1]
    torch.testing.assert_close(logits[legal], LINEAR_SCALE * score[legal], rtol=1e-4, atol=1e-3)


def test_states_of_a_batch_do_not_see_each_other() -> None:
    layout = layout_of()
    vectors, mask = made_up(layout, 20)
    for kind in KINDS:
        net = shaken(build_policy(layout, of_kind(kind)))
        alone = torch.cat([net(vectors[k : k + 1], mask[k : k + 1]) for k in range(20)])
        torch.testing.assert_close(alone, net(vectors, mask), rtol=1e-4, atol=1e-3)


def shapes(net: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in net.state_dict().items()}


@pytest.mark.parametrize("kind", ["job_scorer", "attention"])
def test_job_scorer_is_as_large_for_any_window_and_cluster(kind: str) -> None:
    """One policy serves other windows and clusters (of as many resource types)."""
    small, large = (build_policy(layout_of(window=w), of_kind(kind)) for w in (4, 128))
    assert shapes(small) == shapes(large)
    large.load_state_dict(shaken(small).state_dict())
    vectors, mask = made_up(layout_of(window=4), 50)
    layout = layout_of(window=128)
    wide, wide_mask = torch.zeros(50, layout.size), torch.zeros(50, 129)
    for block in layout_of(window=4).blocks:
        to = layout.block(block.name)
        assert to is not None
        wide[:, to.offset : to.offset + block.size] = vectors[:, block.offset : block.offset + block.size]
    wide_mask[:, :4], wide_mask[:, -1] = mask[:, :4], mask[:, -1]
    expected, actual = small(vectors, mask), large(wide, wide_mask)
    torch.testing.assert_close(torch.cat([actual[:, :4], actual[:, -1:]], 1), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("only_noop", [True, False])
def test_gradients_are_finite(kind: str, only_noop: bool) -> None:
    """Also where nothing but waiting is legal in the whole batch."""
    layout = layout_of()
    vectors, mask = made_up(layout, 30)
    if only_noop:
        mask = torch.zeros_like(mask)
        mask[:, -1] = 1
    net = shaken(build_policy(layout, of_kind(kind)))
    action = mask.argmax(1)
    distribution = torch.distributions.Categorical(logits=net(vectors, mask))
    loss = -distribution.log_prob(action).mean() - 0.1 * distribution.entropy().mean()
    loss.backward()
    assert torch.isfinite(loss)
    for name, value in net.named_parameters():
        assert value.grad is None or torch.isfinite(value.grad).all(), name
    if only_noop:
        assert distribution.log_prob(action).tolist() == [0.0] * 30


def test_waiting_gets_a_gradient_where_there_is_a_choice() -> None:
    layout = layout_of()
    vectors, mask = made_up(layout, 30)
    mask[:, -1] = 1
    mask[:, 0] = 1
    net = build_policy(layout, Network())
    torch.distributions.Categorical(logits=net(vectors, mask)).log_prob(mask.argmax(1)).sum().backward()
    last = [value for name, value in net.other_actions.named_parameters() if name.startswith("0.2.")]
    assert len(last) == 2
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in last)


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_never_looks_at_the_outlook_and_the_critic_does(kind: str) -> None:
    layout = layout_of()
    vectors, mask = made_up(layout, 20)
    second = vectors.clone()
    block = layout.block("outlook")
    assert block is not None
    second[:, block.offset : block.offset + block.size] = 0
    net = shaken(build_policy(layout, of_kind(kind)))
    assert torch.equal(net(vectors, mask), net(second, mask))
    critic = Critic(layout, (16,))
    assert not torch.equal(critic(vectors), critic(second))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_probabilities(kind: str) -> None:
    """Of every log-probability, in a random direction of all weights, against central differences."""
    torch.manual_seed(3)
    layout = layout_of()
    vectors, mask = made_up(layout, 12)
    vectors, mask = vectors.double(), mask.double()
    mask[:, -1] = 1.0
    net = shaken(build_policy(layout, of_kind(kind))).double()
    weights = list(net.parameters())
    direction = [torch.randn_like(weight) for weight in weights]
    rows, actions = torch.nonzero(mask > 0.5, as_tuple=True)

    def log_probabilities() -> torch.Tensor:
        return torch.log_softmax(net(vectors, mask), 1)[rows, actions]

    def moved(step: float) -> torch.Tensor:
        with torch.no_grad():
            for weight, along in zip(weights, direction, strict=True):
                weight += step * along
            result = log_probabilities()
            for weight, along in zip(weights, direction, strict=True):
                weight -= step * along
        return result

    slopes = []
    for item in log_probabilities():
        gradients = torch.autograd.grad(item, weights, retain_graph=True)
        slopes.append(sum((g * along).sum() for g, along in zip(gradients, direction, strict=True)))
    actual = torch.stack([torch.as_tensor(slope) for slope in slopes])
    # A unit may be switched on or off within a long step, and a short one rounds.
    central = torch.stack([(moved(step) - moved(-step)) / (2 * step) for step in (1e-7, 1e-8, 1e-9)])
    nearest = (central - actual).abs().argmin(0, keepdim=True)
    torch.testing.assert_close(actual, central.gather(0, nearest)[0], rtol=1e-4, atol=1e-5)


def test_the_value_is_a_sum_over_the_jobs_that_are_there() -> None:
    """Where they stand in the window does not matter, and every further one counts."""
    torch.manual_seed(0)
    layout = layout_of("jobs", "queue")
    vectors, _ = made_up(layout, 6)
    block = layout.block("jobs")
    assert block is not None
    part = slice(block.offset, block.offset + block.size)
    jobs = vectors[:, part].view(6, *block.shape).clone()
    jobs[:, :, 0] = 0.0
    jobs[:, :3, 0] = 1.0  # three are there
    jobs *= jobs[:, :, :1]

    def with_jobs(changed: torch.Tensor) -> torch.Tensor:
        result = vectors.clone()
        result[:, part] = changed.flatten(1)
        return result

    critic = shaken(Critic(layout, (16, 16)))
    value = critic(with_jobs(jobs))
    torch.testing.assert_close(critic(with_jobs(jobs.flip(1))), value)
    fewer = jobs.clone()
    fewer[:, 2] = 0.0
    assert not torch.isclose(critic(with_jobs(fewer)), value).any()
    # With the state around them held still, every job adds its own part.
    assert critic.encoder is not None
    assert critic.of_job is not None
    around = torch.cat([*critic.blocks.context(with_jobs(jobs), privileged=True), mean_job(jobs)], dim=1)
    state = critic.encoder.of_state(around)
    parts = torch.stack([critic.of_job(critic.encoder(jobs[:, k], state)).squeeze(-1) for k in range(3)])
    torch.testing.assert_close(value, critic.net(around).squeeze(-1) + SMALL * parts.sum(0))


def test_the_mean_job_counts_only_those_that_are_there() -> None:
    jobs = torch.zeros(2, 4, 3)
    jobs[0, :2] = torch.tensor([[1.0, 0.2, 0.4], [1.0, 0.4, 0.0]])
    torch.testing.assert_close(mean_job(jobs), torch.tensor([[1.0, 0.3, 0.2], [0.0, 0.0, 0.0]]))
