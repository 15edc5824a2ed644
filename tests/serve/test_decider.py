"""What is served is what the environment would see and the policy would do there, state by state."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.evaluate.play import play
from rlsched.evaluate.policies import LearnedPolicies
from rlsched.evaluate.session import Choice, open_session
from rlsched.learn.config.sections import Network
from rlsched.learn.policy import NetworkPolicy
from rlsched.serve.api.requests import to_columns
from rlsched.serve.api.schema import BatchRequest, ClusterState, Decision, RunningJob, WaitingJob
from rlsched.serve.decide.clusters import Id
from rlsched.serve.decide.fallback import FallbackHeuristic
from rlsched.serve.decide.inference import BatchInference, Proposal
from rlsched.serve.simulated_state import simulated_state
from rlsched.sim.play import play_all
from rlsched.sim.replay import replay
from rlsched.sim.simulator import VectorSimulator

from .conftest import HPC, feed_of, untrained

CASES = {
    "hpc": HPC,
    "hpc without reservations": (*HPC, "decision.action_rule=fit", "decision.time_rule=tick"),
    "hpc that commits": (*HPC, "decision.action_rule=commit"),
    "hpc with forced actions": (*HPC, "decision.skip_forced=false"),
    "hpc with history": (*HPC, "observation.blocks=[jobs, queue, history]", "cluster.tick_s=60"),
    "green": ("green-10",),
    "green with history": ("green-10", "observation.blocks=[jobs, queue, history]"),
    "green with errors": ("green-10", "power.forecast_error=0.1", "cluster.tick_s=1800"),
    "green with battery": (
        "green-10",
        "power={kind: series, grid_kw: 1, battery: {capacity_kwh: 3, charge_kw: 1, discharge_kw: 1}}",
        "observation.blocks=[jobs, queue, profile, supply]",
    ),
    "green with plans": (
        "green-10",
        "decision.placement=horizon",
        "decision.suspend=true",
        "decision.admission=qos",
        "decision.window=8",
    ),
    "deeprm": ("deeprm",),
}


def inference_of(policy: NetworkPolicy, units: Sequence[int], max_jobs: int = 4096) -> BatchInference:
    return BatchInference(policy, units, FallbackHeuristic.named(None, policy.scenario), max_jobs)


def decide(inference: BatchInference, states: Sequence[ClusterState]) -> list[Proposal]:
    proposals: dict[int, Proposal] = {}
    for batch in inference.batches([BatchRequest(states=[*states])]):
        proposals |= dict(zip(batch.clusters.rows.tolist(), inference.by_policy(batch), strict=True))
    return [proposals[k] for k in range(len(states))]


def done(
    sim: VectorSimulator, env: int, action: int, feed: EpisodeFeed, ids: np.ndarray
) -> tuple[object, ...]:
    """What an action is called by the service: job and whether it is suspended; () for waiting."""
    if action == sim.layout.num_actions - 1:
        return ()
    if feed.scenario.decision.tick_driven and action == feed.scenario.decision.window:
        return ("suspend",)
    return (int(ids[sim.queue(env)[action]]),)


def moved(decisions: list[Decision]) -> set[tuple[Id, str]]:
    return {(decision.job, decision.action) for decision in decisions if decision.action != "reserve"}


@pytest.mark.parametrize("case", CASES)
def test_it_sees_and_does_what_the_environment_would(case: str) -> None:
    feed = feed_of(*CASES[case])
    policy = untrained(feed.scenario)
    rng = np.random.default_rng(1)
    sim = VectorSimulator(policy.scenario, feed.units, 8, feed.max_jobs)
    inference = inference_of(policy, feed.units)
    episodes = [feed.training(rng) for _ in range(8)]
    for env, episode in enumerate(episodes):
        sim.load(env, episode.jobs, episode.scale, episode.power)
    states = 0
    while states < 500:
        for env in np.flatnonzero(sim.terminated | sim.truncated):
            episodes[env] = feed.training(rng)
            sim.load(env, episodes[env].jobs, episodes[env].scale, episodes[env].power)
        live = np.flatnonzero(~(sim.terminated | sim.truncated))
        content = [simulated_state(sim, env, episodes[env].jobs) for env in live]
        for batch in inference.batches([BatchRequest(states=content)]):
            simulator = inference.policy_simulators.load(batch)
            for k, row in enumerate(batch.clusters.rows):
                assert (simulator.obs[k] == sim.obs[live[row]]).all()
                assert (simulator.mask[k] == sim.mask[live[row]]).all()
        as_columns = inference.batches([BatchRequest(columns=to_columns(content))])
        for batch, second in zip(inference.batches([BatchRequest(states=content)]), as_columns, strict=True):
            assert (batch.clusters.rows == second.clusters.rows).all()
            assert batch.ids == second.ids
            for array, same in zip(batch.snapshot, second.snapshot, strict=True):
                assert (array == same).all()
        greedy = np.full(8, sim.layout.num_actions - 1)
        greedy[live] = policy.act(sim.obs[live], sim.mask[live])
        for env, proposal in zip(live, decide(inference, content), strict=True):
            first = proposal.decisions[0] if proposal.decisions else None
            ids = episodes[env].jobs.id
            named = () if first is None else ("suspend",) if first.action == "suspend" else (first.job,)
            assert named == done(sim, env, greedy[env], feed, ids)
        for batch in inference.batches([BatchRequest(states=content)]):
            for item, second in zip(inference.by_policy(batch), inference.by_heuristic(batch), strict=True):
                assert (item.moves == second.moves) == (moved(item.decisions) == moved(second.decisions))
        states += len(live)
        # Off the beaten track now and then, so that other states are met, too.
        for env in live[rng.random(len(live)) < 0.3]:
            greedy[env] = rng.choice(np.flatnonzero(sim.mask[env]))
        sim.step(greedy)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["hpc", "green", "green with plans", "deeprm"])
@pytest.mark.parametrize("remembers", [False, True])
def test_a_closed_loop_comes_to_what_an_evaluation_comes_to(case: str, remembers: bool) -> None:
    name, *overrides = CASES[case]
    if name == "green-10":
        overrides.append("episode.max_ticks=200")  # of 2,000
    session = open_session(scenario.load(name, overrides), Choice(episodes=4))
    network = Network(hidden=(16,), lstm=8 if remembers else 0)
    policy = untrained(session.scenario, network)
    content = LearnedPolicies("policy", policy, policy.scenario)
    expected = play(content.scenario, session.units, session.episodes, policy)
    inference = inference_of(policy, session.units)
    longest = max(len(episode.jobs) for episode in session.episodes)
    sim = VectorSimulator(policy.scenario, session.units, 4, longest, every_term=True)
    loop = ClosedLoop(sim, inference)
    result = play_all(
        sim, session.episodes, loop.act, begin=lambda env, k: loop.begin(env, session.episodes[k].jobs)
    )
    for item, second in zip(result, expected, strict=True):
        assert (item.start == second.start).all()
        assert item.totals == second.totals
        assert item.accounts == second.accounts
    assert loop.num_decisions > 100


@pytest.mark.parametrize("rule", ["easy", "greedy"])
def test_without_the_policy_the_heuristic_does_what_it_does_anywhere(rule: str) -> None:
    feed = feed_of(*HPC)
    policy = untrained(feed.scenario)
    jobs = feed.training(np.random.default_rng(5)).jobs
    heuristic = FallbackHeuristic.named(f"sjf:{rule}", feed.scenario)
    inference = BatchInference(policy, feed.units, heuristic, 4096)
    start = np.full(len(jobs), -1)
    end = np.full(len(jobs), -1)
    now = int(jobs.submit[0])
    while (start < 0).any():
        rows = np.flatnonzero(jobs.submit <= now)
        state = ClusterState(
            now=now,
            running=[
                RunningJob(int(r), jobs.demand[r].tolist(), int(start[r]), int(start[r] + jobs.requested[r]))
                for r in rows[(start[rows] >= 0) & (end[rows] > now)]
            ],
            waiting=[
                WaitingJob(int(r), int(jobs.submit[r]), int(jobs.requested[r]), jobs.demand[r].tolist())
                for r in rows[start[rows] < 0]
            ],
        )
        (batch,) = inference.batches([BatchRequest(states=[state])])
        for decision in inference.by_heuristic(batch)[0].decisions:
            if decision.action == "start":
                start[decision.job], end[decision.job] = now, now + jobs.runtime[decision.job]
        coming = [*jobs.submit[jobs.submit > now], *end[end > now]]
        now = int(min(coming, default=now))
    assert (start == replay(jobs, feed.units, "sjf", rule)).all()


class ClosedLoop:
    """Asks the service once at every tick and does what it says, job by job."""

    def __init__(self, sim: VectorSimulator, inference: BatchInference) -> None:
        self.sim, self.inference, self.num_decisions = sim, inference, 0
        self.jobs = {}
        self.decisions: dict[int, tuple[int, list]] = {}
        self.memory: dict[int, str | None] = {}

    def begin(self, env: int, jobs: object) -> None:
        self.jobs[env] = jobs
        self.decisions.pop(env, None)
        self.memory[env] = None

    def act(self) -> np.ndarray:
        sim = self.sim
        actions = np.full(sim.num_envs, sim.layout.num_actions - 1)
        for env in np.flatnonzero(~(sim.terminated | sim.truncated)):
            actions[env] = self._single(int(env))
        return actions

    def _single(self, env: int) -> int:
        sim, now = self.sim, int(self.sim.now[env])
        if self.decisions.get(env, (None,))[0] != now:
            state = simulated_state(sim, env, self.jobs[env])
            if self.memory[env] is not None:
                state = msgspec.structs.replace(state, memory=self.memory[env])
            (proposal,) = decide(self.inference, [state])
            self.memory[env] = proposal.memory
            self.decisions[env] = (now, list(proposal.decisions))
            self.num_decisions += 1
        decisions = self.decisions[env][1]
        while decisions:
            decision = decisions.pop(0)
            if decision.score is None:  # it could not be otherwise: the simulator has done it already
                continue
            if decision.action == "suspend":
                return sim.layout.window
            (slot,) = np.flatnonzero(self.jobs[env].id[sim.queue(env)] == decision.job)
            return int(slot)
        return sim.layout.num_actions - 1
