"""How bodies may travel: lengths, chunks, gzip, 100-continue (§1.5; RFC 9112)."""

import gzip
import time

from exchange import row
from pando_client import DEADLINE
from rest_client import Rest, Wire, compact

GZIP = ("Content-Encoding", "gzip")
CHUNKED = ("Transfer-Encoding", "chunked")
BIG = {f"key{number:06d}": "x" * 1000 for number in range(3000)}  # 3 MB


def any_content_type(world):
    rest = Rest(world.port, world.ns)
    for kind in (
        "application/json", "application/json; charset=utf-8", "application/x-www-form-urlencoded", "text/plain",
        "multipart/form-data; boundary=x", "nonsense",
    ):
        rest.ask("PUT", "/a.json", '{"b":1}', [("Content-Type", kind)]).expect(200, '{"b":1}')


def chunked_bodies(world):
    target, text = f"/a.json?ns={world.ns}", '{"b":"é🐵","c":[1,2,3]}'
    data = text.encode()
    with Wire(world.port) as wire:
        for body in (
            wire.chunked(data),
            wire.chunked(*[data[at : at + 1] for at in range(len(data))]),  # inside characters too
            wire.chunked(data[:5], data[5:], extension=';name="value"'),
            wire.chunked(data, trailers=[("X-Checksum", "1")]),
        ):
            wire.send(wire.head("PUT", target, [CHUNKED]) + body)
            wire.receive().expect(200, text)
        wire.send(wire.head("PUT", target, [("transfer-encoding", "CHUNKED")]) + wire.chunked("7"))
        wire.receive().expect(200, "7")


def chunks_one_byte_at_a_time(world):
    with Wire(world.port) as wire:
        data = wire.head("PUT", f"/a.json?ns={world.ns}", [CHUNKED]) + wire.chunked('{"b"', ":1}")
        for at in range(len(data)):
            wire.send(data[at : at + 1])
        wire.receive().expect(200, '{"b":1}')


def big_bodies(world):
    text = compact(BIG)
    with Wire(world.port) as wire:
        wire.send(wire.request_bytes("PUT", f"/a.json?ns={world.ns}&print=silent", text))
        wire.receive().expect(204, b"")
        data = text.encode()
        chunks = [data[at : at + 65536] for at in range(0, len(data), 65536)]
        wire.send(wire.head("PUT", f"/b.json?ns={world.ns}&print=silent", [CHUNKED]) + wire.chunked(*chunks))
        wire.receive().expect(204, b"")
        for path in ("/a", "/b"):
            wire.send(wire.head("GET", f"{path}.json?ns={world.ns}"))
            wire.receive().expect(200, data)


def gzip_bodies(world):
    rest = Rest(world.port, world.ns)
    rest.ask("PUT", "/a.json", gzip.compress(b'{"b":1}'), [GZIP]).expect(200, '{"b":1}')
    rest.ask("PUT", "/a.json?print=silent", gzip.compress(compact(BIG).encode()), [GZIP]).expect(204)
    assert rest.get("/a") == BIG
    with Wire(world.port) as wire:
        packed = gzip.compress(b'{"c":2}')
        wire.send(wire.head("PUT", f"/a.json?ns={world.ns}", [GZIP, CHUNKED]) + wire.chunked(packed[:9], packed[9:]))
        wire.receive().expect(200, '{"c":2}')


def gzip_members(world):
    """A gzip body may have several members (RFC 1952 2.2), cut anywhere; its old name means the same."""
    members = gzip.compress(b'{"c":') + gzip.compress(b"") + gzip.compress(b"[1,2]}")
    for name in ("gzip", "x-gzip", "GZIP"):
        with Wire(world.port) as wire:
            wire.send(wire.head("PUT", f"/a.json?ns={world.ns}", [("Content-Encoding", name), CHUNKED]))
            wire.send(wire.chunked(*[bytes([byte]) for byte in members]))
            wire.receive().expect(200, '{"c":[1,2]}')
            wire.send(wire.request_bytes("GET", f"/a/c/1.json?ns={world.ns}"))
            wire.receive().expect(200, "2")


def garbage_behind_gzip(world):
    rest = Rest(world.port, world.ns)
    packed = gzip.compress(b'{"b":1}')
    for tail in (b"\0", b"x", packed[:5], b"\0" * 600, packed + b"?"):
        rest.ask("PUT", "/a.json", packed + tail, [GZIP]).expect_error(400)
    rest.ask("PUT", "/a.json", b"", [GZIP]).expect_error(400, "Error: No data supplied.")
    assert rest.get("/") is None


def damaged_gzip(world):
    rest = Rest(world.port, world.ns)
    packed = gzip.compress(b'{"b":1}')
    for body in (b"no gzip at all", packed[:-9], packed[:12] + b"\xff\xff\xff" + packed[15:], b'{"b":1}'):
        rest.ask("PUT", "/a.json", body, [GZIP]).expect_error(400)
    assert rest.get("/") is None


