"""Comments of the Swift sources: what they name exists, what a function throws is said, and prose is not too wide."""

from comments import WIDTH, Symbols, symbol_links, throwing_functions, undocumented_errors, wide_lines
from repository import files, none, read

SOURCES = [(path, read(path)) for path in files("Sources") if path.endswith(".swift")]
MODULES = {f"Pando{path.split('/')[1]}" for path, _ in SOURCES}


def test_symbols_that_comments_link_exist():
    symbols = Symbols(SOURCES)
    found = [(f"{path}:{line}", link) for path, text in SOURCES for line, link in symbol_links(text)]
    none([f"{place}: nothing declares {lacking} of ``{link}``"
          for place, link in found if (lacking := symbols.lacks(link, MODULES))])
    assert len(found) > 500


def test_functions_of_other_modules_say_what_they_throw():
    none(undocumented_errors(SOURCES))
    assert sum(len(throwing_functions(text)) for _, text in SOURCES) > 200


def test_comments_are_as_narrow_as_code():
    sources = SOURCES + [(path, read(path)) for path in files("Tests") if path.endswith(".swift")]
    none([f"{path}:{line}: wider than {WIDTH} columns" for path, text in sources for line in wide_lines(text)])
