"""The worked cases of rules §12 through the real binary, each over REST and over WebSocket.

A row is what stands in the specification: the rules, the stored data, the client and its request, and the verdict.
"""

import json
import urllib.parse

import pytest

from pando_client import Closed, Connection, compact
from rest_client import Rest
from tokens import bearer, unsigned

OWNER = "owner"
U = unsigned("u1")
A = None
SIGNED_IN = "auth != null"
ALLOW, DENY = True, False
NOW = {".sv": "timestamp"}


def read(path, query=None):
    return ("read", path, query)


def put(path, value):
    return ("put", path, value)


def update(path, value):
    return ("update", path, value)


def node(path, rules):
    """The rules of one location."""
    for name in reversed([part for part in path.split("/") if part]):
        rules = {name: rules}
    return rules


def writable(path, **rules):
    """The rules of a location that every signed-in user may write."""
    return node(path, {".write": SIGNED_IN, **{name.replace("_", "."): rule for name, rule in rules.items()}})


def provider(name):
    return unsigned("u1", firebase={"sign_in_provider": name, "identities": {}})


CLOSED_IN = {".read": SIGNED_IN, ".write": SIGNED_IN}
OWN = node("users/$uid", {".write": "auth.uid == $uid"})
PAIR = writable("n/$i", _validate="newData.hasChildren(['a','b'])")
HAS_X = writable("p", _validate="newData.hasChildren(['x'])")
PARENT = writable("par", _validate="newData.hasChildren()")
SIBLINGS = writable("r/$i", title={".validate": "newData.isString()"}, tag={".validate": "newData.isNumber()"})
COUNT = writable("r/$i", count={".validate": "newData.val() == data.val() + 1"})
META = writable("d", meta={".validate": "newData.parent().child('content').exists()"})
TITLE = writable("p", title={".validate": True}, **{"$o": {".validate": False}})
LIMITED = {".read": "query.limitToFirst <= 2"}
MINE = node("items", {".read": "query.orderByChild == 'owner' && query.equalTo == auth.uid", ".indexOn": "owner"})
LEVEL = {".write": "auth.token.level >= 3"}
LAST = {
    "posts": {"$p": {
        ".write": SIGNED_IN,
        ".validate": "newData.parent().parent().child('last').child(auth.uid).val() == now",
    }},
    "last": {"$u": {".write": "auth.uid == $u && newData.exists()"}},
}
JOIN = node("rooms/$r", {
    "members": {"$u": {".write": "auth.uid == $u"}},
    "messages": {"$m": {".write": "data.parent().parent().child('members').child(auth.uid).val() == true"}},
})
CREATE = node("x", {".write": "!data.exists() && newData.exists()"})
SEATS = writable("seats", **{"$s": {".validate": "$s == '0' || $s == '1'"}})
LITERAL = writable("v", _validate="newData.val().replace('/a/g','z') == 'z'")
CLOCK = writable("t", _validate="newData.val() == now")


def validated(rule, value, verdict):
    return writable("v", _validate=rule), None, U, put("/v", value), verdict


def by_owner(owner):
    return read("/items", {"orderBy": "owner", "equalTo": owner})


