"""`pando-load` against the real server, each scenario at smoke size, and against servers that lose, double or forget
what they were given: the check must fail the run then."""

import asyncio
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading

import pytest
import websockets

import server as server_module
from pando_client import Connection
from rest_client import OWNER, Rest
from server import REPOSITORY, clean_environment

BINARY = pathlib.Path(
    os.environ.get("PANDO_LOAD_BINARY", server_module.BINARY.parent / "pando-load")
).resolve()

pytestmark = pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not built: --product pando-load")

SMOKE = ["--duration", "0.5", "--warm-up", "0.1", "--threads", "2", "--patience", "20"]
LONGER_SMOKE = ["--duration", "10", "--warm-up", "0.1", "--patience", "20"]
FIXTURES = REPOSITORY / "Tests/TLS/Fixtures"
COUNTS = ["missing", "duplicates", "wrong", "refused", "unanswered", "lostConnections"]


def load(scenario, port, *arguments, smoke=SMOKE, timeout=60, environment=None):
    """Runs one scenario; the result and what it wrote as JSON."""
    command = [str(BINARY), scenario, "--url", f"http://127.0.0.1:{port}", "--json", "-", *smoke]
    result = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        env={**clean_environment(), **(environment or {})},
    )
    return result, json.loads(result.stdout) if result.stdout.startswith("{") else None


SCENARIOS = [
    ("fan-out", ["--connections", 20], ["acknowledged", "delivered"]),
    ("fan-out", ["--connections", 20, "--topics", 3, "--rate", 100], ["acknowledged", "delivered"]),
    ("writes", ["--connections", 8, "--in-flight", 4], ["acknowledged"]),
    ("writes", ["--connections", 8, "--rate", 200, "--arrivals", "poisson"], ["acknowledged"]),
    ("writes", ["--connections", 2, "--size", 40000], ["acknowledged"]),
    ("presence", ["--connections", 10], ["back online", "seen online", "seen offline"]),
    ("chat", ["--connections", 20, "--rooms", 3, "--rate", 100], ["acknowledged", "delivered"]),
    ("counter", ["--connections", 10, "--counters", 2], ["increment", "transaction"]),
    ("query", ["--connections", 5, "--items", 100], ["acknowledged", "delivered", "query"]),
    ("reconnect-storm", ["--connections", 20, "--every", "0.2"], ["listening again"]),
    ("idle", ["--connections", 50, "--listen"], ["still answers"]),
    ("rest", ["--connections", 4], ["put", "get"]),
    *[(name, [*arguments, "--transport", "lp"], series) for name, arguments, series in [
        ("fan-out", ["--connections", 20], ["acknowledged", "delivered"]),
        ("writes", ["--connections", 8, "--in-flight", 4], ["acknowledged"]),
        ("presence", ["--connections", 10], ["back online", "seen online", "seen offline"]),
        ("counter", ["--connections", 10, "--counters", 2], ["increment", "transaction"]),
        ("reconnect-storm", ["--connections", 20, "--every", "0.2"], ["listening again"]),
    ]],
]


def test_long_polling_takes_two_requests_for_a_message_at_the_most(world):
    """Both transports in one run, beside each other in its report; how much slower one is, the report says."""
    arguments = ["--namespace", world.ns, "--connections", 10, "--rate", 50, "--transport", "lp", "--transport", "ws"]
    result, report = load("fan-out", world.port, *arguments, smoke=["--duration", "1", "--warm-up", "0.1"])
    assert result.returncode == 0, result.stdout + result.stderr
    polled, socket_run = report["runs"]
    assert [run["target"] for run in report["runs"]] == ["pando lp", "pando ws"]
    assert 0 < polled["httpRequestsPerMessage"] <= 2 and "httpRequestsPerMessage" not in socket_run
    assert report["ratios"].keys() == {"pando ws"}


@pytest.mark.parametrize("arguments", [
    ["rest", "--transport", "lp"], ["fan-out", "--transport", "quic"], ["writes", "--transport", "lp", "--transport", "lp"],
])
def test_transports_that_make_no_sense_are_refused(arguments):
    result, _ = load(arguments[0], 1, *arguments[1:])
    assert result.returncode == 64 and "--transport" in result.stderr, result.stderr


