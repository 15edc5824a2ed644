"""What is learned from datasets of different quality, and what it is worth to go on from there by playing.

For green datacenters of 10, 20 and 50 units and what different orders recorded there: cloning (bc), and what
tells better decisions from worse: critic-regularised regression (crr), rare as it is, and cql, on what
several recorded in turns at 10 units also without its conservative term. Beside them rare that only plays,
and launchpad, which begins with the dataset, as rare does, and goes on by playing. What a single order
recorded is only cloned, but for qos [Venkataswamy 2023, 7.5]. All networks start from random weights. Every
policy plays the same 96 episodes, which are not in training. The report has means of all seeds, differences
to bc, to crr and to the best heuristic, paired by episode, and the share of recorded decisions that a policy
takes, too. At the end a table says what is to be advised for which data: the first in the order of
what they ask for (to read once, to judge, to play) that cannot be told from the best.
After [Venkataswamy 2023, 7.5] and table 1 of its article on RARE.
Run: `make study-launchpad`, or with `--seeds 1 --scale 0.1 --cases 10-combo` for a look; what was done is not
done again.
"""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.outcomes import Outcome, advice, draw_quality, outcome_table, quality, values_of
from benchmarks.studies import StudyOptions, agreement, collect, evaluate, study_options, train
from rlsched.files import write_whole
from rlsched.report.style import INK, LEARNED, house_style, new_figure, quiet_axes, to_png

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
    "fcfs": "fcfs",
    "hvf": "hvf",
    "qos_sjf": "qos,sjf",
    "combo": "qos,sjf,fcfs,hvf",
    "combo_random": "qos,sjf,fcfs,hvf,random",
}
"""Heuristics that recorded, with equal shares of episodes [Venkataswamy 2023, 7.5]; `random` is ours."""

AT = {"sjf": (20,), "fcfs": (20,), "hvf": (20,), "combo_random": (10,)}
"""Datasets of some sizes alone: single heuristics [Venkataswamy 2023, table 7.2], and our addition."""

CASES = [f"{units}-{data}" for units in UNITS for data in DATA if units in AT.get(data, UNITS)]

ONLY_CLONED = ("sjf", "fcfs", "hvf")
"""Single orders beside qos, of which the question is how well they are imitated."""

CLONED = 2
"""Times that bc reads as much, in less time than others take to read it once."""

IMITATED = 1 / 18
"""Of what rare reads, as it is."""

ABLATION, ABLATED = "cql-not-conservative", ("10-combo", "10-combo_random")
"""What shows whether a term is needed, and where it is shown."""

RARE = "rare"
"""What launchpad is before it plays."""

OFFLINE = {
    "bc": ["--algo", "bc"],
    "cql": ["--algo", "cql"],
    ABLATION: ["--algo", "cql", "--set", "cql.alpha=0"],
    "crr": ["--algo", "rare", "--set", "rare.weights=binary"],
}
"""Methods that only read."""

REWARD = ["--set", "objective.reward={started_value: 1}"]
"""What comes of a decision is told with it, so that critics can see what it was worth."""

SELECTION = ["--set", "validation.episodes=64", "--set", "averaging=0.9"]
"""The best of many that hardly differ is looked for, so it takes many episodes."""

OFTEN = ["--set", "validation.every=2"]
"""While playing: how many decisions it takes is what is asked."""

REMEMBERED = ["--set", f"rare.buffer={PLAYED}"]
"""Nothing that was played is forgotten."""

ONLINE, LAUNCHPAD = "online", "launchpad"
METRIC = "job_value_ratio"
ORDERS = "packing,fcfs,sjf,qos,hvf,random"


def scenario_of(case: str) -> str:
    """The datacenter of a case."""
    return f"green-{case.partition('-')[0]}"


def recorded(case: str) -> str:
    """Which data a case learns from."""
    return case.partition("-")[2]


def offline_of(case: str) -> dict[str, list[str]]:
    """Who only reads in a case, and the words for it."""
    if recorded(case) in ONLY_CLONED:
        return {"bc": OFFLINE["bc"]}
    return {kind: words for kind, words in OFFLINE.items() if kind != ABLATION or case in ABLATED}


