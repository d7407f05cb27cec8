"""The files of the repository, as text, and the names that its code declares or uses."""

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROTOCOL = "public/docs/protocol"
# Suffixes of the files in which code, and comments on it, cite the specifications.
CODE_SUFFIXES = {".swift", ".py", ".js", ".c", ".h", ".sh", ".html", ".txt", ".ini", ""}


@cache
def files(*folders):
    """Paths relative to the root of all files below the folders, sorted; build outputs and hidden folders left out."""
    found = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            parts = path.relative_to(ROOT / folder).parts
            if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in parts):
                found.append(str(path.relative_to(ROOT)))
    return found


def code_files():
    """Sources, tests and scripts; the tests of this folder hold planted errors and are left out."""
    return [
        path for path in files("Sources", "Tests", "deploy")
        if Path(path).suffix in CODE_SUFFIXES and not path.startswith(("Tests/Documents/", "Tests/EndToEnd/fixtures/"))
    ]


def documents():
    """Every document in Markdown: the README and its neighbours, public/docs, .github, module pages, pages of tests."""
    top = [path.name for path in sorted(ROOT.glob("*.md"))]
    below = [path for path in files("public", "Sources", "Tests", ".github") if path.endswith(".md")]
    return top + below


def read(path):
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


def exists(path):
    """Whether the repository has this file or folder, or one that matches it: `*` and a name `X` stand for any."""
    path = re.sub(r"\bX\b", "*", path.rstrip("/"))
    if "*" in path:
        return next(ROOT.glob(path), None) is not None
    return (ROOT / path).exists()


@cache
def identifiers():
    """Every word of the code: what a document calls a type must be among them."""
    words = set()
    for path in [*code_files(), "Package.swift"]:
        words.update(re.findall(r"[A-Za-z_]\w*", read(path)))
    return words


def none(faults):
    """Fails with every fault on a line of its own."""
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults)
