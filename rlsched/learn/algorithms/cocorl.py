"""CoCoRL: PPO that requires costs with limits [Venkataswamy 2023, 6]."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from rlsched.learn.algorithms.base import register
from rlsched.learn.algorithms.ppo import Ppo, PpoAlgorithm
from rlsched.learn.config.sections import Pid
from rlsched.settings import Frozen

if TYPE_CHECKING:
    from rlsched.learn.config.training import Config
    from rlsched.scenario import Scenario


class Cocorl(Ppo):
    """PPO with defaults for costs with limits; a run without a limit is refused [Venkataswamy 2023, 6]."""

    fragment: int | None = Field(128, ge=1, description="decisions per environment and batch")
    learning_rate: float = Field(1e-3, gt=0, description="learning rate at the start of training")
    epochs: int = Field(2, ge=1, description="passes over each batch")
    minibatch: int = Field(2048, ge=1, description="decisions per minibatch")
    entropy: float = Field(0.0, ge=0, description="weight of the entropy bonus")
    final_entropy: float = Field(0.0, ge=0, description="weight at the end, reached linearly")
    final_temperature: float = Field(
        1.0, gt=0, description="final divisor of logits, falling from 1 over the first half of a run"
    )
    cost_lambda: float | None = Field(0.98, ge=0, le=1, description="lambda of GAE for costs, per tick")
    pid: Pid = Field(Pid(), description="of the multipliers of limits")
    calibration: float | None = Field(None, ge=0, lt=1, description="as ppo.calibration")


@register
class CocorlAlgorithm(PpoAlgorithm):
    """Constrained PPO, with larger batches and stronger controllers of the multipliers.

    The objective is that of PPO, whose advantage is A - sum of m_c A_c over the costs c. A PID controller
    moves each multiplier m_c by the difference of its cost from the limit [Stooke et al. 2020; Venkataswamy
    2023, algorithm 7].
    """

    name = "cocorl"
    summary = (
        "constrained PPO: each cost with a limit has a Lagrange multiplier under PID control; refused "
        "without limits"
    )
    source = "Venkataswamy 2023; Stooke et al. 2020"
    sections: ClassVar[dict[str, type[Frozen]]] = {"cocorl": Cocorl}
    requires_limits = True
    clock_episodes = 128

    def usual_lambda(self, scenario: Scenario) -> float:
        """The discount."""
        return scenario.objective.gamma


def without_limits(config: Config) -> Config:
    """Settings for a policy without limits: ppo with the rates, networks and batches of cocorl."""
    cocorl: Cocorl = config.cocorl
    shared = {name: getattr(cocorl, name) for name in Ppo.model_fields}
    return config.model_copy(update={"algo": "ppo", "ppo": config.ppo.model_copy(update=shared)})
