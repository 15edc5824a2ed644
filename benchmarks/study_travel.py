"""Policies for clusters that they never saw: trained on the Lublin model alone, shown on three traces.

They are trained on 128, 256 and 2,048 processors, calm and overloaded, with exact requests and with those of
users (`lublin-sizes`): by PPO (`travels`), and priority functions by a search. Without another decision of
training they are shown on lublin_256, HPC2N and CTC-SP2 by the RLScheduler protocol: next to every order of
the queue, greedy and with EASY backfilling, and policies trained on each trace's own past (`study_hpc`), or
on the model that lublin_256 was drawn from. Then on the Lublin model with 256 processors, and with ten times
as many: how much of what they gain over the best order is left. What a training may take is a number of
decisions; on two cores about two hours for three seeds, two at a time, each with half of the cores.
Run: `make study-travel`, or with `--seeds 1 --scale 0.05` for a look; what was done is not done again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from studies import Asked, asked, evaluated, train
from study_hpc import DATA, TRACES, training

from rlsched.evaluate.bootstrap import RESAMPLES, Interval, bootstrap_columns
from rlsched.files import write_whole
from rlsched.jobs import FloatArray
from rlsched.report.style import HEURISTIC, LEARNED, MUTED, house_style, new_figure, quiet_axes, to_png
from rlsched.sim.priorities import PRIORITIES

STEPS, SEARCH_STEPS = 2_000_000, 60_000_000
"""Decisions of a training, and of a search."""

TRAVELLING = [
    *("--set", "decision.action_rule=hold", "--set", "sampling.envs_per_runner=256"),
    *("--set", "objective.reward.wait_time=0.001"),
    *("--set", "validation.every=2"),
]
"""Few and large iterations: a batch then has some ten episodes of every part of the mixture. Waiting costs
more than in the scenario: at its price PPO moves on to waits that are over the limits of hoarding."""

RULES = ("fit", "hold")
"""`decision.action_rule`: jobs that do not fit are passed over, or may have a reservation, as under EASY.
Waiting is legal under both."""

UNITS = {"linear": 0, "small": 8}
"""Hidden units of a priority function."""

SEARCHED = {f"{form}-{rule}": (form, rule) for form, rule in product(UNITS, RULES)}
"""Priority functions that are searched for."""

SEARCHING = [
    *("--scenario", "lublin-sizes", "--algo", "priority_search"),
    *("--set", "observation.blocks=[jobs, queue, history]"),  # what a priority function reads; half the time
    *("--set", "objective.reward.wait_time=0"),  # waits have prices of their own
    *("--set", "search.episodes=48", "--set", "search.sigma=0.05"),
    *("--set", "validation.every=2"),
]
"""Four episodes of every part of the mixture; small steps: the beginning is near the limits of hoarding."""

PRICES = ["--set", "search.pid.kp=4", "--set", "search.pid.ki=1", "--set", "search.pid.error_smoothing=0.7"]
"""Searches go over the limits of hoarding at once, and slower prices of waits let them stay there."""

SMALL, LARGE = 256, 2560
"""Processors that the Lublin model is shown on."""

EVERYWHERE = ("travels", *SEARCHED)
KINDS = (*EVERYWHERE, *(f"own-{trace}" for trace in TRACES))
ORDERS = [f"{order}:{rule}" for order, rule in product(PRIORITIES, ("greedy", "easy"))]
PUBLISHED = {
    "lublin_256": {"RLScheduler, backfilled": 58.64, "SMDP": 67.55},
    "HPC2N": {"RLScheduler, backfilled": 86.14, "SMDP": 59.77},
    "CTC-SP2": {"SMDP (own sequences)": 7.22},
}
"""Zhang et al. 2020 and Cunha 2022, on these sequences where nothing else is said."""

EPISODES, EPISODE_SEED = 128, 2
"""Of each size. Nothing was decided with these."""

METRIC = "bounded_slowdown"


def words(kind: str, scale: float) -> list[str]:
    """The words that train a policy of a kind."""
    if kind == "travels":
        return ["--scenario", "lublin-sizes", *TRAVELLING, "--steps", str(round(scale * STEPS))]
    if kind.startswith("own-"):
        return training(kind.removeprefix("own-"), scale)
    form, rule = SEARCHED[kind]
    how = ["--set", f"decision.action_rule={rule}", "--set", f"network.priority_units={UNITS[form]}"]
    return [*SEARCHING, *how, *PRICES, "--steps", str(round(scale * SEARCH_STEPS))]


def learn(study: Asked, kind: str, seed: int) -> None:
    """Train a policy."""
    train(study.folder / f"{kind}-{seed}", words(kind, study.scale), seed=seed, threads=study.threads)


class Shown(NamedTuple):
    """What a policy or an order reached on the ten sequences of a trace, or the episodes of a size.

    Attributes:
        mean: bounded slowdown.
        low: of the 95 % interval of the mean.
        high: likewise.
        utilization: mean.
        difference: to the best order, with its interval; None: of orders.
        hoards: whether it only pushes long jobs out of sight.
    """

    mean: float
    low: float
    high: float
    utilization: float
    difference: tuple[float, float, float] | None
    hoards: bool


def shown(target: Path, where: Sequence[str], runs: Sequence[Path]) -> dict[str, Shown]:
    """Policies and all orders, by name, on the same episodes."""
    asked_for = [*map(str, runs), *where, "--against", ",".join(ORDERS)]
    told = json.loads(evaluated(target, asked_for, runs).read_text("utf-8"))
    hoards = {one["policy"]: bool(one["breached"]) for one in told["hoarding"]}
    used = {
        (row["policy"], row["backfill"]): row["mean"]
        for row in told["summary"]
        if row["metric"] == "utilization"
    }
    found = {}
    for row in told["summary"]:
        if row["metric"] != METRIC:
            continue
        name = row["policy"] if row["learned"] else f"{row['policy']}:{row['backfill']}"
        ends = (row["best_heuristic_difference"], row["difference_low"], row["difference_high"])
        found[name] = Shown(
            row["mean"],
            row["low"],
            row["high"],
            used[row["policy"], row["backfill"]],
            ends if row["learned"] else None,
            hoards.get(row["policy"], False),
        )
    return found


def shown_on(trace: str) -> tuple[str, ...]:
    """Kinds of policies that are shown on a trace: of the others' own none."""
    return (*EVERYWHERE, f"own-{trace}")


