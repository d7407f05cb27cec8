"""What `deploy` has for installations: manual pages and completions, the example of a configuration file, the units of systemd,
and the files for containers, each against the program itself. The packages are built by `deploy/debian-package` and
`deploy/test-image`.
"""

import ast
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

import kubernetes_validate
import pytest
import yaml

from admin import Admin
from programs import MISSING, needs
from server import BINARY, REPOSITORY, clean_environment, run

DEPLOY = REPOSITORY / "deploy"
DEADLINE = 30  # seconds; only bounds a test that would otherwise hang
# systemd rates a service from 0 (all is forbidden) to 10; below 2.5 is what the project promises.
EXPOSURE_LIMIT = 2.5
# The oldest release that still gets fixes, and the newest that the package of schemas has.
KUBERNETES = ("1.33", "1.37")


# Commands, as the help says them


def help_of(*words):
    result = run(*words, "--help")
    assert result.returncode == 0, result.stderr
    return result.stdout


def subcommands(text):
    """The names below `SUBCOMMANDS:`."""
    _, _, tail = text.partition("\nSUBCOMMANDS:\n")
    return re.findall(r"^  ([a-z-]+)(?: \(default\))?(?:\s|$)", tail, re.MULTILINE)


def commands(*words):
    """All commands with their help texts."""
    text = help_of(*words)
    yield words, text
    for name in subcommands(text):
        if name != "help" and name != "See":
            yield from commands(*words, name)


@pytest.fixture(scope="module")
def all_commands():
    found = dict(commands())
    assert ("check", "health") in found and ("serve",) in found
    return found


def options(text):
    """The long options of a help text."""
    _, _, tail = text.partition("\nOPTIONS:\n")
    return set(re.findall(r"^  (?:-[a-z], )?(--[a-z-]+)", tail.partition("\nSUBCOMMANDS:")[0], re.MULTILINE))


# Manual pages


@pytest.fixture(scope="module")
def manual(tmp_path_factory):
    folder = tmp_path_factory.mktemp("man")
    subprocess.run(
        [sys.executable, DEPLOY / "man-pages", BINARY, folder], check=True, timeout=DEADLINE,
        env=clean_environment() | {"SOURCE_DATE_EPOCH": "86400"})
    return folder


def test_every_command_has_a_page_with_every_option(all_commands, manual):
    pages = {"-".join(["pando", *words]) + ".1" for words in all_commands}
    assert {path.name for path in manual.iterdir()} == pages
    for words, text in all_commands.items():
        page = (manual / ("-".join(["pando", *words]) + ".1")).read_text().replace("\\-", "-")
        assert '"1970-01-02"' in page
        missing = [name for name in options(text) if f"\\fB{name}\\fR" not in page]
        assert not missing, f"{words}: {missing}"
        for name in subcommands(text):
            assert name in ("help", "See") or f"\\fB{'-'.join(['pando', *words, name])}\\fR(1)" in page
    serve = (manual / "pando-serve.1").read_text().replace("\\-", "-")
    assert "\\fBPANDO_IN_FLIGHT_LIMIT\\fR" in serve and "PANDO_PRINT_CONFIG" not in serve


@needs("man")
def test_pages_are_read_without_a_warning(manual):
    for page in manual.iterdir():
        result = subprocess.run(
            ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page], capture_output=True, text=True,
            timeout=DEADLINE, env=os.environ | {"LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MANROFFSEQ": ""})
        assert (result.returncode, result.stderr) == (0, ""), page


# Completions


def completion(shell):
    result = run("--generate-completion-script", shell)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize(
    "line, expected",
    [
        ("pando se", "serve"), ("pando check he", "health"), ("pando serve --in-f", "--in-flight-limit"),
        ("pando token --cl", "--claim"),
    ])
def test_bash_completes(tmp_path, line, expected):
    script = tmp_path / "pando"
    script.write_text(completion("bash"))
    words = line.split()
    ask = (
        f"shopt -s extglob; source {script}; COMP_LINE='{line}'; COMP_POINT={len(line)}; COMP_WORDS=({line}); "
        f"COMP_CWORD={len(words) - 1}; COMPREPLY=(); _pando pando '{words[-1]}' '{words[-2]}'; "
        'printf "%s\\n" "${COMPREPLY[@]}"')
    result = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, timeout=DEADLINE)
    assert expected in [word.strip() for word in result.stdout.splitlines()], (result.stdout, result.stderr)


