"""`rlsched objectives`: what a policy can be rewarded for."""

from __future__ import annotations

from dataclasses import asdict

from rlsched.cli import options, output


def objectives(json: options.JsonOption = None) -> None:
    """List reward terms and the presets made of them.

    Example: rlsched scenarios show lublin-256 --set objective=utilization
    """
    from rlsched.envs.objectives import REWARD_TERMS
    from rlsched.scenario import OBJECTIVE_PRESETS

    terms = [{"name": name, **asdict(term)} for name, term in REWARD_TERMS.items()]
    presets = [{"name": name, "reward": weights} for name, weights in OBJECTIVE_PRESETS.items()]
    if json is not None:
        output.list_json(json, "objectives", presets, terms=terms)
        return
    from rlsched.cli.tables import plain_table

    console = output.console()
    table = plain_table(None, ["preset (--set objective=NAME)", "reward"])
    for name, weights in OBJECTIVE_PRESETS.items():
        table.add_row(name, " + ".join(f"{weight:g} x {term}" for term, weight in weights.items()))
    console.print(table)
    table = plain_table(None, ["term (--set objective.reward.NAME=WEIGHT)", "each tick", "unit", "source"])
    for term in terms:
        table.add_row(term["name"], term["formula"], term["unit"], term["source"])
    console.print(table)
