r"""Plays small scripts that read like the worked examples of the REST document.

    GET /pub/a.json                     a request; its answer is asked about by the lines below it
    PUT /pub/a.json {"h":3}             … with a body: the rest of the line, byte for byte
    PUT /a.json 5 | if-match: <t>       … with header fields, each behind ` | `
    < 200 {"h":3}                       the status, and the body byte for byte
    < 200                               … any body
    < 200 empty                         … no body
    < 200 like {"b":1,"a":2}            … this JSON, in any order of keys
    < 200 exactly "{\n}\n"              … these bytes, as a JSON string
    < 200 matches [0-9]{13}             … a whole match
    < 400 error <text>                  … the error object with this text, byte for byte
    < 400 error                         … an error object with some text
    < ETag: <t>                         a header field and its value
    < ETag: matches [0-9a-z]+           … or a pattern for it
    < no ETag                           no such field
    given /a {"b":1}                    data put by the administrator, whatever rules there are
    rules {"rules":{…}}                 rules loaded by the administrator
    now /a {"b":1}                      what the administrator reads there (JSON, in any order of keys)

`<t>` in an expected header stands for a value that is remembered; different names stand for different values. In a
request it stands for the value remembered, `<owner>` for the administrator's `Authorization` header.
"""

import json
import os
import re
import subprocess
import tempfile

import tree
from pando_client import DEADLINE, ProtocolError, shorten
from rest_client import OWNER, Response, Rest, check_framing, with_namespace

REQUEST = re.compile(r"(GET|PUT|POST|PATCH|DELETE|OPTIONS|HEAD|[A-Z]{3,}) (\S+)(?: (.*))?")
FIELD = re.compile(r" \| ([A-Za-z-]+): ?(.*?)(?= \| [A-Za-z-]+:|$)")
PATTERN_OF_ETAG = "[A-Za-z0-9+/]{27}="
OPEN = {".read": True, ".write": True}


class Exchange:
    """One row of a table: a sentence, the section it comes from, and the script (or a function of the world)."""

    def __init__(self, name, section, script, mode="dev", skip=None):
        self.name, self.section, self.script, self.mode, self.skip = name, section, script, mode, skip

    def __str__(self):
        return f"{self.section} {self.name}"

    def play(self, world, transport=None):
        if callable(self.script):
            self.script(world)
        else:
            Player(world.port, world.ns, transport).play(self.script)


def row(name, section, script, mode="dev", skip=None):
    return Exchange(name, section, script, mode, skip)


class SocketTransport:
    """Every byte is ours: one keep-alive connection."""

    def __init__(self, port, ns):
        self.rest = Rest(port, ns)

    def ask(self, method, target, body, fields):
        return self.rest.ask(method, target, body, fields)

    def close(self):
        self.rest.close()


class CurlTransport:
    """The command a person would type: one curl a request."""

    def __init__(self, port, ns):
        self.port, self.ns = port, ns

    def command(self, method, target, body, fields):
        url = f"http://127.0.0.1:{self.port}{with_namespace(target, self.ns)}"
        # -q first: no ~/.curlrc. Quotes and brackets of a query are sent as they stand.
        command = ["curl", "-q", "--silent", "--show-error", "--globoff", "--path-as-is", "--noproxy", "*", "-N"]
        command += ["--max-time", str(DEADLINE), "-X", method]
        for name, value in fields:
            command += ["-H", f"{name}: {value}"]
        if body is not None:
            command += ["--data-raw", body]
        return [*command, url]

    def ask(self, method, target, body, fields):
        with tempfile.NamedTemporaryFile("r", encoding="latin-1", newline="") as head:
            done = subprocess.run(
                [*self.command(method, target, body, fields), "--dump-header", head.name],
                capture_output=True,
                timeout=DEADLINE + 5,
                stdin=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
            )
            if done.returncode != 0:
                raise ProtocolError(f"curl ended with {done.returncode}: {done.stderr.decode()}")
            # After `100 Continue` comes the answer itself.
            *_, text = head.read().removesuffix("\r\n\r\n").split("\r\n\r\n")
        status_line, *lines = text.split("\r\n")
        version, status, reason = (status_line.split(" ", 2) + [""])[:3]
        fields = [(name, value.strip()) for name, value in (line.split(":", 1) for line in lines)]
        response = Response(version.removeprefix("HTTP/"), int(status), reason, fields, done.stdout)
        check_framing(response)
        return response

    def close(self):
        pass


