"""SIGKILL under load, again and again on one data directory: nothing acknowledged is lost, nothing is half there.

`PANDO_KILL_ROUNDS` sets the number of rounds (20), `PANDO_KILL_SEED` the seed. Each round is killed after a seeded
number of acknowledgements, not after a time, and everything else has a deadline.
"""

import os
import random
import threading
from collections import deque

import pytest
from websockets.exceptions import WebSocketException

from pando_client import DEADLINE, Closed, Connection

ROUNDS = int(os.environ.get("PANDO_KILL_ROUNDS", "20"))
SEED = int(os.environ.get("PANDO_KILL_SEED", "1"))
WRITERS = 8
IN_FLIGHT = 12  # requests of one writer that may be unanswered


class Tally:
    """What one kind of write has promised so far: the last number acknowledged, the last number sent."""

    def __init__(self):
        self.acknowledged = self.sent = 0


class Writer(threading.Thread):
    """Puts with rising counters, merges that set two places to one value, increments; round after round."""

    def __init__(self, index, acknowledgements):
        super().__init__(daemon=True)
        self.index, self.acknowledgements = index, acknowledgements
        self.counter, self.pair, self.increments = Tally(), Tally(), Tally()
        self.registered = False
        self.failure = None

    def attach(self, port, round_number):
        """A thread runs once: the next round gets a new one that goes on counting."""
        fresh = Writer(self.index, self.acknowledgements)
        fresh.counter, fresh.pair, fresh.increments = self.counter, self.pair, self.increments
        fresh.port, fresh.round_number = port, round_number
        return fresh

    def run(self):
        try:
            connection = Connection(self.port, "default")
            connection.must("o", {"p": f"/gone/w{self.index}", "d": self.round_number})
            self.registered = True
            self.write(connection)
        except (Closed, ConnectionError, EOFError, WebSocketException):
            pass  # the server has been killed, perhaps while this one was connecting
        except Exception as error:  # noqa: BLE001 (shown by the main thread)
            self.failure = error
        finally:
            self.acknowledgements.put(None)

    def write(self, connection):
        waiting = deque()
        for turn in range(10**9):
            tally, action, body = self.next_write(turn)
            waiting.append((connection.request(action, body), tally, tally.sent))
            if len(waiting) >= IN_FLIGHT:
                r, tally, number = waiting.popleft()
                answer = connection.response(r)
                assert answer["s"] == "ok", answer
                tally.acknowledged = number
                self.acknowledgements.put(1)

    def next_write(self, turn):
        name = f"w{self.index}"
        tally = (self.counter, self.pair, self.increments)[turn % 3]
        tally.sent += 1
        if tally is self.counter:
            return tally, "p", {"p": f"/counter/{name}", "d": tally.sent}
        if tally is self.pair:
            return tally, "m", {"p": "/", "d": {f"left/{name}": tally.sent, f"right/deep/er/{name}": tally.sent}}
        return tally, "p", {"p": f"/sum/{name}", "d": {".sv": {"increment": 1}}}


class Acknowledgements:
    """Counts acknowledgements of all writers and wakes whoever waits for a number of them."""

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


@pytest.mark.timeout(90)
def test_nothing_acknowledged_is_lost_over_many_kills(servers):
    dice = random.Random(SEED)
    server = servers()
    writers = [Writer(index, None) for index in range(WRITERS)]

    for round_number in range(1, ROUNDS + 1):
        acknowledgements = Acknowledgements()
        for writer in writers:
            writer.acknowledgements = acknowledgements
        writers = [writer.attach(server.port, round_number) for writer in writers]
        for writer in writers:
            writer.start()
        acknowledgements.wait_for(dice.randint(20, 600))
        server.kill()
        for writer in writers:
            writer.join(DEADLINE)
            assert not writer.is_alive(), "a writer hangs"
            assert writer.failure is None, repr(writer.failure)

        server.start()
        with Connection(server.port, "default") as reader:
            data = reader.get("/") or {}
        for writer in writers:
            name, where = f"w{writer.index}", f"round {round_number}, writer {writer.index}"

            def value(*path):
                node = data
                for key in path:
                    node = node.get(key, {})
                return node or 0

            left, right = value("left", name), value("right", "deep", "er", name)
            assert left == right, f"{where}: half a merge: {left} and {right}"
            for found, tally, what in (
                (value("counter", name), writer.counter, "counter"),
                (left, writer.pair, "merge"),
                (value("sum", name), writer.increments, "increment"),
            ):
                bounds = f"{tally.acknowledged} acknowledged, {tally.sent} sent"
                assert tally.acknowledged <= found <= tally.sent, f"{where}: {what} is {found}, {bounds}"
            # A lost increment would be made up for by later ones; start the next round from what is there.
            writer.increments.acknowledged = writer.increments.sent = value("sum", name)
            if writer.registered:
                assert value("gone", name) == round_number, f"{where}: its onDisconnect did not run"
