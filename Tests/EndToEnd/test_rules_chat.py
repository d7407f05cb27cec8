"""A chat under rules: three users and an intruder (the example of public/docs/guide.md), and why the intruder was denied."""

import json
import pathlib

import pytest

import server as server_module
from pando_client import Connection
from rest_client import Refused, Rest
from tokens import bearer, unsigned

CHAT = pathlib.Path(__file__).parent / "fixtures" / "chat"
NOW = {".sv": "timestamp"}
PEOPLE = ("ann", "ben", "cat", "eve")


@pytest.fixture
def chat(servers):
    """A server with the chat's rules, and a connection for each person; eve belongs to no room."""
    server = servers(arguments=["--rules", CHAT / "rules.json", "--log-level", "debug"])
    connections = {}
    for name in PEOPLE:
        connection = Connection(server.port, "default")
        connection.must("auth", {"cred": unsigned(name)})
        connections[name] = connection
    yield server, connections
    for connection in connections.values():
        connection.close()


def denied(connection, action, body):
    answer = connection.ask(action, body)
    assert answer["s"] == "permission_denied", answer
    return True


def make_room(connections):
    connections["ann"].must("m", {"p": "/rooms/r1", "d": {"owner": "ann", "members/ann": True}})
    connections["ann"].must("p", {"p": "/rooms/r1/members/ben", "d": True})
    connections["ann"].must("p", {"p": "/rooms/r1/members/cat", "d": True})


def say(connection, name, text, key):
    return connection.ask("p", {"p": f"/messages/r1/{key}", "d": {"from": name, "text": text, "at": NOW}})


def test_a_conversation(chat):
    server, people = chat
    make_room(people)
    for name in ("ann", "ben", "cat"):
        people[name].must("q", {"p": "/messages/r1", "h": ""})
        people[name].must("q", {"p": "/rooms/r1", "h": ""})
        people[name].taken_pushes()
    assert say(people["ann"], "ann", "hello", "m1")["s"] == "ok"
    assert say(people["ben"], "ben", "hi ann", "m2")["s"] == "ok"
    for name in ("ann", "ben", "cat"):
        people[name].fence()
        heard = [(body["p"], body["d"]["from"], body["d"]["text"]) for _, body in people[name].taken_pushes()]
        assert heard == [("messages/r1/m1", "ann", "hello"), ("messages/r1/m2", "ben", "hi ann")]


def test_a_stranger_is_denied_everything(chat):
    server, people = chat
    make_room(people)
    say(people["ann"], "ann", "a secret", "m1")
    eve = people["eve"]
    for path in ("/", "/rooms", "/rooms/r1", "/rooms/r1/members", "/messages", "/messages/r1", "/messages/r1/m1/text"):
        assert denied(eve, "q", {"p": path, "h": ""})
        assert denied(eve, "g", {"p": path, "q": {}})
    assert denied(eve, "p", {"p": "/rooms/r1/members/eve", "d": True})
    assert denied(eve, "p", {"p": "/rooms/r1/owner", "d": "eve"})
    assert denied(eve, "p", {"p": "/rooms/r1", "d": None})
    assert denied(eve, "m", {"p": "/", "d": {"rooms/r1/owner": "eve", "rooms/r1/members/eve": True}})
    assert denied(eve, "p", {"p": "/messages/r1/m2", "d": {"from": "eve", "text": "buy!", "at": NOW}})
    assert denied(eve, "p", {"p": "/messages/r1/m1/text", "d": "changed"})
    assert denied(eve, "o", {"p": "/messages/r1", "d": None}), "nor when she leaves"
    assert denied(eve, "p", {"p": "/messages/r1/m1", "d": 1, "h": ""}), "a denied transaction does not show whether the guess is right"
    assert eve.taken_pushes() == []
    rest = Rest(server.port, "default", fields=[bearer(unsigned("eve"))])
    rest.ask("GET", "/messages/r1.json").expect_error(401, "Permission denied")
    rest.ask("PUT", "/messages/r1/m1.json", "1").expect_error(401, "Permission denied")
    with pytest.raises(Refused):
        rest.stream("/messages/r1")
    owner = Rest(server.port, "default", fields=[bearer("owner")])
    assert owner.get("/messages/r1/m1/text") == "a secret"
    assert set(owner.get("/rooms/r1/members")) == {"ann", "ben", "cat"}


def test_a_member_that_left_needs_an_invitation_to_return(chat):
    _, people = chat
    make_room(people)
    ben = people["ben"]
    ben.must("p", {"p": "/rooms/r1/members/ben", "d": None})
    assert denied(ben, "q", {"p": "/messages/r1", "h": ""})
    assert denied(ben, "p", {"p": "/rooms/r1/members/ben", "d": True})
    people["ann"].must("p", {"p": "/rooms/r1/members/ben", "d": True})
    ben.must("q", {"p": "/messages/r1", "h": ""})


