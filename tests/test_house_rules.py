"""The house rules find what they are for."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import house_rules
from tests.house_rules import Finding


@pytest.mark.parametrize("name", ["told", "cells_seen", "ContestantTable", "_found", "each", "Kept"])
def test_retired_names(name: str) -> None:
    findings = list(house_rules.retired_names("rlsched/x.py", ast.parse(f"a = 1\n{name} = 2")))
    assert [(finding.line, finding.text) for finding in findings] == [(2, name)]


def test_retired_names_of_modules_arguments_and_attributes() -> None:
    tree = ast.parse("def f(told): self.found = 1\nimport x as mine\nfor each in y: pass")
    names = [finding.text for finding in house_rules.retired_names("rlsched/spill.py", tree)]
    assert sorted(names) == ["each", "found", "mine", "spill", "told"]


def test_names_that_only_contain_letters_of_retired_words() -> None:
    tree = ast.parse("owner = foundation = heating = known = reached = deskew = 1")
    assert not list(house_rules.retired_names("rlsched/x.py", tree))


def test_retired_phrases_in_help_and_errors() -> None:
    tree = ast.parse("x = Option(help='means nothing to dqn')\ny = 'means nothing to dqn'")
    findings = list(house_rules.retired_phrases("rlsched/x.py", house_rules.user_texts(tree)))
    assert [finding.text for finding in findings] == ["means nothing to"]


@pytest.mark.parametrize(
    "text", ["What a job is.", "Who decides.", "Of a job.", "The same without jobs.", "It is a job."]
)
def test_vague_docstrings(text: str) -> None:
    tree = ast.parse(f'"""{text}"""\nA = 1\n"""{text}\n\nMore."""\ndef f():\n    """\n    {text}\n    """')
    findings = list(house_rules.vague_docstrings("rlsched/x.py", tree))
    assert [(finding.line, finding.text) for finding in findings] == [(1, text), (3, text), (7, text)]


@pytest.mark.parametrize(
    "text", ["Whether a job waits.", "Items of a job.", "A job.\n\nWhat it is.", "Offsets.", "However."]
)
def test_docstrings_that_are_not_vague(text: str) -> None:
    tree = ast.parse(f'"""{text}"""\nx = "What a text that is no docstring says."')
    assert not list(house_rules.vague_docstrings("rlsched/x.py", tree))


def test_long_functions() -> None:
    body = "\n".join(["    pass"] * house_rules.LONGEST_FUNCTION)
    findings = list(house_rules.long_functions("x.py", ast.parse(f"def long():\n{body}\ndef short(): pass")))
    assert [finding.text for finding in findings] == ["long, 61 lines"]


def test_sentences_of_markdown() -> None:
    page = (
        "# A title\n\nFirst `a b c` sentence\nin two lines. Second [link](a/long/target.md) one.\n\n"
        "```sh\nnot a sentence\n```\n\n| not | one |\n\n- An item.\n- Another item.\n"
    )
    sentences = list(house_rules.sentences(page))
    assert sentences == [
        ("First `a b c` sentence in two lines.", 3),
        ("Second [link](a/long/target.md) one.", 3),
        ("An item.", 12),
        ("Another item.", 13),
    ]
    assert [house_rules.words(sentence) for sentence, _ in sentences] == [6, 3, 2, 2]


def test_dead_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house_rules, "ROOT", tmp_path)
    (tmp_path / "there.md").write_text("")
    page = tmp_path / "page.md"
    page.write_text("[a](there.md#part) [b](gone.md) [c](https://example.org)\n`rlsched/gone.py`\n")
    findings = [(finding.line, finding.text) for finding in house_rules.dead_references(page)]
    assert findings == [(1, "gone.md"), (2, "rlsched/gone.py")]


def test_any_finding_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(house_rules, "all_findings", list)
    assert house_rules.main() == 0
    finding = Finding("long file", "a.py", 1, "400 lines")
    monkeypatch.setattr(house_rules, "all_findings", lambda: [finding])
    assert house_rules.main() == 1
    assert capsys.readouterr().out.splitlines() == [
        "house rules: passed",
        "a.py:1: long file: 400 lines",
        "house rules: FAILED, 1 findings",
    ]
