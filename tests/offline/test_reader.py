"""Every row comes once before any comes again, in an order that goes on where it was left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlsched.errors import BadInputError
from rlsched.offline import reader as reading
from rlsched.offline.columns import matrix
from rlsched.offline.manifest import read_manifest
from rlsched.offline.reader import AHEAD, RETURN, Reader, Rows, ahead, returns_to_go


def opened(folder: Path, columns: Sequence[str], **more: int) -> Reader:
    return Reader(folder, read_manifest(folder), columns, seed=more.pop("seed", 0), **more)


@pytest.fixture(params=[100_000, 1 << 30], ids=["many lots", "one lot"])
def lots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MIXED_BYTES", request.param)


def keys(rows: Rows) -> list[tuple[str, int]]:
    return list(zip(rows["eps_id"].tolist(), rows["t"].tolist(), strict=True))


@pytest.mark.usefixtures("lots")
@pytest.mark.parametrize("count", [100, 777, 100_000])
def test_every_row_comes_once_before_any_comes_again(dataset: Path, count: int) -> None:
    reader = opened(dataset, ["eps_id", "t"])
    result: list[tuple[str, int]] = []
    while len(result) < 2 * reader.rows:
        rows = reader.take(count)
        assert len(rows["t"]) == count
        result += keys(rows)
    reader.close()
    first, second = result[: reader.rows], result[reader.rows : 2 * reader.rows]
    assert len(set(first)) == reader.rows
    assert set(first) == set(second)
    assert first != second
    assert sum(a == b for a, b in zip(first, sorted(first), strict=True)) < reader.rows / 10


def test_rows_are_what_the_files_hold(dataset: Path) -> None:
    """All columns of a row stay together."""
    manifest = read_manifest(dataset)
    table = pq.read_table([dataset / shard.file for shard in manifest.shards])
    names = ["eps_id", "t", "obs", "new_obs", "action_mask", "actions", "rewards", RETURN]
    reader = Reader(dataset, manifest, names, seed=1, gamma=0.9)
    rows = reader.take(reader.rows)
    reader.close()
    at = {
        key: k for k, key in enumerate(zip(table["eps_id"].to_pylist(), table["t"].to_pylist(), strict=True))
    }
    order = [at[key] for key in keys(rows)]
    for name in ("obs", "new_obs", "action_mask"):
        assert (rows[name] == matrix(table[name])[order]).all()
    for name in ("actions", "rewards"):
        assert (rows[name] == table[name].to_numpy()[order]).all()
    number = {name: k for k, name in enumerate(dict.fromkeys(table["eps_id"].to_pylist()))}
    episode = np.array([number[name] for name in table["eps_id"].to_pylist()])
    expected = naive(
        episode, table["t"].to_numpy(), table["rewards"].to_numpy(), 0.9 ** table["elapsed"].to_numpy()
    )
    np.testing.assert_allclose(rows[RETURN], expected[order], rtol=1e-5)


@pytest.mark.usefixtures("lots")
def test_it_goes_on_where_it_was_left(dataset: Path) -> None:
    """To the row, wherever that was; and another seed has another order."""
    whole = opened(dataset, ["eps_id", "t"])
    rows = keys(whole.take(3 * whole.rows))
    whole.close()
    for before in (0, 1, 34, 35, 4000, whole.rows - 1, whole.rows, whole.rows + 777, 2 * whole.rows - 1):
        later = opened(dataset, ["eps_id", "t"], read_before=before)
        assert keys(later.take(later.rows)) == rows[before : before + whole.rows]
        later.close()
    second = opened(dataset, ["eps_id", "t"], seed=5)
    assert keys(second.take(100)) != rows[:100]
    second.close()


def test_no_more_is_mixed_than_memory_allows(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lots of about the limit, however large the dataset."""
    limit = 600_000
    monkeypatch.setattr(reading, "MIXED_BYTES", limit)
    reader = opened(dataset, ["obs"])
    sizes = [sum(values.nbytes for values in reader._next().values()) for _ in range(5)]
    reader.close()
    manifest = read_manifest(dataset)
    row = 4 * manifest.shape.size
    metadata = [pq.read_metadata(dataset / shard.file) for shard in manifest.shards]
    group = max(file.row_group(k).num_rows for file in metadata for k in range(file.num_row_groups))
    assert max(sizes) <= limit + row * group  # a row group is the least
    assert reader.rows * row > limit + row * group


