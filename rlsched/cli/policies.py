"""`rlsched policies`: heuristics, and rules of backfilling."""

from __future__ import annotations

from rlsched.cli import options, output

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

    rules = [{"name": name, "doc": BACKFILL_DOCS.get(name, "")} for name in BACKFILL_RULES]
    placements = [{"name": name, "doc": doc} for name, doc in PLACEMENTS.items()]
    heuristics = [{"name": rule.name, "doc": rule.doc} for rule in PRIORITIES.values()]
    if json is not None:
        output.list_json(json, "policies", heuristics, backfills=rules, placements=placements)
        return
    from rlsched.cli.tables import plain_table

    console = output.console()
    for title, meaning, rows in (
        ("policy", "first job", heuristics),
        ("backfill", "jobs that may start", rules),
        ("backfill with a horizon", "jobs that may start", placements),
    ):
        table = plain_table(None, [title, meaning])
        for row in rows:
            table.add_row(row["name"], row["doc"])
        console.print(table)
        console.print()
