"""The page of the service: recent decisions about a cluster, for people.

It is complete: style, pictures and the script that renews it are part of it, so it needs only the service.
Texts of clients are escaped where they are written (`drawing.inert`).
"""

from __future__ import annotations

import base64
import hashlib
import shlex
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from urllib.parse import urlencode

from msgspec import Struct, convert

from rlsched.report import markup
from rlsched.report.markup import fact_list, section
from rlsched.report.words import count_of, number
from rlsched.serve.artefact import EXAMPLE
from rlsched.serve.decide.policy_store import SHADOW
from rlsched.serve.ledger.ledger import PageData
from rlsched.serve.ledger.records import Record
from rlsched.serve.page.drawing import inert
from rlsched.serve.page.gantt import draw_schedule
from rlsched.serve.page.history import (
    Point,
    agreement_chart,
    ahead_charts,
    battery_chart,
    by_time,
    point,
    queue_charts,
    span,
    units_now,
)
from rlsched.serve.page.listing import count_failures, decisions_table, queue_table, time_tag
from rlsched.serve.page.schedule import arrange

RENEWED_S = 2  # seconds between requests for updates

_FOLDER = Path(__file__).parent

STYLE = markup.STYLESHEET + (_FOLDER / "page.css").read_text("utf-8")

SCRIPT = f"const wait = {1000 * RENEWED_S};\n" + (_FOLDER / "page.js").read_text("utf-8")
"""While a reader selects text, or looks elsewhere, the page does not change."""

_DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()

POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; "
    f"script-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'"
)
"""Content security policy of the page: that script, requests to this service, and nothing else."""

SIDE_BY_SIDE = '<div class="charts">{}</div>'  # if there is room
ONE_STATE = "<p>Drawn as soon as there are states of two times.</p>"


class PolicyInfo(Struct, frozen=True):
    """A policy on the page; see `policy_store.describe_policies`."""

    name: str
    version: str
    folder: str
    scenario: str
    fallback: str
    units: list[int]
    resources: list[str]
    tick_s: int
    horizon: int | None


def page(policies: list[dict[str, object]], data: PageData, *, live: bool = True) -> str:
    """The whole page, of one cluster; a live one renews itself, others show a recorded run without a script.

    At least one policy must be given; see `policy_store.describe_policies`.
    """
    clock = time.time() if live else None
    records = sorted(data.recent.records, key=lambda record: record.at)
    timeline = by_time(records)
    known = convert(policies, list[PolicyInfo])
    policy = known[0]
    if timeline:
        policy = next((info for info in known if info.name == timeline[-1].policy), policy)
        title = f"{inert(data.cluster)}: decisions of policy {inert(policy.name)}"
        parts = [_head(title, policy, timeline[-1], data, clock)]
        parts += _body(policy, records, timeline, data, clock)
    elif data.cluster is not None:
        title = f"{inert(data.cluster)}: decisions of policy {inert(policy.name)}"
        states = count_of(data.recent.states, "state")
        without_records = (
            f"<p>{states} decided, none of which is shown here: they come faster than the page can show them."
            " The next one that is recorded appears here.</p>"
        )
        parts = [f"<h1>{title}</h1>\n{_cluster_links(data, live=live)}", without_records]
    else:
        title = f"{inert(policy.name)}: nothing was decided yet"
        parts = [f"<h1>{title}</h1>", _how_to_ask(policy)]
    if len(known) > 1:
        names = ", ".join(f"{inert(info.name)} ({inert(info.version, 8)})" for info in known)
        parts.append(f"<p>Policies that are served: {names}.</p>")
    return _whole(title, "\n".join(part for part in parts if part), live=live)


def _whole(title: str, main: str, *, live: bool) -> str:
    refresh = f'<noscript><meta http-equiv="refresh" content="{RENEWED_S}"></noscript>\n' if live else ""
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        f'<link rel="icon" href="data:,">\n{refresh}'
    )
    away = '<p id="away" role="status" hidden></p>\n' if live else ""
    script = f"<script>{SCRIPT}</script>\n" if live else ""
    return markup.page(title, main, style=STYLE, head=head, begin=away, end=script)