@pytest.mark.parametrize(
    "scenario, arguments, series", SCENARIOS, ids=[f"{one[0]}-{index}" for index, one in enumerate(SCENARIOS)]
)
def test_every_scenario_is_clean(world, scenario, arguments, series):
    keep = world.connect()
    keep.must("p", {"p": "/kept", "d": "untouched"})
    # On a busy machine nothing may fall into a short measurement: then a longer one is tried.
    for smoke in (SMOKE, LONGER_SMOKE):
        result, report = load(scenario, world.port, "--namespace", world.ns, *arguments, smoke=smoke)
        assert result.returncode == 0, result.stdout + result.stderr
        run = report["runs"][0]
        assert run["errors"] == dict.fromkeys(COUNTS, 0)
        assert run["totalOperations"] > 0
        if all(run["latencies"][name]["count"] > 0 for name in series):
            break
    else:
        pytest.fail(f"nothing measured: {run['latencies']}")
    # What it wrote is gone, what others wrote is there.
    assert keep.get("/") == {"kept": "untouched"}


ECHO = BINARY.parent / "pando-echo"


@pytest.mark.skipif(not ECHO.exists(), reason=f"{ECHO} is not built: --product pando-echo")
@pytest.mark.parametrize("scenario", ["fan-out", "writes"])
def test_peer(world, scenario):
    """Both in one run, with their ratio."""
    echo = subprocess.Popen([str(ECHO), "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        port = echo.stdout.readline().rsplit(":", 1)[1].strip()
        arguments = ["--namespace", world.ns, "--connections", 10, "--peer", f"echo=127.0.0.1:{port}"]
        result, report = load(scenario, world.port, *arguments)
    finally:
        echo.kill()
        echo.wait()
    assert result.returncode == 0, result.stdout + result.stderr
    assert [run["target"] for run in report["runs"]] == ["pando", "echo"]
    assert all(run["errors"] == dict.fromkeys(COUNTS, 0) and run["operations"] > 0 for run in report["runs"])
    assert report["ratios"]["echo"] > 0


@pytest.mark.parametrize("scenario", ["fan-out", "rest"])
def test_peer_at_a_url(servers, scenario):
    """The same server through TLS, as beside a proxy; the ratio compares the two."""
    pair = ["--tls-cert", FIXTURES / "localhost.pem", "--tls-key", FIXTURES / "localhost.key"]
    secure, plain = servers(memory=True, arguments=pair), servers(memory=True)
    arguments = ["--ca", FIXTURES / "issuer.pem", "--peer", f"plain=http://localhost:{plain.port}", "--connections", 4]
    # The last --url counts.
    result, report = load(scenario, secure.port, *arguments, "--url", f"https://localhost:{secure.port}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert [run["target"] for run in report["runs"]] == ["pando", "plain"]
    assert all(run["errors"] == dict.fromkeys(COUNTS, 0) and run["operations"] > 0 for run in report["runs"])
    assert report["ratios"]["plain"] > 0


def test_reports(world, tmp_path):
    page = tmp_path / "report.html"
    command = [str(BINARY), "fan-out", "--url", f"http://127.0.0.1:{world.port}", "--namespace", world.ns]
    command += [*SMOKE, "--connections", "5", "--html", str(page), "--json", str(tmp_path / "report.json")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_environment())
    assert result.returncode == 0, result.stderr
    assert "none missing, none twice, none wrong" in result.stdout
    assert result.stderr == "", "the live line is for terminals"
    html = page.read_text()
    assert html.count("<svg") == 3 and "http" not in html and "<script" not in html
    assert json.loads((tmp_path / "report.json").read_text())["scenario"] == "fan-out"


def test_a_run_in_which_nothing_is_due_lasts_until_its_end(world):
    """Clients that wait for a restart send nothing: longer than the patience, here."""
    arguments = ["--namespace", world.ns, "--connections", 5]
    result, report = load(
        "restart", world.port, *arguments, smoke=["--duration", "5", "--warm-up", "0", "--patience", "2"])
    assert result.returncode == 0, result.stdout + result.stderr
    assert report["runs"][0]["seconds"] >= 5


def test_interrupt_prints_the_results_so_far(world):
    command = [str(BINARY), "writes", "--url", f"http://127.0.0.1:{world.port}", "--namespace", world.ns]
    command += ["--connections", "4", "--duration", "600", "--warm-up", "0", "--json", "-"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean_environment())
    try:
        watcher = world.connect()
        watcher.must("q", {"p": "/pando-load", "h": ""})
        assert watcher.next_data()[0] == "push"  # it is writing
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    run = json.loads(output)["runs"][0]
    assert process.returncode == 0 and run["interrupted"] and run["totalOperations"] > 0


def test_a_server_that_dies_ends_the_run(servers):
    server = servers()
    command = [str(BINARY), "writes", "--url", f"http://127.0.0.1:{server.port}", "--patience", "1"]
    command += ["--connections", "4", "--duration", "600", "--warm-up", "0", "--json", "-"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean_environment())
    try:
        with Connection(server.port, "default") as watcher:
            watcher.must("q", {"p": "/pando-load", "h": ""})
            assert watcher.next_data()[0] == "push"  # it is writing
            server.kill()
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    run = json.loads(output)["runs"][0]
    assert process.returncode == 1
    assert run["errors"]["lostConnections"] >= 4 and run["errors"]["unanswered"] > 0
    assert run["leftBehind"].startswith("/pando-load/")


def test_denied_writes_fail_the_run(locked_world):
    result, report = load("writes", locked_world.port, "--connections", 2, "--namespace", "default")
    assert result.returncode == 1
    assert report["runs"][0]["errors"]["refused"] > 0


def test_a_server_that_is_not_there():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # in use, and nothing accepts
        result, report = load("writes", unused.getsockname()[1], "--connections", 2)
    assert result.returncode == 1
    assert "onnect" in " ".join(report["runs"][0]["examples"])


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["writes", "--rate", "-1"], "--rate"),
        (["writes", "--size", "3"], "--size"),
        (["writes", "--url", "ftp://x"], "--url"),
        (["writes", "--peer", "mysql=127.0.0.1:1"], "--peer"),
        (["writes", "--peer", "x=ftp://localhost:1"], "--peer"),
        (["rest", "--peer", "redis=127.0.0.1:6379"], "--peer"),
        (["writes", "--token", "secret"], "--token"),
        (["hostile", "--only", "nonsense"], "many-windows"),
        (["hostile", "--honest", "nonsense"], "slow-readers"),
        (["hostile", "--together", "--only", "pings"], "--together"),
        (["hostile", "--p99-factor", "0"], "--p99-factor"),
        (["nonsense"], "nonsense"),
    ],
)
def test_usage(arguments, words):
    result = subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=20)
    assert result.returncode == 64 and words in result.stderr


