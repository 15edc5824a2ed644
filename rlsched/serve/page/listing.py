"""Tables of the page: waiting jobs and recent decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape

from rlsched.report.markup import table
from rlsched.report.words import count_of, number, written
from rlsched.serve.api.schema import Answer, Decision, WaitingJob
from rlsched.serve.decide.policy_store import SHADOW
from rlsched.serve.ledger.records import Record
from rlsched.serve.page.drawing import inert
from rlsched.serve.page.schedule import last_decisions

ROWS = 40  # jobs in the table of the queue

DECISIONS = 30

SHADOW_DECISIONS = 3  # decisions of a shadow in the table
LAST_S = 253_402_300_799.0  # the end of the year 9999, the last that calendars support

NOTHING = "–"  # noqa: RUF001 - the usual sign for a missing figure

WORDS = {"start": "starts", "reserve": "units reserved for it", "plan": "planned", "suspend": "suspended"}


def count_failures(records: Sequence[Record]) -> Counter[str]:
    """Kind of failure of the policy -> records with it."""
    failures = (record.answer.because or "unknown" for record in records if record.answer.agrees is None)
    return Counter(because.partition(":")[0] for because in failures)


def time_tag(at: float, now: float | None) -> str:
    """A time, as HTML: the date, or where the page is live the time until `now`; both in Unix seconds."""
    date = datetime.fromtimestamp(min(max(0.0, at), LAST_S), UTC)
    exact = f"{date:%Y-%m-%d %H:%M:%S} UTC"
    text = exact if now is None else f"{written(max(0, round(now - at)), 's')} ago"
    return f'<time datetime="{date:%Y-%m-%dT%H:%M:%SZ}" title="{exact}">{text}</time>'


def queue_table(record: Record, resources: Sequence[str]) -> str:
    """The waiting jobs, those with a decision first."""
    state, answer = record.state, record.answer
    decided = last_decisions(answer)
    reasons = {reason.job: reason.detail for reason in answer.waiting or ()}
    suspended = {job.id for job in state.suspended}
    jobs = sorted((*state.suspended, *state.waiting), key=lambda job: (job.id not in decided, job.submit))
    listed = jobs[:ROWS]
    if not listed:
        return "<p>No job waits.</p>"
    with_qos = any(job.qos != 1 for job in jobs)

    def outcome(job: WaitingJob) -> str:
        decision = decided.get(job.id)
        if decision is not None:
            return f"<b>{_in_words(decision, state.now)}</b>"
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
        for job in listed
    ]
    units = f"Units ({inert(' / '.join(resources), 60)})" if resources else "Units"
    qos = ("QoS",) if with_qos else ()
    header = ("Job", "Decision, or why it waits", "Waited", "Requested", units, *qos)
    caption = f"<b>Waiting: {count_of(len(jobs), 'job')}</b>, those with a decision first."
    if answer.waiting is None:
        caption += " Requests with explain=true get the reasons why the others wait."
    more = f"<p>And {len(jobs) - len(listed):,} more.</p>" if len(jobs) > len(listed) else ""
    return f'<div class="queue">{table(header, rows, caption)}</div>{more}'


def _in_words(decision: Decision, now: int) -> str:
    """A decision in words, as HTML."""
    words = escape(WORDS.get(decision.action, decision.action))
    if decision.action == "start":
        return f"{words} now"
    if decision.at > now:
        return f"{words}, in {written(decision.at - now, 's')}"
    return words


def decisions_table(records: Sequence[Record], now: float | None) -> str:
    """The last decisions of records, the newest first; `now` is None where the page is not live."""
    rows = [
        (
            inert(decision.job),
            time_tag(record.at, now),
            _in_words(decision, record.state.now),
            NOTHING if decision.score is None else f"{number(100 * decision.score)} %",
            _decided_by(record),
            _agreement(record.answer),
        )
        for record, decision in _newest(records)
    ]
    if not rows:
        return "<p>There is no decision in the states shown here.</p>"
    header = ("Job", "When", "Action", "Chance", "Decided by", "Policy and heuristic")
    caption = (
        f"<b>The last {count_of(len(rows), 'decision')}</b>, the newest first. Chance: with which the policy"
        " chose so. Policy and heuristic: whether they do the same in the whole state."
    )
    return f'<div class="decisions">{table(header, rows, caption)}</div>'


def _newest(records: Sequence[Record]) -> Iterator[tuple[Record, Decision]]:
    remaining = DECISIONS
    for record in reversed(records):
        for decision in reversed(record.answer.decisions[-remaining:] if remaining else ()):
            yield record, decision
            remaining -= 1


def _decided_by(record: Record) -> str:
    answer = record.answer
    if answer.decided_by == "policy":
        return f"policy {inert(record.policy, 24)}"
    if answer.because == SHADOW:
        return "heuristic, the policy is its shadow"
    return f'heuristic: <span class="worse">{inert(answer.because or "unknown", 60)}</span>'


def _agreement(answer: Answer) -> str:
    if answer.agrees is None:
        return NOTHING
    if answer.agrees or answer.shadow is None:
        return "agree" if answer.agrees else "differ"
    decisions = (
        f"{inert(d.job, 24)} {WORDS.get(d.action, d.action)}" for d in answer.shadow[:SHADOW_DECISIONS]
    )
    more = ", …" if len(answer.shadow) > SHADOW_DECISIONS else ""
    return f"differ; the policy: {', '.join(decisions) or 'nothing'}{more}"
