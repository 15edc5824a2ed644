"""`rlsched algorithms`: what can learn."""

from __future__ import annotations

from rlsched.cli import options, output


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
    if json is not None:
        output.list_json(json, "algorithms", rows)
        return
    from rlsched.cli.tables import plain_table

    table = plain_table(None, ["algorithm", "what it is", "source", "settings (--set NAME=VALUE)"])
    for row in rows:
        settings = ", ".join(f"{row['section']}.{key}={value}" for key, value in row["settings"].items())
        table.add_row(row["name"], row["doc"], row["source"], settings)
    output.console().print(table)