@pytest.mark.parametrize("shell", [pytest.param(name, marks=needs(name)) for name in ("bash", "zsh", "fish")])
def test_shells_can_read_their_completions(tmp_path, shell):
    script = tmp_path / "completion"
    script.write_text(completion(shell))
    result = subprocess.run([shell, "-n", script], capture_output=True, text=True, timeout=DEADLINE)
    assert (result.returncode, result.stderr) == (0, "")


# The example of a configuration file

EXAMPLE = DEPLOY / "pando.example.json"
MEMBER = re.compile(r'^    (// )?"([a-z-]+)": (.*),$', re.MULTILINE)
# Not members of the file.
FLAGS_ONLY = {"--config", "--print-config", "--help", "--version"}


def test_the_example_is_a_configuration(tmp_path):
    result = run("check", "config", EXAMPLE)
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    printed = run("serve", "--config", EXAMPLE, "--print-config")
    assert json.loads(printed.stdout) == {"data": "/var/lib/pando"}


def test_the_example_has_every_option_with_its_default(all_commands):
    text = EXAMPLE.read_text()
    members = {name: value for _, name, value in MEMBER.findall(text)}
    assert len(members) == len(MEMBER.findall(text)), "a member is there twice"
    help_text = all_commands[("serve",)]
    expected = {name[2:] for name in options(help_text) - FLAGS_ONLY} | {"auth"}
    assert set(members) == expected, (
        f"deploy/pando.example.json lacks {sorted(expected - set(members))}, and has too much: {sorted(set(members) - expected)}")
    joined = re.sub(r"\n {3,}", " ", help_text)
    defaults = dict(re.findall(r"^  --([a-z-]+) (?:(?!\n).)*\(default:\s+([\w.:-]+)\)$", joined, re.MULTILINE))
    assert len(defaults) > 20
    wrong = {name: (members[name], value) for name, value in defaults.items() if members[name].strip('"') != value}
    assert not wrong, wrong


UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "s": 1}
# Defaults that are sentences.
IN_WORDS = {"public", "memory-limit", "presence-timeout"}


def plain(text):
    """A default of the tables as the help has it: 64 MiB is 67108864, 50 000 is 50000."""
    text = text.replace("`", "").strip()
    number = re.fullmatch(r"([0-9][0-9 ]*?)(?: ([KMG]iB|s))?", text)
    return str(int(number[1].replace(" ", "")) * UNITS.get(number[2], 1)) if number else text


def documented_options():
    """The defaults of all options in the tables of operating.md, by their names."""
    page = (REPOSITORY / "public/docs/operating.md").read_text()
    section = page.partition("\n## Options of `pando serve`\n")[2].partition("\n## ")[0]
    found = {}
    for first, default in re.findall(r"^\| (`--.*?) \| (?:(.*?) )?\| .* \|$", section, re.MULTILINE):
        for name in {name for name in re.findall(r"`--([a-z-]+)", first)}:
            assert name not in found, f"--{name} is there twice"
            found[name] = plain(default)
    return found


def test_the_tables_of_the_documentation_have_every_option_with_its_default(all_commands):
    help_text = all_commands[("serve",)]
    found = documented_options()
    expected = {name[2:] for name in options(help_text)} - {"help", "version", "print-config"}
    assert set(found) == expected, (
        f"operating.md lacks {sorted(expected - set(found))}, and has too much: {sorted(set(found) - expected)}")
    joined = re.sub(r"\n {3,}", " ", help_text)
    rows = dict(re.findall(r"^  --([a-z-]+) (.*)$", joined, re.MULTILINE))
    defaults = {name: re.search(r"\(default: ([^()]*)\)$", row) for name, row in rows.items()}
    takes_value = {name for name, row in rows.items() if row.startswith("<")}
    wrong = {}
    for name in expected - IN_WORDS:
        default = defaults[name][1] if defaults[name] else "" if name in takes_value else "off"
        # A value that is needed has none.
        if found[name] != default and not (default == "" and found[name].startswith("required")):
            wrong[name] = (found[name], default)
    assert not wrong, wrong


