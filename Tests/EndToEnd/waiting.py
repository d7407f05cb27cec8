"""Waits for what a server does by itself, and for the clock."""

import datetime
import time

from pando_client import DEADLINE


def wait_for(condition, what="such state"):
    """Waits until the condition holds."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"within {DEADLINE} s there was no {what}"
        time.sleep(0.02)


def milliseconds():
    """Of the wall clock, since 1970."""
    return time.time_ns() // 1_000_000


def moment_between(write_early, write_late):
    """Writes twice; answers a time that is not before the first record and before the second, as `--until-time` takes it."""
    write_early()
    moment = milliseconds()
    # Times of records are in milliseconds.
    wait_for(lambda: milliseconds() > moment, "next millisecond")
    write_late()
    whole = datetime.datetime.fromtimestamp(moment // 1000, datetime.UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{moment % 1000:03}Z"
