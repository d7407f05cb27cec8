"""The checkers find planted errors, and nothing else: small texts, each with what must be found in it."""

import pytest

import markdown
from citations import Document, Shorthand, citations, problems, section_citations, unchecked
from comments import WIDTH, Symbols, symbol_links, throwing_functions, undocumented_errors, wide_lines
from repository import exists
from test_documents import target_fault

SPECIFICATION = """
# Title 9.9

## 1. First

### 1.2 Below the first

| # | Case |
|---|---|
| 7 | seven |

1. one
2. two

```
## 1.3 in a block of code
```

### 1.10 After the ninth

## 2. Second
"""
DOCUMENTS = {"realtime": Document.parse(SPECIFICATION), "rest": Document.parse("## 8. Streams\n### 8.1 Frames\n")}


def found_in(text, *, is_code=True):
    return [str(citation) for citation in citations(text, DOCUMENTS, is_code=is_code)]


def faults_in(text, default="realtime"):
    return [fault.split(": ", 2)[2] for fault in problems("f", citations(text, DOCUMENTS), default, DOCUMENTS)]


# Headings


def test_headings_are_read_with_their_rows_and_items():
    assert DOCUMENTS["realtime"].sections == {"1": set(), "1.2": {1, 2, 7}, "1.10": set(), "2": set()}
    assert DOCUMENTS["realtime"].faults == []


@pytest.mark.parametrize("text, fault", [
    ("## 1. A\n## 1. B\n", "§1 is there twice"),
    ("## 2. A\n## 1. B\n", "§1 comes behind §2"),
    ("## 1. A\n### 1.10 B\n### 1.9 C\n", "§1.9 comes behind §1.10"),
])
def test_headings_out_of_order_are_found(text, fault):
    assert fault in Document.parse(text).faults


# Citations


@pytest.mark.parametrize("text, expected", [
    ("// what it is (§1.2)", ["§1.2"]),
    ("// rest §8.1: two lines", ["rest §8.1"]),
    ("// rest §8, §8.1", ["rest §8", "rest §8.1"]),
    ("// rest §8; §8.1 and §8.2", ["rest §8", "rest §8.1", "rest §8.2"]),
    ("// rest §8. §1.2 is another document's", ["rest §8", "§1.2"]),
    ("// rest §8, realtime §1", ["rest §8", "realtime §1"]),
    ("// of §1.2–1.4", ["§1.2", "§1.4"]),
    ("// §1.2 #7, #8", ["§1.2 #7 #8"]),
    ("/// at the end (rest\n    /// §8.1)", ["rest §8.1"]),
    ("# in Python, rest\n# §8.1", ["rest §8.1"]),
    ("// RFC 9112 §5, §7.1", ["RFC 9112 §5", "RFC 9112 §7.1"]),
    ("// RFC 9112 §5) and then (§1.2)", ["RFC 9112 §5", "§1.2"]),
    ("// nothing", []),
])
def test_citations_are_read(text, expected):
    assert found_in(text) == expected


@pytest.mark.parametrize("text, fault", [
    ("// (§1.2)", None),
    ("// (§1.10)", None),
    ("// (§1.2 #7)", None),
    ("// rest §8.1", None),
    ("// RFC 9112 §99", None),
    ("// (§1.3)", "realtime has no section 1.3"),
    ("// (§9.9)", "realtime has no section 9.9"),
    ("// (§8.1)", "realtime has no section 8.1"),
    ("// rest §1.2", "rest has no section 1.2"),
    ("// rest §8, §1.2", "rest has no section 1.2"),
    ("// §1.2–1.4", "realtime has no section 1.4"),
    ("// §1.2 #8", "realtime §1.2 has no row or item 8"),
    ("// old.md §1.2", "there is no document old.md"),
    ("// old-protocol §1.2", "there is no document old-protocol"),
])
def test_wrong_citations_are_found(text, fault):
    assert faults_in(text) == ([fault] if fault else [])


def test_a_bare_citation_needs_a_default():
    assert faults_in("// (§1.2)", default=None) == ["name the document"]
    assert faults_in("// (RFC 6455 §1.2)", default=None) == []


@pytest.mark.parametrize("text, expected", [
    ("7.3", ["§7.3"]),
    ("17.2 #19", ["§17.2 #19"]),
    ("rest 2.4", ["rest §2.4"]),
    ("7.2, 7.3", ["§7.2", "§7.3"]),
    ("RFC 9112 9.6", ["RFC 9112 §"]),
    ("RFC 9112", ["RFC 9112 §"]),
    ("0.1 rule 1", []),
    ("design", []),
])
def test_arguments_of_rows_are_citations(text, expected):
    assert [str(citation) for citation in section_citations(text, DOCUMENTS)] == expected


@pytest.mark.parametrize("text", ["# see section 7.3", "Sections 4 and 5", "as wire-protocol says", "(design: step 4)"])
def test_citations_in_words_are_found(text):
    assert len(unchecked("f", text)) == 1


def test_section_in_words_without_a_number_is_no_citation():
    assert unchecked("f", "the section it comes from; a trailer section") == []


# The shorthand


