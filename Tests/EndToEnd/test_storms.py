"""Many connections at once: accepted, and gone; and clients through a restart. How much a server takes of that for how
long, `pando-load` measures (`hostile --only flood-connections`, `restart`); here it must stay within memory and forget
nothing."""

import json
import pathlib
import re
import socket
import subprocess
import time

from admin import Admin
from pando_client import Connection
from server import clean_environment
from test_load import BINARY as LOAD, COUNTS, pytestmark  # noqa: F401 (without the harness nothing here runs)

DEADLINE = 60  # seconds; only bounds a test that would otherwise hang
REQUEST = b"GET /a.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
# A connection takes some KiB; what else the process has is its code, its stacks and the allocator's.
CONNECTION_BYTES = 32 << 10
PROCESS_BYTES = 64 << 20


def resident(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) << 10


def listen_count(server):
    return sum(int(count) for count in re.findall(r'^pando_listens\{.*\} (\d+)$', Admin(server).text(), re.MULTILINE))


def wait_for(condition):
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_accept_storm(servers):
    """All connect before any is served; each is answered."""
    server = servers(memory=True)
    server_port, count = server.port, 1000
    before = resident(server)
    connections = []
    for _ in range(count):
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex(("127.0.0.1", server_port))
        connections.append(connection)
    for connection in connections:
        connection.settimeout(DEADLINE)
        connection.sendall(REQUEST)
    for connection in connections:
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
    assert resident(server) - before < PROCESS_BYTES + count * CONNECTION_BYTES
    for connection in connections:
        connection.close()


def test_disconnect_storm(servers):
    """All clients vanish at once, each with writes for its end: every one of them is done."""
    server = servers()
    count = 300
    clients = [Connection(server.port) for _ in range(count)]
    for number, client in enumerate(clients):
        assert client.ask("o", {"p": f"/left/{number}", "d": {".sv": "timestamp"}})["s"] == "ok"
    before = resident(server)
    with Connection(server.port) as watcher:
        for client in clients:
            client.close()
        wait_for(lambda: len(watcher.get("/left") or {}) == count)
    assert resident(server) - before < PROCESS_BYTES
    # They survive the process, too.
    server.kill()
    server.start()
    with Connection(server.port) as watcher:
        assert len(watcher.get("/left")) == count


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
