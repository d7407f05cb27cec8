"""A server under strace, and what it asked of the kernel, in the order in which it did.

strace stops a thread when it enters a system call and when it leaves it, and nothing happens in between those stops but
that call. So the order of the lines is the order of things: what was left before another was entered was done before it
began, on whatever thread.
"""

import os
import re
import subprocess
import time

import pytest

from pando_client import DEADLINE
from programs import require

LINE = re.compile(r"^([0-9]+) +(?:<\.\.\. (\w+) resumed>|(\w+)\()(.*)$", re.DOTALL)
RESULT = re.compile(r"\) += (-?[0-9]+)")
ESCAPED = re.compile(r"(?:\\x[0-9a-f]{2})+")
UNFINISHED = " <unfinished ...>"


def unescape(text):
    return ESCAPED.sub(lambda found: bytes.fromhex(found.group().replace("\\x", "")).decode("latin-1"), text)


class Call:
    """One system call: its name, its arguments as strace shows them (strings in hexadecimal), when it was entered and
    left (numbers of lines; `left` is None if it never was) and what it answered.
    """

    def __init__(self, name, arguments, entered):
        self.name, self.arguments, self.entered = name, arguments, entered
        self.left = self.result = None

    def leave(self, rest, at):
        found = RESULT.search(rest)
        self.left, self.result = at, int(found.group(1)) if found else None

    @property
    def paths(self):
        """What the file descriptors among the arguments stand for."""
        return [unescape(path) for path in re.findall(r"(?:[0-9]+|AT_FDCWD)<((?:->|[^<>])*)>", self.arguments)]

    @property
    def strings(self):
        """The strings among the arguments, as bytes."""
        escaped = re.findall(r'"((?:\\x[0-9a-f]{2})*)"', self.arguments)
        return [bytes.fromhex(text.replace("\\x", "")) for text in escaped]

    def __repr__(self):
        return f"{self.name}({unescape(self.arguments)[:300]}) = {self.result}"


def parse(text):
    """All calls of a trace, in the order in which they were entered."""
    calls, running = [], {}
    for at, line in enumerate(text.splitlines()):
        found = LINE.match(line)
        if not found:
            assert re.match(r"^[0-9]+ +(\+\+\+|---)", line), f"a line that strace never wrote: {line[:200]}"
            continue
        thread, resumed, name, rest = found.groups()
        if resumed:
            running.pop(thread).leave(rest, at)
            continue
        call = Call(name, rest.removesuffix(UNFINISHED), at)
        calls.append(call)
        if rest.endswith(UNFINISHED):
            running[thread] = call
        else:
            call.leave(rest, at)
    return calls


class Trace:
    """Lets a server that has not been started run under strace."""

    def __init__(self, server, path, kinds, environment=()):
        require("strace")
        if subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, timeout=DEADLINE).returncode != 0:
            pytest.skip("strace may not trace here")
        self.server, self.path = server, path
        # A question mark: not every machine has every call. -D: the server stays our child.
        kinds = ",".join(f"?{kind}" for kind in kinds)
        options = ["-D", "-f", "-yy", "-xx", "-v", "-s", str(1 << 20), "-o", str(path), "-e", f"trace={kinds}"]
        for name, value in dict(environment).items():
            options += ["-E", f"{name}={value}"]
        server.command = ["strace", *options, *server.command]

    def calls(self):
        """What it did; the server has ended."""
        deadline = time.monotonic() + DEADLINE
        ending = re.compile(rf"^{self.server.process.pid} +\+\+\+", re.MULTILINE)
        while not ending.search(text := self.path.read_text()):
            assert time.monotonic() < deadline, f"strace did not end:\n{text[-300:]}"
            time.sleep(0.01)
        return parse(text)
