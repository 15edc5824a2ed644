"""Numbers and findings as people read them, for pages and terminals alike; nothing here draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, isfinite, log10, nan
from typing import NamedTuple

from rlsched.evaluate.gate import Verdict
from rlsched.evaluate.hoarding import SPAN_LIMIT, WAIT_LIMIT, Breach
from rlsched.evaluate.limits import LimitCheck
from rlsched.evaluate.measures import measure
from rlsched.evaluate.seeds import named_seeds
from rlsched.evaluate.statistics import SeedRow
from rlsched.scenario import Scenario, SwfWorkload


class TimeUnit(NamedTuple):
    """A unit in which a span of time is read."""

    name: str
    seconds: float


_TIME_UNITS = (TimeUnit("d", 86_400), TimeUnit("h", 3_600), TimeUnit("min", 60), TimeUnit("s", 1))


def time_unit(longest_s: float) -> TimeUnit:
    """The largest unit of which the longest time is at least two."""
    return next((unit for unit in _TIME_UNITS if abs(longest_s) >= 2 * unit.seconds), _TIME_UNITS[-1])


def sizes(units: Iterable[int]) -> str:
    """Each size once: 128 or 256 or 2,048; of more than four the smallest and the largest."""
    once = sorted(set(units))
    if len(once) > 4:
        return f"{once[0]:,} to {once[-1]:,}"
    return " or ".join(f"{each:,}" for each in once)


def workload_name(scenario: Scenario) -> str:
    """Where jobs come from: a file, or a model."""
    workload = scenario.workload
    return workload.file.name if isinstance(workload, SwfWorkload) else f"the {workload.kind} model"


def described(scenario: Scenario) -> str:
    """A scenario in one line: its name, workload, cluster and episodes; units of the cluster are known."""
    machine = ", ".join(
        f"{'unknown' if None in units else sizes(unit or 0 for unit in units)} {resource.name}"
        for units, resource in zip(scenario.sizes, scenario.cluster.resources, strict=True)
    )
    episode = scenario.episode
    length = f"{episode.jobs:,} jobs" if episode.jobs else "the whole workload"
    if episode.max_ticks is not None:
        length = f"{episode.max_ticks:,} ticks of {scenario.cluster.tick_s:,} s"
    source = workload_name(scenario)
    return f"scenario {scenario.name}: jobs of {source} on {machine}, episodes of {length}"


def number(value: float) -> str:
    """Three significant digits, thousands separated; a dash where it was not measured."""
    if not isfinite(value):
        return "–"  # noqa: RUF001 - the usual sign for a missing figure
    if value == int(value) or abs(value) >= 100:
        digits = 0
    else:
        digits = min(2 - floor(log10(abs(value))), 6)
    text = f"{value:,.{digits}f}"
    return text.replace("-", "−") if float(text.replace(",", "")) else "0"  # noqa: RUF001 - a real minus


class Scale(NamedTuple):
    """How the values of a metric are written: factor and what stands behind the number."""

    factor: float
    suffix: str

    def __call__(self, value: float) -> str:
        """The number without its unit."""
        return number(value * self.factor)


def scale_for(unit: str, values: Iterable[float]) -> Scale:
    """One scale for all values of a metric: times in the unit that suits the longest, shares in percent."""
    if unit == "s":
        chosen = time_unit(max((abs(value) for value in values if isfinite(value)), default=0.0))
        return Scale(1 / chosen.seconds, f" {chosen.name}")
    if unit == "share":
        return Scale(100.0, " %")
    return Scale(1.0, "" if unit in {"ratio", "value", "cost"} else f" {unit}")


def in_words(name: str) -> str:
    """A metric as it is read; settings are spelt as they are set."""
    return name if "." in name and not name.startswith("cost.") else name.replace("_", " ")


def labelled(name: str, scale: Scale) -> str:
    """A metric with its unit, said once: some have it in their name."""
    unit = scale.suffix.strip()
    if not unit:
        return in_words(name)
    inside = f"_{unit.lower()}"
    return f"{in_words(name[: -len(inside)] if name.lower().endswith(inside) else name)} ({unit})"


def written(value: float, unit: str) -> str:
    """One value with its unit."""
    scale = scale_for(unit, [value])
    return scale(value) + (scale.suffix if isfinite(value) else "")


def judgement(finding: Breach) -> str:
    """What the hoarding check found, in plain words."""
    if finding.breached is None:
        return "not judged: add greedy sjf to the comparison"
    hoards = _alone(finding.seeds_breached, "hoards", "hoard")
    if not finding.breached:
        return f"counts as a whole: {hoards}" if hoards else "counts"
    reasons = []
    if finding.span_ratio > SPAN_LIMIT:
        reasons.append("it pushes jobs past the end of the sequence")
    if finding.wait_ratio > WAIT_LIMIT:
        reasons.append("its jobs wait too long on average")
    if finding.completion < finding.reference_completion:
        reasons.append("it leaves jobs unfinished that sjf finishes")
    if hoards:
        reasons.append(hoards)
    return f"does not count: {'; '.join(reasons)}"


def gate_line(found: Verdict, trace: str = "") -> str:
    """What the gate says of a policy, which is the subject of the line, with the figures.

    Args:
        found: by the gate.
        trace: on which; empty: it is said elsewhere.
    """
    there = f" on {trace}" if trace else ""
    if found.passes:
        return f"passes the gate{there}: {_against(found)}"
    reasons = [] if found.against in {"better", "level"} else [_against(found)]
    if found.hoarding is not None and found.hoards:
        said = judgement(found.hoarding).removeprefix("does not count: ")
        reasons.append(f"hoards: {said}" if found.hoarding.breached else f"hoarding {said}")
    reasons += [f"{cost_of(one)} {within(one)}" for one in found.broken]
    return f"stands back{there}: {'; '.join(reasons)}"


def _against(found: Verdict) -> str:
    """How a policy compares with the best heuristic, with the figures."""
    many = f"{found.episodes} episode{'' if found.episodes == 1 else 's'}"
    if found.against == "unknown":
        return f"{in_words(found.metric)} could be measured in {many} only"
    scale = scale_for(measure(found.metric).unit, [found.mean, found.heuristic_mean])
    sign = "+" if found.difference > 0 else ""
    side = "level with" if found.against == "level" else f"{found.against} than"
    return (
        f"{side} {found.heuristic} in {labelled(found.metric, scale)}: {scale(found.mean)} against "
        f"{scale(found.heuristic_mean)}, difference {sign}{scale(found.difference)} "
        f"[{scale(found.low)}, {scale(found.high)}] over {many}"
    )


def cost_of(found: LimitCheck) -> str:
    """A cost that has a limit, and of what."""
    return f"{found.cost.replace('_', ' ')} of {'a job' if found.per == 'job' else 'an episode'}"


def within(found: LimitCheck) -> str:
    """Whether a limit is kept, in plain words."""
    breaks = _alone(found.seeds_above, "breaks it", "break it")
    alone = f"; {breaks}" if breaks else ""
    if not found.met:
        share = f" by {100 * (found.mean / found.limit - 1):.1f} %" if found.limit else ""
        return f"broken{share}" + (", within the interval" if found.low <= found.limit else "") + alone
    return ("kept" if found.high <= found.limit else "kept on average") + alone


def _alone(seeds: Sequence[int], one: str, several: str) -> str:
    """Which seeds do something when each is judged alone; empty where none does."""
    return f"{named_seeds(seeds)} alone {several if len(seeds) > 1 else one}" if seeds else ""


def seed_range(row: SeedRow, scale: Scale, *, named: bool = True) -> str:
    """The means of the best and of the worst seed; a dash where nothing was measured."""
    ranked = row.ranked()
    if not ranked:
        return number(nan)
    ends = (ranked[0], ranked[-1])
    return " to ".join(scale(mean) + (f" (seed {seed})" if named else "") for seed, mean in ends)
