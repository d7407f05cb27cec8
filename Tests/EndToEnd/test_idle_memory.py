"""What an idle connection costs the release server in anonymous memory, plain and over TLS: after a request of REST, and as a WebSocket
whose session has begun."""

import contextlib
import pathlib
import socket
import ssl

import pytest

from test_storms import REQUEST, UPGRADE, read_until
from test_tls import client_context, pair

DEADLINE = 60  # seconds; only bounds a test that would otherwise hang
# Memory grows in steps, and the first connections make what all share: the slope between the two counts is that of a connection.
FIRST, COUNT = 500, 2000
SECURE_LIMIT = 12 << 10
PLAIN_LIMIT = 4 << 10


def allocated_bytes(server):
    """Resident memory but for pages of files: those of the program come and go with other processes that run it."""
    lines = pathlib.Path(f"/proc/{server.process.pid}/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Anonymous:")).split()[1]) << 10


def idle_connection(port, context, is_websocket):
    """One that has been served."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
    if context:
        connection = context.wrap_socket(connection, server_hostname="localhost")
    connection.sendall(UPGRADE if is_websocket else REQUEST)
    received = read_until(connection, b'"t":"h"' if is_websocket else b"null")
    assert received.startswith(b"HTTP/1.1 101" if is_websocket else b"HTTP/1.1 200")
    return connection


@pytest.mark.parametrize("is_websocket", [False, True], ids=["REST", "WebSocket"])
@pytest.mark.parametrize("version", [None, "TLSv1_2", "TLSv1_3"])
def test_memory_of_an_idle_connection(servers, version, is_websocket):
    server = servers(memory=True, arguments=pair("localhost") if version else [])
    context = None
    if version:
        context = client_context(minimum_version=ssl.TLSVersion[version], maximum_version=ssl.TLSVersion[version])
    with contextlib.ExitStack() as stack:
        def open_connections(count):
            for _ in range(count):
                stack.enter_context(idle_connection(server.port, context, is_websocket))
            return allocated_bytes(server)

        before = open_connections(FIRST)
        each = (open_connections(COUNT) - before) / COUNT
        print(f"{each:.0f} bytes for each connection")
        assert 0 < each <= (SECURE_LIMIT if version else PLAIN_LIMIT)
