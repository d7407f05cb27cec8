"""What the server asks of the kernel, and in which order: no acknowledgement leaves before its write is on the disk.

Every value written carries a mark. The trace shows which `pwrite64` took it to the journal, which `fdatasync` of that file
came behind, and which system call took the answer, or the value itself, to a socket.
"""

import json
import re
import threading
from collections import Counter, defaultdict

import pytest

from pando_client import Connection
from rest_client import OWNER, Rest
from strace import Trace

MARK = re.compile(rb"mark-[0-9]+-[0-9]+-")
TO_SOCKETS = ("sendto", "sendmsg", "sendmmsg", "write", "writev")
TO_FILES = ("pwritev", "pwritev2", "pwrite64", "write", "writev")
SYNCS = ("fdatasync", "fsync")


class Client(threading.Thread):
    """Puts marked values, a few in flight. Knows which request carried which mark."""

    def __init__(self, port, index, count, in_flight, padding):
        super().__init__(daemon=True)
        self.connection = Connection(port, "default")
        self.local_port = self.connection.transport.socket.socket.getsockname()[1]
        self.index, self.count, self.in_flight, self.padding = index, count, in_flight, padding
        self.marks, self.failure = {}, None

    def run(self):
        try:
            for number in range(self.count):
                mark = f"mark-{self.index}-{number}-"
                r = self.connection.request("p", {"p": f"/w/{self.index}/{number}", "d": mark + self.padding})
                self.marks[r] = mark.encode()
                if len(self.connection.waiting) == self.in_flight:
                    assert self.connection.response(r - self.in_flight + 1)["s"] == "ok"
            if self.connection.waiting:
                assert self.connection.response(r)["s"] == "ok"
        except Exception as error:  # noqa: BLE001 (shown by the main thread)
            self.failure = error


def drive(server, client_count, write_count, in_flight, padding):
    """Clients that write at once, one that listens, and one over REST. Answers `{local port: {r: mark}}`."""
    with Connection(server.port, "default") as listener:
        listener.must("q", {"p": "/w", "h": ""})
        clients = [Client(server.port, index, write_count, in_flight, padding) for index in range(client_count)]
        for client in clients:
            client.start()
        for number in range(write_count):
            mark = f"mark-{client_count}-{number}-"
            rest = Rest(server.port, "default", fields=[OWNER])
            answer = rest.ask("PUT", f"/w/rest/{number}.json", json.dumps(mark).encode())
            assert answer.json() == mark
        for client in clients:
            client.join(100)
            assert not client.is_alive() and client.failure is None, repr(client.failure)
        listener.fence()
        for client in clients:
            client.connection.close()
    return {client.local_port: client.marks for client in clients}


def durable_moments(calls):
    """When each mark was on the disk: the line at which the first sync that began behind its write was left."""
    syncs = defaultdict(list)
    for call in calls:
        if call.name in SYNCS and call.result == 0:
            syncs[call.paths[0]].append(call)
    moments = {}
    for call in calls:
        if call.name not in TO_FILES or "/journal-" not in call.paths[0] or not call.result or call.result < 0:
            continue
        for mark in MARK.findall(b"".join(call.strings)[: call.result]):
            behind = (sync.left for sync in syncs[call.paths[0]] if sync.entered > call.left)
            assert mark not in moments, f"{mark} is in the journal twice"
            moments[mark] = min(behind, default=float("inf"))
    return moments


def streams(calls):
    """What went to each socket: `{peer's port: [(bytes, line at which their call was entered)]}`."""
    sent = defaultdict(list)
    for call in calls:
        found = re.search(r"TCP(?:v6)?:\[.*->.*:([0-9]+)\]", call.paths[0]) if call.paths else None
        if call.name not in TO_SOCKETS or not found or call.result is None or call.result <= 0:
            continue
        assert call.name != "sendmmsg", f"several results, which this cannot read: {call}"
        sent[int(found.group(1))].append((b"".join(call.strings)[: call.result], call.entered))
    return sent


def entered_at(pieces, offset):
    """The line at which the call was entered that sent this byte of a stream."""
    for data, entered in pieces:
        if offset < len(data):
            return entered
        offset -= len(data)
    raise AssertionError("behind the stream's end")


def departures(sent, marks_of):
    """Each output that shows a write to a client: `(what, mark, line at which its first byte's call was entered)`."""
    for port, pieces in sent.items():
        stream = b"".join(data for data, _ in pieces)
        for found in MARK.finditer(stream):
            yield "value", found.group(), entered_at(pieces, found.start())
            if stream.startswith(b"HTTP/1.1 200"):  # not 101: an answer of REST, from its first byte on
                yield "REST answer", found.group(), entered_at(pieces, stream.rfind(b"HTTP/1.1 ", 0, found.start()))
        if port in marks_of:
            for found in re.finditer(rb'\{"t":"d","d":\{"r":([0-9]+),"b":\{"s":"ok"', stream):
                r = int(found.group(1))
                if r in marks_of[port]:
                    yield "answer", marks_of[port][r], entered_at(pieces, found.start())


def examine(servers, tmp_path, durability, client_count, write_count, in_flight, padding=""):
    """Answers what left how often, and what of it left too early."""
    server = servers(start=False, arguments=("--durability", durability, "--segment-bytes", 65536))
    trace = Trace(server, tmp_path / "trace.txt", {*TO_SOCKETS, *TO_FILES, *SYNCS})
    server.start()
    marks_of = drive(server, client_count, write_count, in_flight, padding)
    server.terminate()
    calls = trace.calls()
    moments = durable_moments(calls)
    assert len(moments) == (client_count + 1) * write_count, "the trace does not show every write"
    counts, early = Counter(), []
    for what, mark, entered in departures(streams(calls), marks_of):
        counts[what] += 1
        if entered < moments[mark]:
            early.append((what, mark, entered, moments[mark]))
    writes = sum(call.name == "pwrite64" for call in calls)
    syncs = sum(call.name == "fdatasync" for call in calls)
    segments = len(list(server.data.glob("journal-*.log")))
    print(
        f"{durability}, {client_count} clients: {counts['answer']} answers, {counts['REST answer']} of REST, and "
        f"{counts['value']} values left, {len(early)} of them early; {writes} pwrite64, {syncs} fdatasync, "
        f"{segments} segments"
    )
    assert counts["answer"] == client_count * write_count, "the trace does not show every answer"
    assert counts["REST answer"] == write_count, "the trace does not show every answer of REST"
    # Every value went to the listener, and in the response to the client that put it over REST.
    assert counts["value"] >= (client_count + 2) * write_count, "the trace does not show every value"
    return early


@pytest.mark.parametrize(
    ("client_count", "write_count", "in_flight", "padding"),
    [(1, 200, 1, ""), (64, 12, 4, ""), (16, 60, 4, "x" * 500)],
    ids=["1-client", "64-clients", "while-the-log-rotates"],
)
def test_no_output_leaves_before_its_write_is_on_the_disk(
    servers, tmp_path, client_count, write_count, in_flight, padding
):
    assert examine(servers, tmp_path, "always", client_count, write_count, in_flight, padding) == []


def test_the_test_above_can_fail(servers, tmp_path):
    """Without syncs, answers and values leave early, and this sees it."""
    early = examine(servers, tmp_path, "none", 4, 50, 4)
    assert {what for what, *_ in early} == {"answer", "REST answer", "value"}
