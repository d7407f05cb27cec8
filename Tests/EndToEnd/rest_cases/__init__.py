"""The table of REST cases, in files by subject."""

from subjects import rows_of_all

SUBJECTS = (
    "requests methods answers parameters queries values conditional refusals settings connections bodies"
).split()


def all_rows():
    return rows_of_all(__name__, SUBJECTS, "ROWS")
