"""The command line's contract: flags, exit codes, messages, and what signals do."""

import json
import os
import re
import signal
import socket

import pytest

import server as server_module
from pando_client import Connection, Closed
from server import StartFailure

USAGE, BAD_DATA, DISK_FAILURE, BAD_CONFIGURATION = 64, 65, 74, 78


def run(*arguments, **options):
    return server_module.run(*arguments, **options)


def fails_to_start(servers, *codes, **options):
    """Starts a server that must refuse; answers its stderr."""
    server = servers(start=False, **options)
    with pytest.raises(StartFailure) as failure:
        server.start()
    assert failure.value.code in codes, f"exit code {failure.value.code}, expected {codes}\n{server.stderr()}"
    return server.stderr()


def write_markers(server, count):
    """So many acknowledged puts, one after the other, whose texts can be found in the files."""
    with Connection(server.port, "default") as connection:
        for number in range(count):
            connection.must("p", {"p": f"/m/{number:04d}", "d": f"marker-{number:04d}-end"})


def file_with(data, text):
    """(path, offset) of the first file under `data` that holds the text."""
    for path in sorted(data.rglob("*")):
        if path.is_file():
            at = path.read_bytes().find(text.encode())
            if at >= 0:
                return path, at
    raise AssertionError(f"no file under {data} holds {text}: {[str(path) for path in data.rglob('*')]}")


def test_port_0_picks_a_free_port_and_prints_it(servers):
    one, two = servers(), servers()
    assert one.port != two.port and min(one.port, two.port) > 0
    for server in (one, two):
        with Connection(server.port, "default") as connection:
            connection.must("p", {"p": "/a", "d": 1})


def test_a_given_port_is_used(servers):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = servers(start=False)
    server.command[server.command.index("0")] = str(port)
    assert server.start().port == port


def test_a_port_in_use_is_refused_with_a_message(servers):
    first = servers()
    server = servers(start=False)
    server.command[server.command.index("0")] = str(first.port)
    with pytest.raises(StartFailure) as failure:
        server.start()
    assert failure.value.code not in (None, 0)
    assert str(first.port) in server.stderr()


def test_a_second_server_on_the_same_data_directory_is_refused(servers, tmp_path):
    first = servers(data=tmp_path / "data")
    text = fails_to_start(servers, BAD_CONFIGURATION, DISK_FAILURE, data=tmp_path / "data")
    assert str(tmp_path / "data") in text or re.search("lock|in use|another|already", text, re.IGNORECASE), text
    with Connection(first.port, "default") as connection:
        connection.must("p", {"p": "/a", "d": 1})


def test_the_lock_of_a_killed_server_is_free(servers, tmp_path):
    servers(data=tmp_path / "data").kill()
    servers(data=tmp_path / "data")


@pytest.mark.parametrize("arguments", [
    ["serve", "--nonsense"],
    ["serve", "--port", "many"],
    ["nonsense"],
    ["export", "--nonsense"],
    ["namespace", "explode"],
], ids=" ".join)
def test_a_usage_error_exits_64_with_a_message(arguments, tmp_path):
    done = run(*arguments, timeout=20, cwd=tmp_path)
    assert done.returncode == USAGE, (done.returncode, done.stderr)
    assert done.stderr.strip() and not done.stdout.startswith("listening")


@pytest.mark.parametrize("arguments", [["--port", "70000"], ["--durability", "sometimes"]], ids=" ".join)
def test_a_value_out_of_range_is_refused_with_a_message(arguments, tmp_path):
    done = run("serve", *arguments, timeout=20, cwd=tmp_path)
    assert done.returncode in (USAGE, BAD_CONFIGURATION), (done.returncode, done.stderr)
    assert arguments[0].strip("-") in done.stderr, done.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_dev_refuses_a_host_that_other_machines_reach(servers, host):
    text = fails_to_start(servers, BAD_CONFIGURATION, arguments=["--host", host])
    assert "dev" in text, text


def test_without_dev_any_address_may_be_listened_on(servers):
    server = servers(dev=False, arguments=["--host", "0.0.0.0"])
    with Connection(server.port, "default") as connection:
        assert connection.ask("p", {"p": "/a", "d": 1})["s"] == "permission_denied"


def test_memory_keeps_nothing(servers, tmp_path):
    server = servers(memory=True)
    with Connection(server.port, "default") as connection:
        connection.must("p", {"p": "/a", "d": 1})
    server.restart()
    with Connection(server.port, "default") as connection:
        assert connection.get("/a") is None


