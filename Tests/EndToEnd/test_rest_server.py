"""What REST promises about the whole server: limits that an operator sets, and writes that outlive a kill."""

import gzip
import resource
import select
import threading
import time

import pytest

from pando_client import DEADLINE, Connection
from rest_client import OWNER, EventStream, Rest, Wire

LIMIT = 100_000  # bytes
TOO_LARGE = "Payload too large"
READ_TOO_LARGE = "Data requested exceeds the maximum size that can be accessed with a single request."


def text_of(size):
    """A JSON string of this many bytes."""
    return '"' + "x" * (size - 2) + '"'


def test_a_body_up_to_the_write_limit_is_accepted_and_one_above_it_is_413(servers):
    server = servers(arguments=["--max-write-bytes", LIMIT])
    rest = Rest(server.port, "default")
    rest.ask("PUT", "/a.json?print=silent", text_of(LIMIT)).expect(204)
    too_large = text_of(LIMIT + 1)
    for method, body in [("PUT", too_large), ("POST", too_large), ("PATCH", f'{{"b":{too_large}}}')]:
        with Wire(server.port) as wire:
            wire.send_as_far_as_possible(wire.request_bytes(method, "/b.json?ns=default", body))
            wire.receive().expect_error(413, TOO_LARGE)
    assert rest.get("/b") is None


def test_chunks_above_the_write_limit_are_413_before_they_end(servers):
    server = servers(arguments=["--max-write-bytes", LIMIT])
    with Wire(server.port) as wire:
        wire.send(wire.head("PUT", "/b.json?ns=default", [("Transfer-Encoding", "chunked")]))
        chunk = b"2710\r\n" + b"1" * 10_000 + b"\r\n"
        wire.send_as_far_as_possible(chunk * 12)  # and no last chunk
        wire.receive().expect_error(413, TOO_LARGE)
    assert Rest(server.port, "default").get("/b") is None


def test_gzip_that_inflates_above_the_write_limit_is_refused(servers):
    server = servers(arguments=["--max-write-bytes", LIMIT])
    rest = Rest(server.port, "default")
    body = gzip.compress(text_of(LIMIT * 2).encode())
    rest.ask("PUT", "/b.json", body, [("Content-Encoding", "gzip")]).expect_error(413, TOO_LARGE)
    assert Rest(server.port, "default").get("/b") is None


