"""HTTP/1.1 connections: keep-alive, pipelining, odd but legal requests, and what must be refused (RFC 9112)."""

import email.utils
import time

from exchange import row
from pando_client import DEADLINE
from rest_client import Closed, Rest, Wire

TARGET = "/a.json?ns={ns}"


def prepared(world):
    """A database with /a = 1, and the target that reads it."""
    Rest(world.port, world.ns).put("/a", 1)
    return TARGET.format(ns=world.ns)


def one_connection(world):
    target = prepared(world)
    with Wire(world.port) as wire:
        for _ in range(200):
            wire.ask("GET", target).expect(200, "1")


def survives_refusals(world):
    """What is refused for its content is no reason to hang up; if the server does, it says so."""
    rest = Rest(world.port, world.ns)
    for method, target, body, status in [
        ("PUT", "/a.json", "{bad", 400), ("GET", "/a", None, 404), ("GET", "/a%23.json", None, 400),
        ("GET", "/a.json?auth=x", None, 401), ("PUT", "/a.json", None, 400),
        ("GET", "/a.json?limitToFirst=1", None, 400), ("PROPFIND", "/a.json", None, 405),
        ("PATCH", "/a.json", "[" * 3000, 400),
    ]:
        rest.ask(method, target, body).expect_error(status)
        rest.ask("GET", "/nothing.json").expect(200, "null")


def pipelined_answers_in_order(world):
    with Wire(world.port) as wire:
        count, target = 200, TARGET.format(ns=world.ns)
        burst = b"".join(
            wire.request_bytes("PUT", target, str(number)) + wire.request_bytes("GET", target)
            for number in range(count)
        )
        wire.send(burst)
        for number in range(count):
            wire.receive().expect(200, str(number))
            wire.receive().expect(200, str(number))


def pipelined_cut_anywhere(world):
    """The same burst, cut into pieces of 7 bytes: pieces are not requests."""
    with Wire(world.port) as wire:
        target = TARGET.format(ns=world.ns)
        burst = b"".join(wire.request_bytes("PUT", target, f'"{"x" * number}"') for number in range(20))
        for at in range(0, len(burst), 7):
            wire.send(burst[at : at + 7])
        for number in range(20):
            wire.receive().expect(200, f'"{"x" * number}"')


def pipelined_behind_a_refusal(world):
    with Wire(world.port) as wire:
        target = prepared(world)
        wire.send(wire.request_bytes("PUT", target, "{bad") + wire.request_bytes("GET", target))
        refused = wire.receive()
        refused.expect_error(400)
        if "close" not in (refused.header("Connection") or ""):
            wire.receive().expect(200, "1")


def pipelined_and_unread(world):
    """Many large responses that are not read for a while come complete and in order."""
    rest = Rest(world.port, world.ns)
    rest.put("/big", "x" * 200_000)
    with Wire(world.port, receive_buffer=4096) as wire:
        request = wire.request_bytes("GET", f"/big.json?ns={world.ns}")
        wire.send(request * 40 + wire.request_bytes("GET", f"/none.json?ns={world.ns}"))
        rest.get("/none")  # others are served meanwhile
        for _ in range(40):
            wire.receive().expect(200, '"' + "x" * 200_000 + '"')
        wire.receive().expect(200, "null")


def close_is_obeyed(world):
    target = prepared(world)
    for value in ("close", "Close", "keep-alive, close"):
        with Wire(world.port) as wire:
            response = wire.ask("GET", target, fields=[("Connection", value)]).expect(200, "1")
            assert (response.header("Connection") or "").lower() == "close", response
            wire.expect_closed()


def nothing_after_close(world):
    """What is pipelined behind `Connection: close` is not executed (RFC 9112 9.6)."""
    target = prepared(world)
    with Wire(world.port) as wire:
        last = wire.request_bytes("GET", target, fields=[("Connection", "close")])
        wire.send(last + wire.request_bytes("PUT", target, "2"))
        wire.receive().expect(200, "1")
        assert wire.rest(time.monotonic() + DEADLINE) == b""
    Rest(world.port, world.ns).ask("GET", "/a.json").expect(200, "1")


