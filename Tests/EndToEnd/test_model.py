"""The model in tree.py itself, against the document's tables: a wrong ruler measures nothing."""

import pytest

import tree

RANGE_MERGES = [  # before, entries, after (9.7)
    ({"bar": "b", "foo": "f", "quu": "q"}, [{"s": "bar", "e": "foo", "m": {"foo": "new"}}],
     {"bar": "b", "foo": "new", "quu": "q"}),
    ({"bar": "b", "foo": "f"}, [{"e": "foo", "m": {"baz": "z"}}], {"baz": "z"}),
    ({"foo": {"child": 1}}, [{"e": "foo", "m": {"baz": "z"}}], {"baz": "z", "foo": {"child": 1}}),
    ("leaf", [{"m": {"a": 1}}], {"a": 1}),
    ({"x": {"y": 1}}, [{"m": None}], None),
    ({"k": {"a": {"1": 1, "2": 2}, "b": "b", "c": "c", "d": "d"}},
     [{"s": "k/a/1", "e": "k/c", "m": {"k": {"a": {"2": "n", "3": 3}, "c": "n"}}}],
     {"k": {"a": {"1": 1, "2": "n", "3": 3}, "c": "n", "d": "d"}}),
    ({"bar": "b", "foo": "f", ".priority": "p"}, [{"e": "bar", "m": {"bar": "n"}}], {"bar": "n", "foo": "f"}),
]

PUSH_ID_TIMES = [
    (0, "--------"), (1438207442000, "-JvQpzlF"), (1700000000000, "-NjEtLV-"), (1700000000001, "-NjEtLV0"),
    (2**48 - 1, "zzzzzzzz"),
]

WRITES = [  # before, path, value, after (8.4)
    (None, "a/b", 1, {"a": {"b": 1}}),
    ({"a": {"b": 1}}, "a/b", None, None),
    ({".value": "leaf", ".priority": 4}, "x", 1, {"x": 1, ".priority": 4}),
    ({".value": "leaf", ".priority": 4}, "x", None, {".value": "leaf", ".priority": 4}),
    ({"a": 1}, ".priority", 5, {"a": 1, ".priority": 5}),
    ({"a": {"b": 1, ".priority": 2}, "c": 1}, "a/b", None, {"c": 1}),
]


@pytest.mark.parametrize("before, entries, after", RANGE_MERGES)
def test_range_merges_of_9_7(before, entries, after):
    assert tree.export(tree.apply_range_merge(tree.parse(before), entries)) == after


@pytest.mark.parametrize("milliseconds, text", PUSH_ID_TIMES)
def test_push_id_times_of_13_2(milliseconds, text):
    assert tree.PushIDs.digits(milliseconds, 8) == text


@pytest.mark.parametrize("before, path, value, after", WRITES)
def test_writes_of_8_4(before, path, value, after):
    assert tree.export(tree.put(tree.parse(before), tree.segments(path), tree.parse(value))) == after
