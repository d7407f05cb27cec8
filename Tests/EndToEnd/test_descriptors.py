"""Descriptors run out: clients take all there are, or the process has none left for its files. The disk keeps its own, an
administrator gets in, and no client that sends requests is disconnected."""

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidMessage

from admin import Admin
from pando_client import DEADLINE, Closed, Connection, RawSocket
from rest_client import OWNER, Rest, Wire
from server import REPOSITORY, StartFailure
from test_checkpoints import SMALL, checkpoints, expected, rows, segments, write_until_checkpoints
from waiting import wait_for

FIXTURES = REPOSITORY / "Tests/TLS/Fixtures"
LIMIT = 256
BAD_CONFIGURATION = 78
RESERVE = 4  # places for administrators
REFUSAL = "Too many connections are open: only requests of administrators are answered until some of them close"
CEILING = re.compile(r"at most (\d+) clients are connected at once: the process may have (\d+) descriptors")

FLOOD = """
import collections, select, socket, sys

port, kept = int(sys.argv[1]), int(sys.argv[2])
opened = collections.deque()
while True:
    for _ in range(10):
        tcp = socket.socket()
        tcp.setblocking(False)
        tcp.connect_ex(("127.0.0.1", port))
        opened.append(tcp)
        if len(opened) > kept:
            opened.popleft().close()
    select.select([], [], [], 0.005)
"""


@pytest.fixture
def small(servers):
    """A factory of servers that may have few descriptors."""

    def make(*arguments, limit=LIMIT, memory=False):
        server = servers(start=False, arguments=arguments, memory=memory)
        server.descriptor_limit = limit
        return server.start()

    return make


@contextlib.contextmanager
def flood(server, kept=1000):
    """Another process opens bare connections without end, and keeps so many of them."""
    process = subprocess.Popen(
        [sys.executable, "-c", FLOOD, str(server.port), str(kept)], preexec_fn=allow_descriptors, stdin=subprocess.DEVNULL)
    try:
        yield
        assert process.poll() is None, "the flood has ended by itself"
    finally:
        process.kill()
        process.wait(DEADLINE)


def allow_descriptors():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def ceiling(server):
    server.wait_for_log("clients are connected at once")
    found = CEILING.search(server.stderr(10**7))
    assert int(found.group(2)) == LIMIT
    return int(found.group(1))


def answers(ask):
    """Whether the request was answered as it should be; false also where its connection was closed before it came."""
    try:
        return ask()
    except (Closed, ConnectionError):
        return False


def connected(port):
    """A client that connects again when its connection is closed before its request came: on a busy machine the flood's
    next connections are faster. Once it is a WebSocket it must stay."""
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            return Connection(port, "default")
        except (ConnectionClosed, InvalidMessage, ConnectionError):
            assert time.monotonic() < deadline, f"within {DEADLINE} s no new client was connected"


def closed_by_server(tcp):
    """Waits for the end of a connection that has nothing to say."""
    tcp.settimeout(DEADLINE)
    try:
        return tcp.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("loops", [1, 3])
def test_a_flood_of_connections_leaves_descriptors_for_the_disk_and_for_clients(small, loops):
    server = small(*SMALL, "--loops", loops)
    quiet = server.open_descriptors()
    most = ceiling(server)
    assert quiet <= LIMIT - most - 64 - 16 - 2 * RESERVE, "what is always open was counted on"
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Connection(server.port, "default")) for _ in range(20)]
        for index, client in enumerate(clients):
            client.must("p", {"p": f"/clients/{index}", "d": index})
        with flood(server):
            wait_for(lambda: server.open_descriptors() > most, "flood of connections")
            count = 0
            for round_ in range(1, 5):
                count = write_until_checkpoints(server, round_, clients[0], count)
                assert server.open_descriptors() <= LIMIT - 64, "those of the disk are not taken"
                # New clients connect while the flood goes on.
                with connected(server.port) as fresh:
                    assert fresh.get("/clients/7") == 7
                wait_for(lambda: answers(lambda: Rest(server.port, "default").get("/clients/8") == 8), "answer in the flood")
            assert len(segments(server)) > 1
            wait_for(lambda: len(checkpoints(server)) == 2, "removal of what is superseded")
        for index, client in enumerate(clients):
            assert client.get(f"/clients/{index}") == index, "the clients from before the flood are connected"
        said = server.stderr(10**7)
        assert re.search(rf"connection limit: \d+ of {most} connections are open. Since the last report: closed \d+ without a request or idle", said)
        assert "Too many open files" not in said
        # As before, but for the clients still connected, and files of the journal.
        wait_for(lambda: server.open_descriptors() <= quiet + len(clients) + 2, "end of the flood's connections")
        assert Rest(server.port, "default").get("/clients/3") == 3
    assert server.terminate() == 0
    server.start()
    assert rows(server) == expected(count)