ROWS = [
    # number, rules, seed, who, operation, verdict
    ("1", CLOSED_IN, None, A, read("/x"), DENY),
    ("2", CLOSED_IN, None, U, put("/x", 1), ALLOW),
    ("3", {}, None, U, read("/x"), DENY),
    ("4", OWN, None, U, put("/users/u2", 1), DENY),
    ("5", OWN, None, U, put("/users/u1/name", "x"), ALLOW),
    ("6", {".write": False, "a": {".write": True, "b": {".write": False}}}, None, U, put("/a/c", 1), ALLOW),
    ("7", {"a": {".read": True, "secret": {".read": False}}}, None, A, read("/a/secret"), ALLOW),
    ("8", node("list/$id", {".read": True}), None, A, read("/list"), DENY),
    ("9", {"items": {"$id": {".write": "true"}, "fixed": {".write": "false"}}}, None, U, put("/items/fixed", 1), DENY),
    ("10a", TITLE, None, U, put("/p/title", 1), ALLOW),
    ("10b", TITLE, None, U, put("/p/zz", 1), DENY),
    ("11", HAS_X, None, U, put("/p/sub/k", 1), DENY),
    ("12", HAS_X, {"p": {"x": 1}}, U, put("/p/sub/k", 1), ALLOW),
    ("13", HAS_X, None, U, put("/p", {"y": 1}), DENY),
    ("14", PAIR, {"n": {"1": {"a": 1, "b": 1}}}, U, put("/n/1", None), ALLOW),
    ("15", PAIR, {"n": {"1": {"a": 1, "b": 1}}}, U, put("/n/1", {}), ALLOW),
    ("16", PAIR, {"n": {"1": {"a": 1, "b": 1}}}, U, put("/n/1/b", None), DENY),
    ("17", PARENT, {"par": {"c": 1}}, U, put("/par/c", None), ALLOW),
    ("18", PARENT, {"par": {"c": 1, "d": 1}}, U, put("/par/c", None), ALLOW),
    ("19", SIBLINGS, {"r": {"1": {"tag": "bad"}}}, U, put("/r/1/title", "t"), ALLOW),
    ("20", SIBLINGS, {"r": {"1": {"tag": "bad"}}}, U, put("/r/1", {"title": "t", "tag": "bad"}), DENY),
    ("21", COUNT, {"r": {"1": {"count": 1}}}, U, update("/r/1", {"count": 1}), DENY),
    ("22a", COUNT, {"r": {"1": {"count": 1}}}, U, put("/r/1/count", 2), ALLOW),
    ("22b", COUNT, {"r": {"1": {"count": 1}}}, U, put("/r/1/count", 3), DENY),
    ("23", COUNT, None, U, put("/r/1/count", 1), DENY),
    ("24", META, {"d": {"meta": 1, "content": 1}}, U, put("/d/content", None), ALLOW),
    ("25", *validated("newData.val().length > 2", 5, DENY)),
    ("26", *validated("newData.val().toUpperCase() == 'OK' || newData.isNumber()", 5, DENY)),
    ("27", *validated("newData.isNumber() || newData.val().toUpperCase() == 'OK'", 5, ALLOW)),
    ("28", *validated("!(newData.val().toUpperCase() == 'OK')", 5, DENY)),
    ("29", {".write": "data.val() + 1 == 2", "open": {".write": SIGNED_IN}}, None, U, put("/open", 1), ALLOW),
    ("30a", LIMITED, None, A, read("/"), DENY),
    ("30b", LIMITED, None, A, read("/", {"orderBy": "$key", "limitToFirst": 2}), ALLOW),
    ("30c", LIMITED, None, A, read("/", {"orderBy": "$key", "limitToFirst": 3}), DENY),
    ("31a", MINE, None, U, by_owner("u1"), ALLOW),
    ("31b", MINE, None, U, by_owner("u2"), DENY),
    ("31c", MINE, None, U, read("/items"), DENY),
    ("32", {".read": "query.orderByKey == false"}, None, A, read("/"), ALLOW),
    ("33a", LEVEL, None, unsigned("u1", level=5), put("/x", 1), ALLOW),
    ("33b", LEVEL, None, unsigned("u1", level=1), put("/x", 1), DENY),
    ("33c", LEVEL, None, U, put("/x", 1), DENY),
    ("34", {".write": "auth.token.beta == true"}, None, unsigned("u1", beta="true"), put("/x", 1), DENY),
    ("34a", {".write": "auth.token.roles != 'banned'"}, None, unsigned("u1", roles={"a": True}), put("/x", 1), ALLOW),
    ("34b", {".write": "auth.token.roles != 'banned'"}, None, unsigned("u1", roles="banned"), put("/x", 1), DENY),
    ("34c", {".write": "auth.token.roles == 'admin'"}, None, unsigned("u1", roles=["admin"]), put("/x", 1), DENY),
    ("35", {".write": "auth.provider == 'password'"}, None, provider("anonymous"), put("/x", 1), DENY),
    ("36", {".write": "auth.provider != null"}, None, A, put("/x", 1), DENY),
    ("37", {".read": "data.child(auth.uid).exists()"}, {"null": 1}, A, read("/"), DENY),
    ("38", *validated("newData.child('./x').exists()", {"x": 1}, DENY)),
    ("39", *validated("newData.hasChildren([])", 5, ALLOW)),
    ("40a", LITERAL, None, U, put("/v", "/a/g"), ALLOW),
    ("40b", LITERAL, None, U, put("/v", "a"), DENY),
    ("41a", CLOCK, None, U, put("/t", NOW), ALLOW),
    ("41b", CLOCK, None, U, put("/t", 1_760_000_000_000), DENY),
    ("42", LAST, None, U, update("/", {"posts/p1": "h", "last/u1": NOW}), ALLOW),
    ("43", LAST, None, U, update("/", {"posts/p1": "h"}), DENY),
    ("44", LAST, {"last": {"u1": 1}}, U, put("/last/u1", None), DENY),
    ("45", JOIN, None, U, update("/rooms/r1", {"members/u1": True, "messages/m1": "hi"}), DENY),
    ("46", writable("v", _validate="newData.child('a').val() == 1"), {"v": {"a": 2}}, U, update("/v", {"a": 1}), ALLOW),
    ("47a", CREATE, {"x": 1}, U, put("/x", 2), DENY),
    ("47b", CREATE, {"x": 1}, U, put("/x", None), DENY),
    ("47c", CREATE, None, U, put("/x", 1), ALLOW),
    ("48", {".read": "data.child('v').val().toUpperCase() == 'OK'"}, {"v": 5}, A, read("/"), DENY),
    ("49", *validated("newData.val() === 5", "5", DENY)),
    ("50a", {".read": "10 - 4 - 3 == 3"}, None, A, read("/"), ALLOW),
    ("50b", {".read": "true || false && false"}, None, A, read("/"), ALLOW),
    ("50c", {".read": "true ? false : true || true"}, None, A, read("/"), DENY),
    ("51", *validated("newData.getPriority() == 7", {".value": "w", ".priority": 7}, ALLOW)),
    ("52a", SEATS, None, U, put("/seats", ["a", "b"]), ALLOW),
    ("52b", SEATS, None, U, put("/seats", ["a", "b", "c"]), DENY),
    ("53", {".write": "newData.val().matches(/^[a-z]+$/)"}, None, A, put("/x", "ab1"), DENY),
    ("54", {".write": "newData.child('x').val().matches(/b/)"}, None, A, put("/x", "abc"), ALLOW),
    ("58a", {}, None, OWNER, read("/"), ALLOW),
    ("58b", {"a": {".validate": False}}, None, OWNER, put("/a", 1), ALLOW),
    ("59", node("a", {".validate": "newData.isNumber()"}), None, U, put("/a", 1), DENY),
    ("60", node("q", {".write": True, ".validate": "newData.val() < 'a'"}), None, U, put("/q", 5), DENY),
    ("62", node("a", {".write": True}), None, U, update("/", {"a/b": 1, "z": 2}), DENY),
    ("63", *validated("(1/0 + '') == 'NaN'", 5, ALLOW)),
    ("65", node("u/$id", {".write": "auth.uid.length > 3"}), None, U, put("/u/x", 1), DENY),
    ("66", {".read": "root.child('users/' + auth.uid).exists()"}, {"users": {"null": 1}}, A, read("/"), DENY),
]


