"""What queries and windows cost, counted and not timed: the references that `pando-bench` counts while it finds ten of
many children, and while it writes below many windows. Each node that is visited counts some."""

import os
import pathlib
import re
import subprocess

import pytest

import server as server_module
from server import clean_environment

BINARY = pathlib.Path(
    os.environ.get("PANDO_BENCH_BINARY", server_module.BINARY.parent / "pando-bench")
).resolve()

pytestmark = pytest.mark.skipif(not BINARY.exists(), reason=f"no benchmarks at {BINARY}: --product pando-bench")

ORDERS = ["key", "priority", "value", "number", "text"]


def retains(subject):
    """By benchmark: how often a call counts a reference up."""
    done = subprocess.run(
        [BINARY, "micro", subject, "--rounds", "1000"],
        capture_output=True, text=True, env=clean_environment(), check=True)
    rows = re.findall(r"^(\S.*?) {2,}([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", done.stdout, re.MULTILINE)
    assert rows, done.stdout
    return {name: float(retains) for name, _, _, retains, _ in rows}


def test_ten_of_many_children():
    """A hundred times as many children are no more than a few more pages."""
    counts = retains("indexes")
    for order in ORDERS:
        few, many = counts[f"get 10 of 1000 by {order}"], counts[f"get 10 of 100000 by {order}"]
        assert many <= 1.5 * few + 50, f"{order}: {few} of 1000, {many} of 100000"


def test_write_below_many_windows():
    """A window that a write does not touch costs next to nothing, nor do further listeners to the same one."""
    counts = retains("windows")
    one = counts["set 1 of 10000, 1 listen to one top ten"]
    assert counts["set 1 of 10000, 2000 listen to one top ten"] <= 1.1 * one
    # Of 2000 different tens a write touches some four, of the equal values hardly any. To ask each of them would count
    # at least four references for each.
    for kind, further in [("different tens", 4000), ("equal values", 1000)]:
        few, many = (counts[f"set 1 of 10000, {count} listen to {kind}"] for count in (100, 2000))
        assert many <= few + further, f"{kind}: {few} below 100 windows, {many} below 2000"
    assert counts["remove the first of 10000 from a top ten"] <= 1000, "the next one is drawn from the index"