SHORTHAND = Shorthand.parse("""
| Written | Means |
|---|---|
| `rest §1` | not a row of the table |

| Files | A bare `§` means |
|---|---|
| `Sources/*`, `Tests/*` | [realtime](realtime.md) |
| `Sources/REST/*`, `Tests/EndToEnd/rest_*` | [rest](rest.md) |
| `Sources/HTTP/*` | nothing: the document is named |

| Another | table |
|---|---|
| `Sources/Tree/*` | [rest](rest.md) |
""")


@pytest.mark.parametrize("path, document", [
    ("Sources/Tree/Key.swift", "realtime"),
    ("Sources/REST/RESTBody.swift", "rest"),
    ("Sources/HTTP/Grammar.swift", None),
    ("Tests/EndToEnd/rest_cases/values.py", "rest"),
    ("Tests/EndToEnd/cases/writes.py", "realtime"),
    ("README.md", None),
    ("docs/rest.md", "rest"),
    ("docs/index.md", None),
])
def test_the_longest_pattern_says_what_a_bare_citation_means(path, document):
    assert SHORTHAND.document(path, "docs") == document


# Markdown


@pytest.mark.parametrize("text, expected", [
    ("[a](b.md)", ["b.md"]),
    ("[a](b.md#c) and ![d](e.svg)", ["b.md#c", "e.svg"]),
    ("[`a`](b.md \"title\")", ["b.md"]),
    ("[a]: b.md", ["b.md"]),
    ("`[a](b.md)`", []),
    ("```\n[a](b.md)\n```", []),
])
def test_links_are_read(text, expected):
    assert [target for _, target in markdown.links(text)] == expected


@pytest.mark.parametrize("target, fault", [
    ("https://example.org/none", None),
    ("../../../README.md", None),
    ("rest.md", None),
    ("realtime.md#73-order", None),
    ("", None),
    ("realtime.md#74-order", "leads to no heading"),
    ("#nowhere", "leads to no heading"),
    ("none.md", "leads to no file"),
    ("../../../../outside.md", "leads to no file"),
    ("/README.md", "is absolute: it leads nowhere in a checkout"),
])
def test_link_targets_are_judged(target, fault):
    assert target_fault("public/docs/protocol/index.md", target) == fault


def test_anchors_are_those_of_github():
    text = "# A b, `c`!\n## 7.3 Order\n### 4.2 `q` — listen\n# Same\n# Same\n```\n# no heading\n```\n## [Link](x.md) in it\n"
    assert markdown.anchors(text) == {"a-b-c", "73-order", "42-q--listen", "same", "same-1", "link-in-it"}


@pytest.mark.parametrize("text, faults", [
    ("| a | b |\n|---|---|\n| 1 | 2 |", []),
    ("| a | b |\n|---|:-:|\n| 1 \\| 2 | 3 |", []),
    ("```\n| no | table |\n```", []),
    ("| a | b |\n|---|---|\n| 1 |", ["1 cells in a table of 2"]),
    ("| a | b |\n|---|---|\n| 1 | 2 | 3 |", ["3 cells in a table of 2"]),
    ("| a | b |\n|---|---|\n| `x | y` | 2 |", ["3 cells in a table of 2"]),
    ("| a | b |\n|---|---|\n| 1 | 2", ["the row does not end with |"]),
    ("| a | b |\n|---|\n| 1 | 2 |", ["1 cells in a table of 2"]),
    ("| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |", ["a row without a header"]),
])
def test_broken_tables_are_found(text, faults):
    assert [fault.text for fault in markdown.table_faults(text)] == faults


@pytest.mark.parametrize("text, expected", [
    ("see `Sources/Tree/Key.swift`.", ["Sources/Tree/Key.swift"]),
    ("under Sources/Tree, and deploy/test.", ["Sources/Tree", "deploy/test"]),
    ("`Tests/EndToEnd/test_*.py`", ["Tests/EndToEnd/test_*.py"]),
    ("../Sources/Tree and MySources/Tree", []),
])
def test_paths_are_read(text, expected):
    assert [path for _, path in markdown.repository_paths(text)] == expected


@pytest.mark.parametrize("path, there", [
    ("Sources/Tree/Key.swift", True), ("Sources/Tree/", True), ("Sources/X/X.docc/X.md", True), ("Tests/*/test_cli.py", True),
    ("Sources/Tree/NoSuchFile.swift", False), ("Sources/NoSuchModule", False), ("Tests/*/test_nothing.py", False),
])
def test_missing_paths_are_found(path, there):
    assert exists(path) is there


@pytest.mark.parametrize("text, expected", [
    ("`RequestHead` and ``KeySet/init(_:)``", ["RequestHead", "KeySet", "init"]),
    ("`Engine.decide`", []),
    ("`HashCache.swift`", []),
    ("a RequestHead in prose, `lowerCamel`, `JSON`, `X-Firebase-ETag`", []),
])
def test_names_of_types_are_read(text, expected):
    assert [name for _, name in markdown.type_names(text)] == expected


def test_names_of_files_are_read():
    assert markdown.file_names("`Tree/Key+Text.swift`, `test_cli.py`, `pando.json`") == [
        (1, "Tree/Key+Text.swift"), (1, "test_cli.py")]