@pytest.mark.parametrize("durability", ["always", "interval", "none"])
def test_every_durability_survives_an_orderly_restart(servers, durability):
    server = servers(arguments=["--durability", durability])
    with Connection(server.port, "default") as connection:
        connection.must("p", {"p": "/a", "d": {"x": [1, 2, 3]}})
    assert server.terminate() == 0
    server.start()
    with Connection(server.port, "default") as connection:
        assert connection.get("/a") == {"x": {"0": 1, "1": 2, "2": 3}}


def test_namespaces_survive_a_kill(servers):
    server = servers()
    for ns in ("one", "two"):
        with Connection(server.port, ns) as connection:
            connection.must("p", {"p": "/name", "d": ns})
    server.restart()
    for ns in ("one", "two"):
        with Connection(server.port, ns) as connection:
            assert connection.get("/") == {"name": ns}


def test_sigterm_exits_0_and_runs_on_disconnect_first(servers):
    server = servers()
    connection = Connection(server.port, "default")
    connection.must("p", {"p": "/status", "d": "online"})
    connection.must("o", {"p": "/status", "d": "offline"})
    connection.must("o", {"p": "/at", "d": {".sv": "timestamp"}})
    assert server.terminate() == 0, server.stderr()
    with pytest.raises(Closed):
        while True:
            connection.receive()
    server.start()
    with Connection(server.port, "default") as connection:
        data = connection.get("/")
        assert data["status"] == "offline" and type(data["at"]) is int


def test_on_disconnect_of_a_killed_server_has_run_before_it_listens_again(servers):
    server = servers()
    connection = Connection(server.port, "default")
    connection.must("p", {"p": "/n", "d": 1})
    connection.must("o", {"p": "/n", "d": {".sv": {"increment": 10}}})
    connection.must("om", {"p": "/s", "d": {"a": "gone", "b/c": "gone"}})
    connection.must("oc", {"p": "/s/a", "d": None})
    server.restart()
    with Connection(server.port, "default") as connection:
        assert connection.get("/") == {"n": 11, "s": {"b": {"c": "gone"}}}
    server.restart()
    with Connection(server.port, "default") as connection:
        assert connection.get("/n") == 11, "the queue ran again"


def test_sigint_ends_the_server_too(servers):
    server = servers()
    server.signal(signal.SIGINT)
    assert server.process.wait(15) in (0, -signal.SIGINT, 128 + signal.SIGINT)


def test_namespace_create_list_delete(servers, tmp_path):
    data = tmp_path / "data"
    server = servers(data=data, dev=False)
    assert server.terminate() == 0
    done = run("namespace", "create", "--data", data, "shop")
    assert done.returncode == 0, done.stderr
    done = run("namespace", "list", "--data", data)
    assert done.returncode == 0 and {"default", "shop"} <= set(done.stdout.split()), done.stdout + done.stderr
    assert run("namespace", "create", "--data", data, "shop").returncode != 0, "made twice"
    server.start()
    with Connection(server.port, "shop") as connection:  # it exists: a handshake, not a shutdown
        assert connection.ask("g", {"p": "/", "q": {}})["s"] == "permission_denied"
    assert server.terminate() == 0
    done = run("namespace", "delete", "--data", data, "shop")
    assert done.returncode == 0, done.stderr
    done = run("namespace", "list", "--data", data)
    assert "shop" not in done.stdout.split() and "default" in done.stdout.split(), done.stdout
    assert run("namespace", "delete", "--data", data, "never-made").returncode != 0


def test_import_from_stdin_and_export_of_a_path(tmp_path):
    data, value = tmp_path / "data", {"a": {"b": [1, 2.5, "é🐵"]}, "p": {".value": 1, ".priority": "x"}}
    file = tmp_path / "in.json"
    file.write_text(json.dumps(value))
    with open(file) as stream:
        done = server_module.subprocess.run(
            [str(server_module.BINARY), "import", "--data", str(data), "--namespace", "other", "-"],
            stdin=stream, capture_output=True, text=True, timeout=30,
        )
    assert done.returncode == 0, done.stderr
    done = run("export", "--data", data, "--namespace", "other", "/a/b")
    exported = json.loads(done.stdout)
    assert done.returncode == 0 and exported in ([1, 2.5, "é🐵"], {"0": 1, "1": 2.5, "2": "é🐵"}), done
    done = run("export", "--data", data, "--namespace", "other")
    assert json.loads(done.stdout)["p"] == {".value": 1, ".priority": "x"}, "an export keeps priorities"


