"""What it costs that users do not know how long their jobs run: orders under exact and other estimates.

Each case plays the same jobs, those of lublin-256 or of a trace, asked for otherwise: exactly, with gaussian
errors of 0.5 to 2 runtimes on both sides and above only [Cunha 2022, 2.3.2], by popular values (tsafrir), and
where the machine ends jobs at their requested time, too (less work, so not comparable with the others). One
table: mean bounded slowdown with its 95 % interval, by order and backfilling; trained policies are named with
--policy. Run: `make study-estimates`, or with `--episodes 4 --jobs 128` for a look; finished cases
are not repeated.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.studies import rlsched
from rlsched.cli.tables import plain_table
from rlsched.files import write_whole
from rlsched.report.words import number

ORDERS = "fcfs,sjf,area,smallest,wfp3,f1"
BACKFILLS = "greedy,easy"
METRIC = "bounded_slowdown"


@dataclass(frozen=True)
class Case:
    """How users ask.

    Attributes:
        title: of its column.
        settings: of the scenario.
    """

    title: str
    settings: tuple[str, ...]


def _gaussian(nu: float, side: str) -> tuple[str, ...]:
    return (f"workload.estimates={{kind: gaussian, nu: {nu:g}, side: {side}}}",)


CASES = {
    "exact": Case("exact", ("workload.estimates={kind: exact}",)),
    **{f"two-{nu:g}": Case(f"nu {nu:g}", _gaussian(nu, "two")) for nu in (0.5, 1.0, 2.0)},
    **{f"over-{nu:g}": Case(f"nu {nu:g}, over", _gaussian(nu, "over")) for nu in (0.5, 1.0, 2.0)},
    "under-0.5": Case("nu 0.5, under", _gaussian(0.5, "under")),
    "killed-0.5": Case("nu 0.5, killed", (*_gaussian(0.5, "two"), "cluster.kill_at_requested=true")),
    "tsafrir": Case("tsafrir", ("workload.estimates={kind: tsafrir}",)),
}


def played(folder: Path, name: str, words: list[str]) -> dict[str, Mapping[str, float]]:
    """policy:backfill -> summary of the metric; played again where it was asked for in other words."""
    target, requested = folder / f"{name}.json", folder / f"{name}.asked"
    settings = [word for setting in CASES[name].settings for word in ("--set", setting)]
    recipe = json.dumps([*words, *settings])
    if not (target.exists() and requested.exists() and requested.read_text("utf-8") == recipe):
        rlsched(*words, *settings, "--json", str(target), log=folder / "simulate.log", threads=1)
        requested.write_text(recipe, "utf-8")
    rows = json.loads(target.read_text("utf-8"))["summary"]
    return {
        f"{row['policy']}:{row['backfill']}" if row["backfill"] else row["policy"]: row
        for row in rows
        if row["metric"] == METRIC
    }


def main() -> None:
    """Play all cases, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, help="instead of lublin-256")
    parser.add_argument("--policy", type=Path, nargs="+", default=[], help="folders of trained policies")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--episodes", type=int, default=24)
    parser.add_argument("--jobs", type=int, default=1024)
    parser.add_argument("--out", type=Path, default=Path("runs/study-estimates"))
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    source = ["--scenario", "lublin-256"] if chosen.trace is None else ["--trace", str(chosen.trace)]
    policies = ",".join([ORDERS, *map(str, chosen.policy)])
    words = ["simulate", *source, "--policy", policies, "--backfill", BACKFILLS]
    words += ["--episodes", str(chosen.episodes), "--jobs", str(chosen.jobs)]
    result = {name: played(chosen.out, name, words) for name in chosen.cases}

    spec = "lublin-256" if chosen.trace is None else chosen.trace.name
    title = f"mean bounded slowdown, {chosen.episodes} episodes of {chosen.jobs:,} jobs of {spec}"
    table = plain_table(["order", *(CASES[name].title for name in result)], title=title)
    lines = ["| order | " + " | ".join(CASES[name].title for name in result) + " |"]
    lines.append("| --- |" + " --- |" * len(result))
    for label in next(iter(result.values())):
        cells = [_cell(summary[label]) for summary in result.values()]
        table.add_row(label, *cells)
        lines.append(f"| {label} | {' | '.join(cells)} |")
    write_whole(chosen.out / "table.md", ("\n".join([title, "", *lines]) + "\n").encode())
    Console(width=220).print(table)
    print(f"table: {chosen.out / 'table.md'}")


def _cell(row: Mapping[str, float]) -> str:
    return "{} [{}, {}]".format(*(number(row[name]) for name in ("mean", "low", "high")))


if __name__ == "__main__":
    main()