@pytest.fixture
def databases(world):
    """Puts rules and data into this test's database; answers its administrator."""
    rest = Rest(world.port, world.ns, fields=[bearer(OWNER)])

    def make(rules, seed):
        rest.put_rules({"rules": rules})
        rest.ask("PUT", "/.json", compact(seed)).expect(200)
        return rest

    yield make
    rest.close()


def over_rest(owner, who, operation):
    kind, path, detail = operation
    rest = Rest(owner.port, owner.ns, fields=[bearer(who)] if who else [])
    try:
        if kind == "read":
            query = urllib.parse.urlencode({name: json.dumps(value) for name, value in (detail or {}).items()})
            answer = rest.ask("GET", f"{path}.json" + (f"?{query}" if query else ""))
        else:
            answer = rest.ask({"put": "PUT", "update": "PATCH"}[kind], f"{path}.json", compact(detail))
    finally:
        rest.close()
    if answer.status == 401:
        answer.expect_error(401, "Permission denied")
        return DENY
    answer.expect(200)
    return ALLOW


def wire_query(query):
    """A query of REST as realtime clients spell it (realtime §7.1)."""
    spelled = {"i": {"$key": ".key", "$value": ".value"}.get(query["orderBy"], query["orderBy"])}
    if "equalTo" in query:
        spelled.update(sp=query["equalTo"], ep=query["equalTo"])
    if "limitToFirst" in query:
        spelled.update(l=query["limitToFirst"], vf="l")
    return spelled