def test_more_sockets_than_descriptors_is_refused():
    limited = ["bash", "-c", f'ulimit -n 200; exec "{BINARY}" idle --connections 1000']
    result = subprocess.run(limited, capture_output=True, text=True, timeout=20)
    assert result.returncode == 64 and "descriptors" in result.stderr


# Hostile clients. The limits are as wide as they can be: here the scenario is tested, not the server or the machine.

WIDE = ["--p99-factor", 1e6, "--longest-wait", 1e6, "--memory-limit", 1 << 40, "--memory-after-factor", 1e6]
HOSTILE = ["--seconds-per-phase", 1, "--settle", 0, "--patience", 20]


def hostile(port, *arguments, timeout=120):
    """Runs the scenario; the result and what it wrote as JSON."""
    return load("hostile", port, *arguments, smoke=[*map(str, HOSTILE)], timeout=timeout)


def test_hostile_measures_a_bystander_beside_an_attacker(world):
    keep = world.connect()
    keep.must("p", {"p": "/kept", "d": "untouched"})
    result, report = hostile(world.port, "--namespace", world.ns, "--only", "pings", "--honest", "slow-readers", *WIDE)
    assert result.returncode == 0, result.stdout + result.stderr
    phases = report["phases"]
    assert [phase["phase"] for phase in phases] == ["quiet", "honest", "pings"]
    assert report["broken"] == [] and report["lostWrites"] == 0 and report["checkedWrites"] > 100
    for phase in phases:
        # 200 a second, and an echo for half of them.
        assert phase["bystander"]["count"] == 300 and phase["unanswered"] == 0 and phase["cuts"] == []
        assert phase["serverLives"] and phase["memoryPeak"] > 0
    assert re.match(r"12 connections, [1-9][0-9]* pings, ", phases[2]["work"])
    # What it wrote is gone, what others wrote is there.
    assert keep.get("/") == {"kept": "untouched"}


# A freeze lasts for seconds: before requests waited in turn, all of these attackers but four made all clients wait for 2 to
# 43 s. How much less it is on a machine that has nothing else to do, `pando-load hostile` shows.
FREEZE_MILLISECONDS = 2000
# A server that may use half a gigabyte; what it has beside that budget (the tree, code, stacks) is allowed as much again.
BUDGET_BYTES = 512 << 20


