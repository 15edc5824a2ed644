from __future__ import annotations

import base64
import hashlib
import random
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from rlsched.serve.api.schema import (
    FAR,
    MANY,
    ClusterState,
    Decision,
    RunningJob,
    WaitingJob,
)
from rlsched.serve.ledger.ledger import PageData
from rlsched.serve.ledger.records import ClusterRecords
from rlsched.serve.page import html as module
from rlsched.serve.page.drawing import inert
from rlsched.serve.page.html import STYLE, page
from rlsched.serve.page.listing import DECISIONS, ROWS
from rlsched.serve.page.schedule import MAX_JOBS
from tests.serve.pages import (
    CLOCK,
    HOSTILE,
    NOW,
    POLICIES,
    Read,
    answered,
    busy,
    full,
    hostile_state,
    page_data,
    record,
    waiting,
)


@pytest.fixture(autouse=True)
def still_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "time", lambda: CLOCK)


def test_the_page_says_who_decided_and_when() -> None:
    read = Read(page(POLICIES, page_data([busy()], ["west"])))
    assert read.text.count("west: decisions of policy hpc") == 2  # title and heading
    for words in ("0123456789abcdef", "lublin-256", "where it fails, fcfs:easy does", "3 s ago"):
        assert words in read.text
    assert [tag for tag in read.tags if tag in {"h1", "h2"}] == ["h1", *["h2"] * 4]
    assert read.values("html", "lang") == ["en"]
    assert "2026-01-01T11:59:57Z" in read.values("time", "datetime")


def test_the_page_names_the_shadow() -> None:
    item = busy()
    answer = answered(item.answer.decisions, "fallback", "shadow", agrees=True)
    read = Read(page(POLICIES, page_data([replace(item, answer=answer)])))
    assert "shadow: fcfs:easy decides" in read.text
    assert read.tile("fallbacks") == ["0", "the policy always answered"]


def test_the_page_shows_decisions_of_a_shadow() -> None:
    item = busy()
    would = [Decision(f"s{k}", "start", item.state.now, None) for k in range(4)]
    for shadow, words in ((would, "differ; the policy: s0 starts, s1 starts, s2 starts, …"), ([], "nothing")):
        answer = answered(item.answer.decisions, "fallback", "shadow", agrees=False, shadow=shadow)
        assert words in Read(page(POLICIES, page_data([replace(item, answer=answer)]))).text


def test_tiles_count() -> None:
    states = [replace(busy(), at=CLOCK - 9), busy()]
    bad = busy()
    states.insert(0, replace(bad, answer=answered([], "fallback", "timeout")))
    text = page(POLICIES, page_data(states, before=1000))
    read = Read(text)
    assert read.tile("states decided") == ["1,003", "3 of them shown here"]
    assert read.tile("jobs started") == ["1", "in the last 3 states"]  # w3, whom two states tell of
    assert read.tile("units used") == ["50", "of 100"]
    assert read.tile("jobs waiting")[0] == "3"
    assert read.tile("agreement") == ["0 %", "with the heuristic, in 2 states"]
    assert read.tile("fallbacks") == ["1", "timeout 1"]
    assert text.count('<li class="bad">') == 1
    assert '<li class="bad">' not in page(POLICIES, page_data([busy()]))


def test_the_queue_says_what_is_done_and_why_jobs_wait() -> None:
    read = Read(page(POLICIES, page_data([busy()])))
    begin = read.rows.index(["Job", "Decision, or why it waits", "Waited", "Requested", "Units (cpu)"])
    assert read.rows[begin + 1 : begin + 4] == [
        ["w1", "units reserved for it, in 50 min", "2 h", "60 min", "60"],
        ["w3", "starts now", "30 min", "10 min", "10"],
        ["w2", "needs units that are not free", "60 min", "60 min", "80"],
    ]


def test_qos_and_resources_are_shown_where_there_are_some() -> None:
    job = WaitingJob(id=1, submit=NOW, requested=60, demand=[4, 2], qos=0.25)
    suspended_job = WaitingJob(id=2, submit=NOW, requested=60, demand=[1, 0], ran=20)
    state = ClusterState(now=NOW, waiting=[job], suspended=[suspended_job], units=[8, 4])
    policies = [POLICIES[0] | {"resources": ["cpu", "gpu"]}]
    read = Read(page(policies, page_data([record(state, answered([], agrees=True))])))
    assert read.rows[:3] == [
        ["Job", "Decision, or why it waits", "Waited", "Requested", "Units (cpu / gpu)", "QoS"],
        ["2", "suspended –", "0 s", "60 s", "1 / 0", "1"],  # noqa: RUF001
        ["1", "–", "0 s", "60 s", "4 / 2", "0.25"],  # noqa: RUF001
    ]
    assert "Requests with explain=true get the reasons" in read.text


