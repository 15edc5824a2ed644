"""Style and script of the page: additions to the report's style, and the renewal."""

from __future__ import annotations

import base64
import hashlib

from rlsched.report.markup import STYLESHEET
from rlsched.serve.page.drawing import BETWEEN

RENEWED_S = 2  # seconds between requests for updates

STYLE = (
    STYLESHEET
    + """\
h1 { overflow-wrap: anywhere; }
a { color: var(--learned); }
nav ul, .tiles, .legend { list-style: none; margin: 0; padding: 0; display: flex; flex-wrap: wrap; }
nav ul { gap: .4rem .5rem; margin: .8rem 0; }
nav a { display: inline-block; padding: .2rem .7rem; border: 1px solid var(--line); border-radius: 1rem;
  overflow-wrap: anywhere; text-decoration: none; }
nav a[aria-current] { color: var(--ink); border-color: currentColor; font-weight: 600; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .7rem;
  margin: 1.2rem 0; }
.tiles li { background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .6rem .9rem; }
.tiles span { display: block; color: var(--muted); font-size: .85rem; line-height: 1.35;
  overflow-wrap: anywhere; }
.tiles b { display: block; font-size: 1.6rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tiles .bad { border-color: var(--bad); }
.tiles .bad b { color: var(--bad); }
#away { position: sticky; top: 0; z-index: 1; margin: 0; padding: .5rem 1rem; text-align: center;
  background: var(--card); color: var(--bad); border-bottom: 1px solid var(--bad); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr));
  gap: 0 2rem; }
figure.drawn { overflow: visible; min-width: 0; padding-bottom: .5rem; }
figcaption { color: var(--muted); font-size: .85rem; margin-top: .3rem; }
.legend { gap: .1rem 1.1rem; font-size: .85rem; color: var(--muted); }
.legend b { color: var(--ink); font-variant-numeric: tabular-nums; }
.legend li { display: flex; align-items: center; gap: .4rem; }
svg.chart { display: block; width: calc(100% - 4.1rem); margin: 1.8rem .9rem 2rem 3.2rem; overflow: visible; }
svg svg { overflow: visible; }
svg text { fill: var(--muted); font-size: 12px; font-variant-numeric: tabular-nums; }
svg .mark { text-anchor: end; }
svg .tick { text-anchor: middle; }
svg text.now { fill: var(--ink); font-weight: 600; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg line.now { stroke: var(--ink); stroke-width: 1.5; }
svg .line { fill: none; stroke-width: 2; stroke-linecap: round; stroke-linejoin: round;
  vector-effect: non-scaling-stroke; }
svg .first { stroke: var(--learned); }
svg .second { stroke: var(--muted); stroke-dasharray: 5 4; stroke-linecap: butt; }
svg .third { stroke: var(--good); }
svg .failed { stroke: var(--bad); stroke-width: 2; }
svg .bar { stroke-width: 1; vector-effect: non-scaling-stroke; }
svg .runs { fill: var(--learned); fill-opacity: .25; stroke: var(--learned); }
svg .starts { fill: var(--good); fill-opacity: .5; stroke: var(--good); }
svg .planned { fill: var(--good); fill-opacity: .1; stroke: var(--good); stroke-dasharray: 4 3; }
svg .reserved { fill: none; stroke: var(--ink); stroke-dasharray: 2 3; }
svg .overdue { fill: var(--bad); fill-opacity: .3; stroke: var(--bad); stroke-width: 2; }
svg .suspends { fill: var(--muted); fill-opacity: .15; stroke: var(--muted); stroke-dasharray: 6 3; }
svg .others { fill: var(--learned); fill-opacity: .12; stroke: var(--muted); }
svg .thin { fill-opacity: .55; stroke: none; }
svg .thin.reserved { fill: var(--ink); }
svg .out { fill: url(#stripes); stroke: var(--muted); }
svg .stripe { stroke: var(--muted); stroke-width: 2; }
svg text.job { fill: var(--ink); text-anchor: middle; pointer-events: none; }
.queue .scroll, .decisions .scroll { max-height: 27rem; overflow: auto; }
thead th { position: sticky; top: 0; }
caption { max-width: calc(100vw - 2.4rem); }
.decisions th, .decisions td { text-align: left; }
.decisions td:nth-child(4), .decisions th:nth-child(4) { text-align: right; }
.queue td:nth-child(2) { white-space: normal; min-width: 12rem; }
tbody th { white-space: normal; overflow-wrap: anywhere; min-width: 6rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  th, td { padding-inline: .45rem; }
  dl { grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); }
}
@media (max-width: 60rem) { ."""
    + BETWEEN
    + """ { display: none; } }
@media print {
  nav, #away { display: none; }
  svg.chart { break-inside: avoid; }
  .queue .scroll, .decisions .scroll { max-height: none; overflow: visible; }
}
"""
)

SCRIPT = (
    """\
const wait = """
    + str(1000 * RENEWED_S)
    + """;
const away = document.getElementById("away");
const spots = () => document.querySelectorAll("main .scroll, main pre");
async function renew() {
  const chosen = getSelection();
  const busy = document.hidden || (chosen && !chosen.isCollapsed);
  try {
    if (!busy) {
      const answer = await fetch(location.href, {cache: "no-store"});
      if (!answer.ok) throw new Error(answer.status);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const main = fresh.querySelector("main");
      const scrolled = Array.from(spots(), spot => [spot.scrollLeft, spot.scrollTop]);
      const open = document.activeElement.closest("nav a")?.getAttribute("href");
      const [x, y] = [scrollX, scrollY];
      document.querySelector("main").replaceWith(document.adoptNode(main));
      document.title = fresh.title;
      spots().forEach((spot, k) => spot.scrollTo(...(scrolled[k] ?? [0, 0])));
      for (const link of document.querySelectorAll("nav a"))
        if (link.getAttribute("href") === open) link.focus({preventScroll: true});
      scrollTo(x, y);
      away.hidden = true;
    }
  } catch (error) {
    away.textContent = `The service does not answer (${error.message}); this is what it said last.`;
    away.hidden = false;
  }
  setTimeout(renew, wait);
}
setTimeout(renew, wait);
"""
)
"""While a reader selects text, or looks elsewhere, the page does not change."""

_DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()

POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; "
    f"script-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'"
)
"""Content security policy of the page: that script, requests to this service, and nothing else."""
