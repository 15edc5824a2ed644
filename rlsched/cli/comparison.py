"""Comparisons of `simulate` and `evaluate`: run policies, show and write the results."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from rlsched.cli import output, tables
from rlsched.evaluate.gate import Verdict, gate_json, verdicts
from rlsched.evaluate.policies import LearnedPolicies
from rlsched.evaluate.policy import Policy
from rlsched.evaluate.policy_factory import training_overlap
from rlsched.evaluate.results import to_json
from rlsched.evaluate.seeds import named_seeds, seed_folders
from rlsched.evaluate.session import Comparison, Session
from rlsched.files import write_whole
from rlsched.report.words import gate_line, sizes, workload_name
from rlsched.scenario import SwfWorkload
from rlsched.settings import as_written

if TYPE_CHECKING:
    from rlsched.report.gantt import Gantt
    from rlsched.report.learning_curve import LearningCurves
    from rlsched.report.over_time import Timeline

PICTURED = 2
"""Most policies in a picture of an episode."""

POOLS = ("horizon", "window", "wait_pool", "admission", "suspend", "suspend_pool", "expiry", "expiry_rule")
"""Settings of `decision` that determine the pools, which trained policies keep."""

REPORT_PICTURE_JOBS = 20_000
"""Most jobs of an episode that a report draws; in longer ones, single jobs are not visible."""


def compare_and_show(
    session: Session, policies: Sequence[Policy], targets: output.Targets, *, gate: bool = False
) -> bool:
    """Run policies, print the comparison, and write it to the targets.

    Returns:
        Whether all learned policies pass the gate; True without `gate`.
    """
    console = targets.console
    print_session(console, session)
    for policy in policies:
        for warning in warnings_of(policy, session) if isinstance(policy, LearnedPolicies) else ():
            console.print(f"  {warning}", style="yellow")
    output.announce_compiling()
    began = time.perf_counter()
    runs = sum(len(policy.members) for policy in policies)
    with output.progress("simulating", runs * len(session.episodes)) as step:
        comparison = session.run(policies, step)
    jobs = sum(len(episode.jobs) for episode in session.episodes) * runs
    tables.show_result(console, comparison.result)
    console.print(f"{jobs:,} jobs in {time.perf_counter() - began:.1f} s", style=tables.FAINT)
    gate_verdicts = verdicts(comparison.result) if gate else None
    for verdict in gate_verdicts or ():
        remedy = "" if verdict.passes else f"; use {verdict.heuristic} instead"
        style = tables.GOOD if verdict.passes else tables.BAD
        line = f"{verdict.policy} {gate_line(verdict)}{remedy}"
        console.print(line, style=style, soft_wrap=True)
    write_comparison(session, comparison, policies, targets, console, gate_verdicts)
    return all(verdict.passes for verdict in gate_verdicts or ())


def print_session(console: Console, session: Session) -> None:
    """Print the workload and the episodes in a line, and repairs of the trace below it."""
    scenario, episodes = session.scenario, session.episodes
    units_by_resource = zip(*(e.jobs.cluster(session.units).tolist() for e in episodes), strict=True)
    machine = ", ".join(
        f"{sizes(units)} {resource.name}"
        for resource, units in zip(scenario.cluster.resources, units_by_resource, strict=True)
    )
    lengths = [len(episode.jobs) for episode in episodes]
    equal = min(lengths) == max(lengths)
    jobs = f"{lengths[0]:,} jobs" if equal else f"{min(lengths):,} to {max(lengths):,} jobs"
    count = f"{len(episodes)} episodes" if len(episodes) > 1 else "1 episode"
    sampled = scenario.episode.jobs and not scenario.episode.offsets
    drawn = f", drawn with seed {session.seed}" if sampled else ""
    protocol = f", protocol {session.protocol}" if session.protocol else ""
    title = f"{workload_name(scenario)} on {machine}: {count} of {jobs}{drawn}{protocol}"
    console.print(title, style="bold")
    tables.show_repairs(console, session.repairs)
    offsets = [episode.offset for episode in episodes if episode.offset is not None]
    if len(set(offsets)) < len(offsets):
        console.print(
            f"  only {len(set(offsets))} different episodes: the evaluation part has too few rows; "
            "shorten them with --jobs",
            style="yellow",
        )


def warnings_of(policy: LearnedPolicies, session: Session) -> Iterator[str]:
    """Reasons why a trained policy is not compared as named, or not on equal terms."""
    if overlap := training_overlap(policy, session):
        total = len(session.episodes)
        yield f"{policy.name} may have been trained on jobs of {overlap} of the {total} episodes"
    if policy.seeds and (missing := seed_folders(Path(policy.name)).keys() - policy.seeds.keys()):
        compared = f"compared with {named_seeds(policy.seeds)}"
        yield f"{policy.name}: no policy yet of {named_seeds(sorted(missing))}; {compared}"
    decision, trained = session.scenario.decision, policy.scenario.decision
    differing = [name for name in POOLS if getattr(trained, name) != getattr(decision, name)]
    if decision.tick_driven and differing:
        settings = ", ".join(f"decision.{name}={as_written(getattr(trained, name))}" for name in differing)
        heuristics = ", ".join(as_written(getattr(decision, name)) for name in differing)
        yield f"{policy.name} keeps {settings} of its training; the heuristics have {heuristics}"


def write_comparison(
    session: Session,
    comparison: Comparison,
    policies: Sequence[Policy],
    targets: output.Targets,
    console: Console,
    gate: Sequence[Verdict] | None,
) -> None:
    """Write JSON, picture and report, and print their names and a next step."""
    targets.write(to_json(comparison.result) | ({} if gate is None else {"gate": gate_json(gate)}))
    if targets.json not in (None, output.STDOUT):
        console.print(f"figures: {targets.json}")
    drawn = targets.report is not None or (targets.render is not None and not targets.films)
    timeline = _timeline(session, policies) if drawn else None
    if targets.render is not None:
        with output.busy("drawing"):
            extent = draw_comparison(session, comparison, policies, timeline, targets.render)
        console.print(f"picture: {targets.render}{extent}")
    if targets.report is not None:
        from rlsched.report.learning_curve import learning_of

        with output.busy("writing the report"):
            learned = [policy for policy in policies if isinstance(policy, LearnedPolicies)]
            members = [member for policy in learned for member in policy.members.values()]
            learning = learning_of([Path(member.name) for member in members])
            page = write_page(session, comparison, policies, timeline, learning, targets.report)
        console.print(f"report:  {page}")
    if targets.report is None:
        console.print("next: --report DIR writes a page with pictures", style=tables.FAINT)


def draw_comparison(
    session: Session,
    comparison: Comparison,
    policies: Sequence[Policy],
    timeline: Timeline | None,
    path: Path,
) -> str:
    """Draw the first episode under the first policies as a PNG, or under the first policy as a film.

    Returns:
        The part of the episode that a film shows, in words; empty for a picture.
    """
    from rlsched.report.gantt import draw_gantt
    from rlsched.report.style import to_png

    if path.suffix.lower() == ".gif":
        from rlsched.report.over_time import film

        first, episode = _pictured(policies[0]), session.episodes[0]
        gif, ticks = film(first, episode, session.units)
        write_whole(path, gif)
        return f" (the first {ticks:,} ticks of the first episode under {first.name} + {first.backfill})"
    if timeline is not None:
        from rlsched.report.over_time import draw_summary

        write_whole(path, to_png(draw_summary(timeline)))
    else:
        write_whole(path, to_png(draw_gantt(_gantt(session, comparison, policies))))
    return ""


def write_page(
    session: Session,
    comparison: Comparison,
    policies: Sequence[Policy],
    timeline: Timeline | None,
    learning: Sequence[LearningCurves],
    folder: Path,
) -> Path:
    """Write the HTML report."""
    from rlsched.report.html import write_report

    short = len(session.episodes[0].jobs) <= REPORT_PICTURE_JOBS
    gantts = [_gantt(session, comparison, policies)] if short and timeline is None else []
    timelines = [] if timeline is None else [timeline]
    return write_report(folder, comparison.result, gantts, learning, timelines)


def _timeline(session: Session, policies: Sequence[Policy]) -> Timeline | None:
    """The first episode over time under the first policies; None without ticks."""
    from rlsched.evaluate.history import knows_ticks, record
    from rlsched.report.over_time import Timeline

    episode = session.episodes[0]
    with output.busy("recording every tick"):
        pictured = [_pictured(policy) for policy in policies[:PICTURED] if knows_ticks(policy)]
        histories = [record(policy, episode, session.units) for policy in pictured]
    if not any(history.ticks for history in histories):
        return None
    return Timeline(_title(session), histories)


def _gantt(session: Session, comparison: Comparison, policies: Sequence[Policy]) -> Gantt:
    from rlsched.report.gantt import Gantt, Schedule

    schedules = []
    for policy in policies[:PICTURED]:
        played = comparison.runs[policy.name, policy.backfill][0]
        name = _pictured(policy).name
        schedules.append(Schedule(f"{name} + {policy.backfill}", played.jobs, played.start))
    return Gantt(
        title=_title(session),
        schedules=schedules,
        processors=int(session.episodes[0].jobs.cluster(session.units)[0]),
        tick_s=session.scenario.cluster.tick_s,
    )


def _pictured(policy: Policy) -> Policy:
    """The policy to draw: the first of several seeds."""
    return next(iter(policy.members.values()))


def _title(session: Session) -> str:
    """Name of the first episode."""
    first = session.episodes[0]
    workload = session.scenario.workload
    name = workload.file.name if isinstance(workload, SwfWorkload) else session.scenario.name
    place = "" if first.offset is None else f" from row {first.offset:,} on"
    return f"{name}: {len(first.jobs):,} jobs{place}"
