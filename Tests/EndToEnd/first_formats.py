"""Makes Tests/Journal/Fixtures/version-1-first: data of the first versions that had checkpoints, backups and archives, written from the
descriptions of their formats. No program of that time is kept; today's writes kinds of records and files that they did not have.

    .build-e2e/venv/bin/python Tests/EndToEnd/first_formats.py DIRECTORY

| What | As described in | Of the version of commit |
|---|---|---|
| journal: kinds 1 to 7, no writers, no zeros in advance | `Sources/Journal/JournalFormat.swift`, `Sources/Engine/LogRecord.swift` | 2c7de17 |
| checkpoints: kinds 2 to 6 and 8, no flags | `Sources/Journal/CheckpointFormat.swift`, `Sources/Engine/TreeRecord.swift` | 2c7de17 |
| `monday.backup`: the file of `pando backup` | the same as a checkpoint | 3b295b1 |
| `backups`: scheduled ones | the same, `Sources/Storage/Backups/BackupName.swift` | f0f4d37 |
| `archive`: segments, no `pando-place`, no history of timelines | `Sources/Journal/Archive/LogArchive.swift` | f0f4d37 |
"""

import json
import pathlib
import shutil
import struct
import sys
import time

DIRECTORY_ID = bytes(range(1, 17))
TIMELINE = 1
BEGAN = 1_795_000_000_000  # of the first record, milliseconds since 1970; each later one is a second later
DELTA, RULES, SETTINGS, NAMESPACE_MADE, NAMESPACE_DELETED, REGISTERED, CANCELLED, TREE = range(1, 9)
BEGIN, COMMIT = 1, 2
STANDARD, SECOND, DELETED = 1, 2, 3  # numbers of databases
SESSION = 0x7_0000_0001
RULES_TEXT = b'{"rules": {".read": true, ".write": true, "rows": {".indexOn": "n"}}}'
SETTING = b"\x15defaultWriteSizeLimit" + b'"small"'


