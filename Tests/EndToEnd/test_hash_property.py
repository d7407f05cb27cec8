"""Random trees and random writes by seed, against the naive model in tree.py.

A failure names its seed; `PANDO_SEEDS=17` runs that one alone, `PANDO_SEEDS=0-499` a range.
"""

import os
import random

import pytest

import tree
from pando_client import Listen
from transports import TRANSPORTS

PLAIN_KEYS = ["a", "b", "n", "B", "_", "~", "key with space", "é", "漢字", "🐵", "\ue000", "-K", "1e3", "+1", " 1", "-NjEtLV-abc"]
INTEGER_KEYS = ["0", "1", "2", "9", "10", "11", "01", "001", "-1", "-5", "2147483647", "2147483648", "-2147483649"]
KEYS = PLAIN_KEYS + INTEGER_KEYS
STRINGS = ["", "a", "A", "b", "10", "9", "é", "🐵", "\ue000", "x:y", 'say "hi"\\', "line\nbreak", "\x00", "漢" * 40]
NUMBERS = [0, 1, -1, 2, 5, 10, 0.5, -0.25, 1.1, 4.5623, 1e21, 5e-324, 2**31, 2**53, 2**63 - 1, -(2**63), 1700000000000]


def seeds(default_count):
    text = os.environ.get("PANDO_SEEDS")
    if not text:
        return range(default_count)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def each_seed(default_count):
    """Parameters `seed` and `transport`; what is not a WebSocket gets a third of the seeds. In `lossy lp` some polls are
    cut and asked again, before or behind their answer.
    """
    rows = []
    for transport in (*TRANSPORTS, "lossy lp"):
        for seed in seeds(default_count if transport == "ws" else default_count // 3):
            name = f"seed {seed}" + ("" if transport == "ws" else f" ({transport})")
            rows.append(pytest.param(seed, transport, id=name))
    return pytest.mark.parametrize("seed, transport", rows)


def random_scalar(dice):
    return dice.choice([dice.choice(STRINGS), dice.choice(NUMBERS), dice.choice(NUMBERS), True, False])


def random_priority(dice):
    return dice.choice([dice.choice(NUMBERS), dice.choice(STRINGS)])


def random_json(dice, depth):
    """JSON in export form; never empty."""
    if depth == 0 or dice.random() < 0.3:
        value = random_scalar(dice)
        return {".value": value, ".priority": random_priority(dice)} if dice.random() < 0.2 else value
    result = {key: random_json(dice, depth - 1) for key in dice.sample(KEYS, dice.randint(1, 5))}
    if dice.random() < 0.2:
        result[".priority"] = random_priority(dice)
    return result


def random_child(dice):
    """A child of a queried place: often an object with the fields that queries order by."""
    if dice.random() < 0.2:
        return random_json(dice, 1)
    child = {"n": random_scalar(dice), "d": {"e": random_scalar(dice)}, "x": dice.randint(0, 3)}
    for field in dice.sample(["n", "d", "x"], dice.randint(0, 2)):
        del child[field]
    if dice.random() < 0.4:
        child[".priority"] = random_priority(dice)
    return child


def random_query(dice):
    query = {}
    index = dice.choice([None, ".key", ".value", "n", "d/e", "x"])
    if index is not None:
        query["i"] = index

    def endpoint():
        if index == ".key":
            return dice.choice(KEYS)
        return random_priority(dice) if index is None else dice.choice([None, random_scalar(dice)])

    for value, key, inclusive in (("sp", "sn", "sin"), ("ep", "en", "ein")):
        if dice.random() < 0.35:
            query[value] = endpoint()
            if index != ".key" and dice.random() < 0.3:
                query[key] = dice.choice([*KEYS, "[MIN_NAME]", "[MAX_KEY]"])
            if dice.random() < 0.5:
                query[inclusive] = dice.random() < 0.7
    if dice.random() < 0.7 or len(query) < 2:
        query["l"] = dice.choice([1, 2, 3, 5, 100])
        query["vf"] = dice.choice("lr")
    return query


@each_seed(60)
def test_server_and_client_compute_the_same_hash_of_a_random_tree(world, seed):
    dice = random.Random(seed)
    writer = world.connect()
    model = None
    for _ in range(8):
        path = tuple(dice.sample(KEYS, dice.randint(0, 2)))
        value = None if dice.random() < 0.15 else random_json(dice, 3)
        writer.must("p", {"p": "/" + "/".join(path), "d": value})
        model = tree.put(model, path, tree.parse(value))

        places = [(), path, path[:1]]
        reader = world.connect()
        for place in places:
            node = tree.get(model, place)
            reader.must("q", {"p": "/" + "/".join(place), "h": tree.simple_hash(node)})
            assert not reader.taken_pushes(), f"hash of {tree.export(node)}"
        for tag in (1, 2):
            query = random_query(dice)
            window = tree.window(model, query)
            reader.must("q", {"p": "/", "q": query, "t": tag, "h": tree.simple_hash(window)})
            assert not reader.taken_pushes(), f"{query} gives {tree.export(window)}"
        reader.close()


@each_seed(40)
def test_a_compound_hash_brings_a_stale_random_cache_up_to_date(world, seed):
    """Also where what changed is the priority of an object, which the clients' quirk (9.6) may leave out of the hash."""
    dice = random.Random(seed)
    cached = tree.parse({key: random_json(dice, 2) for key in dice.sample(KEYS, 8)})
    objects = sorted({path[:-1] for path, _ in tree.leaves(cached, quirk=False) if path[-1] == ".priority"}) or [()]
    current = cached
    for _ in range(dice.randint(0, 4)):
        if dice.random() < 0.4:
            priority = None if dice.random() < 0.7 else tree.parse(random_priority(dice))
            current = tree.put(current, (*dice.choice(objects), ".priority"), priority)
        else:
            path = tuple(dice.sample(KEYS, dice.randint(1, 2)))
            current = tree.put(current, path, tree.parse(random_json(dice, 1)) if dice.random() < 0.7 else None)
    world.connect().must("p", {"p": "/t", "d": tree.export(current)})
    client = world.client()
    listen = client.cache.add(Listen("/t", None, None, cached))
    cuts = tree.even_cuts(cached, dice.randint(1, 6))
    client.listen("/t", cuts=cuts)
    assert tree.same_json(tree.export(listen.node), tree.export(current))


def random_write(dice, model):
    """(action, body) of one random write around /q, and the model after it."""
    where = dice.random()
    if where < 0.05:
        value = None if dice.random() < 0.3 else {key: random_child(dice) for key in dice.sample(KEYS, dice.randint(1, 6))}
        return ("p", {"p": "/q", "d": value}), tree.put(model, ("q",), tree.parse(value))
    if where < 0.08:
        value = {"q": {key: random_child(dice) for key in dice.sample(KEYS, 3)}, "other": 1}
        return ("p", {"p": "/", "d": value}), tree.parse(value)
    if where < 0.3:
        entries = {}
        for key in dice.sample(KEYS, dice.randint(1, 4)):
            inner = dice.choice(["", "/n", "/d/e", "/x"])
            entries[key + inner] = dice.choice([None, random_scalar(dice) if inner else random_child(dice)])
        return ("m", {"p": "/q", "d": entries}), tree.merge(model, ("q",), entries)
    key = dice.choice(KEYS)
    if where < 0.4 and tree.get(model, ("q", key)) is not None:
        path, value = ("q", key, ".priority"), dice.choice([None, random_priority(dice)])
    elif where < 0.6:
        path, value = ("q", key, *dice.choice([("n",), ("d", "e"), ("x",)])), dice.choice([None, random_scalar(dice)])
    else:
        path, value = ("q", key), None if dice.random() < 0.25 else random_child(dice)
    return ("p", {"p": "/" + "/".join(path), "d": value}), tree.put(model, path, tree.parse(value))


@each_seed(30)
def test_windows_follow_random_writes(world, seed):
    """After every write each window of the client's cache is the naive window of the whole tree, and no listen was
    sent one write twice.
    """
    dice = random.Random(1000 + seed)
    writer, client = world.connect(), world.client()
    model = tree.parse({"q": {key: random_child(dice) for key in dice.sample(KEYS, 10)}})
    writer.must("p", {"p": "/", "d": tree.export(model)})
    queries = [random_query(dice) for _ in range(6)]
    listens = [client.listen("/q", query, tag) for tag, query in enumerate(queries, 1)]
    plain = client.listen("/q")

    history = []
    for step in range(60):
        (action, body), model = random_write(dice, model)
        history.append((action, body))
        writer.must(action, body)
        client.connection.fence()
        told = list(client.connection.pushes)
        client.absorb()

        place = f"step {step}, {action} {body}\ntold {told}"
        tags = [push.get("t") for _, push in told]
        assert len(tags) == len(set(tags)), f"a listen got a write twice at {place}"
        node = tree.get(model, ("q",))
        assert tree.same_json(tree.export(plain.node), tree.export(node)), f"the default listen at {place}"
        for listen in listens:
            want, got = tree.export(tree.window(node, listen.query)), tree.export(listen.node)
            assert tree.same_json(got, want), f"{listen.query} at {place}\nwant {want}\n got {got}"
    # And a client that comes back with these windows has nothing to learn.
    again = world.client(cache=client.cache)
    for listen in listens:
        again.listen("/q", listen.query, listen.tag)
    assert not again.sync()