def test_an_answer_above_the_read_limit_is_refused(servers):
    server = servers(arguments=["--max-read-bytes", LIMIT])
    rest = Rest(server.port, "default")
    for number in range(3):
        rest.put(f"/a/{number}", "x" * (LIMIT // 2))
    rest.ask("GET", "/a.json").expect_error(400, READ_TOO_LARGE)
    assert rest.get("/a/1") == "x" * (LIMIT // 2)
    assert rest.get("/a", "shallow=true") == {"0": True, "1": True, "2": True}


def test_acknowledged_rest_writes_survive_a_kill(servers):
    server = servers()
    rest = Rest(server.port, "default")
    rest.put("/a", {"b": 1, "p": {".value": 1, ".priority": "x"}})
    rest.patch("/", {"a/c": 2, "gone": 1})
    name = rest.must("POST", "/list", '"posted"').json()["name"]
    rest.must("DELETE", "/gone")
    rest.put("/n", {".sv": {"increment": 5}})
    tag = rest.ask("GET", "/.json", fields=[("X-Firebase-ETag", "true")]).etag
    server.restart()
    rest = Rest(server.port, "default")
    assert rest.get("/", "format=export") == {
        "a": {"b": 1, "c": 2, "p": {".value": 1, ".priority": "x"}}, "list": {name: "posted"}, "n": 5,
    }
    rest.ask("GET", "/.json", fields=[("if-none-match", tag)]).expect(304, b"")
    later = rest.must("POST", "/list", '"after"').json()["name"]
    assert later > name, "names go on growing"


def test_at_the_file_size_limit_writes_are_refused_and_the_server_goes_on(servers):
    server = servers()
    rest, kept = Rest(server.port, "default"), []
    limit = 24 << 20
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    for number in range(60):
        answer = rest.ask("PUT", f"/{number}.json?print=silent", text_of(1 << 20))
        if answer.status != 204:
            break
        kept.append(str(number))
    assert answer.status == 503 and "disk is full" in answer.text and kept, answer
    assert rest.get("/", "shallow=true") == dict.fromkeys(kept, True)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    deadline = time.monotonic() + DEADLINE
    while rest.ask("PUT", "/after.json", "1").status != 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    server.restart()
    assert Rest(server.port, "default").get("/", "shallow=true") == dict.fromkeys([*kept, "after"], True)


def test_every_loop_and_both_protocols_see_one_database(servers):
    server = servers(arguments=["--loops", 3])
    clients = [Rest(server.port, "default") for _ in range(12)]
    for number, client in enumerate(clients):
        client.put(f"/k{number}", number)
    for client in clients:
        assert client.get("/") == {f"k{number}": number for number in range(12)}
    with Connection(server.port, "default") as connection:
        assert connection.get("/k7") == 7


def test_large_data_is_checked_before_the_first_byte_while_others_go_on(servers):
    """What is over the limit is a clean 400; what is not has its tag, and 304 costs no body."""
    limit = 4_000_000
    server = servers(arguments=["--max-read-bytes", limit])
    rest = Rest(server.port, "default")
    for number in range(5):
        rest.put(f"/a/{number}", {str(key): "x" * 90_000 for key in range(10)})
    rest.ask("GET", "/a.json").expect_error(400, READ_TOO_LARGE)
    rest.ask("HEAD", "/a.json").expect(400)
    tag = rest.ask("GET", "/a/1.json", fields=[("X-Firebase-ETag", "true")]).expect(200).etag
    rest.ask("GET", "/a/1.json", fields=[("if-none-match", tag)]).expect(304, b"")
    stale = rest.ask("PUT", "/a/1.json", "1", [("if-match", "other")]).expect(412)
    assert stale.etag == tag and len(stale.json()) == 10
    with Wire(server.port) as wire:  # in their order, on one connection
        targets = ["/a.json", "/a/1.json", "/none.json", "/a.json", "/a/2/3.json"]
        wire.send(b"".join(wire.request_bytes("GET", f"{target}?ns=default") for target in targets))
        statuses = [wire.receive().status for _ in targets]
        assert statuses == [400, 200, 200, 400, 200]


SLOW = ["--request-timeout", 1]


def test_a_long_pipeline_is_answered_in_order(servers):
    """Hundreds of KiB of requests, some answered at once, most by the database: each waits for the one before it."""
    server = servers()
    count = 2000
    requests, expected = [], []
    for number in range(count):
        requests += [
            f"PUT /p/{number}.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(str(number))}\r\n\r\n{number}",
            f"GET /p/{number}.json HTTP/1.1\r\nHost: localhost\r\n\r\n"]
        expected += [str(number)] * 2
        if number % 7 == 0:
            requests.append("OPTIONS /p.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
            expected.append("")
    with Wire(server.port) as wire:
        threading.Thread(target=wire.send, args=("".join(requests),), daemon=True).start()
        stream = wire.tcp.makefile("rb")
        for body in expected:
            assert stream.readline().startswith(b"HTTP/1.1 200 ")
            length = 0
            while (line := stream.readline()) != b"\r\n":
                name, _, value = line.partition(b":")
                if name == b"Content-Length":
                    length = int(value)
            assert stream.read(length).decode() == body


def test_a_slow_head_is_408(servers):
    server = servers(arguments=SLOW)
    for start in ("G", "GET /a.json HTTP/1.1\r\nHost: localhost\r\nX-Slow: "):
        with Wire(server.port) as wire:
            wire.send(start)
            response = wire.receive()
            response.expect_error(408, "Request Timeout")
            assert response.header("Connection") == "close", response
            wire.expect_closed()


def test_a_head_that_comes_byte_by_byte_is_408(servers):
    server = servers(arguments=SLOW)
    with Wire(server.port) as wire:
        wire.send("GET /a.json HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        deadline = time.monotonic() + DEADLINE
        wire.tcp.setblocking(False)
        while time.monotonic() < deadline:
            try:
                wire.tcp.send(b"x")
                if wire.tcp.recv(1, 2):  # MSG_PEEK: something has come
                    break
            except BlockingIOError:
                time.sleep(0.01)  # as a trickling client does
        wire.tcp.setblocking(True)
        wire.receive().expect_error(408)


def test_a_slow_body_is_408_and_writes_nothing(servers):
    server = servers(arguments=SLOW)
    for fields, body in [([("Content-Length", 10)], b"1"), ([("Transfer-Encoding", "chunked")], b"1\r\n1\r\n"),
                         ([("Content-Length", 1), ("Expect", "100-continue")], b"")]:
        with Wire(server.port) as wire:
            wire.send(wire.head("PUT", "/a.json?ns=default", fields) + body)
            if not body:
                assert wire.receive_head().status == 100
            wire.receive().expect_error(408)
            wire.expect_closed()
    assert Rest(server.port, "default").get("/") is None


def test_a_body_that_keeps_coming_may_take_longer(servers):
    """500 bytes a second are enough, over any request timeout."""
    server = servers(arguments=SLOW)
    with Wire(server.port) as wire:
        wire.send(wire.head("PUT", "/a.json?ns=default", [("Transfer-Encoding", "chunked")]) + b'1\r\n"\r\n')
        for _ in range(3):
            with Wire(server.port) as other:  # is given up meanwhile: time has passed for both
                other.send("G")
                while not select.select([other.tcp], [], [], 0.05)[0]:
                    wire.send(b"400\r\n" + b"x" * 0x400 + b"\r\n")
                other.receive().expect_error(408)
        wire.send(b'1\r\n"\r\n0\r\n\r\n')
        wire.receive().expect(200)


def test_an_idle_connection_is_closed_without_a_response(servers):
    server = servers(arguments=[*SLOW, "--idle-timeout", 60])
    with Wire(server.port) as wire, Wire(server.port) as slow:
        wire.ask("GET", "/a.json?ns=default").expect(200, "null")
        slow.send("G")
        slow.receive().expect_error(408)
        # Younger than its idle timeout: it goes on, though slow requests are given up.
        wire.ask("GET", "/a.json?ns=default").expect(200, "null")


TIMED_OUT = "The request took longer than its timeout"


def test_a_read_that_takes_longer_than_its_timeout_is_400(servers):
    server = servers()
    rest = Rest(server.port, "default")
    # Putting so many children in the order of their strings takes longer than a millisecond, with an index too.
    rest.ask("PUT", "/.settings/rules.json", '{"rules":{".read":true,".write":true,".indexOn":".value"}}',
             [("Authorization", "Bearer owner")]).expect(200)
    rest.put("/", {f"k{number:06d}": f"v{number * 7919 % 100_003:06d}" for number in range(100_000)})
    query = '/.json?orderBy="$value"&limitToLast=99999'
    refused = rest.ask("GET", query + "&timeout=1ms")
    refused.expect_error(400, TIMED_OUT)
    assert refused.header("Connection") == "close"
    rest.ask("GET", query + "&timeout=15min").expect(200)
    rest.ask("GET", "/k000001.json?timeout=10s").expect(200, '"v007919"')


WRITE_TOO_LARGE = "Data to write exceeds the maximum size that can be modified with a single request."
SECOND = (256 << 20) // 60  # bytes a write is taken to do in a second


def test_a_write_is_estimated_against_its_size_limit(servers):
    server = servers()
    rest = Rest(server.port, "default")
    half = "x" * (SECOND // 2)
    rest.ask("PUT", "/a/1.json?writeSizeLimit=tiny&print=silent", f'"{half}"').expect(204)
    rest.ask("PUT", "/a/2.json?writeSizeLimit=tiny&print=silent", f'"{half}"').expect(204)
    rest.ask("PUT", "/a/3.json?writeSizeLimit=tiny&print=silent", f'"{half}xx{half}"').expect_error(400, WRITE_TOO_LARGE)
    # What goes counts as what comes does.
    rest.ask("PUT", "/a/3.json?writeSizeLimit=small&print=silent", '"x"').expect(204)
    for method, body in [("DELETE", None), ("PUT", "1"), ("PATCH", "null"), ("PATCH", '{"1":null,"2":null,"3":0}')]:
        rest.ask(method, "/a.json?writeSizeLimit=tiny", body).expect_error(400, WRITE_TOO_LARGE)
    rest.ask("POST", "/a.json?writeSizeLimit=tiny", "1").expect(200)
    rest.ask("PATCH", "/a.json?writeSizeLimit=tiny", '{"1":null,"3":2}').expect(200)
    rest.ask("DELETE", "/a.json?writeSizeLimit=unlimited").expect(200, "null")


def test_the_instance_has_a_write_size_limit_of_its_own(servers):
    server = servers()
    rest = Rest(server.port, "default")
    owner = [("Authorization", "Bearer owner")]
    big = '"' + "x" * (SECOND + 1) + '"'
    rest.ask("PUT", "/a.json?print=silent", big).expect(204)
    rest.ask("PUT", "/.settings/defaultWriteSizeLimit.json", '"tiny"', owner).expect(200)
    rest.ask("PUT", "/b.json?print=silent", big).expect_error(400, WRITE_TOO_LARGE)
    rest.ask("PUT", "/b.json?print=silent&writeSizeLimit=large", big).expect(204)
    server.restart()
    rest = Rest(server.port, "default")
    rest.ask("DELETE", "/a.json").expect_error(400, WRITE_TOO_LARGE)
    rest.ask("DELETE", "/a.json?writeSizeLimit=medium").expect(200)


def test_a_large_first_event_of_a_stream_is_complete(servers):
    """It is looked at before it is sent; what is written meanwhile comes behind it."""
    server = servers(arguments=["--max-read-bytes", LIMIT])
    rest = Rest(server.port, "default")
    value = {str(key): "x" * 9_000 for key in range(200)}
    rest.put("/a", value)
    with EventStream(server.port, "/a.json?ns=default") as stream:
        rest.put("/a/new", 1)
        stream.next()
        rest.put("/a/newer", 2)
    with EventStream(server.port, "/a.json?ns=default") as stream:
        stream.put("/", {**value, "new": 1, "newer": 2})
        rest.put("/a/new", 3)
        stream.put("/new", 3)


HALF_CLOSED = [
    # method, target, body
    ("GET", "/a.json", None),
    ("GET", "/large.json?format=export&download=large.json", None),
    ("GET", "/large.json?orderBy=\"$key\"&limitToFirst=2", None),
    ("PUT", "/b.json", text_of(200_000)),
    ("GET", "/.inspect/stats.json", None),
    ("GET", "/.inspect/connections.json", None),
    ("GET", "/.inspect/operations.json", None),
    ("GET", "/.inspect/log.json", None),
    ("GET", "/.inspect/databases.json", None),
    ("GET", "/.inspect/denials.json", None),
    ("GET", "/.inspect/children.json?path=/large", None),
    ("POST", "/.inspect/evaluate.json", '{"method":"read","path":"/a"}'),
    ("GET", "/.inspect/backup", None),
    ("GET", "/.settings/rules.json", None),
    ("PUT", "/.settings/rules.json", '{"rules":{".read":true,".write":true}}'),
    ("PUT", "/.settings/rules.json", '{"rules":{".read":true}}' + " " * 20_000),
]


@pytest.mark.parametrize("method, target, body", HALF_CLOSED, ids=[f"{row[0]} {row[1]}" for row in HALF_CLOSED])
def test_a_client_that_closes_its_side_behind_its_request_is_answered(servers, method, target, body):
    """RFC 9112 §9.6; also where another thread answers."""
    server = servers()
    Rest(server.port, "default", fields=[OWNER]).put("/large", {f"k{index}": "x" * 1000 for index in range(300)})
    with Wire(server.port) as wire:
        wire.send(wire.request_bytes(method, target, body, [OWNER]))
        wire.half_close()
        wire.receive().expect(200)
        wire.expect_closed()


def test_a_reading_of_the_past_ends_when_its_client_closes_its_side(servers):
    """§10.1: others wait for the thread."""
    server = servers()
    with Wire(server.port) as wire:
        wire.send(wire.request_bytes("GET", "/.inspect/history.json?path=/a", None, [OWNER]))
        wire.half_close()
        received = wire.tcp.recv(1 << 16)
        assert received == b"" or b" 200 " in received, "unless it was quicker"
