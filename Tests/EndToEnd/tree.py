"""An independent model of the database tree, written from the wire protocol document alone.

Nothing here is shared with the server: the same rules (data model, order, queries, hashes, range merges) are spelled
out a second time, slowly and plainly, so that the two can be compared.

A node is `None` (empty), a leaf `Node(value=…)` or an object `Node(children={key: Node})`; the latter two may carry
a priority. Nodes are never changed in place: `put` answers a new root.
"""

import base64
import hashlib
import re
import struct


class Node:
    """One non-empty node. Exactly one of `value` (a leaf) and `children` (an object) is meaningful."""

    __slots__ = ("value", "children", "priority")

    def __init__(self, value=None, children=None, priority=None):
        self.value, self.children, self.priority = value, children, priority

    @property
    def is_leaf(self):
        return self.children is None


# --- JSON in and out (data model: 8.2, 8.3) ---------------------------------------------------------------------


def parse(json_value):
    """JSON (export form) to node. Arrays become objects; empty things vanish; `.value` and `.priority` unwrap."""
    if json_value is None:
        return None
    if isinstance(json_value, list):
        json_value = {str(index): item for index, item in enumerate(json_value)}
    if not isinstance(json_value, dict):
        return Node(value=normal_number(json_value))
    priority = normal_number(json_value.get(".priority"))
    if json_value.get(".value") is not None:
        return Node(value=normal_number(json_value[".value"]), priority=priority)
    children = {}
    for key, item in json_value.items():
        child = None if key.startswith(".") else parse(item)
        if child is not None:
            children[key] = child
    return Node(children=children, priority=priority) if children else None


def export(node):
    """Node to JSON in export form: bare where there is no priority."""
    if node is None:
        return None
    if node.is_leaf:
        return node.value if node.priority is None else {".value": node.value, ".priority": node.priority}
    result = {key: export(child) for key, child in node.children.items()}
    if node.priority is not None:
        result[".priority"] = node.priority
    return result


def normal_number(value):
    """Integral doubles within 64 bits are integers, minus zero is zero (8.5)."""
    if isinstance(value, float) and value.is_integer() and -(2.0**63) <= value < 2.0**63:
        return int(value)
    return value


def same_json(left, right):
    """Equality of JSON as clients see it: `1` is not `true` and `1` is not `1.0`, but a priority 1 is 1.0."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            same_priority(left[key], right[key])
            if key == ".priority"
            else same_json(left[key], right[key])
            for key in left
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return type(left) is type(right) and left == right


def same_priority(left, right):
    """Priorities are doubles (8.5): 2^63-1 and 2^63 are one."""
    if any(isinstance(value, bool) for value in (left, right)):
        return False
    if isinstance(left, str) or isinstance(right, str):
        return left == right
    return float(left) == float(right)


# --- Paths and writes (8.4) -------------------------------------------------------------------------------------


def segments(path):
    """`/a/b`, `a/b` and `a//b/` are all ('a', 'b'); the root is ()."""
    return tuple(part for part in path.split("/") if part)


def get(node, path):
    for key in path:
        if node is None or node.is_leaf:
            return None
        node = node.children.get(key)
    return node


def put(node, path, new):
    """The tree after `new` (a node or None) has replaced what stood at `path`, with pruning upwards.

    An ancestor that was a leaf turns into an object and keeps its priority. A final `.priority` segment sets
    the priority of an existing node, and changes nothing when there is none.
    """
    if not path:
        return new
    key, rest = path[0], path[1:]
    if key == ".priority":
        if node is None:
            return None
        return Node(node.value, node.children, None if new is None else new.value)
    children = {} if node is None or node.is_leaf else node.children
    child = put(children.get(key), rest, new)
    if child is None:
        if node is None or node.is_leaf:
            return node  # deleting below nothing, or below a leaf, changes nothing
        children = {other: value for other, value in children.items() if other != key}
        return Node(children=children, priority=node.priority) if children else None
    return Node(children={**children, key: child}, priority=None if node is None else node.priority)


def merge(node, base, entries):
    """`entries` maps relative path texts to JSON. Priorities go last, so that they find their node."""
    for relative, value in sorted(entries.items(), key=lambda entry: entry[0].endswith(".priority")):
        node = put(node, base + segments(relative), parse(value))
    return node


# --- Order (7.3) ------------------------------------------------------------------------------------------------

MIN_KEYS, MAX_KEYS = {"[MIN_NAME]", "[MIN_KEY]"}, {"[MAX_NAME]", "[MAX_KEY]"}
INTEGER_KEY = re.compile(r"-?0*[0-9]{1,10}")
BELOW_ALL, ABOVE_ALL = (-1,), (9,)


def utf16(text):
    """Bytes that compare as the text's UTF-16 code units do."""
    return text.encode("utf-16-be", "surrogatepass")