BAD_IMPORTS = {
    "an object cut short": '{"a":',
    "a forbidden key": '{"a.b":1}',
    "an array cut short": "[1,2",
    "something behind the value": '{"a":1} x',
    "an empty file": "",
    "a number that overflows": '{"a":1e400}',
    "five thousand brackets": "[" * 5000,
}


@pytest.mark.parametrize("text", BAD_IMPORTS.values(), ids=BAD_IMPORTS.keys())
def test_an_import_of_bad_data_exits_65_and_changes_nothing(tmp_path, text):
    data, file = tmp_path / "data", tmp_path / "bad.json"
    good = tmp_path / "good.json"
    good.write_text('{"kept":1}')
    assert run("import", "--data", data, good).returncode == 0
    file.write_text(text)
    done = run("import", "--data", data, "--replace", file)
    assert done.returncode == BAD_DATA and done.stderr.strip(), (done.returncode, done.stderr)
    assert json.loads(run("export", "--data", data).stdout) == {"kept": 1}


def test_offline_commands_respect_the_lock_of_a_running_server(servers, tmp_path):
    server = servers()
    file = tmp_path / "in.json"
    file.write_text('{"a":1}')
    done = run("import", "--data", server.data, file)
    assert done.returncode in (BAD_CONFIGURATION, DISK_FAILURE), (done.returncode, done.stderr)
    with Connection(server.port, "default") as connection:
        assert connection.get("/") is None


def test_check_data_of_a_sound_directory_exits_0(servers):
    server = servers()
    write_markers(server, 20)
    server.kill()
    done = run("check", "data", server.data)
    assert done.returncode == 0, done.stdout + done.stderr


def test_log_prints_the_journal_as_lines(servers):
    server = servers()
    write_markers(server, 20)
    server.kill()
    done = run("log", server.data)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "marker-" in line]
    assert len(lines) >= 20, done.stdout[:2000]
    assert [line for line in lines if "marker-0007-end" in line], done.stdout[:2000]


def test_a_corrupt_byte_in_the_middle_refuses_to_start_and_names_the_offset(servers):
    server = servers()
    write_markers(server, 200)
    server.kill()
    path, at = file_with(server.data, "marker-0050-end")
    content = bytearray(path.read_bytes())
    content[at + 3] ^= 0x20
    path.write_bytes(content)

    with pytest.raises(StartFailure) as failure:
        server.start()
    assert failure.value.code == BAD_DATA, server.stderr()
    text = server.stderr()
    assert path.name in text, f"the message names the file {path.name}\n{text}"
    offsets = [int(number) for number in re.findall(r"\d+", text.replace(path.name, ""))]
    assert any(at - 4096 <= number <= at for number in offsets), f"the message names the offset, about {at}\n{text}"
    assert run("check", "data", server.data).returncode == 1
    assert path.read_bytes() == content, "a refusal changes nothing"


def test_a_garbage_tail_is_cut_and_the_server_starts(servers):
    server = servers()
    write_markers(server, 50)
    server.kill()
    path, _ = file_with(server.data, "marker-0049-end")
    with open(path, "ab") as stream:
        stream.write(os.urandom(37))
    server.start()
    with Connection(server.port, "default") as connection:
        assert len(connection.get("/m")) == 50
        connection.must("p", {"p": "/m/after", "d": 1})
    server.restart()
    with Connection(server.port, "default") as connection:
        assert len(connection.get("/m")) == 51


def test_a_torn_last_record_is_truncated_and_the_records_before_it_stay(servers):
    server = servers()
    write_markers(server, 50)
    server.kill()
    path, at = file_with(server.data, "marker-0049-end")
    with open(path, "r+b") as stream:
        stream.truncate(at + 5)
    server.start()
    with Connection(server.port, "default") as connection:
        values = connection.get("/m")
        assert [values[f"{number:04d}"] for number in range(49)] == [f"marker-{number:04d}-end" for number in range(49)]


def test_help_and_version_exit_0():
    for arguments in (["--help"], ["serve", "--help"], ["--version"]):
        done = run(*arguments)
        assert done.returncode == 0 and done.stdout.strip(), arguments


# Directories that cannot be a data directory


@pytest.mark.parametrize("name", ["file.txt", "folder/", ".bashrc"])
@pytest.mark.parametrize("command", ["serve", "import", "namespace"])
def test_a_directory_with_other_files_is_refused_and_left_untouched(tmp_path, name, command):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    if name.endswith("/"):
        (foreign / name).mkdir()
    else:
        (foreign / name).write_text("mine")
    file = tmp_path / "in.json"
    file.write_text("1")
    arguments = {
        "serve": ["serve", "--port", "0", "--data", foreign], "import": ["import", "--data", foreign, file],
        "namespace": ["namespace", "create", "--data", foreign, "other"],
    }[command]
    done = run(*arguments, timeout=20)
    assert done.returncode == BAD_CONFIGURATION, (done.returncode, done.stderr)
    assert str(foreign) in done.stderr and name.rstrip("/") in done.stderr and "listening" not in done.stdout
    assert [path.name for path in foreign.iterdir()] == [name.rstrip("/")]