def test_each_line_of_the_example_can_be_put_in_force(tmp_path):
    """Files that an example names need not be there, and some options need others: no other problem is allowed."""
    text = EXAMPLE.read_text()
    file = tmp_path / "pando.json"
    harmless = re.compile(r"can't be read|No such file|needs TLS|needs |without it|has an effect only with --dev|can't go with|: missing|give (both|all|three)")
    for off, name, _ in MEMBER.findall(text):
        if not off:
            continue
        file.write_text(text.replace(f'    // "{name}": ', f'    "{name}": '))
        result = run("check", "config", file)
        wrong = [line for line in result.stdout.splitlines() if "no problems" not in line and not harmless.search(line)]
        assert not wrong, f"{name}: {wrong}"


def test_every_member_of_the_example_has_a_comment():
    lines = EXAMPLE.read_text().splitlines()
    previous, bare = "", []
    for line in lines:
        found = MEMBER.match(line)
        # Members of one group stand under one comment.
        if found and not (previous.startswith("    // ") or MEMBER.match(previous)):
            bare.append(found[2])
        previous = line
    assert not bare, bare


def test_comments_do_not_hide_revocations(servers, tmp_path):
    """The file is read a second time, for the revocations in it, and at each SIGHUP."""
    secret = tmp_path / "secret"
    secret.write_text("s" * 64)
    secret.chmod(0o600)
    file = tmp_path / "pando.json"

    def write(revoked):
        file.write_text(
            '{ // comment\n "memory": true,\n "auth-secret-file": ["' + str(secret) + '"],\n'
            ' "auth": {"revoked_before": {' + revoked + '}, /* "secrets": [] */},\n}\n')

    write("")
    server = servers(memory=True, dev=False, arguments=["--config", file])
    token = run("token", "--uid", "ada", "--secret-file", secret).stdout.strip()
    write('"ada": 4102444800, // 2100\n')
    server.signal(signal.SIGHUP)
    server.wait_for_log("revocations have changed")
    assert "not a JSON object" not in server.stderr() and token


# What SIGHUP changes

# Another value than the default for each option that needs nothing else to be set.
CHANGED = {
    "log-level": "debug", "access-log": True, "backup-keep": "1,1,1", "drain-time": 1, "max-head-bytes": 4096, "max-read-bytes": 4096,
    "max-connections": 1000, "max-connections-per-address": 100, "max-connections-per-user": 100, "max-writes-per-second": 100,
    "max-bytes-per-second": 100_000, "auth-clock-skew": 1, "durability": "none", "segment-bytes": 65536, "checkpoint-bytes": 65536,
    "checkpoint-interval": 9, "keep-checkpoints": 3, "in-flight-limit": 4 << 20, "backup-verify": 9, "archive-keep": "1d", "loops": 2,
    "no-deflate": True, "max-listens": 9, "max-listen-bytes": 65536, "max-on-disconnect": 9, "outbound-limit": 4 << 20,
    "memory-limit": 1 << 28, "index-memory": 1 << 20, "max-write-bytes": 1 << 20, "chunk-limit": 9, "idle-timeout": 99,
    "presence-timeout": 60, "request-timeout": 9, "no-console": True, "log-format": "json", "admin-listen": "1",
    "host": "localhost",
}


def test_what_sighup_changes_is_said_alike_everywhere(servers, manual, tmp_path):
    file = tmp_path / "pando.json"
    places = {name: str(tmp_path / name) for name in ("backup-to", "archive-to")}
    fixed = places | {"backup-every": "1h"}
    file.write_text(json.dumps(fixed))
    server = servers(dev=False, arguments=["--config", file])
    file.write_text(json.dumps(fixed | CHANGED))
    server.signal(signal.SIGHUP)
    server.wait_for_log("rules to read again")
    log = server.stderr(limit=1 << 30)
    reloaded = set(re.search(r"options read again; (.*) changed$", log, re.MULTILINE)[1].split(", "))
    waiting = set(re.search(r"take effect at the next start: (.*)$", log, re.MULTILINE)[1].split(", "))
    assert reloaded | waiting == set(CHANGED) and not reloaded & waiting

    def named(text):
        return set(re.findall(r"[a-z]+(?:-[a-z]+)+", re.sub(r"\]\([^)]*\)", "", text)))

    page = (REPOSITORY / "public/docs/operating.md").read_text()
    row = re.search(r"^\| SIGHUP \| .* take effect at once: (.*?); a warning", page, re.MULTILINE)[1]
    head = re.search(r"// .* SIGHUP reads it again: (.*?) take effect at once", EXAMPLE.read_text(), re.DOTALL)[1]
    serve = (manual / "pando-serve.1").read_text().replace("\\-", "-")
    signals = serve.partition("\n.SH SIGNALS\n")[2].partition("\n.SH ")[0]
    listed = re.search(r"take effect: (.*?)\. Others", signals, re.DOTALL)[1]
    assert named(row) == named(head) == named(listed) == reloaded
    for what in ("--rules", "certificates", "secrets", "key files", "revocations", "console"):
        assert what in signals and what in page[page.index("| SIGHUP |"):].partition("\n")[0]


