"""What the formulation of the problem is worth: what is seen, when it is asked, which jobs are rewarded.

The comparison of Cunha 2022, figure 5.5, scaled down: from the DeepRM formulation to the semi-Markov one, a
switch at a time, on ten clusters of 10 to 100 processors with the jobs of Mao et al. 2016 (sizes are ours).
Each formulation is trained by PPO for as many decisions, by a flat network, or convolutions where an image is
seen; all are evaluated on the same 24 episodes of every cluster, which no training saw, beside the orders of
the queue. Told are bounded slowdowns over that of the best order, and the time that training took. On two
cores some two hours for three seeds, two trainings at a time, each with half of the cores.
Run: `make study-formulations`, or with `--seeds 1 --scale 0.02` for a look; what was done is not done again.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean, median

import numpy as np
from matplotlib.figure import Figure

from benchmarks.studies import StudyOptions, evaluate, study_options, train
from rlsched.evaluate.bootstrap import Interval, bootstrap_columns
from rlsched.evaluate.statistics import EpisodeResult
from rlsched.files import write_whole
from rlsched.report.style import INK, LEARNED, MUTED, house_style, new_figure, quiet_axes, to_png

CLUSTERS = tuple(range(10, 101, 10))
"""Processors."""

STEPS = 120_000
"""Decisions of a training: a flat network that is asked only where it can start a job is then at sjf."""

LEARNING = {
    "sampling.fragment": "32",
    "ppo.learning_rate": "2e-3",
    "ppo.epochs": "4",
    "ppo.minibatch": "256",
    "ppo.gae_lambda": "0.9",
    "ppo.entropy": "0.005",
    "validation.every": "20",
    "warm_start.decisions": "0",
}
"""Found with semi-Markov formulations on 20 and 50 processors. With lambda 1, which goes with gamma 1,
returns over a whole episode are mostly the luck of its jobs: slowdowns of 3.7 after 200,000 decisions, of sjf
2.2."""

METRIC = "bounded_slowdown"


@dataclass(frozen=True)
class Formulation:
    """One way to ask the same question.

    Attributes:
        block: block beside jobs and queue.
        time: when the agent is asked, and what its rewards span.
        scope: which waiting jobs are rewarded.
        about: in a few words.
    """

    block: str
    time: str
    scope: str
    about: str

    def words(self) -> list[str]:
        """Settings of the scenario and the network."""
        settings = {
            "observation.blocks": f"[jobs, queue, {self.block}, outlook]",
            "observation.classic": "true" if self.block == "image" else "false",
            "decision.time_rule": self.time,
            # Every tick is every tick, those in which nothing can start as well.
            "decision.skip_forced": "false" if self.time == "tick" else "true",
            "objective.scope": self.scope,
            "network.kind": "cnn" if self.block == "image" else "mlp",
        }
        return set_to(settings)


FORMULATIONS = {
    "deeprm": Formulation("image", "tick", "all", "image, every tick, all jobs"),
    "compact": Formulation("profile", "tick", "all", "compact, every tick, all jobs"),
    "sparse": Formulation("profile", "sparse", "all", "compact, sparse, all jobs"),
    "smdp": Formulation("profile", "smdp", "all", "compact, semi-Markov, all jobs"),
    "smdp-events": Formulation("event_horizon", "smdp", "all", "events, semi-Markov, all jobs"),
    "smdp-window": Formulation("event_horizon", "smdp", "window", "events, semi-Markov, jobs in sight"),
}
CASES = {f"{name}-{size}": (name, size) for name, size in product(FORMULATIONS, CLUSTERS)}
COLOURS = dict(zip(FORMULATIONS, LEARNED, strict=True))


def set_to(settings: Mapping[str, str]) -> list[str]:
    """Words that set them."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def cluster(size: int) -> list[str]:
    """The scenario of so many processors."""
    resources = f"[{{name: processors, units: {size}}}]"
    return ["--scenario", "deeprm", *set_to({"cluster.resources": resources})]


def run_of(study: StudyOptions, name: str, size: int, seed: int) -> Path:
    """Folder of a training."""
    return study.folder / f"{name}-{size}-{seed}"


def learn(study: StudyOptions, case: str, seed: int) -> None:
    """Train a formulation on a cluster."""
    name, size = CASES[case]
    steps = ["--steps", str(round(study.scale * STEPS))]
    words = [*cluster(size), *FORMULATIONS[name].words(), *set_to(LEARNING), *steps]
    train(run_of(study, name, size, seed), words, seed=seed, threads=study.threads)