def test_a_long_queue_is_cut_off() -> None:
    jobs = [waiting(k, 1, ago=20_000 - k) for k in range(20_000)]
    state = ClusterState(now=NOW, waiting=jobs)
    answer = answered([Decision(19_999, "start", NOW, 0.9)], agrees=True, waiting=[])
    read = Read(page(POLICIES, page_data([record(state, answer)])))
    listed = [row[0] for row in read.rows[1 : 1 + ROWS]]
    assert listed == ["19999", *map(str, range(ROWS - 1))]  # what was decided comes first
    assert f"And {20_000 - ROWS:,} more." in read.text
    assert read.tile("jobs waiting")[0] == "20,000"


def test_the_last_decisions_are_listed_newest_first() -> None:
    states = []
    for k in range(20):
        state = ClusterState(now=NOW + k, waiting=[waiting(f"j{k}a", 1), waiting(f"j{k}b", 1)])
        decisions = [Decision(f"j{k}{kind}", "start", NOW + k, 0.5) for kind in "ab"]
        states.append(record(state, answered(decisions, agrees=k % 2 == 0), ago=100 - k))
    failed = answered([Decision("last", "plan", NOW + 7200, None)], "fallback", "NotFiniteError: <nan>")
    states.append(record(ClusterState(now=NOW + 20, waiting=[waiting("last", 1)]), failed, ago=1))
    random.Random(0).shuffle(states)
    read = Read(page(POLICIES, page_data(states)))
    begin = next(k for k, row in enumerate(read.rows) if row[:2] == ["Job", "When"])
    rows = read.rows[begin + 1 :]
    assert len(rows) == DECISIONS
    minutes = f"{(7200 - 20) / 60:.0f}"
    assert rows[0] == [
        "last",
        "1 s ago",
        f"planned, in {minutes} min",
        "–",  # noqa: RUF001
        "heuristic: NotFiniteError: <nan>",
        "–",  # noqa: RUF001
    ]
    assert [row[0] for row in rows[1:5]] == ["j19b", "j19a", "j18b", "j18a"]
    assert rows[1][2:] == ["starts now", "50 %", "policy hpc", "differ"]
    assert rows[3][-1] == "agree"


def test_nothing_decided_says_how_to_ask() -> None:
    policies = [POLICIES[0] | {"folder": "/srv/my policies/<a>"}, POLICIES[0] | {"name": "other"}]
    text = page(policies, PageData([], None, ClusterRecords(), 1))
    read = Read(text)
    curl = "curl -s localhost:8000/v1/decisions -H content-type:application/json -d "
    assert f"{curl}'@/srv/my policies/<a>/example.json'" in read.text
    assert "Policies that are served: hpc (0123…def), other (0123…def)." in read.text
    assert "svg" not in read.tags


def test_the_page_reports_states_without_records() -> None:
    some = PageData(["a", "b"], "a", ClusterRecords(states=1234, compared=1234), 1)
    read = Read(page(POLICIES, some))
    assert "a: decisions of policy hpc" in read.text
    assert "1,234 states decided, none of which is shown here" in read.text
    assert read.values("a", "href") == ["?cluster=a", "?cluster=b"]


def test_links_lead_to_the_other_clusters() -> None:
    names = ["a&b=c d", 'x"><b>', "ü/%2F#?", "plain"]
    read = Read(page(POLICIES, page_data([busy()], names)))
    links = read.values("a", "href")
    assert [parse_qs(urlsplit(link).query)["cluster"] for link in links] == [[name] for name in names]
    assert all(link.startswith("?cluster=") for link in links)
    assert read.values("a", "aria-current") == ["page"]
    recorded = Read(page(POLICIES, page_data([busy()], names), live=False))
    assert not recorded.values("a", "href")  # nobody answers there


@pytest.mark.parametrize("words", HOSTILE)
def test_what_clients_send_is_text(words: str) -> None:
    policies = [
        POLICIES[0] | {key: words for key in ("name", "version", "folder", "scenario", "fallback")},
        POLICIES[0] | {"resources": [words], "name": words},
    ]
    harmless = Read(
        page(POLICIES * 2, page_data([hostile_state("harmless", k) for k in range(3)], ["a", "b"]))
    )
    for content in (policies, policies[::-1]):
        some = page_data([hostile_state(words, k) for k in range(3)], [words, "b"])
        text = page(content, some)
        read = Read(text)
        assert read.tags == harmless.tags
        assert sorted(name for _, name, _ in read.attributes) == sorted(n for _, n, _ in harmless.attributes)
        assert inert(words) in text
        assert Read(page(content, PageData([], None, ClusterRecords(), 1))).tags.count("script") == 1


def test_ids_cannot_hide_what_they_are() -> None:
    assert inert("a\u202eb\x00\nc\u200b") == "a\ufffdb\ufffd\ufffdc\ufffd"
    assert inert("x" * 30 + "y" * 30, 11) == "xxxxx…yyyyy"
    assert inert("x" * 11, 11) == "x" * 11
    assert inert(-5) == "-5"
    assert inert("<\"&'>") == "&lt;&quot;&amp;&#x27;&gt;"


