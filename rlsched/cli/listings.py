"""`rlsched policies`, `objectives` and `algorithms`: names for options and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlsched.cli import options, output

if TYPE_CHECKING:
    from rlsched.scenario.term_spec import TermSpec

BACKFILL_DOCS = {
    "none": "only the first job of the queue may start",
    "greedy": "the first job that fits starts; no job has a reservation",
    "easy": "the first job that does not fit gets a reservation; others start if they do not delay it",
    "conservative": "every job that others pass gets a reservation",
    "rlscheduler": "the rule of that simulator, only with --protocol rlscheduler",
}


def policies(json: options.JsonOption = None) -> None:
    """List the heuristics for --policy and --against, and the rules for --backfill.

    The folder of a trained policy can take the place of a heuristic.

    Example: rlsched simulate --scenario lublin-256 --policy sjf,area --backfill greedy,easy
    """
    from rlsched.evaluate.policy_names import BACKFILL_RULES
    from rlsched.sim.heuristics import PLACEMENTS
    from rlsched.sim.priorities import PRIORITIES

    listings = {
        "policies": {rule.name: rule.doc for rule in PRIORITIES.values()},
        "backfills": {name: BACKFILL_DOCS.get(name, "") for name in BACKFILL_RULES},
        "placements": PLACEMENTS,
    }
    targets = output.Targets(json).check()
    if json is not None:
        targets.write(
            {key: [{"name": n, "doc": d} for n, d in docs.items()] for key, docs in listings.items()}
        )
        return
    from rlsched.cli.tables import plain_table

    titles = [("policy", "first job"), ("backfill", "jobs that may start")]
    titles.append(("backfill with a horizon", "jobs that may start"))
    for title, docs in zip(titles, listings.values(), strict=True):
        targets.console.print(plain_table(title, docs.items()))
        targets.console.print()


def objectives(json: options.JsonOption = None) -> None:
    """List reward and cost terms and the presets made of them.

    Example: rlsched scenarios show lublin-256 --set objective=utilization
    """
    from rlsched.scenario import OBJECTIVE_PRESETS
    from rlsched.scenario.terms import TERM_SPECS

    targets = output.Targets(json).check()
    if json is not None:
        targets.write(
            {
                "objectives": [{"name": name, **values} for name, values in OBJECTIVE_PRESETS.items()],
                "terms": [_term(spec) for spec in TERM_SPECS.values()],
            }
        )
        return
    from rlsched.cli.tables import FAINT, plain_table

    presets = [
        (name, _sum(objective["reward"]), ", ".join(objective.get("costs", ())))
        for name, objective in OBJECTIVE_PRESETS.items()
    ]
    terms = [
        (
            f"{spec.name} *" if "horizon" in spec.needs else spec.name,
            *(spec.formula, spec.unit, "yes" if spec.cost else "", spec.source),
        )
        for spec in TERM_SPECS.values()
    ]
    targets.console.print(plain_table(["preset (--set objective=NAME)", "reward", "costs"], presets))
    columns = ["term (--set objective.reward.NAME=WEIGHT)", "each tick", "unit", "cost", "source"]
    targets.console.print(plain_table(columns, terms))
    targets.console.print(
        "cost: may be limited with --set objective.costs.NAME=LIMIT; its sign is turned.   "
        "*: only with decision.horizon",
        style=FAINT,
    )


def _term(spec: TermSpec) -> dict[str, Any]:
    return {
        **{key: getattr(spec, key) for key in ("name", "cost", "formula", "unit", "source")},
        "horizon": "horizon" in spec.needs,
        "needs": sorted(spec.needs),
        "scope": spec.scope,
        "per_job": spec.per_job,
        "kernels": list(spec.kernels),
    }


def _sum(weights: Mapping[str, Any]) -> str:
    return " + ".join(f"{weight:g} x {term}" for term, weight in weights.items())


def algorithms(json: options.JsonOption = None) -> None:
    """List the learning algorithms for --algo, with their settings and defaults.

    Example: rlsched train --scenario lublin-256 --algo ppo --set ppo.learning_rate=3e-4
    """
    from rlsched.learn.algorithms.base import ALGORITHMS
    from rlsched.learn.config.training import TrainConfig

    config = TrainConfig()
    rows = [
        {
            "name": name,
            "section": algorithm.section,
            "doc": algorithm.summary,
            "source": algorithm.source,
            "settings": getattr(config, algorithm.section).model_dump(mode="json"),
        }
        for name, algorithm in ALGORITHMS.items()
    ]
    targets = output.Targets(json).check()
    if json is not None:
        targets.write({"algorithms": rows})
        return
    from rlsched.cli.tables import plain_table

    cells = [
        (
            *(row["name"], row["doc"], row["source"]),
            ", ".join(f"{row['section']}.{key}={value}" for key, value in row["settings"].items()),
        )
        for row in rows
    ]
    columns = ["algorithm", "what it is", "source", "settings (--set NAME=VALUE)"]
    targets.console.print(plain_table(columns, cells))
