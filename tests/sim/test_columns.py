"""Features stand where their columns say, for any number of resource types."""

from __future__ import annotations

import pytest

from rlsched.sim import columns
from rlsched.sim.columns import TABLES, Column, FeatureTable

BLOCKS = {
    "JOB": "jobs",
    "EVENT": "event_horizon",
    "QUEUE": "queue",
    "HISTORY": "history",
    "OUTLOOK": "outlook",
    "COMING": "coming",
    "PROFILE": "profile",
    "SUPPLY": "supply",
}
"""First word of a constant -> its block."""

RENAMED = {
    "QUEUE_LENGTH": "queue_length",
    "QUEUE_WORK": "queued_work",
    "OUTLOOK_QUEUED_WORK": "true_queued_work",
}
RENAMED |= {"OUTLOOK_REMAINING_WORK": "true_remaining_work"}
"""Constants that are shorter than the names of their features."""

CONSTANTS = [
    name
    for name, value in vars(columns).items()
    if isinstance(value, Column)
    or (type(value) is int and name.split("_")[0] in BLOCKS and name != "PROFILE_ROWS")
]


@pytest.mark.parametrize("num_resources", [1, 2, 3])
@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_column_is_the_place_of_its_feature(constant: str, num_resources: int) -> None:
    table = TABLES[BLOCKS[constant.split("_")[0]]]
    feature = RENAMED.get(constant, constant.partition("_")[2].lower())
    value = getattr(columns, constant)
    base, groups, stride = value if isinstance(value, Column) else (value, 0, 1)
    checked = 0
    for ticks, supply in ((False, False), (True, False), (True, True)):
        names = table.names(num_resources, ticks=ticks, supply=supply)
        (known,) = [spec for spec in table.features(ticks=True, supply=True) if spec.name == feature] or [
            spec for spec in table.features() if spec.name == feature
        ]
        repeats = range(num_resources) if known.repeats is None else known.repeats
        for k, number in enumerate(repeats or [None]):
            name = feature if number is None else f"{feature}_{number}"
            if name in names:
                assert names.index(name) == base + groups * num_resources + stride * k
                checked += 1
    assert checked > 0


def test_every_feature_has_a_constant() -> None:
    features = sum(
        len({*table.features(), *table.features(ticks=True, supply=True)}) for table in TABLES.values()
    )
    assert len(CONSTANTS) == features


def test_a_column_that_would_stand_in_two_places_is_refused() -> None:
    table = FeatureTable()
    table.add("first", "in one mode", "ticks")
    with pytest.raises(AssertionError):
        table.add("second", "in both")
