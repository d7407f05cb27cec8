"""The page public/docs/moving.md, followed: its shell commands run one after the other, with an export in the console's format."""

import json
import os
import random
import re
import signal
import subprocess

import pytest

import server as server_module
from server import REPOSITORY

PAGE = REPOSITORY / "public/docs/moving.md"
BLOCK = re.compile(r"^( *)```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
PUSH_ID = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
DEADLINE = 240


def blocks():
    """The page's commands for a shell, without their indentation."""
    return [re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) for indent, text in BLOCK.findall(PAGE.read_text())]


def an_export(random, users=400):
    """What the console exports: push ids, priorities of leaves and of objects, keys of every kind; some megabytes."""
    def push_id():
        return "".join(random.choice(PUSH_ID) for _ in range(20))

    notes = {}
    for number in range(users):
        notes[f"user{number:04d}"] = {
            push_id(): {
                "text": "".join(random.choice("abcdefgh äöü€😀") for _ in range(200)), "at": 1_700_000_000_000 + number,
                "done": random.random() < 0.5, "stars": random.choice([0, 0.5, 1e300, -7, 2**53]),
                ".priority": random.choice([number, "soon", 1.5]),
            } for _ in range(40)
        }
    notes["alice"] = {"first": {".value": "a leaf with a priority", ".priority": 3}, "second": "plain"}
    notes["bob"] = {"private": True}
    return {
        "notes": notes, "keys": {"with space": 1, "ümläut": 2, "日本語": 3, "0": "a", "10": "b", "-5": "c", "'quote\"": "d"},
        "list": ["zero", "one", None, "three"], "empty strings": {"x": ""}, "deep": {"a": {"b": {"c": {"d": {"e": False}}}}},
    }


RULES = """{
  // As the console shows them, comments included.
  "rules": {
    ".read": false,
    "notes": {"$uid": {".read": "auth.uid === $uid", ".write": "auth.uid === $uid", ".indexOn": ["at"]}}
  }
}"""


@pytest.fixture
def folder(tmp_path):
    """Where the commands run, with the files that the first step has."""
    (tmp_path / "export.json").write_text(json.dumps(an_export(random.Random(7)), ensure_ascii=False))
    (tmp_path / "rules.json").write_text(RULES)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "pando").symlink_to(server_module.BINARY)
    return tmp_path


def test_the_page_is_followed_from_the_export_to_the_way_back(folder):
    assert (folder / "export.json").stat().st_size > 5_000_000
    commands = blocks()
    assert len(commands) >= 6
    script = "set -u\nstep() { echo \"== $1\"; }\n" + "\n".join(
        f"step {number}\n{text}" for number, text in enumerate(commands))
    environment = server_module.clean_environment()
    environment["PATH"] = f"{folder / 'programs'}:{environment['PATH']}"
    process = subprocess.Popen(
        ["bash", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate()[0]
        raise AssertionError(f"not done in {DEADLINE} s\n{output[-4000:]}") from None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    assert process.returncode == 0, output[-4000:]
    assert "the same data" in output
    assert "rules.json: no problems" in output
    assert "2 passed, 0 failed" in output
    assert '"second":true' in output and "Permission denied" in output
    back = json.loads((folder / "back.json").read_text())
    expected = an_export(random.Random(7))
    expected["notes"]["alice"]["last"] = "written here"
    assert canonical(back) == canonical(expected)
    assert list((folder / "archive").glob("journal-*"))


def canonical(value):
    """Lists as the objects that they are, numbers as doubles, and nothing for nulls."""
    if isinstance(value, list):
        value = {str(index): child for index, child in enumerate(value)}
    if isinstance(value, dict):
        return {key: canonical(child) for key, child in value.items() if child is not None}
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