def test_rows_of_tables_are_read():
    text = "| Q | File |\n|---|---|\n| a \\| b | `c` |\n\ntext | no row\n```\n| no | row |\n```\n"
    assert markdown.table_rows(text) == [(3, ["a \\| b", "`c`"])]


@pytest.mark.parametrize("cell, expected", [
    ("`Gate.hold` and `release`; `init(of:)`", ["Gate", "hold", "release", "init"]),
    ("`refusal(of:`, at the top", ["refusal"]),
    ("`Sources/Tree/Key.swift`, `Key.swift`, `--durability`, Key", []),
])
def test_names_of_code_in_cells_are_read(cell, expected):
    assert markdown.code_names(cell) == expected


@pytest.mark.parametrize("text, expected", [
    ("in /Users/ann/tree", ["/Users/ann/tree"]),
    ("`~/.cache`, /home/ann/x", ["~/.cache", "/home/ann/x"]),
    ("../../../../notes", ["../../../../notes"]),
    ("`/etc/pando/secret`, example.org/home/, ../../Sources/Tree", []),
])
def test_private_paths_are_found(text, expected):
    assert [path for _, path in markdown.private_paths(text)] == expected


def test_faults_carry_their_line():
    text = "one\n```\ncode\n```\n`Sources/NoSuch`\n| row |\n"
    assert markdown.repository_paths(text) == [(5, "Sources/NoSuch")]
    assert markdown.table_faults(text) == [markdown.Fault(6, "a row without a header")]
    assert [citation.line for citation in citations("a\n// b (rest\n// §8.1)\n", DOCUMENTS)] == [3]


# Comments


SWIFT = """
package struct Queue {
    private let (head, tail) = (0, 0)
    enum State { case empty, full(count: Int) }
    func push(_ element: Int) {}
}
extension Queue.State { var isEmpty: Bool { true } }
"""


@pytest.mark.parametrize("link, lacking", [
    ("Queue", None), ("Queue/push(_:)", None), ("Queue/State/full(count:)", None), ("Queue/State/isEmpty", None),
    ("tail", None), ("push(_:)", None), ("Queue/init(of:)", None), ("PandoQueue/Queue", None),
    ("Stack", "Stack"), ("Queue/pop()", "pop"), ("Queue/State/half", "half"), ("PandoStack/Queue", "PandoStack"),
])
def test_links_to_nothing_are_found(link, lacking):
    assert Symbols([("Queue.swift", SWIFT)]).lacks(link, {"PandoQueue"}) == lacking


def test_members_are_those_of_their_type():
    files = [("A.swift", "struct A { var one = 1 }"), ("B.swift", "struct B { var two = 2 }")]
    assert Symbols(files).lacks("A/one") is None
    assert Symbols(files).lacks("A/two") == "two"


def test_links_in_comments_are_read():
    text = "/// As ``A/b(_:)``, not `c`.\nlet text = \"``d``\"\nlet x = 1  // ``e``\n"
    assert symbol_links(text) == [(1, "A/b(_:)"), (3, "e")]


@pytest.mark.parametrize("text, names", [
    ("/// - Throws: ``E``.\npackage func f() throws(E) {}", []),
    ("/// What it does.\npackage func f() throws(E) {}", ["f"]),
    ("package init(\n    a: Int\n) throws {\n}", ["init"]),
    ("/// What it does.\nfunc internal() throws {}", []),
    ("/// Calls it.\npackage func f(_ body: () throws -> Void) {}", []),
    ("/// Calls it.\npackage func f(_ body: () throws(E) -> Void) throws(E) {}", ["f"]),
    ("package protocol P {\n    /// - Throws: ``E``.\n    func f() throws(E)\n}\nstruct S: P {\n    package func f() throws(E) {}\n}", []),
    ("package protocol P {\n    /// What it does.\n    func f() throws(E)\n    func g()\n}", ["f"]),
    ("package extension S {\n    /// What it does.\n    func f() throws {}\n}", ["f"]),
])
def test_errors_without_a_comment_are_found(text, names):
    assert [fault.split(": ")[1].split(" ")[0] for fault in undocumented_errors([("F.swift", text)])] == names


def test_functions_that_throw_carry_their_line():
    assert throwing_functions("\n/// It.\n@discardableResult\npackage func f() throws -> Int {") == [
        (4, "f", "/// It.", False)]


@pytest.mark.parametrize("line, is_found", [
    ("/// " + "word " * 20 + "words2", False),  # 110 columns
    ("/// " + "word " * 20 + "words33", True),
    ("    // " + "word " * 25, True),
    ("//  `field` " + "word " * 25, True),
    ("///     let code = " + "word " * 25, False),
    ("///  a ──▶ " + "word " * 25, False),
    ("///  A   1 " + "word " * 25, False),
    ('let text = "' + "word " * 25 + '"', False),
])
def test_wide_comments_are_found(line, is_found):
    assert len("/// " + "word " * 20 + "words2") == WIDTH
    assert wide_lines("\n" + line) == ([2] if is_found else [])
