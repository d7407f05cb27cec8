"""Aggregates (rest §5.6, realtime §4.9): read once, by event streams and by listens, against sums of fractions."""

import random
import time
from fractions import Fraction
from urllib.parse import quote

import pytest

from pando_client import DEADLINE, Connection
from rest_client import OWNER, Refused, Rest

RULES = {"rules": {".read": True, ".write": True, "q": {".indexOn": ["n", ".value", "g+n"]}}}
ALL = ["count", "sum(p)", "avg(p)", "min(p)", "max(p)"]


@pytest.fixture
def rest(world):
    return Rest(world.port, world.ns)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def nearest(value):
    """A fraction as JSON has it: an integer of 64 bits, or the nearest double."""
    if value.denominator == 1 and -(2**63) <= value < 2**63:
        return int(value)
    return float(value)


def model(children, names=ALL):
    numbers = [child["p"] for child in children if isinstance(child, dict) and is_number(child.get("p"))]
    total = sum((Fraction(number) for number in numbers), Fraction(0))
    values = {"count": len(children), "sum(p)": nearest(total)}
    if numbers:
        average = nearest(total / len(numbers))
        values |= {"avg(p)": nearest(Fraction(average)), "min(p)": min(numbers), "max(p)": max(numbers)}
    return {name: values[name] for name in names if name in values}


def query(**parameters):
    return "&".join(f"{name}={quote(value)}" for name, value in parameters.items())


MIXED = {
    "a": {"n": 1, "p": 0.1}, "b": {"n": 2, "p": 0.2}, "c": {"n": 3, "p": "12"}, "d": {"n": 4}, "e": 5,
    "f": {"n": 5, "p": 9007199254740993}, "g": {"n": 6, "p": True}, "h": {"n": 7, "p": {"x": 1}}, "i": {"n": 8, "p": -1e300},
    "j": {"n": 9, "p": 1e300}, "k": {"n": "x", "p": -7},
}


@pytest.mark.parametrize("parameters, keys", [
    ({}, "abcdefghijk"),
    ({"orderBy": '"n"'}, "abcdefghijk"),
    ({"orderBy": '"n"', "startAt": "2", "endAt": "5"}, "bcdf"),
    ({"orderBy": '"n"', "limitToLast": "3"}, "ijk"),
    ({"orderBy": '"n"', "equalTo": "null"}, "e"),
    ({"orderBy": '"$key"', "startAfter": '"c"', "limitToFirst": "4"}, "defg"),
    ({"orderBy": '"$key"', "startAt": '"x"'}, ""),
    ({"orderBy": '"$value"', "endAt": "9"}, "e"),
    ({"orderBy": '"$priority"', "limitToFirst": "2"}, "ab"),
])
def test_values_of_a_query(rest, parameters, keys):
    rest.put_rules(RULES)
    rest.put("/q", MIXED)
    expected = model([MIXED[key] for key in keys])
    assert rest.get("/q", query(**parameters, aggregate=",".join(ALL))) == expected
    # The pretty form, JSONP, and the head of it.
    pretty = rest.ask("GET", f"/q.json?{query(**parameters, aggregate='count', print='pretty')}").expect(200)
    assert pretty.json() == {"count": len(keys)}
    assert rest.ask("HEAD", f"/q.json?{query(**parameters, aggregate='count')}").status == 200


@pytest.mark.parametrize("path, names, expected", [
    ("/nowhere", "count,sum(p)", {"count": 0, "sum(p)": 0}),
    ("/nowhere", "avg(p),min(p)", None),
    ("/q/e", "count", {"count": 0}),
    ("/q/a", "sum($value),count", {"count": 2, "sum($value)": 1.1}),
    ("/q", "sum(h/x),max(p/x)", {"sum(h/x)": 0, "max(p/x)": 1}),
    ("/q", "count,count", {"count": 11}),
    ("/q", "min(n),max(n)", {"min(n)": 1, "max(n)": 9}),
])
def test_values_of_a_path(rest, path, names, expected):
    rest.put_rules(RULES)
    rest.put("/q", MIXED)
    assert rest.get(path, query(aggregate=names)) == expected


