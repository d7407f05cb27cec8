"""Large messages and clients that do not read: no message is lost or reordered, other clients do not wait, memory is bounded."""

import contextlib
import json
import pathlib

import server as server_module
from pando_client import Connection, RawSocket

PING, PONG = RawSocket.PING, RawSocket.PONG


def connect(server):
    return Connection(server.port, "demo")


def many_leaves(count):
    return {f"k{index:06}": f"value {index}" for index in range(count)}


def resident_bytes(process_id):
    for line in pathlib.Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def test_answers_keep_their_order_whatever_their_sizes(world):
    client = world.connect()
    client.must("p", {"p": "/text", "d": "x" * 300_000})
    client.must("p", {"p": "/big", "d": many_leaves(5000)})
    paths = ["/text", "/big", "/none", "/big", "/big", "/text", "/none"] * 5
    numbers = [client.request("g", {"p": path, "q": {}}) for path in paths]
    answers = [client.next_data() for _ in numbers]
    assert [number for _, number, _ in answers] == numbers
    sizes = [len(json.dumps(body["d"])) for _, _, body in answers]
    assert sizes[0] > 300_000 and sizes[1] > 100_000 and sizes[2] == len("null")


def test_listens_of_an_app_that_starts_all_get_their_data(world):
    client = world.connect()
    client.must("p", {"p": "/medium", "d": {f"m{index}": "y" * 500 for index in range(500)}})
    client.must("p", {"p": "/big", "d": many_leaves(4000)})
    other = world.connect()
    numbers = [other.request("q", {"p": path, "h": ""}) for path in ("/medium", "/big", "/empty")]
    for number in numbers:
        assert other.response(number) == {"s": "ok", "d": {}}
    pushes = dict((body["p"], body["d"]) for _, body in other.taken_pushes())
    assert len(pushes["medium"]) == 500 and len(pushes["big"]) == 4000


def test_a_ping_during_a_large_read_lands_between_frames(world):
    world.connect().must("p", {"p": "/big", "d": many_leaves(100_000)})
    raw = world.raw()
    raw.receive_text()
    raw.send_frame(json.dumps({"t": "d", "d": {"r": 1, "a": "g", "b": {"p": "/big", "q": {}}}}).encode())
    count = int(raw.receive_text())
    assert count > 100
    raw.send_frame(b"are you there?", PING)
    raw.send_frame(b'{"t":"c","d":{"t":"p","d":{}}}')
    message, pongs = "", 0
    for _ in range(count):
        _, opcode, payload = raw.receive_frame()
        while opcode == PONG:
            assert payload == b"are you there?"
            pongs += 1
            _, opcode, payload = raw.receive_frame()
        message += payload.decode()
    answer = json.loads(message)
    assert answer["d"]["r"] == 1 and len(answer["d"]["b"]["d"]) == 100_000
    # The protocol's own pong is a text frame: it has to wait for the last chunk (15.10).
    while True:
        _, opcode, payload = raw.receive_frame()
        if opcode == PONG:
            pongs += 1
            continue
        assert json.loads(payload) == {"t": "c", "d": {"t": "o", "d": None}}
        break
    assert pongs <= 1


def test_a_value_that_no_message_can_hold_is_refused_not_dropped(world):
    client = world.connect()
    for index in range(17):
        client.must("p", {"p": f"/huge/{index}", "d": "z" * 10_000_000})
    reader = world.connect()
    assert reader.ask("g", {"p": "/huge", "q": {}})["s"] == "too_big"
    assert reader.ask("p", {"p": "/huge", "d": 1, "h": "wrong", "cv": True})["s"] == "too_big"
    assert reader.ask("g", {"p": "/huge/3", "q": {}})["s"] == "ok"
    # A listen cannot do without its data: the connection says why and ends (3.2, 14).
    listener = world.raw()
    listener.receive_text()
    listener.send_frame(json.dumps({"t": "d", "d": {"r": 1, "a": "q", "b": {"p": "/huge", "h": ""}}}))
    notice = json.loads(listener.receive_text())
    assert notice["t"] == "c" and notice["d"]["t"] == "e" and "too large" in notice["d"]["d"], notice
    listener.expect_closed()
    client.must("p", {"p": "/huge", "d": None})


def test_a_large_push_reaches_every_client_that_reads(world):
    writer = world.connect()
    listeners = [world.connect() for _ in range(3)]
    for listener in listeners:
        listener.must("q", {"p": "/shared", "h": ""})
    value = many_leaves(50_000)
    writer.must("p", {"p": "/shared", "d": value})
    writer.must("p", {"p": "/shared/after", "d": 1})
    for listener in listeners:
        listener.fence()
        pushes = listener.taken_pushes()
        assert [body["p"] for _, body in pushes] == ["shared", "shared/after"]
        assert pushes[0][1]["d"] == value


def test_a_merge_far_down_is_no_larger_in_the_log_than_on_the_wire(servers):
    server = servers()
    client = connect(server)
    base = "/" + "/".join(chr(ord("a") + depth % 26) * 700 for depth in range(31))
    client.must("m", {"p": base, "d": {f"e{index}": 1 for index in range(12_000)}})
    size = sum(path.stat().st_size for path in server.data.iterdir())
    assert size < 5_000_000, size
    server.kill()
    server.start()
    assert connect(server).get(base + "/e11999") == 1


def test_pending_writes_of_a_session_are_bounded(servers):
    server = servers()
    client = connect(server)
    value = "v" * 1_000_000
    for _ in range(40):
        client.must("o", {"p": "/gone", "d": value})
        client.must("oc", {"p": "/gone", "d": None})
    statuses = [client.ask("o", {"p": f"/gone/{index}", "d": value})["s"] for index in range(20)]
    assert statuses[0] == "ok" and statuses[-1] == "too_big"
    # What was accepted runs, however much it is.
    server.kill()
    server.start()
    kept = connect(server).get("/gone")
    assert len(kept) == statuses.count("ok")


def test_offline_commands_leave_pending_writes_to_the_next_server(servers):
    server = servers()
    client = connect(server)
    client.must("o", {"p": "/status", "d": "offline"})
    server.kill()
    assert server_module.run("namespace", "create", "--data", str(server.data), "another").returncode == 0
    server.start()
    assert connect(server).get("/status") == "offline"


def test_a_client_that_does_not_read_its_replies_costs_little_memory(servers):
    server = servers()
    writer = connect(server)
    writer.must("p", {"p": "/text", "d": "x" * 10_000_000})
    before = resident_bytes(server.process.pid)
    greedy = RawSocket(server.port, "demo")
    request = json.dumps({"t": "d", "d": {"r": 1, "a": "g", "b": {"p": "/text", "q": {}}}}).encode()
    with contextlib.suppress(ConnectionError):  # the server may have had enough before the last
        for _ in range(400):
            greedy.send_frame(request)
    # The server has taken them all when it answers what comes behind them on another connection.
    for number in range(50):
        writer.must("p", {"p": "/n", "d": number})
    grown = resident_bytes(server.process.pid) - before
    assert grown < 400_000_000, f"{grown >> 20} MiB for 400 unread replies"
    greedy.close()
