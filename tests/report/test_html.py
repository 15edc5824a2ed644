from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from rlsched.errors import BadInputError
from rlsched.evaluate.results import Result
from rlsched.evaluate.statistics import EpisodeResult
from rlsched.report.gantt import Gantt, Schedule
from rlsched.report.html import findings, render, version_section, write_report
from rlsched.report.words import labelled, scale_for

VOID = {"meta", "img"}


class Page(HTMLParser):
    """Collects text and attributes, and sees that every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, result: Result, schedules: list[Schedule]) -> Path:
    folder = tmp_path_factory.mktemp("report") / "new" / "folder"
    return write_report(folder, result, [Gantt("offset 1981 <i>", schedules, 256)])


def test_the_folder_holds_page_pictures_and_figures_only(report: Path) -> None:
    assert report.name == "report.html"
    names = sorted(path.name for path in report.parent.iterdir())
    assert names == ["comparison.png", "gantt-1.png", "report.html", "results.json"]
    values = json.loads((report.parent / "results.json").read_text("utf-8"))
    assert values["schema"] == 1
    assert len(values["hoarding"]) == 2


def test_the_page_needs_nothing_from_elsewhere(report: Path) -> None:
    page = Page(report.read_text("utf-8"))
    assert not {"script", "link", "iframe"} & set(page.tags)
    for name, value in page.attributes:
        if name in {"src", "href"}:
            assert value is not None
            assert value.startswith("data:image/png;base64,")
    assert "http" not in report.read_text("utf-8")
    assert "url(" not in report.read_text("utf-8")


def test_pictures_are_embedded_whole(report: Path) -> None:
    embedded = re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", report.read_text("utf-8"))
    pictures = [(report.parent / name).read_bytes() for name in ("comparison.png", "gantt-1.png")]
    assert [base64.b64decode(data) for data in embedded] == pictures
    for png in pictures:
        assert Image.open(BytesIO(png)).format == "PNG"


def test_what_a_user_named_is_escaped(report: Path) -> None:
    text = report.read_text("utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in text
    assert "<i>" not in text
    page = Page(text)
    assert "a<b>: comparison of schedulers" in page.text
    assert '5 > 3 & "quotes"' in page.text


def test_the_page_says_what_counts(report: Path, result: Result) -> None:
    text = Page(report.read_text("utf-8")).text
    assert "Best heuristic by mean bounded slowdown: sjf + greedy with 32 (95 % interval" in text
    assert "Best learned policy: runs/ppo + commit with 22" in text
    assert "It is better than the best heuristic, and at least as good in 100 % of the episodes." in text
    assert "does not count: it pushes jobs past the end of the sequence; its jobs wait too long" in text
    assert "zero runtime dropped" in text
    assert "1,234" in text
    assert "rlsched" in version_section()
    assert "fit does not count" in " ".join(findings(result)).replace("</span>", "")


def test_a_plain_comparison_of_heuristics_has_no_hoarding_part(result: Result) -> None:
    episodes = [EpisodeResult("fcfs", "none", 0, 1, None, {"wait": 5.0})]
    text = Page(render(Result.of(result.scenario, episodes), {})).text
    assert "Does the result count?" not in text
    assert "No job was dropped or repaired" in text
    assert "Best learned" not in text


def test_a_result_in_which_nothing_finished(tmp_path: Path, result: Result) -> None:
    episodes = [EpisodeResult("fcfs", "none", 0, 1, None, {"wait": float("nan")})]
    page = write_report(tmp_path, Result.of(result.scenario, episodes))
    assert "Nothing could be measured" in page.read_text("utf-8")
    assert json.loads((tmp_path / "results.json").read_text("utf-8"))["summary"][0]["mean"] is None


def test_a_folder_that_cannot_be_written_is_bad_input(tmp_path: Path, result: Result) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(BadInputError, match="--report: cannot write to"):
        write_report(blocked, result)


def test_a_picture_that_fails_leaves_no_files(tmp_path: Path, result: Result) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        write_report(tmp_path / "new", result, [Gantt("empty", [], 4)])
    assert not (tmp_path / "new").exists()


def test_evaluation_needs_no_trainer_and_no_plotting() -> None:
    code = (
        "import sys, rlsched.evaluate.results, rlsched.sim.metrics;"
        "print(sorted({'ray', 'torch', 'matplotlib', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "unit", "label"),
    [
        ("energy_kwh", "kWh", "energy (kWh)"),
        ("carbon_kg", "kg", "carbon (kg)"),
        ("wait", "s", "wait (h)"),
        ("cost.delayed_jobs", "cost", "cost.delayed jobs"),
        ("power.battery.capacity_kwh", "ratio", "power.battery.capacity_kwh"),
    ],
)
def test_units_are_not_repeated(name: str, unit: str, label: str) -> None:
    assert labelled(name, scale_for(unit, [2e4])) == label
