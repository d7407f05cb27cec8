"""Imports and exports: any size, all or nothing, into a directory and into a running server."""

import gzip
import json
import os
import pty
import resource
import shutil
import signal
import subprocess
import time

import pytest

import server as server_module
from pando_client import Connection
from preload import run_on_bad_disk
from server import StartFailure, run

USAGE, BAD_DATA, DISK_FAILURE, BAD_CONFIGURATION = 64, 65, 74, 78


def owner(**variables):
    return {**server_module.clean_environment(), "PANDO_TOKEN": "owner", **variables}


def as_owner(*arguments):
    return subprocess.run([str(server_module.BINARY), *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, env=owner())


def exported(data, *arguments):
    done = run("export", "--data", data, *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def write(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return path


def many(count):
    return {f"-N{number:019d}": {"name": f"user {number}", "scores": {"a": number, "b": number / 8}, "on": number % 2 == 0}
            for number in range(count)}


def url(server):
    return f"http://127.0.0.1:{server.port}"


@pytest.fixture
def filled(tmp_path):
    data = tmp_path / "data"
    assert run("import", "--data", data, write(tmp_path / "old.json", {"a": {"x": 1, "y": 2}, "b": 3})).returncode == 0
    return data


@pytest.mark.parametrize("flags, value, result", [
    ((), {"c": 4}, None),
    (("--replace",), {"c": 4}, {"c": 4}),
    (("--merge",), {"a": {"z": 9}, "c": 4}, {"a": {"z": 9}, "b": 3, "c": 4}),
    (("--merge",), {"b": None}, {"a": {"x": 1, "y": 2}, "b": 3}),
    (("--merge",), 5, None),
    (("--path", "/new"), {"c": 4}, {"a": {"x": 1, "y": 2}, "b": 3, "new": {"c": 4}}),
    (("--path", "/a"), {"c": 4}, None),
    (("--path", "/a", "--merge"), {"z": [1, 2]}, {"a": {"x": 1, "y": 2, "z": {"0": 1, "1": 2}}, "b": 3}),
    (("--path", "/a", "--replace"), "text", {"a": "text", "b": 3}),
    (("--replace",), None, None),
], ids=lambda value: "_".join(value) if isinstance(value, tuple) else None)
@pytest.mark.parametrize("online", [False, True], ids=["offline", "online"])
def test_import_over_existing_data(filled, tmp_path, servers, flags, value, result, online):
    file = write(tmp_path / "new.json", value if not isinstance(value, str) else json.dumps(value))
    before = exported(filled)
    if online:
        server = servers(data=filled)
        done = as_owner("import", "--url", url(server), *flags, file)
        server.terminate()
    else:
        done = run("import", "--data", filled, *flags, file)
    if value is None:
        assert done.returncode == 0 and exported(filled) is None
    elif result is None:
        assert done.returncode == BAD_DATA and done.stderr, done.stderr
        assert exported(filled) == before
    else:
        assert done.returncode == 0, done.stderr
        assert exported(filled) == result
    assert run("check", "data", filled).returncode == 0


def test_replace_and_merge_exclude_each_other_and_so_do_data_and_url(tmp_path):
    file = write(tmp_path / "in.json", 1)
    for arguments in (["--data", tmp_path / "d", "--replace", "--merge", file], [file],
                      ["--data", tmp_path / "d", "--url", "http://127.0.0.1:1", file],
                      ["--url", "ftp://127.0.0.1:1", file], ["--url", "nonsense", file]):
        assert run("import", *arguments).returncode == USAGE, arguments
    assert not (tmp_path / "d").exists()


def test_a_large_file_round_trip_and_a_server_on_it(tmp_path, servers):
    value = {"rows": many(30_000), "text": "é🐵" * 100_000}
    file, data, out = write(tmp_path / "in.json", value), tmp_path / "data", tmp_path / "out.json"
    assert run("import", "--data", data, file).returncode == 0
    done = run("export", "--data", data, "--output", out)
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text()) == value
    with gzip.open(tmp_path / "in.json.gz", "wb", 1) as packed:
        packed.write(file.read_bytes())
    assert run("import", "--data", tmp_path / "other", tmp_path / "in.json.gz").returncode == 0
    assert run("export", "--data", tmp_path / "other", "--output", out).returncode == 0
    assert json.loads(out.read_text()) == value
    server = servers(data=data)
    with Connection(server.port, "default") as connection:
        connection.must("p", {"p": "/rows/-N0000000000000000007/name", "d": "changed"})
    server.kill()
    value["rows"]["-N0000000000000000007"]["name"] = "changed"
    assert exported(data) == value
    assert run("check", "data", data).returncode == 0


LATE = {
    "not JSON": ('"last":tru}', "/last"),
    "a bad key": ('"last":{"a/b":1}}', "/last"),
    "cut": ('"last":{"a":[1', "/last/a"),
    "too deep": ('"last":' + '{"a":' * 40 + "1" + "}" * 40 + "}", "/last/a"),
    "something behind": '"last":1} 2',
}


@pytest.mark.parametrize("name", LATE)
@pytest.mark.parametrize("place", ["new", "filled", "server"])
def test_a_mistake_at_the_end_of_a_large_file_changes_nothing(filled, tmp_path, servers, name, place):
    end, path = LATE[name] if isinstance(LATE[name], tuple) else (LATE[name], "/")
    text = json.dumps({"rows": many(20_000)})[:-1] + "," + end
    file, before = write(tmp_path / "bad.json", text), exported(filled)

    def checkpoints():
        return {path.name: path.read_bytes() for path in filled.glob("checkpoint-*")}

    files = checkpoints()
    if place == "new":
        done = run("import", "--data", tmp_path / "fresh", file)
        assert not (tmp_path / "fresh").exists(), "nothing was made for data that is bad"
    elif place == "filled":
        done = run("import", "--data", filled, "--replace", file)
        assert files and checkpoints() == files
    else:
        server = servers(data=filled)
        done = as_owner("import", "--url", url(server), "--replace", file)
        server.terminate()
    assert done.returncode == BAD_DATA and "byte " in done.stderr and path in done.stderr, done.stderr
    assert exported(filled) == before


def test_a_directory_with_imports_is_checked_from_the_last_one_on(tmp_path, servers):
    """The first import is the oldest checkpoint; the database of the second is in no record of the journal."""
    data, file = tmp_path / "data", write(tmp_path / "in.json", {"a": 1})
    assert run("import", "--data", data, file).returncode == 0
    assert run("import", "--data", data, "--namespace", "shop", file).returncode == 0
    server = servers(data=data)
    with Connection(server.port, "shop") as connection:
        connection.must("p", {"p": "/b", "d": 5})
    server.terminate()
    check = run("check", "data", data)
    assert check.returncode == 0, check.stdout
    assert exported(data, "--namespace", "shop") == {"a": 1, "b": 5}


def test_an_import_removes_no_checkpoint_and_no_journal(tmp_path, servers):
    server = servers(arguments=["--keep-checkpoints", 50, "--checkpoint-bytes", 65536, "--segment-bytes", 65536])
    with Connection(server.port, "default") as connection:
        for number in range(24):
            connection.must("p", {"p": f"/a{number}", "d": "x" * 30_000})
    server.terminate()

    def files():
        return {path.name for path in server.data.iterdir() if path.name.startswith(("checkpoint-", "journal-"))}

    before = files()
    assert run("import", "--data", server.data, "--path", "/new", write(tmp_path / "in.json", {"a": 1})).returncode == 0
    assert before < files()
    done = run("restore", server.data, "--data", tmp_path / "restored", "--until-sequence", 3)
    assert done.returncode == 0, done.stderr
    assert run("check", "data", server.data).returncode == 0


def test_damaged_gzip_is_no_data(tmp_path):
    packed = gzip.compress(json.dumps(many(2000)).encode())
    for name, content in (("cut", packed[:-20]), ("flipped", packed[:500] + bytes([packed[500] ^ 1]) + packed[501:])):
        file = tmp_path / name
        file.write_bytes(content)
        assert run("import", "--data", tmp_path / "data", file).returncode == BAD_DATA, name
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("file, code", [("missing.json", BAD_DATA), (".", BAD_DATA)])
def test_a_file_that_cannot_be_read(tmp_path, file, code):
    assert run("import", "--data", tmp_path / "data", tmp_path / file).returncode == code
    assert not (tmp_path / "data").exists()


def kill_at_any_moment(directory, original, command, new):
    """A command that makes a data directory hold `new` replaces all or nothing when it is killed.

    The moments are spread over how long an undisturbed run takes. Each run has a copy of the `original` directory,
    for which `command` gives the arguments.
    """
    old = exported(original)
    shutil.copytree(original, directory / "copy")
    began = time.monotonic()
    assert run(*command(directory / "copy")).returncode == 0
    duration, count, seen = time.monotonic() - began, 16, set()
    for number in range(count):
        data = directory / f"data{number}"
        shutil.copytree(original, data)
        process = subprocess.Popen([str(server_module.BINARY), *map(str, command(data))],
                                   stderr=subprocess.DEVNULL, env=server_module.clean_environment())
        try:
            process.wait(duration * number / (count - 2))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.wait()
        found = exported(data)
        assert found in (old, new), f"half of it, killed after {number}/{count}"
        seen.add(found == old)
        assert run("check", "data", data).returncode == 0
        # The next one is not hindered by what the last has left.
        assert run("namespace", "create", "--data", data, "other").returncode == 0
        assert exported(data) == found
        assert not list(data.glob("*.new"))
        assert run("check", "data", data).returncode == 0
        shutil.rmtree(data)
    assert True in seen


def test_kill_9_at_any_moment_of_an_import_leaves_all_or_nothing(tmp_path, filled):
    value = {"rows": many(20_000)}
    file = write(tmp_path / "in.json", value)
    kill_at_any_moment(tmp_path, filled, lambda data: ("import", "--data", data, "--replace", file), value)


@pytest.mark.parametrize("command", ["import", "export"])
def test_a_full_disk_changes_nothing(tmp_path, filled, command):
    """A file may not be longer than so many bytes: the kernel refuses, as it does when a disk is full (EFBIG, ENOSPC)."""
    file, before = write(tmp_path / "in.json", {"rows": many(5000)}), exported(filled)
    big = tmp_path / "big"
    assert run("import", "--data", big, file).returncode == 0

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    if command == "import":
        done = run("import", "--data", filled, "--replace", file, preexec_fn=limit)
    else:
        out = write(tmp_path / "out.json", "kept")
        done = run("export", "--data", big, "--output", out, preexec_fn=limit)
        assert out.read_text() == "kept" and not list(tmp_path.glob("out.json.*"))
    assert done.returncode == DISK_FAILURE and done.stderr, (done.returncode, done.stderr)
    assert exported(filled) == before
    assert not list(filled.glob("*.new"))
    assert run("check", "data", filled).returncode == 0


@pytest.mark.parametrize("fault", [{"FAULT_FLIPPED_BIT": ".chk"}, {"FAULT_BEHIND_CACHE": ".chk.new"}], ids=["written", "behind the cache"])
def test_a_bit_that_the_disk_changes_is_found_before_the_import_counts(tmp_path, filled, disk_faults, fault):
    """Also where the bytes in memory are good: the import is read back from the disk."""
    file, before = write(tmp_path / "in.json", {"rows": many(500)}), exported(filled)
    done = run_on_bad_disk(disk_faults, "import", "--data", filled, "--replace", file, **fault)
    assert done.returncode == DISK_FAILURE and "is read back otherwise" in done.stderr, done
    assert exported(filled) == before
    assert run("check", "data", filled).returncode == 0


def test_imports_in_a_row_keep_two_checkpoints(tmp_path, filled):
    for number in range(5):
        file = write(tmp_path / "in.json", {"round": number})
        assert run("import", "--data", filled, "--replace", file).returncode == 0
        assert len(list(filled.glob("checkpoint-*.chk"))) <= 2 and len(list(filled.glob("journal-*.log"))) <= 2
        assert run("check", "data", filled).returncode == 0
    assert exported(filled) == {"round": 4}


def test_an_import_that_has_its_name_says_that_it_has_taken_effect(tmp_path, filled, disk_faults):
    file, name = write(tmp_path / "in.json", {"rows": many(500)}), "checkpoint-00000001-0000000000000002.chk"
    done = run_on_bad_disk(disk_faults, "import", "--data", filled, "--replace", file, FAULT_BEHIND_NAME=name)
    assert done.returncode == DISK_FAILURE and "has taken effect" in done.stderr and name in done.stderr, done
    assert exported(filled) == {"rows": many(500)}


@pytest.mark.parametrize("offset", [10, 200])
def test_a_damaged_import_is_named_and_not_the_segment_behind_it(tmp_path, filled, servers, offset):
    """The server has written behind the import since: what it wrote is in that segment only."""
    assert run("import", "--data", filled, "--path", "/new", write(tmp_path / "in.json", {"a": 1})).returncode == 0
    server = servers(data=filled)
    with Connection(server.port, "default") as connection:
        connection.must("p", {"p": "/b", "d": 5})
    server.kill()
    imported = filled / "checkpoint-00000001-0000000000000002.chk"
    content = bytearray(imported.read_bytes())
    content[min(offset, len(content) - 1)] ^= 4
    imported.write_bytes(content)
    with pytest.raises(StartFailure) as failure:
        servers(data=filled)
    assert failure.value.code == BAD_DATA and f"pando: {imported.name}, byte " in str(failure.value)
    assert "move the file away" not in str(failure.value)
    check = run("check", "data", filled)
    assert check.returncode == 1 and check.stdout.count(", byte ") == 1 and imported.name in check.stdout, check


def test_an_online_import_in_several_writes_is_reported(tmp_path, servers):
    value = {"rows": many(40_000), "big": {"deep": many(15_000), ".priority": 7}, "small": 1}
    file, server = write(tmp_path / "in.json", value), servers()
    done = as_owner("import", "--url", url(server), "--namespace", "other", "--path", "/here there", file)
    assert done.returncode == 0 and done.stderr.count("atomic") == 2, done.stderr
    assert int(done.stderr.split(" writes")[0].split()[-1]) > 1, done.stderr
    out = tmp_path / "out.json"
    done = as_owner("export", "--url", url(server), "--namespace", "other", "--output", out, "/here there")
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text()) == value
    server.terminate()
    assert exported(server.data, "--namespace", "other", "/here there") == value


@pytest.mark.parametrize("flags", [["--replace"], ["--merge"]])
def test_an_online_import_that_is_refused_midway_removes_nothing(filled, tmp_path, servers, flags):
    """The server takes the small rows, and not the string behind them."""
    before = exported(filled)
    file = write(tmp_path / "in.json", {"rows": many(500), "z": "x" * 20_000})
    server = servers(data=filled, arguments=["--max-write-bytes", 10_000])
    done = as_owner("import", "--url", url(server), *flags, file)
    assert done.returncode == BAD_DATA and "413" in done.stderr, done.stderr
    assert " bytes of " in done.stderr and f"again with {flags[0]}" in done.stderr, done.stderr
    server.terminate()
    after = exported(filled)
    assert {name: after.get(name) for name in before} == before
    assert after["rows"] == many(500)


@pytest.mark.parametrize("limit", [20_000, 1 << 28])
@pytest.mark.parametrize("flags", [["--replace"], ["--merge"]])
def test_an_online_import_where_less_is_accepted_at_once(tmp_path, servers, flags, limit):
    """What an object has besides is removed where the object is written in parts, too."""
    data, rows = tmp_path / "data", many(3000)
    old = {"rows": {"old": 1, **{name: {"extra": 2} for name in list(rows)[:9]}, ".priority": 3}, "small": {"b": 2}, "kept": 4}
    assert run("import", "--data", data, "--path", "/p", write(tmp_path / "old.json", old)).returncode == 0
    server = servers(data=data, arguments=["--max-write-bytes", limit])
    value = {"rows": rows, "small": {"a": 1}}
    done = as_owner("import", "--url", url(server), "--path", "/p", *flags, write(tmp_path / "in.json", value))
    assert done.returncode == 0, done.stderr
    assert ("written in chunks" in done.stderr) == (limit == 20_000), done.stderr
    server.terminate()
    assert exported(data, "/p") == (value if flags == ["--replace"] else {**value, "kept": 4})


def test_children_of_an_object_in_parts_are_removed_page_by_page(tmp_path, servers):
    """There are more than one list of names holds."""
    data, rows = tmp_path / "data", many(12_000)
    old = {f"a{number}": number for number in range(25_000)}
    assert run("import", "--data", data, write(tmp_path / "old.json", old)).returncode == 0
    server = servers(data=data, arguments=["--max-write-bytes", 200_000])
    done = as_owner("import", "--url", url(server), "--replace", write(tmp_path / "in.json", rows))
    assert done.returncode == 0, done.stderr
    server.terminate()
    assert exported(data) == rows


@pytest.mark.parametrize("arguments, code", [
    (["import", "--url", "{url}", "{file}"], BAD_CONFIGURATION),
    (["export", "--url", "{url}"], BAD_CONFIGURATION),
    (["backup", "--url", "{url}", "--output", "{out}"], BAD_CONFIGURATION),
    (["backup", "--url", "http://127.0.0.1:1", "--output", "{out}"], BAD_CONFIGURATION),
])
def test_an_import_without_administrator_rights_is_refused(tmp_path, servers, arguments, code):
    server = servers(dev=False)
    names = {"url": url(server), "file": write(tmp_path / "in.json", {"a": 1}), "out": tmp_path / "out"}
    done = run(*(argument.format(**names) for argument in arguments))
    assert done.returncode == code and done.stderr, (done.returncode, done.stderr)
    assert not list(tmp_path.glob("out*"))


def test_a_progress_bar_is_shown_only_on_a_terminal(tmp_path):
    file = write(tmp_path / "in.json", {"rows": many(20_000)})
    done = run("import", "--data", tmp_path / "a", file)
    assert done.stderr.startswith("imported ") and "\r" not in done.stderr
    assert run("import", "--data", tmp_path / "b", "--quiet", file).stderr == ""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([str(server_module.BINARY), "import", "--data", str(tmp_path / "c"), str(file)],
                               stderr=theirs, stdout=subprocess.DEVNULL, env=server_module.clean_environment())
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the last of the other side has gone
            break
        shown += piece
        if not piece:
            break
    os.close(ours)
    assert process.wait(60) == 0
    text = shown.decode()
    assert "%" in text and "█" in text and "/s" in text and "left" in text, text


def test_an_output_that_is_no_file_is_refused(tmp_path, filled):
    done = run("export", "--data", filled, "--output", tmp_path)
    assert done.returncode == BAD_CONFIGURATION
    done = run("export", "--data", filled, "--output", tmp_path / "no" / "such" / "place")
    assert done.returncode == DISK_FAILURE


@pytest.mark.parametrize("arguments, code", [
    (["import", "--data", "{new}", "--namespace", "no.such/name", "{file}"], USAGE),
    (["import", "--data", "{new}", "--path", "/a/.b", "{file}"], USAGE),
    (["import", "--data", "{new}", "--path", "/a$b", "{file}"], USAGE),
    (["export", "--data", "{data}", "--namespace", "missing"], BAD_CONFIGURATION),
    (["export", "--data", "{new}"], BAD_CONFIGURATION),
    (["backup", "--data", "{new}", "--output", "{out}"], BAD_CONFIGURATION),
    (["restore", "{new}", "--data", "{out}"], BAD_DATA),
    (["restore", "{data}", "--data", "{out}", "--until-time", "tomorrow"], USAGE),
    (["restore", "{data}", "--data", "{out}", "--until-time", "1", "--until-sequence", "1"], USAGE),
    (["check", "backup", "{new}"], 1),
], ids=lambda value: " ".join(value) if isinstance(value, list) else None)
def test_missing_files_and_unknown_names_are_reported(filled, tmp_path, arguments, code):
    names = {"data": filled, "new": tmp_path / "new", "out": tmp_path / "out", "file": write(tmp_path / "in.json", {"a": 1})}
    done = run(*(argument.format(**names) for argument in arguments))
    assert done.returncode == code and done.stderr + done.stdout, (done.returncode, done.stderr)
    assert not (tmp_path / "new").exists() and not list(tmp_path.glob("out*"))
