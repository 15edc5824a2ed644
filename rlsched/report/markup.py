"""Parts of HTML pages: the stylesheet, sections, tables and pictures. A page needs no other file."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

STYLESHEET = Path(__file__).with_name("page.css").read_text("utf-8")
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


def head(title: str, lead: str) -> str:
    """The heading of a page, with a line of text below it, if any."""
    return f"<h1>{escape(title)}</h1>" + (f'\n<p class="lead">{escape(lead)}</p>' if lead else "")


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
