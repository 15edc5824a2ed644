"""The priority function three times: as a network, as compiled code, and here in plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.networks.priority import PriorityCandidates, PriorityNet, other_features
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout

from .states import made_up, met

Floats = NDArray[np.float32]
SCENARIOS = {
    "queue": ("lublin-256", ("episode.jobs=64", "decision.window=32")),
    # The history does not stand beside the queue.
    "history": ("lublin-sizes", ("episode.jobs=64", "decision.window=32")),
    "horizon": ("green-10", ("power=null", "episode.max_ticks=120")),
    "suspend": ("green-10", ("power=null", "episode.max_ticks=120", "decision.suspend=true")),
}


def load(name: str) -> Scenario:
    base, settings = SCENARIOS[name]
    return scenario.load(base, settings)


def layout_of(simulated: Scenario) -> Layout:
    return Layout.of(simulated.observation, simulated.decision, len(simulated.cluster.resources))


def net_of(layout: Layout, hidden: int) -> PriorityNet:
    net = build_policy(layout, Network(kind="priority", priority_units=hidden))
    assert isinstance(net, PriorityNet)
    return net


def states_of(name: str, kind: str, seed: int = 0) -> tuple[Layout, Floats, NDArray[np.int8]]:
    simulated = load(name)
    layout = layout_of(simulated)
    vectors, mask = made_up(layout, 300, seed) if kind == "made up" else met(simulated, seed=seed)
    return layout, vectors.numpy(), mask.numpy().astype(np.int8)


def reference(
    layout: Layout, hidden: int, values: FloatArray, obs: Floats, mask: NDArray[np.int8]
) -> FloatArray:
    """(batch, actions) scores as the docstring of PriorityNet has them, -inf where illegal."""
    jobs = layout.view(obs, "jobs").astype(float)
    recorded = [name for name in ("queue", "history") if layout.block(name) is not None]
    state = np.concatenate([layout.view(obs, name).astype(float) for name in recorded], axis=1)
    history = layout.view(obs, "history").astype(float) if "history" in recorded else np.zeros((len(obs), 0))
    features, size, rest = jobs.shape[2], state.shape[1], layout.num_actions - layout.window
    reasons = size if layout.horizon else features + size
    shapes = [
        (features,),
        (history.shape[1], features),
        (hidden, features),
        (hidden, size),
        (hidden,),
        (hidden,),
        (rest, reasons),
        (rest,),
    ]
    ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])
    assert ends[-1] == len(values)
    parts = [part.reshape(shape) for part, shape in zip(np.split(values, ends[:-1]), shapes, strict=True)]
    w, of_history, of_job, of_state, b, v, u, c = parts
    weights = (w + history @ of_history)[:, None, :]
    units = np.maximum(0, jobs @ of_job.T + (state @ of_state.T)[:, None] + b)
    scores = np.where(mask[:, : layout.window] == 1, (jobs * weights).sum(2) + units @ v, -np.inf)
    level, state_inputs = np.zeros((len(obs), 1)), state
    if not layout.horizon:
        present = np.isfinite(scores).any(axis=1, keepdims=True)
        level = np.where(present, scores.max(axis=1, keepdims=True), 0.0)
        best = np.where(present, jobs[np.arange(len(jobs)), scores.argmax(axis=1)], 0.0)
        state_inputs = np.concatenate([best, state], axis=1)
    scores = np.concatenate([scores, level + state_inputs @ u.T + c], axis=1)
    return np.where(mask == 1, scores, -np.inf)


def decisions(
    layout: Layout,
    hidden: int,
    values: FloatArray,
    obs: Floats,
    mask: NDArray[np.int8],
    of: IntArray | None = None,
) -> IntArray:
    """Of the compiled code; of one candidate unless told."""
    rows = np.arange(len(obs))
    of = np.zeros(len(obs), np.int64) if of is None else of
    return PriorityCandidates(layout, hidden, np.atleast_2d(values), of).act(obs, mask, rows)


@pytest.mark.parametrize("name", list(SCENARIOS))
@pytest.mark.parametrize("kind", ["made up", "met"])
@pytest.mark.parametrize("hidden", [0, 5])
def test_network_and_candidates_choose_what_the_formula_says(name: str, kind: str, hidden: int) -> None:
    net = net_of(states_of(name, kind)[0], hidden)
    chosen = set()
    for seed in range(5):
        layout, obs, mask = states_of(name, kind, seed)
        values = np.random.default_rng(seed).normal(size=len(net.flat())).astype(np.float32).astype(float)
        net.set_flat(values)
        scores = reference(layout, hidden, values, obs, mask)
        with torch.no_grad():
            logits = net(torch.from_numpy(obs), torch.from_numpy(mask).float()).numpy()
        assert logits[mask == 1] == pytest.approx(scores[mask == 1], abs=1e-4)
        compiled = decisions(layout, hidden, values, obs, mask)
        # Numbers of 32 bits, added in other orders, may settle what is nearly equal otherwise.
        rows, best = np.arange(len(obs)), scores.max(axis=1)
        for actions in (compiled, logits.argmax(axis=1)):
            assert (scores[rows, actions] >= best - 1e-4).all()
        assert (compiled == scores.argmax(axis=1)).mean() > 0.99
        assert (compiled == logits.argmax(axis=1)).mean() > 0.99
        chosen |= set(compiled.tolist())
    rest = set(range(layout.window, layout.num_actions))
    if name != "suspend":  # without suspending its action is there, but never legal
        rest.discard(layout.window if name == "horizon" and kind == "met" else -1)
    assert rest <= chosen, "an action that is no job was never chosen"


@pytest.mark.parametrize("name", list(SCENARIOS))
@pytest.mark.parametrize("hidden", [0, 5])
def test_a_candidate_decides_for_its_environments(name: str, hidden: int) -> None:
    layout, obs, mask = states_of(name, "made up")
    rng = np.random.default_rng(1)
    values = rng.normal(size=(4, len(net_of(layout, hidden).flat())))
    of = rng.integers(4, size=len(obs))
    alone = np.array([decisions(layout, hidden, item, obs, mask) for item in values])
    assert (alone != alone[0]).any(axis=1).tolist() == [False, True, True, True]
    together = PriorityCandidates(layout, hidden, values, of)
    envs = np.arange(len(obs))
    assert (together.act(obs, mask, envs) == alone[of, envs]).all()
    some = rng.permutation(len(obs))[:50]  # as when other episodes are over
    assert (together.act(obs[some], mask[some], some) == alone[of[some], some]).all()


@pytest.mark.parametrize("hidden", [0, 5])
def test_of_equal_scores_the_first_wins(hidden: int) -> None:
    """Small whole numbers are added exactly, in any order: equal scores are equal to the last bit."""
    layout, obs, mask = states_of("suspend", "made up")
    obs = np.round(obs)
    net = net_of(layout, hidden)
    rng = np.random.default_rng(2)
    tied = 0
    for _ in range(10):
        values = rng.integers(-1, 2, len(net.flat())).astype(float)
        net.set_flat(values)
        scores = reference(layout, hidden, values, obs, mask)
        tied += int(((scores == scores.max(axis=1, keepdims=True)).sum(axis=1) > 1).sum())
        expected = scores.argmax(axis=1)
        assert (decisions(layout, hidden, values, obs, mask) == expected).all()
        with torch.no_grad():
            logits = net(torch.from_numpy(obs), torch.from_numpy(mask).float())
        assert (logits.argmax(dim=1).numpy() == expected).all()
    assert tied > 100


@pytest.mark.parametrize("name", list(SCENARIOS))
@pytest.mark.parametrize("hidden", [0, 5])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e6, 1e30])
def test_what_is_illegal_is_never_chosen(name: str, hidden: int, size: float) -> None:
    layout, obs, mask = states_of(name, "made up")
    net = net_of(layout, hidden)
    values = -size * np.abs(np.random.default_rng(3).normal(size=len(net.flat())))  # all legal scores are low
    for item in (values, -values):
        actions = decisions(layout, hidden, item, obs, mask)
        assert mask[np.arange(len(mask)), actions].all()
        net.set_flat(item)
        logits = net(torch.from_numpy(obs), torch.from_numpy(mask).float())
        assert mask[np.arange(len(mask)), logits.argmax(dim=1).numpy()].all()
    only = np.eye(layout.num_actions, dtype=np.int8)
    chosen = decisions(layout, hidden, values, obs[: len(only)], only)
    assert chosen.tolist() == list(range(layout.num_actions))


@pytest.mark.parametrize("name", list(SCENARIOS))
@pytest.mark.parametrize("hidden", [0, 5])
def test_parameters_round_trip_in_their_order(name: str, hidden: int) -> None:
    layout = layout_of(load(name))
    net = net_of(layout, hidden)
    values = np.random.default_rng(4).normal(size=len(net.flat())).astype(np.float32).astype(float)
    net.set_flat(values)
    assert (net.flat() == values).all()
    assert net.flat().dtype == np.float64
    features, reasons = len(layout.features("jobs")), len(other_features(layout))
    order = ["order"] if name == "history" else []
    assert list(dict(net.named_parameters())) == [
        *("weights", *order, "of_job", "of_state", "bias", "out", "other_actions", "constants")
    ]
    assert net.weights.tolist() == values[:features].tolist()
    if net.order is not None:
        assert net.order.flatten().tolist() == values[features : 7 * features].tolist()
    rest = layout.num_actions - layout.window
    assert net.constants.tolist() == values[-rest:].tolist()
    assert net.other_actions.flatten().tolist() == values[-rest * (reasons + 1) : -rest].tolist()


def test_the_network_copies_its_parameters() -> None:
    net = net_of(layout_of(load("queue")), 2)
    values = np.ones(len(net.flat()), np.float32)
    net.set_flat(values)  # type: ignore[arg-type]  # of the network's own kind: shared, were it not for a copy
    values[:] = 7
    assert (net.flat() == 1).all()
    net.flat()[:] = 7
    assert (net.flat() == 1).all()


@pytest.mark.parametrize("name", ["queue", "horizon"])
def test_it_does_not_wait_for_better_at_first(name: str) -> None:
    layout, obs, mask = states_of(name, "met")
    actions = net_of(layout, 3)(torch.from_numpy(obs), torch.from_numpy(mask).float()).argmax(dim=1).numpy()
    fits = layout.view(obs, "jobs")[:, :, layout.features("jobs").index("fits")]
    could = (mask[:, : layout.window] * fits).any(axis=1)
    assert could.any()
    assert (actions[could] < layout.window).all()


@pytest.mark.parametrize(
    ("name", "weights", "noop"), [("queue", {}, 0.0), ("horizon", {"match": 1.0, "fits": 3.0}, 1.0)]
)
def test_it_begins_with_zeros_or_on_a_horizon_with_what_fills_the_cluster(
    name: str, weights: dict[str, float], noop: float
) -> None:
    layout = layout_of(load(name))
    net = net_of(layout, 0)
    actual = dict(zip(layout.features("jobs"), net.weights.tolist(), strict=True))
    assert {key: value for key, value in actual.items() if value} == weights
    assert net.constants[-1].item() == noop
    assert not net.other_actions.any()


def test_at_first_nothing_is_suspended_just_because_nothing_fits() -> None:
    layout, obs, mask = states_of("suspend", "met")
    words = (mask[:, layout.window] == 1) & ~mask[:, : layout.window].any(axis=1)
    assert words.any()
    values = net_of(layout, 0).flat()
    assert (decisions(layout, 0, values, obs, mask)[words] == layout.num_actions - 1).all()


@pytest.mark.parametrize("blocks", [["jobs", "profile"], ["queue", "profile"]])
def test_it_reads_jobs_and_queue(blocks: list[str]) -> None:
    simulated = scenario.load("green-10", [f"observation.blocks={blocks}"])
    layout = layout_of(simulated)
    with pytest.raises(BadInputError, match=r"network\.kind priority reads (queue|jobs); add"):
        net_of(layout, 0)
    with pytest.raises(KeyError, match="jobs, queue"):
        PriorityCandidates(layout, 0, np.zeros((1, 1)), np.zeros(1, np.int64))
