"""Shipped files with a fault: the check finds each one of faults.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from .conftest import ROOT, CheckText

FAULTS = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text("utf-8"))
CASES = [(name, case["change"], case["finding"]) for name, cases in FAULTS.items() for case in cases]


@pytest.mark.parametrize(("name", "change", "finding"), CASES, ids=[finding[:60] for _, _, finding in CASES])
def test_fault_is_reported(name: str, change: list[str], finding: str, check_text: CheckText) -> None:
    text = (ROOT / "clusters" / name).read_text("utf-8")
    for old, new in zip(change[::2], change[1::2], strict=True):
        assert old in text, f"{name} has no {old!r}"
        text = text.replace(old, new)
    assert [line[: len(finding)] for line in check_text(name, text)][:1] == [finding]
