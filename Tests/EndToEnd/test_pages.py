"""Pages with a cursor (rest §5.5): together they are the whole, also while others write."""

import base64
import random
from urllib.parse import quote

import pytest

from rest_client import Rest

RULES = {"rules": {".read": True, ".write": True, "q": {".indexOn": ["n", ".value", "c", "c+n"]}, "closed": {".read": False}}}


@pytest.fixture
def rest(world):
    rest = Rest(world.port, world.ns)
    rest.put_rules(RULES)
    return rest


def query(**parameters):
    return "&".join(f"{name}={quote(value)}" for name, value in parameters.items())


def page(rest, path, parameters, cursor=""):
    """The children of one page, and the cursor of the next; None where it is the last."""
    answer = rest.ask("GET", f"{path}.json?{parameters}&cursor={cursor}").expect(200)
    return answer.json() or {}, answer.header("Pando-Cursor")


def pages(rest, path, parameters):
    found, (children, cursor) = [], page(rest, path, parameters)
    found.append(children)
    while cursor is not None:
        children, cursor = page(rest, path, parameters, cursor)
        found.append(children)
    return found


ORDERS = [
    {"orderBy": '"n"'}, {"orderBy": '"$key"'}, {"orderBy": '"$value"'}, {"orderBy": '"$priority"'},
    {"where": '{"c":"CH"}', "orderBy": '"n"'}, {"where": '{"c":"CH"}'}, {"orderBy": '"n"', "startAt": "3", "endBefore": '"x"'},
    {"orderBy": '"n"', "equalTo": "null"},
]


def mixed(count):
    maker = random.Random(count)
    values = [None, False, True, -1, 2, 3.25, 3.25, 4, "x", "y\0z", "é🐵", {"deep": 1}]
    children = {}
    for number in range(count):
        child = {"z": number} | ({"c": "CH"} if maker.random() < 0.5 else {})
        value = maker.choice(values)
        children[maker.choice("kx") + str(number)] = maker.choice([child | ({} if value is None else {"n": value}), number / 3])
    return children


@pytest.mark.parametrize("size, count", [(1, 12), (7, 60), (100, 100), (50, 3000)])
def test_pages_are_the_whole(rest, size, count):
    children = mixed(count)
    rest.put("/q", children)
    for order in ORDERS:
        whole = rest.get("/q", query(**order)) or {}
        for limit in ["limitToFirst", "limitToLast"]:
            found = pages(rest, "/q", query(**order, **{limit: str(size)}))
            assert all(len(one) == size for one in found[:-1]), order
            assert sum(len(one) for one in found) == len(whole), order
            assert {key: child for one in found for key, child in one.items()} == whole, order


def test_without_cursor_nothing_is_different(rest):
    rest.put("/q", mixed(20))
    answer = rest.ask("GET", f"/q.json?{query(orderBy=chr(34) + 'n' + chr(34), limitToFirst='3')}").expect(200)
    assert answer.header("Pando-Cursor") is None
    with_cursor = rest.ask("GET", f"/q.json?{query(orderBy=chr(34) + 'n' + chr(34), limitToFirst='3', cursor='')}").expect(200)
    assert with_cursor.body == answer.body
    assert "Pando-Cursor" in with_cursor.all("Access-Control-Expose-Headers")


def test_while_others_write(rest):
    """What stays in its place comes exactly once; what is removed or moved does not disturb the others."""
    maker = random.Random(3)
    children = {f"k{number:04}": {"n": maker.randrange(40)} for number in range(600)}
    stable = {key for key in children if key.endswith(("1", "3", "7"))}
    rest.put("/q", children)
    seen, cursor = [], ""
    while cursor is not None:
        found, cursor = page(rest, "/q", query(orderBy='"n"', limitToFirst="25"), cursor)
        seen += [key for key in found if key in stable]
        changes = {}
        for _ in range(20):
            key = f"k{maker.randrange(900):04}"
            if key not in stable:
                changes[key] = maker.choice([None, {"n": maker.randrange(40)}])
        # The last child of the page, too.
        last = max(found, key=lambda key: (found[key]["n"], key))
        if last not in stable:
            changes[last] = None
        rest.patch("/q", changes)
    assert sorted(seen) == sorted(stable)


