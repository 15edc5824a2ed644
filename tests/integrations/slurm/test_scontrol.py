"""Decisions as scontrol commands."""

from __future__ import annotations

from pathlib import Path

from rlsched.integrations.slurm.scontrol import nice_updates, script
from rlsched.serve.api.schema import Answer, Decision, Reason

from .samples import NOW, job, sample, view_of, write_json


def answer(*decisions: tuple[int | str, str]) -> Answer:
    return Answer([Decision(job, action, NOW, 0.5) for job, action in decisions], "policy")


def run_of(text: str) -> list[str]:
    """What a shell would run."""
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_commands_put_the_queue_in_order() -> None:
    updates, problems = nice_updates(view_of(), answer((302, "start"), (301, "reserve"), (311, "start")))
    # Above the highest of the others, 200_2 with 4500, comes 311 with 5500, above it 301, above it 302.
    assert [(update.job, update.nice, update.previous) for update in updates] == [
        ("302", -3500, 0),
        ("301", -1500, 0),
        ("311", -3450, 50),
    ]
    assert not problems
    # What they come to: priority + old nice - new nice.
    assert [4000 + 3500, 5000 + 1500, 2000 + 50 + 3450] == [7500, 6500, 5500]


def test_no_commands_where_the_order_is_right() -> None:
    text = script(view_of(), answer((301, "start")), [])
    assert "Nothing to do" in text
    assert "scontrol update" not in text


def test_commands_can_be_run_and_undone() -> None:
    text = script(view_of(), answer(("200_2", "start")), ["be careful\nrm -rf /"])
    lines = text.splitlines()
    assert run_of(text) == ["scontrol update JobId=200_2 Nice=-1500"]
    assert "# scontrol update JobId=200_2 Nice=0" in lines


def test_jobs_that_slurm_starts_anyway_are_listed() -> None:
    delayed = Answer([], "policy", waiting=[Reason(302, "may_start", "")])
    assert "does not start these, though they fit: 302" in script(view_of(), delayed, [])


def test_names_cannot_leave_a_comment(tmp_path: Path) -> None:
    queue = sample("squeue")
    job(queue, 302).update(user_name="eve\nscancel 1 `reboot` $(x)", partition="batch,\nx")
    text = script(view_of(write_json(tmp_path, "q", queue)), answer((302, "start")), [])
    assert run_of(text) == ["scontrol update JobId=302 Nice=-2000"]
    assert "`" not in text
    assert "$" not in text


def test_jobs_without_a_priority_stay_where_they_are(tmp_path: Path) -> None:
    queue = sample("squeue")
    job(queue, 302)["priority"] = {"set": False, "infinite": False, "number": 0}
    updates, problems = nice_updates(view_of(write_json(tmp_path, "q", queue)), answer((302, "start")))
    assert (updates, len(problems)) == ([], 1)
