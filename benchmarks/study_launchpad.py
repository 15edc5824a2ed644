"""What is learned from datasets of different quality, and what it is worth to go on from there by playing.

For green datacenters of 10, 20 and 50 units and what different orders recorded there: cloning (bc), and what
tells better decisions from worse: critic-regularised regression (crr), rare as it is, and cql, on what
several recorded in turns also without its conservative term. Beside them rare that only plays, and launchpad,
which begins with the dataset and goes on by playing. All networks begin without any order that somebody knew
to be good. Every policy plays the same 96 episodes that no training saw; what is told are means of all seeds,
differences to bc, to crr and to the best order, paired by episode, and how many of the recorded decisions a
policy takes, too. At the end a table says what is to be advised for which data: the first in the order of
what they ask for (to read once, to judge, to play) that cannot be told from the best.
After Venkataswamy 2023, 7.5, and RARE, table 1.
Run: `make study-launchpad`, or with `--seeds 1 --scale 0.1 --cases 10-combo` for a look; what was done is not
done again. A case takes about an hour on two cores, and half an hour with `--scale 0.333`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from studies import Asked, agreement, asked, collect, evaluate, train

from rlsched.evaluate.bootstrap import Interval, bootstrap_columns
from rlsched.evaluate.statistics import EpisodeResult
from rlsched.files import write_whole
from rlsched.report.style import HEURISTIC, INK, LEARNED, house_style, new_figure, quiet_axes, to_png

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
"""Who recorded, each as many episodes [G 7.5]; random decisions are ours: they show what is bad."""

AT_20 = ("fcfs", "hvf")
"""Recorded at 20 units only [G table 7.2]."""

CASES = [f"{units}-{data}" for units in UNITS for data in DATA if units == 20 or data not in AT_20]

CLONED = 4
"""Times that bc reads as much: it does so in the time that others take to read it once."""

IMITATED = 1 / 18
"""Of what rare reads, as it is."""

ABLATION, ABLATED = "cql-not-conservative", ("combo", "combo_random")
"""What shows whether a term is needed, and where it is shown."""

OFFLINE = {
    "bc": ["--algo", "bc"],
    "cql": ["--algo", "cql"],
    ABLATION: ["--algo", "cql", "--set", "cql.conservative=0"],
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
ORDERS = "packing,fcfs,sjf,qos,hvf,random"


def scenario_of(case: str) -> str:
    """The datacenter of a case."""
    return f"green-{case.partition('-')[0]}"


def recorded(case: str) -> str:
    """Which data a case learns from."""
    return case.partition("-")[2]


def offline_of(case: str) -> dict[str, list[str]]:
    """Who only reads in a case, and the words for it."""
    return {kind: words for kind, words in OFFLINE.items() if kind != ABLATION or recorded(case) in ABLATED}


def methods_of(case: str) -> list[str]:
    """Who learns in a case, who asks for the least first: to read once, to judge, to play."""
    return [*offline_of(case), LAUNCHPAD, ONLINE]


def dataset_of(study: Asked, case: str) -> Path:
    """The folder of what was recorded."""
    return study.folder / f"{case}-data"


def record(study: Asked, case: str) -> None:
    """Collect the dataset of a case, or the rest of it."""
    words = ["--scenario", scenario_of(case), *REWARD, "--policy", DATA[recorded(case)]]
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
    for kind, words in offline_of(case).items():
        chosen = [
            *words,
            *(imitate if "rare" in words else []),
            *PLAIN,
            *JUDGED,
            *dataset,
            "--steps",
            str(CLONED * read if kind == "bc" else read),
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


@dataclass(frozen=True)
class Outcome:
    """What all policies of a case came to.

    Attributes:
        case: which.
        values: policy -> (runs, episodes) share of the value in per cent; an order has one run.
        alike: method -> share of the recorded decisions that it takes, too, on average of its runs.
    """

    case: str
    values: Mapping[str, NDArray[np.float64]]
    alike: Mapping[str, float]

    def mean(self, name: str) -> float:
        """Per cent of the value."""
        return float(self.values[name].mean())

    def ahead(self, names: Sequence[str], other: str) -> list[Interval]:
        """How far each is ahead of another, runs averaged, paired by episode."""
        return bootstrap_columns([self.values[name].mean(0) - self.values[other].mean(0) for name in names])

    @property
    def methods(self) -> list[str]:
        """Who learned."""
        return list(self.alike)

    @property
    def best_order(self) -> str:
        """Of those that nobody has learned."""
        return max((name for name in self.values if name not in self.alike), key=self.mean)

    @property
    def best_recorder(self) -> str:
        """Of those who recorded."""
        return max(DATA[recorded(self.case)].split(","), key=self.mean)

    @property
    def best_method(self) -> str:
        """Of those that learned."""
        return max(self.methods, key=self.mean)


def outcome_of(study: Asked, case: str) -> Outcome:
    """Let everybody play, and ask all that learned about what was recorded."""
    runs = {run_of(study, case, kind, k): kind for kind in methods_of(case) for k in range(study.seeds)}
    words = ["--scenario", scenario_of(case), "--against", ORDERS]
    results = evaluate(list(runs), words, study.folder / f"{case}.json", episodes=EPISODES)
    shares: dict[str, list[float]] = {}
    for run, kind in runs.items():
        shares.setdefault(kind, []).append(agreement(run, dataset_of(study, case), COMPARED))
    kinds = {str(run): kind for run, kind in runs.items()}
    return Outcome(case, values_of(results, kinds), {kind: float(np.mean(s)) for kind, s in shares.items()})


def values_of(results: list[EpisodeResult], kinds: Mapping[str, str]) -> dict[str, NDArray[np.float64]]:
    """Policy -> (runs, episodes) share of the value in per cent.

    Args:
        results: of all policies.
        kinds: run -> method; whoever is not among them goes by its own name.
    """
    found: dict[str, dict[str, dict[int, float]]] = {}
    for result in results:
        runs = found.setdefault(kinds.get(result.policy, result.policy), {})
        runs.setdefault(result.policy, {})[result.episode] = 100 * result.metrics[METRIC]
    return {
        name: np.array([[episodes[number] for number in sorted(episodes)] for episodes in runs.values()])
        for name, runs in found.items()
    }


def in_words(over: Interval) -> str:
    """A difference with its interval."""
    return f"{over.mean:+.2f} [{over.low:+.2f}, {over.high:+.2f}]"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


def told(outcome: Outcome) -> str:
    """Markdown: what each method came to, and how far it is ahead of others."""
    methods, others = outcome.methods, ("bc", "crr", outcome.best_order)
    columns = [
        [" " if name == other else in_words(each) for name, each in zip(methods, over, strict=True)]
        for other in others
        for over in [outcome.ahead(methods, other)]
    ]
    rows = []
    for name, *over in zip(methods, *columns, strict=True):
        runs = " ".join(f"{run.mean():.1f}" for run in outcome.values[name])
        rows.append([name, f"{outcome.mean(name):.1f} ({runs})", *over, f"{outcome.alike[name]:.1%}"])
    orders = [name for name in outcome.values if name not in methods]
    said = ", ".join(f"{name} {outcome.mean(name):.1f}" for name in sorted(orders, key=outcome.mean)[::-1])
    head = [outcome.case, "value (%), and of each run", *(f"to {name}" for name in others), "alike"]
    return f"{table(head, rows)}\n\nOrders: {said}."


def quality(outcomes: Sequence[Outcome]) -> str:
    """Markdown: agreement with what was recorded, and how far methods are ahead of bc, data by data."""
    methods = list(dict.fromkeys(name for outcome in outcomes for name in outcome.methods))
    later = [name for name in methods if name != "bc"]
    shares, ahead = [], []
    for outcome in outcomes:
        took = {name: f"{share:.1%}" for name, share in outcome.alike.items()}
        shares.append([outcome.case, *(took.get(name, " ") for name in methods)])
        recorder = outcome.best_recorder
        over = dict(zip(outcome.methods, map(in_words, outcome.ahead(outcome.methods, "bc")), strict=True))
        bc = f"{outcome.mean('bc'):.1f}, {in_words(outcome.ahead(['bc'], recorder)[0])}"
        cells = [f"{recorder} {outcome.mean(recorder):.1f}", bc, *(over.get(name, " ") for name in later)]
        ahead.append([outcome.case, *cells])
    head = ["ahead of bc", "best recorder", "bc, ahead of it", *later]
    return f"{table(['recorded decisions taken', *methods], shares)}\n\n{table(head, ahead)}"


def advice(outcomes: Sequence[Outcome]) -> str:
    """Markdown: what cannot be told from the best and asks for the least, and how far it is ahead."""
    rows = []
    for outcome in outcomes:
        behind = outcome.ahead(outcome.methods, outcome.best_method)
        advised = next(name for name, each in zip(outcome.methods, behind, strict=True) if each.high >= 0)
        order = outcome.best_order
        ahead = [in_words(outcome.ahead([advised], other)[0]) for other in (order, "bc")]
        values = [f"{order} {outcome.mean(order):.1f}", advised, f"{outcome.mean(advised):.1f}"]
        rows.append([outcome.case, *values, *ahead])
    head = ["recorded", "best order", "advised", "value (%)", "ahead of the order", "ahead of bc"]
    return table(head, rows)


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


def curves(study: Asked, case: str, kind: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(points,) decisions played, and (runs, points) the share of the value in validation."""
    begun = round(study.scale * READ) if kind == LAUNCHPAD else 0
    runs = [curve(run_of(study, case, kind, seed), begun) for seed in range(study.seeds)]
    points = min(len(x) for x, _ in runs)
    return np.array(runs[0][0][:points]), np.array([y[:points] for _, y in runs])