# Health


def test_health(servers):
    server = servers(memory=True, arguments=["--admin-listen", "0"])
    address = f"http://127.0.0.1:{Admin(server).port}"
    for arguments in ((), ("--live",)):
        result = run("check", "health", address, *arguments)
        assert result.returncode == 0 and result.stdout.startswith(f"{address}: "), result
    server.kill()
    result = run("check", "health", address)
    assert result.returncode == 1 and "can't be reached" in result.stdout
    assert run("check", "health", "nonsense").returncode == 64
    assert run("check", "health", address, "--timeout", "0").returncode == 64


# systemd


@pytest.fixture(params=["path", "abstract"])
def service_manager(request, tmp_path):
    name = str(tmp_path / "notify") if request.param == "path" else f"@pando-test-{os.getpid()}"
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(name.replace("@", "\0"))
    manager.settimeout(DEADLINE)
    with manager:
        yield name, manager


def test_the_service_manager_hears_of_the_start_a_reload_and_the_end(servers, service_manager):
    name, manager = service_manager

    def state():
        return dict(line.split("=", 1) for line in manager.recv(4096).decode().splitlines())

    server = servers(memory=True, start=False)
    server.environment = {"NOTIFY_SOCKET": name}
    server.start()
    assert state() == {"READY": "1", "STATUS": "serving clients"}
    server.signal(signal.SIGHUP)
    reloading = state()
    assert reloading["RELOADING"] == "1" and reloading["MONOTONIC_USEC"].isdecimal()
    assert state()["READY"] == "1"
    assert server.terminate() == 0
    assert state()["STOPPING"] == "1"


def test_a_service_manager_that_is_gone_is_a_warning(servers, tmp_path):
    server = servers(memory=True, start=False)
    server.environment = {"NOTIFY_SOCKET": str(tmp_path / "gone")}
    server.start()
    server.wait_for_log("notify the service manager")
    assert server.terminate() == 0


@needs("systemd-analyze")
def test_the_units_are_valid_and_harden_the_service(tmp_path):
    for name in ("pando.service", "pando.socket"):
        text = (DEPLOY / name).read_text()
        (tmp_path / name).write_text(text.replace("/usr/bin/pando", str(BINARY)))
    paths = [tmp_path / "pando.service", tmp_path / "pando.socket"]
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *paths], capture_output=True, text=True, timeout=DEADLINE)
    # Units of the machine itself may have faults.
    faults = [line for line in (result.stdout + result.stderr).splitlines() if "pando" in line]
    assert not faults, faults
    result = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", paths[0]], capture_output=True, text=True,
        timeout=DEADLINE)
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", result.stdout)
    assert found, result.stderr
    assert float(found[1]) < EXPOSURE_LIMIT, result.stdout


def test_the_units_agree_with_the_program():
    service, sockets = (DEPLOY / "pando.service").read_text(), (DEPLOY / "pando.socket").read_text()
    user = re.search(r"^User=(.*)$", service, re.MULTILINE)[1]
    assert f"SocketUser={user}\n" in sockets
    # The group of the server can read secrets: a proxy that uses the socket is in another one, which the package makes.
    group = re.search(r"^SocketGroup=(.*)$", sockets, re.MULTILINE)[1]
    assert group != user and f"addgroup --quiet --system {group}\n" in (DEPLOY / "debian-package").read_text()
    assert "Type=notify\n" in service and "ExecReload=/bin/kill -HUP $MAINPID\n" in service
    assert '"data": "/var/lib/pando",' in EXAMPLE.read_text() and "StateDirectory=pando\n" in service


# Containers


