"""Plays small scripts that read like the transcripts of the protocol document.

One step a line; a name at the front is a connection, opened at its first mention. Requests are numbered by themselves.

    A> q {"p":"/room","h":""}         A sends a request: action and body
    A> r=0 s {"c":{}}                 … with a number of our choice
    A> raw 0                          A sends one text frame as it stands
    A< ok {}                          next for A: the answer to its oldest unanswered request
    A< ok                             … with the d that this action has when there is nothing to say
    A< refused                        … any status but ok, with a string d
    A< refused permission_denied      … this status
    A< datastale                      … and `datastale bare`: without, `datastale {…}`: with this `current` member
    A< d {"p":"room","d":1}           next for A: this push. `m` with one entry equals the `d` of that entry
    A< d {…} | d {…}                  … or that one, where the document leaves the choice
    A<* d {…}                         neighbouring lines like this: these pushes, in any order
    A<? d {…}                         this push may come or not
    A< raw {"t":"c","d":{…}}          next for A: exactly this message
    A< nothing                        nothing has been sent to A (proved by a round trip through the database)
    A< closed                         the server ends the connection, saying nothing more
    A sets /x 1 · A merges /x {"a":1} a put or merge that must succeed; its pushes are expected afterwards
    A sees /x 1                       a get that must answer this
    A sees /x where {"l":1} is {…}    … with a query
    A opens ls=B | ns=other           opens A by name with options
    A keeps alive                     the frame `0`, where the transport has one
    A closes · A is cut · A is reset  close frame; FIN; RST (or what stands for them in the transport)
    eventually /x 1                   another connection sees this before the deadline

At the end every open connection must have nothing left to say. In expected JSON a string that begins with `@` stands
for a server timestamp: near our clock, and the same wherever the same name stands.
"""

import json
import re
import time

import tree
from pando_client import DEADLINE, ProtocolError, compact, shorten
from transports import TRANSPORTS

REQUEST = re.compile(r"(\w+)> (?:r=(-?\d+) )?([a-z]+) (.*)", re.DOTALL)
EXPECT = re.compile(r"(\w+)<([*?]?) (.*)", re.DOTALL)
ACT = re.compile(r"(\w+) (sets|merges|sees|opens|keeps alive|closes|is cut|is reset)(?: (.*))?", re.DOTALL)
CLOCK_TOLERANCE = 120_000  # milliseconds between our clock and the server's

# The transports a case is played over, where these are not all: what it says is about
FRAMES = ("ws",)  # frames and chunks of a WebSocket, or its opening handshake
POLLS = ("lp",)  # long polling alone


class Case:
    """One row of the table: a sentence, the section it comes from, and the script (or a function of the world)."""

    def __init__(self, name, section, script, mode, over):
        self.name, self.section, self.script, self.mode, self.over = name, section, script, mode, over

    def __str__(self):
        return f"{self.section} {self.name}"

    def play(self, world):
        if callable(self.script):
            self.script(world)
        else:
            Player(world).play(self.script)


def case(name, section, script, mode="dev", over=TRANSPORTS):
    return Case(name, section, script, mode, over)


def overwrites(action, body):
    """A push as (tag, {absolute path: value}): the same whether it is sent as `d` or as `m`."""
    base = tree.segments(body["p"])
    entries = {"": body["d"]} if action == "d" else body["d"]
    return body.get("t"), {base + tree.segments(path): value for path, value in entries.items()}