@pytest.mark.parametrize("parameters, text", [
    ("aggregate=", "Invalid query: an aggregate is"),
    ("aggregate=count,", "Invalid query: an aggregate is"),
    ("aggregate=total(p)", "Invalid query: an aggregate is"),
    ("aggregate=sum()", "Invalid query: a field needs a name"),
    ("aggregate=sum(a.b)", "Invalid key"),
    ("aggregate=sum(%00)", "Invalid key"),
    ("aggregate=sum(" + "x" * 300 + ")", "Invalid query: an aggregate has more than 256 bytes"),
    ("aggregate=" + ",".join(f"sum(f{n})" for n in range(9)), "Invalid query: at most 8 aggregates"),
    ("aggregate=" + ",".join(["count"] * 1000), "Invalid query: at most 8 aggregates"),
    ("aggregate=count&aggregate=count", "Invalid query: aggregate is given twice"),
    ("aggregate=count&limitToFirst=1", "orderBy must be defined"),
    ("aggregate=count&shallow=true", "shallow may only be combined"),
    ("aggregate=count&orderBy=%22n%22&limitToFirst=1&cursor=", "Invalid query: no cursor beside aggregate"),
    ("aggregate=count&orderBy=%22m%22&startAt=1", "Index not defined"),
])
def test_what_cannot_be_computed(rest, parameters, text):
    rest.put_rules(RULES)
    rest.put("/q", MIXED)
    error = rest.ask("GET", f"/q.json?{parameters}").expect_error(400).json()["error"]
    assert error.startswith(text), error
    assert rest.ask("GET", "/q.json?aggregate=count", fields=[("if-none-match", "x")]).status == 400


def test_rules_decide_as_about_the_query(rest, world):
    rest.put_rules({"rules": {
        "open": {".read": True, ".write": True},
        "mine": {".read": "query.orderByChild == 'owner' && query.equalTo == 'u'", ".indexOn": ["owner", "owner+n"]},
        "ten": {".read": "query.limitToFirst <= 10"},
    }})
    allowed = query(orderBy='"owner"', equalTo='"u"', aggregate="count")
    assert rest.get("/mine", allowed) == {"count": 0}
    for parameters in [
        "aggregate=count", query(orderBy='"owner"', equalTo='"v"', aggregate="count"),
        query(where='{"owner":"u"}', orderBy='"n"', aggregate="count"),
    ]:
        rest.ask("GET", f"/mine.json?{parameters}").expect_error(401, "Permission denied")
    assert rest.get("/ten", query(orderBy='"$key"', limitToFirst="10", aggregate="count")) == {"count": 0}
    rest.ask("GET", f"/ten.json?{query(orderBy=chr(34) + '$key' + chr(34), aggregate='count')}").expect_error(401)
    client = world.connect()
    for body in [{"p": "/mine", "f": ["count"]}, {"p": "/mine", "f": ["count"], "t": 1}]:
        assert client.ask("x-agg", body)["s"] == "permission_denied"
    assert client.must("x-agg", {"p": "/mine", "q": {"i": "owner", "sp": "u", "ep": "u"}, "f": ["count"]}) == {"count": 0}
    with pytest.raises(Refused):
        rest.stream("/ten", "aggregate=count")