def test_the_compose_file_names_files_that_exist():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"pando", "prometheus", "grafana"}
    build = services["pando"]["build"]
    context = (DEPLOY / build["context"]).resolve()
    assert context == REPOSITORY and (context / build["dockerfile"]).is_file()
    volumes, contents = set(compose["volumes"]), compose["configs"]
    for name, service in services.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in volumes, f"{name}: {volume}"
        for config in service.get("configs", []):
            assert config["source"] in contents
        for other in service.get("depends_on", []):
            assert other in services
    # The contents are files themselves; Prometheus's names the rules that are mounted, and the metric's address.
    prometheus = yaml.safe_load(contents["prometheus"]["content"])
    mounted = [volume.split(":")[1] for volume in services["prometheus"]["volumes"]]
    assert prometheus["rule_files"][0] in mounted
    assert prometheus["scrape_configs"][0]["static_configs"][0]["targets"] == ["127.0.0.1:9001"]
    assert services["prometheus"]["network_mode"] == "service:pando"
    provider = yaml.safe_load(contents["dashboards"]["content"])["providers"][0]
    assert any(volume.split(":")[1] == provider["options"]["path"] for volume in services["grafana"]["volumes"])
    assert yaml.safe_load(contents["datasource"]["content"])["datasources"][0]["type"] == "prometheus"


