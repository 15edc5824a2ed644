"""What is said in one line: a scenario."""

from __future__ import annotations

import pytest

from rlsched import scenario
from rlsched.report.words import described


@pytest.mark.parametrize(
    ("name", "changes", "line"),
    [
        (
            "lublin-256",
            [],
            "scenario lublin-256: jobs of the lublin model on 256 processors, episodes of 256 jobs",
        ),
        (
            "green-10",
            ["episode.max_ticks=99"],
            "scenario green-10: jobs of the poisson model on 10 cpu, 10 gpu, episodes of 99 ticks of 3,600 s",
        ),
        (
            "hpc-trace",
            ["workload.file=some/mine.swf.gz", "episode.jobs=null"],
            "scenario hpc-trace: jobs of mine.swf.gz on unknown processors, episodes of the whole workload",
        ),
    ],
)
def test_a_scenario_in_one_line(name: str, changes: list[str], line: str) -> None:
    assert described(scenario.load(name, changes)) == line


def test_all_sizes_of_a_mixture_are_named() -> None:
    assert " on 128 or 256 or 2,048 processors," in described(scenario.load("lublin-sizes"))
    assert " on 64 to 3,881 processors," in described(scenario.load("lublin-family"))
