"""Policy gradients on DeepRM: REINFORCE with two kinds of baselines, a critic step by step, and PPO.

The comparison of Cunha 2022, figures 5.2 and 5.3: the jobs of Mao et al. 2016 at the load of their learning
curves (1.29), one flat network of 256 and 128 units for all. REINFORCE plays every training episode 16 times
and holds what each of these earned against the mean of all (centralised), or of the four that one of four
workers played. `a2c` is PPO with one gradient per batch, which clips nothing: an advantage actor-critic. All
learn from as many decisions and are validated on the same episodes on the way; told is the slowdown of the
policy that each keeps on 96 other episodes, what jobs wait, how far they are spread, and what the training
took. On two cores some 20 minutes for three seeds, two trainings at a time, each with half of the cores.
Run: `make study-deeprm`, or with `--seeds 1 --scale 0.05` for a look; what was done is not done again.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.studies import StudyOptions, evaluate, study_options, train
from rlsched.evaluate.statistics import SummaryRow, Table, summarise
from rlsched.files import write_whole
from rlsched.report.learning_curve import Curve, learning_of
from rlsched.report.style import HEURISTIC, LEARNED, MUTED, house_style, new_figure, quiet_axes, to_png

STEPS = 1_500_000
"""Decisions of a training."""

EPISODES = 96
METRIC = "slowdown"

SETTING = ["--scenario", "deeprm", "--set", "workload.max_demand=1"]
NETWORK = {"network.kind": "mlp", "network.hidden": "[256, 128]", "network.critic_hidden": "[256, 128]"}
REINFORCE = {
    "reinforce.episodes": "4",
    "reinforce.trajectories": "16",
    "reinforce.entropy": "2",
    "validation.every": "20",
}
ACTOR_CRITIC = {
    "sampling.fragment": "64",
    "validation.every": "20",
    "ppo.gae_lambda": "0.95",
    "warm_start.decisions": "0",  # REINFORCE begins with random weights, too
}
A2C = {"ppo.epochs": "1", "ppo.minibatch": "4096", "ppo.learning_rate": "3e-3", "ppo.entropy": "0.03"}
LEARNERS = {
    "reinforce": ("reinforce", REINFORCE),
    "reinforce-workers": ("reinforce", REINFORCE | {"reinforce.workers": "4"}),
    "a2c": ("ppo", ACTOR_CRITIC | A2C),
    "ppo": ("ppo", ACTOR_CRITIC | {"ppo.epochs": "4", "ppo.minibatch": "512", "ppo.learning_rate": "1e-3"}),
}
"""Entropies, and A2C's learning rate, are the best of some that were tried with another seed, by validation:
without them all but PPO soon take whatever comes first."""
TITLES = {
    "reinforce": "REINFORCE, centralised",
    "reinforce-workers": "REINFORCE, four workers",
    "a2c": "A2C",
    "ppo": "PPO",
}
DRAWN = ("sjf + now", "sjf + horizon", "fcfs + now")
"""Orders whose lines the picture has: the others are near them."""
COLOURS = dict(zip(LEARNERS, LEARNED, strict=False))


def learn(study: StudyOptions, name: str, seed: int) -> None:
    """Train a policy."""
    algo, settings = LEARNERS[name]
    chosen = [
        word
        for key, value in (NETWORK | settings | {"validation.metric": METRIC}).items()
        for word in ("--set", f"{key}={value}")
    ]
    words = [*SETTING, "--algo", algo, *chosen, "--steps", str(round(study.scale * STEPS))]
    train(study.folder / f"{name}-{seed}", words, seed=seed, threads=study.threads)


class Learned(NamedTuple):
    """How one algorithm learned, on the points where all of its seeds were validated.

    Attributes:
        steps: (points,) decisions.
        seconds: (points,) of training, the seeds' mean.
        values: (seeds, points) slowdown in validation.
    """

    steps: NDArray[np.float64]
    seconds: NDArray[np.float64]
    values: NDArray[np.float64]


def learned(curves: Sequence[Curve]) -> Learned:
    """What the runs of one algorithm wrote down; they are validated after about as many decisions each."""
    points = min(len(curve.validation_steps) for curve in curves)
    return Learned(
        np.mean([curve.validation_steps[:points] for curve in curves], axis=0),
        np.mean([seconds(Path(curve.name))[:points] for curve in curves], axis=0),
        np.array([curve.validation_values[:points] for curve in curves]),
    )


def seconds(run: Path) -> list[float]:
    """That had gone by at each validation."""
    with (run / "metrics.csv").open(encoding="utf-8", newline="") as file:
        return [float(row["seconds"]) for row in csv.DictReader(file) if row[f"validation_{METRIC}"]]


def table(rows: Iterable[SummaryRow], took: Mapping[str, float]) -> str:
    """All orders and policies, a line each, best first.

    Args:
        rows: of all metrics.
        took: run -> seconds of its training.
    """
    form = "{:<26} {:>9} {:<16} {:<24} {:>6} {:>6} {:>8}"
    head = form.format("", METRIC, "95 %", "to the best order", "wait", "span", "seconds")
    means: dict[tuple[str, str], dict[str, SummaryRow]] = {}
    for row in rows:
        means.setdefault((row.policy, row.backfill), {})[row.metric] = row
    lines = []
    for (policy, backfill), value in sorted(means.items(), key=lambda item: item[1][METRIC].mean):
        row = value[METRIC]
        name, ahead, seconds = f"{policy}:{backfill}", "", ""
        if row.learned:
            name, seconds = Path(policy).name, f"{took[policy]:.0f}"
            ends = (row.best_heuristic_difference, row.difference_low, row.difference_high)
            ahead = "{:+.2f} [{:+.2f}, {:+.2f}]".format(*ends)
        within = f"[{row.low:.2f}, {row.high:.2f}]"
        rest = f"{value['wait'].mean:.0f}", f"{value['schedule_span'].mean:.2f}"
        lines.append(form.format(name, f"{row.mean:.3f}", within, ahead, *rest, seconds).rstrip())
    return "\n".join([head, *lines])


def draw(curves: Mapping[str, Learned], orders: Mapping[str, float]) -> Figure:
    """Slowdown in validation, by decisions and by time; a band is from the lowest to the highest seed."""
    with house_style():
        figure = new_figure(11.0, 4.6)
        remaining, right = figure.subplots(1, 2, sharey=True)
        for axes, about in ((remaining, "decisions, millions"), (right, "seconds of training")):
            for name, curve in curves.items():
                at = curve.steps / 1e6 if axes is remaining else curve.seconds
                axes.fill_between(
                    at, curve.values.min(0), curve.values.max(0), color=COLOURS[name], alpha=0.15
                )
                axes.plot(at, curve.values.mean(0), color=COLOURS[name], linewidth=1.8, label=TITLES[name])
            for name, value in orders.items():
                axes.axhline(value, color=HEURISTIC, linewidth=0.8, linestyle=(0, (4, 3)))
                if axes is right:
                    axes.annotate(
                        f"{name} {value:.2f}",
                        (1.01, value),
                        xycoords=("axes fraction", "data"),
                        va="center",
                        fontsize=8,
                        color=MUTED,
                    )
            axes.set_xlabel(about)
            axes.set_xlim(left=0)
            quiet_axes(axes, "y")
        remaining.set_ylim(0.0, 1.3 * max(orders.values()))
        remaining.set_title("slowdown of validation episodes")
        right.legend(fontsize=8.5)
        figure.supxlabel(
            "lines: means of seeds; bands: lowest to highest seed; dashed: orders, on the same episodes",
            fontsize=8.5,
            color=MUTED,
        )
    return figure


def main() -> None:
    """Train, evaluate, tell, draw."""
    study = study_options(__doc__, LEARNERS, "runs/study-deeprm")
    study.learn(partial(learn, study))
    runs = {name: [study.folder / f"{name}-{seed}" for seed in range(study.seeds)] for name in study.cases}
    policies = [run for item in runs.values() for run in item]
    (learning,) = learning_of(policies)  # one picture: all are validated on the same episodes
    by_run = {Path(curve.name): curve for curve in learning.curves}
    curves = {name: learned([by_run[run] for run in item]) for name, item in runs.items()}
    results = evaluate(policies, SETTING, study.folder / "evaluated.json", episodes=EPISODES)
    rows = summarise(Table.of(results))
    print(table(rows, {str(run): seconds(run)[-1] for run in policies}))
    for name, item in runs.items():
        expected = {str(run) for run in item}
        mean = fmean(row.mean for row in rows if row.policy in expected and row.metric == METRIC)
        print(f"{TITLES[name]}: mean of seeds {mean:.3f}")
    orders = {name: value for name, value in learning.heuristics.items() if name in DRAWN}
    picture = study.folder / "deeprm.png"
    write_whole(picture, to_png(draw(curves, orders)))
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
