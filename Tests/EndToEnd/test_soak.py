"""Mixed traffic for as long as you like: no event lost, none twice, and memory that stays where it was.

    PANDO_SOAK_SECONDS=600 .build-e2e/venv/bin/python -m pytest -c Tests/EndToEnd/pytest.ini \
        --rootdir Tests/EndToEnd Tests/EndToEnd/test_soak.py -m soak
"""

import gzip
import itertools
import os
import re
import threading
import traceback
import time

import pytest

from pando_client import DEADLINE, Closed, Connection
from rest_client import OWNER, Rest, Wire

SECONDS = float(os.environ.get("PANDO_SOAK_SECONDS", "60"))
PADDING = "x" * 300
PACKED = b'"' + b"pack" * 50_000 + b'"'
IN_FLIGHT = 500  # writes a reader may be behind, so that it is our tempo and not a queue that is tested
GROWTH_FACTOR, GROWTH_SLACK = 1.10, 16 << 10  # KiB of resident memory, second quarter to last quarter
ROOT = "/soak"


def resident_kilobytes(process_id):
    with open(f"/proc/{process_id}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1])


class Soak:
    """What all threads share: the time, the first failure, and how far writers and readers are."""

    def __init__(self, server, transport, seconds):
        self.server, self.port, self.transport = server, server.port, transport
        self.ends = time.monotonic() + seconds
        self.upgrades = itertools.cycle((0, 1, 3, 500))
        self.failures = []
        self.written = {}  # writer -> its last acknowledged number
        self.readers = []
        self.threads = []

    @property
    def goes_on(self):
        return time.monotonic() < self.ends and not self.failures

    def connect(self):
        """A connection; one that moves does so at another point each time."""
        moves = {"upgrade_after": next(self.upgrades)} if self.transport == "upgrade" else {}
        return Connection(self.port, "default", transport=self.transport, **moves)

    def run(self, work, *arguments):
        def guarded():
            try:
                work(self, *arguments)
            except BaseException as error:
                self.failures.append(f"{work.__name__} {arguments}: {traceback.format_exc()}")

        thread = threading.Thread(target=guarded, daemon=True)
        self.threads.append(thread)
        thread.start()

    def wait_for_readers(self, writer, number):
        """Holds the writer back while any reader is too far behind."""
        while not self.failures and any(number - reader.last.get(writer, 0) > IN_FLIGHT for reader in self.readers):
            time.sleep(0.005)


class Reader:
    """Checks that each writer's numbers come one by one. Every number is one write, and one event."""

    def __init__(self):
        self.last, self.events = {}, 0

    def saw(self, writer, number):
        self.events += 1
        expected = self.last.get(writer, 0) + 1
        assert number == expected, f"{writer}: expected {expected}, got {number}"
        self.last[writer] = number

    def saw_at(self, path, value):
        """One changed location below the root; posts come and go, and carry no number."""
        keys = [key for key in path.split("/") if key]
        if len(keys) == 1 and isinstance(value, dict) and "n" in value:
            self.saw(keys[0], value["n"])
        elif len(keys) == 1 and isinstance(value, int):
            self.saw(keys[0], value)
        else:
            assert keys[:1] == ["posts"], (path, value)


def write_by_rest(soak, name):
    rest, number = Rest(soak.port, "default"), 0
    while soak.goes_on:
        number += 1
        rest.put(f"{ROOT}/{name}", {"n": number, "padding": PADDING})
        soak.written[name] = number
        soak.wait_for_readers(name, number)
    rest.close()


def patch_by_rest(soak, *names):
    rest, number = Rest(soak.port, "default"), 0
    while soak.goes_on:
        number += 1
        rest.patch(ROOT, dict.fromkeys(names, number))
        for name in names:
            soak.written[name] = number
        soak.wait_for_readers(names[0], number)
    rest.close()


def write_by_socket(soak, name):
    connection, number = soak.connect(), 0
    while soak.goes_on:
        number += 1
        connection.must("p", {"p": f"{ROOT}/{name}", "d": {"n": number, "padding": PADDING}})
        soak.written[name] = number
        soak.wait_for_readers(name, number)
    connection.close()


def post_and_delete(soak):
    rest = Rest(soak.port, "default")
    while soak.goes_on:
        name = rest.must("POST", f"{ROOT}/posts", {"text": PADDING}).json()["name"]
        rest.must("DELETE", f"{ROOT}/posts/{name}")
    rest.close()


def come_and_go(soak):
    """Streams, connections and requests of every kind that do not stay, some of them rude."""
    rest, number = Rest(soak.port, "default"), 0
    while soak.goes_on:
        number += 1
        stream = rest.stream(ROOT)
        stream.next()
        stream.wire.reset() if number % 2 else stream.close()
        with soak.connect() as connection:
            connection.must("q", {"p": ROOT, "h": ""})
        tag = rest.ask("GET", f"{ROOT}/posts.json", fields=[("X-Firebase-ETag", "true")]).etag
        rest.ask("PUT", "/apart.json", "1", [("if-match", tag)])
        rest.ask("PUT", "/apart.json", "{bad").expect(400)
        rest.ask("PUT", "/packed.json", gzip.compress(PACKED), [("Content-Encoding", "gzip")]).expect(200)
        packed = rest.ask("GET", "/packed.json", fields=[("Accept-Encoding", "gzip")]).expect(200)
        assert gzip.decompress(packed.body) == PACKED
        rest.ask("PUT", "/packed.json", b"no gzip", [("Content-Encoding", "gzip")]).expect(400)
        if number % 5 == 0:  # a watcher connects and disconnects
            watcher = rest.stream("/.settings/profile", fields=[OWNER])
            rest.ask("PUT", "/apart.json", "2")  # the others may have stopped by now
            assert watcher.next()[0] == "log"
            watcher.close()
        rest.ask("GET", f'{ROOT}.json?orderBy="$key"&limitToLast=2').expect(200)
        with Wire(soak.port) as wire:
            wire.send("GET /half a request")
    rest.close()


def read_stream(soak, reader, stream):
    while True:
        try:
            name, data = stream.next(timeout=SECONDS + DEADLINE)
        except (Closed, OSError):
            return
        if name == "put":
            reader.saw_at(data["path"], data["data"])
        else:
            for key, value in data["data"].items():
                reader.saw_at(f"{data['path']}/{key}", value)


def read_socket(soak, reader, connection):
    while True:
        try:
            message = connection.receive(timeout=SECONDS + DEADLINE)
        except (Closed, OSError):
            return
        push = message["d"]["b"]
        base = push["p"].removeprefix("soak")
        for key, value in (push["d"].items() if message["d"]["a"] == "m" else [("", push["d"])]):
            reader.saw_at(f"{base}/{key}", value)


def keep_alive(soak, connections):
    """WebSocket clients say something every 45 s, or they are asked whether they live."""
    while soak.goes_on:
        for connection in connections:
            connection.keep_alive()
        time.sleep(5)


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.parametrize("transport, seconds", [("ws", SECONDS), ("lp", SECONDS / 2), ("upgrade", SECONDS / 2)])
def test_mixed_traffic_loses_and_repeats_nothing_in_bounded_memory(servers, transport, seconds):
    server = servers()
    soak = Soak(server, transport, seconds)
    open_ones = []
    for _ in range(3):
        reader, stream = Reader(), Rest(server.port, "default").stream(ROOT).put("/", None)
        soak.readers.append(reader)
        open_ones.append(stream)
        soak.run(read_stream, reader, stream)
    connections = [soak.connect() for _ in range(2)]
    for connection in connections:
        reader = Reader()
        connection.must("q", {"p": ROOT, "h": ""})
        soak.readers.append(reader)
        open_ones.append(connection)
        soak.run(read_socket, reader, connection)
    readers = len(soak.threads)

    for number in range(3):
        soak.run(write_by_rest, f"r{number}")
    for number in range(2):
        soak.run(write_by_socket, f"s{number}")
    soak.run(patch_by_rest, "p0", "p1")
    soak.run(post_and_delete)
    soak.run(come_and_go)
    soak.run(keep_alive, connections)

    samples = []
    while soak.goes_on:
        samples.append(resident_kilobytes(server.process.pid))
        time.sleep(seconds / 200)
    for thread in soak.threads[readers:]:
        thread.join(DEADLINE * 2)
        assert not thread.is_alive(), "a writer hangs"
    deadline = time.monotonic() + DEADLINE
    while not soak.failures and any(reader.last != soak.written for reader in soak.readers):
        assert time.monotonic() < deadline, [soak.written, *(reader.last for reader in soak.readers)]
        time.sleep(0.01)
    assert not soak.failures, "\n".join(soak.failures)
    for one in open_ones:
        one.close()

    quarter = len(samples) // 4
    before, after = (sum(part) / len(part) for part in (samples[quarter : 2 * quarter], samples[3 * quarter :]))
    print(f"{sum(soak.written.values())} writes, {sum(reader.events for reader in soak.readers)} events, "
          f"resident {before:.0f} → {after:.0f} KiB")
    assert after <= before * GROWTH_FACTOR + GROWTH_SLACK, f"resident {before:.0f} → {after:.0f} KiB"
    final = Rest(server.port, "default").get(ROOT)
    assert {name: value if isinstance(value, int) else value["n"] for name, value in final.items()} == soak.written