class Player:
    def __init__(self, port, ns, transport=None):
        self.transport = (transport or SocketTransport)(port, ns)
        self.administrator = Rest(port, ns, fields=[OWNER])
        self.known = {"owner": OWNER[1]}
        self.response = None

    def play(self, script):
        try:
            for line in script.strip("\n").splitlines():
                line = line.strip()
                if not line or line.startswith("#"):
                    continue
                try:
                    self.step(line)
                except AssertionError as error:
                    raise AssertionError(f"at `{shorten(line, 300)}`\n{error}") from None
        finally:
            self.transport.close()
            self.administrator.close()

    def step(self, line):
        if line.startswith("< "):
            return self.expect(line.removeprefix("< "))
        verb, _, rest = line.partition(" ")
        if verb == "rules":
            self.administrator.put_rules(rest)
        elif verb == "given":
            path, value = rest.split(" ", 1)
            self.administrator.must("PUT", path, value)
        elif verb == "now":
            path, value = rest.split(" ", 1)
            self.need_same_json(json.loads(value), self.administrator.get(path))
        elif asked := REQUEST.match(line):
            method, target, rest = asked.groups()
            rest = f" {rest}" if rest else ""
            fields = [(name, self.filled_in(value)) for name, value in FIELD.findall(rest)]
            body = FIELD.sub("", rest).removeprefix(" ")
            self.response = self.transport.ask(method, self.filled_in(target), body or None, fields)
        else:
            raise ValueError(f"unreadable step: {line}")
        return None

    def filled_in(self, text):
        return re.sub(r"<([a-z0-9]+)>", lambda found: self.known[found[1]], text)

    def expect(self, text):
        status, _, rest = text.partition(" ")
        if status == "no":
            if self.response.all(rest):
                raise ProtocolError(f"no {rest} was expected: {self.response!r}")
        elif status.endswith(":"):
            self.expect_field(status.removesuffix(":"), rest)
        else:
            self.expect_body(int(status), rest)

    def expect_field(self, name, wanted):
        value = self.response.header(name)
        if variable := re.fullmatch("<([a-z0-9]+)>", wanted):
            if value is None:
                raise ProtocolError(f"no {name}: {self.response!r}")
            same = [other for other, known in self.known.items() if known == value and other != variable[1]]
            if same or self.known.setdefault(variable[1], value) != value:
                raise ProtocolError(f"{name} is {value!r}; known are {self.known}")
        elif wanted.startswith("matches "):
            if value is None or not re.fullmatch(wanted.removeprefix("matches "), value):
                raise ProtocolError(f"{name} {value!r} does not match: {self.response!r}")
        elif value != wanted:
            raise ProtocolError(f"expected {name}: {wanted}, got {value!r}: {self.response!r}")

    def expect_body(self, status, rest):
        word, _, text = rest.partition(" ")
        if word == "error":
            self.response.expect_error(status, text or None)
            return
        self.response.expect(status)
        if word == "empty":
            self.response.expect(status, b"")
        elif word == "like":
            self.need_same_json(json.loads(text), self.response.json())
        elif word == "exactly":
            self.response.expect(status, json.loads(text))
        elif word == "matches":
            if not re.fullmatch(text, self.response.text, re.DOTALL):
                raise ProtocolError(f"does not match: {self.response!r}")
        elif rest:
            self.response.expect(status, rest)

    def need_same_json(self, wanted, got):
        if not tree.same_json(wanted, got):
            raise ProtocolError(f"expected {shorten(wanted)}\n     got {shorten(got)}")
