"""Parts of HTML pages: the stylesheet, sections, tables and pictures. A page needs no other file."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape

STYLESHEET = """\
:root {
  --paper: #ffffff; --card: #f6f7f9; --ink: #1f2430; --muted: #5b6372; --line: #dfe3e8;
  --good: #00704f; --bad: #b3400a; --learned: #005f96;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171c; --card: #1d2128; --ink: #e7e9ee; --muted: #a3abb9; --line: #343a45;
    --good: #4fd1a5; --bad: #ff9d66; --learned: #6cb9ee;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.5rem clamp(1rem, 4vw, 2.5rem) 3rem; }
h1 { font-size: clamp(1.4rem, 4vw, 2rem); line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; padding-bottom: .25rem;
  border-bottom: 1px solid var(--line); }
.lead { color: var(--muted); margin: 0; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: .7rem 1.5rem;
  margin: .6rem 0; }
dt { color: var(--muted); font-size: .85rem; }
dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: 1rem 0 1.6rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); padding-bottom: .4rem; }
caption b { color: var(--ink); }
th, td { text-align: right; padding: .36rem .7rem; white-space: nowrap; }
th, td { border-bottom: 1px solid var(--line); }
th:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
thead th { color: var(--muted); font-weight: 600; background: var(--card); }
tbody th { font-weight: 500; }
td:last-child { white-space: normal; }
.range { color: var(--muted); }
.better { color: var(--good); font-weight: 600; }
.worse { color: var(--bad); font-weight: 600; }
.tag { font-size: .72rem; padding: .05rem .4rem; border: 1px solid var(--line); border-radius: 1rem;
  color: var(--muted); white-space: nowrap; }
.tag.learned { color: var(--learned); border-color: currentColor; }
.tag.bad { color: var(--bad); border-color: currentColor; }
figure { margin: .8rem 0; overflow-x: auto; }
img { display: block; width: 100%; min-width: 44rem; height: auto; padding: .5rem;
  background: #ffffff; border: 1px solid var(--line); border-radius: .5rem; }
details { margin: .8rem 0; }
summary { cursor: pointer; color: var(--learned); }
pre { background: var(--card); padding: .8rem; border-radius: .5rem; overflow-x: auto; font-size: .82rem; }
@media print {
  :root {
    --paper: #ffffff; --card: #ffffff; --ink: #000000; --muted: #444444; --line: #bbbbbb;
    --good: #005c41; --bad: #8f3206; --learned: #004a75;
  }
  body { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  figure, tr { break-inside: avoid; }
  .scroll, figure { overflow: visible; }
  img { min-width: 0; }
  th, td { white-space: normal; }
  details { display: none; }
}
"""
"""For wide and narrow screens, dark mode and print."""


def page(
    title: str, main: str, *, style: str = STYLESHEET, head: str = "", begin: str = "", end: str = ""
) -> str:
    """A whole page, from HTML: its title and content, more of its head, and elements around the content."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n{head}'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"{begin}<main>\n{main}\n</main>\n{end}</body>\n</html>\n"
    )


def section(title: str, body: str) -> str:
    """A section of a page, with its heading; empty without a body."""
    return f"<section><h2>{escape(title)}</h2>\n{body}</section>" if body else ""


def image(caption: str, png: bytes) -> str:
    """An embedded picture."""
    data = b64encode(png).decode()
    return f'<figure><img alt="{escape(caption)}" src="data:image/png;base64,{data}"></figure>'


def folded(summary: str, body: str) -> str:
    """A collapsed part of a page."""
    return f"<details><summary>{summary}</summary>{body}</details>"


def settings_text(text: str) -> str:
    """Settings as YAML, collapsed."""
    return folded("All settings", f"<pre>{escape(text)}</pre>")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    """A table of HTML cells, which scrolls on narrow screens; the first of a row is its heading."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in header)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>\n'
        for first, *cells in rows
    )
    return (
        f'<div class="scroll"><table><caption>{caption}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def fact_list(facts: Mapping[str, str]) -> str:
    """Names and values, both as HTML."""
    return (
        f"<dl>{''.join(f'<div><dt>{name}</dt><dd>{value}</dd></div>' for name, value in facts.items())}</dl>"
    )