def over_websocket(owner, who, operation):
    kind, path, detail = operation
    with Connection(owner.port, owner.ns) as connection:
        if who:
            connection.must("gauth" if who == OWNER else "auth", {"cred": who})
        if kind == "read":
            body = {"p": path, "h": ""}
            answer = connection.ask("q", {**body, "q": wire_query(detail), "t": 1} if detail else body)
        else:
            answer = connection.ask({"put": "p", "update": "m"}[kind], {"p": path, "d": detail})
        if answer["s"] == "ok":
            return ALLOW
        assert answer == {"s": "permission_denied", "d": "Permission denied"}
        assert connection.taken_pushes() == [], "a denied client gets no push"
        return DENY


@pytest.mark.parametrize("transport", [over_rest, over_websocket])
@pytest.mark.parametrize("rules, seed, who, operation, verdict", [pytest.param(*row[1:], id=row[0]) for row in ROWS])
def test_verdict(databases, transport, rules, seed, who, operation, verdict):
    owner = databases(rules, seed)
    before = owner.get("/")
    assert transport(owner, who, operation) == verdict
    kind, path, value = operation
    if verdict == DENY or kind == "read":
        assert owner.get("/") == before, "a denied write changes nothing"


@pytest.mark.parametrize(
    "rule, said",
    [
        ({".read": "auth.token.admin"}, "Expression must evaluate to a boolean."),
        ({".read": "data > 1"}, "Invalid > expression: left operand must be a number or string."),
        ({".write": "newData.val() = 1"}, "Rule expressions may not contain assignments."),
        ({".read": "newData.exists()"}, "newData is invalid in .read expressions."),
        ({".read": "root['exi'+'sts']()"}, "Invalid property access."),
        ({".read": "nobody.exists()"}, "Unknown variable 'nobody'."),
    ],
)
def test_upload_errors(databases, rule, said):
    """Rows 55 to 57 and 68: refused with line and column, and the rules before stay in force."""
    owner = databases({".read": True}, None)
    answer = owner.ask("PUT", "/.settings/rules.json", json.dumps({"rules": rule}))
    answer.expect(400)
    assert said in answer.json()["error"] and answer.json()["error"].startswith("1:")
    assert over_rest(owner, None, read("/")) == ALLOW


def test_disconnect_writes_are_checked_when_they_run(databases):
    """Row 61: allowed when queued, not when run: dropped in silence."""
    owner = databases({".write": "auth.uid == 'u1'"}, {"kept": 1})
    connection = Connection(owner.port, owner.ns)
    connection.must("auth", {"cred": U})
    connection.must("o", {"p": "/gone", "d": 1})
    assert connection.ask("o", {"p": "/.info", "d": 1})["s"] != "ok"
    owner.put_rules({"rules": {}})
    with Connection(owner.port, owner.ns) as watcher:
        watcher.must("gauth", {"cred": OWNER})
        watcher.must("q", {"p": "/", "h": ""})
        watcher.taken_pushes()
        connection.close()
        owner.put("/fence", 1)
        watcher.fence()
        assert watcher.taken_pushes() == [("d", {"p": "fence", "d": 1})]


