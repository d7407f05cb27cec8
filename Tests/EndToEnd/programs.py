"""Programs that tests need. A test that is skipped because one is missing says so in words that conftest.py knows: where programs are
required, it has failed."""

import re
import shutil

import pytest

MISSING = re.compile(r"Skipped: (.+?) is not (?:installed|built)\b")


def first_missing(names):
    return next((name for name in names if not shutil.which(name)), None)


def needs(*names):
    """A mark that skips a test where one of the programs is missing."""
    missing = first_missing(names)
    return pytest.mark.skipif(missing is not None, reason=f"{missing} is not installed")


def require(*names):
    """Skips the rest of a test where one of the programs is missing."""
    if missing := first_missing(names):
        pytest.skip(f"{missing} is not installed")