def test_an_administrator_gets_in_when_all_are_websockets(small):
    server = small(memory=True)
    most = ceiling(server)
    sockets = [RawSocket(server.port) for _ in range(most)]
    assert all(one.status == 101 for one in sockets)
    admin = lambda *request, **options: Wire(server.port).ask(*request, fields=[OWNER], **options)  # noqa: E731

    # One after the other, more than the reserve has places: each is for one request.
    for _ in range(3):
        for fields in ([], [("Authorization", "Bearer nonsense")]):
            wire = Wire(server.port)
            refused = wire.ask("GET", "/a.json?ns=demo", fields=fields)
            assert (refused.status, refused.json()) == (503, {"error": REFUSAL})
            assert refused.header("Connection") == "close" and refused.header("Retry-After")
            wire.expect_closed()
        upgrade = RawSocket(server.port)
        assert upgrade.status == 503 and "Connection: close" in upgrade.head
        upgrade.close()
        assert Wire(server.port).ask("PUT", "/a.json?ns=demo", body="1").status == 503
        inspected = admin("GET", "/.inspect/databases.json")
        assert inspected.status == 200 and inspected.header("Connection") == "close"
        assert admin("PUT", "/a.json?ns=demo", body='"by an administrator"').status == 200
        assert admin("GET", "/a.json?ns=demo").json() == "by an administrator"

    # A flood of bare connections does not fill the reserve: of those that have sent nothing the oldest is closed.
    with flood(server):
        wait_for(lambda: server.open_descriptors() >= most + RESERVE, "flood of connections")
        for _ in range(5):
            wait_for(lambda: answers(lambda: admin("GET", "/.inspect/databases.json").status == 200), "answer in the flood")
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(RESERVE)]
    assert answers(lambda: admin("GET", "/.inspect/databases.json").status == 200)
    assert all(closed_by_server(tcp) for tcp in silent), "a place in the reserve is kept for seconds only"

    # The reserve is used up: the next connection waits until another closes.
    streams = [Rest(server.port, "demo", fields=[OWNER]).stream("/a") for _ in range(RESERVE)]
    waiting = Wire(server.port)
    waiting.send(Wire.request_bytes("GET", "/a.json?ns=demo"))
    sockets.pop().close()
    assert waiting.receive().json() == "by an administrator"
    for stream in streams:
        stream.expect("put", "/", "by an administrator")
        stream.close()

    server.wait_for_log("in the administrators' reserve")
    waiting.close()
    sockets.pop().close()
    with Rest(server.port, "demo").stream("/a") as stream:
        stream.expect("put", "/", "by an administrator")
        for one in sockets:
            one.send_frame(b"", RawSocket.PING)
        for one in sockets:
            while one.receive_frame()[1] != RawSocket.PONG:
                pass
    assert server.terminate() == 0


def test_idle_connections_make_place(small):
    server = small(memory=True)
    most = ceiling(server)
    with Connection(server.port) as client, Rest(server.port, "demo").stream("/a") as stream:
        stream.expect("put", "/", None)
        idle = [Wire(server.port) for _ in range(most - 2)]
        for wire in idle:
            assert wire.ask("GET", "/a.json?ns=demo").status == 200
        # Used again: not the longest idle any more.
        assert idle[0].ask("GET", "/a.json?ns=demo").status == 200
        bare = socket.create_connection(("127.0.0.1", server.port))
        assert closed_by_server(idle[1].tcp), "the longest idle makes place"
        fresh = Rest(server.port, "demo")
        assert fresh.put("/a", 1).status == 200
        assert closed_by_server(bare), "a silent connection is closed before an idle one"
        stream.expect("put", "/", 1)
        assert client.get("/a") == 1
        assert idle[0].ask("GET", "/a.json?ns=demo").status == 200
        assert idle[2].ask("GET", "/a.json?ns=demo").status == 200