def test_all_attackers_in_turn_and_together(servers):
    """No honest client is disconnected, no acknowledged write is lost, nothing freezes, memory is bounded and is freed."""
    server = servers(arguments=["--memory-limit", BUDGET_BYTES])
    limits = ["--p99-factor", 1e6, "--longest-wait", FREEZE_MILLISECONDS, "--memory-limit", 2 * BUDGET_BYTES]
    result, report = hostile(
        server.port, *limits, "--memory-after-factor", 3, "--settle", 10, "--connections", 2000, "--half-messages", 1000,
        timeout=360)
    assert report["broken"] == [], report["broken"]
    assert result.returncode == 0, result.stdout + result.stderr
    assert report["lostWrites"] == 0 and len(report["phases"]) > 25
    assert all(phase["cuts"] == [] and phase["serverLives"] for phase in report["phases"])


def test_listens_are_in_the_memory_budget(servers):
    """Without it three clients with 20 000 deep listens each take a gigabyte, and are not disconnected for it."""
    server = servers(arguments=["--memory-limit", 64 << 20])
    wide = ["--p99-factor", 1e6, "--longest-wait", 1e6, "--memory-after-factor", 1e6, "--memory-limit", 250 << 20]
    result, report = hostile(
        server.port, "--only", "deep-listens", "--honest", "none", *wide, "--seconds-per-phase", 10)
    assert report["broken"] == [] and report["lostWrites"] == 0, report["broken"]
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("arguments", [["--ca", FIXTURES / "issuer.pem"], ["--ca", FIXTURES / "issuer.pem", "--compress"]])
def test_hostile_clients_over_tls_and_compressed(servers, arguments):
    pair = ["--tls-cert", FIXTURES / "localhost.pem", "--tls-key", FIXTURES / "localhost.key"]
    server = servers(arguments=[*pair, "--memory-limit", BUDGET_BYTES, "--admin-listen", "0"])
    limits = ["--p99-factor", 1e6, "--longest-wait", 1e6, "--memory-limit", 2 * BUDGET_BYTES, "--memory-after-factor", 1e6]
    attackers = ["--only", "flood-connections,half-messages,big-messages,stale-listens", "--connections", 100, "--half-messages", 50]
    # The last --url counts.
    result, report = hostile(server.port, *limits, *attackers, *arguments, "--url", f"https://localhost:{server.port}")
    assert result.returncode == 0 and report["broken"] == [], result.stdout + result.stderr
    assert report["lostWrites"] == 0 and all(phase["cuts"] == [] and phase["serverLives"] for phase in report["phases"])


@pytest.mark.parametrize("arguments, words", [
    (["--ca", "x"], "--ca"), (["--url", "ftp://x"], "https://"), (["--url", "https://localhost:1", "--ca", "/nonexistent"], "--ca"),
    (["--url", "https://localhost:1", "--transport", "lp"], "--transport"), (["--compress", "--transport", "lp"], "--transport"),
])
def test_secure_targets_that_make_no_sense_are_refused(arguments, words):
    result, _ = load("writes", 1, *arguments)
    assert result.returncode == 64 and words in result.stderr, result.stderr


