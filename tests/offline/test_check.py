"""Damage of every kind is found, and named by shard and row."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rlsched.errors import BadInputError
from rlsched.offline.check import Problem, check
from rlsched.offline.columns import matrix
from rlsched.offline.manifest import MANIFEST, read_manifest

from .conftest import Damage, rewritten

SHARD, ROW = "part-00001.parquet", 712  # in the middle of an episode


def problems(folder: Path) -> list[Problem]:
    return check(folder, read_manifest(folder))


def with_column(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    at = table.column_names.index(name)
    return table.set_column(at, table.schema.field(at), values)


def changed(name: str, value: float | str | None, row: int = ROW) -> Damage:
    """One value of a column; of lists, the third."""

    def damage(table: pa.Table) -> pa.Table:
        kind = table.schema.field(name).type
        if pa.types.is_fixed_size_list(kind):
            values = matrix(table.column(name)).copy()
            values[row, 3] = value
            flat = pa.array(values.reshape(-1), kind.value_type)
            return with_column(table, name, pa.FixedSizeListArray.from_arrays(flat, type=kind))
        listed = table.column(name).to_pylist()
        listed[row] = value
        return with_column(table, name, pa.array(listed, kind))

    return damage


def illegal(table: pa.Table) -> pa.Table:
    mask = matrix(table.column("action_mask"))
    actions = table.column("actions").to_numpy().copy()
    actions[ROW] = mask[ROW].argmin()
    assert mask[ROW, actions[ROW]] == 0
    return with_column(table, "actions", pa.array(actions))


def last_of_an_episode(table: pa.Table) -> int:
    over = table.column("terminateds").to_numpy() | table.column("truncateds").to_numpy()
    return int(np.flatnonzero(over)[3])


def goes_on(table: pa.Table) -> pa.Table:
    """An end is taken away; the next row begins another episode."""
    row = last_of_an_episode(table)
    return changed("truncateds", False, row)(changed("terminateds", False, row)(table))


def ends_early(table: pa.Table) -> pa.Table:
    return changed("terminateds", True, last_of_an_episode(table) - 2)(table)


def cut(table: pa.Table) -> pa.Table:
    """Rows are lost in the middle of an episode."""
    return pa.concat_tables([table[:ROW], table[ROW + 2 :]])


def somebody_else(table: pa.Table) -> pa.Table:
    matching = table.column("behavior")[ROW].as_py()
    return changed("behavior", "qos" if matching == "sjf" else "sjf")(table)


def twice(table: pa.Table) -> pa.Table:
    """The first episode is there again."""
    end = int(np.flatnonzero(np.array(table.column("eps_id").to_pylist()) != table["eps_id"][0].as_py())[0])
    return pa.concat_tables([table, table[:end]])


def test_a_whole_dataset_has_no_problem(dataset: Path) -> None:
    looked = []
    manifest = read_manifest(dataset)
    assert check(dataset, manifest, looked.append) == []
    assert sum(looked) == manifest.rows


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (changed("obs", float("nan")), f"row {ROW}: obs is not finite"),
        (changed("new_obs", float("inf")), f"row {ROW}: new_obs is not finite"),
        (changed("rewards", float("nan")), f"row {ROW}: rewards is not finite"),
        (changed("rewards", None), f"row {ROW}: rewards is missing"),
        (changed("action_logp", 0.5), f"row {ROW}: action_logp is above 0"),
        (changed("elapsed", -1), f"row {ROW}: elapsed is below 0"),
        (changed("action_mask", 2), f"row {ROW}: action_mask holds more than 0 and 1"),
        (illegal, rf"row {ROW}: action \d is outside its mask"),
        (changed("actions", 7), f"row {ROW}: action 7 of 7"),
        (changed("actions", -1), f"row {ROW}: action -1 of 7"),
        (changed("obs", 0.123), rf"row {ROW}: obs is not new_obs of the row before"),
        (changed("t", 9999), f"row {ROW}: t does not continue from the row before"),
        (changed("behavior", "fcfs"), f"row {ROW}: behavior 'fcfs' is not in dataset.json"),
        (somebody_else, f"row {ROW}: behavior is another than in the row before"),
        (goes_on, r"episode '\d+' does not end: its last row is t \d+"),
        (ends_early, r"row \d+: its episode has ended in the row before"),
        (cut, f"row {ROW}: t does not continue from the row before"),
        (twice, r"row \d+: episode '\d+' was there before, and had ended"),
        (lambda table: table.drop_columns(["elapsed"]), "has no column 'elapsed'"),
        (lambda table: table.append_column("x", table["t"]), "has a column 'x' that nobody knows"),
        (
            lambda table: table.set_column(6, "actions", table["actions"].cast(pa.int32())),
            "column 'actions' holds int32, not int64",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_row_is_named(dataset: Path, damage: Damage, line: str) -> None:
    rewritten(dataset, 1, damage)
    (problem,) = problems(dataset)
    assert problem.shard == SHARD
    assert re.search(line, str(problem)), str(problem)


def at_byte(place: Callable[[int], int]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[place(len(content))] ^= 0x10
        path.write_bytes(content)

    return damage


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1000]), "is cut short: "),
        (lambda path: path.write_bytes(path.read_bytes() + b"x"), "is too long: "),
        (lambda path: path.unlink(), "no such file"),
        (at_byte(lambda size: size // 2), "is damaged"),
        (at_byte(lambda size: 2), ""),  # the name of the format, or a checksum
        (at_byte(lambda size: size - 2), "is cut short or no Parquet file"),
    ],
    ids=["cut", "long", "gone", "middle", "begin", "end"],
)
def test_a_damaged_file_is_named(dataset: Path, damage: Callable[[Path], None], line: str) -> None:
    damage(dataset / SHARD)
    (problem,) = problems(dataset)
    assert problem.shard == SHARD
    assert line in problem.problem


@pytest.mark.parametrize("place", range(0, 100, 7))
def test_a_flipped_byte_is_detected_anywhere(dataset: Path, place: int) -> None:
    """And where it is among the rows, these are named."""
    path = dataset / SHARD
    at_byte(lambda size: size * place // 100)(path)
    (problem,) = problems(dataset)
    assert problem.shard == SHARD
    rows = read_manifest(dataset).shards[1].rows
    assert problem.row is None or 0 <= problem.row < rows


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ({"rows": 5}, "says 5 rows, and there are"),
        ({"episodes": 5}, "says 5 episodes, and there are"),
        ({"behaviors": ()}, "behavior 'sjf' is not in dataset.json"),
    ],
)
def test_what_a_manifest_says_is_held_against_the_files(
    dataset: Path, message: dict[str, object], line: str
) -> None:
    manifest = read_manifest(dataset)
    result = check(dataset, manifest.model_copy(update=message))
    assert line in str(result[0])
    rewards = [item.model_copy(update={"rows": 7}) for item in manifest.behaviors]
    (problem,) = check(dataset, manifest.model_copy(update={"behaviors": tuple(rewards)}))
    assert str(problem) == "dataset.json: says something else of the behaviors than their episodes came to"


def test_what_no_manifest_lists_is_named(dataset: Path) -> None:
    """Other readers take every Parquet file of the folder."""
    (dataset / "part-00077.parquet").write_bytes((dataset / SHARD).read_bytes())
    (problem,) = problems(dataset)
    assert str(problem) == "part-00077.parquet: is not in dataset.json"


def test_an_empty_row_group_is_nothing(dataset: Path) -> None:
    rewritten(dataset, 1, lambda table: table, empty=True)
    assert problems(dataset) == []


def test_every_broken_shard_is_named(dataset: Path) -> None:
    for shard in ("part-00000.parquet", SHARD):
        (dataset / shard).unlink()
    assert [problem.shard for problem in problems(dataset)] == ["part-00000.parquet", SHARD]


@pytest.mark.parametrize("name", ["scenario.yaml", "recipe.yaml"])
def test_settings_that_were_edited_are_named(dataset: Path, name: str) -> None:
    file = dataset / name
    file.write_text(file.read_text().replace(": 0", ": 1", 1))
    assert [str(problem) for problem in problems(dataset)] == [f"{name}: was edited since it was written"]
    file.unlink()  # nobody needs it to read the dataset
    assert problems(dataset) == []


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda path: path.write_text("{"), "is damaged or of another version"),
        (lambda path: path.write_text("[]"), "is damaged or of another version"),
        (lambda path: path.write_bytes(b"\xff"), "cannot be read"),
        (lambda path: path.write_text('{"schema_version": 2}'), "schema_version: Input should be 1"),
        (lambda path: path.unlink(), "is a dataset that is not finished"),
    ],
)
def test_a_damaged_manifest_is_named(dataset: Path, damage: Callable[[Path], None], line: str) -> None:
    damage(dataset / MANIFEST)
    with pytest.raises(BadInputError, match=line):
        read_manifest(dataset)


def test_no_dataset_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"holds no dataset\.json"):
        read_manifest(tmp_path)
    with pytest.raises(BadInputError, match="no such folder"):
        read_manifest(tmp_path / "none")
