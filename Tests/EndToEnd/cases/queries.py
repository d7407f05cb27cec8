"""Queries: forms, order, bounds, sentinels, limits (§7.1–7.4). Asked as gets and as filtered listens."""

import json

import tree
from transcript import case

NUMBERS = {"a": {"n": 3}, "b": {"n": 5}, "c": {"n": 5}, "d": {"n": 7.5}, "e": {"n": 9}, "f": {"x": 1}, "z": {"n": "s"}}
KEYS = {"aa": 1, "abc": 2, "abcd": 3, "b": 4, "9": 5, "10": 6, "-1": 7, "07": 8, "B": 9}
VALUES = {"f": False, "m": -1, "n": 2, "o": {"z": 1}, "s": "x", "t": True, "r": "a"}
PRIORITIES = {
    "z": 1, "c": {".value": 1, ".priority": 1}, "b": {".value": 1, ".priority": 2},
    "a": {".value": 1, ".priority": "x"}, "d": {"q": 1, ".priority": 1},
}
DEEP = {"a": {"b": {"c": 2}}, "b": {"b": {"c": 1}}, "c": {"b": 7}, "d": 4, "e": {"b": {"c": {"d": 1}}}}

# The order of the JS SDK, as recorded in 7.3. `-0` and `00` are of equal length and value: any fixed order will do.
KEY_ORDER = (
    "-2147483648 -5 0 -0 00 1 01 00000000001 9 10 15 2147483647".split()
    + [" 1", "+1", "-2147483649", "-K", "1e3", "2147483648", "A", "_", "a", "b", "~", "é", "🐵", "\ue000"]
)


def query_case(name, data, query, keys, section="7.2"):
    """The query as a get and as a listen: both answer exactly these children, whole."""
    wanted = {key: tree.export(tree.parse(data[key])) for key in keys.split()} or None

    def play(world):
        connection = world.connect()
        connection.must("p", {"p": "/q", "d": data})
        got = connection.get("/q", query)
        assert tree.same_json(got, wanted), f"get answered {got}, wanted {wanted}"
        client = world.client()
        window = tree.export(client.listen("/q", query, 7).node)
        assert tree.same_json(window, wanted), f"the listen answered {window}, wanted {wanted}"
        # With the window's hash there is nothing to say (9.4).
        body = {"p": "/q", "q": query, "t": 8, "h": tree.simple_hash(tree.parse(wanted))}
        assert connection.must("q", body) is not None and not connection.taken_pushes(), "the window's hash differs"

    return case(f"{name}: {json.dumps(query, ensure_ascii=True)[:70]}", section, play)


def key_order_by_limits(world):
    """limitToFirst(n) for every n spells the order key by key, limitToLast(n) from the other end."""
    connection = world.connect()
    connection.must("p", {"p": "/k", "d": {key: 1 for key in KEY_ORDER}})
    free = {"-0", "00"}

    def spell(side):
        known, order = set(), []
        for count in range(1, len(KEY_ORDER) + 1):
            keys = set(connection.get("/k", {"i": ".key", "l": count, "vf": side}))
            assert len(keys) == count and known < keys, (count, keys)
            order += keys - known
            known = keys
        return order

    for order in (spell("l"), spell("r")[::-1]):
        order = ["-0/00" if key in free else key for key in order]
        assert order == ["-0/00" if key in free else key for key in KEY_ORDER]


def value_order_by_limits(world):
    """null < false < true < numbers < strings < objects; ties by key; strings by UTF-16 units."""
    children = [
        ("n", {"other": 1}), ("f", {"v": False}), ("t", {"v": True}), ("i", {"v": -5}), ("z", {"v": 0}), ("d", {"v": 0.5}),
        ("k1", {"v": 1}), ("k2", {"v": 1.0}), ("big", {"v": 9007199254740993}), ("e", {"v": 1e21}), ("s0", {"v": ""}),
        ("s1", {"v": "10"}), ("s2", {"v": "9"}), ("s3", {"v": "A"}), ("s4", {"v": "a"}), ("s5", {"v": "é"}),
        ("s6", {"v": "🐵"}), ("s7", {"v": "\ue000"}), ("o1", {"v": {"a": 1}}), ("o2", {"v": {"A": 1}}),
    ]
    connection = world.connect()
    connection.must("p", {"p": "/v", "d": dict(children)})
    for count in range(1, len(children) + 1):
        first = connection.get("/v", {"i": "v", "l": count, "vf": "l"})
        assert set(first) == {key for key, _ in children[:count]}, count
        last = connection.get("/v", {"i": "v", "l": count, "vf": "r"})
        assert set(last) == {key for key, _ in children[-count:]}, count