class Player:
    def __init__(self, world):
        self.world = world
        self.connections = {}
        self.events = {}  # name -> what has arrived and is not yet expected
        self.asked = {}  # name -> {r: action}, to know what an empty ok looks like
        self.times = {}  # @name -> the timestamp it stands for
        self.group = []  # the running <* lines, as (name, alternatives)

    def play(self, script):
        lines = [line.strip() for line in script.strip().splitlines()]
        for line in lines:
            if not line or line.startswith("#"):
                continue
            try:
                self.step(line)
            except AssertionError as error:
                raise AssertionError(f"at `{shorten(line, 300)}`\n{error}") from None
        self.end_group()
        for name in list(self.connections):
            try:
                self.expect_nothing(name)
            except AssertionError as error:
                raise AssertionError(f"at the end of the script\n{error}") from None

    def step(self, line):
        expected = EXPECT.fullmatch(line)
        if not (expected and expected[2] == "*"):
            self.end_group()
        if expected:
            self.expect(*expected.groups())
        elif asked := REQUEST.fullmatch(line):
            name, r, action, text = asked.groups()
            if action == "raw":
                self.connection(name).send_frame(text)
            else:
                self.request(name, action, json.loads(text), None if r is None else int(r))
        elif line.startswith("eventually "):
            path, text = line.removeprefix("eventually ").split(" ", 1)
            self.eventually(path, json.loads(text))
        elif act := ACT.fullmatch(line):
            self.act(*act.groups())
        else:
            raise ValueError(f"unreadable step: {line}")

    # Acts

    def connection(self, name, **options):
        if name not in self.connections:
            self.connections[name] = self.world.connect(**options)
            self.events[name], self.asked[name] = [], {}
        return self.connections[name]

    def request(self, name, action, body, r=None):
        r = self.connection(name).request(action, body, r)
        self.asked[name][r] = action
        return r

    def act(self, name, verb, text):
        if verb == "opens":
            options = dict(option.split("=", 1) for option in (text or "").split())
            if "ls" in options:
                options["ls"] = self.connections.pop(options["ls"]).session
            self.connection(name, **options)
        elif verb in ("sets", "merges"):
            path, value = text.split(" ", 1)
            r = self.request(name, "p" if verb == "sets" else "m", {"p": path, "d": json.loads(value)})
            self.complete(name, r)
        elif verb == "sees":
            path, rest = text.split(" ", 1)
            query = {}
            if rest.startswith("where "):
                query, rest = map(json.loads, rest.removeprefix("where ").split(" is ", 1))
                rest = compact(rest)
            got = self.complete(name, self.request(name, "g", {"p": path, "q": query}))
            self.need_equal(json.loads(rest), got["d"])
        elif verb == "keeps alive":
            self.connection(name).keep_alive()
        else:
            connection = self.connections.pop(name)
            {"closes": connection.close, "is cut": connection.cut, "is reset": connection.reset}[verb]()

    def complete(self, name, r):
        """Reads up to the answer to `r`, which must be ok; what comes before it stays to be expected."""
        while True:
            kind, key, body = self.connections[name].next_data()
            if (kind, key) == ("response", r):
                if body["s"] != "ok":
                    raise ProtocolError(f"refused: {shorten(body)}")
                return body
            self.events[name].append((kind, key, body))

    def eventually(self, path, expected):
        deadline = time.monotonic() + DEADLINE
        observer = self.world.connect()
        while True:
            got = observer.get(path)
            if self.matches(expected, got):
                observer.close()
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"still {shorten(got)}")
            time.sleep(0.005)

    # Expectations

    def next_event(self, name):
        connection = self.connection(name)
        return self.events[name].pop(0) if self.events[name] else connection.next_data()

    def expect(self, name, mark, text):
        if text == "nothing":
            return self.expect_nothing(name)
        if text == "closed":
            heard = self.connections.pop(name).expect_closed()
            if heard or self.events[name]:
                raise ProtocolError(f"said before closing: {shorten(heard + self.events[name])}")
            return None
        if text.startswith("raw "):
            message = self.connection(name).receive()
            return self.need_equal(json.loads(text.removeprefix("raw ")), message)
        if text.split(" ")[0] in ("ok", "refused", "datastale"):
            return self.expect_response(name, *text.partition(" ")[::2])
        alternatives = [(choice.split(" ", 1)[0], json.loads(choice.split(" ", 1)[1])) for choice in text.split(" | ")]
        if mark == "*":
            self.group.append((name, alternatives))
        elif mark == "?":
            self.drain(name)
            if self.events[name] and self.is_push(self.events[name][0], alternatives):
                self.events[name].pop(0)
        else:
            event = self.next_event(name)
            if not self.is_push(event, alternatives):
                raise ProtocolError(f"got {shorten(event)}")
        return None

    def expect_response(self, name, status, text):
        kind, r, body = self.next_event(name)
        if kind != "response":
            raise ProtocolError(f"expected an answer, got the push {r} {shorten(body)}")
        if status == "refused":
            if body["s"] == "ok" or not isinstance(body["d"], str) or (text and body["s"] != text):
                raise ProtocolError(f"expected a refusal, got {shorten(body)}")
            return
        if body["s"] != status:
            raise ProtocolError(f"expected the status {status}, got {shorten(body)}")
        if status == "datastale":
            if text == "bare" and "current" in body:
                raise ProtocolError(f"11.2 no current member where a listen covers the path: {shorten(body)}")
            if text not in ("", "bare"):
                self.need_equal(json.loads(text), body.get("current"))
            return
        nothing = {} if self.asked[name][r] == "q" else ""
        self.need_equal(json.loads(text) if text else nothing, body["d"])

    def expect_nothing(self, name):
        self.drain(name)
        if self.events[name]:
            raise ProtocolError(f"{name} got an unexpected message: {shorten(self.events[name])}")

    def drain(self, name):
        """A round trip through the database; everything that comes before its answer is kept as events."""
        connection = self.connection(name)
        r = connection.request("g", {"p": "/fence", "q": {}})
        while True:
            event = connection.next_data()
            if event[:2] == ("response", r):
                return
            self.events[name].append(event)

    def end_group(self):
        group, self.group = self.group, []
        for name in dict.fromkeys(name for name, _ in group):
            wanted = [alternatives for other, alternatives in group if other == name]
            while wanted:
                event = self.next_event(name)
                found = next((one for one in wanted if self.is_push(event, one)), None)
                if found is None:
                    raise ProtocolError(f"got {shorten(event)}, wanted one of {shorten(wanted)}")
                wanted.remove(found)

    def is_push(self, event, alternatives):
        kind, action, body = event
        if kind != "push":
            return False
        for wanted_action, wanted in alternatives:
            if action in ("d", "m") and wanted_action in ("d", "m"):
                (tag, got), (wanted_tag, want) = overwrites(action, body), overwrites(wanted_action, wanted)
                if tag == wanted_tag and got.keys() == want.keys() and all(self.matches(want[p], got[p]) for p in want):
                    return True
            elif action == wanted_action and self.matches(wanted, body):
                return True
        return False

    def need_equal(self, expected, got):
        if not self.matches(expected, got):
            raise ProtocolError(f"expected {shorten(expected)}\n     got {shorten(got)}")

    def matches(self, expected, got):
        times = dict(self.times)
        if self.compare(expected, got, times):
            self.times = times
            return True
        return False

    def compare(self, expected, got, times):
        if isinstance(expected, str) and expected.startswith("@"):
            near = type(got) is int and abs(got - time.time() * 1000) < CLOCK_TOLERANCE
            return near and times.setdefault(expected, got) == got
        if isinstance(expected, dict) and isinstance(got, dict):
            return expected.keys() == got.keys() and all(
                tree.same_json({key: expected[key]}, {key: got[key]})
                if key == ".priority" and not isinstance(expected[key], str)
                else self.compare(expected[key], got[key], times)
                for key in expected
            )
        if isinstance(expected, list) and isinstance(got, list):
            return len(expected) == len(got) and all(self.compare(a, b, times) for a, b in zip(expected, got))
        return tree.same_json(expected, got)
