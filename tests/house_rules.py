"""House rules that no other tool checks: words, lengths, links and commit subjects.

`python -m tests.house_rules` prints every finding, and fails where there is one.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).parents[1]
FIRST_COMMIT = "f23d5afce0159b77b375405a125a187ef01814dd"
"""From here on subjects of commits are checked."""

LONGEST_SUBJECT = 72  # characters
LONGEST_SENTENCE = 35  # words
LONGEST_FUNCTION = 60  # lines
LONGEST_FILE = 350  # lines
MOST_PLACES = 2
"""Modules of the package that may define a public class or function of the same name."""

RETIRED_PARTS = frozenset(
    re.findall(
        r"\w+",
        """
    begun beginning beginnings kept told telling teller seen foreseen paid judged keen sharpness heat
    spreads contestant contestants contender contenders noted desk spill letters beside asked asking
    mine deferring whoever found own
    """,
    )
)
"""Words that no identifier contains."""
RETIRED_NAMES = frozenset(
    re.findall(
        r"\w+",
        """
    one each other others another both who whom whose what which this that these those it here there
    alike enough lot news book moment given taken shown said left gone
    """,
    )
)
"""Pronouns, participles and old terms that are no identifier by themselves."""
RETIRED_PHRASES = re.compile(
    r"\b(what is told|is told|are told|who(?:ever)? (?:reads|learns|travels|plays|looks after|asks)|"
    r"means? nothing to|beginnings|sharpness|contestants?|contenders?|keen(?:ness)?|foreseen|target_share|"
    r"teller)\b",
    re.IGNORECASE,
)
"""Phrases that no help, error or document contains."""
VAGUE_FIRST_WORDS = re.compile(r"(What|Who|Whose|Which|Where|How|Of|The same|It)\b")
"""Words that begin no docstring of the package: the first line names a thing, or tells what to do."""

PROSE = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/architecture.md",
    "docs/guide/**/*.md",
    "docs/reference/**/*.md",
)
DOCUMENTS = (*PROSE, "docs/*.md", "docs/decisions/*.md")
CODE = ("rlsched/**/*.py", "benchmarks/**/*.py", "tests/**/*.py")
EXEMPT = frozenset({"tests/house_rules.py", "tests/test_house_rules.py"})


@dataclass(frozen=True)
class Finding:
    """A place that breaks a rule.

    Attributes:
        rule: short name of the rule.
        file: path from the root of the repository, or "git log".
        line: 1 is the first.
        text: what is wrong there.
    """

    rule: str
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.text}"


def files(*patterns: str) -> list[Path]:
    """Files of the repository that match any of the patterns, in the order of their names."""
    found_files = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    return sorted(path for path in found_files if path.relative_to(ROOT).as_posix() not in EXEMPT)


def parts(name: str) -> set[str]:
    """The words of an identifier, in small letters."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name that a module gives, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno
            case ast.alias(asname=str(name)):
                yield name, node.lineno


def retired_names(file: str, tree: ast.AST) -> Iterator[Finding]:
    """Identifiers, the module's name included, with retired words."""
    for name, line in [(Path(file).stem, 1), *identifiers(tree)]:
        bad = parts(name) & RETIRED_PARTS
        if name.strip("_").lower() in RETIRED_NAMES or bad:
            yield Finding("retired name", file, line, name)


