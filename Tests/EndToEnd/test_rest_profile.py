"""The event stream of operations, `/.settings/profile.json` (§10), as the official command line reads it."""

import pytest

from pando_client import DEADLINE, compact
from rest_client import OWNER, Refused, Rest, Wire
from tokens import unsigned


@pytest.fixture
def rest(world):
    return Rest(world.port, world.ns)


@pytest.fixture
def profile(rest):
    with rest.stream("/.settings/profile", fields=[OWNER]) as stream:
        yield stream


def next_record(stream, name, path=None, allowed=True):
    """The next record is of this operation; returns the record."""
    kind, data = stream.next()
    assert kind == "log", (kind, data)
    assert data["name"] == name, data
    assert data.get("path") == path, data
    assert data["timestamp"] > 1_700_000_000_000 and data["pendingTime"] >= 0, data
    if path is not None and name != "listener-broadcast":
        assert data["millis"] >= 0 and data["allowed"] is allowed, data
    return data


def test_rest_operations_are_recorded(rest, profile):
    rest.put("/a/b", "twelve bytes")
    assert next_record(profile, "rest-write", ["a", "b"])["bytes"] == len('"twelve bytes"')
    rest.patch("/a", {"c": 1, "d": 2})
    assert next_record(profile, "rest-update", ["a"])["bytes"] == len('{"c":1,"d":2}')
    rest.get("/a/b")
    assert next_record(profile, "rest-read", ["a", "b"])["bytes"] == len('"twelve bytes"')
    rest.must("POST", "/", '"x"')
    next_record(profile, "rest-write", [])
    rest.must("DELETE", "/a")
    next_record(profile, "rest-write", ["a"])
    rest.ask("GET", "/q.json?orderBy=%22x%22").expect_error(400)
    assert "unIndexed" not in next_record(profile, "rest-read", ["q"])


def test_refused_operations_are_recorded_as_refused(rest, profile):
    rest.put_rules({"rules": {"open": {".read": True, ".write": True}}})
    rest.ask("GET", "/closed.json").expect_error(401)
    next_record(profile, "rest-read", ["closed"], allowed=False)
    rest.ask("PUT", "/closed.json", "1").expect_error(401)
    next_record(profile, "rest-write", ["closed"], allowed=False)
    rest.put("/open", 1)
    next_record(profile, "rest-write", ["open"])


def test_records_name_who_asked(world, rest, profile):
    connection = world.connect()
    next_record(profile, "concurrent-connect")
    connection.must("p", {"p": "/a", "d": 1})
    assert next_record(profile, "realtime-write", ["a"])["by"] == "anonymous"
    connection.must("auth", {"cred": unsigned("ann")})
    connection.must("p", {"p": "/a", "d": 2})
    data = next_record(profile, "realtime-write", ["a"])
    assert (data["by"], data["uid"]) == ("user", "ann")
    rest.ask("PUT", "/a.json?auth_variable_override=%7B%22uid%22:%22bob%22%7D", "3", [OWNER]).expect(200)
    data = next_record(profile, "rest-write", ["a"])
    assert (data["by"], data["uid"]) == ("user", "bob")
    rest.ask("PUT", "/a.json", "4", [OWNER]).expect(200)
    data = next_record(profile, "rest-write", ["a"])
    assert data["by"] == "administrator" and "uid" not in data


def test_realtime_operations_are_recorded(world, rest, profile):
    connection = world.connect()
    next_record(profile, "concurrent-connect")
    connection.must("p", {"p": "/a", "d": {"n": 1}})
    assert next_record(profile, "realtime-write", ["a"])["bytes"] > 0
    connection.must("m", {"p": "/a", "d": {"m": 2}})
    next_record(profile, "realtime-update", ["a"])
    connection.must("q", {"p": "/a", "h": ""})
    assert next_record(profile, "listener-listen", ["a"])["bytes"] > 0
    connection.must("p", {"p": "/a/n", "d": 5})
    next_record(profile, "listener-broadcast", ["a", "n"])
    next_record(profile, "realtime-write", ["a", "n"])
    connection.must("n", {"p": "/a"})
    next_record(profile, "listener-unlisten", ["a"])
    connection.get("/a/n")
    assert next_record(profile, "realtime-read", ["a", "n"])["bytes"] > 0
    connection.must("q", {"p": "/a", "q": {"i": "h"}, "t": 1, "h": ""})
    data = next_record(profile, "listener-listen", ["a"])
    assert data["unIndexed"] is True and data["querySet"] == [{"index": {"path": ["h"]}}], data
    connection.close()
    next_record(profile, "concurrent-disconnect")


def test_a_query_stream_is_recorded_with_its_index(rest, profile):
    with rest.stream("/s", "orderBy=%22$key%22&limitToFirst=2") as stream:
        stream.put("/", None)
        assert "unIndexed" not in next_record(profile, "listener-listen", ["s"])


def test_two_watch_and_one_leaves(rest, profile):
    second = rest.stream("/.settings/profile", fields=[OWNER])
    rest.put("/a", 1)
    for stream in (profile, second):
        next_record(stream, "rest-write", ["a"])
    second.close()
    rest.put("/b", 1)
    next_record(profile, "rest-write", ["b"])


def test_databases_are_watched_apart(world, rest, profile):
    Rest(world.port, f"{world.ns}-other").put("/a", 1)
    rest.put("/b", 1)
    next_record(profile, "rest-write", ["b"])


def test_only_administrators_watch(world, rest):
    for fields in ([], [("Authorization", "Bearer nobody")]):
        with pytest.raises(Refused) as refused:
            rest.stream("/.settings/profile", fields=fields)
        refused.value.response.expect_error(401)
    rest.ask("GET", "/.settings/profile.json", fields=[OWNER]).expect_error(400)


def test_a_watcher_that_does_not_read_misses_records_and_delays_no_client(world, rest):
    """Records that wait for a watcher are bounded; when it reads again it gets the number of missed ones, and then further ones."""
    count, path = 7_000, f"/{'k' * 700}" * 8  # long paths: the records fill the sockets soon
    stream = rest.stream("/.settings/profile", fields=[OWNER], receive_buffer=4096)
    with Wire(world.port) as wire:
        one = wire.request_bytes("PUT", f"{path}.json?ns={world.ns}&print=silent", "1")
        for _ in range(count // 1000):
            wire.send(one * 1000)
            for _ in range(1000):
                wire.receive().expect(204)
    seen = missed = 0
    while seen + missed < count:
        _, data = stream.next(DEADLINE)
        if data["name"] == "missed":
            missed += data["count"]
        else:
            assert data["name"] == "rest-write"
            seen += 1
    assert seen + missed == count and missed > 0, (seen, missed)
    stream.close()


def test_staged_rulesets_are_none(rest):
    for name in ("rulesets", "ruleset_labels"):
        rest.ask("GET", f"/.settings/{name}.json", fields=[OWNER]).expect(200, "{}")
        rest.ask("PUT", f"/.settings/{name}.json", compact({}), [OWNER]).expect_error(405)
        rest.ask("GET", f"/.settings/{name}.json").expect_error(401)
