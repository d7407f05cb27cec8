"""Every § in the code, the tests and the documents is a section that exists, of a document that is not in doubt."""

import importlib
import sys
from pathlib import Path

import pytest

from citations import Document, Shorthand, citations, problems, section_citations, unchecked
from markdown import prose
from repository import PROTOCOL, ROOT, code_files, documents, files, none, read

SPECIFICATIONS = {
    Path(path).stem: Document.parse(read(path)) for path in files(PROTOCOL) if Path(path).stem != "index"
}
SHORTHAND = Shorthand.parse(read(f"{PROTOCOL}/index.md"))


def faults(path, *, is_code):
    text = read(path)
    found = citations(text if is_code else prose(text), SPECIFICATIONS, is_code=is_code)
    wrong = problems(path, found, SHORTHAND.document(path, PROTOCOL), SPECIFICATIONS)
    return wrong + unchecked(path, text)


def test_there_are_specifications_and_a_shorthand():
    assert set(SPECIFICATIONS) == {"realtime", "rest", "rules", "auth"}
    assert {meaning for _, meaning in SHORTHAND.rows} == {*SPECIFICATIONS, None}


@pytest.mark.parametrize("name", SPECIFICATIONS)
def test_section_numbers_rise_and_are_unique(name):
    assert SPECIFICATIONS[name].faults == []
    assert len(SPECIFICATIONS[name].sections) > 10


@pytest.mark.parametrize("folder", sorted({"/".join(path.split("/")[:2]) for path in code_files()}))
def test_code_cites_sections_that_exist(folder):
    paths = [path for path in code_files() if "/".join(path.split("/")[:2]) == folder]
    none([fault for path in paths for fault in faults(path, is_code=True)])


@pytest.mark.parametrize("path", documents())
def test_documents_cite_sections_that_exist(path):
    none(faults(path, is_code=False))


def test_code_cites_the_specifications():
    """The test above must not pass because nothing was found."""
    found = [one for path in code_files() for one in citations(read(path), SPECIFICATIONS)]
    assert len([one for one in found if not one.foreign]) > 400


def tables():
    """Every row of the tables of end-to-end cases: a name for messages, the file whose shorthand holds, the section."""
    sys.path.insert(0, str(ROOT / "Tests/EndToEnd"))
    try:
        cases, rest_cases, examples = map(importlib.import_module, ("cases", "rest_cases", "test_rest_examples"))
        for subject, row in cases.all_cases():
            yield row.name, f"Tests/EndToEnd/cases/{subject}.py", row.section
        for subject, row in rest_cases.all_rows():
            yield row.name, f"Tests/EndToEnd/rest_cases/{subject}.py", row.section
        for row in examples.EXAMPLES:
            yield row.name, "Tests/EndToEnd/test_rest_examples.py", row.section
    finally:
        sys.path.remove(str(ROOT / "Tests/EndToEnd"))


def test_rows_of_end_to_end_tables_cite_sections_that_exist():
    wrong, count = [], 0
    for name, path, section in tables():
        count += 1
        found = section_citations(section, SPECIFICATIONS)
        default = SHORTHAND.document(path, PROTOCOL)
        wrong += [f"{path}: {name!r}: no section in {section!r}"] if not found else []
        wrong += [f"{fault} ({name!r})" for fault in problems(path, found, default, SPECIFICATIONS)]
    none(wrong)
    assert count > 700