@pytest.mark.parametrize("words", ["-job", '"' * 200])
def test_the_page_stays_small(words: str) -> None:
    policies = [POLICIES[0] | {"horizon": 600}]
    text = page(policies, page_data(full(2000, words), [f"{words[:190]}{k}" for k in range(20)]))
    assert len(text.encode()) < 200_000
    assert text.count("<rect class=") <= MAX_JOBS + 20
    Read(text)


@pytest.mark.parametrize("now", [0, NOW, 10**12, FAR - 1])
@pytest.mark.parametrize("live", [True, False])
def test_extremes_are_drawn(now: int, live: bool) -> None:
    far = FAR - 1
    states = [
        ClusterState(now=now),
        ClusterState(
            now=now, units=[MANY], waiting=[WaitingJob(id=FAR, submit=0, requested=far, demand=[MANY])]
        ),
        ClusterState(now=min(now, 5), running=[RunningJob(id=1, demand=[MANY], start=0, expected_end=far)]),
        ClusterState(now=now, free=[7], running=[RunningJob(id=1, demand=[3], start=0, expected_end=1)]),
        ClusterState(now=now, units=[0], units_on=[[0]], supply_kw=[0.0], battery_kwh=0.0),
        ClusterState(now=now, running=[RunningJob(id=1, demand=[0, 5], start=0, expected_end=1)]),
    ]
    answers = [answered([], agrees=None), answered([Decision(FAR, "start", now, None)], agrees=True)]
    for policies in (POLICIES, [POLICIES[0] | {"units": [], "resources": []}]):
        for state in states:
            for answer in answers:
                text = page(policies, page_data([record(state, answer)]), live=live)
                Read(text)
                assert not re.search(r"\b(nan|inf)\b|e\+\d|None", text)
        text = page(
            policies,
            page_data([record(state, answers[0], ago=-k) for k, state in enumerate(states)]),
            live=live,
        )
        assert not re.search(r"\b(nan|inf)\b|e\+\d|None", text)


def test_a_recorded_run_is_the_same_page_without_a_script() -> None:
    live, recorded = (page(POLICIES, page_data([busy()]), live=live) for live in (True, False))
    assert "script" not in Read(recorded).tags
    assert "noscript" not in Read(recorded).tags
    assert "2026-01-01 11:59:57 UTC" in Read(recorded).text
    pictures = [re.findall(r"<svg class=\"chart.*?</svg>", text, re.S) for text in (live, recorded)]
    assert pictures[0] == pictures[1] != []


def test_the_page_needs_nothing_but_the_service() -> None:
    text = page(POLICIES, page_data([busy()], ["a", "b"]))
    assert not re.search(r"(?i)https?:|//[a-z]|@import|url\((?!#)", text.partition("<main>")[0])
    assert not re.search(r"(?i)https?:|src=", text.partition("<main>")[2].partition("<script>")[0])
    allowed = next(v for v in Read(text).values("meta", "content") if "script-src" in v)
    script = text.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in allowed
    assert "default-src 'none'" in allowed


def test_pictures_say_what_they_show() -> None:
    states = [busy(), record(ClusterState(now=NOW + 600, battery_kwh=3.0), answered([], agrees=True), ago=1)]
    text = page(POLICIES, page_data(states))
    charts = re.findall(
        r'<svg class="chart" role="img" height="\d+"><title>(.+?)</title><desc>(.+?)</desc>', text
    )
    assert [title for title, _ in charts] == [
        "Schedule of the newest state",
        "Waiting jobs over time",
        "Units over time (cpu)",
        "Battery over time",
        "Agreement with the heuristic over time",
    ]
    assert charts[1][1] == "0 jobs wait at last, 3 at most, over 2 states."
    assert text.count("<table>") == text.count("<caption>") == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out(scheme: str) -> None:
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.S)
    colours = dict(re.findall(r"--(\w+): #(\w{6})", blocks[0 if scheme == "light" else 1]))

    def light(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(item: str, second: str) -> float:
        low, high = sorted((light(item), light(second)))
        return (high + 0.05) / (low + 0.05)

    def mixed(colour: str, share: float) -> str:
        pairs = [(int(colour[k : k + 2], 16), int(colours["paper"][k : k + 2], 16)) for k in (0, 2, 4)]
        return "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)

    for ink in ("ink", "muted", "good", "bad", "learned"):
        assert contrast(colours[ink], colours["paper"]) >= 4.5
        assert contrast(colours[ink], colours["card"]) >= 4.5
    for look, colour in (("runs", "learned"), ("starts", "good"), ("overdue", "bad")):
        opacity = float(
            re.search(rf"svg \.{look} {{ fill: var\(--{colour}\); fill-opacity: ([\d.]+)", STYLE)[1]
        )
        assert contrast(colours["ink"], mixed(colours[colour], opacity)) >= 4.5  # of labels in bars
