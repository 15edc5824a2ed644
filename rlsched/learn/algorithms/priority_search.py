"""Priority functions found by CMA-ES [Carastan-Santos and de Camargo 2017; Hansen 2016]."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from rlsched.learn.algorithms.base import Algorithm, register
from rlsched.learn.config.sections import Pid
from rlsched.settings import Frozen

if TYPE_CHECKING:
    from rlsched.envs.episodes import EpisodeFeed
    from rlsched.learn.config.training import Config, ResolvedConfig, TrainConfig
    from rlsched.learn.engine import Engine
    from rlsched.scenario import Scenario


class Search(Frozen):
    """Evolution of a priority function [Hansen 2016]."""

    population: int = Field(24, ge=4, description="candidates per generation")
    episodes: int = Field(16, ge=1, description="training episodes that all of them play")
    sigma: float = Field(0.3, gt=0, description="initial step size")
    pid: Pid = Field(
        Pid(kp=1.0, ki=0.2, kd=0.0, error_smoothing=0.9),
        description="of what waits, spans and unfinished jobs near the limits of hoarding cost a candidate, "
        "in shares of the usual return",
    )
    start: str | None = Field(
        None,
        description="folder of a trained priority function that the search begins with, of any cluster or "
        "window; null: zeros, on a horizon what fills the cluster",
    )


@register
class PrioritySearchAlgorithm(Algorithm):
    """CMA-ES over the weights of a score of jobs.

    Each candidate of a generation plays the same episodes; it minimises the mean return, negated, plus the
    penalties of hoarding [Hansen 2016; Carastan-Santos and de Camargo 2017].
    """

    name = "priority_search"
    summary = (
        "evolution (CMA-ES) of a priority function of jobs, linear or with network.priority_units hidden "
        "units, on whole episodes; needs no Ray"
    )
    source = "Carastan-Santos and de Camargo 2017; Hansen 2016"
    sections: ClassVar[dict[str, type[Frozen]]] = {"search": Search}
    engine = "search"
    default_steps = 100_000_000

    def check(self, config: TrainConfig) -> None:
        """Refuse networks other than priority functions."""
        if config.network.kind in ("mlp", "cnn"):
            raise ValueError(f"priority_search finds no network.kind {config.network.kind}: remove it")

    def defaults(self, config: TrainConfig, scenario: Scenario) -> Mapping[str, object]:
        """Default network: a priority function."""
        return {"network": config.network.model_copy(update={"kind": "priority"})}

    def initial_policy(self, config: TrainConfig) -> str | None:
        """Folder of the priority function that the search begins with."""
        search: Search = config.search
        return search.start

    def with_initial_policy(self, config: Config, folder: Path) -> Config:
        """Copy of the settings with another initial priority function."""
        return config.model_copy(
            update={"search": config.section(Search).model_copy(update={"start": str(folder)})}
        )

    def check_initial_policy(self, config: ResolvedConfig, feed: EpisodeFeed) -> None:
        """Check that the search can begin with that priority function."""
        from rlsched.learn.algorithms.learners.search_start import initial_parameters
        from rlsched.sim.layout import Layout

        if (start := self.initial_policy(config)) is not None:
            scenario = feed.scenario
            layout = Layout.of(scenario.observation, scenario.decision, len(feed.units))
            initial_parameters(layout, config.network, start)

    def open_engine(self, config: ResolvedConfig, feed: EpisodeFeed, iteration: int, steps: int) -> Engine:
        """Build the search, ready to run."""
        from rlsched.learn.algorithms.learners.search import SearchEngine

        return SearchEngine(config, feed, iteration)
