"""What the end of a run says of its limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlsched.evaluate.statistics import Contender
from rlsched.learn.folder import Standing
from rlsched.learn.summary import Summary
from rlsched.scenario import Scenario


@pytest.mark.parametrize(
    ("paid", "share", "verdict"),
    [
        (90.0, 0.1, "within"),
        (95.0, 0.1, "within on average, not by interval,"),
        (100.0, 0.0, "within"),
        (101.0, 0.0, "above"),
    ],
)
def test_a_limit_is_kept_by_the_upper_end_of_the_interval(
    small: Scenario, paid: float, share: float, verdict: str
) -> None:
    standing = Standing(best_paid={"wait_time": paid}, best_margins={"wait_time": share})
    summary = Summary(
        small,
        Path("run"),
        "steps",
        standing,
        "wait",
        128,
        (Contender("sjf", "greedy"), 1.0),
        None,
        True,
        {"wait_time": 100.0},
        (),
    )
    assert summary.verdict("wait_time") == verdict


def test_a_run_of_an_older_version_has_no_margins(small: Scenario) -> None:
    standing = Standing(best_paid={"wait_time": 99.0})
    best = (Contender("sjf", "greedy"), 1.0)
    summary = Summary(
        small, Path("run"), "steps", standing, "wait", 9, best, None, True, {"wait_time": 99.0}, ()
    )
    assert summary.verdict("wait_time") == "within"
