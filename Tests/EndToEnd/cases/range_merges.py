"""Compound hashes and range merges (§9.6, §9.7).

Supporting `ch` is optional: a full `d` is always right, and a server may ignore `ch` entirely. This server answers
with `rm`, so the tables ask for exactly the ranges that differ.
"""

import tree
from pando_client import Listen
from transcript import case


def listens_with(name, server, cached, cuts, ranges, section="9.7", path="/t"):
    """The server holds `server`; a client that holds `cached`, cut after `cuts`, listens and is sent `ranges`."""

    def play(world):
        world.connect().must("p", {"p": path, "d": server})
        node, connection = tree.parse(cached), world.connect()
        body = {"p": path, "h": tree.simple_hash(node), "ch": tree.compound_hash(node, cuts)}
        assert connection.must("q", body) == {}
        told = connection.taken_pushes()
        if ranges is None:
            assert told == [], f"nothing differs, but the server said {told}"
            return
        assert [action for action, _ in told] == ["rm"], told
        push = told[0][1]
        assert set(push) == {"p", "d"} and push["p"] == path.strip("/"), push
        got = [{**entry, "m": entry["m"]} for entry in push["d"]]
        assert tree.same_json(got, ranges), f"got {got}\nwanted {ranges}"
        after = tree.export(tree.apply_range_merge(node, push["d"]))
        assert tree.same_json(after, tree.export(tree.parse(server))), f"the client now has {after}"

    return case(name, section, play)


def vector(name, node, cuts, hashes):
    """The hashes of the table, sent literally, while the server has one leaf more, behind all cuts: exactly the open
    last range is sent. A hash computed in another way would make it send more.
    """

    def play(world):
        assert tree.compound_hash(tree.parse(node), cuts) == {"ps": cuts, "hs": [*hashes, ""]}
        world.connect().must("p", {"p": "/t", "d": {**node, "~~~": 1}})
        connection = world.connect()
        connection.must("q", {"p": "/t", "h": "stale", "ch": {"ps": cuts, "hs": [*hashes, ""]}})
        told = connection.taken_pushes()
        # Behind a leaf with a priority, the range begins behind that priority as well: with the leaf alone as its start,
        # clients would clear the priority, which lies below the leaf (9.7).
        last = tree.get(tree.parse(node), tree.segments(cuts[-1]))
        start = cuts[-1] + "/.priority" if last and last.is_leaf and last.priority is not None else cuts[-1]
        assert told == [("rm", {"p": "t", "d": [{"s": start, "m": {"~~~": 1}}]})], told
        # The listen exists all the same.
        connection.must("p", {"p": "/t/new", "d": 1})
        assert len(connection.taken_pushes()) == 1

    return case(f"vector {name}: all ranges match but the last", "9.6", play)


def leaf_vector(world):
    """No key can sort behind the last range. Nothing differs, so nothing is sent, or the full data, which is always right."""
    world.connect().must("p", {"p": "/t", "d": "leaf"})
    connection = world.connect()
    ch = {"ps": ["/"], "hs": ["VzY3K/KprOmpGGrk0qFm5kfIo0I=", ""]}
    connection.must("q", {"p": "/t", "h": "stale", "ch": ch})
    assert connection.taken_pushes() in ([], [("d", {"p": "t", "d": "leaf"})])


def client_converges(world):
    """Many changes while a client is away; it comes back with its cache and hashes, and is in step again."""
    writer, client = world.connect(), world.client()
    items = {f"item{index:03d}": {"n": index, "text": "x" * 40} for index in range(300)}
    writer.must("p", {"p": "/list", "d": items})
    listen = client.listen("/list")
    client.close()
    for index in (5, 150, 299):
        writer.must("p", {"p": f"/list/item{index:03d}/n", "d": -1})
    writer.must("p", {"p": "/list/item100", "d": None})
    writer.must("p", {"p": "/list/item100a", "d": {"new": True}})
    writer.must("p", {"p": "/list/zzz", "d": "last"})
    again = world.client(cache=client.cache)
    again.listen("/list", cuts=tree.even_cuts(listen.node, 20))
    assert tree.same_json(tree.export(listen.node), writer.get("/list"))


def tagged(world):
    connection = world.connect()
    connection.must("p", {"p": "/t", "d": {"a": 1, "b": 2, "c": 3}})
    cached = tree.parse({"b": 0, "c": 3})
    body = {"p": "/t", "q": {"l": 2, "vf": "r"}, "t": 6, "h": "stale", "ch": tree.compound_hash(cached, ["b", "c"])}
    connection.must("q", body)
    assert connection.taken_pushes() == [("rm", {"p": "t", "d": [{"e": "b", "m": {"b": 2}}], "t": 6})]


