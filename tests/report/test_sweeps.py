"""The page of a sweep."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from rlsched.report.sweeps import SweepResult, TrialRow, findings, render_sweep, trial_table

from .test_html import Page


def row(
    name: str, rate: float, values: list[list[float]], *, excess: float = 0.0, whole: bool = True
) -> TrialRow:
    settings = {"ppo.rate": rate, "network.hidden": "[8, <8>]" if rate > 1 else "[16]"}
    return TrialRow(name, settings, np.array(values), whole, name == "a", excess, 1000, 90.0)


@pytest.fixture
def result() -> SweepResult:
    return SweepResult(
        title="gains & more",
        description="What <gains> are worth",
        objectives={"job_value_ratio": False, "cost.delayed_jobs": True},
        trials=[
            row("a", 1.0, [[0.9, 0.92], [2000.0, 2100.0]]),
            row("b", 2.0, [[0.91, 0.89], [3000.0, 3200.0]]),
            row("c", 3.0, [[0.95, 0.97], [9000.0, 9100.0]], excess=0.25),
            row("d", 4.0, [[np.nan], [np.nan]], whole=False),
        ],
        facts={"Scenario": "green-10"},
        settings="base: {}",
        limited=True,
    )


def test_the_page_says_it_all_and_is_whole(result: SweepResult) -> None:
    rendered, pictures = render_sweep(result)
    page = Page(rendered)
    assert "gains & more" in page.text
    assert "What <gains> are worth" in page.text
    assert "[8, <8>]" in page.text
    assert list(pictures) == ["settings.png", "front.png"]
    for png in pictures.values():
        image = Image.open(BytesIO(png))
        assert image.width > 600
        assert len(np.unique(np.asarray(image.convert("RGB"))[::7, ::7].reshape(-1, 3), axis=0)) > 5


def test_findings_are_of_the_best_and_its_neighbours(result: SweepResult) -> None:
    best, limits, close = findings(result)
    assert best == ("Best job value ratio: 91 % (seeds 90 to 92) with ppo.rate 1, network.hidden [16].")
    assert limits == "2 of 3 trials meet their limits in validation, with every seed."
    assert close == "Seeds of another trial reach into its range: the ranking is uncertain."


def test_the_table_has_ranges_limits_and_what_is_missing(result: SweepResult) -> None:
    text = Page(trial_table(result)).text
    for part in ("91 [90, 92]", "2,050 [2,000, 2,100]", "exceeded by 25.0 %", "not ended", "front"):
        assert part in text


def test_without_a_trial_there_is_a_page_all_the_same(result: SweepResult) -> None:
    empty = SweepResult("t", "", result.objectives, [], {}, "", limited=False)
    rendered, pictures = render_sweep(empty)
    assert "None of 0 trials has ended yet." in Page(rendered).text
    assert not pictures


def test_what_is_only_set_has_no_pictures(result: SweepResult) -> None:
    only = replace(result, objectives={"ppo.rate": True})
    rendered, pictures = render_sweep(only)
    assert not pictures
    assert "a" in Page(rendered).text
