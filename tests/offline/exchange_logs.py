"""Logs of other programs for the tests of imports and exports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rlsched.offline.importing import Imported, import_dataset
from rlsched.offline.manifest import read_manifest
from rlsched.offline.parquet_log import ParquetEpisodes
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout

NAME = "rlsched/short/mixed-v0"


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Columns of the episodes, in the order of their names, without these."""
    table = pq.read_table([folder / shard.file for shard in read_manifest(folder).shards])
    result = []
    for name in sorted(table.column("eps_id").unique().to_pylist()):
        matching = table.filter(pa.compute.equal(table.column("eps_id"), name)).drop_columns(["eps_id"])
        result.append({key: matching.column(key).to_pylist() for key in matching.column_names})
    return result


def same_episodes(
    remaining: list[dict[str, Any]], right: list[dict[str, Any]], *, but: tuple[str, ...] = ()
) -> bool:
    """Whether the same episodes are in both, in any order."""

    def sorted_rows(rows: list[dict[str, Any]]) -> list[str]:
        return sorted(str({key: values for key, values in item.items() if key not in but}) for item in rows)

    return sorted_rows(remaining) == sorted_rows(right)


def imported(source: Path, chosen: Scenario, out: Path, named: Mapping[str, str] | None = None) -> Imported:
    return import_dataset(ParquetEpisodes(source, named or {}), chosen, out, "a test")


class Log:
    """A log of another program that knows the environment only."""

    def __init__(self, chosen: Scenario, episodes: int, *, flat: bool) -> None:
        env = gym.make("rlsched/green-10", scenario=chosen, flat=flat)
        rng = np.random.default_rng(3)
        self.rows: list[dict[str, Any]] = []
        self.lasts: list[tuple[Any, Any]] = []
        for number in range(episodes):
            obs, info = env.reset(seed=number)
            over = False
            while not over:
                mask = env.unwrapped.action_masks()
                action = int(rng.choice(np.flatnonzero(mask)))
                observed = obs
                obs, reward, terminated, truncated, info = env.step(action)
                over = terminated or truncated
                ends = {"terminal": terminated, "cut": truncated}
                row = {"run": number, "seen": observed, "mask": mask, "did": action, "paid": reward, **ends}
                self.rows.append(row)
                if not flat:
                    self.rows[-1] |= {"ticks": int(info["elapsed"]), "costs": list(info["costs"].values())}
            self.lasts.append((obs, env.unwrapped.action_masks()))


def vector(chosen: Scenario) -> Layout:
    return Layout.of(chosen.observation.public, chosen.decision, 2)


def plain(table: dict[str, list[Any]], path: Path) -> Path:
    pq.write_table(pa.table(table), path)
    return path


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [np.asarray(row[name]).tolist() for row in rows]


RENAMED = {
    "eps_id": "run",
    "obs": "seen",
    "actions": "did",
    "rewards": "paid",
    "terminateds": "terminal",
    "truncateds": "cut",
}