def test_disconnect_writes_are_checked_when_they_are_queued(databases):
    owner = databases({"mine": {".write": "auth.uid == 'u1'"}}, None)
    with Connection(owner.port, owner.ns) as connection:
        assert connection.ask("o", {"p": "/mine", "d": 1})["s"] == "permission_denied"
        connection.must("auth", {"cred": U})
        connection.must("o", {"p": "/mine", "d": 1})


def test_a_change_of_credential_revokes_denied_listens(databases):
    owner = databases({"mine": {".read": "auth.uid == 'u1'"}, "all": {".read": True}}, None)
    query = {"i": ".key", "l": 1, "vf": "r"}
    with Connection(owner.port, owner.ns) as connection:
        connection.must("auth", {"cred": U})
        connection.must("q", {"p": "/mine", "h": ""})
        connection.must("q", {"p": "/mine", "q": query, "t": 3, "h": ""})
        connection.must("q", {"p": "/all", "h": ""})
        connection.taken_pushes()
        connection.must("unauth", {})
        assert connection.taken_pushes() == [("c", {"p": "mine"}), ("c", {"p": "mine", "q": [query]})]
        owner.put("/mine", 1)
        owner.put("/all", 2)
        connection.fence()
        assert connection.taken_pushes() == [("d", {"p": "all", "d": 2})]


@pytest.mark.parametrize("rule, order", [("query.orderByKey == true", "$key"), ("query.orderByChild == 'o'", "o")])
def test_rules_see_the_order_of_a_stream_without_a_filter(databases, rule, order):
    owner = databases({".read": rule, ".write": SIGNED_IN, ".indexOn": "o"}, {"a": 1})
    reader = Rest(owner.port, owner.ns)
    reader.ask("GET", "/.json").expect_error(401, "Permission denied")
    with reader.stream("/", f'orderBy="{order}"') as stream:
        stream.put("/", {"a": 1})
        owner.put_rules({"rules": {".read": rule, ".indexOn": "o", ".write": True}})
        owner.put("/a", 2)
        stream.put("/a", 2)
        owner.put_rules({"rules": {}})
        assert stream.next()[0] == "cancel"


def test_many_nested_listens_are_revoked_at_once(databases):
    """What one message costs must not grow with the square of the listens."""
    owner = databases({"l": {".read": "auth.uid == 'u1'"}}, None)
    count = 3000
    with Connection(owner.port, owner.ns) as connection:
        connection.must("auth", {"cred": U})
        for number in range(count):
            connection.request("q", {"p": f"/l/k{number}/c", "h": ""})
            connection.request("q", {"p": f"/l/k{number}", "h": ""})
        connection.fence()
        connection.taken_pushes()
        connection.must("unauth", {})
        assert len(connection.taken_pushes()) == 2 * count


def test_a_client_that_changes_credentials_all_the_time_is_disconnected(databases):
    """Each change looks at every listen again: a connection has so many of those a minute."""
    owner = databases({"l": {".read": "auth != null"}}, None)
    connection = Connection(owner.port, owner.ns)
    connection.must("auth", {"cred": U})
    for number in range(5000):
        connection.request("q", {"p": f"/l/k{number}", "h": ""})
    connection.fence()
    with pytest.raises((Closed, OSError)):
        for number in range(1000):
            connection.must("auth", {"cred": unsigned("u1", n=number)})
            connection.fence()
    with Connection(owner.port, owner.ns) as other:
        other.fence()


def test_a_queued_write_needs_the_permission_of_all_its_authors(databases):
    """A write without a sign-in stays one when an administrator adds a write below it on the same connection."""
    owner = databases({"t": {".write": "!data.exists()"}}, None)
    connection = Connection(owner.port, owner.ns)
    connection.must("o", {"p": "/t", "d": {"a": 1}})
    owner.put("/t", "taken")
    connection.must("gauth", {"cred": OWNER})
    connection.must("o", {"p": "/t/b", "d": 2})
    with Connection(owner.port, owner.ns) as watcher:
        watcher.must("gauth", {"cred": OWNER})
        connection.close()
        owner.put("/fence", 1)
        watcher.fence()
    assert owner.get("/t") == "taken"