def test_bystander_beside_every_heavy_operation(servers):
    """Every operation is answered, and the bystander beside it; how long it waits is measured on a quiet machine."""
    server = servers()
    rest = Rest(server.port, "default", fields=[OWNER])
    before = {"rules": {".read": True, ".write": True}}
    rest.put_rules(before)
    arguments = ["--children", 20_000, "--rounds", 1, "--longest-wait", 1e6]
    result, report = load("bystander", server.port, *arguments, smoke=[], timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    assert report["broken"] == []
    names = [operation["operation"] for operation in report["operations"]]
    assert names[0] == "quiet" and {"get-all", "merge-100k", "put-validated", "post-validated", "aggregate", "remove"} < set(names)
    # The rules are those of before, and the run's data is gone.
    assert rest.ask("GET", "/.settings/rules.json").json() == before
    assert rest.get("/pando-load") is None


def test_hostile_control_phase_sends_nothing(world):
    arguments = ["--namespace", world.ns, "--only", "flood-connections", "--connections", 20, "--control"]
    result, report = hostile(world.port, *arguments, "--honest", "none", *WIDE)
    assert result.returncode == 0, result.stdout + result.stderr
    assert [phase["phase"] for phase in report["phases"]] == ["quiet", "flood-connections", "control"]
    assert report["phases"][1]["work"].startswith("20 connections") and report["phases"][2]["work"] == ""


def test_hostile_limit_that_is_exceeded_fails_the_run(world):
    arguments = ["--namespace", world.ns, "--only", "flood-connections", "--connections", 20, "--honest", "none"]
    result, report = hostile(world.port, *arguments, *WIDE, "--memory-limit", 1 << 20)
    assert result.returncode == 1
    assert len(report["broken"]) == 2 and all("memory reached" in words for words in report["broken"])


def test_hostile_server_that_dies_fails_the_run(servers):
    server = servers()
    command = [str(BINARY), "hostile", "--url", f"http://127.0.0.1:{server.port}", "--json", "-", "--only", "pings"]
    command += map(str, ["--seconds-per-phase", 20, "--honest", "none", *WIDE])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean_environment())
    try:
        with Connection(server.port, "default") as watcher:
            watcher.must("q", {"p": "/pando-load", "h": ""})
            while "/bystander/set/" not in json.dumps(watcher.next_data()):
                pass
            server.kill()
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    report = json.loads(output)
    assert process.returncode == 1
    assert any("the server is gone" in words for words in report["broken"]), report["broken"]
    assert report["leftBehind"].startswith("/pando-load/")


def test_hostile_without_a_server():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # taken, and no process accepts
        result, report = hostile(unused.getsockname()[1], "--honest", "none", "--only", "pings")
    assert result.returncode == 1 and report["phases"] == [] and len(report["broken"]) == 1


# A correct server, except for the fault that it is given.


class FakeServer:
    """As much of the protocol as `fan-out` and `writes` need. `fault(number, listener)` says how often the push number
    `number` (from 0) reaches listener `listener` (from 0); `stale` answers reads with the value before the last."""

    def __init__(
        self, fault=None, stale=False, swallow=None, repeat=None, stall=(0, 0), leaves=None, compact=False
    ):
        self.fault = fault or (lambda number, listener: 1)
        self.stale = stale
        self.swallow = swallow  # the put whose answer is never sent
        self.repeat = repeat  # the put whose answer is sent twice
        self.stall = stall  # a put, and the seconds it takes
        self.leaves = leaves  # the connection, from 0, whose greeting and end come in one segment
        self.separators = (",", ":") if compact else (", ", ": ")  # most servers print without spaces
        self.values, self.previous, self.listeners = {}, {}, {}
        self.pushes = self.puts = self.peers = 0

    def text(self, kind, message):
        return json.dumps({"t": kind, "d": message}, separators=self.separators)

    async def talk(self, peer):
        number, self.peers = self.peers, self.peers + 1
        if number == self.leaves:
            connection = peer.transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        await peer.send(self.text("c", {"t": "h", "d": {"ts": 1, "v": "5", "h": "x", "s": "s"}}))
        if number == self.leaves:
            return peer.transport.close()
        async for text in peer:
            request = json.loads(text)["d"]
            body, path = request["b"], request["b"]["p"].strip("/")
            data = ""
            if request["a"] == "q":
                self.listeners.setdefault(path, []).append(peer)
                data = {}
            elif request["a"] == "p":
                self.previous[path] = self.values.get(path)
                self.values[path] = body["d"]
                self.puts += 1
                if self.puts == self.stall[0]:
                    await asyncio.sleep(self.stall[1])
                await self.push(path, body["d"])
                if self.puts == self.swallow:
                    continue
            elif request["a"] == "g":
                data = (self.previous if self.stale else self.values).get(path)
            is_twice = request["a"] == "p" and self.puts == self.repeat
            for _ in range(2 if is_twice else 1):
                await peer.send(self.text("d", {"r": request["r"], "b": {"s": "ok", "d": data}}))

    async def push(self, path, value):
        if path not in self.listeners:
            return
        text = self.text("d", {"a": "d", "b": {"p": path, "d": value}})
        number, self.pushes = self.pushes, self.pushes + 1
        for index, peer in enumerate(self.listeners[path]):
            for _ in range(self.fault(number, index)):
                await peer.send(text)

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        started = threading.Event()

        async def serve():
            self.ended = asyncio.Event()
            async with websockets.serve(self.talk, "127.0.0.1", 0) as server:
                self.port = server.sockets[0].getsockname()[1]
                started.set()
                await self.ended.wait()

        self.thread = threading.Thread(target=lambda: self.loop.run_until_complete(serve()), daemon=True)
        self.thread.start()
        assert started.wait(10)
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.ended.set)
        self.thread.join(20)


