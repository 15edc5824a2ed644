"""The page of the service: what was decided lately about a cluster, for people.

It is whole in itself: style, pictures and the few lines that renew it stand in it, so that it needs nothing
but the service. Everything that clients have sent is escaped where it is written (`drawing.inert`).
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import urlencode

from rlsched.report.words import number
from rlsched.serve.artefact import EXAMPLE
from rlsched.serve.decide.engine import SHADOW
from rlsched.serve.ledger.ledger import Noted, Shown
from rlsched.serve.page.ahead import ahead_charts
from rlsched.serve.page.drawing import counted, inert
from rlsched.serve.page.gantt import draw_schedule
from rlsched.serve.page.history import (
    Point,
    agreement_chart,
    battery_chart,
    by_time,
    point,
    queue_charts,
    span,
    units_now,
)
from rlsched.serve.page.listing import decisions_table, moment, queue_table, reasons_of_failure
from rlsched.serve.page.schedule import arrange
from rlsched.serve.page.style import POLICY, RENEWED_S, SCRIPT, STYLE

ONE_STATE = "<p>Drawn as soon as there are states of two times.</p>"


@dataclass(frozen=True)
class Asked:
    """What the page tells of a policy; see `engine.by_name`."""

    name: str
    version: str
    folder: str
    scenario: str
    fallback: str
    units: list[int]
    resources: list[str]
    tick_s: int
    horizon: int

    @classmethod
    def of(cls, told: dict[str, Any]) -> Asked:
        """As it was told."""
        return cls(
            told["name"],
            told["version"],
            told["folder"],
            told["scenario"],
            told["fallback"],
            told["units"],
            told["resources"],
            told["tick_s"],
            told["horizon"] or 0,
        )


def page(policies: list[dict[str, object]], shown: Shown, *, live: bool = True) -> str:
    """The whole page.

    Args:
        policies: what is served, at least one; see `engine.by_name`.
        shown: what was decided lately, about one cluster.
        live: whether it renews itself; else it is of a run that was recorded, and nothing in it is a script.
    """
    clock = time.time() if live else None
    noted = sorted(shown.lately.noted, key=lambda one: one.at)
    kept = by_time(noted)
    known = [Asked.of(told) for told in policies]
    asked = known[0]
    if kept:
        asked = next((one for one in known if one.name == kept[-1].policy), asked)
        title = f"{inert(shown.cluster)}: decisions of policy {inert(asked.name)}"
        parts = [_head(title, asked, kept[-1], shown, clock), *_body(asked, noted, kept, shown, clock)]
    elif shown.cluster is not None:
        title = f"{inert(shown.cluster)}: decisions of policy {inert(asked.name)}"
        parts = [f"<h1>{title}</h1>\n{_others(shown, live=live)}", _only_counted(shown.lately.states)]
    else:
        title = f"{inert(asked.name)}: nothing was decided yet"
        parts = [f"<h1>{title}</h1>", _how_to_ask(asked)]
    if len(known) > 1:
        names = ", ".join(f"{inert(one.name)} ({inert(one.version, 8)})" for one in known)
        parts.append(f"<p>Policies that are served: {names}.</p>")
    return _whole(title, "\n".join(part for part in parts if part), live=live)


def _whole(title: str, main: str, *, live: bool) -> str:
    refresh = f'<noscript><meta http-equiv="refresh" content="{RENEWED_S}"></noscript>\n' if live else ""
    away = '<p id="away" role="status" hidden></p>\n' if live else ""
    script = f"<script>{SCRIPT}</script>\n" if live else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<link rel="icon" href="data:,">\n{refresh}'
        f"<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
        f"{away}<main>\n{main}\n</main>\n{script}</body>\n</html>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>\n{body}</section>" if body else ""


def _head(title: str, asked: Asked, newest: Noted, shown: Shown, clock: float | None) -> str:
    """Who decides, and how long ago it last did."""
    facts = {
        "Policy": f"{inert(asked.name)}, trained on {inert(asked.scenario)}",
        "Version": inert(newest.version),
        "Mode": _mode(asked, newest),
        "Newest state": moment(newest.at, clock),
    }
    if clock is not None:
        facts["Replicas"] = f"{shown.replicas:,}"
    items = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    return f"<h1>{title}</h1>\n{_others(shown, live=clock is not None)}<dl>{items}</dl>"


def _mode(asked: Asked, newest: Noted) -> str:
    heuristic = inert(asked.fallback)
    if newest.answer.because == SHADOW:
        return f"shadow: {heuristic} decides, the policy is only told of"
    return f"the policy decides; where it fails, {heuristic} does"


def _others(shown: Shown, *, live: bool) -> str:
    """Links to all clusters, where there are several and somebody answers."""
    if not live or len(shown.clusters) < 2:
        return ""
    here = ' aria-current="page"'
    links = "".join(
        f'<li><a href="{escape("?" + urlencode({"cluster": name}))}"'
        f"{here if name == shown.cluster else ''}>{inert(name)}</a></li>"
        for name in shown.clusters
    )
    return f'<nav aria-label="Clusters"><ul>{links}</ul></nav>\n'


def _body(
    asked: Asked, noted: Sequence[Noted], kept: Sequence[Noted], shown: Shown, clock: float | None
) -> list[str]:
    newest = kept[-1]
    resource = asked.resources[0] if asked.resources else "units"
    points = [point(one, asked.units) for one in kept]
    axis = span(points, newest.state.now)
    _, _, units = units_now(newest, asked.units)
    power = ahead_charts(newest.state, newest.answer, asked.tick_s, asked.horizon, resource)
    if axis:
        power += battery_chart(points, axis)
    return [
        _tiles(noted, points, units, shown),
        _section("Schedule", draw_schedule(arrange(newest.state, newest.answer, units), resource)),
        _section(
            "Queue",
            (_charts(queue_charts(points, axis, resource)) if axis else ONE_STATE)
            + queue_table(newest, asked.resources),
        ),
        _section("Power", _charts(power) if power else ""),
        _section("Decisions", decisions_table(noted, clock)),
        _section("Agreement", agreement_chart(points, axis) if axis else ONE_STATE),
    ]


def _charts(drawn: str) -> str:
    """Beside each other where there is room."""
    return f'<div class="charts">{drawn}</div>'


def _tiles(noted: Sequence[Noted], points: Sequence[Point], units: int | None, shown: Shown) -> str:
    """What there is to know at a glance."""
    lately, newest = shown.lately, points[-1]
    started = {
        decision.job for one in noted for decision in one.answer.decisions if decision.action == "start"
    }
    agreed = f"{number(round(100 * lately.agreed / lately.compared, 1))} %" if lately.compared else "–"  # noqa: RUF001
    causes = ", ".join(
        f"{inert(name, 40)} {times:,}" for name, times in reasons_of_failure(noted).most_common(3)
    )
    tiles = [
        ("states decided", f"{lately.states:,}", f"{len(noted):,} of them kept here", False),
        ("jobs started", f"{len(started):,}", f"in the last {counted(len(noted), 'state')}", False),
        ("units used", f"{newest.used:,}", f"of {units:,}" if units is not None else "", False),
        ("jobs waiting", f"{newest.waiting:,}", "in the newest state", False),
        ("agreement", agreed, f"with the heuristic, in {counted(lately.compared, 'state')}", False),
        ("fallbacks", f"{lately.fallbacks:,}", causes or "the policy always answered", lately.fallbacks > 0),
    ]
    alarm = ' class="bad"'
    items = "".join(
        f"<li{alarm if bad else ''}><span>{name}</span><b>{value}</b><span>{note}</span></li>"
        for name, value, note, bad in tiles
    )
    return f'<ul class="tiles">{items}</ul>'


def _only_counted(states: int) -> str:
    """Where states come faster than replicas tell of them, those of a cluster may all be left out."""
    return (
        f"<p>{counted(states, 'state')} decided, none of which is kept here: they come faster than they can"
        " be shown. This page shows the next one that is.</p>"
    )


def _how_to_ask(asked: Asked) -> str:
    example = shlex.quote(f"@{asked.folder}/{EXAMPLE}")
    return (
        "<p>This page shows what is decided about clusters, as soon as somebody asks. To see how, send the"
        " example that lies beside the policy to the address of this service:</p>\n"
        "<pre>curl -s localhost:8000/v1/decisions -H content-type:application/json"
        f" -d {inert(example, 4096)}</pre>\n"
        "<p>Where the service wants a token, add <code>-H 'Authorization: Bearer TOKEN'</code>. What a"
        ' request may say stands in <a href="openapi.json">openapi.json</a>.</p>'
    )
