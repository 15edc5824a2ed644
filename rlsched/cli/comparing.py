"""What `simulate` and `evaluate` share: run a session, show it, write it, say what next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from rlsched.cli import output, tables
from rlsched.evaluate.compare import Comparison, Contestant, Learned
from rlsched.evaluate.contestants import seen_in_training
from rlsched.evaluate.results import to_json
from rlsched.evaluate.session import Session
from rlsched.files import write_whole
from rlsched.scenario import SwfWorkload

if TYPE_CHECKING:
    from rlsched.report.gantt import Gantt

PICTURED = 2
"""Policies in a Gantt picture: more are too small to read."""

REPORT_PICTURE_JOBS = 20_000
"""Longer episodes are drawn only where a picture is asked for: single jobs can no longer be seen."""


def compare_and_show(session: Session, racing: Sequence[Contestant], targets: output.Targets) -> None:
    """Run the contestants, print the comparison, and write what was asked for."""
    console = output.people(targets.json)
    show_setting(console, session)
    warn_of_training(console, session, racing)
    output.announce_compiling()
    clock = output.Clock()
    with output.progress("simulating", len(racing) * len(session.episodes)) as step:
        comparison = session.run(racing, step)
    jobs = sum(len(episode.jobs) for episode in session.episodes) * len(racing)
    tables.show_result(console, comparison.result)
    console.print(f"{jobs:,} jobs in {clock.seconds:.1f} s", style=tables.FAINT)
    write(session, comparison, racing, targets, console)


def show_setting(console: Console, session: Session) -> None:
    """One line on what is run, and what became of the jobs that were read."""
    scenario, episodes = session.scenario, session.episodes
    workload = scenario.workload
    source = workload.file.name if isinstance(workload, SwfWorkload) else f"the {workload.kind} model"
    machine = ", ".join(f"{resource.units:,} {resource.name}" for resource in scenario.cluster.resources)
    lengths = sorted({len(episode.jobs) for episode in episodes})
    many = f"{len(episodes)} episodes" if len(episodes) > 1 else "1 episode"
    drawn = (
        f", drawn with seed {session.seed}" if scenario.episode.jobs and not scenario.episode.offsets else ""
    )
    how = f", protocol {session.protocol}" if session.protocol else ""
    console.print(
        f"{source} on {machine}: {many} of {lengths[0]:,} jobs{drawn}{how}",
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


def warn_of_training(console: Console, session: Session, racing: Sequence[Contestant]) -> None:
    """Say where a trained policy meets jobs it was trained on."""
    for contestant in racing:
        if isinstance(contestant, Learned) and (seen := seen_in_training(contestant, session)):
            console.print(
                f"  {contestant.policy} may have been trained on jobs of {seen} of the "
                f"{len(session.episodes)} episodes",
                style="yellow",
                markup=False,
            )


def write(
    session: Session,
    comparison: Comparison,
    racing: Sequence[Contestant],
    targets: output.Targets,
    console: Console,
) -> None:
    """Write what was asked for, and say where it is and what may come next."""
    if targets.json is not None:
        output.write_json(targets.json, to_json(comparison.result))
        if targets.json != output.STDOUT:
            console.print(f"figures: {targets.json}", markup=False)
    if targets.render is not None:
        with output.busy("drawing"):
            draw(session, comparison, racing, targets.render)
        console.print(f"picture: {targets.render}", markup=False)
    if targets.report is not None:
        with output.busy("writing the report"):
            page = write_page(session, comparison, racing, targets.report)
        console.print(f"report:  {page}", markup=False)
    if targets.report is None:
        console.print("next: --report DIR makes a page of it with pictures", style=tables.FAINT)


def draw(session: Session, comparison: Comparison, racing: Sequence[Contestant], path: Path) -> None:
    """The first episode under the first contestants, as a PNG."""
    from rlsched.report.gantt import draw_gantt
    from rlsched.report.style import to_png

    write_whole(path, to_png(draw_gantt(_gantt(session, comparison, racing))))


def write_page(session: Session, comparison: Comparison, racing: Sequence[Contestant], folder: Path) -> Path:
    """The HTML report."""
    from rlsched.report.html import write_report
    from rlsched.report.runs import learning_of

    runs = [Path(contestant.policy) for contestant in racing if isinstance(contestant, Learned)]
    short = len(session.episodes[0].jobs) <= REPORT_PICTURE_JOBS
    gantts = [_gantt(session, comparison, racing)] if short else []
    return write_report(folder, comparison.result, gantts, learning_of(runs))


def _gantt(session: Session, comparison: Comparison, racing: Sequence[Contestant]) -> Gantt:
    from rlsched.report.gantt import Gantt, Schedule

    first = session.episodes[0]
    schedules = []
    for contestant in racing[:PICTURED]:
        played = comparison.runs[contestant.policy, contestant.backfill][0]
        schedules.append(Schedule(f"{contestant.policy} + {contestant.backfill}", played.jobs, played.start))
    workload = session.scenario.workload
    name = workload.file.name if isinstance(workload, SwfWorkload) else session.scenario.name
    place = "" if first.offset is None else f" from row {first.offset:,} on"
    return Gantt(
        title=f"{name}: {len(first.jobs):,} jobs{place}",
        schedules=schedules,
        processors=session.units[0],
        tick_s=session.scenario.cluster.tick_s,
    )
