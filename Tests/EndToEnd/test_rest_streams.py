"""Event streams (§8): the events of each write, their order, and how streams end."""

import contextlib
import os
import time

import pytest

from pando_client import DEADLINE, Closed
from rest_client import OWNER, Refused, Rest, StreamCopy, Wire

INDEXED = {"rules": {".read": True, ".write": True, "q": {".indexOn": ["n", ".value"]}}}
KEEP_ALIVE = 30  # seconds of silence, about
IS_SLOW = os.environ.get("PANDO_SLOW") == "1"


@pytest.fixture
def rest(world):
    return Rest(world.port, world.ns)


@pytest.fixture
def stream(request, rest):
    """Opens streams of this test's database; they are closed after it."""
    opened = []

    def make(path, query="", first=..., **options):
        one = rest.stream(path, query, **options)
        opened.append(one)
        if first is not ...:
            one.put("/", first)
        return one

    yield make
    for one in opened:
        one.close()


@pytest.fixture
def socket_client(world):
    """A WebSocket connection to the same database."""
    return world.connect()


def expect_nothing(stream, rest, path="/fence"):
    """The only event is this write: `path` must be below the stream's root."""
    rest.put(path, "fence")
    name, data = stream.next()
    assert (name, data["data"]) == ("put", "fence"), (name, data)


# Beginnings


def test_a_stream_of_a_client_that_has_closed_its_side_ends_with_its_first_event(world, rest):
    rest.put("/s", 1)
    with Wire(world.port) as wire:
        wire.send(wire.head("GET", f"/s.json?ns={world.ns}", [("Accept", "text/event-stream")]))
        wire.half_close()
        said = wire.rest(time.monotonic() + DEADLINE)
    assert said.endswith(b'event: put\ndata: {"path":"/","data":1}\n\n'), said


@pytest.mark.parametrize("value", [None, 1, "é🐵\n\"", False, {"a": {"b": 1}}, ["x", "y"]], ids=repr)
def test_the_first_event_is_the_whole_value(rest, stream, value):
    rest.put("/s", value)
    stream("/s", first=value)


def test_the_accept_field_may_name_other_types_too(rest, stream):
    stream("/s", first=None, accept="application/json, text/event-stream;q=0.9, */*")


def test_without_the_accept_field_a_get_is_a_get(rest):
    for accept in ("*/*", "application/json", "text/html"):
        rest.ask("GET", "/s.json", fields=[("Accept", accept)]).expect(200, "null")


def test_a_stream_is_never_compressed(rest, stream):
    rest.put("/s", "x" * 5000)
    stream("/s", first="x" * 5000, fields=[("Accept-Encoding", "gzip")])


def test_a_refused_stream_is_an_ordinary_response(locked_world):
    with pytest.raises(Refused) as refused:
        Rest(locked_world.port, "default").stream("/s")
    refused.value.response.expect_error(401, "Permission denied")


@pytest.mark.parametrize("path, query, status", [
    ("/a%23b", "", 400), ("/s", "limitToFirst=1", 400), ("/s", "auth=nonsense", 401), ("/s", 'orderBy="n"', 400),
    ("/s/.priority", "", 400),
])
def test_a_misused_stream_is_an_ordinary_error(rest, path, query, status):
    with pytest.raises(Refused) as refused:
        rest.stream(path, query)
    refused.value.response.expect_error(status)


def test_a_stream_of_the_root(rest, stream):
    rest.put("/a", 1)
    root = stream("/", first={"a": 1})
    rest.put("/b/c", 2)
    root.put("/b/c", 2)


def test_a_large_first_value_is_complete(rest, stream):
    value = {f"key{number:06d}": "x" * 1000 for number in range(3000)}
    rest.put("/s", value)
    stream("/s", first=value)


# One write, one event


def test_a_write_at_the_root_is_a_put_of_everything(rest, stream):
    s = stream("/s", first=None)
    rest.put("/s", {"a": 1})
    s.put("/", {"a": 1})
    rest.put("/s", "leaf")
    s.put("/", "leaf")


def test_a_write_below_is_a_put_at_its_relative_path(rest, stream):
    s = stream("/s", first=None)
    rest.put("/s/a", 1)
    s.put("/a", 1)
    rest.put("/s/b/c/d", {"e": [1, 2]})
    s.put("/b/c/d", {"e": [1, 2]})
    rest.put("/s/b/c/d/e/0", None)
    s.put("/b/c/d/e/0", None)