FAULTY = ["--connections", 4, "--rate", 50]
SHORT = ["--duration", "0.5", "--warm-up", "0", "--threads", "2", "--patience", "2"]


@pytest.mark.parametrize(
    "fault, found",
    [
        (lambda number, listener: 1, {}),
        (lambda number, listener: 0 if (number, listener) == (3, 2) else 1, {"missing": 1}),
        (lambda number, listener: 2 if (number, listener) == (3, 2) else 1, {"duplicates": 1}),
        (lambda number, listener: 0 if listener == 1 and 5 <= number < 8 else 1, {"missing": 3}),
        (lambda number, listener: 0 if number == 4 else 1, {"missing": 4}),
    ],
    ids=["none", "one dropped", "one doubled", "three in a row dropped", "one lost to all"],
)
@pytest.mark.parametrize("compact", [False, True], ids=["spaced", "compact"])
def test_faults_in_deliveries_fail_the_run(fault, found, compact):
    with FakeServer(fault, compact=compact) as fake:
        result, report = load("fan-out", fake.port, *FAULTY, smoke=SHORT)
    errors = report["runs"][0]["errors"]
    assert errors == {**dict.fromkeys(COUNTS, 0), **found}, report["runs"][0]["examples"]
    assert result.returncode == (1 if found else 0)


def test_the_last_delivery_lost_is_found():
    with FakeServer(lambda number, listener: 0 if listener == 0 else 1) as fake:
        result, report = load("fan-out", fake.port, "--connections", 3, "--in-flight", 1, smoke=SHORT)
    assert result.returncode == 1
    assert report["runs"][0]["errors"]["missing"] > 0


def test_a_server_that_forgets_a_write_fails_the_run():
    with FakeServer(stale=True) as fake:
        result, report = load("writes", fake.port, "--connections", 2, "--rate", 50, smoke=SHORT)
    assert result.returncode == 1
    assert report["runs"][0]["errors"]["wrong"] == 2


@pytest.mark.parametrize("compact", [False, True], ids=["spaced", "compact"])
def test_a_missing_reply_fails_the_run(compact):
    with FakeServer(swallow=7, compact=compact) as fake:
        result, report = load("writes", fake.port, "--connections", 2, "--rate", 50, smoke=SHORT)
    assert result.returncode == 1
    assert report["runs"][0]["errors"]["unanswered"] == 1


@pytest.mark.parametrize("compact", [False, True], ids=["spaced", "compact"])
def test_a_duplicate_reply_fails_the_run(compact):
    with FakeServer(repeat=7, compact=compact) as fake:
        result, report = load("writes", fake.port, "--connections", 2, "--in-flight", 4, smoke=SHORT)
    assert result.returncode == 1
    assert report["runs"][0]["errors"] == {**dict.fromkeys(COUNTS, 0), "duplicates": 1}


def test_a_connection_lost_before_the_run_begins_does_not_hold_it_up():
    """All were ready, and one is gone when a closed loop is to fill it. (The first connection is for set-up.)"""
    with FakeServer(leaves=1) as fake:
        arguments = ["--connections", 1, "--in-flight", 3, "--threads", 1]
        result, report = load("writes", fake.port, *arguments, smoke=SHORT)
    assert result.returncode == 1
    assert report["runs"][0]["errors"] == {**dict.fromkeys(COUNTS, 0), "unanswered": 3, "lostConnections": 1}


def test_latency_counts_from_the_intended_moment():
    """After a pause of the server the latency of every operation that was due meanwhile counts, not only of the one in progress."""
    with FakeServer(stall=(5, 0.4)) as fake:
        arguments = ["--connections", 1, "--in-flight", 1, "--rate", 100]
        result, report = load("writes", fake.port, *arguments, smoke=SHORT)
    assert result.returncode == 0, result.stdout
    latencies = report["runs"][0]["latencies"]["acknowledged"]
    assert latencies["count"] == 50
    assert latencies["p50"] > 100_000 and latencies["max"] > 390_000


def test_token_from_the_environment(world):
    result, report = load("writes", world.port, "--namespace", world.ns, environment={"PANDO_LOAD_TOKEN": "owner"})
    assert result.returncode == 0, result.stdout
    assert "owner" not in re.sub(r"\s", "", json.dumps(report))