def test_denials_are_explained(chat):
    """An operator sees the rule, its place and the values that failed it; clients see nothing of that."""
    server, people = chat
    make_room(people)
    assert denied(people["eve"], "q", {"p": "/messages/r1", "h": ""})
    assert denied(people["ben"], "p", {"p": "/messages/r1/m1", "d": {"from": "ann", "text": "x", "at": NOW}})
    owner = Rest(server.port, "default", fields=[bearer("owner")])
    told = owner.ask("GET", "/.inspect/denials.json").expect(200).json()
    assert told["count"] == 2
    newest, oldest = told["denials"]
    assert (newest["uid"], oldest["uid"]) == ("ben", "eve")
    assert oldest["denial"]["operation"] == "read" and oldest["denial"]["path"] == "/messages/r1"
    (rule,) = oldest["denial"]["rules"]
    assert rule["rule"] == "/messages/$room" and rule["kind"] == ".read"
    lines = (CHAT / "rules.json").read_text().splitlines()
    assert lines[rule["line"] - 1][rule["column"] - 1 :].startswith('"auth != null && root')
    assert {"expression": "auth.uid", "value": '"eve"'} in rule["values"]
    assert newest["denial"]["cause"] == "invalid"
    assert [rule["rule"] for rule in newest["denial"]["rules"]] == ["/messages/$room/$message/from"]
    server.wait_for_log("read of /messages/r1 is refused")
    for fields in ([], [bearer(unsigned("ann"))]):
        owner.fields = fields
        assert owner.ask("GET", "/.inspect/denials.json").status == 401


def test_the_table_of_cases():
    """`pando test rules` with the table beside the rules: all of it passes, and every rule is tried both ways."""
    result = server_module.run("test", "rules", "--require-coverage", CHAT / "rules.json", CHAT / "cases.json")
    assert result.returncode == 0, result.stdout + result.stderr
    count = (CHAT / "cases.json").read_text().count('"name"')
    assert result.stdout.splitlines()[-1] == f"{count} passed, 0 failed"
    assert "every rule was true in one case and false in another" in result.stdout


def test_a_failing_case_is_explained(tmp_path):
    cases = tmp_path / "cases.json"
    cases.write_text(json.dumps({"cases": [
        {"name": "wrong", "auth": {"uid": "eve"}, "read": "/rooms/r1", "expect": "allow"},
        {"name": "right", "auth": {"uid": "eve"}, "read": "/rooms/r1", "expect": "deny"},
    ]}))
    result = server_module.run("test", "rules", CHAT / "rules.json", cases)
    assert result.returncode == 1
    assert "FAIL 1. wrong" in result.stdout and "ok   2. right" in result.stdout
    assert "read of /rooms/r1 is refused" in result.stdout and 'auth.uid = "eve"' in result.stdout
    assert "was never evaluated" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 passed, 1 failed"


@pytest.mark.parametrize("cases, said", [
    ("[]", "the file is not a JSON object"),
    ("{}", 'the file has no "cases"'),
    ('{"cases":1}', '"cases" is not an array'),
    ('{"cases":[],"rules":{}}', 'the file has an unknown member "rules"'),
    ('{"cases":[{"read":"/a","auth":{"uid":"ann","uid":"eve"},"expect":"deny"}]}', "the file is not a JSON object, or"),
    ('{"cases":[{"expect":"deny"}]}', "case 1: one of read, write, update and delete must name a path"),
    ('{"cases":[{"read":"/a","write":"/b","expect":"deny"}]}', "case 1: one of read"),
    ('{"cases":[{"read":"/a","expect":"maybe"}]}', 'case 1: "expect" must be'),
    ('{"cases":[{"write":"/a","expect":"deny"}]}', 'case 1: write needs a "value"'),
    ('{"cases":[{"delete":"/a","value":1,"expect":"deny"}]}', 'case 1: delete has no "value"'),
    ('{"cases":[{"read":"/a","auth":"root","expect":"deny"}]}', 'case 1: "auth" must be'),
    ('{"cases":[{"read":"/a$","expect":"deny"}]}', "case 1: Invalid path"),
    ('{"cases":[{"read":"/a","query":{"limitToFirst":1},"expect":"deny"}]}', "case 1: orderBy must be defined"),
    ('{"cases":[{"write":"/a","value":{"b.c":1},"expect":"deny"}]}', "case 1: "),
    ('{"data":{"a.b":1},"cases":[]}', 'the file: "data" can\'t be stored'),
])
def test_each_kind_of_bad_table_has_its_own_error(tmp_path, cases, said):
    file = tmp_path / "cases.json"
    file.write_text(cases)
    result = server_module.run("test", "rules", CHAT / "rules.json", file)
    assert result.returncode == 65 and f"{file}: {said}" in result.stderr, result.stderr