@needs("promtool")
def test_prometheus_takes_the_configuration_of_the_compose_file(tmp_path):
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    text = compose["configs"]["prometheus"]["content"]
    (tmp_path / "prometheus.yml").write_text(
        text.replace("/etc/prometheus/rules.yml", str(DEPLOY / "prometheus/rules.yml")))
    result = subprocess.run(
        ["promtool", "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True, timeout=DEADLINE)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module")
def manifest():
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


@pytest.mark.parametrize("version", KUBERNETES)
def test_the_manifest_follows_the_published_schemas(manifest, version):
    for document in manifest:
        kubernetes_validate.validate(document, version, strict=True)


def of_kind(manifest, kind, name="pando"):
    return next(one for one in manifest if one["kind"] == kind and one["metadata"]["name"] == name)


def test_the_parts_of_the_manifest_fit_together(manifest):
    stateful = of_kind(manifest, "StatefulSet")["spec"]
    pod, labels = stateful["template"]["spec"], stateful["template"]["metadata"]["labels"]
    container = pod["containers"][0]
    assert stateful["selector"]["matchLabels"] == labels and stateful["replicas"] == 1
    assert of_kind(manifest, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    ports = {port["name"] for port in container["ports"]}
    for name in ("pando", stateful["serviceName"]):
        service = of_kind(manifest, "Service", name)["spec"]
        assert service["selector"] == labels and service["ports"][0]["targetPort"] in ports
    sources = {volume["name"] for volume in pod["volumes"]} | {
        claim["metadata"]["name"] for claim in stateful["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == sources
    assert pod["enableServiceLinks"] is False
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        command = container[probe]["exec"]["command"]
        assert command[0] == "/usr/bin/pando"
        # The program knows these words: with --help they are not carried out.
        assert run(*command[1:], "--help").returncode == 0


def test_the_configuration_in_the_manifest_is_one(manifest, tmp_path):
    files = of_kind(manifest, "ConfigMap")["data"]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    secret = tmp_path / "auth-secret"
    secret.write_text("s" * 64)
    secret.chmod(0o600)
    mounts = {"/etc/pando/config": str(tmp_path), "/etc/pando/secret": str(tmp_path), "/data": str(tmp_path / "data")}
    text = files["pando.json"]
    for inside, outside in mounts.items():
        text = text.replace(inside, outside)
    (tmp_path / "pando.json").write_text(text)
    # The variables of the image.
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    variables = dict(re.findall(r"(PANDO_[A-Z_]+)=(\S+)", re.search(r"^ENV (.*)$", dockerfile, re.MULTILINE)[1]))
    result = subprocess.run(
        [BINARY, "serve", "--config", tmp_path / "pando.json", "--print-config"], capture_output=True, text=True,
        timeout=DEADLINE, env=clean_environment() | variables)
    assert result.returncode == 0, result.stderr
    printed = json.loads(result.stdout)
    assert printed["data"] == "/data" and str(printed["admin-listen"]) == "9001" and printed["host"] == "0.0.0.0"
    assert run("check", "rules", tmp_path / "rules.json").returncode == 0


def test_a_last_checkpoint_ends_before_the_process_is_killed(manifest):
    """Its bound leaves ten seconds of what service managers wait after SIGTERM, and is what the documentation says."""
    server = (REPOSITORY / "Sources/Server/Server.swift").read_text()
    (bound,) = re.findall(r"lastCheckpointTimeout: Duration = \.seconds\((\d+)\)\n", server)
    assert "stop(checkpointTimeout: Self.lastCheckpointTimeout," in server
    page = (REPOSITORY / "public/docs/operating.md").read_text()
    service = re.search(r"^TimeoutStopSec=(\d+)min$", (DEPLOY / "pando.service").read_text(), re.MULTILINE)
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["pando"]["stop_grace_period"]
    (pod,) = [one["spec"]["template"]["spec"] for one in manifest if one["kind"] == "StatefulSet"]
    docker = [int(one) for text in (page, (DEPLOY / "Dockerfile").read_text()) for one in re.findall(r"--stop-timeout (\d+)", text)]
    waits = [int(service[1]) * 60, int(re.fullmatch(r"(\d+)s", compose)[1]), pod["terminationGracePeriodSeconds"], *docker]
    assert len(docker) == 2 and int(bound) + 10 <= min(waits), waits
    assert f"before the exit, for {bound} s at most" in page


def test_the_image_has_what_its_configuration_names():
    """The Dockerfile names folders of the repository, an unprivileged user, and a health check of the program itself."""
    text = (DEPLOY / "Dockerfile").read_text()
    for source in re.findall(r"^COPY (?!--from)(\S+) ", text, re.MULTILINE):
        assert (REPOSITORY / source).exists(), source
        assert f"!{source}\n" in (REPOSITORY / ".dockerignore").read_text(), source
    command = json.loads(re.search(r"HEALTHCHECK .*CMD (\[.*\])", text)[1])
    assert command[0] == "/usr/bin/pando" and run(*command[1:], "--help").returncode == 0
    assert re.search(r"^USER ([0-9]+):\1$", text, re.MULTILINE)[1] != "0"
    assert "STOPSIGNAL SIGTERM\n" in text and "VOLUME /data\n" in text


# What deploy/test needs


@pytest.mark.parametrize("required, reason, outcome", [
    ("", "no-such-program is not installed", "1 skipped"), ("1", "no-such-program is not installed", "1 error"),
    ("1", "/a/b is not built: --product b", "1 error"), ("1", "takes two minutes", "1 skipped"),
])
def test_a_test_without_a_program_that_is_required_fails(tmp_path, required, reason, outcome):
    (tmp_path / "test_one.py").write_text(
        f"import pytest\n\n\n@pytest.mark.skipif(True, reason={reason!r})\ndef test_one():\n    pass\n")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        capture_output=True, text=True, timeout=DEADLINE, cwd=tmp_path, env=clean_environment() | {
            "PANDO_REQUIRE_PROGRAMS": required, "PYTHONPATH": str(REPOSITORY / "Tests/EndToEnd"), "PANDO_BINARY": str(BINARY)})
    assert outcome in result.stdout, result.stdout + result.stderr


# Reasons to skip a test that are not a missing program.
OTHER_REASONS = {
    "only root can become another user", "the program is in a folder that only root can read", "only root can lose packets",
    "only root can make a namespace of processes",
    "iptables may not filter here", "strace may not trace here", "nothing is prepared on {kind.stdout.strip()}",
    "takes two minutes: PANDO_SLOW=1", "waits for half a minute; run with PANDO_SLOW=1",
    "needs tokens that expire: --dev accepts unsigned ones without looking at the time", "{one.skip}",
}


def skip_reasons(path):
    """The reason of each skip in a file, as conftest.py sees it; of what is only known later, the expression in braces."""
    for call in ast.walk(ast.parse(path.read_text())):
        if not isinstance(call, ast.Call) or ast.unparse(call.func) not in ("pytest.skip", "pytest.mark.skip", "pytest.mark.skipif"):
            continue
        named = [keyword.value for keyword in call.keywords if keyword.arg == "reason"]
        reason = named[0] if named else call.args[0]
        match reason:
            case ast.Constant():
                yield reason.value
            case ast.JoinedStr():
                yield "".join(part.value if isinstance(part, ast.Constant) else ast.unparse(part.value).join("{}") for part in reason.values)
            case _:
                yield ast.unparse(reason).join("{}")


def test_a_reason_to_skip_is_a_missing_program_or_another_known_one():
    """No other wording lets tests be skipped without a word where programs are required."""
    found = {reason for path in pathlib.Path(__file__).parent.glob("*.py") for reason in skip_reasons(path)}
    assert {reason for reason in found if not MISSING.match(f"Skipped: {reason}")} == OTHER_REASONS
