"""Writers, watchers and their books: what a server that died under load must still have when it comes back.

A `Workload` goes on over many rounds on one data directory: `begin`, then the server dies, then `end`, and `check`
against the server that was started again. The check knows nothing of why the server died.
"""

import math
import threading
import time
from collections import deque

from websockets.exceptions import WebSocketException

from pando_client import DEADLINE, Closed, Connection

ENDINGS = (Closed, ConnectionError, EOFError, WebSocketException, TimeoutError)


class Tally:
    """What one kind of write of one writer has promised: what was found at the last check, what was sent since, and
    when which number was acknowledged.
    """

    def __init__(self):
        self.settle(0)

    def settle(self, found):
        """This is on the disk, and the next number counts on from it: nothing older can come back."""
        self.found = self.sent = found
        self.acknowledged = deque()  # (when, number), both rising

    def acknowledge(self, number):
        self.acknowledged.append((time.monotonic(), number))

    def promised(self, until=math.inf):
        """The last number that was acknowledged by that time."""
        return max((number for when, number in self.acknowledged if when <= until), default=self.found)


class Acknowledgements:
    """Counts acknowledgements of all writers and wakes the threads that wait for a number of them."""

    def __init__(self):
        self.count, self.ended, self.changed = 0, 0, threading.Condition()

    def put(self, one):
        with self.changed:
            if one is None:
                self.ended += 1
            else:
                self.count += 1
            self.changed.notify_all()

    def wait_for(self, count):
        with self.changed:
            enough = self.changed.wait_for(lambda: self.count >= count or self.ended, DEADLINE)
            assert enough, f"only {self.count} of {count} acknowledgements within {DEADLINE} s"


class Visitor(threading.Thread):
    """A thread with a connection that lives until the server dies."""

    def __init__(self, port, transport):
        super().__init__(daemon=True)
        self.port, self.transport, self.failure = port, transport, None

    def run(self):
        try:
            self.visit(Connection(self.port, "default", **self.transport))
        except ENDINGS:
            pass  # the server has died, perhaps while this one was connecting
        except Exception as error:  # noqa: BLE001 (shown by the main thread)
            self.failure = error

    def end(self):
        self.join(DEADLINE)
        assert not self.is_alive(), "a client hangs"
        assert self.failure is None, repr(self.failure)


class Writer(Visitor):
    """One round of a writer: by turns a put with a rising counter, a merge that sets two places to one value, and an
    increment. Before that, two onDisconnect writes: a value, and an increment.
    """

    def __init__(self, port, transport, books, acknowledgements, round_number, in_flight):
        super().__init__(port, transport)
        self.books, self.acknowledgements = books, acknowledgements
        self.round_number, self.in_flight = round_number, in_flight
        self.registered = False

    def run(self):
        try:
            super().run()
        finally:
            self.acknowledgements.put(None)

    def visit(self, connection):
        books = self.books
        connection.must("o", {"p": f"/gone/{books.name}", "d": self.round_number})
        self.registered = True
        books.ends.sent += 1
        connection.must("o", {"p": f"/ends/{books.name}", "d": {".sv": {"increment": 1}}})
        books.ends.acknowledge(books.ends.sent)
        self.waiting = deque()
        try:
            for turn in range(10**9):
                tally, action, body = books.next_write(turn)
                self.waiting.append((connection.request(action, body), tally, tally.sent))
                if len(self.waiting) >= self.in_flight:
                    self.take_answer(connection)
        finally:
            while self.waiting:  # what arrived before the end counts as well
                self.take_answer(connection)

    def take_answer(self, connection):
        r, tally, number = self.waiting.popleft()
        answer = connection.response(r)
        assert answer["s"] == "ok", answer
        tally.acknowledge(number)
        self.acknowledgements.put(1)