def on_trace(study: Asked, trace: str) -> dict[str, Shown]:
    """Everybody on the ten sequences of a trace."""
    where = ["--trace", str(DATA / TRACES[trace].file), "--protocol", "rlscheduler"]
    kinds = shown_on(trace)
    runs = [study.folder / f"{kind}-{seed}" for kind in kinds for seed in range(study.seeds)]
    return shown(study.folder / f"on-{trace}.json", where, runs)


def on_size(study: Asked, units: int) -> dict[str, Shown]:
    """Everybody on the Lublin model with so many processors, but for policies of a trace."""
    where = ["--scenario", "lublin-256", "--set", f"cluster.resources.0.units={units}"]
    runs = [study.folder / f"{kind}-{seed}" for kind in EVERYWHERE for seed in range(study.seeds)]
    where += ["--episodes", str(EPISODES), "--seed", str(EPISODE_SEED)]
    return shown(study.folder / f"on-{units}.json", where, runs)


def paired(target: Path, kind: str, order: str) -> tuple[FloatArray, FloatArray]:
    """(episode,) values in this file of all seeds of a kind, on average, and of an order (order:backfill)."""
    played: dict[str, list[float]] = {}
    for episode in json.loads(target.read_text("utf-8"))["episodes"]:
        name = f"{episode['policy']}:{episode['backfill']}"
        played.setdefault(name, []).append(episode["metrics"][METRIC])
    seeds = [values for name, values in played.items() if kind_of(name.rpartition(":")[0]) == kind]
    return np.mean(seeds, axis=0), np.array(played[order])


def together(target: Path, kind: str, order: str) -> Interval:
    """How far all seeds of a kind are from an order, paired by the episodes in this file."""
    ours, theirs = paired(target, kind, order)
    return bootstrap_columns([ours - theirs])[0]


def gains(target: Path, kind: str, order: str) -> FloatArray:
    """(1 + resamples,) share that all seeds of a kind are lower than an order: as it is, then resampled.

    Episodes are resampled, together; seeds and which order is the best are as they are.
    """
    ours, theirs = paired(target, kind, order)
    rows = np.random.default_rng(0).integers(len(ours), size=(RESAMPLES, len(ours)))
    rows = np.vstack([np.arange(len(ours)), rows])
    ours_mean, theirs_mean = (values[rows].mean(axis=1) for values in (ours, theirs))
    return np.asarray(1.0 - ours_mean / theirs_mean, np.float64)


def percents(shares: FloatArray) -> str:
    """The first of them with the 95 % interval of the others."""
    low, high = np.quantile(shares[1:], (0.025, 0.975))
    return f"{100 * shares[0]:.1f} [{100 * low:.1f}, {100 * high:.1f}] %"


def gained(shares: dict[int, FloatArray]) -> str:
    """What is gained with so many processors, and how much of it more processors cost.

    Args:
        shares: processors, the fewer first -> `gains`.
    """
    small, large = shares.values()
    words = [f"{percents(share)} with {units:,} processors" for units, share in shares.items()]
    if np.quantile(small[1:], 0.025) > 0:  # else shares of it mean nothing
        words.append(f"loses {percents(1.0 - large / small)} of it")
    return f"gains {', '.join(words)}"


def kind_of(name: str) -> str:
    """Which kind of run a folder is of; orders are none."""
    run = Path(name).name.rpartition("-")[0]
    return run if run in KINDS else ""


def best_order(found: dict[str, Shown]) -> tuple[str, Shown]:
    """The order with the lowest mean."""
    return min(
        ((n, one) for n, one in found.items() if one.difference is None), key=lambda pair: pair[1].mean
    )


