"""The result of `simulate` and `evaluate`, and its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any, Literal

from rlsched.evaluate.hoarding import Breach, hoarding, hoarding_applies
from rlsched.evaluate.limits import LimitCheck
from rlsched.evaluate.statistics import EpisodeResult, SeedRow, SummaryRow, Table, summarise, summarise_seeds
from rlsched.scenario import ResolvedScenario

Protocol = Literal["rlscheduler"]


@dataclass(frozen=True)
class Result:
    """A finished comparison of policies.

    Attributes:
        scenario: what was simulated.
        episodes: one entry per policy, seed of its training where there are several, and episode.
        summary: one row per policy and metric.
        hoarding: one finding per learned policy, where all jobs are run to their end.
        protocol: the published protocol that was followed, if any.
        repairs: what was dropped or mended while loading jobs, with counts.
        limits: costs of learned policies against the limits that they were trained with.
        seeds: one row per metric of each policy that was trained with several seeds.
    """

    scenario: ResolvedScenario
    episodes: Sequence[EpisodeResult]
    summary: Sequence[SummaryRow]
    hoarding: Sequence[Breach]
    protocol: Protocol | None = None
    repairs: Mapping[str, int] = field(default_factory=dict)
    limits: Sequence[LimitCheck] = ()
    seeds: Sequence[SeedRow] = ()

    @classmethod
    def of(
        cls,
        scenario: ResolvedScenario,
        episodes: Sequence[EpisodeResult],
        *,
        protocol: Protocol | None = None,
        repairs: Mapping[str, int] | None = None,
        limits: Sequence[LimitCheck] = (),
        seed: int = 0,
    ) -> Result:
        """Compare policies over their episodes; `seed` is that of the bootstrap.

        Raises:
            ValueError: the episodes are not the same for all policies.
        """
        table = Table.of(episodes)
        breaches = hoarding(table) if hoarding_applies(scenario) else []
        rows = summarise(table, seed)
        seeds = summarise_seeds(table, rows, seed)
        return cls(scenario, episodes, rows, breaches, protocol, dict(repairs or {}), limits, seeds)


def to_json(result: Result) -> dict[str, Any]:
    """Plain values in the shape of --json, ready for `json.dumps(..., allow_nan=False)`.

    What could not be measured is null: NaN and infinity are not JSON.
    """
    values = {
        "schema": 1,
        "scenario": result.scenario.model_dump(mode="json"),
        "protocol": result.protocol,
        "episodes": [asdict(episode) for episode in result.episodes],
        "summary": [asdict(row) for row in result.summary],
        "repairs": dict(result.repairs),
        "hoarding": [asdict(finding) for finding in result.hoarding],
        "limits": [_limit(check) for check in result.limits],
        "seeds": [asdict(row) for row in result.seeds],
    }
    plain: dict[str, Any] = finite(values)
    return plain


def _limit(check: LimitCheck) -> dict[str, Any]:
    values = {"paid" if name == "mean" else name: value for name, value in asdict(check).items()}
    return values | {"kept": check.met}


def finite(value: Any) -> Any:
    """Nested values in plain Python types, with None in place of numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if hasattr(value, "item"):  # numpy scalars, which json does not know
        value = value.item()
    if isinstance(value, float) and not isfinite(value):
        return None
    return value
