"""CoCoRL: PPO with costs within limits, each with a multiplier under PID control [Venkataswamy 2023, 6].

The advantage of a decision is that of its reward less those of its costs times their multipliers. A PID
controller moves the multipliers between batches [Stooke et al. 2020]; see `PlayedLearner.columns`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

import numpy as np
from ray.rllib.algorithms.ppo import PPO
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS

from rlsched.learn.algorithms.learners.ppo import PlayedLearner
from rlsched.learn.algorithms.ppo import LIMIT_REPORTS
from rlsched.learn.config.sections import Pid
from rlsched.learn.pid import Control, LimitCheck, control
from rlsched.learn.rllib.build import column
from rlsched.learn.rllib.sampling import LIMITED, PROJECTED
from rlsched.learn.rllib.scale import Constraint
from rlsched.learn.supervisor import Supervised

CONTROLS = "controls"
"""Key of the algorithm's state: cost -> state of its controller."""

COSTS = "paid"
"""Key of the algorithm's state: cost -> amounts of the newest episodes."""

FAR_BEYOND = 1.5
"""Multiple of a limit from which a projected cost counts; a smaller one may come from a busy start."""

LARGEST_MARGIN = 0.2
"""Largest share of a limit left unused because the mean of few validation episodes is uncertain."""


class ConstrainedPPO(Supervised, PPO):
    """PPO with multipliers that follow the costs of its episodes.

    Episodes of one batch are a biased sample. Environments begin together, and episodes with few decisions,
    which cost more than others or less, end first. So costs are means over a wave: the newest episodes, as
    many as there are environments.

    Episodes of a policy that hardly starts any job take long to end. Where the projected cost of unfinished
    episodes is far beyond a limit, that cost moves the multiplier.

    `learner_config_dict` holds the `constraints`, and in `settings` the `pid` of the controllers.

    Attributes:
        run_fraction: share of the run that is over; rates and the temperature fall with it.
        checks: cost -> its check in the last validation.
    """

    run_fraction = 0.0
    checks: Mapping[str, LimitCheck] = {}

    def setup(self, config: Any) -> None:
        """Build as RLlib does; multipliers are the initial ones until costs are known."""
        self.controls: dict[str, Control] = {}
        self.episode_costs: dict[str, list[float]] = {}
        super().setup(config)
        settings = self.config.learner_config_dict
        self.wave = self.config.num_envs_per_env_runner * max(1, self.config.num_env_runners)
        self.constraints: Sequence[Constraint] = settings["constraints"]
        self.pid = Pid.model_validate(settings["settings"]["pid"])
        self._weigh()

    def training_step(self) -> None:
        """Sample and learn, then update the multipliers by the costs of ended episodes."""
        fraction = self.run_fraction
        self.learner_group.foreach_learner(lambda learner: learner.set_run_fraction(fraction))
        before = {constraint.name: len(self._ended(constraint)) for constraint in self.constraints}
        super().training_step()
        for constraint in self.constraints:
            ended = self._ended(constraint)[before[constraint.name] :]
            known = [*self.episode_costs.get(constraint.name, ()), *ended][-self.wave :]
            self.episode_costs[constraint.name] = known
            cost = float(np.mean(known)) if len(known) == self.wave else -inf
            where = (ENV_RUNNER_RESULTS, PROJECTED, constraint.name)
            projected = float(self.metrics.peek(where, default=-inf))
            check = self.checks.get(constraint.name)
            margin = 0.0 if check is None else min(check.margin, LARGEST_MARGIN)
            if projected > max(FAR_BEYOND * constraint.limit, cost):
                self._look(constraint, projected, margin)
            elif ended and cost > -inf:
                self._look(constraint, cost, margin)
        self._weigh()

    def _ended(self, constraint: Constraint) -> list[float]:
        """Costs of the episodes that ended in this iteration."""
        costs: list[float] = self.metrics.peek(
            (ENV_RUNNER_RESULTS, LIMITED, constraint.name), default=[], compile=False
        )
        return costs

    def _look(self, constraint: Constraint, cost: float, margin: float) -> None:
        """Update a multiplier by a mean cost; its goal is the limit less a share of `margin`."""
        name, unit = constraint.name, constraint.unit
        goal = constraint.limit * (1.0 - margin)
        state = control(self.controls.get(name), cost / unit, goal / unit, self.pid)
        self.controls[name] = state
        figures = state.model_dump(include=set(LIMIT_REPORTS) - {"multiplier"})
        figures |= {figure: figures[figure] * unit for figure in ("cost", "error")}
        for figure, value in figures.items():
            self._log(name, figure, value)

    def _log(self, name: str, figure: str, value: float) -> None:
        where = (LEARNER_RESULTS, DEFAULT_MODULE_ID, column(name, figure))
        self.metrics.log_value(where, value, reduce="mean", window=1)

    def _weigh(self) -> None:
        """Set the multipliers in all learners, and log them."""
        states = [self.controls.get(constraint.name) for constraint in self.constraints]
        multipliers = [
            min(self.pid.initial, self.pid.integral_limit) if state is None else state.multiplier
            for state in states
        ]
        for constraint, multiplier in zip(self.constraints, multipliers, strict=True):
            self._log(constraint.name, "multiplier", multiplier)
        self.learner_group.foreach_learner(partial(weigh, multipliers=multipliers))

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """RLlib's state, and those of the controllers."""
        state: dict[str, Any] = super().get_state(*args, **kwargs)
        controls = {
            name: control_state.model_dump(mode="json") for name, control_state in self.controls.items()
        }
        return state | {CONTROLS: controls, COSTS: self.episode_costs}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        super().set_state(state)
        controls = state[CONTROLS].items()
        self.controls = {name: Control.model_validate(values) for name, values in controls}
        self.episode_costs = {name: list(costs) for name, costs in state[COSTS].items()}
        self._weigh()


def weigh(learner: PlayedLearner, multipliers: Sequence[float]) -> None:
    """Set the multipliers of a learner."""
    learner.multipliers = np.array(multipliers, np.float32)