def key_order(key):
    if key in MIN_KEYS:
        return (0,)
    if key in MAX_KEYS:
        return (3,)
    if INTEGER_KEY.fullmatch(key) and -(2**31) <= int(key) <= 2**31 - 1:
        return (1, int(key), len(key), utf16(key))
    return (2, utf16(key))


def path_order(path):
    """Per segment in key order; a path precedes its extensions."""
    return tuple(map(key_order, path))


def scalar_order(value):
    """null < false < true < numbers < strings. Also the order of priorities."""
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (2,) if value else (1,)
    if isinstance(value, (int, float)):
        return (3, float(value))
    return (4, utf16(value))


def node_order(node):
    if node is None:
        return (0,)
    return scalar_order(node.value) if node.is_leaf else (5,)


# --- Queries (7.1, 7.4) -----------------------------------------------------------------------------------------


def index_of(query):
    """A function of (key, child) that gives the child's place in the query's order, without the tie-break."""
    index = query.get("i")
    if index is None:
        return lambda key, child: scalar_order(child.priority)
    if index == ".key":
        return lambda key, child: ()
    path = () if index == ".value" else segments(index)
    return lambda key, child: node_order(get(child, path))


def in_order(node, query):
    """The children as (key, child) in the query's order, before bounds and limit."""
    if node is None or node.is_leaf:
        return []
    index = index_of(query)
    return sorted(node.children.items(), key=lambda item: (index(*item), key_order(item[0])))


def window(node, query):
    """The filtered node: an object of complete children, without the root's own priority."""
    index, by_key = index_of(query), query.get("i") == ".key"

    def bound(value_name, key_name, inclusive_name, open_end, far_end):
        """(place, whether the exact place is inside)"""
        inclusive = query.get(inclusive_name, True)
        value = query[value_name]
        if by_key:
            return ((), key_order(value)), inclusive
        if key_name in query:
            return (scalar_order(value), key_order(query[key_name])), inclusive
        return (scalar_order(value), open_end if inclusive else far_end), True

    children = [((index(key, child), key_order(key)), key, child) for key, child in in_order(node, query)]
    if "sp" in query:
        start, inside = bound("sp", "sn", "sin", BELOW_ALL, ABOVE_ALL)
        children = [row for row in children if row[0] > start or (inside and row[0] == start)]
    if "ep" in query:
        end, inside = bound("ep", "en", "ein", ABOVE_ALL, BELOW_ALL)
        children = [row for row in children if row[0] < end or (inside and row[0] == end)]
    if "l" in query:
        left = query.get("vf", "l" if "sp" in query else "r") == "l"
        children = children[: query["l"]] if left else children[-query["l"] :]
    return Node(children={key: child for _, key, child in children}) if children else None


# --- Hashes (9.1) -----------------------------------------------------------------------------------------------


def sha1_base64(text):
    return base64.b64encode(hashlib.sha1(text.encode("utf-8")).digest()).decode()


def scalar_text(value):
    if isinstance(value, bool):
        return "boolean:true" if value else "boolean:false"
    if isinstance(value, (int, float)):
        return "number:" + struct.pack(">d", float(value)).hex()
    return "string:" + value


def hash_text(node):
    """The string whose SHA-1 is the node's hash."""
    text = "" if node.priority is None else f"priority:{scalar_text(node.priority)}:"
    if node.is_leaf:
        return text + scalar_text(node.value)
    return text + "".join(f":{key}:{simple_hash(child)}" for key, child in in_order(node, {}))