def test_realtime_once_and_live(rest, world):
    rest.put_rules(RULES)
    rest.put("/q", MIXED)
    client = world.connect()
    body = {"p": "q", "q": {"i": "n", "sp": 2, "ep": 5}, "f": ALL}
    now = model([MIXED[key] for key in "bcdf"])
    assert client.must("x-agg", body) == now
    assert client.must("x-agg", {"p": "/q", "f": ["count"]}) == {"count": 11}
    assert client.must("x-agg", body | {"t": 7}) == {}
    assert client.taken_pushes() == [("d", {"p": "q", "d": now, "t": 7})]
    # Another value, the same values, another child.
    rest.put("/q/b/p", 5)
    rest.put("/q/b/other", 5)
    rest.put("/q/a/p", 5)
    client.fence()
    changed = model([{"p": 5}] + [MIXED[key] for key in "cdf"])
    assert client.taken_pushes() == [("d", {"p": "q", "d": changed, "t": 7})]
    client.must("x-unagg", body | {"t": 7})
    rest.put("/q/b/p", 6)
    client.fence()
    assert client.taken_pushes() == []
    # An order that no rule declares.
    assert client.must("x-agg", {"p": "q", "q": {"i": "m", "sp": 1}, "f": ["count"], "t": 8}) == {"w": ["no_index"]}


def test_revoked_when_the_rules_change(rest, world):
    rest.put_rules(RULES)
    client = world.connect()
    body = {"p": "q", "q": {"i": "n", "sp": 2}, "f": ["count"], "t": 3}
    client.must("x-agg", body)
    client.taken_pushes()
    with rest.stream("/q", "aggregate=count") as stream:
        assert stream.next() == ("put", {"path": "/", "data": {"count": 0}})
        rest.put_rules({"rules": {"fence": {".read": True}}})
        assert stream.next()[0] == "cancel"
    client.fence()
    assert client.taken_pushes() == [("c", {"p": "q", "q": [body]})]


def test_event_stream(rest):
    rest.put_rules(RULES)
    rest.put("/q", MIXED)
    with rest.stream("/q", query(orderBy='"n"', startAt="8", aggregate="count,max(p)")) as stream:
        assert stream.next() == ("put", {"path": "/", "data": {"count": 3, "max(p)": 1e300}})
        rest.put("/q/new", {"n": 8, "p": 1})
        assert stream.next() == ("put", {"path": "/", "data": {"count": 4, "max(p)": 1e300}})
        rest.put("/q/j/p", None)
        assert stream.next() == ("put", {"path": "/", "data": {"count": 4, "max(p)": 1}})
        rest.patch("/q", {"new/x": 1, "a/p": 99})
        rest.ask("DELETE", "/q.json").expect(200)
        assert stream.next() == ("put", {"path": "/", "data": {"count": 0}})


@pytest.mark.parametrize("body", [
    {"p": "q", "f": []}, {"p": "q", "f": ["nonsense"]}, {"p": "q", "f": ["count"] * 9}, {"p": "q$", "f": ["count"]},
    {"p": "q", "f": ["sum(a$)"]}, {"p": "q", "f": ["count"], "q": {"l": 0}}, {"p": "q", "f": ["count"], "q": 5},
    {"p": "q", "f": ["count"], "q": {"w": {"a": [1]}}}, {"p": "q", "f": ["sum(" + "/".join("x" * 40) + ")"], "t": 1},
])
def test_malformed_actions_are_refused(world, body):
    client = world.connect()
    assert client.ask("x-agg", body)["s"] == "invalid_data"
    assert client.must("x-agg", {"p": "q", "f": ["count"]}) == {"count": 0}, "the connection goes on"


@pytest.mark.parametrize("action, body", [
    ("x-agg", {"p": "q"}), ("x-agg", {"f": ["count"]}), ("x-agg", {"p": "q", "f": "count"}), ("x-agg", {"p": "q", "f": [1]}),
    ("x-agg", {"p": "q", "f": ["count"], "t": "1"}), ("x-unagg", {"p": "q", "f": ["count"]}),
])
def test_missing_members_close_the_connection(world, action, body):
    client = world.connect()
    client.request(action, body)
    client.expect_closed()


