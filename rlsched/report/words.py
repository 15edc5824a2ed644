"""Numbers and findings in words, for pages and terminals."""

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
    """A unit of time."""

    name: str
    seconds: float


_TIME_UNITS = (TimeUnit("d", 86_400), TimeUnit("h", 3_600), TimeUnit("min", 60), TimeUnit("s", 1))


def time_unit(longest_s: float) -> TimeUnit:
    """The largest unit such that the longest time is at least two of it."""
    return next((unit for unit in _TIME_UNITS if abs(longest_s) >= 2 * unit.seconds), _TIME_UNITS[-1])


def sizes(units: Iterable[int]) -> str:
    """Different sizes in words: 128 or 256 or 2,048; of more than four, the smallest and the largest."""
    ordered = sorted(set(units))
    if len(ordered) > 4:
        return f"{ordered[0]:,} to {ordered[-1]:,}"
    return " or ".join(f"{size:,}" for size in ordered)


def count_of(count: int, noun: str) -> str:
    """A count with its noun, as "1 job" or "1,000 jobs"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def workload_name(scenario: Scenario) -> str:
    """The source of jobs: a file, or a model."""
    workload = scenario.workload
    return workload.file.name if isinstance(workload, SwfWorkload) else f"the {workload.kind} model"


def described(scenario: Scenario) -> str:
    """A scenario in one line: its name, workload, cluster and episodes."""
    machine = ", ".join(
        f"{'unknown' if None in units else sizes(unit or 0 for unit in units)} {resource.name}"
        for units, resource in zip(scenario.sizes, scenario.cluster.resources, strict=True)
    )
    source, length = workload_name(scenario), episode_length(scenario)
    return f"scenario {scenario.name}: jobs of {source} on {machine}, episodes of {length}"


def episode_length(scenario: Scenario) -> str:
    """The length of an episode, in ticks or jobs."""
    episode = scenario.episode
    if episode.max_ticks is not None:
        return f"{episode.max_ticks:,} ticks of {scenario.cluster.tick_s:,} s"
    return f"{episode.jobs:,} jobs" if episode.jobs else "the whole workload"


def number(value: float) -> str:
    """Three significant digits, with separators of thousands; a dash for NaN and infinity."""
    if not isfinite(value):
        return "–"  # noqa: RUF001 - the usual sign for a missing figure
    if value == int(value) or abs(value) >= 100:
        digits = 0
    else:
        digits = min(2 - floor(log10(abs(value))), 6)
    text = f"{value:,.{digits}f}"
    return text.replace("-", "−") if float(text.replace(",", "")) else "0"  # noqa: RUF001 - a real minus


class Scale(NamedTuple):
    """Format of a metric: a factor, and the unit behind the number."""

    factor: float
    suffix: str

    def __call__(self, value: float) -> str:
        """The number without its unit."""
        return number(value * self.factor)


def scale_for(unit: str, values: Iterable[float]) -> Scale:
    """One scale for all values of a metric: times in the unit of the longest, shares in percent."""
    if unit == "s":
        chosen = time_unit(max((abs(value) for value in values if isfinite(value)), default=0.0))
        return Scale(1 / chosen.seconds, f" {chosen.name}")
    if unit == "share":
        return Scale(100.0, " %")
    return Scale(1.0, "" if unit in {"ratio", "value", "cost"} else f" {unit}")


def in_words(name: str) -> str:
    """A metric in words; the keys of settings are unchanged."""
    return name if "." in name and not name.startswith("cost.") else name.replace("_", " ")


def labelled(name: str, scale: Scale) -> str:
    """A metric with its unit, which some names already contain."""
    unit = scale.suffix.strip()
    if not unit:
        return in_words(name)
    inside = f"_{unit.lower()}"
    return f"{in_words(name[: -len(inside)] if name.lower().endswith(inside) else name)} ({unit})"


def written(value: float, unit: str) -> str:
    """A value with its unit."""
    scale = scale_for(unit, [value])
    return scale(value) + (scale.suffix if isfinite(value) else "")


def judgement(finding: Breach) -> str:
    """The result of the hoarding check in words."""
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


def gate_line(verdict: Verdict, trace: str = "") -> str:
    """The verdict of the gate on a policy, with the figures, as a predicate; on a trace, if it is named."""
    place = f" on {trace}" if trace else ""
    if verdict.passes:
        return f"passes the gate{place}: {_against(verdict)}"
    reasons = [] if verdict.against in {"better", "level"} else [_against(verdict)]
    if verdict.hoarding is not None and verdict.hoards:
        finding = judgement(verdict.hoarding).removeprefix("does not count: ")
        reasons.append(f"hoards: {finding}" if verdict.hoarding.breached else f"hoarding {finding}")
    reasons += [f"{cost_of(check)} {within(check)}" for check in verdict.broken]
    return f"fails the gate{place}: {'; '.join(reasons)}"


def _against(verdict: Verdict) -> str:
    """The comparison of a policy with the best heuristic, with the figures."""
    episodes = count_of(verdict.episodes, "episode")
    if verdict.against == "unknown":
        return f"{in_words(verdict.metric)} could be measured in {episodes} only"
    scale = scale_for(measure(verdict.metric).unit, [verdict.mean, verdict.heuristic_mean])
    sign = "+" if verdict.difference > 0 else ""
    side = "level with" if verdict.against == "level" else f"{verdict.against} than"
    return (
        f"{side} {verdict.heuristic} in {labelled(verdict.metric, scale)}: {scale(verdict.mean)} against "
        f"{scale(verdict.heuristic_mean)}, difference {sign}{scale(verdict.difference)} "
        f"[{scale(verdict.low)}, {scale(verdict.high)}] over {episodes}"
    )


def cost_of(check: LimitCheck) -> str:
    """A cost with a limit, per job or per episode."""
    return f"{check.cost.replace('_', ' ')} of {'a job' if check.per == 'job' else 'an episode'}"


def within(check: LimitCheck) -> str:
    """The result of a limit check in words."""
    breaks = _alone(check.seeds_above, "breaks it", "break it")
    alone = f"; {breaks}" if breaks else ""
    if not check.met:
        share = f" by {100 * (check.mean / check.limit - 1):.1f} %" if check.limit else ""
        return f"broken{share}" + (", within the interval" if check.low <= check.limit else "") + alone
    return ("kept" if check.high <= check.limit else "kept on average") + alone


def _alone(seeds: Sequence[int], singular: str, plural: str) -> str:
    """The seeds that differ from the whole when judged alone; empty if none does."""
    return f"{named_seeds(seeds)} alone {plural if len(seeds) > 1 else singular}" if seeds else ""


def seed_range(row: SeedRow, scale: Scale, *, named: bool = True) -> str:
    """Means of the best and the worst seed; a dash without measured values."""
    ranked = row.ranked()
    if not ranked:
        return number(nan)
    ends = (ranked[0], ranked[-1])
    return " to ".join(scale(mean) + (f" (seed {seed})" if named else "") for seed, mean in ends)