def seconds(run: Path) -> float:
    """That a training took for a thousand decisions, without its validation."""
    with (run / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rates = [(float(row["steps"]), float(row["steps_per_second"])) for row in csv.DictReader(file)]
    before, took = 0.0, 0.0
    for steps, rate in rates:
        took += (steps - before) / rate if rate else 0.0
        before = steps
    return 1e3 * took / before


@dataclass(frozen=True)
class Cell:
    """What a formulation reached on a cluster.

    Attributes:
        ratios: (seeds, episodes) bounded slowdown over the best order's mean.
        seconds: (seeds,) for a thousand decisions.
    """

    ratios: np.ndarray
    seconds: list[float]

    @property
    def usual_seconds(self) -> float:
        """The seeds' median: who else computes on the machine slows down one or the other."""
        return median(self.seconds)

    @property
    def interval(self) -> Interval:
        """Mean of all, and its 95 % interval over episodes, which all formulations share."""
        return bootstrap_columns([self.ratios.mean(axis=0)])[0]


def cell_results(study: StudyOptions, size: int) -> tuple[dict[str, Cell], str]:
    """What all formulations reached on a cluster, and the best order there with its mean."""
    runs = {n: [run_of(study, n, size, seed) for seed in range(study.seeds)] for n in FORMULATIONS}
    policies = [run for item in runs.values() for run in item]
    results = evaluate(policies, cluster(size), study.folder / f"{size}.json")
    orders = {(r.policy, r.backfill) for r in results if not r.learned}
    best = min(orders, key=lambda order: fmean(of(results, *order)))
    level = fmean(of(results, *best))
    reached = {
        name: Cell(np.array([of(results, str(run)) for run in item]) / level, [seconds(run) for run in item])
        for name, item in runs.items()
    }
    return reached, f"{best[0]}:{best[1]} {level:.2f}"


def of(results: Sequence[EpisodeResult], policy: str, backfill: str | None = None) -> list[float]:
    """The bounded slowdowns of a policy, episode by episode."""
    return [r.metrics[METRIC] for r in results if r.policy == policy and backfill in (None, r.backfill)]


def table(cells: Mapping[int, tuple[Mapping[str, Cell], str]]) -> str:
    """Bounded slowdown over the best order's, with the 95 % interval over episodes; below 1 is better."""
    form = "{:>10}  {:<22}" + "{:>22}" * len(FORMULATIONS)
    lines = [form.format("processors", "best order", *FORMULATIONS)]
    for size, (reached, best) in cells.items():
        intervals = [entry.interval for entry in reached.values()]
        reported = [f"{entry.mean:.3f} [{entry.low:.2f}, {entry.high:.2f}]" for entry in intervals]
        lines.append(form.format(size, best, *reported))
    means = [fmean(float(r[name].ratios.mean()) for r, _ in cells.values()) for name in FORMULATIONS]
    took = [fmean(r[name].usual_seconds for r, _ in cells.values()) for name in FORMULATIONS]
    lines.append(form.format("mean", "", *(f"{mean:.3f}" for mean in means)))
    lines.append(form.format("s / 1,000", "decisions", *(f"{item:.2f}" for item in took)))
    return "\n".join(lines)


def draw(cells: Mapping[int, tuple[Mapping[str, Cell], str]]) -> Figure:
    """Bounded slowdown by cluster, a line per formulation; beside it how long they train."""
    with house_style():
        figure = new_figure(11.0, 4.6)
        quality, time = figure.subplots(1, 2, width_ratios=[1.7, 1])
        quality.axhline(1.0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        for name, colour in COLOURS.items():
            of_name = {size: reached[name] for size, (reached, _) in cells.items()}
            values = [item.ratios.mean() for item in of_name.values()]
            label = FORMULATIONS[name].about
            quality.plot(list(of_name), values, "o-", color=colour, linewidth=1.8, markersize=4, label=label)
            seeds = [(size, mean) for size, item in of_name.items() for mean in item.ratios.mean(axis=1)]
            quality.plot(*zip(*seeds, strict=True), "o", color=colour, markersize=2, alpha=0.6)
            took = [item.usual_seconds for item in of_name.values()]
            time.plot(list(of_name), took, "o-", color=colour, linewidth=1.8, markersize=4)
        quality.set_title("bounded slowdown, of the best order's (below 1: better)")
        low, high = quality.get_ylim()
        quality.set_ylim(low, high + 0.25 * (high - low))  # room for the legend
        quality.legend(ncols=2, fontsize=8.5)
        time.set_title("seconds of training for 1,000 decisions")
        time.set_yscale("log")
        time.set_yticks([0.2, 0.5, 1.0, 2.0, 5.0], ["0.2", "0.5", "1", "2", "5"])
        time.minorticks_off()
        for axes in (quality, time):
            axes.set_xlabel("processors")
            quiet_axes(axes, "y")
        figure.supxlabel(
            "means over 24 episodes, the same for all; small dots: seeds", fontsize=8.5, color=MUTED
        )
    return figure


def main() -> None:
    """Train, evaluate, tell, draw."""
    study = study_options(__doc__, CASES, "runs/study-formulations")
    study.learn(partial(learn, study))
    if len(study.cases) < len(CASES):
        print(f"no picture yet: {len(study.cases)} of {len(CASES)} cases were asked for")
        return
    cells = {size: cell_results(study, size) for size in CLUSTERS}
    print(table(cells))
    picture = study.folder / "formulations.png"
    write_whole(picture, to_png(draw(cells)))
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