def test_foreign_and_damaged_cursors(rest):
    rest.put("/q", mixed(40))
    rest.put("/r", mixed(40))
    mine = query(orderBy='"n"', limitToFirst="3")
    _, cursor = page(rest, "/q", mine)
    assert page(rest, "/q", query(orderBy='"n"', limitToFirst="9"), cursor)[0], "another size is the same query"
    other = "cursor belongs to another query or path"
    for parameters in [
        query(orderBy='"$key"', limitToFirst="3"), query(orderBy='"n"', limitToLast="3"), query(orderBy='"n"', limitToFirst="3", startAt="1"),
        query(where='{"c":"CH"}', orderBy='"n"', limitToFirst="3"), query(where='{"c":"FR"}', limitToFirst="3"),
    ]:
        if "FR" in parameters:
            rest.put_rules({"rules": {".read": True, ".write": True, "q": {".indexOn": ["n", "c"]}}})
        answer = rest.ask("GET", f"/q.json?{parameters}&cursor={cursor}")
        assert answer.status == 400, parameters
    rest.put_rules(RULES)
    rest.ask("GET", f"/q.json?{query(orderBy=chr(34) + '$key' + chr(34), limitToFirst='3')}&cursor={cursor}").expect_error(400)
    rest.ask("GET", f"/q.json?{query(orderBy=chr(34) + 'n' + chr(34), limitToLast='3')}&cursor={cursor}").expect_error(400, other)
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    damaged = ["x", "AAAA", "%20", "=", cursor + "A", cursor[:-2], cursor[:10], "A" * 12000, cursor[::-1]]
    damaged += [base64.urlsafe_b64encode(bytes([2]) + raw[1:]).decode().rstrip("=")]
    for text in [b'[1]', b'[1,2]', b'[1,"a"', b'[[1],"a"]', b'[1,"a$"]', b'[1,""]', b'[1e999,"a"]', b'["\\ud800","a"]', b'[{"x":1},"a"]', b'x']:
        damaged.append(base64.urlsafe_b64encode(raw[:9] + text).decode().rstrip("="))
    for text in damaged:
        answer = rest.ask("GET", f"/q.json?{mine}&cursor={text}")
        answer.expect_error(400, "cursor is not one of this server")


def test_misuse(rest):
    rest.put("/q", mixed(5))
    for parameters, text in [
        ('orderBy="n"&cursor=', "cursor needs limitToFirst or limitToLast"),
        ("cursor=", "orderBy must be defined when other query parameters are defined"),
        ("shallow=true&limitToFirst=1&cursor=", "shallow may only be combined with limitToFirst, startAfter, timeout and print"),
    ]:
        rest.ask("GET", f"/q.json?{quote(parameters, safe='=&')}").expect_error(400, text)
    rest.ask("GET", f"/q.json?{query(orderBy=chr(34) + 'n' + chr(34), limitToFirst='1', cursor='')}",
             fields=[("Accept", "text/event-stream")]).expect_error(400, "cursor is not supported for event streams")
    long = "x" * 1025
    rest.put("/q", {"a": {"n": long}, "b": {"n": long}})
    rest.ask("GET", f"/q.json?{query(orderBy=chr(34) + 'n' + chr(34), limitToFirst='1', cursor='')}").expect_error(
        400, "The page ends with a string of more than 1024 bytes, which no cursor can hold")


def test_a_cursor_gives_no_right(rest):
    rest.put_rules({"rules": {"q": {".read": "query.limitToFirst <= 3", ".indexOn": "n"}}})
    rest.fields = [("Authorization", "Bearer owner")]
    rest.put("/q", mixed(20))
    rest.fields = []
    mine = query(orderBy='"n"', limitToFirst="3")
    _, cursor = page(rest, "/q", mine)
    assert page(rest, "/q", mine, cursor)[0]
    rest.ask("GET", f"/q.json?{query(orderBy=chr(34) + 'n' + chr(34), limitToFirst='4')}&cursor={cursor}").expect_error(401)
