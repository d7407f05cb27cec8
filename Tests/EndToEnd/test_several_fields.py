"""Queries of several fields (rest §5.4, realtime §7.6, rules §10): over REST, by raw messages, and as SDKs can say them."""

import json
import random
from urllib.parse import quote

import pytest

from rest_client import OWNER, Rest

RULES = {"rules": {".read": True, ".write": True, "q": {".indexOn": ["n", "c+n", "b+a+d/e", "c"]}}}
PLAYERS = {
    "ann": {"c": "CH", "n": 5}, "bob": {"c": "CH", "n": 3.5}, "cat": {"c": "FR", "n": 9}, "dan": {"c": "CH"}, "eve": {"n": 4},
    "fay": {"c": "CH", "n": "x"}, "gus": {"c": "CH", "n": 5}, "hal": {"c": ["CH"], "n": 1}, "ian": {"c": "CHX", "n": 1}, "jan": 7,
}


@pytest.fixture
def rest(world):
    rest = Rest(world.port, world.ns)
    rest.put_rules(RULES)
    rest.put("/q", PLAYERS)
    return rest


def query(**parameters):
    return "&".join(f"{name}={quote(value)}" for name, value in parameters.items())


CH = '{"c":"CH"}'


@pytest.mark.parametrize("parameters, spelled, names", [
    ({"where": CH, "orderBy": '"n"'}, {"w": {"c": "CH"}, "i": "n"}, "dan bob ann gus fay"),
    ({"where": CH, "orderBy": '"n"', "limitToLast": "2"}, {"w": {"c": "CH"}, "i": "n", "l": 2, "vf": "r"}, "gus fay"),
    ({"where": CH, "orderBy": '"n"', "limitToFirst": "2"}, {"i": 'c="CH"+n', "l": 2, "vf": "l"}, "dan bob"),
    ({"where": CH, "orderBy": '"n"', "startAt": "4", "endAt": "5"}, {"w": {"c": "CH"}, "i": "n", "sp": 4, "ep": 5}, "ann gus"),
    ({"where": CH, "orderBy": '"n"', "startAfter": '5,"ann"'}, {"i": 'c="CH"+n', "sp": 5, "sn": "ann", "sin": False}, "gus fay"),
    ({"where": CH, "orderBy": '"n"', "equalTo": "null"}, {"w": {"c": "CH"}, "i": "n", "sp": None, "ep": None}, "dan"),
    ({"where": '{"c":null}', "orderBy": '"n"'}, {"w": {"c": None}, "i": "n"}, "jan eve"),
    ({"where": '{"c":"IT"}', "orderBy": '"n"'}, {"w": {"c": "IT"}, "i": "n"}, ""),
    ({"where": CH}, {"w": {"c": "CH"}}, "ann bob dan fay gus"),
    ({"where": CH, "orderBy": '"$key"', "startAfter": '"bob"', "limitToFirst": "2"},
     {"w": {"c": "CH"}, "i": ".key", "sp": "bob", "sin": False, "l": 2, "vf": "l"}, "dan fay"),
])
def test_what_is_selected(rest, world, parameters, spelled, names):
    expected = {name: PLAYERS[name] for name in names.split()} or None
    assert rest.get("/q", query(**parameters)) == expected
    client = world.connect()
    found = client.get("/q", spelled)
    assert found == expected
    client.must("q", {"p": "/q", "q": spelled, "t": 1})
    pushes = client.taken_pushes()
    assert pushes == [("d", {"p": "q", "d": expected, "t": 1})]


def test_fields_in_any_order_and_deep(rest):
    rest.put("/q", {"x": {"a": 1, "b": True, "d": {"e": 2}}, "y": {"a": 1, "b": True, "d": {"e": 1}}, "z": {"a": 1, "b": False}})
    for where in ['{"a":1,"b":true}', '{"b":true,"/a/":1.0}']:
        found = rest.get("/q", query(where=where, orderBy='"d/e"', limitToFirst="1"))
        assert list(found) == ["y"]
    rest.ask("GET", f"/q.json?{query(where='{%22a%22:1}'.replace('%22', chr(34)), orderBy=chr(34) + 'n' + chr(34))}").expect_error(
        400, 'Index not defined, add ".indexOn": "a+n", for path "/q", to the rules')


