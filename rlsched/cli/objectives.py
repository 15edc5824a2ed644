"""`rlsched objectives`: what a policy can be rewarded for, and what it may be held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rlsched.cli import options, output


def objectives(json: options.JsonOption = None) -> None:
    """List reward and cost terms and the presets made of them.

    Example: rlsched scenarios show lublin-256 --set objective=utilization
    """
    from rlsched.envs.objectives import COST_NAMES, TERM_NOTES
    from rlsched.scenario import OBJECTIVE_PRESETS

    terms = [{"name": name, "cost": name in COST_NAMES, **asdict(note)} for name, note in TERM_NOTES.items()]
    presets = [{"name": name, **objective} for name, objective in OBJECTIVE_PRESETS.items()]
    if json is not None:
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
    for term in terms:
        name = f"{term['name']} *" if term["horizon"] else term["name"]
        table.add_row(name, term["formula"], term["unit"], "yes" if term["cost"] else "", term["source"])
    console.print(table)
    console.print(
        "cost: may be limited with --set objective.costs.NAME=LIMIT; its sign is turned.   "
        "*: only with decision.horizon",
        style=FAINT,
    )


def _sum(weights: Mapping[str, Any]) -> str:
    return " + ".join(f"{weight:g} x {term}" for term, weight in weights.items())