def saved(study: Asked, case: str) -> str:
    """After how many decisions of its own launchpad is where only playing ends; of the means of all seeds."""
    played, alone = curves(study, case, ONLINE)
    begun, launched = curves(study, case, LAUNCHPAD)
    end = alone.mean(0)[-1]
    there = begun[launched.mean(0) >= end]
    when = f"after {there[0]:,.0f} of" if len(there) else "not within"
    return f"Launchpad is where playing alone ends ({end:.1f} %) {when} {played[-1]:,.0f} decisions played."


def draw_saved(study: Asked, units: str, cases: list[str]) -> Path:
    """What playing adds: online from nothing, launchpad from each dataset; means, and from least to most."""
    target = study.folder / f"launchpad-{units}.png"
    with house_style():
        figure = new_figure(7.0, 4.2)
        axes = figure.subplots()
        lines = {ONLINE: (cases[0], ONLINE)}
        lines |= {f"launchpad, {recorded(case)}": (case, LAUNCHPAD) for case in cases}
        for k, (label, (case, kind)) in enumerate(lines.items()):
            x, y = curves(study, case, kind)
            axes.fill_between(x, y.min(0), y.max(0), color=f"C{k}", alpha=0.12, linewidth=0)
            axes.plot(x, y.mean(0), "o-", color=f"C{k}", linewidth=1.2, markersize=3, label=label)
        quiet_axes(axes, "y")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("decisions played")
        axes.set_ylabel("share of the submitted value (%)")
        axes.legend(frameon=False)
        write_whole(target, to_png(figure))
    return target