def right_simple_hash_wins(world):
    """When `h` matches, `ch` is not even looked at."""
    connection = world.connect()
    connection.must("p", {"p": "/t", "d": {"a": 1}})
    wrong = {"ps": ["a"], "hs": ["wrong", ""]}
    connection.must("q", {"p": "/t", "h": "gIphxiFGusLh2VwSNVKSvNu90m4=", "ch": wrong})
    assert connection.taken_pushes() == []


def unusable(world):
    """A compound hash that breaks the rules must not break the listen: the client gets the data, one way or another."""
    for ch in ({"ps": ["a"], "hs": []}, {"ps": [], "hs": []}, {"ps": ["b", "a"], "hs": ["x", "y", ""]}, {}, [], 5, None,
               {"ps": ["a.b$"], "hs": ["x", ""]}, {"ps": ["a"], "hs": ["x", "y"]}, {"ps": [5], "hs": [6, ""]},
               {"ps": ["/".join("k" * 500)], "hs": ["x", ""]}):
        client = world.client(ns=world.ns + "-u")
        client.connection.must("p", {"p": "/t", "d": {"a": 1, "b": 2}})
        answer = client.connection.ask("q", {"p": "/t", "h": "stale", "ch": ch})
        assert answer["s"] == "ok", (ch, answer)
        told = client.connection.taken_pushes()
        assert len(told) == 1, (ch, told)
        action, body = told[0]
        node = tree.parse(body["d"]) if action == "d" else tree.apply_range_merge(None, body["d"])
        assert tree.export(node) == {"a": 1, "b": 2}, (ch, told)


EXAMPLE = {"a": {"x": 1, "y": 2}, "b": 3, "c": True}
CUTS = ["a/x", "b", "c"]

