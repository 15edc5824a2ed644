"""What policies begin with: by what is observed, what may be done, and what is rewarded."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.evaluate.costs import play_heuristic
from rlsched.evaluate.play import play
from rlsched.evaluate.references import HEURISTICS
from rlsched.jobs import JobTable
from rlsched.learn.beginnings import (
    HISTORY_PRIOR,
    HOLDING_PRIOR,
    HORIZON_PRIOR,
    NOW_PRIOR,
    QUEUE_PRIOR,
    SLOWDOWN_PRIOR,
    WAITING,
    begun,
)
from rlsched.learn.config import make_config
from rlsched.learn.networks import JobScorer, build_policy
from rlsched.learn.plan import layout_of
from rlsched.learn.policy import TrainedPolicy
from rlsched.learn.sections import Network
from rlsched.learn.selection import Validation, measured
from rlsched.sim.layout import Layout
from rlsched.sim.simulator import VectorSimulator

from .states import met

KINDS = ("job_scorer", "priority")
FIT = ["decision.action_rule=fit"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", ["commit", "fit", "hold"])
def test_an_untrained_policy_is_an_order_that_hoards_nothing(kind: str, rule: str) -> None:
    """Under all rules: where nothing can be committed to, whoever keeps units would never start a job."""
    chosen = scenario.load("lublin-sizes", [f"decision.action_rule={rule}", "episode.jobs=256"])
    feed = EpisodeFeed(chosen)
    episodes, parts = feed.stratified(np.random.default_rng(0), 24)
    found = Validation.of(feed.scenario, feed.units, episodes, "bounded_slowdown", parts)
    network = begun(Network.model_validate({"kind": kind}), feed.scenario)
    torch.manual_seed(0)
    policy = TrainedPolicy(feed.scenario, network, build_policy(layout_of(feed), network), 1, {})
    came_to = found.run(policy)  # two short episodes of every part: somewhat beyond the limits in one
    assert came_to["hoarding"] < 0.25
    greedy = [
        measured(found.scenario, feed.units, play_heuristic(known, found.scenario, feed.units, episodes))
        for known in HEURISTICS
        if known.backfill == "greedy"
    ]
    best = np.min([values["bounded_slowdown"] for values in greedy], axis=0)
    played = play(found.scenario, feed.units, episodes, policy)
    own = measured(found.scenario, feed.units, played)["bounded_slowdown"]
    assert (own / best).mean() < 1.4


def test_units_are_kept_as_far_ahead_however_sharp_the_order_is() -> None:
    chosen = scenario.load("lublin-sizes", ["decision.action_rule=commit"])
    assert begun(Network(), chosen).waiting == -20.0
    assert begun(Network(sharpness=120.0), chosen).waiting == -40.0
    found = begun(Network(kind="priority", sharpness=120.0), chosen)
    assert found.waiting == pytest.approx(-10 / 3)
    assert found.deferring == {"used_requests": 3.0, "requested": 1.0}
    chosen = scenario.load("lublin-sizes", FIT)
    assert begun(Network(), chosen).waiting == -39.0
    assert begun(Network(kind="priority", sharpness=120.0), chosen).waiting == -0.65
    for kind in KINDS:
        deferring = begun(Network.model_validate({"kind": kind}), chosen).deferring
        assert deferring is not None
        assert deferring["free_0"] == -5.62


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", ["fit", "hold"])
@pytest.mark.parametrize(
    ("busy", "demand", "requested", "starts"),
    [
        (1925, 20, 60, True),  # of the 6 % that are free, a short job may have them all
        (1925, 123, 60, True),
        (1925, 20, 86_400, False),
        (1434, 20, 86_400, True),  # 29 % are left
        (1434, 600, 86_400, False),  # none would be
        (0, 2048, 86_400, True),
    ],
)
def test_units_are_kept_free_for_short_jobs(
    kind: str, rule: str, busy: int, demand: int, requested: int, starts: bool
) -> None:
    """Where waiting is always legal: a job beside one that runs, and one more to come in a week."""
    chosen, week = scenario.load("lublin-sizes", [f"decision.action_rule={rule}"]).public, 604_800
    rows = [(0, week, busy), (0, requested, demand), (week, 60, 1)][0 if busy else 1 :]
    submit, runtime, demands = zip(*rows, strict=True)
    sim = VectorSimulator(chosen, (2048,), 1, len(rows))
    sim.load(0, JobTable.build(submit=submit, runtime=runtime, demand=demands))
    if busy:
        sim.step(np.array([0]))
    network = begun(Network.model_validate({"kind": kind}), chosen)
    layout = Layout.of(chosen.observation, chosen.decision, 1)
    torch.manual_seed(0)
    policy = TrainedPolicy(chosen, network, build_policy(layout, network), 1, {})
    (action,) = policy.act(sim.obs, sim.mask)
    assert sim.mask[0, [0, -1]].all()
    assert action == (0 if starts else layout.num_actions - 1)


@pytest.mark.parametrize("rule", ["commit", "fit", "hold"])
def test_both_kinds_begin_with_the_same_decisions(rule: str) -> None:
    """A search begins with what a job scorer does before training, but for its random last weights."""
    chosen = scenario.load("lublin-sizes", ["episode.jobs=256", f"decision.action_rule={rule}"])
    feed = EpisodeFeed(chosen)
    layout = layout_of(feed)
    networks = [begun(Network.model_validate({"kind": kind}), feed.scenario) for kind in KINDS]
    scorer, function = (build_policy(layout, network) for network in networks)
    assert isinstance(scorer, JobScorer)
    with torch.no_grad():
        for last in (scorer.body[-1], *(head[-1] for head in scorer.others)):
            last.weight.zero_()
    vectors, mask = met(feed.scenario, steps=200, seed=0)
    with torch.no_grad():
        chosen_by = [net(vectors, mask).argmax(dim=1) for net in (scorer, function)]
    assert len(set(chosen_by[0].tolist())) > 3
    assert (chosen_by[0] == layout.num_actions - 1).any()
    assert (chosen_by[0] == chosen_by[1]).float().mean() > 0.99  # scores of 32 bits may be nearly equal


@pytest.mark.parametrize(
    ("name", "settings", "kind", "prior"),
    [
        ("lublin-256", [], "job_scorer", QUEUE_PRIOR),
        ("lublin-sizes", ["decision.action_rule=commit"], "priority", HISTORY_PRIOR),
        ("lublin-sizes", FIT, "job_scorer", QUEUE_PRIOR),
        ("lublin-sizes", ["decision.action_rule=hold"], "job_scorer", HOLDING_PRIOR),
        ("lublin-256", ["decision.action_rule=hold"], "job_scorer", QUEUE_PRIOR),
        ("green-10", ["decision.placement=horizon"], "job_scorer", HORIZON_PRIOR),
        ("green-10", [], "job_scorer", HORIZON_PRIOR),
        ("green-10", [], "priority", NOW_PRIOR),
        ("deeprm", [], "job_scorer", SLOWDOWN_PRIOR),
        ("deeprm", ["objective.reward={utilization: 1}"], "job_scorer", HORIZON_PRIOR),
    ],
)
def test_the_order_goes_with_the_scenario(
    name: str, settings: list[str], kind: str, prior: dict[str, float]
) -> None:
    network = Network.model_validate({"kind": kind})
    assert begun(network, scenario.load(name, settings)).prior == prior


@pytest.mark.parametrize("rule", ["fit", "hold"])
@pytest.mark.parametrize("other", ["observation.blocks=[jobs, history]", "objective.reward={utilization: 1}"])
def test_units_are_kept_where_it_is_seen_and_pays(rule: str, other: str) -> None:
    """What is free is seen in the queue, and it is slowdowns and waits that keeping units is good for."""
    spared = begun(Network(), scenario.load("lublin-sizes", [f"decision.action_rule={rule}"]))
    assert spared.waiting == -39.0
    unspared = begun(Network(), scenario.load("lublin-sizes", [f"decision.action_rule={rule}", other]))
    assert (unspared.prior, unspared.waiting, unspared.deferring) == (QUEUE_PRIOR, WAITING, {})


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_given_stays(kind: str) -> None:
    given = {"kind": kind, "prior": {"requested": -2.0}, "waiting": 0.5, "deferring": {"load": 1.0}}
    network = Network.model_validate(given)
    assert begun(network, scenario.load("lublin-sizes")) == network
    alone = begun(Network.model_validate({"kind": kind, "waiting": 0.5}), scenario.load("lublin-sizes"))
    assert (alone.waiting, alone.deferring) == (0.5, {})  # each means what it means elsewhere


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_others_begin_with_nothing(kind: str) -> None:
    network = Network.model_validate({"kind": kind})
    assert begun(network, scenario.load("deeprm")) == network


@pytest.mark.parametrize("algo", ["ppo", "cocorl"])
def test_ppo_begins_with_random_weights_where_there_is_no_horizon(algo: str) -> None:
    chosen = scenario.load("lublin-sizes")
    found = make_config({}, "test", [f"algo={algo}"]).settled(chosen).network
    assert (found.prior, found.waiting, found.deferring) == ({}, None, None)
    given = make_config({}, "test", [f"algo={algo}", "network.prior={requested: -1}"]).settled(chosen).network
    assert given.prior == {"requested": -1.0}
    assert given.waiting is not None
    planned = make_config({}, "test", [f"algo={algo}"]).settled(scenario.load("green-10")).network
    assert planned.prior == HORIZON_PRIOR


def test_waiting_with_random_weights_has_a_level_of_its_own() -> None:
    """Scores of jobs move all jobs against waiting, and not waiting with them."""
    chosen = scenario.load("lublin-256", ["episode.jobs=64"])
    torch.manual_seed(0)
    net = build_policy(layout_of(EpisodeFeed(chosen)), Network(prior={}))
    assert isinstance(net, JobScorer)
    vectors, mask = met(chosen, steps=50, seed=0)
    with torch.no_grad():
        before = net(vectors, mask)
        net.body[-1].bias += 2.0
        after = net(vectors, mask)
    jobs = mask[:, :-1] > 0.5
    torch.testing.assert_close((after - before)[:, :-1][jobs], torch.full_like(after[:, :-1][jobs], 12.0))
    torch.testing.assert_close(after[:, -1], before[:, -1])


def test_a_settled_training_says_what_it_begins_with() -> None:
    """So that a policy that is kept means the same whatever later versions begin with; but for a search that
    begins with what another found."""
    chosen = scenario.load("lublin-sizes")
    config = make_config({}, "test", ["algo=appo"]).settled(chosen)
    assert config.network == begun(Network(), chosen)
    assert config.settled(chosen) == config
    search = make_config({}, "test", ["algo=priority_search", "search.start=runs/found"]).settled(chosen)
    assert (search.network.prior, search.network.waiting, search.network.deferring) == (None, None, None)