def _head(title: str, policy: PolicyInfo, newest: Record, data: PageData, clock: float | None) -> str:
    """The policy, its mode, and the age of the newest state."""
    heuristic = inert(policy.fallback)
    mode = f"the policy decides; where it fails, {heuristic} does"
    if newest.answer.because == SHADOW:
        mode = f"shadow: {heuristic} decides, the policy is its shadow"
    facts = {
        "Policy": f"{inert(policy.name)}, trained on {inert(policy.scenario)}",
        "Version": inert(newest.version),
        "Mode": mode,
        "Newest state": time_tag(newest.at, clock),
    }
    if clock is not None:
        facts["Replicas"] = f"{data.replicas:,}"
    return f"<h1>{title}</h1>\n{_cluster_links(data, live=clock is not None)}{fact_list(facts)}"


def _cluster_links(data: PageData, *, live: bool) -> str:
    """Links to all clusters, if there are several and the page is live."""
    if not live or len(data.clusters) < 2:
        return ""
    current = ' aria-current="page"'
    links = "".join(
        f'<li><a href="{escape("?" + urlencode({"cluster": name}))}"'
        f"{current if name == data.cluster else ''}>{inert(name)}</a></li>"
        for name in data.clusters
    )
    return f'<nav aria-label="Clusters"><ul>{links}</ul></nav>\n'


def _body(
    policy: PolicyInfo,
    records: Sequence[Record],
    timeline: Sequence[Record],
    data: PageData,
    clock: float | None,
) -> list[str]:
    newest = timeline[-1]
    resource = policy.resources[0] if policy.resources else "units"
    points = [point(record, policy.units) for record in timeline]
    axis = span(points, newest.state.now)
    _, _, units = units_now(newest, policy.units)
    power = ahead_charts(newest.state, newest.answer, policy.tick_s, policy.horizon or 0, resource)
    queue = ONE_STATE
    if axis:
        power += battery_chart(points, axis)
        queue = SIDE_BY_SIDE.format(queue_charts(points, axis, resource))
    return [
        _tiles(records, points, units, data),
        section("Schedule", draw_schedule(arrange(newest.state, newest.answer, units), resource)),
        section("Queue", queue + queue_table(newest, policy.resources)),
        section("Power", SIDE_BY_SIDE.format(power) if power else ""),
        section("Decisions", decisions_table(records, clock)),
        section("Agreement", agreement_chart(points, axis) if axis else ONE_STATE),
    ]


def _tiles(records: Sequence[Record], points: Sequence[Point], units: int | None, data: PageData) -> str:
    """The most important figures."""
    recent, newest = data.recent, points[-1]
    decisions = (decision for record in records for decision in record.answer.decisions)
    started = {decision.job for decision in decisions if decision.action == "start"}
    agreed = f"{number(round(100 * recent.agreed / recent.compared, 1))} %" if recent.compared else "–"  # noqa: RUF001
    failures = count_failures(records).most_common(3)
    causes = ", ".join(f"{inert(name, 40)} {times:,}" for name, times in failures)
    tiles = [
        ("states decided", f"{recent.states:,}", f"{len(records):,} of them shown here", False),
        ("jobs started", f"{len(started):,}", f"in the last {count_of(len(records), 'state')}", False),
        ("units used", f"{newest.used:,}", f"of {units:,}" if units is not None else "", False),
        ("jobs waiting", f"{newest.waiting:,}", "in the newest state", False),
        ("agreement", agreed, f"with the heuristic, in {count_of(recent.compared, 'state')}", False),
        ("fallbacks", f"{recent.fallbacks:,}", causes or "the policy always answered", recent.fallbacks > 0),
    ]
    alarm = ' class="bad"'
    items = "".join(
        f"<li{alarm if bad else ''}><span>{name}</span><b>{value}</b><span>{note}</span></li>"
        for name, value, note, bad in tiles
    )
    return f'<ul class="tiles">{items}</ul>'


def _how_to_ask(policy: PolicyInfo) -> str:
    example = shlex.quote(f"@{policy.folder}/{EXAMPLE}")
    return (
        "<p>This page shows what is decided about clusters, as soon as somebody asks. To see how, send the"
        " example in the policy's folder to the address of this service:</p>\n"
        "<pre>curl -s localhost:8000/v1/decisions -H content-type:application/json"
        f" -d {inert(example, 4096)}</pre>\n"
        "<p>Where the service wants a token, add <code>-H 'Authorization: Bearer TOKEN'</code>. What a"
        ' request may say stands in <a href="openapi.json">openapi.json</a>.</p>'
    )
