"""The official Admin SDK for Python against the server, unchanged, as its own integration suite uses it.

It is pointed at the server by `FIREBASE_DATABASE_EMULATOR_HOST`, as an application would be. Nothing here leaves the
machine: a connection to anything but loopback fails the test.
"""

import concurrent.futures
import itertools
import queue
import socket
import threading
import time

import firebase_admin
import pytest
from firebase_admin import credentials, db, exceptions

from pando_client import DEADLINE
from rest_client import Rest
from transcript import CLOCK_TOLERANCE

THREADS = 8
DINOSAURS = {
    "bruhathkayosaurus": {"height": 25, "length": 44, "order": "saurischia"},
    "lambeosaurus": {"height": 2.1, "length": 12.5, "order": "ornithischia"},
    "linhenykus": {"height": 0.6, "length": 1, "order": "theropoda"},
    "pterodactyl": {"height": 0.6, "length": 0.8, "order": "pterosauria"},
    "stegosaurus": {"height": 4, "length": 9, "order": "ornithischia"},
    "triceratops": {"height": 3, "length": 8, "order": "ornithischia"},
}
SCORES = dict(zip(DINOSAURS, (55, 21, 80, 93, 5, 22), strict=True))
RULES = {"rules": {".read": True, ".write": True, "dinos": {".indexOn": ["height", "order"]},
                   "scores": {".indexOn": ".value"}}}
names = map("app-{}".format, itertools.count(1))


