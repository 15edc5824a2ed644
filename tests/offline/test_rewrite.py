"""Mixing and splitting move whole episodes, and change nothing in them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.offline.check import check
from rlsched.offline.manifest import Manifest, read_manifest
from rlsched.offline.rewrite import Part, Source, check_compatible, choose_mix, choose_split, rewrite
from rlsched.scenario import Scenario

from .conftest import collected, recipe


def rows_of(folder: Path, manifest: Manifest) -> dict[str, pa.Table]:
    """Rows by episode."""
    table = pq.read_table([folder / shard.file for shard in manifest.shards])
    result = {}
    for name in table.column("eps_id").unique().to_pylist():
        matching = table.filter(pa.compute.equal(table.column("eps_id"), name))
        result[name] = matching.drop_columns(["eps_id"]).combine_chunks()
    return result


@pytest.fixture
def sources(short: Scenario, dataset: Path, tmp_path: Path) -> list[Source]:
    """Of sjf and qos, and of random decisions; both number their episodes alike."""
    second = tmp_path / "random"
    collected(short, recipe("random", 2000, seed=1), second)
    return [
        Source(dataset, read_manifest(dataset), "0-"),
        Source(second, read_manifest(second), "1-"),
    ]


def test_a_mix_holds_its_shares(sources: list[Source], tmp_path: Path) -> None:
    rows = 2400
    chosen = choose_mix(sources, [3, 1], rows, seed=0)
    (mixed,) = rewrite(sources, [Part(tmp_path / "mix", chosen, "a test")])
    assert mixed == read_manifest(tmp_path / "mix")
    assert check(tmp_path / "mix", mixed) == []
    assert rows <= mixed.rows < rows + 400  # whole episodes
    random = sum(item.rows for item in mixed.behaviors if item.behavior == "random")
    assert random / mixed.rows == pytest.approx(0.25, abs=0.1)
    result = rows_of(tmp_path / "mix", mixed)
    assert len(result) == mixed.episodes
    for source in sources:
        for name, table in rows_of(source.folder, source.manifest).items():
            if source.prefix + name in result:
                assert result.pop(source.prefix + name).equals(table)
    assert not result


def test_a_mix_takes_what_the_shares_allow(sources: list[Source]) -> None:
    chosen = choose_mix(sources, [1, 1], None, seed=0)
    least = min(source.manifest.rows for source in sources)
    for source, matching in zip(sources, chosen, strict=True):
        rows = sum(entry.rows for entry in source.episodes() if entry.eps_id in matching)
        assert least <= rows < least + 400 or rows == source.manifest.rows
    assert choose_mix(sources, [1, 1], 1000, seed=0) != choose_mix(sources, [1, 1], 1000, seed=1)
    with pytest.raises(BadInputError, match="and its share of 1,000,000 is 500,000; record more"):
        choose_mix(sources, [1, 1], 1_000_000, seed=0)


def test_a_split_deals_every_episode_once(dataset: Path, tmp_path: Path) -> None:
    source = Source(dataset, read_manifest(dataset))
    chosen = choose_split(source, {"train": 0.8, "test": 0.2}, seed=0)
    parts = [Part(tmp_path / name, [matching], name) for name, matching in chosen.items()]
    made = rewrite([source], parts)
    before = rows_of(dataset, source.manifest)
    for part, manifest, share in zip(parts, made, (0.8, 0.2), strict=True):
        assert check(part.folder, manifest) == []
        assert manifest.episodes == pytest.approx(share * source.manifest.episodes, abs=1)
        for name, table in rows_of(part.folder, manifest).items():
            assert before.pop(name).equals(table)
    assert not before
    with pytest.raises(BadInputError, match="none is left for 'test'"):
        choose_split(source, {"train": 1.0, "test": 1e-6}, seed=0)


def test_nothing_is_left_where_a_source_is_damaged(sources: list[Source], tmp_path: Path) -> None:
    path = sources[1].folder / sources[1].manifest.shards[0].file
    chosen = choose_mix(sources, [1, 1], 1000, seed=0)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=r"is damaged .*; see rlsched dataset check"):
        rewrite(sources, [Part(tmp_path / "mix", chosen, "a test")])
    assert not (tmp_path / "mix").exists()
    assert not list(tmp_path.glob(".mix*"))


def test_few_decisions_are_an_episode_of_each_at_least(sources: list[Source]) -> None:
    assert [len(matching) for matching in choose_mix(sources, [1, 1], 1, seed=0)] == [1, 1]


def test_other_clusters_are_not_mixed(sources: list[Source], tmp_path: Path) -> None:
    second = scenario.load("green-10", ["episode.max_ticks=100", "decision.window=7"])
    collected(second, recipe("sjf", 200), tmp_path / "wide")
    wide = Source(tmp_path / "wide", read_manifest(tmp_path / "wide"))
    check_compatible(sources)
    with pytest.raises(BadInputError, match="was recorded with another decision than"):
        check_compatible([*sources, wide])
