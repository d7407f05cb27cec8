"""REST beside hostile clients: other clients do not wait and are not shut out, and memory is bounded."""

import gzip
import select
import time

from pando_client import DEADLINE
from rest_client import Rest, Wire

SINGLE = ["--loops", 1]
SLOW = ["--request-timeout", 1]
TOO_LARGE = "Payload too large"
WRITE_TOO_LARGE = "Data to write exceeds the maximum size that can be modified with a single request."
MALFORMED = "Invalid data; couldn't parse JSON object, array, or value."
MIB = 1 << 20
GZIP = ("Content-Encoding", "gzip")


def zeros(count):
    return b"[" + b"0," * (count - 1) + b"0]"


def has_answer(wire):
    return bool(wire.buffer) or bool(select.select([wire.tcp], [], [], 0)[0])


def test_others_are_answered_while_a_large_body_is_read(servers):
    server = servers(arguments=SINGLE)
    rest = Rest(server.port, "default")
    rest.put("/b", 1)
    body = zeros(1_000_000)[:-1] + b"x"  # is refused at its very end, so that nothing is written
    with Wire(server.port) as wire:
        wire.send(wire.request_bytes("PUT", "/a.json?ns=default", body)[:-1])
        for _ in range(200):  # each takes a turn of the loop, and so does what has come of the body
            assert rest.get("/b") == 1
        wire.send(b"x")
        for _ in range(5):
            assert rest.get("/b") == 1
        assert not has_answer(wire), "the body was read before others were answered"
        wire.receive().expect_error(400, MALFORMED)
        wire.ask("GET", "/b.json?ns=default").expect(200, "1")


def test_a_bomb_is_refused(servers):
    server = servers()
    rest = Rest(server.port, "default")
    rest.ask("PUT", "/a.json", gzip.compress(zeros(12_500_000)), [GZIP]).expect_error(413, TOO_LARGE)
    # Little may repeat itself as much as it likes.
    rest.ask("PUT", "/a.json?print=silent", gzip.compress(b'"' + b"x" * 1_000_000 + b'"'), [GZIP]).expect(204)


def test_the_memory_of_a_parsed_body_counts(servers):
    """At 64 bytes for each node: 8 MiB are 131,072 of them."""
    server = servers(arguments=["--max-write-bytes", 8 * MIB])
    rest = Rest(server.port, "default")
    bad = [zeros(132_000), b'{"a":' + zeros(132_000) + b"}", b"[" + b"[0]," * 66_000 + b"0]"]
    for body in bad:
        rest.ask("PUT", "/a.json", body).expect_error(400, WRITE_TOO_LARGE)
    members = b",".join(b'"k%d":0' % number for number in range(66_000))
    rest.ask("PATCH", "/a.json", b"{" + members + b"}").expect_error(400, WRITE_TOO_LARGE)
    assert rest.get("/a") is None
    rest.ask("PUT", "/a.json?print=silent", zeros(130_000)).expect(204)


def test_a_large_body_that_would_be_refused_is_not_read(servers):
    server = servers(dev=False)  # no rules: only administrators have access
    length = ("Content-Length", 10_000_000)
    cases = [
        ("/a.json?ns=nobodys", [], 404, "404 Not Found"),
        ("/a.json?ns=nobodys&auth=garbage", [], 404, "404 Not Found"),
        ("/a.json?ns=default", [], 401, "Permission denied"),
        ("/a.json?ns=default&auth=garbage", [], 401, "Could not parse auth token."),
        ("/a.json?ns=default", [("Authorization", "Bearer x")], 401, "Unauthorized request."),
        ("/.settings/rules.json?ns=default", [], 401, "Unauthorized request."),
    ]
    for target, fields, status, text in cases:
        with Wire(server.port) as wire:
            wire.send(wire.head("PUT", target, [length, *fields, ("Expect", "100-continue")]))
            wire.receive().expect_error(status, text)
        with Wire(server.port) as wire:  # not announced: it is asked when much has come
            wire.send(wire.head("PUT", target, [("Transfer-Encoding", "chunked"), *fields]))
            wire.send_as_far_as_possible(b"20000\r\n" + b"1" * 0x20000 + b"\r\n")
            wire.receive().expect_error(status, text)


def test_100_continue_is_sent_once_a_large_body_is_admitted(servers):
    server = servers()
    body = b'"' + b"x" * 200_000 + b'"'
    with Wire(server.port) as wire:
        for framing, data in [(("Content-Length", len(body)), body),
                              (("Transfer-Encoding", "chunked"), wire.chunked(body[:70_000], body[70_000:]))]:
            wire.send(wire.head("PUT", "/a.json?ns=default", [framing, ("Expect", "100-continue")]))
            assert wire.receive_head().status == 100
            wire.send(data)
            wire.receive().expect(200, body)
        # And behind it, at once, the next one.
        wire.send(wire.request_bytes("PUT", "/b.json?ns=default&print=silent", body)
                  + wire.request_bytes("GET", "/b.json?ns=default"))
        wire.receive().expect(204)
        wire.receive().expect(200, body)
        wire.ask("PUT", "/c.json?ns=default&auth=owner", gzip.compress(body), [GZIP]).expect(200, body)


