"""When a client counts as gone: at once when it says so, after a time that is known when it says nothing.

Sessions end when the client closes, half-closes or leaves its page; a client that vanishes (a phone in a lift: no FIN, no
RST) ends after `--presence-timeout`. `PANDO_SLOW=1` measures the default as well.
"""

import os
import shutil
import socket
import subprocess
import time

import pytest

from pando_client import DEADLINE, Connection, RawSocket, compact
from proxy import Proxy

PRESENCE_TIMEOUT = 10  # seconds, as short as the option allows
# Until the server notices: the timeout, and what its timers and a busy machine may add.
SLACK = 10
DEFAULT_PRESENCE_TIMEOUT = 120  # seconds: 75 of silence, half of that for the answer to a ping, and when it is looked
# A server that waits for TCP to end would need this long; one that ends the session on Close does not.
LINGER = 10


class Observer:
    """A connection that listens to `/gone` and sees when an onDisconnect has run."""

    def __init__(self, port):
        self.connection = Connection(port, "default")
        self.connection.must("q", {"p": "/gone", "h": ""})
        self.connection.taken_pushes()

    def sees(self, name, timeout):
        """Seconds until `/gone/<name>` was set."""
        began = time.monotonic()
        while True:
            left = began + timeout - time.monotonic()
            assert left > 0, f"the onDisconnect of {name} has not run within {timeout} s"
            message = self.connection.receive(timeout=left)
            body = message["d"].get("b", {})
            if message["t"] == "d" and message["d"].get("a") == "d" and body["p"] == f"gone/{name}":
                return time.monotonic() - began


def leaves_behind(connection, name):
    connection.must("o", {"p": f"/gone/{name}", "d": True})


def raw_session(port, name):
    """A WebSocket by hand with an onDisconnect; its handshake and answer are read."""
    raw = RawSocket(port, "default")
    raw.receive_text()
    raw.send_frame(compact({"t": "d", "d": {"r": 1, "a": "o", "b": {"p": f"/gone/{name}", "d": True}}}))
    raw.receive_text()
    return raw


# Said

def test_a_close_frame_ends_the_session_while_the_socket_stays_open(servers):
    server = servers(memory=True)
    observer = Observer(server.port)
    raw = raw_session(server.port, "closed")
    raw.send_frame((1000).to_bytes(2, "big"), RawSocket.CLOSE)
    assert observer.sees("closed", DEADLINE) < LINGER / 2
    raw.close()


def test_a_close_frame_ends_the_session_of_a_client_that_reads_nothing(servers):
    """With more unread than fits its socket's buffers, nothing can be sent any more, not even a close frame."""
    server = servers(memory=True)
    observer = Observer(server.port)
    with Connection(server.port, "default") as writer:
        writer.must("p", {"p": "/big", "d": "x" * 4_000_000})
    raw = raw_session(server.port, "full")
    for r in range(2, 6):
        raw.send_frame(compact({"t": "d", "d": {"r": r, "a": "g", "b": {"p": "/big", "q": {}}}}))
    raw.send_frame((1000).to_bytes(2, "big"), RawSocket.CLOSE)
    assert observer.sees("full", DEADLINE) < LINGER / 2
    raw.close()


def test_a_half_closed_socket_ends_the_session(servers):
    server = servers(memory=True)
    observer = Observer(server.port)
    raw = raw_session(server.port, "half")
    raw.tcp.shutdown(socket.SHUT_WR)
    assert observer.sees("half", DEADLINE) < LINGER / 2
    raw.close()


@pytest.mark.parametrize("transport", ["ws", "lp", "upgrade"])
@pytest.mark.parametrize("how", ["close", "cut", "reset"])
def test_who_says_goodbye_is_gone_at_once(servers, transport, how):
    server = servers(memory=True)
    observer = Observer(server.port)
    connection = Connection(server.port, "default", transport=transport)
    if transport == "upgrade":
        connection.transport.wait_until_upgraded()
    leaves_behind(connection, how)
    getattr(connection, how)()
    assert observer.sees(how, DEADLINE) < LINGER / 2