def test_a_damaged_shard_is_named(dataset: Path) -> None:
    path = dataset / "part-00001.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    reader = opened(dataset, ["obs", "new_obs", "action_mask"])
    with pytest.raises(BadInputError, match=r"part-00001.parquet: is damaged .*; see rlsched dataset check"):
        reader.take(reader.rows)
    reader.close()


def naive(episode: np.ndarray, t: np.ndarray, rewards: np.ndarray, discounts: np.ndarray) -> np.ndarray:
    result = np.zeros(len(episode))
    for name in set(episode.tolist()):
        rows = sorted(np.flatnonzero(episode == name).tolist(), key=lambda row: -t[row])
        following = 0.0
        for row in rows:
            following = rewards[row] + discounts[row] * following
            result[row] = following
    return result


@given(st.data())
def test_returns_are_sums_to_the_end(data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    episode = np.repeat(np.arange(len(lengths)), lengths)
    t = np.concatenate([np.arange(length) for length in lengths])
    order = np.array(data.draw(st.permutations(range(len(t)))))
    numbers = st.floats(-10, 10)
    rewards = np.array(data.draw(st.lists(numbers, min_size=len(t), max_size=len(t))))
    discounts = np.array(data.draw(st.lists(st.floats(0, 1), min_size=len(t), max_size=len(t))))
    args = (episode[order], t[order], rewards, discounts)
    np.testing.assert_allclose(returns_to_go(*args), naive(*args), rtol=1e-4, atol=1e-4)


@given(st.data())
def test_what_follows_is_added_up(data: st.DataObject) -> None:
    """Row by row; a run ends with its episode, or where rows of it are missing."""
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    count, n_step, gamma = sum(lengths), data.draw(st.integers(1, 9)), data.draw(st.floats(0.5, 1))
    run = np.repeat(np.arange(len(lengths)), lengths)
    rows: Rows = {
        "obs": np.arange(count),
        "rewards": np.array(data.draw(st.lists(st.floats(-9, 9), min_size=count, max_size=count))),
        "elapsed": np.array(data.draw(st.lists(st.integers(0, 5), min_size=count, max_size=count)), np.int32),
        "terminateds": np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count))),
        "new_obs": np.arange(count)[:, None] * [2, 3],
        "new_action_mask": np.arange(count)[:, None] * [5, 7],
    }
    result = ahead(rows, run[1:] == run[:-1], n_step, gamma)
    for row in range(count):
        expected = [k for k in range(row, min(row + n_step, count)) if run[k] == run[row]]
        earned, ticks = 0.0, 0
        for k in expected:
            earned += gamma**ticks * rows["rewards"][k]
            ticks += rows["elapsed"][k]
        assert result["rewards"][row] == pytest.approx(earned)
        assert result["elapsed"][row] == ticks
        for name in ("new_obs", "new_action_mask", "terminateds"):
            assert (result[name][row] == rows[name][expected[-1]]).all()
        assert result["obs"][row] == row


def test_transitions_of_a_dataset_go_over_several_decisions(dataset: Path) -> None:
    """Within the row group that they stand in; new observations are those of the last one."""
    names = ["eps_id", "t", *AHEAD]
    single, several = (opened(dataset, names, seed=3, n_step=n) for n in (1, 3))
    plain, joined = single.take(single.rows), several.take(several.rows)
    for reader in (single, several):
        reader.close()
    at = {key: row for row, key in enumerate(keys(plain))}
    whole = 0
    for row, (name, t) in enumerate(keys(joined)):
        expected = [at[name, t + k] for k in range(3) if (name, t + k) in at]
        sums = [plain["elapsed"][expected[:k]].sum() for k in range(1, len(expected) + 1)]
        assert joined["elapsed"][row] in sums
        reached = expected[sums.index(joined["elapsed"][row]) :]
        assert any((joined["new_obs"][row] == plain["new_obs"][k]).all() for k in reached)
        whole += joined["elapsed"][row] == sums[-1]
    assert whole > 0.9 * len(joined["t"])