def test_a_window_follows_writes(rest, world):
    client = world.connect()
    client.must("q", {"p": "/q", "q": {"i": 'c="CH"+n', "l": 2, "vf": "r"}, "t": 4})
    assert client.taken_pushes() == [("d", {"p": "q", "d": {"gus": PLAYERS["gus"], "fay": PLAYERS["fay"]}, "t": 4})]

    def pushed(path, value):
        rest.put(path, value)
        client.fence()
        return client.taken_pushes()

    assert pushed("/q/cat/n", 100) == [], "of another country"
    assert pushed("/q/cat/c", "CH") == [("m", {"p": "q", "d": {"gus": None, "cat": {"c": "CH", "n": 100}}, "t": 4})]
    assert pushed("/q/fay/c", "IT") == [("m", {"p": "q", "d": {"fay": None, "gus": PLAYERS["gus"]}, "t": 4})]
    assert pushed("/q/gus/x", 1) == [("d", {"p": "q/gus/x", "d": 1, "t": 4})]
    client.must("n", {"p": "/q", "q": {"w": {"c": "CH"}, "i": "n", "l": 2, "vf": "r"}, "t": 4})
    assert pushed("/q/gus/n", 1000) == [], "another spelling of the same query ends it"


def test_an_event_stream(rest):
    with rest.stream("/q", query(where=CH, orderBy='"n"', limitToLast="1")) as stream:
        assert stream.next() == ("put", {"path": "/", "data": {"fay": PLAYERS["fay"]}})
        rest.put("/q/fay", None)
        assert stream.next() == ("put", {"path": "/fay", "data": None})
        assert stream.next() == ("put", {"path": "/gus", "data": PLAYERS["gus"]})


def test_rules_see_the_fields(rest):
    rest.put_rules({"rules": {"q": {
        ".read": "query.orderByChild == 'c+n' && query.equalTo == 'CH' && query.limitToLast <= 2", ".indexOn": ["c+n", "n"]}}})
    limit = {"orderBy": '"n"', "limitToLast": "2"}
    assert set(rest.get("/q", query(where=CH, **limit))) == {"gus", "fay"}
    for parameters in [
        query(where='{"c":"FR"}', **limit), query(**limit), query(where=CH, orderBy='"n"'), query(where=CH, orderBy='"n"', limitToLast="3"),
    ]:
        rest.ask("GET", f"/q.json?{parameters}").expect_error(401, "Permission denied")


@pytest.mark.parametrize("name", ["c+", "C++", "c+c", "a+b+c+d+e", "c+n"])
def test_a_child_whose_key_has_a_plus_sign(rest, name):
    """As in the original; also where the name is that of several fields too."""
    rest.put_rules({"rules": {".read": True, ".write": True, "plus": {".indexOn": ["n", name]}}})
    rest.put("/plus", {"one": {name: 2}, "two": {name: 1}, "three": {"c": 3}})
    assert list(rest.get("/plus", query(orderBy=json.dumps(name), startAt="1"))) == ["one", "two"]
    assert list(rest.get("/plus", query(orderBy=json.dumps(name), equalTo="1"))) == ["two"]


def order(value):
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, value)
    return (2, value) if isinstance(value, (int, float)) else (3, value)


def test_many_children(rest, world):
    """Random queries, with the index and while it is built, against a model."""
    maker = random.Random(5)
    fields = [None, True, 1, 2.5, -3, "x", "a shared beginning 1", "a shared beginning 2"]

    def child():
        found = {"c": maker.choice(["CH", "FR", 1]), "n": maker.choice(fields), "z": 1}
        return {name: value for name, value in found.items() if value is not None}

    children = {f"k{number:04}": child() for number in range(2000)}
    client = world.connect()
    client.must("p", {"p": "q", "d": children})
    for step in range(120):
        key = f"k{maker.randrange(2200):04}"
        children[key] = child()
        client.must("p", {"p": f"q/{key}", "d": children[key]})
        country, low = maker.choice(["CH", "FR", 1]), maker.choice(fields)
        found = client.get("/q", {"w": {"c": country}, "i": "n", "sp": low, "l": 25, "vf": maker.choice("lr")} | {"vf": "l"})
        whole = sorted((order(one.get("n")), key) for key, one in children.items()
                       if one["c"] == country and order(one.get("n")) >= order(low))
        assert found == ({key: children[key] for _, key in whole[:25]} or None), (step, country, low)