def old_version(world):
    target = prepared(world)
    with Wire(world.port) as wire:
        wire.send(wire.head("GET", target, host=None, version="1.0"))
        wire.receive().expect(200, "1")
        wire.expect_closed()
    with Wire(world.port) as wire:
        wire.send(wire.head("GET", target, [("Connection", "keep-alive")], version="1.0"))
        response = wire.receive().expect(200, "1")
        if (response.header("Connection") or "").lower() != "keep-alive":
            return wire.expect_closed()
        wire.ask("GET", target).expect(200, "1")


def half_closed(world):
    """A client that has nothing more to ask still gets its answers."""
    target = prepared(world)
    with Wire(world.port) as wire:
        wire.send(wire.request_bytes("GET", target) * 3)
        wire.half_close()
        for _ in range(3):
            wire.receive().expect(200, "1")
        wire.expect_closed()


def absolute_form(world):
    target = prepared(world)
    with Wire(world.port) as wire:
        wire.ask("GET", f"http://127.0.0.1:{world.port}{target}").expect(200, "1")
        wire.ask("GET", f"HTTP://{world.ns}.example.localhost/a.json", host="other.example.localhost").expect(200, "1")
        wire.send(wire.head("OPTIONS", "*"))
        # `*` names no resource of ours; refusing it closes the connection.
        assert wire.receive().status in (200, 204, 400, 404)


def blank_lines_before_a_request(world):
    """RFC 9112 2.2: a server should skip at least one."""
    target = prepared(world)
    with Wire(world.port) as wire:
        wire.send(b"\r\n" + wire.request_bytes("GET", target))
        wire.receive().expect(200, "1")


def field_forms(world):
    """Names in any case, spaces and tabs around values, empty values, many fields."""
    target = prepared(world)
    with Wire(world.port) as wire:
        fields = "hOST:127.0.0.1\r\nX-Empty:\r\nX-Tab:\t x \t\r\nAUTHORIZATION:  Bearer owner \r\n"
        wire.send(f"GET {target} HTTP/1.1\r\n{fields}\r\n")
        wire.receive().expect(200, "1")
        fields = [(f"X-Field-{number}", "v" * 50) for number in range(60)]
        wire.ask("GET", target, fields=fields).expect(200, "1")