def crc32c(data, crc=0):
    """RFC 3720, appendix B.4; continues another one."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# Parts of payloads


def varint(number):
    parts = []
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def counted(text):
    data = text.encode()
    return varint(len(data)) + data


def counted_json(value):
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return struct.pack("<I", len(data)) + data


def delta(base, changes):
    """Sets and removals at paths below the base."""
    return counted(base) + varint(len(changes)) + b"".join(counted(path) + counted_json(value) for path, value in changes)


def registered(path, value, placeholder=None):
    """One pending onDisconnect write of an administrator who has no `auth`; a placeholder is a path below it, for the time."""
    places = varint(1) + counted(placeholder) + b"\0" if placeholder else varint(0)
    depth = 1 if isinstance(value, dict) else 0
    return struct.pack("<Q", SESSION) + b"\1\0" + varint(1) + counted(path) + counted_json(value) + varint(depth) + places


def node(value):
    """A value of a tree; a priority stands as `.priority`, as in an export."""
    if isinstance(value, dict) and ".priority" in value:
        rest = {key: child for key, child in value.items() if key != ".priority"}
        return b"\6" + node(value[".priority"]) + node(rest[".value"] if ".value" in rest else rest)
    if isinstance(value, dict):
        return b"\5" + varint(len(value)) + b"".join(counted(key) + node(child) for key, child in value.items())
    if isinstance(value, bool):
        return b"\1" if value else b"\0"
    if isinstance(value, int):
        return b"\2" + varint((value << 1 ^ value >> 63) & (1 << 64) - 1)
    if isinstance(value, float):
        return b"\3" + struct.pack("<d", value)
    return b"\4" + counted(value)


def leaf(path, value):
    return counted(path) + b"\0" + node(value)


def children(path, value):
    return counted(path) + b"\1" + b"".join(counted(key) + node(child) for key, child in value.items())


def priority(path, value):
    return counted(path) + b"\2" + node(value)


# What happened. An entry is one or more records: kind, database, payload.

ENTRIES = [
    [(DELTA, STANDARD, delta("", [("a", {".priority": "p", "b": 1, "c": {"0": 1, "1": 2.5, "3": "é🐵"}}), ("x/y", {".value": True, ".priority": 3})]))],
    [(RULES, STANDARD, RULES_TEXT)],
    [(SETTINGS, STANDARD, SETTING)],
    [(NAMESPACE_MADE, SECOND, b"second")],
    [(DELTA, SECOND, delta("z", [("", -(1 << 63))]))],
    # The older checkpoint is behind these five.
    [(NAMESPACE_MADE, DELETED, b"deleted")],
    [(NAMESPACE_DELETED, DELETED, b"")],
    [(REGISTERED, STANDARD, registered("ended", "was there"))],
    # The end of a session: its write, and that nothing of it waits any more, as one entry.
    [(DELTA, STANDARD, delta("ended", [("", "was there")])), (CANCELLED, STANDARD, struct.pack("<Q", SESSION) + b"\1")],
    [(REGISTERED, SECOND, registered("gone", {"at": 0, "n": 2}, placeholder="at"))],
    # The newer checkpoint is behind these ten, which are records 1 to 11.
    [(DELTA, STANDARD, delta("a", [("b", None), ("c/1", 7)]))],
    [(DELTA, STANDARD, delta("rows", [("r1", {"n": 1}), ("r2", {"n": 2, ".priority": -1.5})]))],
    [(REGISTERED, SECOND, registered("never", 1))],
    [(CANCELLED, SECOND, struct.pack("<Q", SESSION) + b"\0" + counted("never"))],
]
OLDER, NEWER, LAST = 5, 11, 15  # sequences
STATE_AT_OLDER = [
    (RULES, STANDARD, RULES_TEXT),
    (SETTINGS, STANDARD, SETTING),
    # In parts, as a large tree: children, a priority behind them, a leaf with its own.
    (TREE, STANDARD, children("a", {"b": 1, "c": {"0": 1, "1": 2.5, "3": "é🐵"}})),
    (TREE, STANDARD, priority("a", "p")),
    (TREE, STANDARD, children("x", {"y": {".value": True, ".priority": 3}})),
    (NAMESPACE_MADE, SECOND, b"second"),
    (TREE, SECOND, leaf("z", -(1 << 63))),
]
STATE_AT_NEWER = [
    (RULES, STANDARD, RULES_TEXT),
    (SETTINGS, STANDARD, SETTING),
    (TREE, STANDARD, children("", {
        "a": {".priority": "p", "b": 1, "c": {"0": 1, "1": 2.5, "3": "é🐵"}}, "ended": "was there",
        "x": {"y": {".value": True, ".priority": 3}}})),
    (NAMESPACE_MADE, SECOND, b"second"),
    (TREE, SECOND, children("", {"z": -(1 << 63)})),
    (REGISTERED, SECOND, registered("gone", {"at": 0, "n": 2}, placeholder="at")),
    # The number of the database that is gone stays used.
    (NAMESPACE_DELETED, DELETED, b""),
]


# Files


def segments():
    """Name and bytes of each segment: one ends where the newer checkpoint was made."""
    records, sequence = [], 0
    for entry in ENTRIES:
        first = sequence + 1
        for place, (kind, database, payload) in enumerate(entry):
            sequence += 1
            flags = (BEGIN if place == 0 else 0) | (COMMIT if place == len(entry) - 1 else 0)
            records.append((sequence, first - 1, kind, flags, database, payload))
    assert sequence == LAST
    for low, high in ((1, NEWER), (NEWER + 1, LAST)):
        header = b"PNDOJRN1" + struct.pack("<I16sIQI", 1, DIRECTORY_ID, TIMELINE, low, 0)
        seed = crc32c(header)
        data = header + struct.pack("<I", seed)
        for sequence, durable, kind, flags, database, payload in records:
            if low <= sequence <= high:
                body = struct.pack("<IHHIQQQ", len(payload), kind, flags, database, sequence, BEGAN + 1000 * sequence, durable)
                body += payload + bytes(-len(payload) % 8)
                data += struct.pack("<I", crc32c(body, seed)) + body
        yield f"journal-{TIMELINE:08x}-{low:016x}.log", data


def checkpoint(sequence, records):
    header = b"PNDOCHK1" + struct.pack("<I16sIQQI", 1, DIRECTORY_ID, TIMELINE, sequence, BEGAN + 1000 * sequence, 0)
    seed = crc32c(header)

    def block(first, content):
        body = struct.pack("<IQ", len(content), first) + content
        return struct.pack("<I", crc32c(body, seed)) + body

    data, half = header + struct.pack("<I", seed), len(records) // 2
    for first, part in ((0, records[:half]), (half, records[half:])):
        data += block(first, b"".join(
            struct.pack("<IHHI", len(payload), kind, 0, database) + payload for kind, database, payload in part))
    return data + block(len(records), b"")


def files():
    """Every file of the fixture by its path."""
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime((BEGAN + 1000 * OLDER) / 1000))
    older, newer = checkpoint(OLDER, STATE_AT_OLDER), checkpoint(NEWER, STATE_AT_NEWER)
    (first, first_bytes), (second, second_bytes) = segments()
    return {
        f"data/checkpoint-{TIMELINE:08x}-{OLDER:016x}.chk": older, f"data/checkpoint-{TIMELINE:08x}-{NEWER:016x}.chk": newer,
        f"data/{first}": first_bytes, f"data/{second}": second_bytes,
        "monday.backup": newer,
        f"backups/pando-{moment}.000Z-{TIMELINE}-{OLDER}.backup": older,
        f"archive/{first}": first_bytes, f"archive/{second}.partial": second_bytes,
    }


def make(target):
    shutil.rmtree(target, ignore_errors=True)
    for path, data in files().items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_bytes(data)


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
