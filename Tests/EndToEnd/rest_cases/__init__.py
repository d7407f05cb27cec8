"""The table of REST cases, in files by subject."""

import importlib

SUBJECTS = (
    "requests methods answers parameters queries values conditional refusals settings connections bodies"
).split()


def all_rows():
    """Every row of every subject; names are unique within a subject."""
    rows = []
    for subject in SUBJECTS:
        found = importlib.import_module(f"rest_cases.{subject}").ROWS
        names = [one.name for one in found]
        assert len(names) == len(set(names)), f"duplicate names in {subject}: {sorted(names)}"
        rows += [(subject, one) for one in found]
    return rows