def test_leaving_the_polls_behind_after_an_upgrade_does_not_end_the_session(servers):
    """The SDK's frame says `disconn` for the old id when the session has moved."""
    server = servers(memory=True)
    observer = Observer(server.port)
    with Connection(server.port, "default", transport="upgrade") as connection:
        leaves_behind(connection, "moved")
        connection.transport.wait_until_upgraded()
        connection.transport.polling.abandon()  # waits for the one that was begun
        observer.connection.fence()
        assert not observer.connection.taken_pushes()
        assert connection.get("/gone") is None
    observer.sees("moved", DEADLINE)


# Not said

def drop_packets(port):
    """Drops what goes to and comes from that TCP port of this machine; answers how to undo it."""
    if os.geteuid() != 0 or not shutil.which("iptables"):
        pytest.skip("losing packets needs root and iptables")
    rules = [["INPUT", "-i", "lo", "-p", "tcp", side, str(port), "-j", "DROP"] for side in ("--sport", "--dport")]

    def change(action, rule, check):
        return subprocess.run(["iptables", action, *rule], check=check, timeout=10, capture_output=True)

    if change("-C", rules[0], False).returncode not in (0, 1) or change("-A", rules[0], False).returncode != 0:
        pytest.skip("iptables may not be used here")
    change("-A", rules[1], True)
    return lambda: [change("-D", rule, False) for rule in rules]


def time_until_gone(server, transport, how, timeout):
    observer = Observer(server.port)
    undo = []
    with Proxy(server.port) as proxy:
        try:
            port = proxy.port if how == "proxy" else server.port
            connection = Connection(port, "default", transport=transport)
            leaves_behind(connection, "vanished")
            if how == "proxy":
                proxy.swallow()
            elif how == "packets":
                undo.append(drop_packets(connection.transport.socket.socket.getsockname()[1]))
            else:
                connection.transport.vanish()
            # The observer must not vanish too: it says something now and then.
            began = time.monotonic()
            while True:
                observer.connection.keep_alive()
                left = began + timeout - time.monotonic()
                assert left > 0, f"still there after {timeout} s"
                try:
                    observer.sees("vanished", min(left, 2))
                    return time.monotonic() - began
                except AssertionError:
                    continue
        finally:
            for one in undo:
                one()


VANISHED = [("ws", "proxy"), ("ws", "packets"), ("lp", "proxy"), ("lp", "polls")]


@pytest.mark.parametrize("transport, how", VANISHED)
def test_a_vanished_client_is_gone_after_the_presence_timeout(servers, transport, how):
    server = servers(memory=True, arguments=["--presence-timeout", PRESENCE_TIMEOUT])
    took = time_until_gone(server, transport, how, PRESENCE_TIMEOUT + SLACK)
    print(f"{transport}, {how}: gone after {took:.1f} s with --presence-timeout {PRESENCE_TIMEOUT}")


@pytest.mark.timeout(300)
@pytest.mark.skipif(not os.environ.get("PANDO_SLOW"), reason="takes two minutes: PANDO_SLOW=1")
@pytest.mark.parametrize("transport, how", VANISHED)
def test_a_vanished_client_is_gone_after_the_default_time(servers, transport, how):
    took = time_until_gone(servers(memory=True), transport, how, DEFAULT_PRESENCE_TIMEOUT + SLACK)
    print(f"{transport}, {how}: gone after {took:.1f} s by default")


def test_a_client_that_is_there_stays_longer_than_the_presence_timeout(servers):
    """It says nothing by itself, but answers pings and keeps polling."""
    server = servers(memory=True, arguments=["--presence-timeout", PRESENCE_TIMEOUT])
    observer = Observer(server.port)
    connections = [Connection(server.port, "default", transport=transport) for transport in ("ws", "lp")]
    for index, connection in enumerate(connections):
        leaves_behind(connection, str(index))
    until = time.monotonic() + 2 * PRESENCE_TIMEOUT
    while (left := until - time.monotonic()) > 0:
        with pytest.raises(AssertionError):
            observer.connection.receive(timeout=left)
    for connection in connections:
        connection.fence()
        connection.close()
