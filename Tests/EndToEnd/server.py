"""Starts, watches and ends the real binary. Ends only processes it started, by their process id."""

import os
import pathlib
import queue
import re
import resource
import signal
import subprocess
import threading
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("PANDO_BINARY", REPOSITORY / ".build/release/pando")).resolve()
START_DEADLINE = 30  # seconds until `listening on`; recovery of the tests' small journals is far below
STOP_DEADLINE = 15  # seconds a drain may take
LOG_DELAY = 0.05  # seconds until a line of the log is in its file: a thread of the server writes it, up to 10 ms later

LISTENING = re.compile(r"^listening on (?:https?://(\S+):([0-9]+)|unix:.+)$")


def clean_environment():
    """Our environment without settings that would change the server under test, or the way to it."""
    return {
        name: value for name, value in os.environ.items()
        if not name.startswith("PANDO_") and not name.lower().endswith("_proxy")
    }


def run(*arguments, timeout=60, **options):
    """Runs one short-lived command of the binary to its end."""
    return subprocess.run(
        [str(BINARY), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        env=clean_environment(),
        **options,
    )


class StartFailure(AssertionError):
    """The server ended, or stayed silent, instead of listening. `code` is its exit code, None if it was silent."""

    def __init__(self, text, code):
        super().__init__(text)
        self.code = code


class Server:
    """`pando serve` as a child process. `--port 0` unless the arguments name a port."""

    def __init__(self, folder, *, data=None, memory=False, dev=True, arguments=()):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data = None if memory else pathlib.Path(data or self.folder / "data")
        self.command = [str(BINARY), "serve", "--port", "0"]
        self.command += ["--memory"] if memory else ["--data", str(self.data)]
        self.command += ["--dev"] if dev else []
        self.command += map(str, arguments)
        self.stderr_path = self.folder / "stderr.txt"
        self.environment = {}  # added to ours at each start
        self.descriptor_limit = None  # the hard limit of the process; None for ours
        self.process = None
        self.port = None

    def start(self):
        """Starts the process and waits for its line `listening on http://HOST:PORT`."""
        with open(self.stderr_path, "ab") as stderr:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=clean_environment() | self.environment,
                cwd=self.folder,
                preexec_fn=self.limit_descriptors if self.descriptor_limit else None,
            )
        lines = self.lines = queue.Queue()  # of stdout, behind the first: one for each further address
        threading.Thread(target=self.read_lines, args=(self.process.stdout, lines), daemon=True).start()
        try:
            line = lines.get(timeout=START_DEADLINE)
        except queue.Empty:
            self.kill()
            raise StartFailure(f"no line on stdout within {START_DEADLINE} s\n{self.stderr()}", None) from None
        found = LISTENING.match(line or "")
        if not found:
            try:
                code = self.process.wait(STOP_DEADLINE)
            except subprocess.TimeoutExpired:
                code = None
                self.kill()
            raise StartFailure(f"expected `listening on …`, got {line!r}, exit code {code}\n{self.stderr()}", code)
        self.port = found.group(2) and int(found.group(2))  # None for a Unix socket
        return self

    def limit_descriptors(self):
        """In the child, before it becomes the server."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptor_limit, self.descriptor_limit))

    def open_descriptors(self):
        """How many descriptors the process has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    @staticmethod
    def read_lines(stream, lines):
        """Keeps the pipe empty for as long as the server lives; None marks the end."""
        with stream:
            for line in stream:
                lines.put(line.decode().rstrip("\n"))
        lines.put(None)

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        """SIGKILL: what a power loss looks like to the process."""
        if self.alive:
            self.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(STOP_DEADLINE)

    def terminate(self):
        """SIGTERM: drain and leave. Answers the exit code."""
        self.signal(signal.SIGTERM)
        return self.process.wait(STOP_DEADLINE)

    def restart(self):
        """SIGKILL, then the same command again (on a new port)."""
        self.kill()
        return self.start()

    def wait_for_log(self, text, timeout=START_DEADLINE):
        """Waits until the server has logged the text."""
        deadline = time.monotonic() + timeout
        while text not in self.stderr(limit=1 << 30):
            if time.monotonic() > deadline or not self.alive:
                raise AssertionError(f"{text!r} was not logged within {timeout} s\n{self.stderr()}")
            time.sleep(0.01)

    def stderr(self, limit=8000):
        if not self.stderr_path.exists():
            return ""
        if self.alive:
            time.sleep(LOG_DELAY)  # what was just logged is to be in it
        text = self.stderr_path.read_text(errors="replace")
        return text if len(text) <= limit else "…" + text[-limit:]
