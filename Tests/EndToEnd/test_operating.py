"""The section "From nothing to production on Debian" of public/docs/operating.md, followed: its commands run one after the other; then
the disk of the data is lost, and the commands for that are followed.

A folder stands for `/`. Programs that change a machine, or need another one, are small scripts in front of the real ones; each says
what it leaves out. `systemctl start` starts the server as systemd does, with a socket that listens already, and Prometheus is the real one,
with the page's configuration. test_operating_commands.py runs the other commands of the page.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tarfile
import time

import pytest

import server as server_module
from programs import require
from server import REPOSITORY
from test_alerts import ask_prometheus
from waiting import wait_for

PAGE = REPOSITORY / "public/docs/operating.md"
HEADING = "### From nothing to production on Debian\n"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DEADLINE = 120
# The folders of the machine that the commands name.
PLACE = re.compile(r"(?<![\w/.$}~-])/(etc|var/lib|backup|usr/local/sbin|usr/share/doc)\b")

LOST_DISK = "When the disk is lost:"
# In place of programs of the machine. $ROOT is the folder that stands for `/`.
PROGRAMS = {
    # There is no user `pando` here. The test looks which commands would run as that user.
    "sudo": """
        if [ "$1" = -u ]; then echo "$2" >>"$ROOT/users"; shift 2; fi
        exec "$@" """,
    # Nothing is installed: deploy/test-debian-package installs the package. Debian's Prometheus runs from its installation on, with
    # an example of its configuration.
    "apt-get": """
        echo "apt-get $*" >>"$ROOT/packages"
        case $1 in
            install)
                [ -f ./pando.deb ]
                [[ " $* " == *" prometheus "* ]]
                echo 'global: {scrape_interval: 1s}' >"$ROOT/etc/prometheus/prometheus.yml"
                if command -v prometheus >/dev/null; then
                    prometheus --config.file="$ROOT/etc/prometheus/prometheus.yml" --storage.tsdb.path="$ROOT/var/lib/prometheus" \\
                        --web.listen-address="127.0.0.1:$PROMETHEUS_PORT" >"$ROOT/prometheus.log" 2>&1 &
                    echo $! >"$ROOT/prometheus.process"
                fi ;;
        esac""",
    # There is no second machine.
    "scp": 'cp "$1" "${2##*:}"',
    "install": """
        # There is no such user or group here.
        declare -a words
        while [ $# -gt 0 ]; do
            case $1 in -o | -g) [ "$2" = pando ] || exit 1; shift 2 ;; *) words+=("$1"); shift ;; esac
        done
        exec /usr/bin/install "${words[@]}" """,
    # Let's Encrypt cannot be reached: the certificate signs itself.
    "certbot": """
        hook= name=
        while [ $# -gt 0 ]; do
            case $1 in --deploy-hook) hook=$2; shift ;; --domain) name=$2; shift ;; esac
            shift
        done
        export RENEWED_LINEAGE=$ROOT/etc/letsencrypt/live/$name
        mkdir -p "$RENEWED_LINEAGE"
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj "/CN=$name" \\
            -addext "subjectAltName=DNS:$name" -keyout "$RENEWED_LINEAGE/privkey.pem" -out "$RENEWED_LINEAGE/fullchain.pem" 2>&1
        chmod 600 "$RENEWED_LINEAGE"/*
        "$hook" """,
    # The machine's own service manager is left alone; the units are checked in test_packages.py.
    "systemctl": """
        echo "systemctl $*" >>"$ROOT/services"
        case "$*" in
            "stop pando" | "stop pando.socket pando")
                # A client would start the service again, once its socket is there.
                if [ "$*" = "stop pando" ] && grep -qx 'systemctl enable --now pando.socket' "$ROOT/services"; then exit 1; fi
                if [ -f "$ROOT/process" ]; then
                    export process=$(cat "$ROOT/process")
                    kill "$process" 2>/dev/null || true
                    timeout 30 bash -c 'while grep -qs "^State:.[^Z]" "/proc/$process/status"; do sleep 0.05; done'
                    rm "$ROOT/process"
                fi ;;
            "start pando")
                grep -qx 'ListenStream=443' "$ROOT"/etc/systemd/system/pando.socket.d/*.conf
                grep -qx 'systemctl enable --now pando.socket' "$ROOT/services"
                grep -qx 'Requires=pando.socket' "$ROOT"/etc/systemd/system/pando.service.d/*.conf
                python3 "$ROOT/activate.py" "$ROOT" "$SERVER_PROGRAM" "$CLIENT_PORT" ;;
            "reload prometheus")
                # The file of the page, with intervals of a second in place of a minute.
                sed -i '1i global: {scrape_interval: 1s, evaluation_interval: 1s}' "$ROOT/etc/prometheus/prometheus.yml"
                [ ! -f "$ROOT/prometheus.process" ] || kill -HUP "$(cat "$ROOT/prometheus.process")" ;;
        esac""",
    "journalctl": 'cat "$ROOT/log"',
    "pando": """
        case "$*" in "check health") exec "$SERVER_PROGRAM" check health "http://127.0.0.1:$ADMIN_PORT" ;; esac
        exec "$SERVER_PROGRAM" "$@" """,
    "curl": """
        exec /usr/bin/curl --connect-to "::127.0.0.1:$CLIENT_PORT" --cacert "$ROOT/etc/letsencrypt/live/db.example.com/fullchain.pem" "$@" """,
}
if not shutil.which("promtool"):
    PROGRAMS["promtool"] = 'echo "promtool is not installed" >&2'

# The service manager: its socket listens before the server runs, and the start is over when the server says that it is ready.
ACTIVATE = """
import os, pathlib, socket, subprocess, sys, time
root, program, port = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
listener = socket.create_server(("127.0.0.1", port), backlog=64)
ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
(root / "notify").unlink(missing_ok=True)
ready.bind(str(root / "notify"))
ready.settimeout(60)
script = f'export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@" 3<&{listener.fileno()}'
with open(root / "log", "ab") as log:
    process = subprocess.Popen(
        ["/bin/bash", "-c", script, "bash", program, "serve", "--config", root / "etc/pando/pando.json"],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[listener.fileno()],
        env=os.environ | {"NOTIFY_SOCKET": str(root / "notify")})
(root / "process").write_text(str(process.pid))
while b"READY=1" not in ready.recv(4096):
    pass
# Some commands later both are there; the test has no such pauses between them.
while not (list((root / "backup/pando").glob("pando-*.backup")) and list((root / "backup/pando-journal").glob("journal-*"))):
    time.sleep(0.02)
"""


def section():
    return PAGE.read_text().partition(HEADING)[2].partition("\n### ")[0]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.fixture
def machine(tmp_path):
    """The folder that stands for `/`, with the programs, and the environment of the commands."""
    root = tmp_path / "root"
    for folder in ("etc/prometheus", "etc/pando", "var/lib", "backup", "usr/local/sbin", "programs"):
        (root / folder).mkdir(parents=True)
    shutil.copytree(REPOSITORY / "deploy/prometheus", root / "usr/share/doc/pando/examples/prometheus")
    for name, text in PROGRAMS.items():
        (root / "programs" / name).write_text(f"#!/bin/bash\nset -e\n{text}\n")
        (root / "programs" / name).chmod(0o755)
    (root / "activate.py").write_text(ACTIVATE)
    home = tmp_path / "home"
    (home / "deploy").mkdir(parents=True)
    (home / "pando_0.0.0_all.deb").write_text("a package")
    (home / "deploy/debian-package").write_text("#!/bin/sh\necho pando_0.0.0_all.deb\n")
    (home / "deploy/debian-package").chmod(0o755)
    environment = server_module.clean_environment() | {
        "ROOT": str(root), "SERVER_PROGRAM": str(server_module.BINARY), "CLIENT_PORT": str(free_port()),
        "ADMIN_PORT": str(free_port()), "PROMETHEUS_PORT": str(free_port()), "PATH": f"{root / 'programs'}:{os.environ['PATH']}"}
    yield root, home, environment
    for name in ("process", "prometheus.process"):
        if (root / name).exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int((root / name).read_text()), signal.SIGKILL)


def test_the_section_has_commands_only_in_blocks_that_run():
    text = section()
    assert len(BLOCK.findall(text)) >= 8
    # No other kind of block, and no placeholder.
    assert set(re.findall(r"^```(\w*)$", text, re.MULTILINE)) == {"sh", ""}
    assert len(re.findall(r"^```$", text, re.MULTILINE)) == len(re.findall(r"^```sh$", text, re.MULTILINE))
    assert not re.search(r"VERSION|ARCHITECTURE|…", "".join(BLOCK.findall(text)))


def follow(machine, blocks):
    """Runs blocks of the page in one shell; answers what they print."""
    root, home, environment = machine
    commands = [PLACE.sub(rf"{root}/\1", block).replace("9001", environment["ADMIN_PORT"]) for block in blocks]
    script = "set -u\nset -o pipefail\ntrap 'echo \"failed: $BASH_COMMAND\"; exit 1' ERR\n" + "\n".join(
        f"echo '== block {number}'\n{text}" for number, text in enumerate(commands))
    return subprocess.run(
        ["bash", "-c", script], cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=DEADLINE)


def test_the_section_is_followed_from_the_package_to_the_restore_test(machine):
    root, home, environment = machine
    done = follow(machine, BLOCK.findall(section()))
    log = (root / "log").read_text() if (root / "log").exists() else ""
    assert done.returncode == 0, done.stdout[-4000:] + log[-4000:]
    assert f"{root}/etc/pando/rules: no problems" in done.stdout
    assert f"{root}/etc/pando/pando.json: no problems" in done.stdout
    assert re.search("^null", done.stdout, re.MULTILINE) and "the restore test has passed" in done.stdout
    # Served over TLS, with the rules of the database, a backup, and its journal in the archive.
    assert "no rules are loaded for default" in log and "db" not in log.partition("no rules are loaded for ")[2].partition(":")[0]
    assert list((root / "backup/pando").glob("*.backup")) and list((root / "backup/pando-journal").glob("journal-*"))
    assert (root / "backup/pando/restore-test.passed").exists()
    # What is secret is readable by few.
    for path, mode in [(root / "etc/pando/secret", 0o640), (home / "admin.token", 0o600), (home / "etc-pando.tar.gz", 0o600)]:
        assert stat.S_IMODE(path.stat().st_mode) == mode, path
    key = root / "etc/pando/tls/db.example.com/privkey.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o640 and stat.S_IMODE(key.parent.stat().st_mode) == 0o750
    with tarfile.open(home / "etc-pando.tar.gz") as copy:
        assert {"pando/secret", "pando/rules/db.json", "pando/pando.json"} <= set(copy.getnames())
    # Commands that touch the data run as the user of the service.
    assert set((root / "users").read_text().split()) == {"pando"}
    alerts = (root / "etc/prometheus/pando-rules.yml").read_text()
    assert "PandoDown" in alerts and "pando-rules.yml" in (root / "etc/prometheus/prometheus.yml").read_text()
    if shutil.which("prometheus"):
        watch(machine, re.findall(r"alert: (\w+)", alerts))
    lose_the_disk(machine)
    require("prometheus", "promtool")  # all the rest has passed without them


def watch(machine, names):
    """The real Prometheus has the rules, and the server's metrics."""
    def ask(path):
        return ask_prometheus(int(machine[2]["PROMETHEUS_PORT"]), path)

    deadline = time.monotonic() + DEADLINE
    while [one["value"][1] for one in ask("query?query=pando_ready").get("result", ())] != ["1"]:
        assert time.monotonic() < deadline, (machine[0] / "prometheus.log").read_text()[-2000:]
        time.sleep(0.1)
    (group,) = ask("rules")["groups"]
    assert [rule["name"] for rule in group["rules"]] == names
    (target,) = ask("targets")["activeTargets"]
    assert target["labels"] == {"instance": f"127.0.0.1:{machine[2]['ADMIN_PORT']}", "job": "pando"} and target["health"] == "up"


def lose_the_disk(machine):
    """What was written is there again after the commands for a lost disk."""
    root, home, environment = machine
    token = (home / "admin.token").read_text().strip()
    base = f"https://db.example.com:{environment['CLIENT_PORT']}/users/u1.json"
    curl = [
        root / "programs/curl", "--fail-with-body", "--silent", "--show-error", "--header", f"Authorization: Bearer {token}", base]

    def ask(*more):
        done = subprocess.run([*curl, *more], env=environment, capture_output=True, text=True, timeout=DEADLINE)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert ask("--request", "PUT", "--data", '"before the loss"') == '"before the loss"'
    archive = root / "backup/pando-journal"
    wait_for(lambda: b"before the loss" in b"".join(path.read_bytes() for path in archive.glob("journal-*")), "copy in the archive")
    os.kill(int((root / "process").read_text()), signal.SIGKILL)
    shutil.rmtree(root / "var/lib/pando")
    (block,) = re.findall(r"```\n(.*?)^```$", PAGE.read_text().partition(LOST_DISK)[2].partition("\n### ")[0], re.MULTILINE | re.DOTALL)
    done = follow(machine, [block])
    assert done.returncode == 0, done.stdout[-4000:] + (root / "log").read_text()[-4000:]
    assert ask() == '"before the loss"'


def test_the_rules_of_the_section_are_what_it_says(tmp_path):
    rules = tmp_path / "rules.json"
    rules.write_text(re.search(r"/rules/\$database\.json\".*?\n(.*?)^END$", section(), re.MULTILINE | re.DOTALL)[1])
    cases = tmp_path / "cases.json"
    cases.write_text(json.dumps({"cases": [
        {"name": f"{uid} {access} {path}", "auth": uid and {"uid": uid}, "expect": verdict} | operation
        for uid, path, verdict in [("u1", "/users/u1", "allow"), ("u1", "/users/u2", "deny"), ("u1", "/", "deny"), (None, "/users/u1", "deny")]
        for access, operation in [("reads", {"read": path}), ("writes", {"write": path, "value": {"a": 1}})]
    ]}))
    done = server_module.run("test", "rules", rules, cases)
    assert done.returncode == 0 and "8 passed" in done.stdout, done.stdout + done.stderr