def test_live_aggregates_of_a_connection_are_bounded(world):
    client = world.connect()
    for number in range(100):
        client.must("x-agg", {"p": "q", "q": {"i": "n", "sp": number}, "f": ["count"], "t": number + 1})
    answer = client.ask("x-agg", {"p": "q", "q": {"i": "n", "sp": 100}, "f": ["count"], "t": 101})
    assert answer == {"s": "failed", "d": "Too many live aggregates on this connection"}
    client.must("x-unagg", {"p": "q", "q": {"i": "n", "sp": 0}, "f": ["count"], "t": 1})
    client.must("x-agg", {"p": "q", "q": {"i": "n", "sp": 100}, "f": ["count"], "t": 101})


# Many children: indexes are built, follow writes, and are built again after a restart.

CHILDREN = 3000


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def key(self):
        return f"k{self.random.randrange(CHILDREN):05}"

    def child(self):
        price = self.random.choice([
            round(self.random.uniform(-100, 100), 2), self.random.randrange(100), 10.0 ** self.random.randrange(-200, 200),
            2**53 + self.random.randrange(100), "12", None])
        child = {"g": self.random.choice(["CH", "FR"]), "n": self.random.randrange(1000), "p": price}
        return {name: value for name, value in child.items() if value is not None}

    def query(self):
        low, high = sorted(self.random.sample(range(1000), 2))
        return self.random.choice([{}, {"i": "n", "sp": low}, {"i": "n", "sp": low, "ep": high}, {"i": "n", "w": {"g": "CH"}, "sp": low}])


def selected(children, query):
    def fits(child):
        return (child["n"] >= query.get("sp", 0) and child["n"] <= query.get("ep", 1000)
                and (not query.get("w") or child["g"] == query["w"]["g"]))
    return [child for child in children.values() if fits(child)]


class Live:
    """A live aggregate, and what it was sent last."""

    def __init__(self, client, tag, query):
        self.tag, self.query, self.value = tag, query, None
        client.must("x-agg", {"p": "q", "q": query, "f": ALL, "t": tag})


def settle(client, lives, children):
    """Waits until each live aggregate has the current value; values may come late, and none twice."""
    deadline = time.monotonic() + DEADLINE
    while True:
        client.fence()
        for action, push in client.taken_pushes():
            live = lives[push["t"]]
            assert action == "d" and push["d"] != live.value, "a value that was sent already"
            live.value = push["d"]
        wrong = [live for live in lives.values() if live.value != model(selected(children, live.query))]
        if not wrong:
            return
        assert time.monotonic() < deadline, (wrong[0].query, wrong[0].value, model(selected(children, wrong[0].query)))


def test_many_children(servers):
    server = servers()
    maker = Maker(23)
    children = {}
    for _ in range(CHILDREN):
        children[maker.key()] = maker.child()
    rest = Rest(server.port, "demo")
    rest.put_rules(RULES)
    client = Connection(server.port, "demo")
    client.must("p", {"p": "q", "d": children})

    def compare(count):
        for _ in range(count):
            query = maker.query()
            assert client.must("x-agg", {"p": "q", "q": query, "f": ALL}) == model(selected(children, query)), query

    def write(count):
        for _ in range(count):
            key = maker.key()
            if maker.random.random() < 0.2:
                children.pop(key, None)
                client.must("p", {"p": f"q/{key}", "d": None})
            elif key in children and maker.random.random() < 0.5:
                children[key] = children[key] | {"p": maker.random.randrange(50)}
                client.must("p", {"p": f"q/{key}/p", "d": children[key]["p"]})
            else:
                changed = {maker.key(): maker.child() for _ in range(3)}
                children.update(changed)
                client.must("m", {"p": "q", "d": changed})

    def live():
        lives = {tag: Live(client, tag, maker.query()) for tag in range(1, 9)}
        settle(client, lives, children)
        return lives

    lives = live()
    for _ in range(6):
        write(25)
        settle(client, lives, children)
        compare(4)
    # Everything at once.
    children = {key: maker.child() for key in children}
    client.must("p", {"p": "q", "d": children})
    settle(client, lives, children)
    client.close()
    server.kill()
    server.start()
    client = Connection(server.port, "demo")
    compare(5)
    lives = live()
    write(25)
    settle(client, lives, children)
    compare(5)
    client.close()
