"""What is learned from datasets of different quality, and what it is worth to go on from there by playing.

For green datacenters of 10, 20 and 50 units and what different orders recorded there: cloning (bc), and what
tells better decisions from worse: critic-regularised regression (crr), rare as it is, and cql, with and
without its conservative term. Beside them rare that only plays, and launchpad, which begins with the dataset
and goes on by playing. All networks begin without any order that somebody knew to be good. Every policy
plays the same 96 episodes that no training saw; what is told are means of all seeds, differences to bc, to
crr and to the best order, paired by episode, and how many of the recorded decisions a policy takes, too. At
the end a table says what is to be advised for which data: the first in the order of what they ask for (to
read once, to judge, to play) that cannot be told from the best.
After Venkataswamy 2023, 7.5, and RARE, table 1.
Run: `make study-launchpad`, or with `--seeds 1 --scale 0.1 --cases 10-combo` for a look; what was done is not
done again.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from studies import Asked, agreement, asked, collect, evaluate, train

from rlsched.evaluate.bootstrap import bootstrap_columns
from rlsched.evaluate.statistics import EpisodeResult
from rlsched.files import write_whole
from rlsched.report.style import house_style, new_figure, quiet_axes, to_png

ROWS, READ, PLAYED = 3_000_000, 3_000_000, 1_000_000
"""Decisions of a dataset, that are learned from in it, and that are played.

