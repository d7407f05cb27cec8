"""Tables of cases in files by subject."""

import importlib


def rows_of_all(package, subjects, table):
    """Every row of every subject, behind the name of its subject; names are unique within a subject.

    Each file of the package calls its rows `table`.
    """
    rows = []
    for subject in subjects:
        found = getattr(importlib.import_module(f"{package}.{subject}"), table)
        names = [row.name for row in found]
        assert len(names) == len(set(names)), f"duplicate names in {subject}: {sorted(names)}"
        rows += [(subject, row) for row in found]
    return rows