def test_a_write_above_is_a_put_of_the_new_value(rest, stream):
    s = stream("/x/s", first=None)
    rest.put("/x", {"s": {"a": 1}, "other": 2})
    s.put("/", {"a": 1})
    rest.put("/x", {"other": 3})
    s.put("/", None)


def test_a_write_beside_is_no_event(rest, stream):
    s = stream("/s", first=None)
    rest.put("/t", 1)
    rest.put("/sx", 1)
    rest.put("/", {"t": 2})  # nothing here before, nothing after: may be silent or a put of null
    rest.put("/s/fence", 1)
    name, data = s.next()
    if data == {"path": "/", "data": None}:
        name, data = s.next()
    assert (name, data) == ("put", {"path": "/fence", "data": 1})


def test_a_delete_is_a_put_of_null(rest, stream):
    rest.put("/s", {"a": {"b": 1}, "c": 2})
    s = stream("/s", first={"a": {"b": 1}, "c": 2})
    rest.must("DELETE", "/s/a/b")
    s.put("/a/b", None)
    rest.must("DELETE", "/s")
    s.put("/", None)


def test_a_post_is_a_put_under_its_new_name(rest, stream):
    s = stream("/s", first=None)
    name = rest.must("POST", "/s/users", {"n": 1}).json()["name"]
    s.put(f"/users/{name}", {"n": 1})


def test_a_patch_is_a_patch_with_its_values(rest, stream):
    rest.put("/s", {"a": 1, "b": 2})
    s = stream("/s", first={"a": 1, "b": 2})
    rest.patch("/s", {"a": 3, "b": None, "c": {"d": 4}})
    s.patch("/", {"a": 3, "b": None, "c": {"d": 4}})


def test_a_patch_of_one_key_is_a_patch(rest, stream):
    rest.put("/s", {"k": 4, "m": 1})
    s, above, at, below = stream("/s", first={"k": 4, "m": 1}), stream("/"), stream("/s/k", first=4), stream("/s/k/x", first=None)
    above.next()
    rest.patch("/s", {"k": 5})
    s.patch("/", {"k": 5})
    above.patch("/s", {"k": 5})
    at.put("/", 5)
    rest.patch("/s", {"k": None})
    s.patch("/", {"k": None})
    above.patch("/s", {"k": None})
    at.put("/", None)
    rest.patch("/s", {"k": {"x": 1}})
    s.patch("/", {"k": {"x": 1}})
    below.put("/", 1)


def test_a_patch_of_which_one_key_changes_something_is_a_patch_with_that_key(rest, stream):
    rest.put("/s", {"a": 1, "b": 2})
    s = stream("/s", first={"a": 1, "b": 2})
    rest.patch("/s", {"a": 1, "b": 3})
    s.patch("/", {"b": 3})
    rest.patch("/s", {"a": 1, "b": 3})
    expect_nothing(s, rest, "/s/fence")


def test_a_patch_of_one_deep_path_is_a_put_there(rest, stream):
    s = stream("/s", first=None)
    rest.patch("/s", {"x/y": 1})
    s.put("/x/y", 1)
    rest.patch("/s", {"/z/": 2})
    s.patch("/", {"z": 2})


def test_a_patch_with_null_as_its_body_is_a_put(rest, stream):
    rest.put("/s/a", 1)
    s = stream("/s", first={"a": 1})
    rest.must("PATCH", "/s/a", "null")
    s.put("/a", None)


def test_a_patch_of_a_priority_is_a_put_of_the_node(rest, stream):
    rest.put("/s/a", 1)
    s = stream("/s", "format=export", first={"a": 1})
    rest.patch("/s", {"a/.priority": 2})
    s.put("/a", {".value": 1, ".priority": 2})


@pytest.mark.parametrize("count", [256, 257, 3000])
def test_a_query_begins_with_all_of_its_results(rest, stream, count):
    value = {f"k{number:04}": number for number in range(count)}
    rest.put("/q", value)
    one = stream("/q", 'orderBy="$key"&startAt="k"', first=value)
    other = stream("/q", 'orderBy="$key"&startAt="k"', first=value)
    rest.patch("/q", {"k0000": -1, "j": 5})
    for s in (one, other):
        s.put("/k0000", -1)


def test_a_patch_of_one_key_under_a_query_stream_is_a_put_of_the_child(rest, stream):
    s = stream("/q", 'orderBy="$key"&startAt="b"', first=None)
    rest.patch("/q", {"c": 1})
    s.put("/c", 1)
    rest.patch("/q", {"a": 1})
    rest.patch("/q", {"c": 2})
    s.put("/c", 2)


