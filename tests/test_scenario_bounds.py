"""No number of a scenario is so large that what is computed from it overflows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rlsched import scenario
from rlsched.errors import BadInputError

TRACE = ("workload.training_jobs=[0, 9]", "workload.enrich={seed: 0}", "episode.offsets=[1]")
MODELS = {
    "lublin-256": (
        "workload.parameters={arrival: [1, 1], runtime_mix: [0, 1], size_low: 0.8}",
        "workload.max_runtime_s=9",
        "workload.estimates={kind: tsafrir, longest_s: 60}",
    ),
    "green-10": ("power.battery={capacity_kwh: 1, charge_kw: 1, discharge_kw: 1}", "decision.expiry=9"),
    "deeprm": ("workload.estimates={kind: gaussian}",),
    "hpc-trace": (*TRACE, "workload.max_job_duration=9", "workload.load=1"),
    "lublin-sizes": (),
}


def numbers(value: Any, path: str = "") -> Iterator[str]:
    """Paths of all numbers in plain values."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


@pytest.mark.parametrize("name", MODELS)
def test_every_number_has_a_bound(name: str) -> None:
    values = scenario.load(name, MODELS[name]).model_dump(mode="json")
    paths = [path for path in numbers(values) if path.partition(".")[0] != "objective"]
    # Of lists the first two elements: the others have the fields of one of these.
    paths = [path for path in paths if all(not key.isdigit() or int(key) < 2 for key in path.split("."))]
    assert len(paths) > 15
    for path in paths:
        for huge in (2**63, 1e300):
            with pytest.raises(BadInputError) as refused:
                scenario.load(name, [*MODELS[name], f"{path}={huge!r}"])
            assert path.partition(".")[0] in str(refused.value)


@pytest.mark.parametrize(
    "override",
    [
        f"cluster.tick_s={2**63}",
        f"objective.starvation_s={2**63}",
        "objective.reward={makespan: -1.0e+300}",
        "workload.load=1.0e-300",
        f"cluster.resources.{'9' * 5000}.units=1",
        f"workload.load={'9' * 5000}",
        f"{'a.' * 5000}b=1",
        f"workload.load={'[' * 5000}",
        "workload.load=2026-13-45",
    ],
)
def test_one_line_refuses_a_number_that_is_none(override: str) -> None:
    with pytest.raises(BadInputError) as refused:
        scenario.load("lublin-256", [override])
    line = str(refused.value)
    assert line.startswith("--set: ")
    assert "\n" not in line
    assert len(line) < 1000