def test_database_and_credentials_are_checked_before_the_body(servers):
    server = servers(dev=False, arguments=["--max-write-bytes", 100_000])
    large = [("Content-Length", 100_001)]
    cases = [([GZIP, ("Content-Length", 3)], b"abc", 401), ([("Content-Encoding", "br"), ("Content-Length", 1)], b"1", 415),
             (large, b"", 413)]
    for fields, body, status in cases:
        def ask(target, more=()):
            with Wire(server.port) as wire:
                wire.send(wire.head("PUT", target, [*fields, *more]) + body)
                return wire.receive()
        ask("/a.json?ns=nobodys").expect_error(404)
        ask("/a.json?ns=default&auth=garbage").expect_error(401, "Could not parse auth token.")
        ask("/a.json?ns=default", [("Authorization", "Bearer\tx")]).expect_error(401, "Unauthorized request.")
        if status != 401:
            ask("/a.json?ns=default").expect_error(status)
    dev = servers()
    Rest(dev.port, "default").ask("PUT", "/a.json", b"abc", [GZIP]).expect_error(
        400, "Invalid data; the body is not valid gzip.")


def test_a_body_that_stalls_is_408_however_much_has_come(servers):
    server = servers(arguments=SLOW)
    for size in (10, 50_000, 500_000):
        with Wire(server.port) as wire:
            wire.send(wire.head("PUT", "/a.json?ns=default", [("Content-Length", MIB)]) + b'"' + b"x" * size)
            wire.receive().expect_error(408)


def test_large_stalled_bodies_do_not_block_others(servers):
    """The client that holds most is cut off, with an error that does not blame it."""
    server = servers(arguments=[*SINGLE, "--request-timeout", 600, "--memory-limit", 512 * MIB])
    piece = b"x" * (4 * MIB)
    with Wire(server.port) as most, Wire(server.port) as second, Wire(server.port) as third:
        for wire, mib in [(most, 252), (second, 248)]:
            wire.send(wire.head("PUT", "/a.json?ns=default", [("Content-Length", 256 * MIB)]) + b'"')
            for _ in range(mib // 4):
                wire.send(piece)
            Rest(server.port, "default").put("/small", 1)
        body = b'"' + b"x" * (9 * MIB) + b'"'
        third.send(third.head("PUT", "/b.json?ns=default&print=silent", [("Content-Length", len(body) + 20 * MIB)]) + body)
        for _ in range(5):
            third.send(b" " * (4 * MIB))
        third.receive().expect(204)
        refused = most.receive()
        refused.expect_error(503)
        assert int(refused.header("Retry-After")) > 0
        assert not has_answer(second)
        Rest(server.port, "default").put("/small", 2)


def test_an_options_with_a_body_is_a_preflight(servers):
    server = servers()
    with Wire(server.port) as wire:
        answer = wire.ask("OPTIONS", "/a.json?ns=default", "{}")
        answer.expect(200, b"")
        assert answer.header("Connection") == "close"


def test_a_refusal_of_a_malformed_request_has_cors_headers_and_no_body_for_head(servers):
    server = servers(arguments=SLOW)
    for method in ("GET", "HEAD"):
        cases = [(f"{method} /a.json HTTP/1.1\r\n\r\n", 400), (f"{method} /{'x' * 100_000}.json HTTP/1.1\r\n", 414),
                 (f"{method} /a.json HTTP/1.1\r\nHost: localhost\r\nX: {'x' * 500_000}\r\n\r\n", 431),
                 (f"{method} /a.json HTTP/1.1\r\nHost: localhost\r\n", 408)]
        for text, status in cases:
            with Wire(server.port) as wire:
                wire.send_as_far_as_possible(text.encode())
                answer = wire.receive(method)
                assert answer.status == status and answer.header("Access-Control-Allow-Origin") == "*", answer
                wire.expect_closed()


def test_only_administrators_may_inspect(servers):
    server = servers(dev=False)
    for target in ("/.inspect/none.json", "/.settings/none.json", "/.inspect/databases.json", "/.inspect/coverage"):
        Rest(server.port, "default").ask("GET", target).expect_error(401, "Unauthorized request.")
    rest = Rest(servers().port, "default")
    owner = [("Authorization", "Bearer owner")]
    rest.ask("GET", "/.inspect/none.json", fields=owner).expect_error(400)
    rest.ask("GET", "/.settings/none.json", fields=owner).expect_error(400)