class Books:
    """What one writer has sent and been promised, over all rounds."""

    def __init__(self, index, padding):
        self.name, self.padding = f"w{index}", padding
        self.counter, self.pair, self.increments, self.ends = Tally(), Tally(), Tally(), Tally()
        self.lost_count = 0  # acknowledged, but not for good, and gone
        self.lost_since = math.inf  # when the first of those was acknowledged that the last check missed

    def next_write(self, turn):
        tally = (self.counter, self.pair, self.increments)[turn % 3]
        tally.sent += 1
        if tally is self.counter:
            return tally, "p", {"p": f"/counter/{self.name}", "d": tally.sent}
        if tally is self.pair:
            merge = {f"left/{self.name}": tally.sent, f"right/deep/er/{self.name}": tally.sent}
            if self.padding:  # makes the journal grow, and what a checkpoint holds
                merge[f"padding/{self.name}/{tally.sent % 40}"] = "x" * self.padding
            return tally, "m", {"p": "/", "d": merge}
        return tally, "p", {"p": f"/sum/{self.name}", "d": {".sv": {"increment": 1}}}

    def check(self, found, until, where):
        """`found` answers the number at a path. Whole entries, in order, at least to what was promised by `until`."""
        self.lost_since = math.inf
        left, right = found("left", self.name), found("right", "deep", "er", self.name)
        assert left == right, f"{where}: half a merge: {left} and {right}"
        for value, tally, what in (
            (found("counter", self.name), self.counter, "counter"),
            (left, self.pair, "merge"),
            (found("sum", self.name), self.increments, "increment"),
            (found("ends", self.name), self.ends, "onDisconnect increment"),
        ):
            promised = tally.promised(until)
            bounds = f"{promised} promised, {tally.sent} sent"
            assert promised <= value <= tally.sent, f"{where}: {what} is {value}, {bounds}"
            lost = [when for when, number in tally.acknowledged if number > value]
            self.lost_count += len(lost)
            self.lost_since = min([self.lost_since, *lost[:1]])
            tally.gained = value - tally.found
            tally.settle(value)
        turns = self.counter.gained, self.pair.gained, self.increments.gained
        in_order = turns[0] >= turns[1] >= turns[2] >= turns[0] - 1
        assert in_order, f"{where}: a write is there, and one before it is not: {turns}"


def numbers(value, path=()):
    """All numbers of a tree, with their paths."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from numbers(child, (*path, *key.strip("/").split("/")))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield tuple(part for part in path if part), value


class Listener(Visitor):
    """Listens to all counters and keeps the highest number it was shown of each."""

    PLACES = ("counter", "left", "right/deep/er", "sum", "ends")

    def __init__(self, port, transport):
        super().__init__(port, transport)
        self.seen, self.shown_count = {}, 0

    def see(self, place, value):
        for path, number in numbers(value, tuple(place.split("/"))):
            self.shown_count += 1
            self.seen[path] = max(number, self.seen.get(path, number))

    def visit(self, connection):
        for place in self.PLACES:
            connection.must("q", {"p": f"/{place}", "h": ""})
        while True:
            for _, body in connection.taken_pushes():
                self.see(body["p"], body["d"])
            kind, _, body = connection.next_data()
            assert kind == "push", body
            self.see(body["p"], body["d"])


class Reader(Listener):
    """Asks for all counters again and again."""

    def visit(self, connection):
        while True:
            for place in self.PLACES:
                self.see(place, connection.get(f"/{place}"))


class Workload:
    """Writers, a listener and a reader, round after round on one data directory.

    `transport` answers what the next connection travels over, as options of `Connection`.
    """

    def __init__(self, writers=8, in_flight=12, padding=0, transport=dict):
        self.transport = transport
        self.books = [Books(index, padding) for index in range(writers)]
        self.in_flight = in_flight
        self.round_number = self.acknowledged_count = self.shown_count = 0
        self.writers, self.watchers = [], []

    @property
    def lost_count(self):
        return sum(books.lost_count for books in self.books)

    @property
    def lost_since(self):
        """When the first write was acknowledged that was gone at the last check; infinity if none was."""
        return min(books.lost_since for books in self.books)

    def begin(self, port):
        """A new round against a server that has just been started."""
        self.round_number += 1
        self.acknowledgements = Acknowledgements()
        self.watchers = [Listener(port, self.transport()), Reader(port, self.transport())]
        self.writers = [
            Writer(port, self.transport(), books, self.acknowledgements, self.round_number, self.in_flight)
            for books in self.books
        ]
        for visitor in (*self.watchers, *self.writers):
            visitor.start()

    def end(self):
        """The server is dead: waits until every client has noticed."""
        for visitor in (*self.writers, *self.watchers):
            visitor.end()
        self.acknowledged_count += self.acknowledgements.count
        self.shown_count += sum(watcher.shown_count for watcher in self.watchers)

    def check(self, port, until=math.inf, sees_only_durable=True):
        """Holds what is there now against what was promised: whatever was acknowledged by `until`, a time, must be
        there; with `sees_only_durable`, also whatever a client was shown.
        """
        with Connection(port, "default") as connection:
            data = connection.get("/") or {}

        def found(*path):
            node = data
            for key in path:
                node = node.get(key, {})
            return node or 0

        for books in self.books:
            books.check(found, until, f"round {self.round_number}, {books.name}")
        if until == math.inf:
            for writer in self.writers:
                gone = found("gone", writer.books.name)
                where = f"round {self.round_number}, {writer.books.name}"
                assert not writer.registered or gone == self.round_number, f"{where}: its onDisconnect did not run"
        if sees_only_durable:
            for watcher in self.watchers:
                for path, number in watcher.seen.items():
                    what = f"round {self.round_number}: /{'/'.join(path)} was seen at {number}"
                    assert found(*path) >= number, f"{what}, and is {found(*path)}"
        self.writers, self.watchers = [], []