def plays(case: str) -> bool:
    """Whether somebody goes on from there by playing."""
    return recorded(case) not in ONLY_CLONED


def methods_of(case: str) -> list[str]:
    """Who learns in a case, who asks for the least first: to read once, to judge, to play."""
    return [*offline_of(case), *((RARE, LAUNCHPAD, ONLINE) if plays(case) else ())]


def dataset_of(study: StudyOptions, case: str) -> Path:
    """The folder of what was recorded."""
    return study.folder / f"{case}-data"


def record(study: StudyOptions, case: str) -> None:
    """Collect the dataset of a case, or the rest of it."""
    words = ["--scenario", scenario_of(case), *REWARD, "--policy", DATA[recorded(case)]]
    words += ["--steps", str(round(study.scale * ROWS))]
    collect(dataset_of(study, case), words, threads=study.threads)


def run_of(study: StudyOptions, case: str, kind: str, seed: int) -> Path:
    """The folder of a run; who only plays needs no dataset, and who plays on has read as rare does."""
    name = case.partition("-")[0] if kind == ONLINE else case
    return study.folder / f"{name}-{LAUNCHPAD if kind == RARE else kind}-{seed}"


def policy_of(study: StudyOptions, case: str, kind: str, seed: int) -> Path:
    """What a run is evaluated by: its best policy, or the one that it began to play with."""
    run = run_of(study, case, kind, seed)
    return run / "read" if kind == RARE else run


def learn(study: StudyOptions, case: str, seed: int) -> None:
    """All methods, one after the other."""
    read, played = round(study.scale * READ), round(study.scale * PLAYED)
    dataset = ["--dataset", str(dataset_of(study, case))]
    imitate = ["--set", f"rare.imitate={round(read * IMITATED)}"]
    for kind, words in offline_of(case).items():
        chosen = [
            *words,
            *(imitate if "rare" in words else []),
            *SELECTION,
            *dataset,
            "--steps",
            str(CLONED * read if kind == "bc" else read),
        ]
        train(run_of(study, case, kind, seed), chosen, seed=seed, threads=study.threads)
    if not plays(case):
        return
    words = [
        "--algo",
        "launchpad",
        *dataset,
        "--set",
        f"launchpad.rows={read}",
        *imitate,
        *SELECTION,
        *OFTEN,
        *REMEMBERED,
    ]
    steps = ["--steps", str(read + played)]
    train(run_of(study, case, LAUNCHPAD, seed), [*words, *steps], seed=seed, threads=study.threads)


def play(study: StudyOptions, units: str, seed: int) -> None:
    """Only play."""
    words = ["--algo", "rare", "--scenario", f"green-{units}", *REWARD, *SELECTION, *OFTEN, *REMEMBERED]
    steps = ["--steps", str(round(study.scale * PLAYED))]
    train(run_of(study, units, ONLINE, seed), [*words, *steps], seed=seed, threads=study.threads)


def outcome_of(study: StudyOptions, case: str) -> Outcome:
    """Let everybody play, and ask all that learned about what was recorded."""
    learned = {
        policy_of(study, case, kind, seed): kind for kind in methods_of(case) for seed in range(study.seeds)
    }
    words = ["--scenario", scenario_of(case), "--against", ORDERS]
    results = evaluate(list(learned), words, study.folder / f"{case}.json", episodes=EPISODES)
    shares: dict[str, list[float]] = {}
    elapsed = agreement(learned, dataset_of(study, case), COMPARED)
    for kind, share in zip(learned.values(), elapsed, strict=True):
        shares.setdefault(kind, []).append(share)
    kinds = {str(policy): kind for policy, kind in learned.items()}
    agreements = {kind: float(np.mean(item)) for kind, item in shares.items()}
    return Outcome(case, values_of(results, METRIC, kinds), agreements, DATA[recorded(case)].split(","))


def curve(run: Path, started: int) -> tuple[list[float], list[float]]:
    """Decisions played, and the share of the value that validation earned.

    From the first ones on; who has read before, from the last validation of that on, with 0 played.
    """
    with (run / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row[f"validation_{METRIC}"]]
    before = [row for row in rows if 0 < int(row["steps"]) <= started]
    displayed = before[-1:] + [row for row in rows if int(row["steps"]) > started]
    values = [100 * float(row[f"validation_{METRIC}"]) for row in displayed]
    return [max(0, int(row["steps"]) - started) for row in displayed], values


