"""An episode tick by tick: the same episode as a plain play of it, with accounts that add up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from rlsched import scenario
from rlsched.envs.cluster_view import PLACES
from rlsched.evaluate.history import History, knows_ticks, record
from rlsched.evaluate.policies import HeuristicPolicy, LearnedPolicies
from rlsched.evaluate.policy import Policy
from rlsched.evaluate.session import Choice, Session, open_session
from rlsched.jobs import IntArray
from rlsched.scenario import Scenario
from rlsched.sim.heuristics import PLACEMENTS
from rlsched.sim.metrics import Played
from rlsched.sim.simulator import VectorSimulator
from rlsched.workloads.episodes import Episode
from tests.policies import Forgetful
from tests.sim.test_twin_green import game

ORDERS = ("fcfs", "packing", "hvf", "xfactor", "random")
WINDY = (
    "power.kind=synthetic",
    "power.level=0.4",
    "power.probability=0.5",
    "power.grid_kw=0.4",
    "power.battery={capacity_kwh: 6, charge_kw: 1.5, discharge_kw: 1.5}",
    "decision.placement=horizon",
    "decision.suspend=true",
    "decision.wait_pool=10",
    "episode.max_ticks=150",
)


class Whim(Forgetful):
    """A policy that depends on every number it sees, and answers the same whoever else is asked."""

    def decide(self, obs: NDArray[np.float32], mask: NDArray[np.int8]) -> IntArray:
        weights = np.random.default_rng(0).random(obs.shape[1])
        draws = (obs.astype(np.float64) * weights).sum(axis=1)[:, None] * (1 + np.arange(mask.shape[1]))
        return np.asarray((mask * (1.0 + 1000.0 * draws % 1.0)).argmax(axis=1))


def a_game(seed: int) -> tuple[Scenario, tuple[int, ...], Episode]:
    """A random scenario with random power, suspension, expiry and pools."""
    values, units, jobs, power = game(seed)
    return values, units, Episode(jobs, seed=seed, power=power)


def plain(policy: Policy, episode: Episode, units: tuple[int, ...]) -> Played:
    return policy.run([episode], units, lambda _: None)[0]


def check_same(result: Played, expected: Played) -> None:
    """To the last bit: the same things were added up in the same order."""
    for column in ("start", "end", "suspensions", "rejected"):
        np.testing.assert_array_equal(getattr(result, column), getattr(expected, column))
    assert result.ticks == expected.ticks
    assert dict(result.totals) == dict(expected.totals)
    assert dict(result.accounts) == dict(expected.accounts)


def check_whole(history: History) -> None:
    """The moments lead to what the episode came to."""
    played = history.played
    assert history.ticks == played.ticks
    last = dict(zip(PLACES, history.places[-1].tolist(), strict=True))
    assert last["finished"] == played.finished.sum()
    assert last["rejected"] == played.rejected.sum()
    assert history.value[-1] == played.totals["finished_value"]
    assert (np.diff(history.value) >= 0).all()
    assert (np.diff(history.places.sum(axis=1)) >= 0).all()  # jobs that have arrived
    assert (history.used >= 0).all()
    assert (history.used <= history.on).all()
    assert (history.on <= history.units).all()
    shares = (history.used[:-1] / history.units).mean(axis=1).sum()
    assert shares == pytest.approx(played.accounts["used_share"])
    assert history.place("running")[:-1].sum() == pytest.approx(-played.totals["long_running"])
    assert history.place("ready")[:-1].sum() == pytest.approx(-played.totals["ready_waiting"])
    assert history.place("wait")[:-1].sum() == pytest.approx(-played.totals["wait_waiting"])


@pytest.mark.parametrize("rule", PLACEMENTS)
def test_orders_play_the_same_episode(rule: str) -> None:
    for seed in range(60):
        values, units, episode = a_game(seed)
        policy = HeuristicPolicy(ORDERS[seed % len(ORDERS)], rule, scenario=values)
        history = record(policy, episode, units)
        check_same(history.played, plain(policy, episode, units))
        check_whole(history)
        assert history.name == f"{policy.name} + {rule}"


def test_policies_play_the_same_episode() -> None:
    """Under every rule of time, and whether they are asked where there is nothing to choose or not."""
    for seed in range(120):
        values, units, episode = a_game(seed)
        policy = LearnedPolicies("whim", Whim(), values)
        history = record(policy, episode, units)
        check_same(history.played, plain(policy, episode, units))
        check_whole(history)


@pytest.fixture(scope="module")
def session() -> Session:
    return open_session(scenario.load("green-10", list(WINDY)), Choice(episodes=1))


@pytest.fixture(scope="module")
def windy(session: Session) -> History:
    return record(
        HeuristicPolicy("sjf", "now", scenario=session.scenario),
        session.episodes[0],
        session.units,
    )


def test_power_adds_up_in_every_tick(session: Session, windy: History) -> None:
    power = session.episodes[0].power
    assert power is not None
    draw = windy.power_kw("energy_kwh")
    battery, brown = windy.power_kw("battery_kwh"), windy.power_kw("brown_kwh")
    charged, curtailed = windy.power_kw("charged_kwh"), windy.power_kw("curtailed_kwh")
    supply = power.supply_w[np.arange(150) % len(power.supply_w)] / 1000.0
    np.testing.assert_allclose(windy.direct_kw, np.minimum(supply, draw), atol=1e-9)
    np.testing.assert_allclose(windy.direct_kw + battery + brown, draw, atol=1e-9)
    np.testing.assert_allclose(windy.direct_kw + charged + curtailed, supply, atol=1e-9)
    level = windy.battery_kwh
    assert level[0] == 3.0
    np.testing.assert_allclose(np.diff(level), 0.9 * charged - battery, atol=1e-9)
    expected = 0.2 * windy.used[:-1].sum(axis=1) + 0.1 * (windy.on - windy.used)[:-1].sum(axis=1)
    np.testing.assert_allclose(draw, expected, atol=1e-9)
    assert min(part.max() for part in (battery, brown, charged, curtailed)) > 0
    assert (windy.capacity_kwh, windy.full_kw, windy.powered) == (6.0, 4.0, True)
    assert windy.resources == ("cpu", "gpu")


def test_the_first_ticks_alone(session: Session, windy: History) -> None:
    policy = HeuristicPolicy("sjf", "now", scenario=session.scenario)
    part = record(policy, session.episodes[0], session.units, ticks=40)
    assert part.ticks == part.played.ticks == 40
    np.testing.assert_array_equal(part.places[:40], windy.places[:40])
    np.testing.assert_array_equal(part.accounts, windy.accounts[:41])
    np.testing.assert_array_equal(part.battery_kwh, windy.battery_kwh[:41])


def test_every_tick_is_shown_once(session: Session) -> None:
    observed: list[int] = []

    def look(sim: VectorSimulator) -> None:
        observed.append(int(sim.now[0]))
        assert sim.mask[0, -1] == 1  # the no-op is what comes next

    policy = HeuristicPolicy("sjf", "horizon", scenario=session.scenario)
    record(policy, session.episodes[0], session.units, look=look)
    assert np.diff(observed).tolist() == [1] * 149


def test_without_power_there_are_no_energies() -> None:
    values = scenario.load("green-10", ["power=null", "episode.max_ticks=30"])
    session = open_session(values, Choice(episodes=1))
    history = record(HeuristicPolicy("fcfs", "now", scenario=values), session.episodes[0], session.units)
    assert not history.powered
    assert history.capacity_kwh == 0
    assert not history.power_kw("energy_kwh").any()
    assert history.used.any()


def test_an_episode_that_is_over_at_once() -> None:
    values, units, episode = a_game(3)
    jobs = episode.jobs.take(np.arange(1))
    ending = values.model_copy(
        update={"episode": scenario.EpisodeSettings(jobs=None, end="no_new_job"), "power": None}
    )
    history = record(
        HeuristicPolicy("fcfs", "now", scenario=ending), replace(episode, jobs=jobs, power=None), units
    )
    assert history.ticks == 0
    assert len(history.places) == 1
    assert len(history.direct_kw) == 0


def test_who_knows_no_ticks(session: Session) -> None:
    hpc = scenario.load("lublin-256")
    for policy in (
        HeuristicPolicy("fcfs", "easy", scenario=hpc),
        HeuristicPolicy("fcfs", "easy"),
        LearnedPolicies("a", Whim(), hpc),
    ):
        assert not knows_ticks(policy)
        with pytest.raises(ValueError, match="plays without a horizon"):
            record(policy, session.episodes[0], session.units)
    assert knows_ticks(LearnedPolicies("a", Whim(), session.scenario))