class NobodyAsks(credentials.Base):
    """The SDK brings its own credential for an emulator; asking for this one would mean it talks to the cloud."""

    def get_credential(self):
        raise AssertionError("the SDK asked for cloud credentials")


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch):
    connect, refused = socket.socket.connect, []

    def guarded(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            refused.append(address)
            raise OSError(f"not loopback: {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    yield
    assert not refused, f"the SDK tried to reach {refused}"


@pytest.fixture
def make_app(world, monkeypatch):
    monkeypatch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", f"127.0.0.1:{world.port}")
    made = []

    def make(**options):
        url = f"https://{world.ns}.firebaseio.example"
        options = {"databaseURL": url, "projectId": "demo", "httpTimeout": DEADLINE, **options}
        app = firebase_admin.initialize_app(NobodyAsks(), options, name=next(names))
        made.append(app)
        return app

    yield make
    for app in made:
        firebase_admin.delete_app(app)


@pytest.fixture
def app(make_app):
    return make_app()


@pytest.fixture
def rest(world):
    return Rest(world.port, world.ns)


def eight(work):
    """Runs `work(number)` in eight threads that begin together; answers the eight results."""
    gate = threading.Barrier(THREADS)

    def begin(number):
        gate.wait(DEADLINE)
        return work(number)

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


class Listener:
    """A listen whose events are taken one by one, and which ends for sure."""

    def __init__(self, reference, rest):
        self.events, self.rest, self.path = queue.Queue(), rest, reference.path
        self.registration = reference.listen(self.events.put)

    def next(self):
        event = self.events.get(timeout=DEADLINE)
        return event.event_type, event.path, event.data

    def close(self):
        """`close` of the SDK waits for its reader, which waits for bytes: writes wake it up."""
        closer = threading.Thread(target=self.registration.close, daemon=True)
        closer.start()
        deadline = time.monotonic() + DEADLINE
        for number in itertools.count():
            closer.join(0.05)
            if not closer.is_alive():
                return
            assert time.monotonic() < deadline, "the listener did not end"
            self.rest.put(self.path, f"wake up {number}")


VALUES = [
    1, -2.5, 0, 2**53, True, False, "text", "", "é🐵 \"quoted\" \\ \n", ["x", "y"], {"a": {"b": [1, 2, {"c": True}]}},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_set_value_is_read_back(app, value):
    reference = db.reference("/a/b", app)
    reference.set(value)
    got = reference.get()
    assert got == value and type(got) is type(value)
    assert db.reference("/a", app).get() == {"b": value}


def test_no_data_is_none(app):
    assert db.reference("/nothing", app).get() is None
    assert db.reference("/nothing", app).get(shallow=True) is None
    assert db.reference("/nothing", app).get(etag=True) == (None, "null_etag")


def test_eight_threads_set_and_get(app):
    def work(number):
        reference = db.reference(f"/t{number}", app)
        for round_number in range(25):
            reference.set({"round": round_number, "by": number})
            assert reference.get() == {"round": round_number, "by": number}

    eight(work)
    assert db.reference("/", app).get(shallow=True) == {f"t{number}": True for number in range(THREADS)}


def test_shallow_shows_names(app):
    db.reference("/a", app).set({"b": {"c": 1}, "d": 2})
    assert db.reference("/a", app).get(shallow=True) == {"b": True, "d": True}
    assert db.reference("/a/d", app).get(shallow=True) == 2
    assert eight(lambda number: db.reference("/a", app).get(shallow=True)) == [{"b": True, "d": True}] * THREADS


def test_update_changes_only_the_named_children(app):
    reference = db.reference("/a", app)
    reference.set({"keep": 1, "change": 2, "drop": 3})
    reference.update({"change": 4, "drop": None, "deep/er": 5})
    assert reference.get() == {"keep": 1, "change": 4, "deep": {"er": 5}}


def test_eight_threads_update_one_node(app):
    reference = db.reference("/a", app)

    def work(number):
        for round_number in range(25):
            reference.update({f"t{number}": round_number, f"deep/t{number}": round_number})

    eight(work)
    last = {f"t{number}": 24 for number in range(THREADS)}
    assert reference.get() == {**last, "deep": last}


def test_push_makes_children_that_sort_by_time(app):
    reference = db.reference("/list", app)
    keys = [reference.push({"n": number}).key for number in range(20)]
    assert keys == sorted(keys)
    assert reference.get() == {key: {"n": number} for number, key in enumerate(keys)}
    assert reference.push().get() == "", "a push of nothing is an empty text"


def test_eight_threads_push_and_no_two_names_are_alike(app):
    reference = db.reference("/list", app)
    keys = eight(lambda number: [reference.push(f"{number}-{count}").key for count in range(25)])
    for mine in keys:
        assert mine == sorted(mine)
    got = reference.get()
    assert len(got) == THREADS * 25
    assert {got[key] for mine in keys for key in mine} == {f"{n}-{c}" for n in range(THREADS) for c in range(25)}


def test_delete_deletes_and_may_be_repeated(app):
    db.reference("/a", app).set({"b": 1})
    db.reference("/a/b", app).delete()
    db.reference("/a/b", app).delete()
    assert db.reference("/", app).get() is None


def test_eight_threads_delete(app):
    db.reference("/a", app).set({f"k{number}": number for number in range(200)})

    def work(number):
        for key in range(number, 200, THREADS // 2):  # each key is deleted by two threads
            db.reference(f"/a/k{key}", app).delete()

    eight(lambda number: work(number % (THREADS // 2)))
    assert db.reference("/", app).get() is None


# Conditions


def test_get_if_changed(app):
    reference = db.reference("/a", app)
    reference.set({"b": 1})
    value, etag = reference.get(etag=True)
    assert value == {"b": 1} and etag
    assert reference.get_if_changed(etag) == (False, None, None)
    assert reference.get_if_changed("another") == (True, {"b": 1}, etag)
    reference.set({"b": 2})
    changed, value, new = reference.get_if_changed(etag)
    assert (changed, value) == (True, {"b": 2}) and new != etag
    assert eight(lambda number: reference.get_if_changed(new)) == [(False, None, None)] * THREADS


def test_set_if_unchanged(app):
    reference = db.reference("/a", app)
    reference.set(1)
    _, etag = reference.get(etag=True)
    success, value, new = reference.set_if_unchanged(etag, {"b": 2})
    assert (success, value) == (True, {"b": 2}) and new not in (None, etag)
    assert reference.get(etag=True) == ({"b": 2}, new)
    assert reference.set_if_unchanged(etag, 3) == (False, {"b": 2}, new)
    assert db.reference("/new", app).set_if_unchanged("null_etag", 1)[0]
    assert not db.reference("/new", app).set_if_unchanged("null_etag", 2)[0]


def test_of_eight_set_if_unchanged_one_passes(app):
    reference = db.reference("/a", app)
    for _ in range(10):
        _, etag = reference.get(etag=True)
        results = eight(lambda number: reference.set_if_unchanged(etag, {"by": number, "after": etag}))
        winners = [value for success, value, _ in results if success]
        assert len(winners) == 1 and reference.get() == winners[0]
        assert all(value == winners[0] for _, value, _ in results)


def test_a_counter_of_eight_contending_threads_is_exact(app):
    reference, rounds = db.reference("/counter", app), 25

    def work(number):
        """The SDK gives up after 25 lost races; an application tries again."""
        results = []
        while len(results) < rounds:
            try:
                results.append(reference.transaction(lambda value: (value or 0) + 1))
            except db.TransactionAbortedError:
                pass
        return results

    results = eight(work)
    assert reference.get() == THREADS * rounds
    assert sorted(value for mine in results for value in mine) == list(range(1, THREADS * rounds + 1))


def test_a_transaction_gets_the_current_value_and_may_be_aborted(app):
    reference = db.reference("/a", app)
    reference.set({"n": [1, 2]})
    assert reference.transaction(lambda value: {**value, "m": 3}) == {"n": [1, 2], "m": 3}

    class Abort(Exception):
        pass

    def abort(value):
        raise Abort

    with pytest.raises(Abort):
        reference.transaction(abort)
    assert reference.get() == {"n": [1, 2], "m": 3}


# Server values and priorities


def test_a_timestamp_is_the_server_s_clock(app):
    db.reference("/a", app).set({"at": {".sv": "timestamp"}})
    assert abs(db.reference("/a/at", app).get() - time.time() * 1000) < CLOCK_TOLERANCE
    key = db.reference("/l", app).push({".sv": "timestamp"}).key
    assert abs(db.reference(f"/l/{key}", app).get() - time.time() * 1000) < CLOCK_TOLERANCE


def test_increments_of_eight_threads_add_up(app):
    increment = {".sv": {"increment": 1}}

    def work(number):
        for _ in range(25):
            db.reference("/n", app).set(increment)
            db.reference("/", app).update({"m": increment, f"by/t{number}": increment})

    eight(work)
    assert db.reference("/", app).get() == {
        "n": THREADS * 25, "m": THREADS * 25, "by": {f"t{number}": 25 for number in range(THREADS)},
    }


def test_priorities_are_kept(app, rest):
    db.reference("/a", app).set({"x": {".value": 1, ".priority": 3}, "y": {"z": 1, ".priority": "p"}})
    assert db.reference("/a", app).get() == {"x": 1, "y": {"z": 1}}
    assert rest.get("/a", "format=export") == {"x": {".value": 1, ".priority": 3}, "y": {"z": 1, ".priority": "p"}}


# Queries


@pytest.fixture
def dinosaurs(app, rest):
    rest.put_rules(RULES)
    db.reference("/", app).set({"dinos": DINOSAURS, "scores": SCORES})
    return db.reference("/dinos", app)


QUERIES = {
    "the tallest two": (lambda q: q.limit_to_last(2), ["stegosaurus", "bruhathkayosaurus"]),
    "the smallest two, ties by key": (lambda q: q.limit_to_first(2), ["linhenykus", "pterodactyl"]),
    "from three up": (lambda q: q.start_at(3), ["triceratops", "stegosaurus", "bruhathkayosaurus"]),
    "up to 2.1": (lambda q: q.end_at(2.1), ["linhenykus", "pterodactyl", "lambeosaurus"]),
    "two to four": (lambda q: q.start_at(2).end_at(4), ["lambeosaurus", "triceratops", "stegosaurus"]),
    "the first from one up": (lambda q: q.start_at(1).limit_to_first(1), ["lambeosaurus"]),
    "exactly 0.6": (lambda q: q.equal_to(0.6), ["linhenykus", "pterodactyl"]),
    "nothing": (lambda q: q.start_at(5).end_at(20), []),
}


@pytest.mark.parametrize("query, wanted", QUERIES.values(), ids=QUERIES.keys())
def test_order_by_child(dinosaurs, query, wanted):
    got = query(dinosaurs.order_by_child("height")).get() or {}
    assert list(got) == wanted and all(got[key] == DINOSAURS[key] for key in wanted), got


def test_order_by_a_text_child(dinosaurs):
    got = dinosaurs.order_by_child("order").equal_to("ornithischia").get()
    assert list(got) == ["lambeosaurus", "stegosaurus", "triceratops"]


def test_order_by_key(dinosaurs):
    keys = sorted(DINOSAURS)
    assert list(dinosaurs.order_by_key().get()) == keys
    assert list(dinosaurs.order_by_key().limit_to_first(2).get()) == keys[:2]
    assert list(dinosaurs.order_by_key().limit_to_last(2).get()) == keys[-2:]
    assert list(dinosaurs.order_by_key().start_at("l").end_at("p").get()) == ["lambeosaurus", "linhenykus"]
    assert list(dinosaurs.order_by_key().equal_to("triceratops").get()) == ["triceratops"]


def test_order_by_value(dinosaurs, app):
    scores, ordered = db.reference("/scores", app), sorted(SCORES, key=SCORES.get)
    assert list(scores.order_by_value().get()) == ordered
    assert list(scores.order_by_value().limit_to_last(2).get().items()) == [("linhenykus", 80), ("pterodactyl", 93)]
    middle = scores.order_by_value().start_at(22).end_at(80).get()
    assert list(middle) == ["triceratops", "bruhathkayosaurus", "linhenykus"]
    assert list(scores.order_by_value().equal_to(5).get()) == ["stegosaurus"]


def test_eight_threads_query(dinosaurs):
    def work(number):
        for _ in range(10):
            assert list(dinosaurs.order_by_child("height").limit_to_last(1).get()) == ["bruhathkayosaurus"]
            assert list(dinosaurs.order_by_key().limit_to_first(1).get()) == ["bruhathkayosaurus"]

    eight(work)


# Errors


def test_a_missing_index_is_an_invalid_argument(dinosaurs):
    with pytest.raises(exceptions.InvalidArgumentError) as error:
        dinosaurs.order_by_child("length").get()
    assert str(error.value) == 'Index not defined, add ".indexOn": "length", for path "/dinos", to the rules'


def test_an_override_that_rules_refuse_is_unauthenticated(make_app, rest):
    rest.put_rules({"rules": {"open": {".read": True}}})
    signed_out = make_app(databaseAuthVariableOverride=None)
    for call in (lambda: db.reference("/closed", signed_out).get(), lambda: db.reference("/open", signed_out).set(1)):
        with pytest.raises(exceptions.UnauthenticatedError) as error:
            call()
        assert str(error.value) == "Permission denied"
    assert db.reference("/open", signed_out).get() is None
    db.reference("/closed", make_app()).set(1)


# Listens


def test_a_listener_gets_every_write_in_order(app, rest):
    reference = db.reference("/s", app)
    reference.set({"a": 1})
    listener = Listener(reference, rest)
    try:
        assert listener.next() == ("put", "/", {"a": 1})
        for number in range(100):
            reference.child("n").set(number)
        for number in range(100):
            assert listener.next() == ("put", "/n", number)
        reference.update({"a": 2, "b": "é🐵"})
        assert listener.next() == ("patch", "/", {"a": 2, "b": "é🐵"})
        key = reference.child("l").push("x").key
        assert listener.next() == ("put", f"/l/{key}", "x")
        reference.child("l").delete()
        assert listener.next() == ("put", "/l", None)
        reference.delete()
        assert listener.next() == ("put", "/", None)
    finally:
        listener.close()


def test_eight_listeners_get_the_writes_of_eight_writers(app, rest):
    reference, count = db.reference("/s", app), 20
    listeners = eight(lambda number: Listener(reference, rest))
    try:
        for listener in listeners:
            assert listener.next() == ("put", "/", None)
        eight(lambda number: [reference.child(f"t{number}").set(value) for value in range(count)])
        heard = [[listener.next() for _ in range(THREADS * count)] for listener in listeners]
        for events in heard:
            assert events == heard[0], "one order for all"
            for number in range(THREADS):
                mine = [data for name, path, data in events if path == f"/t{number}"]
                assert mine == list(range(count)), mine
    finally:
        for listener in listeners:
            listener.close()


def test_a_refused_listener_raises_an_error(make_app, world, rest):
    rest.put_rules({"rules": {}})
    with pytest.raises(exceptions.UnauthenticatedError):
        db.reference("/s", make_app(databaseAuthVariableOverride=None)).listen(print)
