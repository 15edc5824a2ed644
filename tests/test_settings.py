"""Former names of settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest

from rlsched.cli.main import hints_of_renamed_settings
from rlsched.errors import BadInputError
from rlsched.settings import Frozen, RenamedSettingWarning, validate


class Section(Frozen):
    renamed: ClassVar[Mapping[str, str]] = {"conservative": "alpha"}

    alpha: float = 1.0


class Whole(Frozen):
    cql: Section = Section()


def test_a_former_name_is_read_and_named_in_a_hint() -> None:
    with pytest.warns(RenamedSettingWarning, match="'conservative' is now called 'alpha'"):
        settings = validate(Whole, {"cql": {"conservative": 0.5}}, "train.yaml")
    assert settings.cql.alpha == 0.5
    assert settings.model_dump() == {"cql": {"alpha": 0.5}}


def test_a_former_name_is_accepted_by_set() -> None:
    with pytest.warns(RenamedSettingWarning):
        settings = validate(Whole, {"cql": {"alpha": 2.0}}, "train.yaml", ["cql.conservative=0.25"])
    assert settings.cql.alpha == 0.25


@pytest.mark.filterwarnings("ignore::rlsched.settings.RenamedSettingWarning")
def test_both_names_together_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"cql\.conservative: is given together with alpha"):
        validate(Whole, {"cql": {"conservative": 0.5, "alpha": 0.5}}, "train.yaml")


def test_unknown_keys_are_still_refused() -> None:
    with pytest.raises(BadInputError, match=r"cql\.conservativ: unknown key; use one of alpha"):
        validate(Whole, {"cql": {"conservativ": 0.5}}, "train.yaml")


def test_the_command_line_prints_one_hint_per_name(capsys: pytest.CaptureFixture[str]) -> None:
    with hints_of_renamed_settings():
        for _ in range(2):
            validate(Whole, {"cql": {"conservative": 0.5}}, "train.yaml")
    assert capsys.readouterr().err.splitlines() == [
        "hint: train.yaml: setting 'conservative' is now called 'alpha'; "
        "the old name goes away in the next version"
    ]
