"""The table of protocol cases, in files by subject."""

import importlib

SUBJECTS = (
    "connection listens writes transactions queries windows data_model limits server_values merges "
    "on_disconnect range_merges framing malformed namespaces locked hashes"
).split()


def all_cases():
    """Every row of every subject; names are unique within a subject."""
    rows = []
    for subject in SUBJECTS:
        cases = importlib.import_module(f"cases.{subject}").CASES
        names = [row.name for row in cases]
        assert len(names) == len(set(names)), f"duplicate names in {subject}: {sorted(names)}"
        rows += [(subject, row) for row in cases]
    return rows
