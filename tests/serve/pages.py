"""Hand-made states for the page, and a reader of what comes of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

from rlsched.serve.api.schema import (
    Answer,
    ClusterState,
    Decision,
    PlannedJob,
    Reason,
    RunningJob,
    WaitingJob,
)
from rlsched.serve.ledger.ledger import PageData
from rlsched.serve.ledger.records import MAX_RECORDS, ClusterRecords, Record

CLOCK = 1_767_268_800.0
"""What the page takes for now, seconds since the epoch."""

NOW = 50_000
"""Of the cluster's own clock."""

VOID = {"meta", "link", "img"}

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror="document.title=1">',
    "' onmouseover='alert(1)' x='",
    "</style></title></svg><iframe src=//x>",
    "&lt;b&gt; &#60;script&#62;",
    "]]><!--",
    "javascript:alert(1)",
)

POLICIES: list[dict[str, object]] = [
    {
        "name": "hpc",
        "version": "0123456789abcdef",
        "folder": "/srv/policies/hpc",
        "scenario": "lublin-256",
        "units": [100],
        "resources": ["cpu"],
        "tick_s": 900,
        "horizon": None,
        "fallback": "fcfs:easy",
    }
]


class Read(HTMLParser):
    """Collects tags, attributes and text, and sees that every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""
        self.rows: list[list[str]] = []
        self.tiles: list[list[str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
        if tag == "li":
            self.tiles.append([])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open or "script" in self.open:
            return
        self.text += data
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data
        if "li" in self.open:
            self.tiles[-1].append(data)

    def tile(self, name: str) -> list[str]:
        """Value and note of a tile."""
        return next(tile[1:] for tile in self.tiles if tile[0] == name)

    def values(self, tag: str, name: str) -> list[str]:
        """Of an attribute."""
        return [value or "" for t, n, value in self.attributes if (t, n) == (tag, name)]


def running(job: int | str, units: int, start: int, end: int) -> RunningJob:
    return RunningJob(id=job, demand=[units], start=NOW + start, expected_end=NOW + end)


def waiting(job: int | str, units: int, ago: int = 60, requested: int = 3600, **more: Any) -> WaitingJob:
    return WaitingJob(id=job, submit=NOW - ago, requested=requested, demand=[units], **more)


def answered(decisions: list[Decision], decided_by: str = "policy", *rest: Any, **more: Any) -> Answer:
    return Answer(decisions, decided_by, *rest, **more)


def record(state: ClusterState, answer: Answer, ago: float = 3.0) -> Record:
    return Record(CLOCK - ago, "hpc", "0123456789abcdef", state, answer)


def page_data(records: Sequence[Record], clusters: Sequence[str] = ("default",), before: int = 0) -> PageData:
    """Page data with records records, after so many other states."""
    agrees = [item.answer.agrees for item in records]
    recent = ClusterRecords(
        list(records)[-MAX_RECORDS:],
        len(records) + before,
        sum(value is True for value in agrees),
        sum(value is not None for value in agrees),
        sum(value is None for value in agrees),
    )
    return PageData(list(clusters), clusters[0] if clusters else None, recent, 2)


def busy() -> Record:
    """30 + 20 of 100 units are used; of three jobs one starts, one gets a reservation, one waits."""
    state = ClusterState(
        now=NOW,
        running=[running("r1", 30, -600, 3000), running("r2", 20, -7200, -300)],
        waiting=[waiting("w1", 60, 7200), waiting("w2", 80, 3600), waiting("w3", 10, 1800, 600)],
    )
    answer = answered(
        [Decision("w3", "start", NOW, 0.75), Decision("w1", "reserve", NOW + 3000, 0.5)],
        agrees=False,
        waiting=[Reason("w2", "not_enough_free", "needs units that are not free")],
    )
    return record(state, answer)


def hostile_state(words: str, k: int) -> Record:
    """Every text of a client, or of what failed, is this one."""
    state = ClusterState(
        now=NOW + k,
        cluster=words[:200],
        running=[running(f"{words}r"[:200], 40, -600, 3000)],
        waiting=[
            waiting(f"{words}w"[:200], 60),
            waiting(f"{words}v"[:200], 9),
            waiting(f"{words}u"[:200], 9),
        ],
        planned=[PlannedJob(id=f"{words}p"[:200], submit=0, requested=9, demand=[1], at=NOW + 3000)],
    )
    answer = answered(
        [
            Decision(state.waiting[0].id, "start", NOW + k, 0.5),
            Decision(state.waiting[1].id, words, NOW, 0.5),
        ],
        "fallback",
        words,
        waiting=[Reason(state.waiting[2].id, words, words)],
    )
    return Record(CLOCK, words, words, state, answer)


def full(jobs: int, words: str, states: int = MAX_RECORDS) -> list[Record]:
    """As much as is kept, of clusters with so many running jobs and twice as many that wait."""
    rng = random.Random(1)
    ids = [f"{k}{words}"[:200] for k in range(3 * jobs)]
    held = [
        running(ids[k], rng.randint(1, 64), -rng.randint(1, 9000), rng.randint(-900, 9000))
        for k in range(jobs)
    ]
    queue = [waiting(ids[k], rng.randint(1, 64), qos=0.5) for k in range(jobs, 3 * jobs)]
    decided = [Decision(job.id, "start", NOW, 0.123456) for job in queue[:200]]
    records = []
    for k in range(states):
        state = ClusterState(
            now=NOW + 97 * k,
            running=held[: rng.randint(jobs // 2, jobs)],
            waiting=queue[: rng.randint(jobs, 2 * jobs)],
            units=[64 * jobs],
            cluster=words[:200],
            units_on=[[rng.randint(0, 64 * jobs) for _ in range(600)]],
            supply_kw=[rng.uniform(0, 1e6) for _ in range(600)],
            battery_kwh=rng.uniform(0, 1e9),
        )
        agrees = rng.choice((True, False, None))
        answer = answered(
            decided,
            "fallback",
            words,
            agrees,
            waiting=[
                Reason(job.id, "not_enough_free", "needs units that are not free") for job in queue[200:400]
            ],
        )
        records.append(record(state, answer, ago=states - k))
    return records