def user_texts(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Texts that a user reads: arguments of calls (help, errors, descriptions) and docstrings of commands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                for inner in ast.walk(argument):
                    if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                        yield inner.value, inner.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            docstring = ast.get_docstring(node)
            if docstring:
                yield docstring, getattr(node, "lineno", 1)


def retired_phrases(file: str, texts: Iterator[tuple[str, int]]) -> Iterator[Finding]:
    """Texts with retired phrases."""
    for text, line in set(texts):
        for match in RETIRED_PHRASES.finditer(text):
            yield Finding("retired phrase", file, line, match.group())


def vague_docstrings(file: str, tree: ast.AST) -> Iterator[Finding]:
    """Docstrings, those after constants included, whose first line begins with a vague word."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                first = text.strip().partition("\n")[0]
                if VAGUE_FIRST_WORDS.match(first):
                    yield Finding("vague docstring", file, node.lineno, first)


def long_functions(file: str, tree: ast.AST) -> Iterator[Finding]:
    """Functions with more lines than fit on a screen."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > LONGEST_FUNCTION:
                yield Finding("long function", file, node.lineno, f"{node.name}, {lines} lines")


def is_public_definition(node: ast.stmt) -> TypeGuard[ast.ClassDef | ast.FunctionDef]:
    """Whether a module offers a class or a function to others; entry points and commands are not counted."""
    if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
        return False
    return node.name != "main" and not any("command" in ast.unparse(item) for item in node.decorator_list)


def code_findings() -> Iterator[Finding]:
    """Findings in Python files."""
    places: dict[str, set[str]] = defaultdict(set)
    for path in files(*CODE):
        file, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        tree = ast.parse(text)
        yield from retired_names(file, tree)
        yield from long_functions(file, tree)
        if file.startswith("rlsched/"):
            yield from retired_phrases(file, user_texts(tree))
            yield from vague_docstrings(file, tree)
            for node in tree.body:
                if is_public_definition(node):
                    places[node.name].add(file)
        lines = text.count("\n")
        if lines > LONGEST_FILE:
            yield Finding("long file", file, 1, f"{lines} lines")
    for name, where in sorted(places.items()):
        if len(where) > MOST_PLACES:
            yield Finding("one name, many meanings", min(where), 1, f"{name} in {', '.join(sorted(where))}")


def sentences(text: str) -> Iterator[tuple[str, int]]:
    """Sentences of a Markdown document with their lines, without code, tables and pictures."""
    text = re.sub(r"^(```|~~~).*?^\1", lambda m: "\n" * m.group().count("\n"), text, flags=re.S | re.M)
    paragraph: list[str] = []
    start = 1
    for number, raw in enumerate([*text.splitlines(), ""], start=1):
        line = raw.strip()
        begins = re.match(r"([-*+]|\d+\.|#+|>|\||!\[|---|\w+:\s*$)", line) or raw.startswith("    ")
        if paragraph and (not line or begins):
            joined = " ".join(paragraph)
            for sentence in re.split(r"(?<=[.!?:;])\s+(?=[A-Z`*\[(\d])", joined):
                yield sentence, start
            paragraph = []
        if not line or line.startswith(("#", "|", "![", "---")) or (raw.startswith("    ") and not paragraph):
            continue
        if not paragraph:
            start = number
        paragraph.append(re.sub(r"^([-*+]|\d+\.|>)\s+", "", line))


def words(sentence: str) -> int:
    """Words of a sentence; the target of a link counts for none, code in backticks for one."""
    plain = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "code", sentence))
    return len([word for word in plain.split() if re.search(r"\w", word)])


def document_findings() -> Iterator[Finding]:
    """Findings in documents."""
    prose = set(files(*PROSE))
    for path in files(*DOCUMENTS):
        file, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        yield from retired_phrases(
            file, ((line, number) for number, line in enumerate(text.splitlines(), start=1))
        )
        if path in prose:
            for sentence, line in sentences(text):
                if words(sentence) > LONGEST_SENTENCE:
                    yield Finding("long sentence", file, line, f"{words(sentence)} words: {sentence[:60]}...")
    for path in files(*DOCUMENTS, "docs/experiments/*.md", "CHANGELOG.md"):
        yield from dead_references(path)


def dead_references(path: Path) -> Iterator[Finding]:
    """Links of a document, and names of files in backticks, that name no file of the repository."""
    file = path.relative_to(ROOT).as_posix()
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", line):
            if (
                "://" not in target
                and not target.startswith("mailto:")
                and not (path.parent / target).exists()
            ):
                yield Finding("dead reference", file, number, target)
        for name in re.findall(
            r"`((?:rlsched|docs|tests|benchmarks|datasets|tune_configs|clusters)/[\w./-]+)`", line
        ):
            if not (ROOT / name).exists():
                yield Finding("dead reference", file, number, name)


def commit_findings() -> Iterator[Finding]:
    """Subjects of commits that are too long; none where the history is not there, as in an archive."""
    command = ["git", "log", "--format=%h %s", f"{FIRST_COMMIT}..HEAD"]
    log = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    for line in log.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > LONGEST_SUBJECT:
            yield Finding("long subject", "git log", 1, f"{commit} {len(subject)} characters: {subject}")


def all_findings() -> list[Finding]:
    """Findings of all rules."""
    return [*code_findings(), *document_findings(), *commit_findings()]


def main() -> int:
    """Print all findings; 1 where there are any."""
    findings = all_findings()
    for finding in findings:
        print(finding)
    print(f"house rules: {f'FAILED, {len(findings)} findings' if findings else 'passed'}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
