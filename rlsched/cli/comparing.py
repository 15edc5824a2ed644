"""What `simulate` and `evaluate` share: run a session, show it, write it, say what next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from rlsched.cli import output, tables
from rlsched.evaluate.compare import Comparison
from rlsched.evaluate.gate import Verdict, gate_json, verdicts
from rlsched.evaluate.policies import LearnedPolicies
from rlsched.evaluate.policy import Policy
from rlsched.evaluate.policy_factory import training_overlap
from rlsched.evaluate.results import to_json
from rlsched.evaluate.seeds import named_seeds, seed_folders
from rlsched.evaluate.session import Session
from rlsched.files import write_whole
from rlsched.report.words import gate_line, sizes, workload_name
from rlsched.scenario import SwfWorkload
from rlsched.settings import as_written

if TYPE_CHECKING:
    from rlsched.report.gantt import Gantt
    from rlsched.report.learning_curve import LearningCurves
    from rlsched.report.over_time import Timeline

PICTURED = 2
"""Policies in a picture of an episode: more are too small to read."""

POOLS = ("horizon", "window", "wait_pool", "admission", "suspend", "suspend_pool", "expiry")
"""Settings of `decision` that say which jobs there are to choose among, and what may become of them."""

REPORT_PICTURE_JOBS = 20_000
"""Longer episodes are drawn only where a picture is asked for: single jobs can no longer be seen."""


def compare_and_show(
    session: Session, racing: Sequence[Policy], targets: output.Targets, *, gate: bool = False
) -> bool:
    """Run the policies, print the comparison, and write what was asked for.

    Args:
        session: what is run.
        racing: by whom.
        targets: what is to be written.
        gate: also judge whether learned policies may act.

    Returns:
        Whether all of them pass the gate; True where it was not asked for.
    """
    console = output.people(targets.json)
    show_setting(console, session)
    warn_of_training(console, session, racing)
    tell_of_missing_seeds(console, racing)
    tell_of_own_pools(console, session, racing)
    output.announce_compiling()
    clock = output.Clock()
    players = sum(len(policy.members) for policy in racing)
    with output.progress("simulating", players * len(session.episodes)) as step:
        comparison = session.run(racing, step)
    jobs = sum(len(episode.jobs) for episode in session.episodes) * players
    tables.show_result(console, comparison.result)
    console.print(f"{jobs:,} jobs in {clock.seconds:.1f} s", style=tables.FAINT)
    found = verdicts(comparison.result) if gate else None
    for one in found or ():
        line = f"{one.policy} {gate_line(one)}" + ("" if one.passes else f"; let {one.heuristic} act instead")
        style = tables.GOOD if one.passes else tables.BAD
        console.print(line, style=style, markup=False, soft_wrap=True)
    write(session, comparison, racing, targets, console, found)
    return all(one.passes for one in found or ())


def show_setting(console: Console, session: Session) -> None:
    """One line on what is run, and what became of the jobs that were read."""
    scenario, episodes = session.scenario, session.episodes
    of_each = zip(*(episode.jobs.cluster(session.units).tolist() for episode in episodes), strict=True)
    machine = ", ".join(
        f"{sizes(units)} {resource.name}"
        for resource, units in zip(scenario.cluster.resources, of_each, strict=True)
    )
    lengths = [len(episode.jobs) for episode in episodes]
    alike = min(lengths) == max(lengths)
    jobs = f"{lengths[0]:,} jobs" if alike else f"{min(lengths):,} to {max(lengths):,} jobs"
    many = f"{len(episodes)} episodes" if len(episodes) > 1 else "1 episode"
    drawn = (
        f", drawn with seed {session.seed}" if scenario.episode.jobs and not scenario.episode.offsets else ""
    )
    how = f", protocol {session.protocol}" if session.protocol else ""
    console.print(
        f"{workload_name(scenario)} on {machine}: {many} of {jobs}{drawn}{how}",
        style="bold",
        markup=False,
    )
    tables.show_repairs(console, session.repairs)
    offsets = [episode.offset for episode in episodes if episode.offset is not None]
    if len(set(offsets)) < len(offsets):
        console.print(
            f"  only {len(set(offsets))} different episodes: too few rows are left for evaluation; "
            "shorten them with --jobs",
            style="yellow",
        )


def warn_of_training(console: Console, session: Session, racing: Sequence[Policy]) -> None:
    """Say where a trained policy meets jobs it was trained on."""
    for policy in racing:
        if isinstance(policy, LearnedPolicies) and (seen := training_overlap(policy, session)):
            console.print(
                f"  {policy.name} may have been trained on jobs of {seen} of the "
                f"{len(session.episodes)} episodes",
                style="yellow",
                markup=False,
            )


def tell_of_missing_seeds(console: Console, racing: Sequence[Policy]) -> None:
    """Say where seeds of a training have no policy yet, so that only the others are compared."""
    for policy in racing:
        if isinstance(policy, LearnedPolicies) and policy.seeds:
            missing = seed_folders(Path(policy.name)).keys() - policy.seeds.keys()
            if missing:
                console.print(
                    f"  {policy.name}: no policy yet of {named_seeds(sorted(missing))}; compared with "
                    f"{named_seeds(policy.seeds)}",
                    style="yellow",
                    markup=False,
                )


def tell_of_own_pools(console: Console, session: Session, racing: Sequence[Policy]) -> None:
    """Say where a trained policy is shown other jobs than the orders: it keeps what it was trained with."""
    here = session.scenario.decision
    if here.horizon is None:
        return
    for policy in racing:
        if not isinstance(policy, LearnedPolicies):
            continue
        own = policy.scenario.decision
        other = [name for name in POOLS if getattr(own, name) != getattr(here, name)]
        if other:
            kept = ", ".join(f"decision.{name}={as_written(getattr(own, name))}" for name in other)
            orders = ", ".join(as_written(getattr(here, name)) for name in other)
            console.print(
                f"  {policy.name} keeps {kept}, as it was trained; the orders have {orders}",
                style="yellow",
                markup=False,
            )


def write(
    session: Session,
    comparison: Comparison,
    racing: Sequence[Policy],
    targets: output.Targets,
    console: Console,
    gate: Sequence[Verdict] | None,
) -> None:
    """Write what was asked for, and say where it is and what may come next."""
    if targets.json is not None:
        judged = {} if gate is None else {"gate": gate_json(gate)}
        output.write_json(targets.json, to_json(comparison.result) | judged)
        if targets.json != output.STDOUT:
            console.print(f"figures: {targets.json}", markup=False)
    drawn = targets.report is not None or (targets.render is not None and not targets.films)
    timeline = _timeline(session, racing) if drawn else None
    if targets.render is not None:
        with output.busy("drawing"):
            shown = draw(session, comparison, racing, timeline, targets.render)
        console.print(f"picture: {targets.render}{shown}", markup=False)
    if targets.report is not None:
        from rlsched.report.runs import learning_of

        with output.busy("writing the report"):
            policies = [one.members.values() for one in racing if isinstance(one, LearnedPolicies)]
            learning = learning_of([Path(each.name) for several in policies for each in several])
            page = write_page(session, comparison, racing, timeline, learning, targets.report)
        console.print(f"report:  {page}", markup=False)
    if targets.report is None:
        console.print("next: --report DIR makes a page of it with pictures", style=tables.FAINT)


def draw(
    session: Session,
    comparison: Comparison,
    racing: Sequence[Policy],
    timeline: Timeline | None,
    path: Path,
) -> str:
    """The first episode under the first policies, as a PNG, or a film of it under the first one.

    Returns:
        What it shows, to be said behind the name of the file; empty where that is all of the episode.

    Raises:
        BadInputError: an episode without a tick, or a policy that knows none.
    """
    from rlsched.report.gantt import draw_gantt
    from rlsched.report.style import to_png

    if path.suffix.lower() == ".gif":
        from rlsched.report.film import film

        first, episode = _pictured(racing[0]), session.episodes[0]
        shot = film(first, episode, session.units)
        write_whole(path, shot.gif)
        return f" (the first {shot.ticks:,} ticks of the first episode under {first.name} + {first.backfill})"
    if timeline is not None:
        from rlsched.report.over_time import draw_summary

        write_whole(path, to_png(draw_summary(timeline)))
    else:
        write_whole(path, to_png(draw_gantt(_gantt(session, comparison, racing))))
    return ""


def write_page(
    session: Session,
    comparison: Comparison,
    racing: Sequence[Policy],
    timeline: Timeline | None,
    learning: Sequence[LearningCurves],
    folder: Path,
) -> Path:
    """The HTML report."""
    from rlsched.report.html import write_report

    short = len(session.episodes[0].jobs) <= REPORT_PICTURE_JOBS
    gantts = [_gantt(session, comparison, racing)] if short and timeline is None else []
    timelines = [] if timeline is None else [timeline]
    return write_report(folder, comparison.result, gantts, learning, timelines)


def _timeline(session: Session, racing: Sequence[Policy]) -> Timeline | None:
    """The first episode over time under the first policies; None where there are no ticks to draw."""
    from rlsched.evaluate.history import knows_ticks, record
    from rlsched.report.over_time import Timeline

    episode = session.episodes[0]
    with output.busy("writing down every tick"):
        shown = [_pictured(policy) for policy in racing[:PICTURED] if knows_ticks(policy)]
        histories = [record(policy, episode, session.units) for policy in shown]
    if not any(history.ticks for history in histories):
        return None
    return Timeline(_title(session), histories)


def _gantt(session: Session, comparison: Comparison, racing: Sequence[Policy]) -> Gantt:
    from rlsched.report.gantt import Gantt, Schedule

    schedules = []
    for policy in racing[:PICTURED]:
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
    """Who is drawn: of several seeds the first, under its own name."""
    return next(iter(policy.members.values()))


def _title(session: Session) -> str:
    """What the first episode is."""
    first = session.episodes[0]
    workload = session.scenario.workload
    name = workload.file.name if isinstance(workload, SwfWorkload) else session.scenario.name
    place = "" if first.offset is None else f" from row {first.offset:,} on"
    return f"{name}: {len(first.jobs):,} jobs{place}"
