"""The command blocks of public/docs/operating.md outside of "From nothing to production" (test_operating.py): each is run as it stands,
in a folder of its own that stands for `/`, with other ports; or the table says why not."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess

import pytest

from admin import DEADLINE, Admin
from programs import needs
from rest_client import OWNER, Wire
from server import BINARY, REPOSITORY, clean_environment, run
from test_operating import HEADING, PAGE, free_port
from test_scheduled_backups import backups
from waiting import moment_between, wait_for

FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"\n\n {4}\S")
# The folders of the machine that the commands name.
PLACE = re.compile(r"(?<![\w/.$}~-])/(etc|var/lib|backup|run|usr/local/share|usr/share)\b")
CERTIFICATES = REPOSITORY / "Tests/TLS/Fixtures"
TIME = "2026-11-21T18:30:00Z"
# Blocks that are not run here, by how they begin, and why.
NOT_RUN = {
    "docker build": "there is no Docker engine; deploy/test-image builds the same Dockerfile with buildah, and runs the image",
    "systemctl stop pando.socket pando\n": "run in test_operating.py, where there is something to lose",
    "timeline 1   1 ───": "a drawing",
    "# pando.socket ": "excerpts of two units side by side; systemd-analyze verifies deploy/pando.socket and deploy/pando.service",
}


def other_blocks():
    """The code blocks outside of the section that test_operating.py follows."""
    before, heading, rest = PAGE.read_text().partition(HEADING)
    assert heading
    after = rest[rest.index("\n### "):]
    return [text for part in (before, after) for text in FENCE.findall(part)]


def block(beginning):
    (found,) = [text for text in other_blocks() if text.startswith(beginning)]
    return found


# What each test below runs, by how the block begins.
FIRST_START = "pando serve --data pando-data --dev\n"
FIRST_START_WITH_RULES = "(umask 077; head -c 32 /dev/urandom"
BACKUP_BY_HAND = "pando backup --url"
SCHEDULED = [
    "pando serve --data /var/lib/pando --backup-every 1h --backup-to /backup/pando --backup-verify 24 --admin-listen",
    "pando serve --data /var/lib/pando --backup-every 1h --backup-to /backup/pando --archive-to /backup/pando-journal\n",
    "pando serve --data /var/lib/pando --backup-every 1h --backup-to /backup/pando --archive-to /backup/pando-journal --backup-verify",
]
RESTORE = "pando restore /backup/pando --archive"
SCRAPE = "scrape_configs:"
TOP = "pando top"
TLS = "pando serve --data /var/lib/pando --rules rules.json --host"
LISTEN = "pando serve --data /var/lib/pando --listen"
MANUAL = "deploy/man-pages"
RUN = [
    FIRST_START, FIRST_START_WITH_RULES, BACKUP_BY_HAND, *SCHEDULED, RESTORE, SCRAPE, TOP, TLS, LISTEN, MANUAL]


def test_every_block_is_run_or_has_a_reason():
    beginnings = [*RUN, *NOT_RUN]
    for text in other_blocks():
        assert len([one for one in beginnings if text.startswith(one)]) == 1, text
    for beginning in beginnings:
        assert block(beginning)
    assert not INDENTED.search(FENCE.sub("", PAGE.read_text())), "code without a fence"


class Machine:
    """A folder that stands for `/`, and is where the commands run."""

    def __init__(self, root, servers):
        self.root, self.servers = root, servers
        self.port, self.admin_port, self.redirect_port = free_port(), free_port(), free_port()
        (root / "programs").mkdir(parents=True)
        # Without a port of its own a server gets one that is free.
        (root / "programs/pando").write_text(
            "#!/bin/bash\n"
            f'case " $* " in " serve "*" --port "* | " serve "*" --listen "*) ;; " serve "*) set -- "$@" --port {self.port} ;; esac\n'
            f'exec {BINARY} "$@"\n')
        (root / "programs/pando").chmod(0o755)
        for folder in ("etc", "var/lib", "backup", "run/pando", "usr/local/share", "usr/share/bash-completion/completions"):
            (root / folder).mkdir(parents=True)
        self.environment = {"PATH": f"{root / 'programs'}:{os.environ['PATH']}"}

    def adapted(self, text):
        text = PLACE.sub(rf"{self.root}/\1", text)
        for old, new in [("9000", self.port), ("9001", self.admin_port), ("--port 443", f"--port {self.port}"),
                         ("--http-redirect-port 80", f"--http-redirect-port {self.redirect_port}"), ("0.0.0.0", "127.0.0.1"),
                         (".build/release/pando", BINARY), ("deploy/", f"{REPOSITORY}/deploy/")]:
            text = re.sub(rf"(?<![\w]){re.escape(old)}\b" if old[0].isdigit() else re.escape(old), str(new), text)
        return text

    def run(self, text, code=0):
        """Runs commands; answers what they print."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.adapted(text)], cwd=self.root, env=clean_environment() | self.environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
        assert done.returncode == code, (text, done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def serve(self, text):
        """Runs the block up to its last command, which serves until the test ends."""
        before, command, serving = text.rpartition("pando serve ")
        if before.strip():
            self.printed = self.run(before)
        server = self.servers(start=False)
        server.folder = self.root
        server.command = ["bash", "-c", self.adapted(f"exec {command}{serving}")]
        server.environment = self.environment
        return server.start()


@pytest.fixture
def machine(servers, tmp_path_factory):
    # A short path: a Unix socket's has at most 107 bytes.
    return Machine(tmp_path_factory.mktemp("m"), servers)


def put(server, path, value, fields=(OWNER,)):
    with Wire(server.port) as rest:
        return rest.ask("PUT", path, json.dumps(value).encode(), fields=list(fields)).status


def write_around_a_moment(server):
    """`/a` is "early" at the moment that is answered, and "late" after it."""

    def write(value):
        assert put(server, "/a.json", value) == 200

    return moment_between(lambda: write("early"), lambda: write("late"))


def data_of(directory):
    return json.loads(run("export", "--data", directory).stdout)


def test_first_start(machine):
    server = machine.serve(block(FIRST_START))
    assert server.port == machine.port and put(server, "/a.json", 1) == 200
    assert server.terminate() == 0 and data_of(machine.root / "pando-data") == {"a": 1}


def test_first_start_with_rules_and_a_secret(machine):
    (machine.root / "rules.json").write_text('{"rules": {"$uid": {".read": "auth.uid === $uid"}}}')
    server = machine.serve(block(FIRST_START_WITH_RULES))
    assert "rules.json: no problems" in machine.printed
    secret = machine.root / "secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    ann = run("token", "--uid", "ann", "--secret-file", secret).stdout.strip()
    with Wire(server.port) as rest:
        for path, status in [("/ann.json", 200), ("/bob.json", 401)]:
            assert rest.ask("GET", path, fields=[("Authorization", f"Bearer {ann}")]).status == status
    assert server.terminate() == 0


def test_backup_and_restore_by_hand(machine):
    server = machine.serve(block(FIRST_START))
    (machine.root / "admin.token").write_text("owner\n")
    moment = write_around_a_moment(server)
    fresh, checked = machine.root / "fresh", 0
    for line in block(BACKUP_BY_HAND).splitlines():
        shutil.rmtree(fresh, ignore_errors=True)
        printed = machine.run(line.replace(TIME, moment))
        if "--data fresh" in line:
            assert data_of(fresh) == {"a": "early" if "--until-time" in line else "late"}, line
            checked += 1
        if "check backup" in line or "--verify" in line:
            assert "monday.backup" in printed or "passed" in printed, printed
            checked += 1
    assert checked == 4
    assert server.terminate() == 0


@pytest.mark.parametrize("beginning", SCHEDULED)
def test_scheduled_backups_and_the_archive(machine, beginning):
    server = machine.serve(block(beginning))
    wait_for(lambda: backups(machine.root / "backup/pando"))
    if "--archive-to" in beginning:
        wait_for(lambda: list((machine.root / "backup/pando-journal").glob("journal-*")))
    if "--admin-listen" in beginning:
        assert Admin(server).port == machine.admin_port and Admin(server).ask("/readyz")[0] == 200
    assert server.terminate() == 0


def test_restore_from_backups_and_archive(machine):
    """What serves is the block with the archive, in --dev, so that there are writes."""
    server = machine.serve(block(SCHEDULED[1]).replace("\n", " --dev\n"))
    wait_for(lambda: backups(machine.root / "backup/pando"))
    moment = write_around_a_moment(server)
    archive = machine.root / "backup/pando-journal"
    wait_for(lambda: b"late" in b"".join(path.read_bytes() for path in archive.glob("journal-*")))
    assert server.terminate() == 0
    fresh, checked = machine.root / "fresh", 0
    for line in block(RESTORE).splitlines():
        shutil.rmtree(fresh, ignore_errors=True)
        printed = machine.run(line.replace(TIME, moment))
        if "--verify" in line:
            assert "the restore test has passed" in printed and not fresh.exists()
        else:
            assert data_of(fresh) == {"a": "early" if "--until-time" in line else "late"}, line
        checked += 1
    assert checked == 4


@needs("promtool")
def test_prometheus_takes_the_configuration(machine):
    (machine.root / "prometheus.yml").write_text(block(SCRAPE))
    shutil.copy(REPOSITORY / "deploy/prometheus/rules.yml", machine.root)
    assert "SUCCESS" in machine.run("promtool check config prometheus.yml")


def test_top_is_drawn_again_until_it_is_interrupted_and_once(machine):
    """What serves is a block with the admin port, in --dev: no token is needed."""
    machine.serve(block(SCHEDULED[0]).replace("\n", " --dev\n"))
    again, once = block(TOP).splitlines()
    assert machine.run(once).startswith("pando ")
    process = subprocess.Popen(
        ["bash", "-c", machine.adapted(f"exec {again}")], cwd=machine.root, env=clean_environment() | machine.environment,
        stdout=subprocess.PIPE, text=True)
    try:
        screens = 0
        while screens < 2:
            line = process.stdout.readline()
            assert line, "it has ended"
            screens += line.startswith("pando ")
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(DEADLINE) in (0, -signal.SIGINT)
    finally:
        process.kill()
        process.wait(DEADLINE)


def test_tls(machine):
    certificates = machine.root / "etc/letsencrypt/live/localhost"
    certificates.mkdir(parents=True)
    for name, fixture in [("fullchain.pem", "localhost.pem"), ("privkey.pem", "localhost.key")]:
        shutil.copy(CERTIFICATES / fixture, certificates / name)
    (machine.root / "rules.json").write_text('{"rules": {".read": true}}')
    server = machine.serve(block(TLS))
    context = ssl.create_default_context(cafile=CERTIFICATES / "issuer.pem")
    connection = http.client.HTTPSConnection("localhost", machine.port, context=context, timeout=DEADLINE)
    connection.request("GET", "/.json")
    assert connection.getresponse().read() == b"null"
    connection.close()
    connection = http.client.HTTPConnection("localhost", machine.redirect_port, timeout=DEADLINE)
    connection.request("GET", "/a.json")
    response = connection.getresponse()
    assert (response.status, response.getheader("Location")) == (308, f"https://localhost:{machine.port}/a.json")
    connection.close()
    assert server.terminate() == 0


def test_several_addresses(machine):
    server = machine.serve(block(LISTEN))
    path = machine.root / "run/pando/pando.sock"
    assert [server.lines.get(timeout=DEADLINE) for _ in range(2)] == [
        f"listening on http://[::1]:{machine.port}", f"listening on unix:{path}"]
    with socket.socket(socket.AF_UNIX) as local:
        local.settimeout(DEADLINE)
        local.connect(str(path))
        local.sendall(b"GET /a.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert local.recv(4096).startswith(b"HTTP/1.1 401")
    assert server.terminate() == 0 and not path.exists()


def test_manual_pages_and_completions(machine):
    machine.run(block(MANUAL))
    assert (machine.root / "usr/local/share/man/man1/pando-serve.1").is_file()
    assert "_pando" in (machine.root / "usr/share/bash-completion/completions/pando").read_text()