def simple_hash(node):
    return "" if node is None else sha1_base64(hash_text(node))


# --- Compound hashes and range merges (9.6, 9.7) ----------------------------------------------------------------


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def range_scalar(value):
    return "string:" + quoted(value) if isinstance(value, str) else scalar_text(value)


def leaf_range_text(node):
    priority = "" if node.priority is None else f"priority:{range_scalar(node.priority)}:"
    return priority + range_scalar(node.value)


def leaves(node, path=(), quirk=True):
    """All (path, leaf node) in key order; an object's priority appears as a leaf `.priority` at its sorted place.

    With the quirk of the mobile clients the priority is left out when no key sorts after it.
    """
    if node is None:
        return
    if node.is_leaf:
        yield path, node
        return
    keys = sorted(node.children, key=key_order)
    if node.priority is not None and (not quirk or key_order(keys[-1]) > key_order(".priority")):
        keys = sorted([*keys, ".priority"], key=key_order)
    for key in keys:
        if key == ".priority":
            yield path + (key,), Node(value=node.priority)
        else:
            yield from leaves(node.children[key], path + (key,), quirk)


def range_text(rows):
    """The parenthesised nest that spells the leaves of one range."""

    def nest(rows, depth):
        if len(rows) == 1 and len(rows[0][0]) == depth:
            return leaf_range_text(rows[0][1])
        items, at = [], 0
        while at < len(rows):
            key, start = rows[at][0][depth], at
            while at < len(rows) and rows[at][0][depth] == key:
                at += 1
            items.append(f"{quoted(key)}:({nest(rows[start:at], depth + 1)})")
        return ",".join(items)

    return f"({nest(rows, 0)})"


def compound_hash(node, cuts):
    """The `ch` member for a cache cut after the given paths (texts such as `a/x`, or `/` for a leaf at the root)."""
    rows, hashes = list(leaves(node)), []
    for cut in cuts:
        end = path_order(segments(cut))
        taken = [row for row in rows if path_order(row[0]) <= end]
        rows = rows[len(taken) :]
        hashes.append(sha1_base64(range_text(taken)) if taken else "")
    assert not rows, "the last cut must be the last leaf"
    return {"ps": list(cuts), "hs": [*hashes, ""]}


def even_cuts(node, leaf_count):
    """Cut points after every `leaf_count` leaves, and after the last one."""
    paths = ["/".join(path) or "/" for path, _ in leaves(node)]
    return paths[leaf_count - 1 : -1 : leaf_count] + paths[-1:]


def apply_range_merge(node, ranges):
    """The client's side of `rm`: in each range drop the cached leaves, then graft the server's."""
    rows = list(leaves(node, quirk=False))
    for entry in ranges:
        start = path_order(segments(entry["s"])) if "s" in entry else None
        end = path_order(segments(entry["e"])) if "e" in entry else None

        def inside(path):
            place = path_order(path)
            return (start is None or place > start) and (end is None or place <= end)

        new = [row for row in leaves(parse(entry["m"]), quirk=False) if inside(row[0])]
        # A leaf replaces all that was below it, also what is behind the range.
        new_paths = {path for path, _ in new}
        rows = [
            row for row in rows
            if not inside(row[0]) and not any(row[0][:depth] in new_paths for depth in range(len(row[0])))
        ] + new
    result = None
    for path, leaf in sorted(rows, key=lambda row: row[0][-1:] == (".priority",)):
        result = put(result, path, leaf)
    return result


# --- Push ids (13.2) --------------------------------------------------------------------------------------------

PUSH_ALPHABET = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"


class PushIDs:
    """Makes push ids that rise strictly, also within one millisecond."""

    def __init__(self, random):
        self.random, self.last_time, self.low = random, None, 0

    def make(self, milliseconds):
        if milliseconds == self.last_time:
            self.low += 1
        else:
            self.last_time, self.low = milliseconds, self.random.getrandbits(72)
        return self.digits(milliseconds, 8) + self.digits(self.low, 12)

    @staticmethod
    def digits(number, count):
        return "".join(PUSH_ALPHABET[number >> 6 * place & 63] for place in reversed(range(count)))

