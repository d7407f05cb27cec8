"""Citations of the specifications: `rest §3.1`, `§4.2–4.4`, `rules §12 #61`. public/docs/protocol/index.md defines them."""

import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

NUMBER = r"\d+(?:\.\d+)*"
HEADING = re.compile(rf"^#{{2,5}} ({NUMBER})\.? +(.*)$")
ITEM = re.compile(r"^(?:(\d+)\. |\| *(\d+) *\|)")
# Documents from elsewhere, which are named and not checked.
FOREIGN = r"RFC \d+|OpenID Connect (?:Core|Discovery)|Knuth, volume \d,"
CITATION = re.compile(
    rf"(?:(?P<name>{FOREIGN}|[A-Za-z][\w.-]*)\s+)?§\s*(?P<start>{NUMBER})"
    rf"(?:\s*[–-]\s*§?(?P<end>{NUMBER}))?(?P<items>(?:,?\s+#\d+)*)")
SECTION_ARGUMENT = rf"(?:[a-z]+ )?{NUMBER}(?: #\d+)*(?:, {NUMBER}(?: #\d+)*)*"
# What may stand between two citations of a list; the name of the first then holds for the second.
LIST_SEPARATOR = re.compile(r"\s*(?:[,;/–]|,?\s*(?:and|or|to))\s*")
# A line break in a comment, with the marks at the beginning of the next line.
COMMENT_BREAK = re.compile(r"\n[ \t]*(?://+|#+|\*)?[ \t]*")
# Citations that this checker would not see.
UNCHECKED = [
    (re.compile(r"\b[Ss]ections?\s+\d"), "write § in place of `section`, so that it is checked"),
    (re.compile(r"\b(?:wire-protocol|rest-api|security-rules|firestore-seeds|design\.md)\b|\(design: "),
     "is no document of the repository"),
]


@dataclass
class Document:
    """The numbered headings of a specification, in order, each with the numbers of its rows and list items."""

    sections: dict = field(default_factory=dict)
    faults: list = field(default_factory=list)

    @classmethod
    def parse(cls, text):
        document = cls()
        current, previous, in_code = None, (), False
        for line in text.splitlines():
            if line.startswith("```"):
                in_code = not in_code
            if in_code:
                continue
            if heading := HEADING.match(line):
                current = heading[1]
                order = tuple(int(part) for part in current.split("."))
                if current in document.sections:
                    document.faults.append(f"§{current} is there twice")
                elif order <= previous:
                    document.faults.append(f"§{current} comes behind §{'.'.join(map(str, previous))}")
                previous = order
                document.sections.setdefault(current, set())
            elif line.startswith("#"):
                current = None
            elif current and (item := ITEM.match(line)):
                document.sections[current].add(int(item[1] or item[2]))
        return document


@dataclass(frozen=True)
class Citation:
    """One section that a text cites: `document` is None where the text names none, `foreign` marks one from elsewhere."""

    line: int
    document: str | None
    number: str
    items: tuple = ()
    foreign: bool = False

    def __str__(self):
        return f"{self.document or ''} §{self.number}{''.join(f' #{item}' for item in self.items)}".strip()


def joined(text):
    """The text with wrapped comments on one line; every character keeps its offset."""
    return COMMENT_BREAK.sub(lambda found: " " * len(found[0]), text)


def citations(text, documents, *, is_code=True):
    """Every citation of a text. `documents` are the names that may stand before a §."""
    flat = joined(text) if is_code else text.replace("\n", " ")
    found, previous = [], None
    for match in CITATION.finditer(flat):
        name = match["name"]
        line = text.count("\n", 0, match.start("start")) + 1
        foreign = name is not None and re.fullmatch(FOREIGN, name) is not None
        if name not in documents and not foreign:
            # A word of the sentence. What looks like a document's name is one, and is not known.
            name = name if name and re.search(r"\.md$|-", name) else None
            between = flat[previous[0]:match.start("start")].split("§")[0] if previous else None
            if name is None and between is not None and LIST_SEPARATOR.fullmatch(between):
                name, foreign = previous[1], previous[2]
        previous = (match.end(), name, foreign)
        items = tuple(int(item) for item in re.findall(r"#(\d+)", match["items"]))
        for number in filter(None, (match["start"], match["end"])):
            found.append(Citation(line, name, number, items, foreign))
    return found


def section_citations(text, documents):
    """The second argument of `row(…)` or `case(…)`: citations without their §, or an RFC as a whole. They have no line."""
    if whole := re.fullmatch(rf"({FOREIGN})(?: {NUMBER})?", text):
        return [Citation(0, whole[1], "", foreign=True)]
    if not re.fullmatch(SECTION_ARGUMENT, text):
        return []
    found = citations(re.sub(rf"(?<![\w.#]){NUMBER}", r"§\g<0>", text), documents)
    return [replace(citation, line=0) for citation in found]


class Shorthand:
    """Which document a bare § means, by the table of the index: pairs of patterns and a document's name, or None."""

    def __init__(self, rows):
        self.rows = rows

    @classmethod
    def parse(cls, index):
        rows, in_table = [], False
        for line in index.splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if line.startswith("| Files "):
                in_table = True
            elif not line.startswith("|"):
                in_table = False
            elif in_table and not line.startswith("|--"):
                meaning = re.match(r"\[(\w+)\]", cells[1])
                rows += [(pattern, meaning and meaning[1]) for pattern in re.findall(r"`([^`]+)`", cells[0])]
        return cls(rows)

    def document(self, path, protocol_folder):
        """What a bare § means in the file; None where the document must be named."""
        pure = PurePosixPath(path)
        if str(pure.parent) == protocol_folder:
            return pure.stem if pure.stem != "index" else None
        matching = [row for row in self.rows if fnmatchcase(path, row[0])]
        return max(matching, key=lambda row: len(row[0]))[1] if matching else None


def problems(path, found, default, documents):
    """What is wrong with the citations of a file: one line each."""
    wrong = []
    for citation in found:
        if citation.foreign:
            continue
        place = f"{path}:{citation.line}: {citation}" if citation.line else f"{path}: {citation}"
        name = citation.document or default
        if name is None:
            wrong.append(f"{place}: name the document")
        elif name not in documents:
            wrong.append(f"{place}: there is no document {name}")
        elif citation.number not in documents[name].sections:
            wrong.append(f"{place}: {name} has no section {citation.number}")
        else:
            there = documents[name].sections[citation.number]
            wrong += [f"{place}: {name} §{citation.number} has no row or item {item}"
                      for item in citation.items if item not in there]
    return wrong


def unchecked(path, text):
    """Citations in words, which the checker would not see."""
    wrong = []
    for pattern, advice in UNCHECKED:
        for match in pattern.finditer(text):
            wrong.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}: {advice}")
    return wrong
