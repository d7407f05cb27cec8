"""Queries over a location with indexes, which are built, follow writes, are dropped and built again after a restart,
compared with a model: whatever index there is, the answers are the same."""

import json
import random
import urllib.request

from pando_client import Connection

CHILDREN = 3000


def put_rules(server, rules):
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/.settings/rules.json?ns=demo", method="PUT",
        data=json.dumps({"rules": {".read": True, ".write": True} | rules}).encode(),
        headers={"Authorization": "Bearer owner"})
    with urllib.request.urlopen(request) as answer:
        assert json.load(answer) == {"status": "ok"}


def value_order(value):
    """realtime 7.3: nothing, false, true, numbers, strings."""
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, value)
    return (2, value) if isinstance(value, (int, float)) else (3, value)


def key_order(key):
    return (0, int(key), "") if key.isdigit() else (1, 0, key)


def place(key, child):
    return (value_order(child.get("n")), key_order(key))


def expected(children, query):
    """The children that a query lets through; None where there is none."""
    low = (value_order(query["sp"]), key_order(query["sn"]) if "sn" in query else (-1,)) if "sp" in query else ((-1,),)
    high = (value_order(query["ep"]), key_order(query["en"]) if "en" in query else (2,)) if "ep" in query else ((9,),)
    found = sorted((key for key, child in children.items() if low <= place(key, child) <= high),
                   key=lambda key: place(key, children[key]))
    if "l" in query:
        found = found[:query["l"]] if query["vf"] == "l" else found[-query["l"]:]
    return {key: children[key] for key in found} or None


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def key(self):
        number = self.random.randrange(CHILDREN)
        return str(number) if number % 3 == 0 else f"k{number:05}"

    def value(self):
        return self.random.choice([
            None, True, False, self.random.randrange(500), self.random.random(), "short",
            f"a shared beginning {self.random.randrange(300)}"])

    def child(self):
        value = self.value()
        return {"beside": 1} | ({} if value is None else {"n": value})

    def query(self):
        query = {"i": "n"}
        if self.random.random() < 0.6:
            query["sp"] = self.value()
            if self.random.random() < 0.5:
                query["sn"] = self.key()
        if self.random.random() < 0.4:
            query["ep"] = self.value()
            if self.random.random() < 0.5:
                query["en"] = self.key()
        if self.random.random() < 0.8:
            query |= {"l": self.random.randint(1, 40), "vf": self.random.choice("lr")}
        return query


def compare(client, children, maker, count):
    for _ in range(count):
        query = maker.query()
        found = client.must("g", {"p": "/scores", "q": query})
        assert found == expected(children, query), query


def write(client, children, maker, count):
    for _ in range(count):
        key, kind = maker.key(), maker.random.randrange(4)
        if kind == 0:
            children.pop(key, None)
            client.must("p", {"p": f"/scores/{key}", "d": None})
        elif kind == 1:
            value = maker.value()
            child = {name: held for name, held in children.get(key, {}).items() if name != "n"}
            child |= {} if value is None else {"n": value}
            children.pop(key, None)
            if child:
                children[key] = child
            client.must("p", {"p": f"/scores/{key}/n", "d": value})
        else:
            changed = {maker.key(): maker.child() for _ in range(kind)}
            children |= changed
            client.must("m", {"p": "/scores", "d": changed})


def test_answers_do_not_depend_on_indexes(servers):
    server = servers()
    maker, children = Maker(17), {}
    for _ in range(CHILDREN):
        children[maker.key()] = maker.child()
    client = Connection(server.port, "demo")
    client.must("p", {"p": "/scores", "d": children})
    compare(client, children, maker, 20)
    put_rules(server, {"scores": {".indexOn": ["n", "beside"]}})
    for _ in range(10):
        write(client, children, maker, 30)
        compare(client, children, maker, 15)
    client.close()
    server.kill()
    server.start()
    client = Connection(server.port, "demo")
    for _ in range(5):
        compare(client, children, maker, 15)
        write(client, children, maker, 30)
    # Without the declaration, and with another value of everything.
    put_rules(server, {})
    compare(client, children, maker, 20)
    children = {key: maker.child() for key in children}
    client.must("p", {"p": "/scores", "d": children})
    compare(client, children, maker, 20)
    write(client, children, maker, 30)
    compare(client, children, maker, 20)
    client.close()
