"""When a client counts as gone: at once when it says so, after a time that is known when it says nothing.

Sessions end when the client closes, half-closes or leaves its page; a client that vanishes (a phone in a lift: no FIN, no
RST) ends after `--presence-timeout`. `PANDO_SLOW=1` measures the default as well.
"""

import concurrent.futures
import contextlib
import os
import shutil
import socket
import subprocess
import time

import pytest

from pando_client import DEADLINE, Connection, RawSocket, compact
from programs import require
from proxy import Proxy

PRESENCE_TIMEOUT = 10  # seconds, as short as the option allows
# Until the server notices: the timeout, and what its timers and a busy machine may add.
SLACK = 10
DEFAULT_PRESENCE_TIMEOUT = 125  # seconds: 75 of silence, half of that for the answer to a ping, and when it is looked
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
def test_a_client_that_closes_its_session_is_gone_at_once(servers, transport, how):
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

LOSE_PACKETS = ("--sport", "--dport")


def may_lose_packets():
    if os.geteuid() != 0 or not shutil.which("iptables"):
        return False
    return iptables("-L", "INPUT", "-n").returncode == 0


def iptables(*arguments):
    return subprocess.run(["iptables", "-w", "5", *arguments], timeout=10, capture_output=True)


class LostPackets:
    """What goes to and comes from that TCP port of this machine is dropped, until the end of the block."""

    def __init__(self, port):
        self.rules = [["INPUT", "-i", "lo", "-p", "tcp", side, str(port), "-j", "DROP"] for side in LOSE_PACKETS]

    def __enter__(self):
        for rule in self.rules:
            assert iptables("-A", *rule).returncode == 0
        return self

    def __exit__(self, *_):
        for rule in self.rules:
            iptables("-D", *rule)


# transport, what happens: its bytes go nowhere (a proxy that swallows them), its packets are lost, its polls end
VANISHED = [("ws", "proxy"), ("ws", "packets"), ("lp", "proxy"), ("lp", "polls")]


def seconds_until_gone(server, transport, how, timeout):
    name = f"{transport}-{how}"
    observer = Observer(server.port)
    with Proxy(server.port) as proxy, contextlib.ExitStack() as stack:
        connection = Connection(proxy.port if how == "proxy" else server.port, "default", transport=transport)
        leaves_behind(connection, name)
        if how == "proxy":
            proxy.swallow()
        elif how == "packets":
            stack.enter_context(LostPackets(connection.transport.socket.socket.getsockname()[1]))
        else:
            connection.transport.vanish()
        took = observer.sees(name, timeout)
    observer.connection.close()
    return took


def all_vanish(server, timeout):
    """Seconds until each is gone, all at the same time."""
    possible = [one for one in VANISHED if one[1] != "packets" or may_lose_packets()]
    with concurrent.futures.ThreadPoolExecutor(len(possible)) as pool:
        asked = {one: pool.submit(seconds_until_gone, server, *one, timeout) for one in possible}
        took = {one: future.result() for one, future in asked.items()}
    for (transport, how), seconds in took.items():
        print(f"{transport}, {how}: gone after {seconds:.1f} s")
    return took


def test_packets_can_be_lost_here():
    """Says so where the tests below leave that case out."""
    require("iptables")
    if os.geteuid() != 0:
        pytest.skip("only root can lose packets")
    if not may_lose_packets():
        pytest.skip("iptables may not filter here")


def test_a_vanished_client_is_gone_after_the_presence_timeout_and_a_quiet_one_is_not(servers):
    server = servers(memory=True, arguments=["--presence-timeout", PRESENCE_TIMEOUT])
    # These say nothing by themselves, but answer pings and keep polling.
    quiet = [Connection(server.port, "default", transport=transport) for transport in ("ws", "lp")]
    for index, connection in enumerate(quiet):
        leaves_behind(connection, f"quiet-{index}")
    began = time.monotonic()
    assert max(all_vanish(server, PRESENCE_TIMEOUT + SLACK).values()) <= PRESENCE_TIMEOUT + SLACK
    while (left := began + 1.5 * PRESENCE_TIMEOUT - time.monotonic()) > 0:
        with pytest.raises(AssertionError):
            quiet[0].receive(timeout=left)  # which nothing answers
    for connection in quiet:
        connection.fence()
        assert not any(name.startswith("quiet") for name in connection.get("/gone"))
    for connection in quiet:
        connection.close()


@pytest.mark.timeout(300)
@pytest.mark.skipif(not os.environ.get("PANDO_SLOW"), reason="takes two minutes: PANDO_SLOW=1")
def test_a_vanished_client_is_gone_after_the_default_time(servers):
    took = all_vanish(servers(memory=True), DEFAULT_PRESENCE_TIMEOUT + SLACK)
    # A client with a poll under way is looked after by what comes of it, so long polling is sooner.
    assert min(took.values()) >= 60 - 1