def test_a_patch_below_is_a_patch_at_its_relative_path(rest, stream):
    s = stream("/s", first=None)
    rest.patch("/s/x/y", {"a": 1, "b": 2})
    s.patch("/x/y", {"a": 1, "b": 2})


def test_a_deep_patch_below_one_node_is_one_patch_of_that_node(rest, stream):
    s = stream("/s", first=None)
    rest.patch("/s", {"x/y/a": 1, "x/y/b": 2})
    s.patch("/x/y", {"a": 1, "b": 2})


def test_a_patch_of_different_depths_is_one_put_a_path_one_after_the_other(rest, stream):
    s = stream("/s", first=None)
    rest.patch("/s", {"a": 1, "b/c": 2, "d/e/f": 3})
    got = [s.next() for _ in range(3)]
    assert sorted((name, data["path"], data["data"]) for name, data in got) == [
        ("put", "/a", 1), ("put", "/b/c", 2), ("put", "/d/e/f", 3),
    ], got
    expect_nothing(s, rest, "/s/fence")


def test_a_patch_above_is_a_put_of_the_new_value(rest, stream):
    s = stream("/x/s", first=None)
    rest.patch("/x", {"s": {"a": 1}, "t": 2})
    s.put("/", {"a": 1})
    rest.patch("/", {"x/t": 3, "y": 1})
    expect_nothing(s, rest, "/x/s/fence")


def test_a_patch_from_above_with_one_path_below_is_that_path(rest, stream):
    rest.put("/x/s", {"a": 1})
    s = stream("/x/s", first={"a": 1})
    rest.patch("/", {"x/s/b": 2, "y": 3})
    name, data = s.next()
    if name == "put":
        assert data == {"path": "/b", "data": 2}
    else:
        assert (name, data) == ("patch", {"path": "/", "data": {"b": 2}})


def test_server_values_are_resolved_in_events(rest, stream):
    rest.put("/s/n", 40)
    s = stream("/s", first={"n": 40})
    rest.put("/s/n", {".sv": {"increment": 2}})
    s.put("/n", 42)
    rest.patch("/s", {"n": {".sv": {"increment": 1}}, "t": {".sv": "timestamp"}})
    name, data = s.next()
    assert name == "patch" and data["data"] == rest.get("/s"), data


def test_a_refused_write_is_no_event(rest, stream):
    rest.put("/s", 1)
    s = stream("/s", first=1)
    rest.ask("PUT", "/s.json", "2", [("if-match", "null_etag")]).expect(412)
    rest.ask("PUT", "/s.json", "{bad").expect(400)
    rest.ask("PATCH", "/s.json", '{"a":1,"b$":2}').expect(400)
    expect_nothing(s, rest, "/s/fence")


def test_every_write_is_one_event_in_order(rest, stream):
    s = stream("/s", first=None)
    with Wire(rest.port) as wire:
        target = f"/s/n.json?ns={rest.ns}&print=silent"
        wire.send(b"".join(wire.request_bytes("PUT", target, str(number)) for number in range(1, 501)))
        for number in range(1, 501):
            s.put("/n", number)
        for _ in range(500):
            wire.receive().expect(204)


def test_an_event_comes_before_or_with_the_response_to_its_write(rest, stream):
    """After the response to a write, its event on a stream arrives before the deadline."""
    s = stream("/s", first=None)
    for number in range(1, 50):
        rest.put("/s", number)
        s.put("/", number)


# Several streams


def test_streams_of_different_locations_get_their_own_paths(rest, stream):
    above, here, below, beside = (stream(path, first=None) for path in ("/a", "/a/b", "/a/b/c", "/z"))
    rest.put("/a/b/c", 1)
    above.put("/b/c", 1)
    here.put("/c", 1)
    below.put("/", 1)
    rest.put("/a", {"x": 1})
    above.put("/", {"x": 1})
    here.put("/", None)
    below.put("/", None)
    expect_nothing(beside, rest, "/z/fence")


def test_a_hundred_streams_of_one_location_get_the_same_event(rest, stream):
    streams = [stream("/s", first=None) for _ in range(100)]
    rest.put("/s", {"a": 1})
    for s in streams:
        s.put("/", {"a": 1})
    for s in streams[::2]:
        s.close()
    rest.put("/s/a", 2)
    for s in streams[1::2]:
        s.put("/a", 2)


