"""Launchpad: RARE from a dataset first, then online [Venkataswamy 2023, 7.4; Ball et al. 2023]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from rlsched.learn.algorithms.base import register
from rlsched.learn.algorithms.rare import Phases, Rare, RareAlgorithm
from rlsched.settings import Frozen, SettingError

if TYPE_CHECKING:
    from rlsched.learn.config.training import ResolvedConfig, TrainConfig


class Launchpad(Frozen):
    """RARE from a dataset first, then online [Venkataswamy 2023, 7.4]."""

    renamed: ClassVar[Mapping[str, str]] = {"heat": "temperature"}

    rows: int = Field(
        1_000_000,
        ge=1,
        description="decisions of offline training before online training",
    )
    share: float = Field(
        0.25, ge=0, lt=1, description="share of every batch that comes from the dataset in online training"
    )
    temperature: float = Field(
        3.0,
        ge=1,
        description="divisor of the policy's logits in online training: after offline training they are "
        "too certain for exploration",
    )


@register
class LaunchpadAlgorithm(RareAlgorithm):
    """RARE that pre-trains on a dataset, then trains online and still samples a share from the dataset.

    The losses are those of RARE; each batch of the critics has a constant share of recorded decisions
    [Venkataswamy 2023, 7.4; Ball et al. 2023].
    """

    name = "launchpad"
    summary = (
        "offline to online: RARE trains on a dataset first, then on its own episodes mixed with a share of "
        "the dataset; settings of rare and launchpad; --dataset"
    )
    source = "Venkataswamy 2023; Ball et al. 2023"
    sections: ClassVar[dict[str, type[Frozen]]] = {"rare": Rare, "launchpad": Launchpad}
    dataset = "required"
    default_steps = 2_000_000

    def plays(self, config: TrainConfig) -> bool:
        """True: it samples episodes after pre-training."""
        return True

    def check(self, config: TrainConfig) -> None:
        """Refuse a run that ends before online training."""
        super().check(config)
        rows = config.section(Launchpad).rows
        if config.steps is not None and config.steps <= rows:
            raise SettingError(
                "launchpad.rows",
                f"value {rows} is no less than steps {config.steps}: nothing would be played",
                "set less, or more steps",
            )

    def pretraining_steps(self, config: TrainConfig) -> int:
        """Decisions of offline pre-training."""
        return config.section(Launchpad).rows

    def module_settings(self, config: ResolvedConfig) -> dict[str, Any]:
        """Temperature of rollouts."""
        return {"rollout_temperature": config.section(Launchpad).temperature}

    def phases(self, config: ResolvedConfig) -> Phases:
        """Pre-training from the dataset, then online training."""
        launchpad = config.section(Launchpad)
        return Phases(float(launchpad.rows), config.section(Rare).imitate, launchpad.share)

    def parts_of_run(self, config: ResolvedConfig) -> tuple[int, ...]:
        """Ends of pre-training and of the run: the learning rate begins anew with online training."""
        return (config.section(Launchpad).rows, config.steps)
