"""The check of a file with a wrong value somewhere ends with findings, never with an error of its own."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import ROOT, check_file

REMOVED = object()
ODD = (None, [], {}, "x", -1, [{"a": 1}], REMOVED)
MANY = 60  # of some hundred places in a file


def paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Everywhere in a document but its top."""
    if path:
        yield path
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inner:
        yield from paths(value, (*path, key))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("aws.yaml", "gcp.yaml", "on-prem.yaml", "compose.yaml", "kuberay/raycluster.yaml"),
        *("kuberay/rayjob-train.yaml", "kuberay/rayservice.yaml", "kuberay/storage.yaml"),
    ],
)
def test_odd_values_are_no_reason_to_fail(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    right = yaml.safe_load((ROOT / "clusters" / name).read_text())
    everywhere = list(paths(right))
    refused = 0
    for path, value in islice(zip(everywhere[:: max(1, len(everywhere) // MANY)], cycle(ODD)), MANY):
        document = copy.deepcopy(right)
        node = document
        for key in path[:-1]:
            node = node[key]
        if value is REMOVED:
            del node[path[-1]]
        else:
            node[path[-1]] = value
        (tmp_path / "odd.yaml").write_text(yaml.safe_dump(document))
        problems = check_file(tmp_path / "odd.yaml").problems
        assert all(str(problem).startswith(f"{tmp_path}/odd.yaml: ") for problem in problems), path
        refused += bool(problems)
    assert refused >= min(len(everywhere), MANY) // 3
