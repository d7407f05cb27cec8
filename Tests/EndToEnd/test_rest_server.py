"""What REST promises about the whole server: limits that an operator sets, and writes that outlive a kill."""

import gzip

from pando_client import Connection
from rest_client import Rest, Wire

LIMIT = 100_000  # bytes
TOO_LARGE = "Payload too large"
READ_TOO_LARGE = "Data requested exceeds the maximum size that can be accessed with a single request."


def text_of(size):
    """A JSON string of this many bytes."""
    return '"' + "x" * (size - 2) + '"'


def test_a_body_up_to_the_write_limit_is_taken_and_one_above_it_is_413(servers):
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
    response = rest.ask("PUT", "/b.json", body, [("Content-Encoding", "gzip")])
    assert response.status in (400, 413), response
    assert Rest(server.port, "default").get("/b") is None


def test_an_answer_above_the_read_limit_is_refused(servers):
    server = servers(arguments=["--max-read-bytes", LIMIT])
    rest = Rest(server.port, "default")
    for number in range(3):
        rest.put(f"/a/{number}", "x" * (LIMIT // 2))
    rest.ask("GET", "/a.json").expect_error(400, READ_TOO_LARGE)
    assert rest.get("/a/1") == "x" * (LIMIT // 2)
    assert rest.get("/a", "shallow=true") == {"0": True, "1": True, "2": True}


def test_what_rest_acknowledged_outlives_a_kill(servers):
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


def test_every_loop_and_both_doors_see_one_database(servers):
    server = servers(arguments=["--loops", 3])
    clients = [Rest(server.port, "default") for _ in range(12)]
    for number, client in enumerate(clients):
        client.put(f"/k{number}", number)
    for client in clients:
        assert client.get("/") == {f"k{number}": number for number in range(12)}
    with Connection(server.port, "default") as connection:
        assert connection.get("/k7") == 7
