"""Many connections at once: accepted, and gone; and clients through a restart. How much a server takes of that for how
long, `pando-load` measures (`hostile --only flood-connections`, `restart`); here it must stay within memory and forget
nothing."""

import contextlib
import http.client
import json
import pathlib
import re
import select
import socket
import ssl
import struct
import subprocess

import pytest

from admin import Admin
from deflate_client import TEXT, client_frame
from pando_client import compact
from server import clean_environment
from test_load import BINARY as LOAD, COUNTS, pytestmark  # noqa: F401 (without the harness nothing here runs)
from test_tls import Client as SecureClient, client_context, pair
from waiting import wait_for

DEADLINE = 60  # seconds; only bounds a test that would otherwise hang
REQUEST = b"GET /a.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPGRADE = (
    b"GET /.ws?v=5&ns=default HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
# What a connection may take while all of them shake hands at once, and what all together may make the server hold besides
# (--memory-limit).
CONNECTION_BYTES, SECURE_CONNECTION_BYTES = 4 << 10, 64 << 10
LIMIT_BYTES = 64 << 20
KINDS = {"plain": (5000, CONNECTION_BYTES, []), "tls": (500, SECURE_CONNECTION_BYTES, pair("localhost"))}


class Memory:
    """The most resident memory that the process has had since this was made, beyond what it had then."""

    def __init__(self, server):
        self.folder = pathlib.Path(f"/proc/{server.process.pid}")
        (self.folder / "clear_refs").write_text("5")  # VmHWM begins anew (proc(5))
        self.before = self.bytes("VmRSS")

    def bytes(self, name):
        lines = (self.folder / "status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1]) << 10

    @property
    def growth(self):
        return self.bytes("VmHWM") - self.before


def listen_count(server):
    return sum(int(count) for count in re.findall(r'^pando_listens\{.*\} (\d+)$', Admin(server).text(), re.MULTILINE))


def connect_at_once(port, count, secure):
    """All begin to connect before any is waited for. With TLS all have sent the first message of the handshake before any
    reads what the server answers."""
    connections = [socket.socket() for _ in range(count)]
    for connection in connections:
        connection.setblocking(False)
        connection.connect_ex(("127.0.0.1", port))
    for connection in connections:
        connected = select.poll()
        connected.register(connection, select.POLLOUT)
        assert connected.poll(DEADLINE * 1000)
    if secure:
        context = client_context()
        connections = [
            context.wrap_socket(connection, server_hostname="localhost", do_handshake_on_connect=False)
            for connection in connections
        ]
        for connection in connections:
            with contextlib.suppress(ssl.SSLWantReadError):
                connection.do_handshake()
    for connection in connections:
        connection.settimeout(DEADLINE)
        if secure:
            connection.do_handshake()
    return connections


def read_until(connection, end):
    received = b""
    while end not in received:
        piece = connection.recv(1 << 16)
        assert piece, received
        received += piece
    return received


def text_frame(message):
    """A message in a frame with the masking key 0."""
    return client_frame(0x80 | TEXT, compact(message).encode(), bytes(4))


@pytest.mark.parametrize("kind", KINDS)
def test_accept_storm(servers, kind):
    """All connect before any is served; each is answered."""
    count, connection_bytes, options = KINDS[kind]
    server = servers(memory=True, arguments=["--memory-limit", LIMIT_BYTES, *options])
    memory = Memory(server)
    connections = connect_at_once(server.port, count, secure=kind == "tls")
    for connection in connections:
        connection.sendall(REQUEST)
    for connection in connections:
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
    assert memory.growth < LIMIT_BYTES + count * connection_bytes
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("kind", KINDS)
def test_disconnect_storm(servers, kind):
    """All clients vanish at once, each with writes for its end: every one of them is done."""
    count, connection_bytes, options = KINDS[kind]
    server = servers(arguments=["--memory-limit", LIMIT_BYTES, *options])
    memory = Memory(server)
    connections = connect_at_once(server.port, count, secure=kind == "tls")
    for connection in connections:
        connection.sendall(UPGRADE)
    for number, connection in enumerate(connections):
        read_until(connection, b'"t":"h"')
        body = {"p": f"/left/{number}", "d": {".sv": "timestamp"}}
        connection.sendall(text_frame({"t": "d", "d": {"r": 1, "a": "o", "b": body}}))
    for connection in connections:
        assert b'"s":"ok"' in read_until(connection, b'"r":1')
        # A reset, as of a process that dies.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    for connection in connections:
        connection.close()
    left = Watcher(server, secure=kind == "tls")
    wait_for(lambda: len(left.get() or {}) == count)
    assert memory.growth < LIMIT_BYTES + count * connection_bytes
    # They survive the process, too.
    server.kill()
    server.start()
    assert len(left.get()) == count


class Watcher:
    """What clients have left behind."""

    def __init__(self, server, secure):
        self.server, self.secure = server, secure

    def get(self):
        kind = http.client.HTTPConnection
        client = SecureClient(self.server.port) if self.secure else kind("127.0.0.1", self.server.port, timeout=DEADLINE)
        try:
            client.request("GET", "/left.json")
            return json.loads(client.getresponse().read())
        finally:
            client.close()


def test_a_client_with_a_long_body_is_read_again_after_the_memory_limit_was_exceeded(servers):
    """Others hold more than the limit with bodies that never end. A client that has sent a part of its body then goes on
    when they are gone; requests that are complete at once are answered meanwhile."""
    server = servers(memory=True, arguments=["--memory-limit", LIMIT_BYTES])
    part = b"x" * 60_000
    head = b"PUT /%s.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n\""
    others = connect_at_once(server.port, 2 * LIMIT_BYTES // len(part), secure=False)
    (patient, quick) = connect_at_once(server.port, 2, secure=False)
    for connection in others:
        connection.setblocking(False)
        with contextlib.suppress(OSError):  # Some are disconnected.
            connection.sendall(head % (b"others", 1 << 20) + part)
    size = 30_000
    patient.sendall(head % (b"patient", size) + part[: size // 2])
    for _ in range(20):
        quick.sendall(REQUEST)
        assert quick.recv(1 << 16).startswith(b"HTTP/1.1 200")
    server.wait_for_log("memory limit: clients hold")
    for connection in others:
        connection.close()
    patient.sendall(part[: size - size // 2 - 2] + b'"')
    assert patient.recv(1 << 16).startswith(b"HTTP/1.1 200")
    for connection in (patient, quick):
        connection.close()


def test_clients_come_back_after_a_restart_and_get_nothing_twice(servers):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = servers(arguments=["--port", port, "--drain-time", "1", "--admin-listen", "0"])
    count = 50
    command = [
        LOAD, "restart", "--url", f"http://127.0.0.1:{port}", "--connections", str(count), "--duration", "6",
        "--warm-up", "0", "--threads", "1", "--patience", "30", "--json", "-",
    ]
    load = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean_environment())
    try:
        wait_for(lambda: listen_count(server) >= count)
        # Over a second, in which the run has begun.
        assert server.terminate() == 0
        server.start()
        output, _ = load.communicate(timeout=DEADLINE)
    finally:
        load.kill()
    run = json.loads(output)["runs"][0]
    assert load.returncode == 0 and run["errors"] == dict.fromkeys(COUNTS, 0), output
    assert 0 < run["totalOperations"] <= count and run["latencies"]["without service"]["count"] > 0
    assert run["totalDeliveries"] == 0, "all had the value already"