def test_streams_get_no_events_of_other_databases(world, rest, stream):
    s = stream("/s", first=None)
    Rest(world.port, f"{world.ns}-other").put("/s", "not yours")
    expect_nothing(s, rest, "/s/fence")


# Queries


def test_a_query_stream_begins_with_the_filtered_object(rest, stream):
    rest.put_rules(INDEXED)
    rest.put("/q", {"a": {"n": 1}, "b": {"n": 2}, "c": {"n": 3}})
    stream("/q", 'orderBy="n"&limitToLast=2', first={"b": {"n": 2}, "c": {"n": 3}})
    stream("/q", 'orderBy="n"&startAt=5', first=None)


def test_a_child_enters_changes_and_leaves_a_query_stream(rest, stream):
    rest.put_rules(INDEXED)
    s = stream("/q", 'orderBy="n"&startAt=10', first=None)
    rest.put("/q/a", {"n": 10, "t": "x"})
    s.put("/a", {"n": 10, "t": "x"})
    rest.put("/q/b", {"n": 9})
    rest.put("/q/a/t", "y")
    copy = StreamCopy({"a": {"n": 10, "t": "x"}})
    copy.apply(*s.next())
    assert copy.value == {"a": {"n": 10, "t": "y"}}
    rest.put("/q/a/n", 1)
    s.put("/a", None)
    rest.put("/q/b/n", 11)
    s.put("/b", {"n": 11})
    rest.must("DELETE", "/q/b")
    s.put("/b", None)


def test_a_child_that_enters_a_full_window_pushes_another_out(rest, stream):
    rest.put_rules(INDEXED)
    rest.put("/q", {"a": {"n": 1}, "b": {"n": 2}})
    s = stream("/q", 'orderBy="n"&limitToLast=2', first={"a": {"n": 1}, "b": {"n": 2}})
    copy = StreamCopy({"a": {"n": 1}, "b": {"n": 2}})
    rest.put("/q/c", {"n": 3})
    follow(s, copy, {"b": {"n": 2}, "c": {"n": 3}})
    rest.must("DELETE", "/q/b")
    follow(s, copy, {"a": {"n": 1}, "c": {"n": 3}})


def test_a_query_stream_by_value_and_by_key(rest, stream):
    rest.put_rules(INDEXED)
    rest.put("/q", {"a": 1, "b": 2, "c": 3})
    by_value = stream("/q", 'orderBy="$value"&startAt=2', first={"b": 2, "c": 3})
    by_key = stream("/q", 'orderBy="$key"&endAt="b"', first={"a": 1, "b": 2})
    rest.put("/q/a", 5)
    by_value.put("/a", 5)
    by_key.put("/a", 5)
    rest.put("/q/c", 0)
    by_value.put("/c", None)
    rest.put("/q/aa", 1)
    by_key.put("/aa", 1)


def follow(stream, copy, wanted):
    """Events until the copy is as wanted; a write may need more than one (8.2)."""
    for _ in range(4):
        copy.apply(*stream.next())
        if copy.value == wanted:
            return
    raise AssertionError(f"expected {wanted}, got {copy.value}")


def test_a_query_stream_gets_a_write_of_the_whole_location(rest, stream):
    rest.put_rules(INDEXED)
    rest.put("/q", {"a": {"n": 1}, "b": {"n": 20}})
    s = stream("/q", 'orderBy="n"&startAt=10', first={"b": {"n": 20}})
    copy = StreamCopy({"b": {"n": 20}})
    rest.put("/q", {"c": {"n": 30}, "d": {"n": 3}})
    follow(s, copy, {"c": {"n": 30}})
    rest.must("DELETE", "/q")
    follow(s, copy, None)


# Beside the WebSocket


def test_a_stream_gets_writes_of_a_websocket(rest, stream, socket_client):
    s = stream("/s", first=None)
    socket_client.must("p", {"p": "/s/a", "d": {"b": 1}})
    s.put("/a", {"b": 1})
    socket_client.must("m", {"p": "/s", "d": {"a": None, "c": 2}})
    s.patch("/", {"a": None, "c": 2})
    socket_client.must("m", {"p": "/s", "d": {"c": 3}})
    s.patch("/", {"c": 3})
    socket_client.must("p", {"p": "/s/c", "d": 4})
    s.put("/c", 4)
    socket_client.must("p", {"p": "/", "d": {"s": "all"}})
    s.put("/", "all")