# What two parsers could read in two ways. `{t}` is a target that reads 1; behind each comes a request that must not
# be executed: it would write 2 there.
PUT, GET = (f"{method} {{t}} HTTP/1.1\r\nHost: localhost\r\n" for method in ("PUT", "GET"))
CHUNKS = PUT + "Transfer-Encoding: chunked\r\n\r\n"
SMUGGLED = {
    "a length and chunks": PUT + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and a length": PUT + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two different lengths": PUT + "Content-Length: 1\r\nContent-Length: 9\r\n\r\n3",
    "two equal lengths": PUT + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n3",
    "a list of lengths": PUT + "Content-Length: 1, 1\r\n\r\n3",
    "a negative length": PUT + "Content-Length: -1\r\n\r\n3",
    "a length with a plus": PUT + "Content-Length: +1\r\n\r\n3",
    "a hexadecimal length": PUT + "Content-Length: 0x1\r\n\r\n3",
    "a length of words": PUT + "Content-Length: one\r\n\r\n3",
    "an empty length": PUT + "Content-Length:\r\n\r\n3",
    "a bare LF behind the request line": "GET {t} HTTP/1.1\nHost: localhost\r\n\r\n",
    "a bare LF behind a field": "GET {t} HTTP/1.1\r\nHost: localhost\nX-A: 1\r\n\r\n",
    "bare LFs all over": "GET {t} HTTP/1.1\nHost: localhost\n\n",
    "a bare CR in a value": GET + "X-A: 1\rX-B: 2\r\n\r\n",
    "a NUL in a value": GET + "X-A: 1\0\r\n\r\n",
    "a folded field": GET + "X-A: 1\r\n 2\r\n\r\n",
    "a folded field with a tab": GET + "X-A: 1\r\n\t2\r\n\r\n",
    "a space before the first field": "GET {t} HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "a space before a colon": PUT + "Content-Length : 1\r\n\r\n3",
    "a field without a name": GET + ": 1\r\n\r\n",
    "a field without a colon": GET + "nonsense\r\n\r\n",
    "a name that is no token": GET + "X(A): 1\r\n\r\n",
    "no Host": "GET {t} HTTP/1.1\r\n\r\n",
    "two Hosts": GET + "Host: y\r\n\r\n",
    "a coding beside chunked": PUT + "Transfer-Encoding: gzip, chunked\r\n\r\n1\r\n3\r\n0\r\n\r\n",
    "a coding without chunked": PUT + "Transfer-Encoding: identity\r\n\r\n3",
    "chunked twice": PUT + "Transfer-Encoding: chunked, chunked\r\n\r\n1\r\n3\r\n0\r\n\r\n",
    "chunked in two fields": PUT + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n3\r\n0\r\n\r\n",
    "chunks of an old version": "PUT {t} HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n3\r\n0\r\n\r\n",
    "a chunk size that is none": CHUNKS + "x\r\n3\r\n0\r\n\r\n",
    "a chunk size with a prefix": CHUNKS + "0x1\r\n3\r\n0\r\n\r\n",
    "a chunk size beyond all numbers": CHUNKS + "10000000000000001\r\n3\r\n0\r\n\r\n",
    "a chunk that is longer than it says": CHUNKS + "1\r\n33\r\n0\r\n\r\n",
    "a chunk line that ends in a bare LF": CHUNKS + "1\n3\r\n0\r\n\r\n",
    "an unknown version": "GET {t} HTTP/3.0\r\nHost: localhost\r\n\r\n",
    "a request line with two spaces": "GET  {t} HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a request line without a version": "GET {t}\r\nHost: localhost\r\n\r\n",
    "a target that is no path": "GET a.json HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a target with a fragment": "GET {t}#f HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}


def smuggling(text):
    def attempt(world):
        target = prepared(world)
        with Wire(world.port) as wire:
            trap = wire.request_bytes("PUT", target, "2")
            wire.send_as_far_as_possible(text.replace("{t}", target).encode("latin-1") + trap)
            try:
                response = wire.receive()
            except Closed:
                response = None  # hanging up without a word is a refusal too, where the peer speaks no HTTP
            if response is not None:
                assert response.status in (400, 413, 501, 505), response
                assert (response.header("Connection") or "").lower() == "close", response
                assert wire.rest(time.monotonic() + DEADLINE) == b"", "one answer, then the end"
            else:
                assert text.startswith("\x16"), "no answer"
        Rest(world.port, world.ns).ask("GET", "/a.json").expect(200, "1")

    return attempt


def refused_head(status, head):
    """A head that is too large for any use: answered, then closed, and the server lives."""

    def attempt(world):
        target = prepared(world)
        with Wire(world.port) as wire:
            wire.send_as_far_as_possible(head.replace("{t}", target).encode())
            response = wire.receive()
            assert response.status == status, response
            assert (response.header("Connection") or "").lower() == "close", response
        Rest(world.port, world.ns).ask("GET", "/a.json").expect(200, "1")

    return attempt


def date_of_every_answer(world):
    """RFC 9110 6.6.1: a server with a clock says the time, refusals and streams included."""
    rest = Rest(world.port, world.ns)
    rest.put("/a", 1)
    now = time.time()
    answers = [
        rest.ask("GET", "/a.json"), rest.ask("HEAD", "/a.json"), rest.ask("PUT", "/a.json?print=silent", "1"),
        rest.ask("GET", "/a"), rest.ask("OPTIONS", "/a.json"), rest.ask("GET", "/a.json?auth=x"),
        rest.ask("GET", "/a.json", fields=[("if-none-match", rest.ask(
            "GET", "/a.json", fields=[("X-Firebase-ETag", "true")]).etag)]),
    ]
    with Wire(world.port) as wire:
        wire.send("nonsense\r\n\r\n")
        answers.append(wire.receive())
    with rest.stream("/a") as stream:
        answers.append(stream.head)
    assert [one.status for one in answers] == [200, 200, 204, 404, 200, 401, 304, 400, 200]
    for one in answers:
        date = one.header("Date")
        assert len(date) == 29 and date.endswith(" GMT"), one
        assert abs(email.utils.parsedate_to_datetime(date).timestamp() - now) < DEADLINE, one


def offered_upgrade(world):
    """curl --http2 offers HTTP/2 in its first request; a server need not accept it (RFC 9110 7.8)."""
    target = prepared(world)
    with Wire(world.port) as wire:
        offer = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABkAAQAoAAA")]
        for _ in range(2):
            wire.ask("GET", target, fields=offer).expect(200, "1")


def odd_chunks(world):
    """Extensions and trailers are read over (RFC 9112 7.1), and a trailer is no header field."""
    with Wire(world.port) as wire:
        head = wire.head("PUT", TARGET.format(ns=world.ns), [("Transfer-Encoding", "chunked"), ("Trailer", "X-A")])
        wire.send(head + b'2 ; a="b;\tc" ; d\r\n12\r\n000;x\r\nX-A: 1\r\nContent-Length: 9\r\nIf-Match: no\r\n\r\n')
        wire.receive().expect(200, "12")
        wire.ask("GET", TARGET.format(ns=world.ns)).expect(200, "12")


def refused_chunks(status, chunks):
    def attempt(world):
        with Wire(world.port) as wire:
            wire.send(wire.head("PUT", TARGET.format(ns=world.ns), [("Transfer-Encoding", "chunked")]))
            wire.send_as_far_as_possible(chunks)
            response = wire.receive()
            assert response.status == status and response.header("Connection") == "close", response
        Rest(world.port, world.ns).ask("GET", "/a.json").expect(200, "null")

    return attempt


def refused_before_its_body(world):
    """A client that waits for 100 Continue with a body that would be refused gets the refusal at once (RFC 9110 10.1.1)."""
    expect = ("Expect", "100-continue")
    for fields, status in [
        ([("Content-Length", 1 << 40)], 413), ([("Content-Length", 5), ("Content-Encoding", "br")], 415),
        ([("Content-Length", 5), ("Transfer-Encoding", "chunked")], 400),
    ]:
        with Wire(world.port) as wire:
            wire.send(wire.head("PUT", TARGET.format(ns=world.ns), [*fields, expect]))
            response = wire.receive()
            assert response.status == status and response.header("Connection") == "close", response
            wire.expect_closed()


def closing_with_work_ahead(world):
    """A client that says what it has to say and closes its side gets all its answers, large ones too."""
    rest = Rest(world.port, world.ns)
    value = "x" * 3_000_000
    rest.put("/a", value)
    with Wire(world.port, receive_buffer=4096) as wire:
        wire.send(wire.request_bytes("GET", TARGET.format(ns=world.ns)) * 4)
        wire.half_close()
        for _ in range(4):
            wire.receive().expect(200, f'"{value}"')
        wire.expect_closed()


def endless_head(world):
    """Fields without end are cut off, not collected."""
    with Wire(world.port) as wire:
        wire.send("GET /a.json HTTP/1.1\r\nHost: localhost\r\n")
        try:
            for _ in range(2000):
                wire.send("X-More: " + "v" * 8000 + "\r\n")
        except (BrokenPipeError, ConnectionResetError):
            return
        try:
            assert wire.receive().status == 431
        except Closed:
            pass


def many_idle_connections(world):
    target = prepared(world)
    wires = [Wire(world.port) for _ in range(300)]
    try:
        for wire in wires[::2]:
            wire.send(f"GET {target} HTTP/1.1\r\nHo")  # half a head
        with Wire(world.port) as wire:
            wire.ask("GET", target).expect(200, "1")
        for wire in wires[::2]:
            wire.send("st: localhost\r\n\r\n")
        for wire in wires[::2]:
            wire.receive().expect(200, "1")
        for wire in wires[1::2]:
            wire.ask("GET", target).expect(200, "1")
    finally:
        for wire in wires:
            wire.close()


ROWS = [
    row("one connection serves two hundred requests", "3", one_connection),
    row("a refusal does not end the connection, or says so", "3", survives_refusals),
    row("pipelined requests are answered in their order", "RFC 9112 9.3.2", pipelined_answers_in_order),
    row("pipelined requests may be cut anywhere", "RFC 9112 9.3.2", pipelined_cut_anywhere),
    row("a request behind a refused one is answered", "RFC 9112 9.3.2", pipelined_behind_a_refusal),
    row("unread responses wait, complete and in order", "RFC 9112 9.3.2", pipelined_and_unread),
    row("Connection: close is obeyed and echoed", "RFC 9112 9.6", close_is_obeyed),
    row("nothing behind Connection: close is executed", "RFC 9112 9.6", nothing_after_close),
    row("HTTP/1.0 closes, unless asked not to", "RFC 9112 9.3", old_version),
    row("a half-closed connection gets its answers", "RFC 9112 9.6", half_closed),
    row("a target may be a whole URL, and its host counts", "RFC 9112 3.2.2", absolute_form),
    row("an empty line before a request is skipped", "RFC 9112 2.2", blank_lines_before_a_request),
    row("header fields come in every legal form", "RFC 9112 5", field_forms),
    row("every answer says the time", "RFC 9110 6.6.1", date_of_every_answer),
    row("an offer of HTTP/2 is no reason not to answer", "RFC 9110 7.8", offered_upgrade),
    row("chunk extensions and trailers are read over", "RFC 9112 7.1", odd_chunks),
    row("trailers without end are 431", "RFC 6585 5",
        refused_chunks(431, b"1\r\n1\r\n0\r\n" + b"X-A: " + b"v" * 20_000)),
    row("a chunk line without end is 400", "RFC 9112 7.1", refused_chunks(400, b"1;" + b"x" * 20_000)),
    row("a chunk above all limits is 413", "RFC 9110 15.5.14", refused_chunks(413, b"fffffffffffffff\r\n")),
    row("a body that would be refused is refused before it is sent", "RFC 9110 10.1.1", refused_before_its_body),
    row("a half-closed connection gets large answers too", "RFC 9112 9.6", closing_with_work_ahead),
    row("a head of 70 KB is 431", "RFC 6585 5",
        refused_head(431, f"GET {{t}} HTTP/1.1\r\nHost: localhost\r\nX-A: {'v' * 70_000}\r\n\r\n")),
    row("a thousand header fields are 431", "RFC 6585 5",
        refused_head(431, "GET {t} HTTP/1.1\r\nHost: localhost\r\n" + "X-A: 1\r\n" * 1000 + "\r\n")),
    row("a target of 70 KB is 414", "RFC 9110 15.5.15",
        refused_head(414, f"GET /{'x/' * 35_000}.json HTTP/1.1\r\nHost: localhost\r\n\r\n")),
    row("a head without end is cut off", "RFC 6585 5", endless_head),
    row("three hundred connections, half of them in the middle of a head", "13", many_idle_connections),
] + [
    row(f"{what}: refused, and what follows is not executed", "RFC 9112", smuggling(text))
    for what, text in SMUGGLED.items()
]