def test_a_disk_of_its_own_is_no_foreign_directory(servers, tmp_path):
    data = tmp_path / "data"
    (data / "lost+found").mkdir(parents=True)
    assert servers(data=data).terminate() == 0


@pytest.mark.parametrize("path, advice", [("missing/data", "mkdir -p"), ("file", "not a directory"), ("file/data", "not a directory")])
def test_a_path_that_cannot_be_a_directory_is_a_bad_configuration_with_advice(tmp_path, path, advice):
    (tmp_path / "file").write_text("mine")
    done = run("serve", "--port", "0", "--data", tmp_path / path, timeout=20)
    assert done.returncode == BAD_CONFIGURATION, (done.returncode, done.stderr)
    assert str(tmp_path / path) in done.stderr and advice in done.stderr, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_without_permission_the_user_is_named(tmp_path):
    """As an unprivileged user: the directory of another one, and a port below 1024."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    for directory in [tmp_path, *tmp_path.parents]:
        if directory.stat().st_uid == 0 and directory != directory.parent:
            directory.chmod(directory.stat().st_mode | 0o711)
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    try:
        done = run("serve", "--port", "0", "--data", data, timeout=20, **nobody)
    except PermissionError:
        pytest.skip("the program is in a folder that only root can read")
    assert done.returncode == BAD_CONFIGURATION, (done.returncode, done.stderr)
    assert "user 65534" in done.stderr and "sudo -u" in done.stderr, done.stderr
    first = int(open("/proc/sys/net/ipv4/ip_unprivileged_port_start").read())
    if first > 80:
        done = run("serve", "--port", "80", "--memory", timeout=20, **nobody)
        assert done.returncode == BAD_CONFIGURATION, (done.returncode, done.stderr)
        assert "CAP_NET_BIND_SERVICE" in done.stderr and "pando.socket" in done.stderr, done.stderr


def test_a_host_that_is_unknown_is_called_so():
    done = run("serve", "--memory", "--host", "nosuch.invalid", timeout=60)
    assert done.returncode == BAD_CONFIGURATION, (done.returncode, done.stderr)
    assert re.search("unknown host name|resolver does not answer", done.stderr) and "nosuch.invalid" in done.stderr, done.stderr


def test_a_configuration_file_that_cannot_be_read_is_the_only_problem(tmp_path):
    done = run("serve", "--config", tmp_path / "nofile.json", timeout=20)
    assert done.returncode == BAD_CONFIGURATION
    assert done.stderr.count("\n") == 1 and f"{tmp_path}/nofile.json: can't be read: No such file" in done.stderr, done.stderr


@pytest.mark.parametrize("options, named", [
    ({"rules": "{}/rules.json"}, "rules.json"), ({"tls-dir": "{}/tls"}, "{}/tls"), ({"public": "{}/public"}, "{}/public"),
    ({"tls-cert": "{}/cert.pem", "tls-key": "{}/key.pem"}, "cert.pem"),
])
def test_check_config_looks_at_the_files_that_a_configuration_names(tmp_path, options, named):
    file = tmp_path / "pando.json"
    file.write_text(json.dumps({"memory": True} | {name: value.format(tmp_path) for name, value in options.items()}))
    done = run("check", "config", file)
    assert done.returncode == 1 and named.format(tmp_path) in done.stdout and "no problems" not in done.stdout, done.stdout
    start = run("serve", "--port", "0", "--config", file, timeout=20)
    assert start.returncode == BAD_CONFIGURATION
    # A start says the same.
    assert all(line in start.stderr for line in done.stdout.splitlines()), (done.stdout, start.stderr)


def test_check_config_has_no_problem_with_files_that_are_there(tmp_path):
    (tmp_path / "rules.json").write_text('{"rules": {}}')
    file = tmp_path / "pando.json"
    file.write_text(json.dumps({"memory": True, "rules": str(tmp_path / "rules.json")}))
    assert run("check", "config", file).returncode == 0


# What a terminal would take as a command (C0, C1), and what would change the order of letters or not be shown.
NASTY = "a\x1b[31m\x9b2Jb\u202ec"
SHOWN = r"a\u{1B}[31m\u{9B}2Jb\u{202E}c"


@pytest.mark.parametrize("command", [
    ["import", "FILE", "--data", "new"], ["import", "FILE", "--url", "http://127.0.0.1:1"], ["export", "--data", "FILE"],
    ["backup", "--data", "FILE", "--output", "b"], ["restore", "FILE", "--data", "new"], ["restore", "--verify", "FILE"],
    ["check", "data", "FILE"], ["check", "config", "FILE"], ["check", "rules", "FILE"], ["check", "backup", "FILE"],
    ["test", "rules", "FILE", "FILE"], ["log", "FILE"], ["namespace", "list", "--data", "FILE"],
    ["token", "--uid", "u", "--secret-file", "FILE"], ["serve", "--memory", "--rules", "FILE"],
    ["serve", "--memory", "--jwks-file", "FILE", "--jwks-issuer", "i", "--jwks-audience", "a"], ["serve", "--memory", "FILE"],
    ["namespace", "create", "--data", "new", "FILE"], ["check", "health", "FILE"], ["top", "FILE"],
    ["serve", "--memory", "--port=1FILE"], ["log", "--width=FILE", "d"]],
    ids=lambda command: " ".join(command[:2]) + "-" + command[-2])
@pytest.mark.parametrize("name, shown", [(NASTY, SHOWN), ("a\nforged: all is well", None)], ids=["control", "newline"])
def test_control_characters_in_names_are_escaped(tmp_path, command, name, shown):
    done = server_module.run(*(word.replace("FILE", name) for word in command), cwd=tmp_path)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    if shown:
        assert shown in said
    assert not [letter for letter in said if letter in "\x1b\x9b\u202e"]
    assert not [line for line in said.splitlines() if line.startswith("forged")], said


def test_line_feed_as_an_argument_leaves_the_other_lines_of_the_message(tmp_path):
    done = server_module.run("serve", "--memory", "\n", cwd=tmp_path)
    assert done.returncode == 64 and r"'\u{A}'" in done.stderr.splitlines()[0]
    assert [line for line in done.stderr.splitlines() if line.startswith("Usage:")]


def test_control_characters_in_data_are_escaped(servers, tmp_path):
    """Keys, values and user ids in what is printed for people."""
    key = NASTY.replace("\x1b[31m", "")
    (tmp_path / "good.json").write_text(json.dumps({"users": {key: NASTY}}))
    assert run("import", tmp_path / "good.json", "--data", tmp_path / "data").returncode == 0
    server = servers(data=tmp_path / "data")
    with Connection(server.port, "default") as connection:
        connection.must("p", {"p": f"/{key}/x", "d": NASTY})
        connection.must("p", {"p": "/persian", "d": {"نمی\u200cخواهم": "👩\u200d👧"}})
    assert server.terminate() == 0
    log = run("log", tmp_path / "data", "--checkpoints").stdout
    assert log.count(r"a\u009b2Jb\u202ec") >= 2
    values = [line.split(" = ", 1)[1].split("\t")[0] for line in log.splitlines() if "/persian = " in line]
    assert [json.loads(value) for value in values] == [{"نمی\u200cخواهم": "👩\u200d👧"}], "values stay JSON"
    assert not [letter for letter in log if letter in "\x1b\x9b\u202e"]
    assert {line.count("\t") for line in log.splitlines()} <= {4, 5}
    (tmp_path / "bad.json").write_text(json.dumps({key: {"users": {"a\x1b[31mb": 1}}}))
    refused = run("import", tmp_path / "bad.json", "--data", tmp_path / "data", "--replace")
    assert refused.returncode == BAD_DATA and r"a\u{1B}[31mb" in refused.stderr
    assert not [letter for letter in refused.stderr if letter in "\x1b\x9b\u202e"]
    (tmp_path / "data" / f"checkpoint-{NASTY}").write_text("")
    said = run("check", "data", tmp_path / "data")
    assert not [letter for letter in said.stdout + said.stderr if letter in "\x1b\x9b\u202e"]


def test_warnings_of_commands_are_escaped(servers, tmp_path):
    """What a command logs while it opens a directory: a damaged checkpoint is named, in a directory of a name like that."""
    data = tmp_path / NASTY
    (tmp_path / "a.json").write_text('{"a":1}')
    for _ in range(2):
        assert run("import", tmp_path / "a.json", "--data", data, "--replace").returncode == 0
    newest = max(data.glob("checkpoint-*"))
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    done = run("import", tmp_path / "a.json", "--data", data)
    assert done.stderr and not [letter for letter in done.stderr if letter in "\x1b\x9b\u202e"]
