"""The page in a browser: what it shows once it has renewed itself, what it never runs, and how it fits."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rlsched.serve.api.schema import FAR, MANY, ClusterState, RunningJob
from rlsched.serve.ledger.records import Record
from rlsched.serve.page.html import page
from tests.serve.pages import (
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

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ELEMENTS = next(filter(None, map(shutil.which, BROWSERS)), None)

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(ELEMENTS is None, reason=f"none of {', '.join(BROWSERS)} is installed"),
]

PATIENCE_MS = 7000
"""Of the page's own time, in which it renews itself three times."""

Answered = tuple[int, str]


@dataclass
class Site:
    """A service on 127.0.0.1 that answers as it is told to.

    Attributes:
        answers: status and page by path and number of requests for it so far.
        requests_made: paths of all requests.
    """

    answers: Callable[[str, int], Answered] = lambda path, count: (404, "")
    requests_made: list[str] = field(default_factory=list)
    port: int = 0


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = served.answers(self.path, served.requests_made.count(self.path))
            served.requests_made.append(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


def command(site: Site, profile: Path, path: str, *flags: str) -> list[str]:
    """How the browser is called; nothing but 127.0.0.1 has an address for it."""
    return [
        ELEMENTS or "",
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
        *("--disable-background-networking", "--no-first-run", f"--user-data-dir={profile}"),
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        *("--enable-logging=stderr", "--window-size=1280,900", *flags),
        f"http://127.0.0.1:{site.port}{path}",
    ]


@pytest.fixture
def browse(site: Site, tmp_path: Path) -> Callable[..., tuple[str, list[str]]]:
    """`browse("/")`: the document as it is after a while, and what the console says."""

    def look(path: str = "/", *flags: str) -> tuple[str, list[str]]:
        budget = f"--virtual-time-budget={PATIENCE_MS}"
        called = command(site, tmp_path, path, *flags, budget, "--dump-dom")
        done = subprocess.run(called, capture_output=True, text=True, timeout=120, check=True)
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    return look


def content(job: str) -> str:
    """A page on which one job waits."""
    state = ClusterState(now=NOW, waiting=[waiting(job, 1)])
    return page(POLICIES, page_data([record(state, answered([], agrees=True))]))


def main_of(document: str) -> str:
    return document.partition("<main>")[2].partition("</main>")[0]


def unguarded(text: str, script: str = "") -> str:
    """The page without what forbids scripts, and with one of the test's own."""
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>\n', "", text)
    assert bare != text
    return bare.replace("</body>", f"<script>{script}</script></body>")


def report_of(document: str) -> Any:
    """What a script of `unguarded` has left."""
    result = re.search(r'data-report="([^"]*)"', document)
    assert result is not None
    return json.loads(result[1].replace("&quot;", '"'))


REPORT = "document.documentElement.dataset.report = JSON.stringify"


def test_the_page_renews_itself(site: Site, browse: Callable[..., tuple[str, list[str]]]) -> None:
    site.answers = lambda path, count: (200, content("before" if count == 0 else "after"))
    document, console = browse("/?cluster=a%26b")
    assert "after" in main_of(document)
    assert "before" not in main_of(document)
    assert 3 <= len(site.requests_made) <= 5
    assert set(site.requests_made) == {"/?cluster=a%26b"}  # nothing else is fetched, an icon for instance
    assert console == []


def test_a_recorded_run_stays_as_it_is(site: Site, browse: Callable[..., tuple[str, list[str]]]) -> None:
    text = page(POLICIES, page_data([busy()]), live=False)
    site.answers = lambda path, count: (200, text)
    document, console = browse()
    assert site.requests_made == ["/"]
    assert "w2" in main_of(document)
    assert console == []


def test_without_scripts_the_browser_renews_it(site: Site, tmp_path: Path) -> None:
    site.answers = lambda path, count: (200, content("before"))
    # such a browser cannot be told to say what it shows, nor to hurry
    called = command(site, tmp_path, "/", "--blink-settings=scriptEnabled=false", "--remote-debugging-port=0")
    browser = subprocess.Popen(called, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while len(site.requests_made) < 3 and time.monotonic() < until:
            time.sleep(0.1)
    finally:
        browser.terminate()
        browser.wait()
    assert site.requests_made == ["/"] * 3


def test_who_reads_is_left_where_they_are(site: Site, browse: Callable[..., tuple[str, list[str]]]) -> None:
    scroll = f"""
      const table = document.querySelector(".queue .scroll");
      scrollTo(0, 300); table.scrollTo(0, 120);
      document.querySelectorAll("nav a")[1].focus({{preventScroll: true}});
      setTimeout(() => {{
        const now = document.querySelector(".queue .scroll");
        {REPORT}([now !== table, scrollY, now.scrollTop, document.activeElement.textContent]);
      }}, 5000);"""
    state = ClusterState(now=NOW, waiting=[waiting(k, 1) for k in range(60)])
    text = page(POLICIES, page_data([record(state, answered([], agrees=True))], ["default", "other"]))
    site.answers = lambda path, count: (200, unguarded(text, scroll))
    assert report_of(browse()[0]) == [True, 300, 120, "other"]


def test_marked_text_is_not_taken_away(site: Site, browse: Callable[..., tuple[str, list[str]]]) -> None:
    mark = "getSelection().selectAllChildren(document.querySelector('h1'));"
    site.answers = lambda path, count: (200, unguarded(content("before" if count == 0 else "after"), mark))
    assert "before" in main_of(browse()[0])
    assert site.requests_made == ["/"]


def test_the_page_reports_an_ended_service(site: Site, browse: Callable[..., tuple[str, list[str]]]) -> None:
    site.answers = lambda path, count: (200, content("before")) if count == 0 else (503, "gone")
    document, _ = browse()
    assert "The service does not answer (503); this is what it said last." in document
    assert "before" in main_of(document)
    site.requests_made.clear()
    site.answers = lambda path, count: (503, "gone") if count == 1 else (200, content(f"job{count}"))
    document, _ = browse()
    assert re.search(r'<p id="away" role="status" hidden="">', document)
    assert "job0" not in main_of(document)


def test_nothing_of_clients_is_run(site: Site, browse: Callable[..., tuple[str, list[str]]]) -> None:
    words = '"><img src=x onerror="window.run=1"><script>window.run=2</script><svg onload=window.run=3>'
    notice = f"setTimeout(() => {{ {REPORT}([String(window.run), document.images.length]); }}, 5000);"
    texts = [
        page(
            [POLICIES[0] | {key: item for key in ("name", "folder", "scenario", "fallback")}],
            page_data([hostile_state(item, 0), hostile_state(item, 1)], [item, "b"]),
        )
        for item in (words, *HOSTILE)
    ]
    for text in texts:
        site.requests_made.clear()
        site.answers = lambda path, count, text=text: (200, unguarded(text, notice))  # type: ignore[misc]
        document, console = browse()
        assert report_of(document) == ["undefined", 0]
        assert set(site.requests_made) == {"/"}
        assert console == []
        assert Read(text).tags.count("img") == 0


def test_what_would_slip_in_is_not_run_either(
    site: Site, browse: Callable[..., tuple[str, list[str]]]
) -> None:
    slipped = '<script>document.title="run"</script><img src="/x" onerror="document.title=\'run\'">'
    text = content("before").replace("<h1>", f"{slipped}<h1>")
    site.answers = lambda path, count: (200, text)
    document, console = browse()
    assert "<title>default: decisions of policy hpc</title>" in document
    assert set(site.requests_made) == {"/"}
    assert console != []  # the browser says what it refused


FITS = (
    """
  const inside = document.querySelector("iframe").contentDocument;
  const seen = label => label.getClientRects().length > 0;
  const beside = (a, b) => a.right + 2 <= b.left || b.right + 2 <= a.left;
  const close = (a, b) => !beside(a, b) && a.top < b.bottom && b.top < a.bottom;
  const crowded = [];
  for (const chart of inside.querySelectorAll("svg.chart")) {
    const labels = [...chart.querySelectorAll("text:not(.job)")].filter(seen);
    labels.forEach((one, k) => {
      const box = one.getBoundingClientRect();
      if (box.left < 0 || box.right > inside.documentElement.clientWidth) crowded.push(one.textContent);
      for (const other of labels.slice(0, k))
        if (close(box, other.getBoundingClientRect()))
          crowded.push(one.textContent + "|" + other.textContent);
    });
    for (const label of [...chart.querySelectorAll("text.job")].filter(seen)) {
      const box = label.getBoundingClientRect();
      const now = chart.querySelector("line.now")?.getBoundingClientRect();
      if (now && box.left < now.left && now.right < box.right)
        crowded.push("label across now: " + label.textContent);
      const holds = [...chart.querySelectorAll("rect.bar")].some(bar => {
        const around = bar.getBoundingClientRect();
        return around.left <= box.left && box.right <= around.right && around.top <= box.top + 2
          && box.bottom - 2 <= around.bottom;
      });
      if (!holds) crowded.push("label outside: " + label.textContent);
    }
  }
  setTimeout(() => { """
    + REPORT
    + """({
    charts: inside.querySelectorAll("svg.chart").length,
    ticks: inside.querySelectorAll("svg .tick").length,
    jobs: [...inside.querySelectorAll("text.job")].filter(seen).length,
    wide: inside.documentElement.scrollWidth - inside.documentElement.clientWidth,
    crowded: crowded}); }, 0);
"""
)


def far() -> list[Record]:
    """Large numbers, and a long time."""
    held = [RunningJob(id=1, demand=[MANY - 7], start=0, expected_end=FAR // 2)]
    states = [
        ClusterState(now=now, running=held, units=[MANY], supply_kw=[1e12] * 9, battery_kwh=9.87e11)
        for now in (0, FAR // 5, FAR // 4)
    ]
    return [record(state, answered([], agrees=True), ago=-state.now) for state in states]


@pytest.mark.parametrize("width", [320, 390, 970, 1280])
@pytest.mark.parametrize("states", ["few", "some", "full", "far"])
def test_nothing_is_cut_off_or_overlaps(
    site: Site, browse: Callable[..., tuple[str, list[str]]], width: int, states: str
) -> None:
    short = RunningJob(id="a-short-job", demand=[30], start=NOW + 89_900, expected_end=NOW + 90_300)
    later = ClusterState(now=NOW + 90_000, running=[*busy().state.running, short])
    some = {
        "few": lambda: [busy(), record(later, answered([]), ago=0)],
        "some": lambda: full(12, "-of-a-user", 20),
        "full": lambda: full(500, "-a-job-with-a-name", 40),
        "far": far,
    }[states]()
    policies = [POLICIES[0] | {"horizon": 600}]
    text = page(policies, page_data(some, [f"{k}{'W' * 39}" for k in range(9)]), live=False)
    frame = f'<!DOCTYPE html><iframe src="/" style="border:0;width:{width}px;height:3000px"></iframe>'
    script = f"<script>onload = () => {{ {FITS} }};</script>"
    site.answers = lambda path, count: (200, text if path == "/" else frame + script)
    document, console = browse("/framed", f"--window-size={max(500, width + 20)},3000")
    result = report_of(document)
    assert result["charts"] >= 4
    assert result["ticks"] > 10
    assert result["jobs"] > 0 or states in {"full", "far"}
    assert result["wide"] <= 0
    assert result["crowded"] == []
    assert console == []
