"""VectorSimulator: N environments of one scenario, stepped in one compiled call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray, JobTable
from rlsched.scenario import Scenario
from rlsched.sim.compiled import kernel
from rlsched.sim.decide import (
    ALL_FINISHED,
    MAX_TICKS,
    NO_NEW_JOB,
    TERMS,
    Outcome,
    Rules,
    advance,
    open_episode,
)
from rlsched.sim.layout import Layout, job_features
from rlsched.sim.observe import ABSENT, View, observe
from rlsched.sim.state import State, allocate, load, starts

ENDS = {"all_finished": ALL_FINISHED, "no_new_job": NO_NEW_JOB, "max_ticks": MAX_TICKS}


class VectorSimulator:
    """N clusters under a scenario's decision rules, observations and objective.

    Each environment is given its episode by `load`, and is then stepped with all others by `step`. All
    arrays are views of the simulator's own memory and are overwritten by the next call.

    Attributes:
        layout: where the observation blocks stand.
        obs: (env, layout.size) float32.
        mask: (env, action) int8, 1 where legal; the no-op is last.
        reward: (env,) of the last transition.
        terms: (env, term) of the last transition, in the order of `TERMS`.
        elapsed: (env,) ticks of the last transition.
        terminated: (env,) whether the episode has ended.
        truncated: (env,) whether it was cut.
    """

    def __init__(self, scenario: Scenario, units: Sequence[int], num_envs: int, max_jobs: int) -> None:
        self.scenario = scenario
        self.num_envs = num_envs
        self.layout = Layout.of(scenario.observation, scenario.decision, len(units))
        self._state = allocate(num_envs, max_jobs, units)
        self._rules = _rules(scenario)
        self._outcome = _outcome(num_envs, self.layout, scenario.decision.window)
        self._view = _view(num_envs, self.layout, scenario)
        self.obs = self._view.vector
        self.mask = self._outcome.mask
        self.reward = self._outcome.reward
        self.terms = self._outcome.terms
        self.elapsed = self._outcome.elapsed
        self.terminated = self._outcome.terminated
        self.truncated = self._outcome.truncated
        self.free = self._state.free
        self.units = self._state.units

    @property
    def now(self) -> IntArray:
        """(env,) clock in ticks."""
        return self._state.episodes["now"]

    def load(self, env: int, jobs: JobTable, scale: float = 1.0) -> None:
        """Begin an episode in one environment and go on to its first question.

        An episode in which nothing is ever to be decided is over at once.

        Args:
            env: which environment.
            jobs: in submit order, within the cluster.
            scale: factor on this episode's rewards.

        Raises:
            BadInputError: jobs that cannot be simulated.
        """
        load(self._state, env, jobs, tick_s=self.scenario.cluster.tick_s, scale=scale)
        _open(self._state, self._outcome, self._rules, self._view, env)

    def step(self, actions: IntArray) -> None:
        """One transition of every environment; where an episode is over, nothing happens.

        Args:
            actions: (env,) each legal under `mask`.

        Raises:
            ValueError: an action is illegal.
        """
        problem = _step(self._state, self._outcome, self._rules, self._view, actions)
        if problem >= 0:
            raise ValueError(
                f"action {actions[problem]} of environment {problem} is illegal: choose one its mask allows"
            )

    def starts(self, env: int) -> IntArray:
        """(jobs,) start tick of every job of the episode, -1 not started."""
        return starts(self._state, env)

    def queue(self, env: int) -> NDArray[np.int32]:
        """(waiting,) rows of the waiting jobs, oldest first."""
        e = self._state.episodes[env]
        return self._state.queue[env, e["queue_lo"] : e["queue_hi"]].copy()


@kernel
def _open(s: State, o: Outcome, rules: Rules, v: View, i: int) -> None:
    open_episode(s, o, rules, i)
    v.num_shown[i] = 0
    v.vector[i, :] = 0.0
    observe(s, o, v, i, rules.window)


@kernel
def _step(s: State, o: Outcome, rules: Rules, v: View, actions: IntArray) -> int:
    """Step all environments; the first with an illegal action, before anything has moved, or -1."""
    for i in range(len(actions)):
        if actions[i] < 0 or actions[i] > rules.window or o.mask[i, actions[i]] == 0:
            return i
    for i in range(len(actions)):
        advance(s, o, rules, i, actions[i])
        observe(s, o, v, i, rules.window)
    return -1


def _rules(scenario: Scenario) -> Rules:
    decision, objective, episode = scenario.decision, scenario.objective, scenario.episode
    weights = {str(term): weight for term, weight in objective.reward.items()}
    return Rules(
        window=decision.window,
        commit=decision.action_rule == "commit",
        tick_rule=decision.time_rule == "tick",
        sparse=decision.time_rule == "sparse",
        skip_forced=decision.skip_forced,
        gamma=objective.gamma,
        window_scope=objective.scope == "window",
        end=ENDS[episode.end],
        max_ticks=episode.max_ticks or 0,
        weights=np.array([weights.get(term, 0.0) for term in TERMS]),
    )


def _outcome(num_envs: int, layout: Layout, window: int) -> Outcome:
    return Outcome(
        mask=np.zeros((num_envs, layout.num_actions), np.int8),
        fits=np.zeros((num_envs, window), np.int8),
        terms=np.zeros((num_envs, len(TERMS))),
        reward=np.zeros(num_envs),
        elapsed=np.zeros(num_envs, np.int64),
        terminated=np.zeros(num_envs, np.bool_),
        truncated=np.zeros(num_envs, np.bool_),
    )


def _view(num_envs: int, layout: Layout, scenario: Scenario) -> View:
    def offset(name: str) -> int:
        block = layout.block(name)
        return ABSENT if block is None else block.offset

    scratch = max(scenario.decision.window, scenario.observation.event_horizon)
    numbers, mantissas = np.ones(scratch, np.float32), np.ones(scratch, np.float32)
    return View(
        vector=np.zeros((num_envs, layout.size), np.float32),
        shown=np.zeros((num_envs, scenario.decision.window), np.int32),
        num_shown=np.zeros(num_envs, np.int64),
        jobs_at=offset("jobs"),
        events_at=offset("event_horizon"),
        queue_at=offset("queue"),
        outlook_at=offset("outlook"),
        job_columns=len(job_features(layout.num_resources)),
        num_events=scenario.observation.event_horizon,
        log_time=float(1.0 / np.log2(1.0 + scenario.observation.time_scale_s / scenario.cluster.tick_s)),
        tick_s=float(scenario.cluster.tick_s),
        rows=np.zeros(scratch, np.int32),
        numbers=numbers,
        number_bits=numbers.view(np.int32),
        mantissas=mantissas,
        mantissa_bits=mantissas.view(np.int32),
    )
