"""The table of protocol cases, in files by subject."""

from subjects import rows_of_all

SUBJECTS = (
    "connection listens writes transactions queries windows data_model limits server_values merges "
    "on_disconnect range_merges framing malformed namespaces locked hashes"
).split()


def all_cases():
    return rows_of_all(__name__, SUBJECTS, "CASES")
