"""A large export in the format of Firebase's console, the same for each seed: push ids, priorities of leaves and of objects, lists
with holes, keys and numbers of every kind. It is written user by user, so making it takes little memory."""

import json
import random

PUSH_ID = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
ALPHABET = "abcdefgh äöü€😀\"\\\n\t\u2028"
NOTES_OF_A_USER = 40
# Keys that Firebase accepts: at most 768 bytes, none of `.$#[]/`, no control character.
ODD_KEYS = [
    "with space", " ", "ümläut", "e\u0301", "日本語", "😀", "\uffee", "zero\u200bwidth", "'quote\"", "back\\slash", "a%2Fb", "a+b&c=d?e",
    "{}", "<b>", "__proto__", "constructor", "null", "true", "-", "--", "-0", "-5", "0", "00", "01", "1", "10", "1e3", "2147483647",
    "2147483648", "-2147483648", "-2147483649", "9007199254740993", "k" * 768, "€" * 256, "😀" * 192,
]
# Numbers of a Firebase database are doubles.
NUMBERS = [0, 1, -7, 0.5, -0.1, 2**31, -(2**53), 2**53, 1e21, 1e300, 5e-324, 1.7976931348623157e308, 123456789.123456789]
DEPTH = 30  # objects below a key of the root: Firebase allows a depth of 32


def note(chosen, number, text):
    """An object or, one in eight, a leaf with a priority."""
    if number % 8 == 7:
        return {".value": text(150), ".priority": chosen.choice([number, "soon", -1.5])}
    value = {"at": 1_700_000_000_000 + number, "done": chosen.random() < 0.5, "stars": chosen.choice(NUMBERS), "text": text(200)}
    if number % 3 == 0:
        value[".priority"] = chosen.choice([number, "later", 1.5, ""])
    if number % 10 == 0:
        value["tags"] = ["one", None, "three", {"four": number}]
    return value


def users(chosen, text):
    """Keys and values of the users, without an end."""
    yield "alice", {"first": {".value": "a leaf with a priority", ".priority": 3}, "second": "plain"}
    yield "bob", {"private": True}
    number = 0
    while True:
        keys = sorted("".join(chosen.choices(PUSH_ID, k=20)) for _ in range(NOTES_OF_A_USER))
        yield f"user{number // NOTES_OF_A_USER:06d}", {key: note(chosen, number + place, text) for place, key in enumerate(keys)}
        number += NOTES_OF_A_USER


def others(text):
    """The other children of the root."""
    deep = False
    for level in range(DEPTH):
        deep = {f"level{level}": deep}
    return {
        "deep": deep,
        "empty strings": {"x": "", "y": {".value": "", ".priority": ""}},
        "keys": {key: {"n": number, ".priority": number} if number % 2 else number for number, key in enumerate(ODD_KEYS)},
        "list": ["zero", "one", None, "three", [None, {"nested": ["a"]}]],
        "long": text(90_000) * 10,
        "numbers": {f"n{place}": number for place, number in enumerate(NUMBERS)},
    }


def write_export(path, seed, byte_count):
    """Writes a file of `byte_count` bytes or a little more."""
    chosen = random.Random(seed)
    long = "".join(chosen.choices(ALPHABET, k=100_000))

    def text(length):
        start = chosen.randrange(len(long) - length)
        return long[start:start + length]

    def member(key, value):
        return f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}".encode()

    with open(path, "wb") as file:
        file.write(b"{\n")
        for key, value in others(text).items():
            file.write(b"  " + member(key, value) + b",\n")
        file.write(b'  "notes": {\n')
        separator = b""
        for key, value in users(chosen, text):
            file.write(separator + b"    " + member(key, value))
            separator = b",\n"
            if file.tell() >= byte_count:
                break
        file.write(b"\n  }\n}\n")
