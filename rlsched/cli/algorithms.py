"""`rlsched algorithms`: what can learn."""

from __future__ import annotations

from typing import get_args

from rlsched.cli import options, output


def algorithms(json: options.JsonOption = None) -> None:
    """List the learning algorithms for --algo, with their settings and defaults.

    Example: rlsched train --scenario lublin-256 --algo ppo --set ppo.learning_rate=3e-4
    """
    from rlsched.learn.config import TrainConfig

    rows = []
    for name in get_args(TrainConfig.model_fields["algo"].annotation):
        section = TrainConfig.model_fields.get(name)
        model = section.annotation if section is not None else None
        defaults = section.default.model_dump(mode="json") if section is not None and section.default else {}
        rows.append({"name": name, "doc": _first_line(model), "settings": defaults})
    if json is not None:
        output.list_json(json, "algorithms", rows)
        return
    from rlsched.cli.tables import plain_table

    table = plain_table(None, ["algorithm", "what it is", "settings (--set NAME=VALUE)"])
    for row in rows:
        settings = ", ".join(f"{row['name']}.{key}={value}" for key, value in row["settings"].items())
        table.add_row(row["name"], row["doc"], settings)
    output.console().print(table)


def _first_line(model: object) -> str:
    return (model.__doc__ or "").strip().partition("\n")[0] if isinstance(model, type) else ""
