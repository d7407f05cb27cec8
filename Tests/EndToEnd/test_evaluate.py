"""`/.inspect/evaluate.json` of a real server: would the rules allow this, and which of them decide?"""

import json
from urllib.parse import quote

import pytest

from rest_client import OWNER, Rest

RULES = {"rules": {"rooms": {"$room": {
    ".read": "root.child('members').child($room).child(auth.uid).val() == true",
    ".write": "auth.uid == 'ann'",
    "text": {".validate": "newData.isString() && newData.val().length < 5"},
    "at": {".validate": "newData.val() == now"},
}}, "list": {".read": "query.limitToFirst <= 3"}}}


@pytest.fixture
def server(servers):
    server = servers()
    owner = Rest(server.port, "default", fields=[OWNER])
    owner.ask("PUT", "/.settings/rules.json", json.dumps(RULES)).expect(200)
    owner.ask("PUT", "/members/r1/bob.json", "true").expect(200)
    return server


def evaluate(server, status=200, **body):
    answer = Rest(server.port, "default", fields=[OWNER]).ask("POST", "/.inspect/evaluate.json", json.dumps(body))
    return answer.expect(status).json()


def outline(answer):
    return [(rule["kind"], rule["rule"], rule["outcome"], rule["decides"]) for rule in answer["rules"]]


def test_reads(server):
    denied = evaluate(server, method="read", path="/rooms/r1/text", auth={"uid": "eve"})
    assert (denied["allowed"], denied["cause"], denied["path"]) == (False, "notGranted", "/rooms/r1/text")
    assert outline(denied) == [(".read", "/rooms/$room", "false", True)]
    (rule,) = denied["rules"]
    assert rule["location"] == "/rooms/r1" and rule["line"] == 1 and rule["column"] > 1
    assert {"expression": "auth.uid", "value": '"eve"'} in rule["values"]
    allowed = evaluate(server, method="read", path="/rooms/r1/text", auth={"uid": "bob"})
    assert allowed["allowed"] and allowed["cause"] == "granted" and outline(allowed)[0][2:] == ("true", True)
    assert evaluate(server, method="read", path="/nowhere", auth=None)["cause"] == "noRule"
    assert evaluate(server, method="read", path="/nowhere", auth="admin") == {
        "allowed": True, "method": "read", "path": "/nowhere", "cause": "administrator", "rules": [], "omitted": 0}


def test_queries(server):
    for limit, allowed in ((3, True), (4, False)):
        query = {"orderBy": "$key", "limitToFirst": limit}
        assert evaluate(server, method="read", path="/list", query=query)["allowed"] is allowed
    assert evaluate(server, method="read", path="/list")["allowed"] is False


def test_writes(server):
    ann = {"uid": "ann"}
    assert evaluate(server, method="write", path="/rooms/r1", value={"text": "abc"}, auth=ann)["allowed"]
    invalid = evaluate(server, method="write", path="/rooms/r1", value={"text": "abcdef"}, auth=ann)
    assert invalid["cause"] == "invalid" and outline(invalid) == [
        (".write", "/rooms/$room", "true", False), (".validate", "/rooms/$room/text", "false", True)]
    assert evaluate(server, method="write", path="/rooms/r1/at", value={".sv": "timestamp"}, auth=ann)["allowed"]
    assert evaluate(server, method="write", path="/rooms/r1", value=None, auth=ann)["allowed"]
    assert not evaluate(server, method="write", path="/rooms/r1", value=1, auth=None)["allowed"]
    rest = Rest(server.port, "default", fields=[OWNER])
    rest.ask("GET", "/rooms.json").expect(200, "null")


def test_it_decides_as_a_request_would(server):
    """The same question to the endpoint, and as a request of that user."""
    for uid in ("ann", "bob", "eve"):
        for path, value in (("/rooms/r1/text", "abc"), ("/rooms/r1/text", "abcdef"), ("/rooms/r1/other", 1), ("/x", 1)):
            override = json.dumps({"uid": uid})
            user = Rest(server.port, "default", fields=[OWNER])
            written = user.ask(
                "PUT", f"{path}.json?auth_variable_override={quote(override)}", json.dumps(value)).status == 200
            asked = evaluate(server, method="write", path=path, value=value, auth={"uid": uid})["allowed"]
            assert asked == written, (uid, path, value)
            read = user.ask("GET", f"{path}.json?auth_variable_override={quote(override)}").status == 200
            assert evaluate(server, method="read", path=path, auth={"uid": uid})["allowed"] == read


def test_drafts(server):
    draft = json.dumps({"rules": {".read": "auth.token.vip === true"}})
    vip = {"uid": "x", "token": {"vip": True}}
    assert evaluate(server, method="read", path="/", auth=vip, rules=draft)["allowed"]
    assert not evaluate(server, method="read", path="/", auth={"uid": "x"}, rules=draft)["allowed"]
    assert not evaluate(server, method="read", path="/", auth=vip)["allowed"], "a draft is not published"
    broken = '{\n  "rules": {\n    ".read": "auth.uid ==",\n    ".write": 7\n  }\n}'
    answer = evaluate(server, status=400, method="read", path="/", rules=broken)
    published = Rest(server.port, "default", fields=[OWNER]).ask("PUT", "/.settings/rules.json", broken).expect(400)
    assert answer["error"] == published.json()["error"]
    assert [f"{problem['line']}:{problem['column']}: {problem['text']}\n" for problem in answer["problems"]] == [
        line + "\n" for line in answer["error"].splitlines()]


def test_without_rules(servers):
    assert evaluate(servers(), method="read", path="/")["cause"] == "open"


def test_refusals(server):
    for fields in ([], [("Authorization", "Bearer nonsense")]):
        answer = Rest(server.port, "default", fields=fields).ask("POST", "/.inspect/evaluate.json", "{}")
        answer.expect_error(401)
    owner = Rest(server.port, "default", fields=[OWNER])
    owner.ask("GET", "/.inspect/evaluate.json").expect_error(405)
    for body in ("", "[]", "{", "7", '{"method":"read"}', '{"path":"/","method":"x"}', '{"path":"/","method":"write"}',
                 '{"path":"/a.b","method":"read"}', '{"path":"/","method":"read","ns":"other"}',
                 '{"path":"/","method":"read","auth":3}', '{"path":"/","method":"read","query":{"limitToFirst":1}}',
                 '{"path":"/.priority","method":"write","value":{"a":1}}', '{"path":"/","method":"write","value":{"$":1}}'):
        answer = owner.ask("POST", "/.inspect/evaluate.json", body).expect(400)
        assert answer.json()["error"], body
    owner.ask("POST", "/.inspect/evaluate.json", json.dumps({"rules": "x" * (5 << 20)})).expect_error(413)