def test_clients_of_other_ports_take_no_descriptors_of_the_disk(small):
    """The admin port, the port that redirects, and a second listener, all full of connections that say nothing."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        redirect = free.getsockname()[1]
    certificate = [FIXTURES / "localhost.pem", "--tls-key", FIXTURES / "localhost.key"]
    arguments = ["--tls-cert", *certificate, "--admin-listen", "0", "--http-redirect-port", redirect,
                 "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"]
    limit = 400
    server = small(*arguments, limit=limit, memory=True)
    quiet = server.open_descriptors()
    server.wait_for_log("clients are connected at once")
    most = int(CEILING.search(server.stderr(10**7)).group(1))
    assert quiet <= limit - most - 64 - 16 - 2 * RESERVE - 128, "what is always open was counted on"
    with contextlib.ExitStack() as stack, flood(server):
        wait_for(lambda: server.open_descriptors() > most, "flood of connections")
        counts = []
        for port in (Admin(server).port, redirect):
            for _ in range(80):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                counts.append(server.open_descriptors())
        assert max(counts) > most + 64 and max(counts) <= limit - 64, "those of the disk are not taken"
    assert server.alive


def test_a_limit_too_small_is_a_bad_configuration(small):
    with pytest.raises(StartFailure) as failure:
        small(limit=100)
    assert failure.value.code == BAD_CONFIGURATION
    assert re.search(r"may have 100 descriptors, and the server needs at least \d+: raise the hard limit", str(failure.value))


def test_files_that_cannot_be_opened_are_tried_again(servers, tmp_path):
    """All descriptors are gone from one moment to the next: the limit of the running process is lowered."""
    (tmp_path / "rules").mkdir()
    rules = tmp_path / "rules/default.json"
    rules.write_text('{"rules": {".read": true, ".write": true}}')
    server = servers(arguments=(*SMALL, "--rules", rules.parent))
    pid = server.process.pid
    with Connection(server.port, "default") as connection:
        count = write_until_checkpoints(server, 1, connection)
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        # The kernel gives the lowest number that is free.
        used = max(int(name) for name in os.listdir(f"/proc/{pid}/fd")) + 1
        taken = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(used - server.open_descriptors())]
        wait_for(lambda: server.open_descriptors() >= used, "use of every number")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, limits[1]))
        deadline = time.monotonic() + 3 * DEADLINE
        while not re.search(r"writing continues in it.*Too many open files", server.stderr(10**7)) or not re.search(
            r"checkpoint at \d+: no free descriptor", server.stderr(10**7)
        ):
            assert time.monotonic() < deadline and server.alive, server.stderr()
            connection.must("p", {"p": f"/rows/{count % 500:03d}/{count}", "d": "x" * 500 + str(count)})
            count += 1
        rules.write_text('{"rules": {".read": false, ".write": false}}')
        server.signal(signal.SIGHUP)
        server.wait_for_log("SIGHUP: rules read again")
        connection.must("p", {"p": f"/rows/{count % 500:03d}/{count}", "d": "x" * 500 + str(count)})
        count += 1

        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        known = len(segments(server))
        while len(segments(server)) == known:
            assert time.monotonic() < deadline and server.alive, server.stderr()
            connection.must("p", {"p": f"/rows/{count % 500:03d}/{count}", "d": "x" * 500 + str(count)})
            count += 1
        for tcp in taken:
            tcp.close()
        rules.write_text('{"rules": {".read": true, ".write": true}}')
        server.signal(signal.SIGHUP)
        assert rows(server) == expected(count)
    assert server.terminate() == 0
    server.start()
    assert rows(server) == expected(count)
