"""`rlsched policies`: the orders in which a queue can be served, and the rules of backfilling."""

from __future__ import annotations

from rlsched.cli import options, output

BACKFILL_DOCS = {
    "none": "the first of the queue starts, or nobody",
    "greedy": "the first one that fits starts; nobody has a reservation",
    "easy": "the first that does not fit gets a reservation; others start if they do not delay it",
    "conservative": "every job that is passed over gets a reservation",
    "rlscheduler": "with --protocol rlscheduler only: the rule of that simulator",
}


def policies(json: options.JsonOption = None) -> None:
    """List the queue orders for --policy and --against, and the rules for --backfill.

    Wherever an order is named, the folder of a trained policy can be named, too.

    Example: rlsched simulate --scenario lublin-256 --policy sjf,area --backfill greedy,easy
    """
    from rlsched.evaluate.policy_names import BACKFILL_RULES
    from rlsched.sim.orders import PLACEMENTS
    from rlsched.sim.priorities import PRIORITIES

    rules = [{"name": name, "doc": BACKFILL_DOCS.get(name, "")} for name in BACKFILL_RULES]
    placements = [{"name": name, "doc": doc} for name, doc in PLACEMENTS.items()]
    orders = [{"name": order.name, "doc": order.doc} for order in PRIORITIES.values()]
    if json is not None:
        output.list_json(json, "policies", orders, backfills=rules, placements=placements)
        return
    from rlsched.cli.tables import plain_table

    console = output.console()
    for title, what, rows in (
        ("policy", "who goes first", orders),
        ("backfill", "who may start", rules),
        ("backfill with a horizon", "who may start", placements),
    ):
        table = plain_table(None, [title, what])
        for row in rows:
            table.add_row(row["name"], row["doc"])
        console.print(table)
        console.print()