What a choice is worth is some thousandths of what returns differ by anyway, so each million more shows.
"""

EPISODES = 96
"""Of an evaluation; the best differ by thousandths."""

COMPARED = 100_000
"""Recorded decisions that a policy is asked about."""

UNITS = (10, 20, 50)
DATA = {
    "qos": "qos",
    "sjf": "sjf",
    "qos_sjf": "qos,sjf",
    "combo": "qos,sjf,fcfs,hvf",
    "combo_random": "qos,sjf,fcfs,hvf,random",
}
"""Who recorded, each as many episodes [G 7.5]; random decisions are ours: they show what is bad."""

CASES = [f"{units}-{data}" for units in UNITS for data in DATA]

IMITATED = 1 / 18
"""Of what rare reads, as it is."""

OFFLINE = {
    "bc": ["--algo", "bc"],
    "cql": ["--algo", "cql"],
    "cql-not-conservative": ["--algo", "cql", "--set", "cql.conservative=0"],
    "crr": ["--algo", "rare", "--set", "rare.weights=binary"],
    "rare": ["--algo", "rare"],
}
"""Methods that only read."""

REWARD = ["--set", "objective.reward={started_value: 1}"]
"""What comes of a decision is told with it, so that critics can see what it was worth."""

PLAIN = ["--set", "network.prior={}", "--set", "network.waiting=0"]

JUDGED = ["--set", "validation.episodes=64", "--set", "averaging=0.9"]
"""The best of many that hardly differ is looked for, so it takes many episodes."""

REMEMBERED = ["--set", f"rare.buffer={PLAYED}"]
"""Nothing that was played is forgotten."""

ONLINE, LAUNCHPAD = "online", "launchpad"
METRIC = "job_value_ratio"


def scenario_of(case: str) -> str:
    """The datacenter of a case."""
    return f"green-{case.partition('-')[0]}"


def dataset_of(study: Asked, case: str) -> Path:
    """The folder of what was recorded."""
    return study.folder / f"{case}-data"


def record(study: Asked, case: str) -> None:
    """Collect the dataset of a case, or the rest of it."""
    words = ["--scenario", scenario_of(case), *REWARD, "--policy", DATA[case.partition("-")[2]]]
    words += ["--steps", str(round(study.scale * ROWS))]
    collect(dataset_of(study, case), words, threads=study.threads)


def run_of(study: Asked, case: str, kind: str, seed: int) -> Path:
    """The folder of a run; who only plays needs no dataset."""
    name = case.partition("-")[0] if kind == ONLINE else case
    return study.folder / f"{name}-{kind}-{seed}"


def learn(study: Asked, case: str, seed: int) -> None:
    """All methods, one after the other."""
    read, played = round(study.scale * READ), round(study.scale * PLAYED)
    dataset = ["--dataset", str(dataset_of(study, case))]
    imitate = ["--set", f"rare.imitate={round(read * IMITATED)}"]
    for kind, words in OFFLINE.items():
        chosen = [
            *words,
            *(imitate if "rare" in words else []),
            *PLAIN,
            *JUDGED,
            *dataset,
            "--steps",
            str(read),
        ]
        train(run_of(study, case, kind, seed), chosen, seed=seed, threads=study.threads)
    words = [
        "--algo",
        "launchpad",
        *dataset,
        "--set",
        f"launchpad.rows={read}",
        *imitate,
        *PLAIN,
        *JUDGED,
        *REMEMBERED,
    ]
    steps = ["--steps", str(read + played)]
    train(run_of(study, case, LAUNCHPAD, seed), [*words, *steps], seed=seed, threads=study.threads)


def play(study: Asked, units: str, seed: int) -> None:
    """Only play."""
    words = ["--algo", "rare", "--scenario", f"green-{units}", *REWARD, *PLAIN, *JUDGED, *REMEMBERED]
    steps = ["--steps", str(round(study.scale * PLAYED))]
    train(run_of(study, units, ONLINE, seed), [*words, *steps], seed=seed, threads=study.threads)


Values = Mapping[str, NDArray[np.float64]]


def values_of(results: list[EpisodeResult], kinds: Mapping[str, str]) -> Values:
    """(episode,) share of the value that each order earned and, on average of its seeds, each method.

    Args:
        results: of all policies.
        kinds: run -> method.
    """
    found: dict[str, dict[int, list[float]]] = {}
    for result in results:
        episodes = found.setdefault(kinds.get(result.policy, result.policy), {})
        episodes.setdefault(result.episode, []).append(100 * result.metrics[METRIC])
    return {
        name: np.array([np.mean(episodes[number]) for number in sorted(episodes)])
        for name, episodes in found.items()
    }


def best_order(values: Values, methods: Sequence[str]) -> str:
    """Of those that nobody has learned."""
    return max((name for name in values if name not in methods), key=lambda name: values[name].mean())


def told(case: str, values: Values, agreed: Mapping[str, float]) -> str:
    """A line for each method.

    Args:
        case: which.
        values: of all policies.
        agreed: method -> share of the recorded decisions that it takes, too.
    """
    methods = list(agreed)
    best = best_order(values, methods)
    others = ("bc", "crr", best)
    lines = [f"{case}: best order {best} {values[best].mean():.1f} % of the value"]
    for name in methods:
        over = bootstrap_columns([values[name] - values[other] for other in others])
        words = ", ".join(
            f"{each.mean:+.2f} [{each.low:+.2f}, {each.high:+.2f}] to {other}"
            for each, other in zip(over, others, strict=True)
        )
        lines.append(f"  {name:<22} {values[name].mean():5.1f} %  {words}; {agreed[name]:.1%} alike")
    return "\n".join(lines)


def advice(cases: Mapping[str, Values], methods: Sequence[str]) -> str:
    """Markdown: what cannot be told from the best and asks for the least, and how far it is ahead.

    Args:
        cases: case -> values of all policies.
        methods: those that learn, who asks for the least first.
    """
    lines = [
        "| recorded | best order | advised | value (%) | ahead of the order | ahead of bc |",
        "|" + " --- |" * 6,
    ]
    for case, values in cases.items():
        order = best_order(values, methods)
        best = max(methods, key=lambda name: values[name].mean())
        behind = bootstrap_columns([values[name] - values[best] for name in methods])
        advised = next(name for name, each in zip(methods, behind, strict=True) if each.high >= 0)
        ahead = bootstrap_columns([values[advised] - values[other] for other in (order, "bc")])
        words = [f"{each.mean:+.2f} [{each.low:+.2f}, {each.high:+.2f}]" for each in ahead]
        cells = [
            case,
            f"{order} {values[order].mean():.1f}",
            advised,
            f"{values[advised].mean():.1f}",
            *words,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def curve(run: Path, begun: int) -> tuple[list[float], list[float]]:
    """Decisions played, and the share of the value that validation earned.

    From the first ones on; who has read before, from the last validation of that on, with 0 played.
    """
    with (run / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row[f"validation_{METRIC}"]]
    before = [row for row in rows if 0 < int(row["steps"]) <= begun]
    shown = before[-1:] + [row for row in rows if int(row["steps"]) > begun]
    values = [100 * float(row[f"validation_{METRIC}"]) for row in shown]
    return [max(0, int(row["steps"]) - begun) for row in shown], values


def saved(study: Asked, case: str) -> str:
    """After how many decisions of its own launchpad is where only playing ends; of the means of all seeds."""
    read = round(study.scale * READ)

    def mean_curve(kind: str, begun: int) -> tuple[list[float], list[float]]:
        curves = [curve(run_of(study, case, kind, seed), begun) for seed in range(study.seeds)]
        return curves[0][0], [float(np.mean(values)) for values in zip(*(y for _, y in curves), strict=True)]

    played, alone = mean_curve(ONLINE, 0)
    begun, launched = mean_curve(LAUNCHPAD, read)
    there = [x for x, y in zip(begun, launched, strict=True) if y >= alone[-1]]
    when = f"after {there[0]:,} of" if there else "not within"
    return (
        f"  launchpad is where playing alone ends ({alone[-1]:.1f} %) {when} {played[-1]:,} decisions played"
    )


def draw(study: Asked, units: str, cases: list[str]) -> Path:
    """What playing adds: online from nothing, launchpad from each dataset."""
    read = round(study.scale * READ)
    target = study.folder / f"launchpad-{units}.png"
    with house_style():
        figure = new_figure(7.0, 4.2)
        axes = figure.subplots()
        lines = {ONLINE: (units, ONLINE, 0)} | {
            f"launchpad, {case.partition('-')[2]}": (case, LAUNCHPAD, read) for case in cases
        }
        for k, (label, (case, kind, begun)) in enumerate(lines.items()):
            for seed in range(study.seeds):
                x, y = curve(run_of(study, case, kind, seed), begun)
                axes.plot(
                    x, y, "o-", color=f"C{k}", linewidth=1.2, markersize=3, label=label if seed == 0 else None
                )
        quiet_axes(axes, "y")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("decisions played")
        axes.set_ylabel("share of the submitted value (%)")
        axes.legend(frameon=False)
        write_whole(target, to_png(figure))
    return target


def main() -> None:
    """Record, learn, evaluate, tell."""
    study = asked(__doc__, CASES, "runs/study-launchpad")
    for case in study.cases:
        record(study, case)
    of_units = {units: [c for c in study.cases if c.startswith(f"{units}-")] for units in map(str, UNITS)}
    for units in [units for units, cases in of_units.items() if cases]:
        study.for_seeds(partial(play, study, units))
    study.learn(partial(learn, study))
    kinds, found = [*OFFLINE, LAUNCHPAD, ONLINE], {}
    for case in study.cases:
        runs = {run_of(study, case, kind, seed): kind for kind in kinds for seed in range(study.seeds)}
        words = ["--scenario", scenario_of(case), "--against", "packing,fcfs,sjf,qos,hvf,random"]
        results = evaluate(list(runs), words, study.folder / f"{case}.json", episodes=EPISODES)
        found[case] = values_of(results, {str(run): kind for run, kind in runs.items()})
        shares: dict[str, list[float]] = {}
        for run, kind in runs.items():
            shares.setdefault(kind, []).append(agreement(run, dataset_of(study, case), COMPARED))
        print(told(case, found[case], {kind: float(np.mean(each)) for kind, each in shares.items()}))
        print(saved(study, case))
    print(advice(found, kinds))
    for units, cases in of_units.items():
        if cases:
            print(f"picture: {draw(study, units, cases)}")


if __name__ == "__main__":
    main()
