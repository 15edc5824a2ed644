"""What an order, and how far waiting is from it, hang on: the history, the supply, the best job."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.learn.beginnings import HISTORY_PRIOR, WAITING, begun
from rlsched.learn.networks import JobScorer, build_policy
from rlsched.learn.sections import Network
from rlsched.sim.layout import Layout, history_features, queue_features

from .states import made_up


def supplied() -> Layout:
    """Where wind and sun are seen."""
    simulated = scenario.load("green-10", ["observation.blocks=[jobs, queue, profile, supply]"])
    return Layout.of(simulated.observation, simulated.decision, 2)


def test_the_best_job_speaks_for_waiting() -> None:
    """Straight, by its own features; where no job may be chosen, nobody does."""
    layout, weights = supplied(), {"green_0": -1.0, "green_6": 0.5, "duration": 0.25}
    torch.manual_seed(0)
    plain = build_policy(layout, Network())
    net = build_policy(layout, Network(deferring=weights))
    known = plain.state_dict()
    assert not known["deferring.weight"].any()
    net.load_state_dict({**known, "deferring.weight": net.state_dict()["deferring.weight"]})
    vectors, mask = made_up(layout, 200)
    mask[:20, : layout.window] = 0
    mask[:, -1] = 1
    with torch.no_grad():
        before, after = plain(vectors, mask), net(vectors, mask)
    assert (before[:, :-1] == after[:, :-1]).all()
    jobs = torch.from_numpy(layout.view(vectors.numpy(), "jobs").copy())
    best = before[:, : layout.window].argmax(1)
    chosen = jobs[torch.arange(200), best]
    told = sum(weight * chosen[:, layout.job_features.index(name)] for name, weight in weights.items())
    told = 60 * torch.where(mask[:, : layout.window].sum(1) > 0, told, 0.0)
    torch.testing.assert_close(after[:, -1] - before[:, -1], told, rtol=1e-4, atol=1e-4)
    assert told[20:].abs().max() > 1


def accounted() -> Layout:
    """Where the history is seen."""
    simulated = scenario.load("lublin-sizes")
    return Layout.of(simulated.observation, simulated.decision, 1)


def unaccounted() -> Layout:
    """Where it is not."""
    simulated = scenario.load("lublin-256")
    return Layout.of(simulated.observation, simulated.decision, 1)


def used_in_part(layout: Layout) -> tuple[Tensor, Tensor, Tensor]:
    """100 states with a choice, their masks, and what share of their requests jobs used, from none to all."""
    vectors, mask = made_up(layout, 100)
    mask[:, 0] = mask[:, -1] = 1
    block = layout.block("history")
    assert block is not None
    used = torch.linspace(0, 1, 100)
    vectors[:, block.offset + history_features().index("used_requests")] = used
    return vectors, mask, used


def test_the_history_speaks_for_waiting() -> None:
    """By default for keeping units where requests were exact, and for using them where users ask for more."""
    layout = accounted()
    torch.manual_seed(0)
    net = build_policy(
        layout, begun(Network(), scenario.load("lublin-sizes", ["decision.action_rule=commit"]))
    )
    assert isinstance(net, JobScorer)
    nn.init.zeros_(net.others[-1][-1].weight)  # the network itself says nothing yet
    vectors, mask, used = used_in_part(layout)
    with torch.no_grad():
        logits = net(vectors, mask)
    best = logits[:, :-1].max(dim=1)
    requested = net.blocks(vectors, "jobs")[
        torch.arange(100), best.indices, layout.job_features.index("requested")
    ]
    ahead = logits[:, -1] - best.values
    torch.testing.assert_close(ahead, 18 * used + 6 * requested - 20, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "prior",
    [
        HISTORY_PRIOR,
        {"requested": -1.0, "wait": 0.5},
        {"requested": -1.0, "share_0*used_requests": 0.4, "wait*load": -2.0},
    ],
)
def test_the_order_hangs_on_the_history(prior: dict[str, float]) -> None:
    """The linear score is the sum that its names spell out."""
    layout = accounted()
    net = build_policy(layout, Network(prior=prior))
    assert isinstance(net, JobScorer)
    nn.init.zeros_(net.body[-1].weight)  # the network itself says nothing yet
    vectors, mask = made_up(layout, 200)
    mask[:, :3] = 1
    jobs, history = (net.blocks(vectors, name) for name in ("jobs", "history"))
    score = torch.zeros(mask[:, :-1].shape)
    for name, weight in prior.items():
        job, _, known = name.partition("*")
        times = history[:, [history_features().index(known)]] if known else 1.0
        score += weight * times * jobs[..., layout.job_features.index(job)]
    with torch.no_grad():
        logits = net(vectors, mask)[:, :-1]
    legal = mask[:, :-1] > 0
    torch.testing.assert_close(logits[legal], net.sharpness * score[legal], rtol=1e-4, atol=1e-3)


def test_a_prior_on_products_is_for_who_sees_the_history() -> None:
    """Else it is refused, and nobody is told of products that there are not."""
    prior = {"share_0*used_requests": 0.3}
    for kind in ("job_scorer", "priority"):
        with pytest.raises(BadInputError, match=r"share_0\*used_requests: no such feature") as refused:
            build_policy(unaccounted(), Network(kind=kind, prior=prior))
        build_policy(accounted(), Network(kind=kind, prior=prior))
        assert "times" not in str(refused.value)
    with pytest.raises(BadInputError, match=r"delay, or one of these times one of arrived,"):
        build_policy(accounted(), Network(prior={"share_0*gone": 0.3}))


def test_what_is_given_for_waiting_is_not_mixed_with_what_is_found() -> None:
    """Each alone means what it means elsewhere."""
    waiting = build_policy(accounted(), Network(waiting=2.0))
    assert waiting.waiting == 2.0
    assert not waiting.deferring.weight.any()
    weights = {"load": -0.5, "requested": 0.25, "free_0": -2.0}
    deferring = build_policy(accounted(), Network(deferring=weights))
    assert deferring.waiting == WAITING
    names = (*accounted().job_features, *queue_features(1), *history_features())
    begun = {name: w for name, w in zip(names, deferring.deferring.weight[0].tolist(), strict=True) if w}
    assert begun == weights


def test_waiting_of_a_search_hangs_on_the_history_and_the_best_job() -> None:
    """Where all requests were exact it is ahead of what is not short, where half is used behind all."""
    layout = accounted()
    net = build_policy(
        layout,
        begun(Network(kind="priority"), scenario.load("lublin-sizes", ["decision.action_rule=commit"])),
    )
    vectors, mask, used = used_in_part(layout)
    net.blocks(vectors, "jobs")[..., layout.job_features.index("requested")] = 0.5
    with torch.no_grad():
        logits = net(vectors, mask)
    best = logits[:, :-1].max(dim=1).values
    torch.testing.assert_close(logits[:, -1], best - 10 / 3 + 3 * used + 0.5, rtol=1e-4, atol=1e-4)
    waits = logits.argmax(dim=1) == layout.num_actions - 1
    assert waits.tolist() == (used > 17 / 18).tolist()
    given = build_policy(
        layout, Network(kind="priority", deferring={"wait": 3.0, "queued_work": -0.5, "load": 2.0})
    )
    names = (*layout.job_features, *queue_features(1), *history_features())
    told = {name: w for name, w in zip(names, given.others[-1].tolist(), strict=True) if w}
    assert told == {"wait": 3.0, "queued_work": -0.5, "load": 2.0}
    assert given.constants.tolist() == [WAITING]


def test_jobs_speak_for_waiting_only_where_the_supply_is_seen() -> None:
    """Networks of other scenarios are as they were, and older ones are read."""
    green = scenario.load("green-10")
    layout = Layout.of(green.observation, green.decision, 2)
    assert "deferring.weight" not in build_policy(layout, Network()).state_dict()
    with pytest.raises(BadInputError, match=r"network.deferring.green_0: no such feature"):
        build_policy(layout, Network(deferring={"green_0": -1.0}))
    net = build_policy(supplied(), Network())
    vectors, mask = made_up(supplied(), 64)
    mask[:, -1] = 1
    torch.log_softmax(net(vectors, mask), dim=1)[:, -1].mean().backward()
    assert net.deferring.weight.grad.abs().max() > 0
