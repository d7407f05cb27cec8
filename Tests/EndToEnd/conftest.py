"""Fixtures: servers that never outlive a test, and the server's stderr beside every failure."""

import itertools
import os

import pytest

import server as server_module
from pando_client import CachedClient, Connection, RawSocket
from preload import DISK_FAULTS, build_library
from programs import MISSING
from server import Server


UPGRADE_AFTER = (0, 1, 2, 5)  # messages sent before a session moves to its WebSocket


def pytest_configure(config):
    if not server_module.BINARY.exists():
        raise pytest.UsageError(
            f"no server binary at {server_module.BINARY}: run `swift build -c release --product pando`, "
            "or name one in PANDO_BINARY"
        )


def pytest_addoption(parser):
    parser.addoption("--every", type=int, default=1, metavar="N", help="run one of N tests, in their order")


def pytest_collection_modifyitems(config, items):
    step = config.getoption("every")
    if step > 1:
        config.hook.pytest_deselected(items=[item for number, item in enumerate(items) if number % step])
        items[:] = items[::step]


# With PANDO_REQUIRE_PROGRAMS=1 a test that is skipped because a program is missing has failed: `deploy/test` gets all of them itself.
REQUIRES_PROGRAMS = os.environ.get("PANDO_REQUIRE_PROGRAMS") == "1"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped and isinstance(report.longrepr, tuple):
        missing = MISSING.match(report.longrepr[2])
        if missing and REQUIRES_PROGRAMS:
            report.outcome = "failed"
            report.longrepr = f"{missing[1]} is missing, and deploy/test needs it; PANDO_ALLOW_SKIPS=1 skips its tests"
    if report.when == "call" and report.failed:
        for server in getattr(item, "servers_to_show", []):
            report.sections.append((f"stderr of {' '.join(server.command[1:])}", server.stderr()))


@pytest.fixture
def servers(request, tmp_path):
    """A factory of servers for one test; all are killed at its end."""
    made = request.node.servers_to_show = []

    def make(start=True, **options):
        server = Server(tmp_path / f"server-{len(made)}", **options)
        made.append(server)
        return server.start() if start else server

    yield make
    for server in made:
        server.kill()


@pytest.fixture(scope="session")
def disk_faults(tmp_path_factory):
    """The library of disk_faults.c."""
    return build_library(tmp_path_factory.mktemp("disk-faults"), DISK_FAULTS)


class Shared:
    """One server for many tests, started again if a test brought it down."""

    def __init__(self, folder, **options):
        self.server = Server(folder, **options)
        self.namespaces = map("case-{}".format, itertools.count(1))


@pytest.fixture(scope="session")
def shared_servers(tmp_path_factory):
    shared = {
        "dev": Shared(tmp_path_factory.mktemp("dev")),
        "locked": Shared(tmp_path_factory.mktemp("locked"), dev=False),
    }
    yield shared
    for one in shared.values():
        one.server.kill()


class World:
    """What one test sees of a shared server: a namespace of its own, and connections that close after it."""

    def __init__(self, server, ns, transport="ws"):
        self.server, self.port, self.ns, self.transport = server, server.port, ns, transport
        self.opened = []
        self.upgrades, self.seeds = itertools.cycle(UPGRADE_AFTER), itertools.count(1)

    def transport_options(self):
        """How the next connection travels; those that move do so at various points of what is said."""
        if self.transport == "lossy lp":
            return {"transport": "lp", "losses": next(self.seeds)}
        moves = {"upgrade_after": next(self.upgrades)} if self.transport == "upgrade" else {}
        return {"transport": self.transport} | moves

    def connect(self, ns=None, **options):
        connection = Connection(self.port, ns or self.ns, **self.transport_options(), **options)
        self.opened.append(connection)
        return connection

    def client(self, ns=None, **options):
        client = CachedClient(self.port, ns or self.ns, **self.transport_options(), **options)
        self.opened.append(client)
        return client

    def raw(self, ns=None, **options):
        raw = RawSocket(self.port, ns or self.ns, **options)
        self.opened.append(raw)
        return raw

    def close(self):
        for one in self.opened:
            try:
                one.close()
            except OSError:
                pass  # the test has cut it already


def make_world(request, shared, transport):
    if not shared.server.alive:
        shared.server.start()
    request.node.servers_to_show = [shared.server]
    world = World(shared.server, next(shared.namespaces), transport)
    yield world
    world.close()
    assert shared.server.alive, f"the server went down in this test:\n{shared.server.stderr()}"


@pytest.fixture
def transport():
    """What connections travel over; a test that says nothing about it uses WebSockets."""
    return "ws"


@pytest.fixture
def world(request, shared_servers, transport):
    """A namespace of its own on a shared server in --dev mode, data directory and all."""
    yield from make_world(request, shared_servers["dev"], transport)


@pytest.fixture
def locked_world(request, shared_servers, transport):
    """The same without --dev: no rules, so nothing is allowed. Only the namespace `default` exists."""
    yield from make_world(request, shared_servers["locked"], transport)