def told(place: str, found: dict[str, Shown]) -> str:
    """The best orders and every policy, a line each."""
    form = "  {:<28} {:>8} {:<18} {:>6} {:<24} {}"
    orders = sorted((one.mean, name) for name, one in found.items() if one.difference is None)
    names = [name for _, name in orders[:5]] + [name for name in found if kind_of(name)]
    lines = [place, form.format("", "slowdown", "95 %", "used", "to the best order", "")]
    for name in names:
        one = found[name]
        ends = "" if one.difference is None else "{:+.2f} [{:+.2f}, {:+.2f}]".format(*one.difference)
        lines.append(
            form.format(
                Path(name).name,
                f"{one.mean:.2f}",
                f"[{one.low:.2f}, {one.high:.2f}]",
                f"{100 * one.utilization:.1f}",
                ends,
                "hoards" if one.hoards else "",
            )
        )
    lines += [f"  {who:<28} {value:>8.2f} (published)" for who, value in PUBLISHED.get(place, {}).items()]
    return "\n".join(lines)


def draw(traces: dict[str, dict[str, Shown]]) -> Figure:
    """A panel for each trace: orders, what is published, and policies with their intervals."""
    titles = {
        "travels": ("travels", LEARNED[0]),
        **{kind: (f"searched, {kind.replace('-', ', ')}", LEARNED[1]) for kind in SEARCHED},
        "own": ("of its own", LEARNED[2]),
    }
    with house_style():
        figure = new_figure(11.0, 5.4)
        for axes, (trace, found) in zip(figure.subplots(1, len(traces)), traces.items(), strict=True):
            name, best = best_order(found)
            axes.axvline(best.mean, color=HEURISTIC, linewidth=0.8, linestyle=(0, (4, 3)))
            rows: list[tuple[str, str, list[Shown]]] = [(f"{name} (best order)", HEURISTIC, [best])]
            for kind, (title, colour) in titles.items():
                of_kind = f"own-{trace}" if kind == "own" else kind
                rows.append((title, colour, [one for run, one in found.items() if kind_of(run) == of_kind]))
            for k, (_, colour, seeds) in enumerate(rows):
                for j, one in enumerate(seeds):
                    y = k + 0.16 * (j - (len(seeds) - 1) / 2)
                    axes.plot([one.low, one.high], [y, y], color=colour, linewidth=1.6)
                    axes.plot(one.mean, y, "o", color=colour, markersize=5)
            for j, (who, value) in enumerate(PUBLISHED[trace].items()):
                axes.plot(value, len(rows), "x", color=MUTED)
                below = (value, len(rows) + 0.18 + 0.25 * j)  # one under the other: they are close
                axes.annotate(who, below, ha="right", va="top", fontsize=7.5, color=MUTED)
            axes.set_yticks(range(len(rows) + 1), [title for title, _, _ in rows] + ["published"], fontsize=8)
            axes.set_ylim(len(rows) + 0.9, -0.6)
            axes.set_xlim(left=0)
            axes.set_title(trace)
            axes.set_xlabel("bounded slowdown")
            quiet_axes(axes, "x")
        figure.supxlabel(
            "ten sequences of 1,024 jobs, the same for all; bars: 95 % intervals of the mean, one per seed",
            fontsize=8.5,
            color=MUTED,
        )
    return figure


def _interval(study: Asked, place: str | int, kind: str, order: str) -> str:
    one = together(study.folder / f"on-{place}.json", kind, order)
    return f"{one.mean:+.2f} [{one.low:+.2f}, {one.high:+.2f}]"


def main() -> None:
    """Train, show, tell, draw."""
    study = asked(__doc__, KINDS, "runs/study-travel")
    study.learn(partial(learn, study))
    if len(study.cases) < len(KINDS):
        print(f"no picture yet: {len(study.cases)} of {len(KINDS)} kinds were asked for")
        return
    traces = {trace: on_trace(study, trace) for trace in TRACES}
    for trace, found in traces.items():
        print(told(trace, found))
        for kind, order in product(shown_on(trace), (best_order(found)[0], "sjf:greedy")):
            print(f"  {kind}, all seeds, to {order}: {_interval(study, trace, kind, order)}")
        ours = median(one.mean for name, one in found.items() if kind_of(name) == "travels")
        print(f"  travels, median of seeds: {ours:.2f}; best order {best_order(found)[1].mean:.2f}")
    sizes = {units: on_size(study, units) for units in (SMALL, LARGE)}
    for units, found in sizes.items():
        print(told(f"{units:,} processors", found))
        for kind, order in product(EVERYWHERE, (best_order(found)[0], "sjf:greedy")):
            print(f"  {kind}, all seeds, to {order}: {_interval(study, units, kind, order)}")
    for kind in EVERYWHERE:
        shares = {
            units: gains(study.folder / f"on-{units}.json", kind, best_order(found)[0])
            for units, found in sizes.items()
        }
        print(f"{kind} {gained(shares)}")
    picture = study.folder / "travel.png"
    write_whole(picture, to_png(draw(traces)))
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