def test_a_websocket_gets_writes_of_rest(rest, socket_client):
    socket_client.must("q", {"p": "/s", "h": ""})
    rest.put("/s/a", 1)
    assert socket_client.next_data() == ("push", "d", {"p": "s/a", "d": 1})
    rest.patch("/s", {"a": 2, "b": 3})
    assert socket_client.next_data() == ("push", "m", {"p": "s", "d": {"a": 2, "b": 3}})
    rest.patch("/s", {"a": 4})
    assert socket_client.next_data() == ("push", "d", {"p": "s/a", "d": 4})
    rest.must("DELETE", "/s")
    assert socket_client.next_data() == ("push", "d", {"p": "s", "d": None})


def test_a_stream_gets_the_on_disconnect_writes_of_a_websocket(rest, stream, socket_client):
    s = stream("/status", first=None)
    socket_client.must("o", {"p": "/status", "d": "offline"})
    socket_client.must("p", {"p": "/status", "d": "online"})
    s.put("/", "online")
    socket_client.cut()
    s.put("/", "offline")


def test_an_on_disconnect_write_at_the_top_is_a_put(rest, stream, socket_client):
    root = stream("/", first=None)
    socket_client.must("o", {"p": "/online", "d": False})
    socket_client.cut()
    root.put("/online", False)


def test_an_etag_and_a_websocket_transaction_agree(rest, socket_client):
    rest.put("/n", {"a": [1, 2]})
    tag = rest.ask("GET", "/n.json", fields=[("X-Firebase-ETag", "true")]).etag
    socket_client.must("p", {"p": "/n", "d": "x", "h": tag})
    rest.ask("PUT", "/n.json", "1", [("if-match", tag)]).expect(412, '"x"')


# Ends


def test_a_closed_stream_frees_its_connection(world, rest):
    for _ in range(200):
        with rest.stream("/s") as s:
            s.put("/", None)
    for number in range(200):
        s = rest.stream("/s")
        s.wire.reset() if number % 2 else s.close()
    rest.put("/s", 1)
    assert rest.get("/s") == 1 and world.server.alive


def test_a_stream_that_is_not_read_delays_no_client(world, rest, stream):
    """A stream is flooded and not read; another one of the same place, and writers, go on as if it were not there."""
    value = "x" * 100_000
    slow = stream("/s", first=None, receive_buffer=4096)
    quick = stream("/s", first=None)
    for number in range(300):  # 30 MB, far above what sockets hold
        rest.put("/s/a", f"{number}{value}")
        quick.put("/a", f"{number}{value}")
    # The slow stream gets the current state when it reads at last, or is cut off; it never keeps an older state.
    copy, last = StreamCopy(), f"299{value}"
    with contextlib.suppress(Closed):
        while (copy.value or {}).get("a") != last:
            copy.apply(*slow.next())
    assert world.server.alive


def test_rules_that_deny_a_location_cancel_its_streams(rest, stream):
    rest.put_rules({"rules": {".write": True, "s": {".read": True}, "t": {".read": True}}})
    s, t = stream("/s", first=None), stream("/t", first=None)
    rest.put_rules({"rules": {".write": True, "t": {".read": True}}})
    name, _ = s.next()
    assert name == "cancel"
    s.expect_closed()
    rest.put("/t", 1)
    t.put("/", 1)


def test_an_administrators_stream_survives_new_rules(rest, stream):
    s = stream("/s", first=None, fields=[OWNER])
    rest.put_rules({"rules": {".write": True}})
    rest.put("/s", 1)
    s.put("/", 1)


def test_a_server_that_ends_orderly_ends_its_streams(servers):
    server = servers()
    rest = Rest(server.port, "default")
    s = rest.stream("/s")
    s.put("/", None)
    rest.close()
    assert server.terminate() == 0, server.stderr()
    with contextlib.suppress(Closed):
        name, _ = s.next()
        assert name == "cancel", name
        s.expect_closed()


@pytest.mark.skipif(not IS_SLOW, reason="waits for half a minute; run with PANDO_SLOW=1")
def test_an_idle_stream_gets_keep_alives(rest, stream):
    s = stream("/s", first=None)
    started = time.monotonic()
    assert s.next_raw(timeout=KEEP_ALIVE * 2) == ("keep-alive", "null")
    assert KEEP_ALIVE / 2 < time.monotonic() - started < KEEP_ALIVE * 1.5
    rest.put("/s", 1)
    s.put("/", 1)


@pytest.mark.skip(reason="needs tokens that expire: --dev accepts unsigned ones without looking at the time")
def test_a_token_that_expires_ends_its_stream():
    """`event: auth_revoked`, `data: credential is no longer valid`, then the end (8.3)."""
