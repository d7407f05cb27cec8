"""Replays the client's side of recorded traffic of the official JavaScript SDK and compares the server's answers.

The recording does not tell when a connection ended; CLOSES does. What the document leaves to the server is left open
here too: timestamps, session ids, `h`, whether one commit reaches a listener as `m` or as several `d`, and the texts.
"""

import json
import pathlib
import re
import time

import pytest

import tree
from pando_client import DEADLINE, shorten
from transcript import CLOCK_TOLERANCE, overwrites
from transports import TRANSPORTS

RECORDING = pathlib.Path(__file__).parent / "fixtures/js-sdk.txt"
LINE = re.compile(r"(\w+) (->|<-) (.*)")

# connection -> (the beginning of the line before which it ends, a place whose value shows that the end has been dealt
# with, and that value). The last two matter where an onDisconnect queue has to run before the recording goes on.
CLOSES = {
    "6062": ("26bb <-", None, None),
    "66a8": ('ffbb -> {"t":"d","d":{"r":73,', None, None),
    "5f2a": ('9f2e <- {"t":"d","d":{"a":"d","b":{"p":"smoke/mwpqior5ps6t3/od/s"', None, None),
    "171c": ("1044 <-", None, None),
    "439a": ('9f2e -> {"t":"d","d":{"r":72,', "/smoke/mwpqior5ps6t3/oc", {"b": 1}),
}

# A merge with a priority for a place that does not exist: the recorded server let it pass without effect. The document
# says that such a priority must fail on a put (4.5) and that a merge is all-or-nothing (4.6), so refusing is as good;
# then the later get of that place sees the older data.
OPEN_MERGE = ("ffbb", 75)
OPEN_GET = ("9f2e", 68)
OPEN_GET_REFUSED = {"a": 1}


# The recording shows only the beginning of one very long value. It is filled up here: a value of many chunks.
CUT_SHORT = re.compile(r'(.*"d":\{"b":")x-0-.*')
LONG_VALUE = ",".join(f"x-{index}-éß\u2028漢🐵" for index in range(5000))


def whole(text):
    """The message of a line; a line that was cut short gets the long value and the closing braces."""
    found = CUT_SHORT.fullmatch(text)
    return json.loads(f'{found[1]}{LONG_VALUE}"}}}}}}}}' if found else text)


def flattened(message):
    """One recorded or received data message as comparable rows."""
    body = message["d"]
    if "r" in body:
        return [("response", body["r"], body["b"]["s"], body["b"]["d"] if body["b"]["s"] == "ok" else None)]
    tag, entries = overwrites(body["a"], body["b"])
    return [("push", tag, path, value) for path, value in entries.items()]


def same(recorded, got):
    """Equality, with any two timestamps of their own time equal."""
    if isinstance(recorded, dict) and isinstance(got, dict):
        return recorded.keys() == got.keys() and all(same(recorded[key], got[key]) for key in recorded)
    if type(recorded) is int and type(got) is int and 1795224841000 < recorded < 1795224899000:
        return abs(got - time.time() * 1000) < CLOCK_TOLERANCE
    return tree.same_json(recorded, got)


class Replay:
    def __init__(self, world):
        self.world = world
        self.connections = {}
        self.rows = {}  # connection -> rows received and not yet matched
        self.ended = set()
        self.merge_refused = False

    def run(self, lines):
        for number, line in enumerate(lines, 1):
            found = LINE.fullmatch(line)
            if line.startswith("#") or not found:
                continue
            for name, (start, place, value) in CLOSES.items():
                if name not in self.ended and line.startswith(start):
                    self.end(name, place, value)
            name, direction, text = found.groups()
            message = whole(text)
            if direction == "->":
                self.connections[name].send(message)
            elif message["t"] == "c":
                self.connections[name] = self.world.connect()
                self.rows[name] = []
            else:
                self.match(name, message, f"line {number}: {shorten(line, 300)}")
        for name, rows in self.rows.items():
            assert not rows, f"{name} got more than the recording: {shorten(rows)}"

    def end(self, name, place, value):
        self.ended.add(name)
        self.connections[name].close()
        if place is None:
            return
        deadline = time.monotonic() + DEADLINE
        observer = self.world.connect()
        while observer.get(place) != value:
            assert time.monotonic() < deadline, f"{place} never became {value}"
            time.sleep(0.005)

    def match(self, name, message, where):
        for recorded in flattened(message):
            if not self.rows[name]:
                self.rows[name] += flattened(self.connections[name].receive())
            rows = self.rows[name]
            if recorded[:2] == ("response", OPEN_MERGE[1]) and name == OPEN_MERGE[0]:
                self.merge_refused = rows.pop(0)[2] != "ok"
                continue
            if recorded[:2] == ("response", OPEN_GET[1]) and name == OPEN_GET[0] and self.merge_refused:
                recorded = (*recorded[:3], OPEN_GET_REFUSED)
            # The entries of one commit may come in any order; a response is always in its place.
            found = next((row for row in rows if same_row(recorded, row)), None)
            assert found is not None, f"{where}\nrecorded {shorten(str(recorded))}\n     got {shorten(str(rows))}"
            rows.remove(found)


def same_row(recorded, row):
    return recorded[:3] == row[:3] and same(recorded[3], row[3])


@pytest.mark.parametrize("transport", [*TRANSPORTS, "lossy lp"])
def test_recorded_traffic_of_the_javascript_sdk_gets_the_recorded_answers(world):
    Replay(world).run(RECORDING.read_text().split("\n"))
