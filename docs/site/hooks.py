"""Hooks of mkdocs: the README as home page, lists of records, links into the repository."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

RECORDS = ("decisions", "experiments")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def title(page: Path) -> str:
    """The first heading of a page."""
    return page.read_text("utf-8").partition("\n")[0].lstrip("# ")


def records(folder: Path) -> list[Path]:
    """The numbered pages of a folder."""
    return sorted(folder.glob("[0-9]*.md"))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add decisions and experiments to the navigation."""
    docs = Path(config.docs_dir)
    for name in RECORDS:
        pages = [f"{name}/{page.name}" for page in records(docs / name)]
        config.nav.append({name.capitalize(): [f"{name}/index.md", *pages]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the home page and the lists of records."""
    docs = Path(config.docs_dir)
    home = (docs.parent / "README.md").read_text("utf-8")
    files.append(File.generated(config, "index.md", content=re.sub(r"\]\(docs/", "](", home)))
    for name in RECORDS:
        lines = [f"- [{title(page)}]({page.name})" for page in records(docs / name)]
        content = "\n".join([f"# {name.capitalize()}", "", *lines, ""])
        files.append(File.generated(config, f"{name}/index.md", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to folders at their lists; leave the text of links that lead out of the documents."""
    folder = posixpath.dirname(page.file.src_uri)
    docs = Path(config.docs_dir)

    def link(match: re.Match[str]) -> str:
        picture, text, target, anchor = match.groups()
        path = posixpath.normpath(posixpath.join(folder, target))
        if ":" in target or picture:
            return match.group()
        if path in RECORDS:
            return f"[{text}]({target.rstrip('/')}/index.md)"
        inside = not path.startswith("..") and (files.get_file_from_path(path) or (docs / path).exists())
        source = path.removeprefix("../") if path.startswith("..") else path
        if not inside and (docs.parent / source).exists():
            return text
        return f"[{text}]({target}{anchor or ''})"

    return LINK.sub(link, markdown)