def curves(study: StudyOptions, case: str, kind: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(points,) decisions played, and (runs, points) the share of the value in validation."""
    started = round(study.scale * READ) if kind == LAUNCHPAD else 0
    xs, ys = zip(
        *(curve(run_of(study, case, kind, seed), started) for seed in range(study.seeds)), strict=True
    )
    (x,) = {tuple(item) for item in xs}  # all are validated after as many
    return np.array(x), np.array(ys)


def best_order(study: StudyOptions, case: str) -> float:
    """Per cent of the value that the best order earns in the same validation."""
    reported = json.loads((run_of(study, case, ONLINE, 0) / "validation.json").read_text("utf-8"))
    return max(100 * metrics[METRIC] for metrics in reported["heuristics"].values())


def saved(study: StudyOptions, case: str) -> str:
    """After how many decisions of its own launchpad is where only playing ends; of the means of all seeds."""
    played, alone = curves(study, case, ONLINE)
    started, launched = curves(study, case, LAUNCHPAD)
    end = alone.mean(0)[-1]
    present = started[launched.mean(0) >= end]
    when = f"after {present[0]:,.0f} of" if len(present) else "not within"
    return f"Launchpad is where playing alone ends ({end:.1f} %) {when} {played[-1]:,.0f} decisions played."


def draw_saved(study: StudyOptions, units: str, cases: list[str]) -> Path:
    """What playing adds: online from nothing, launchpad from each dataset; means, and from least to most.

    What is far below all that was read, as playing is at first, is below the picture.
    """
    target = study.folder / f"launchpad-{units}.png"
    with house_style():
        figure = new_figure(7.0, 4.2)
        axes = figure.subplots()
        order = best_order(study, cases[0])
        axes.axhline(order, color=INK, linewidth=1, linestyle="--", label="best order")
        lines = {ONLINE: (cases[0], ONLINE)}
        lines |= {f"launchpad, {recorded(case)}": (case, LAUNCHPAD) for case in cases}
        least, most = order, order
        for (label, (case, kind)), colour in zip(lines.items(), LEARNED, strict=False):
            x, y = curves(study, case, kind)
            least = min(least, y.min()) if kind == LAUNCHPAD else least
            most = max(most, y.max())
            axes.fill_between(x, y.min(0), y.max(0), color=colour, alpha=0.12, linewidth=0)
            axes.plot(x, y.mean(0), "o-", color=colour, linewidth=1.2, markersize=3, label=label)
        margin = 0.1 * (most - least)
        axes.set_ylim(least - margin, most + margin)
        quiet_axes(axes, "y")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("decisions played")
        axes.set_ylabel("share of the submitted value (%)")
        axes.legend(frameon=False)
        write_whole(target, to_png(figure))
    return target


def main() -> None:
    """Record, learn, evaluate, tell."""
    study = study_options(__doc__, CASES, "runs/study-launchpad")
    for case in study.cases:
        record(study, case)
    of_units: dict[str, list[str]] = {}
    for case in filter(plays, study.cases):
        of_units.setdefault(case.partition("-")[0], []).append(case)
    for units in of_units:
        study.for_seeds(partial(play, study, units))
    study.learn(partial(learn, study))
    outcomes = {case: outcome_of(study, case) for case in study.cases}
    several = {case: outcome for case, outcome in outcomes.items() if plays(case)}
    parts = [f"{outcome_table(outcome)} {saved(study, case)}" for case, outcome in several.items()]
    parts += [quality(list(outcomes.values())), advice(list(several.values()))]
    summary = study.folder / "summary.md"
    write_whole(summary, "\n\n".join(parts).encode() + b"\n")
    print(summary.read_text("utf-8"))
    print(summary)
    displayed = [kind for kind in (*OFFLINE, RARE, LAUNCHPAD, ONLINE) if kind != ABLATION]
    for units, cases in of_units.items():
        named = {recorded(case): outcomes[case] for case in cases}
        print(draw_quality(study.folder / f"quality-{units}.png", named, displayed))
        print(draw_saved(study, units, cases))


if __name__ == "__main__":
    main()