def priority_order_by_limits(world):
    """No priority < numbers < strings; ties by key."""
    order = [("x", None), ("y", None), ("c", -1), ("b", 1), ("d", 1.5), ("9", 2), ("10", 2), ("a", 10), ("e", "1"), ("1", "a")]
    connection = world.connect()
    connection.must("p", {"p": "/v", "d": {key: {".value": 1, ".priority": place} for key, place in order}})
    for count in range(1, len(order) + 1):
        assert set(connection.get("/v", {"l": count, "vf": "l"})) == {key for key, _ in order[:count]}, count
        assert set(connection.get("/v", {"l": count, "vf": "r"})) == {key for key, _ in order[-count:]}, count


PREDECESSOR_IOS = "abb" + "\uffff" * 783
PREDECESSOR_ANDROID = "abb" + "z" * 783

CASES = [
    case("keys sort as the recorded list says", "7.3", key_order_by_limits),
    case("index values sort as the list says", "7.3", value_order_by_limits),
    case("priorities sort as the list says", "7.3", priority_order_by_limits),
    query_case("startAt(5)", NUMBERS, {"i": "n", "sp": 5, "sin": True}, "b c d e z"),
    query_case("startAt(5) of mobile SDKs", NUMBERS, {"i": "n", "sp": 5}, "b c d e z"),
    query_case("startAt(5.0), a double from Android", NUMBERS, {"i": "n", "sp": 5.0}, "b c d e z"),
    query_case("startAt(5,'c')", NUMBERS, {"i": "n", "sp": 5, "sn": "c", "sin": True}, "c d e z"),
    query_case("startAfter(5) of JS", NUMBERS, {"sp": 5, "sn": "[MAX_NAME]", "sin": False, "i": "n"}, "d e z"),
    query_case("startAfter(5) of iOS", NUMBERS, {"sp": 5, "sn": "[MAX_NAME]", "i": "n"}, "d e z"),
    query_case("startAfter(5) of Android", NUMBERS, {"sp": 5, "sn": "[MAX_KEY]", "i": "n"}, "d e z"),
    query_case("an exclusive start without a key", NUMBERS, {"sp": 5, "sin": False, "i": "n"}, "d e z"),
    query_case("startAfter(5,'b') of JS", NUMBERS, {"sp": 5, "sn": "b", "sin": False, "i": "n"}, "c d e z"),
    query_case("startAfter(5,'b') of Android", NUMBERS, {"sp": 5, "sn": "b-", "i": "n"}, "c d e z"),
    query_case("startAfter(5,'b') of iOS", NUMBERS, {"sp": 5, "sn": "b ", "i": "n"}, "c d e z"),
    query_case("startAt with the low sentinel of JS", NUMBERS, {"sp": 5, "sn": "[MIN_NAME]", "i": "n"}, "b c d e z"),
    query_case("startAt with the low sentinel of C++", NUMBERS, {"sp": 5, "sn": "[MIN_KEY]", "i": "n"}, "b c d e z"),
    query_case("endAt(5)", NUMBERS, {"ep": 5, "ein": True, "i": "n"}, "f a b c"),
    query_case("endAt(5,'b')", NUMBERS, {"ep": 5, "en": "b", "ein": True, "i": "n"}, "f a b"),
    query_case("endBefore(5) of JS", NUMBERS, {"ep": 5, "en": "[MIN_NAME]", "ein": False, "i": "n"}, "f a"),
    query_case("endBefore(5) of mobile SDKs", NUMBERS, {"ep": 5, "en": "[MIN_NAME]", "i": "n"}, "f a"),
    query_case("an end with the low sentinel of C++", NUMBERS, {"ep": 5, "en": "[MIN_KEY]", "i": "n"}, "f a"),
    query_case("an end with a high sentinel", NUMBERS, {"ep": 5, "en": "[MAX_KEY]", "i": "n"}, "f a b c"),
    query_case("an exclusive end without a key", NUMBERS, {"ep": 5, "ein": False, "i": "n"}, "f a"),
    query_case("endBefore(5,'c') of JS", NUMBERS, {"ep": 5, "en": "c", "ein": False, "i": "n"}, "f a b"),
    query_case("startAt(5).endAt(9,'z')", NUMBERS, {"sp": 5, "sin": True, "ep": 9, "en": "z", "ein": True, "i": "n"}, "b c d e"),
    query_case("equalTo(5)", NUMBERS, {"sp": 5, "sin": True, "ep": 5, "ein": True, "i": "n"}, "b c"),
    query_case("equalTo(5,'c')", NUMBERS, {"sp": 5, "sn": "c", "ep": 5, "en": "c", "i": "n"}, "c"),
    query_case("equalTo(null)", NUMBERS, {"sp": None, "ep": None, "i": "n"}, "f"),
    query_case("equalTo(null) of JS", NUMBERS, {"sp": None, "sin": True, "ep": None, "ein": True, "i": "n"}, "f"),
    query_case("startAt(null) is everything", NUMBERS, {"sp": None, "i": "n"}, "f a b c d e z"),
    query_case("a start above everything", NUMBERS, {"sp": "t", "i": "n"}, ""),
    query_case("start and end crossed", NUMBERS, {"sp": 9, "ep": 3, "i": "n"}, ""),
    query_case("limitToFirst(2) by child", NUMBERS, {"l": 2, "vf": "l", "i": "n"}, "f a"),
    query_case("limitToLast(2) by child", NUMBERS, {"l": 2, "vf": "r", "i": "n"}, "e z"),
    query_case("startAt(5).limitToFirst(2)", NUMBERS, {"sp": 5, "l": 2, "vf": "l", "i": "n"}, "b c"),
    query_case("endAt(7.5).limitToLast(2)", NUMBERS, {"ep": 7.5, "l": 2, "vf": "r", "i": "n"}, "c d"),
    query_case("startAt(5).limitToLast(1)", NUMBERS, {"sp": 5, "l": 1, "vf": "r", "i": "n"}, "z"),
    query_case("a limit without a side and with a start is left", NUMBERS, {"sp": 5, "l": 1, "i": "n"}, "b"),
    query_case("a limit without a side and without a start is right", NUMBERS, {"l": 1, "i": "n"}, "z"),
    query_case("a limit larger than the data", NUMBERS, {"l": 2147483647, "vf": "l", "i": "n"}, "a b c d e f z"),
    query_case("strings and numbers do not mix", NUMBERS, {"sp": "", "i": "n"}, "z"),
    query_case("a boolean start", VALUES, {"sp": False, "ep": True, "i": ".value"}, "f t"),
    query_case("by value, equalTo('a')", VALUES, {"sp": "a", "sin": True, "ep": "a", "ein": True, "i": ".value"}, "r"),
    query_case("by value, from 0 to 'y'", VALUES, {"sp": 0, "ep": "y", "i": ".value"}, "n r s"),
    query_case("by value, the last is the object", VALUES, {"l": 1, "vf": "r", "i": ".value"}, "o"),
    query_case("by key, startAt('abc')", KEYS, {"sp": "abc", "sin": True, "i": ".key"}, "abc abcd b"),
    query_case("by key, startAfter('abc').limitToFirst(2)", KEYS, {"sp": "abc", "sin": False, "l": 2, "vf": "l", "i": ".key"}, "abcd b"),
    query_case("by key, startAfter('abc') of Android", KEYS, {"sp": "abc-", "i": ".key"}, "abcd b"),
    query_case("by key, endAt('abc')", KEYS, {"ep": "abc", "ein": True, "i": ".key"}, "-1 07 9 10 B aa abc"),
    query_case("by key, endBefore('abc') of JS", KEYS, {"ep": "abc", "ein": False, "i": ".key"}, "-1 07 9 10 B aa"),
    query_case("by key, endBefore('abc') of iOS, 786 units", KEYS, {"ep": PREDECESSOR_IOS, "i": ".key"}, "-1 07 9 10 B aa"),
    query_case("by key, endBefore('abc') of Android, 786 units", KEYS, {"ep": PREDECESSOR_ANDROID, "i": ".key"}, "-1 07 9 10 B aa"),
    query_case("an en of 786 units beside a value", NUMBERS, {"ep": 5, "en": PREDECESSOR_IOS, "i": "n"}, "f a", "7.2"),
    query_case("by key, integers come first, by number", KEYS, {"sp": "9", "ep": "B", "i": ".key"}, "9 10 B"),
    query_case("by key, equalTo('07')", KEYS, {"sp": "07", "ep": "07", "i": ".key"}, "07"),
    query_case("by key, from the low sentinel", KEYS, {"sp": "[MIN_NAME]", "ep": "10", "i": ".key"}, "-1 07 9 10"),
    query_case("by key, up to the high sentinel", KEYS, {"sp": "abcd", "ep": "[MAX_KEY]", "i": ".key"}, "abcd b"),
    query_case("by priority, from 1 to 2", PRIORITIES, {"sp": 1, "sin": True, "ep": 2, "ein": True}, "c d b"),
    query_case("by priority, equalTo(null)", PRIORITIES, {"sp": None, "ep": None}, "z"),
    query_case("by priority, startAt(1,'d')", PRIORITIES, {"sp": 1, "sn": "d"}, "d b a"),
    query_case("by priority, limitToLast(3)", PRIORITIES, {"l": 3, "vf": "r"}, "d b a"),
    query_case("by priority, strings last", PRIORITIES, {"sp": ""}, "a"),
    query_case("by a deep child", DEEP, {"i": "b/c", "sp": 1, "ep": 2}, "b a"),
    query_case("by a deep child with slashes around", DEEP, {"i": "/b/c/", "sp": 1, "ep": 2}, "b a"),
    query_case("by a deep child, absent ones first", DEEP, {"i": "b/c", "l": 3, "vf": "l"}, "c d b"),
    query_case("by a deep child, objects last", DEEP, {"i": "b/c", "l": 1, "vf": "r"}, "e"),
    query_case("no filter at all", PRIORITIES, {"l": 100, "vf": "l"}, "a b c d z"),
    case("a query on a leaf is empty", "7.4", """
        A sets /a 5
        A sees /a where {"l":5,"vf":"l"} is null
        A> q {"p":"/a","q":{"l":5,"vf":"l"},"t":1,"h":""}
        A< ok {}
    """),
    case("a query on an absent place is empty", "7.4", """
        A sees /a where {"i":".key","sp":"x"} is null
        A> q {"p":"/a","q":{"i":".key","sp":"x"},"t":1}
        A< d {"p":"a","d":null,"t":1}
        A< ok {}
    """),
    case("a filtered result has no root priority, and its hash neither", "7.4", """
        A sets /a {"x":1,".priority":3}
        A sees /a where {"l":5,"vf":"l"} is {"x":1}
        A> q {"p":"/a","q":{"l":5,"vf":"l"},"t":1,"h":"HASH"}
        A< ok {}
        A< nothing
    """.replace("HASH", tree.simple_hash(tree.parse({"x": 1})))),
    case("the window's hash of 15.4 needs no data", "15.4", """
        W sets /top {"p1":{"score":10},"p2":{"score":30},"p3":{"score":20}}
        A> q {"p":"/top","q":{"l":2,"vf":"r","i":"score"},"t":1,"h":"3O0eeVufqdWT77uqFKe6UkHgqWA="}
        A< ok {}
        A< nothing
        A> q {"p":"/top","h":"QC9/bC9jVO6fgvkrV/wzErbJw+M="}
        A< ok {}
    """),
    case("C++ asks with an empty child path as index", "7.1", """
        A sets /a {"x":1}
        A> q {"p":"/a","q":{"i":"/","l":5,"vf":"l"},"t":1}
        A< d {"p":"a","d":{"x":1},"t":1}
        A< ok {}
    """),
    case("an odd key bound is never a reason to refuse", "7.2", """
        A sets /a {"x":1}
        A> g {"p":"/a","q":{"i":".key","sp":"a.b$#[c]/d"}}
        A< ok {"x":1}
        A> g {"p":"/a","q":{"i":".value","sp":1,"sn":".x/[y]"}}
        A< ok {"x":1}
    """),
]