def gzip_bomb(world):
    """300 KB that inflate to 300 MB: more than any write may have."""
    bomb = gzip.compress(b'"' + b"x" * 300_000_000 + b'"', 9)
    with Wire(world.port) as wire:
        wire.send_as_far_as_possible(wire.request_bytes("PUT", f"/a.json?ns={world.ns}", bomb, [GZIP]))
        wire.receive().expect_error(413, "Payload too large")
    assert Rest(world.port, world.ns).get("/") is None


def unknown_coding(world):
    rest = Rest(world.port, world.ns)
    for coding in ("br", "gzip, gzip", "deflate"):
        response = rest.ask("PUT", "/a.json", b"1", [("Content-Encoding", coding)])
        response.expect_error(415)
        assert response.header("Accept-Encoding") == "gzip", response
    rest = Rest(world.port, world.ns)
    assert rest.get("/") is None


def continue_100(world):
    with Wire(world.port) as wire:
        target, body = f"/a.json?ns={world.ns}", b'{"b":1}'
        for _ in range(2):
            wire.send(wire.head("PUT", target, [("Content-Length", len(body)), ("Expect", "100-continue")]))
            interim = wire.receive_head()
            assert interim.status == 100 and not interim.fields, interim
            wire.send(body)
            wire.receive().expect(200, body)
        wire.send(wire.head("PUT", target, [CHUNKED, ("Expect", "100-CONTINUE")]))
        assert wire.receive_head().status == 100
        wire.send(wire.chunked("2"))
        wire.receive().expect(200, "2")


def continue_not_awaited(world):
    """A client may send its body without waiting; then the 100 may be left out."""
    with Wire(world.port) as wire:
        wire.send(wire.request_bytes("PUT", f"/a.json?ns={world.ns}", "1", [("Expect", "100-continue")]))
        response = wire.receive()
        if response.status == 100:
            response = wire.receive()
        response.expect(200, "1")


def continue_of_an_old_client(world):
    """RFC 9110 10.1.1: an HTTP/1.0 client never gets 100 Continue."""
    with Wire(world.port) as wire:
        head = wire.head("PUT", f"/a.json?ns={world.ns}", [("Content-Length", 1), ("Expect", "100-continue")],
                         version="1.0")
        wire.send(head + b"1")
        wire.receive().expect(200, "1")


def body_of_a_get(world):
    """A body that is not read must not become the next request."""
    rest = Rest(world.port, world.ns)
    rest.put("/a", 1)
    with Wire(world.port) as wire:
        target = f"/a.json?ns={world.ns}"
        trap = f"DELETE {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        wire.send(wire.request_bytes("GET", target, trap) + wire.request_bytes("GET", target))
        wire.receive().expect(200, "1")
        wire.receive().expect(200, "1")
        wire.send(wire.head("GET", target, [CHUNKED]) + wire.chunked(trap) + wire.request_bytes("GET", target))
        wire.receive().expect(200, "1")
        wire.receive().expect(200, "1")


def cut_body(world):
    """A body that ends early is no body: nothing is written."""
    with Wire(world.port) as wire:
        wire.send(wire.head("PUT", f"/a.json?ns={world.ns}", [("Content-Length", 10)]) + b"1")
        wire.half_close()
        wire.rest(time.monotonic() + DEADLINE)
    with Wire(world.port) as wire:
        wire.send(wire.head("PUT", f"/a.json?ns={world.ns}", [CHUNKED]) + b"1\r\n1\r\n")
        wire.reset()
    rest = Rest(world.port, world.ns)
    rest.put("/fence", 1)
    assert rest.get("/") == {"fence": 1}


ROWS = [
    row("a body is JSON whatever its type is called", "1.5", any_content_type),
    row("a body may come in chunks, however they are cut", "1.5", chunked_bodies),
    row("chunks may come one byte at a time", "1.5", chunks_one_byte_at_a_time),
    row("three megabytes come in and go out", "1.5", big_bodies),
    row("a body may be compressed with gzip", "1.5", gzip_bodies),
    row("a gzip body may have several members", "1.5", gzip_members),
    row("garbage behind gzip is refused", "1.5", garbage_behind_gzip),
    row("damaged gzip is refused and writes nothing", "1.5", damaged_gzip),
    row("a gzip bomb is refused", "1.5", gzip_bomb),
    row("another coding is refused", "1.5", unknown_coding),
    row("100 Continue is sent to a client that waits for it", "RFC 9110 10.1.1", continue_100),
    row("a body that did not wait for 100 Continue is taken", "RFC 9110 10.1.1", continue_not_awaited),
    row("an HTTP/1.0 client never gets 100 Continue", "RFC 9110 10.1.1", continue_of_an_old_client),
    row("the body of a GET is skipped, not executed", "RFC 9112 6", body_of_a_get),
    row("a body that is cut off writes nothing", "RFC 9112 8", cut_body),
]
