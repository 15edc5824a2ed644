"""Tables of the page: jobs that wait, and what was decided lately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape

from rlsched.report.tables import table
from rlsched.report.words import number, written
from rlsched.serve.api.schema import Answer, Decision, WaitingJob
from rlsched.serve.decide.engine import SHADOW
from rlsched.serve.ledger.ledger import Noted
from rlsched.serve.page.drawing import counted, inert
from rlsched.serve.page.schedule import in_force

ROWS = 40
"""Jobs in the table of the queue."""

DECISIONS = 30

SAID = 3
"""Decisions of a shadow that are told."""

LAST_S = 253_402_300_799.0
"""The end of the year 9999; no calendar goes on."""

NOTHING = "–"  # noqa: RUF001 - the usual sign for a missing figure

WORDS = {"start": "starts", "reserve": "units kept for it", "plan": "planned", "suspend": "suspended"}


def failed(answer: Answer) -> bool:
    """Whether the policy did not come to a decision."""
    return answer.agrees is None


def reasons_of_failure(noted: Sequence[Noted]) -> Counter[str]:
    """How often each kind of reason kept the policy from deciding, among the states that are kept."""
    return Counter((one.answer.because or "unknown").partition(":")[0] for one in noted if failed(one.answer))


def moment(at: float, now: float | None) -> str:
    """When something was, as HTML.

    Args:
        at: seconds since the epoch.
        now: likewise; None: nobody watches, so that only the date says something.
    """
    date = datetime.fromtimestamp(min(max(0.0, at), LAST_S), UTC)
    exact = f"{date:%Y-%m-%d %H:%M:%S} UTC"
    shown = exact if now is None else f"{written(max(0, round(now - at)), 's')} ago"
    return f'<time datetime="{date:%Y-%m-%dT%H:%M:%SZ}" title="{exact}">{shown}</time>'


def queue_table(one: Noted, resources: Sequence[str]) -> str:
    """The jobs that wait, those first about which something was decided."""
    state, answer = one.state, one.answer
    decided = in_force(answer)
    reasons = {reason.job: reason.detail for reason in answer.waiting or ()}
    suspended = {job.id for job in state.suspended}
    jobs = sorted((*state.suspended, *state.waiting), key=lambda job: (job.id not in decided, job.submit))
    shown = jobs[:ROWS]
    if not shown:
        return "<p>No job waits.</p>"
    with_qos = any(job.qos != 1 for job in jobs)

    def outcome(job: WaitingJob) -> str:
        found = decided.get(job.id)
        if found is not None:
            return f"<b>{_said(found, state.now)}</b>"
        waits = inert(reasons[job.id], 100) if job.id in reasons else NOTHING
        return f'<span class="tag">suspended</span> {waits}' if job.id in suspended else waits

    rows = [
        (
            inert(job.id),
            outcome(job),
            written(max(0, state.now - job.submit), "s"),
            written(job.requested, "s"),
            " / ".join(f"{units:,}" for units in job.demand),
            *((f"{job.qos:.3g}",) if with_qos else ()),
        )
        for job in shown
    ]
    units = f"Units ({inert(' / '.join(resources), 60)})" if resources else "Units"
    qos = ("QoS",) if with_qos else ()
    header = ("Job", "What is done, or why it waits", "Waited", "Requested", units, *qos)
    caption = f"<b>Waiting: {counted(len(jobs), 'job')}</b>, those first about which something was decided."
    if answer.waiting is None:
        caption += " Why the others wait is told to requests that ask to explain."
    more = f"<p>And {len(jobs) - len(shown):,} more.</p>" if len(jobs) > len(shown) else ""
    return f'<div class="queue">{table(header, rows, caption)}</div>{more}'


def _said(decision: Decision, now: int) -> str:
    """A decision in words, as HTML."""
    words = escape(WORDS.get(decision.action, decision.action))
    if decision.action == "start":
        return f"{words} now"
    if decision.at > now:
        return f"{words}, in {written(decision.at - now, 's')}"
    return words


def decisions_table(noted: Sequence[Noted], now: float | None) -> str:
    """What was decided last, the newest first.

    Args:
        noted: states, the newest last.
        now: seconds since the epoch; None: nobody watches.
    """
    rows = [
        (
            inert(decision.job),
            moment(one.at, now),
            _said(decision, one.state.now),
            NOTHING if decision.score is None else f"{number(100 * decision.score)} %",
            _by_whom(one),
            _agreed(one.answer),
        )
        for one, decision in _newest(noted)
    ]
    if not rows:
        return "<p>In no state that is kept anything was to be done.</p>"
    header = ("Job", "When", "Action", "Chance", "Decided by", "Policy and heuristic")
    caption = (
        f"<b>The last {counted(len(rows), 'decision')}</b>, the newest first. Chance: with which the policy"
        " chose so. Policy and heuristic: whether they do the same in the whole state."
    )
    return f'<div class="decisions">{table(header, rows, caption)}</div>'


def _newest(noted: Sequence[Noted]) -> Iterator[tuple[Noted, Decision]]:
    left = DECISIONS
    for one in reversed(noted):
        for decision in reversed(one.answer.decisions[-left:] if left else ()):
            yield one, decision
            left -= 1


def _by_whom(one: Noted) -> str:
    answer = one.answer
    if answer.decided_by == "policy":
        return f"policy {inert(one.policy, 24)}"
    if answer.because == SHADOW:
        return "heuristic, the policy is its shadow"
    return f'heuristic: <span class="worse">{inert(answer.because or "unknown", 60)}</span>'


def _agreed(answer: Answer) -> str:
    if answer.agrees is None:
        return NOTHING
    if answer.agrees or answer.shadow is None:
        return "agree" if answer.agrees else "differ"
    said = (f"{inert(one.job, 24)} {WORDS.get(one.action, one.action)}" for one in answer.shadow[:SAID])
    more = ", …" if len(answer.shadow) > SAID else ""
    return f"differ; the policy: {', '.join(said) or 'nothing'}{more}"