def draw_quality(study: Asked, units: str, outcomes: Sequence[Outcome]) -> Path:
    """What each method made of what was recorded: the value, and how far ahead of the best order it is."""
    target = study.folder / f"quality-{units}.png"
    names = [name for name in methods_of(outcomes[0].case) if name != ABLATION]
    at = np.arange(len(outcomes))
    with house_style():
        figure = new_figure(9.0, 3.6)
        values, ahead = figure.subplots(1, 2)
        for label, colour, orders in (
            ("best order", INK, [o.best_order for o in outcomes]),
            ("best of those who recorded", HEURISTIC, [o.best_recorder for o in outcomes]),
        ):
            shares = [o.mean(name) for o, name in zip(outcomes, orders, strict=True)]
            values.plot(at, shares, "_", color=colour, markersize=22, label=label)
        ahead.axhline(0, color=INK, linewidth=1)
        for j, (name, colour) in enumerate(zip(names, LEARNED, strict=True)):
            x = at + 0.12 * (j - (len(names) - 1) / 2)
            values.plot(x, [o.mean(name) for o in outcomes], "o", color=colour, markersize=4, label=name)
            if name == "bc":  # far below: it would hide what lies between the others
                continue
            mean, low, high = np.array([o.ahead([name], o.best_order)[0] for o in outcomes]).T
            ahead.errorbar(x, mean, [mean - low, high - mean], fmt="o", color=colour, markersize=4)
        for axes, label in (
            (values, "share of the submitted value (%)"),
            (ahead, "ahead of the best order (points)"),
        ):
            axes.set_xticks(at, [recorded(o.case) for o in outcomes], rotation=30, ha="right")
            axes.set_ylabel(label)
            quiet_axes(axes, "y")
        figure.legend(*values.get_legend_handles_labels(), loc="outside right upper")
        write_whole(target, to_png(figure))
    return target


def main() -> None:
    """Record, learn, evaluate, tell."""
    study = asked(__doc__, CASES, "runs/study-launchpad")
    for case in study.cases:
        record(study, case)
    of_units: dict[str, list[str]] = {}
    for case in study.cases:
        of_units.setdefault(case.partition("-")[0], []).append(case)
    for units in of_units:
        study.for_seeds(partial(play, study, units))
    study.learn(partial(learn, study))
    outcomes = {case: outcome_of(study, case) for case in study.cases}
    parts = [f"{told(outcome)} {saved(study, case)}" for case, outcome in outcomes.items()]
    parts += [quality(list(outcomes.values())), advice(list(outcomes.values()))]
    summary = study.folder / "summary.md"
    write_whole(summary, "\n\n".join(parts).encode() + b"\n")
    print(summary.read_text("utf-8"))
    print(summary)
    for units, cases in of_units.items():
        print(draw_quality(study, units, [outcomes[case] for case in cases]))
        print(draw_saved(study, units, cases))


if __name__ == "__main__":
    main()