CASES = [
    vector("a leaf child", {"foo": "bar"}, ["foo"], ["LmKmJmXugtGlEGoulMbz86myDNw="]),
    vector("an object's priority among its keys",
           {"foo": {"!beforePriority": "before", ".priority": "prio", "afterPriority": "after"}, "qux": "qux"},
           ["foo/.priority", "qux"], ["TNHQ1ppp/lp/iP3WA1GOUetV77U=", "eRF6PqPUdLcnQ/J24B4ofNFSH64="]),
    vector("a leaf's priority", {"foo": {".value": "bar", ".priority": "baz"}}, ["foo"], ["Pg7xV/cwDhcX65Z5lEn4rKdDmX0="]),
    vector("integer keys", {"1": "one", "2": "two", "10": "ten"}, ["2", "10"],
           ["YkodEihR5l3UXCbbKSqqVp082GU=", "pfduDpANk3ljVHkUt4HdLwrlDao="]),
    vector("two branches, split", {"bar": {"deep": "value"}, "foo": {"other-deep": "value"}}, ["bar/deep", "foo/other-deep"],
           ["Nq6PLLUyjPbRcyM3tpvqXJ5Dzm8=", "YRXpspSj3AnV90ZFjfGLH9lHAp8="]),
    vector("two branches, unsplit", {"bar": {"deep": "value"}, "foo": {"other-deep": "value"}}, ["foo/other-deep"],
           ["0Sio+izRDomUl6XRo4LRM8qfsog="]),
    vector("quotes and backslashes", {'"': "\\", '"\\"\\': '"\\"\\'}, ['"\\"\\'], ["IMLSPGVfdnaX4ZxWRGflEMmGTUI="]),
    vector("numbers and booleans", EXAMPLE, CUTS,
           ["1MrbPrFkag36VJVl+ntcevAS2SE=", "JMnRPWk33XtFz0LAOZyKCha8Ud4=", "uN9kX2WabmSrTfAbQzJw3M6byr8="]),
    case("vector a leaf at the listen path", "9.6", leaf_vector),
    case("a priority that no key sorts after: the client has the right data in the end", "9.6",
         lambda world: quirky_priority(world)),
    listens_with("the wire example: b changed", {**EXAMPLE, "b": 4}, EXAMPLE, CUTS,
                 [{"s": "a/x", "e": "b", "m": {"a": {"y": 2}, "b": 4}}]),
    listens_with("the first range has no start", {**EXAMPLE, "a": {"x": 9, "y": 2}}, EXAMPLE, CUTS,
                 [{"e": "a/x", "m": {"a": {"x": 9}}}]),
    listens_with("the open last range has no end", {**EXAMPLE, "d": 1}, EXAMPLE, CUTS, [{"s": "c", "m": {"d": 1}}]),
    listens_with("two ranges, in order, in one message", {"a": {"x": 0, "y": 2}, "b": 3, "c": False}, EXAMPLE, CUTS,
                 [{"e": "a/x", "m": {"a": {"x": 0}}}, {"s": "b", "e": "c", "m": {"c": False}}]),
    listens_with("a range with nothing left is null", {"a": {"x": 1}, "c": True}, EXAMPLE, CUTS,
                 [{"s": "a/x", "e": "b", "m": None}]),
    listens_with("everything gone but the last", {"c": True}, EXAMPLE, CUTS,
                 [{"e": "a/x", "m": None}, {"s": "a/x", "e": "b", "m": None}]),
    listens_with("an empty cache gets one open range", {"a": 1}, None, [], [{"m": {"a": 1}}]),
    listens_with("a key inserted between the cuts", {**EXAMPLE, "aa": 5}, EXAMPLE, CUTS,
                 [{"s": "a/x", "e": "b", "m": {"a": {"y": 2}, "aa": 5, "b": 3}}]),
    listens_with("a cached leaf grew children: they lie after the cut", {"foo": {"child": 1}}, {"foo": "f"}, ["foo"],
                 [{"e": "foo", "m": None}, {"s": "foo", "m": {"foo": {"child": 1}}}]),
    listens_with("integer keys are cut in numeric order", {"1": "one", "2": "two", "3": "new", "10": "ten"},
                 {"1": "one", "2": "two", "10": "ten"}, ["2", "10"],
                 [{"s": "2", "e": "10", "m": {"3": "new", "10": "ten"}}, {"s": "10", "e": ".priority", "m": None}]),
    listens_with("a priority that is in no hash and is gone", {"a": 2, "y": {"1": 5}},
                 {"a": 1, "y": {"1": 5, ".priority": "z"}}, ["a", "y/1"],
                 [{"e": "a", "m": {"a": 2}}, {"s": "y/1", "e": "y/.priority", "m": None}], section="9.6"),
    listens_with("behind one leaf, all such priorities at once", {"-A": 2, "-K": {"-L": {"1": 5}}},
                 {"-A": 1, "-K": {"-L": {"1": 5, ".priority": 1}, ".priority": 2}, ".priority": 3}, ["-A", "-K/-L/1"],
                 [{"e": "-A", "m": {"-A": 2}}, {"s": "-K/-L/1", "e": ".priority", "m": None}], section="9.6"),
    case("a transaction on a node whose hidden priority was removed", "9.6",
         lambda world: transaction_after_a_hidden_priority(world)),
    listens_with("nothing differs", EXAMPLE, EXAMPLE, CUTS, None),
    listens_with("at the root of the database", {**EXAMPLE, "b": 4}, EXAMPLE, CUTS,
                 [{"s": "a/x", "e": "b", "m": {"a": {"y": 2}, "b": 4}}], path="/"),
    case("a tagged listen's rm carries the tag and the window only", "9.7", tagged),
    case("a matching simple hash needs no ranges", "4.2", right_simple_hash_wins),
    case("a compound hash that breaks the rules still gets the data", "4.2", unusable),
    case("a client that was away converges by ranges", "9.7", client_converges),
]


def quirky_priority(world):
    node = {"-Kabc": 1, ".priority": 5}
    connection = world.connect()
    connection.must("p", {"p": "/t", "d": node})
    ch = {"ps": ["-Kabc"], "hs": ["l5Vz8kVYkShz8xCXzSc43n0t/bE=", ""]}
    connection.must("q", {"p": "/t", "h": "stale", "ch": ch})
    told = connection.taken_pushes()
    after = tree.parse(node)
    for action, body in told:
        # The simple hash differs, so the whole node is an answer too: it always is (9.7).
        after = tree.apply_range_merge(after, body["d"]) if action == "rm" else tree.parse(body["d"])
    assert tree.same_json(tree.export(after), node), told


def transaction_after_a_hidden_priority(world):
    """Its hash is that of the client's cache, so a priority that stayed there would fail it for ever."""
    world.connect().must("p", {"p": "/t", "d": {"a": 2, "y": {"1": 5}}})
    client = world.client()
    cached = tree.parse({"a": 1, "y": {"1": 5, ".priority": "z"}})
    listen = client.cache.add(Listen("/t", None, None, cached))
    client.listen("/t", cuts=["a", "y/1"])
    hash_of_cache = tree.simple_hash(tree.get(listen.node, ("y",)))
    client.connection.must("p", {"p": "/t/y", "d": {"1": 6}, "h": hash_of_cache})
