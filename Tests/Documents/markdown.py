"""What can be checked of a page of Markdown without rendering it: links, anchors, tables, paths, names of types."""

import re
from dataclasses import dataclass

FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(<?([^()<>\s]*(?:\([^()\s]*\))?)>?(?: \"[^\"]*\")?\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]: *(\S+)")
HEADING = re.compile(r"^(#{1,6}) +(.*?)(?: +#+)?$")
PATH = re.compile(r"(?<![\w/.-])(?:Sources|Tests|deploy|public)/[\w./*+-]*")
FILE_NAME = re.compile(r"[\w+./-]+\.(?:swift|py)")
# Two capitals with a small letter between them, or a DocC link: what a Swift type looks like.
TYPE = re.compile(r"[A-Z][A-Za-z0-9]*[a-z0-9][A-Z][A-Za-z0-9]*")
SYMBOL_LINK = re.compile(r"(?<!`)``([A-Za-z_][\w/]*)(?:\([\w:]*\))?(?:\.md)?``(?!`)")
# Folders of one person's machine, which no document should show: of a home directory, or beside the repository.
PRIVATE_PATH = re.compile(r"(?<![\w.])(?:/home/\w|/Users/\w|~/|(?:\.\./){4})[\w./-]*")


def blank(text):
    """As many spaces, and the same lines."""
    return re.sub(r"[^\n]", " ", text)


def without_fences(text):
    """The text with fenced blocks blanked out; lines keep their numbers."""
    lines, fence = [], None
    for line in text.split("\n"):
        mark = FENCE.match(line)
        if fence is None and mark:
            fence = mark[1]
            lines.append("")
        elif fence is not None:
            if mark and mark[1].startswith(fence):
                fence = None
            lines.append("")
        else:
            lines.append(line)
    return "\n".join(lines)


def prose(text):
    """The text without fenced blocks and code spans; lines keep their numbers."""
    return CODE_SPAN.sub(lambda found: blank(found[0]), without_fences(text))


def code_spans(text):
    """Pairs of line number and content of each code span outside fenced blocks."""
    plain = without_fences(text)
    return [(line_of(plain, found.start()), found[2].strip()) for found in CODE_SPAN.finditer(plain)]


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def links(text):
    """Pairs of line number and target of each link and image."""
    plain = prose(text)
    found = [(line_of(plain, link.start()), link[1]) for link in LINK.finditer(plain)]
    for number, line in enumerate(plain.split("\n"), 1):
        if definition := DEFINITION.match(line):
            found.append((number, definition[1]))
    return found


def anchors(text):
    """The anchors of the headings, as GitHub makes them."""
    found, counts = set(), {}
    for line in without_fences(text).split("\n"):
        if heading := HEADING.match(line):
            title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading[2]).replace("`", "")
            slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            count = counts[slug] = counts.get(slug, -1) + 1
            found.add(slug if count == 0 else f"{slug}-{count}")
    return found


@dataclass(frozen=True)
class Fault:
    line: int
    text: str


def cell_count(row):
    """Cells of a table's row: a `|` behind a backslash does not part cells, one in a code span does."""
    return len(re.findall(r"(?<!\\)\|", row.strip().strip("|").replace("\\\\", "  "))) + 1


def table_faults(text):
    """Rows with more or fewer cells than their header, and rows that belong to no table."""
    lines = without_fences(text).split("\n")
    faults, width = [], None
    for index, line in enumerate(lines):
        row = line.strip()
        if not row.startswith("|"):
            width = None
            continue
        if width is None:
            below = lines[index + 1].strip() if index + 1 < len(lines) else ""
            if not re.fullmatch(r"\|(?: *:?-+:? *\|)+", below):
                faults.append(Fault(index + 1, "a row without a header"))
                continue
            width = cell_count(row)
        if not row.endswith("|"):
            faults.append(Fault(index + 1, "the row does not end with |"))
        elif cell_count(row) != width:
            faults.append(Fault(index + 1, f"{cell_count(row)} cells in a table of {width}"))
    return faults


def repository_paths(text):
    """Pairs of line number and path of everything that looks like a file or folder of the repository."""
    return [(line_of(text, found.start()), found[0].rstrip(".-")) for found in PATH.finditer(text)]


def file_names(text):
    """Pairs of line number and name of every source file that a code span names, with the folders that it has there."""
    return [(line, span) for line, span in code_spans(text) if FILE_NAME.fullmatch(span)]


def table_rows(text):
    """Line number and cells of each row of each table, without the header."""
    found = []
    lines = without_fences(text).split("\n")
    for number, line in enumerate(lines, 1):
        below = lines[number].strip() if number < len(lines) else ""
        row = line.strip()
        if row.startswith("|") and not set(row) <= set("|-: ") and not (below and set(below) <= set("|-: ")):
            found.append((number, [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip("|"))]))
    return found


def code_names(cell):
    """The identifiers that a cell of a table names in code marks: of `A.b(c:)` it is `b`, and also `A`."""
    spans = (span for _, span in code_spans(cell) if not FILE_NAME.fullmatch(span) and not PATH.match(span))
    return [name for span in spans if re.fullmatch(r"[A-Za-z_][\w.]*(?:\(.*)?", span)
            for name in span.partition("(")[0].split(".")]


def type_names(text):
    """Pairs of line number and name of everything in code marks that looks like a type, and of DocC's symbol links."""
    found = [
        (line, name) for line, span in code_spans(text) if not FILE_NAME.fullmatch(span)
        for name in span.split(".") if TYPE.fullmatch(name)
    ]
    plain = without_fences(text)
    for link in SYMBOL_LINK.finditer(plain):
        found += [(line_of(plain, link.start()), name) for name in link[1].split("/")]
    return found


def private_paths(text):
    return [(line_of(text, found.start()), found[0]) for found in PRIVATE_PATH.finditer(text)]
