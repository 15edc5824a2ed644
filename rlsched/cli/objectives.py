"""`rlsched objectives`: what a policy can be rewarded for, and what it may be held to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlsched.cli import options, output

if TYPE_CHECKING:
    from rlsched.scenario.term_spec import TermSpec


def objectives(json: options.JsonOption = None) -> None:
    """List reward and cost terms and the presets made of them.

    Example: rlsched scenarios show lublin-256 --set objective=utilization
    """
    from rlsched.scenario import OBJECTIVE_PRESETS
    from rlsched.scenario.terms import TERM_SPECS

    if json is not None:
        terms = [_term(spec) for spec in TERM_SPECS.values()]
        presets = [{"name": name, **objective} for name, objective in OBJECTIVE_PRESETS.items()]
        output.list_json(json, "objectives", presets, terms=terms)
        return
    from rlsched.cli.tables import FAINT, plain_table

    console = output.console()
    table = plain_table(None, ["preset (--set objective=NAME)", "reward", "costs"])
    for name, objective in OBJECTIVE_PRESETS.items():
        table.add_row(name, _sum(objective["reward"]), ", ".join(objective.get("costs", ())))
    console.print(table)
    table = plain_table(
        None, ["term (--set objective.reward.NAME=WEIGHT)", "each tick", "unit", "cost", "source"]
    )
    for spec in TERM_SPECS.values():
        name = f"{spec.name} *" if "horizon" in spec.needs else spec.name
        table.add_row(name, spec.formula, spec.unit, "yes" if spec.cost else "", spec.source)
    console.print(table)
    console.print(
        "cost: may be limited with --set objective.costs.NAME=LIMIT; its sign is turned.   "
        "*: only with decision.horizon",
        style=FAINT,
    )


def _term(spec: TermSpec) -> dict[str, Any]:
    """A term as JSON."""
    return {
        "name": spec.name,
        "cost": spec.cost,
        "formula": spec.formula,
        "unit": spec.unit,
        "source": spec.source,
        "horizon": "horizon" in spec.needs,
        "needs": sorted(spec.needs),
        "scope": spec.scope,
        "per_job": spec.per_job,
        "kernels": list(spec.kernels),
    }


def _sum(weights: Mapping[str, Any]) -> str:
    return " + ".join(f"{weight:g} x {term}" for term, weight in weights.items())
