"""What can be checked of the comments in Swift sources without compiling them: links to symbols, `- Throws:`, width."""

import re

# The widest line, as in `.swift-format`, which wraps code and leaves comments as they are.
WIDTH = 110
LINK = re.compile(r"``([^`\n]+)``")
# An attribute or modifier before a declaration: `@inlinable`, `private(set)`, `mutating`.
MODIFIERS = r"(?:(?:@\w+(?:\([^)]*\))?|[a-z]+(?:\(\w+\))?)\s+)*"
FUNCTION = re.compile(rf"^\s*({MODIFIERS})(func|init|subscript)\b")
TYPE = re.compile(r"\b(?:struct|class|enum|actor|protocol|extension|typealias)\s+((?:\w+\.)*\w+)")
NAME = re.compile(r"\b(?:func|var|let|struct|class|enum|actor|protocol|typealias|associatedtype)\s+`?(\w+)")
# `let (a, b)`, and cases, of which one line may hold several and one case several lines.
NAMES = re.compile(r"\b(?:let|var) \(([^)]*)\)|\bcase\s+([^\n]*)|^\s+(\w+)(?:\([^)]*\))?(?: = [^,\n]*)?,$", re.M)


def code(text):
    """The text without comments; lines keep their numbers. (A `//` in a string ends the line: names come before.)"""
    return "\n".join(line.split("//")[0] for line in text.split("\n"))


def declared_names(text):
    """Names of everything that a file declares, and names of parameters of cases, which do no harm."""
    plain = code(text)
    names = {"init", "subscript"} | set(NAME.findall(plain))
    for found in NAMES.finditer(plain):
        names.update(re.findall(r"\w+", " ".join(filter(None, found.groups()))))
    return names


class Symbols:
    """What a set of files declares: `files` are pairs of path and text."""

    def __init__(self, files):
        self.names, self.members = set(), {}
        for _, text in files:
            names = declared_names(text)
            self.names |= names
            for name in TYPE.findall(code(text)):
                for part in name.split("."):
                    self.names.add(part)
                    self.members.setdefault(part, set()).update(names)

    def lacks(self, link, modules=()):
        """The part of a link, such as ``Type/member(label:)``, that nothing declares; None if all of it exists."""
        parts = [part for part in re.sub(r"\(.*", "", link).split("/") if part]
        parts = parts[1:] if parts and parts[0] in modules else parts
        for owner, part in zip([None, *parts], parts):
            known = self.members[owner] if owner in self.members else self.names
            if part not in known:
                return part
        return None


def symbol_links(text):
    """Pairs of line number and target of each ``link`` in a comment."""
    return [(number, link) for number, line in enumerate(text.split("\n"), 1) if "//" in line
            for link in LINK.findall(line[line.index("//"):])]


# What drawings are made of.
DRAWING = re.compile(r"[\u2500-\u257f\u25b2\u25b6\u25bc\u25c0]|<?--+>?| {2,}|\|$")


def wide_lines(text):
    """Numbers of the lines that are comments, wider than ``WIDTH``, and prose: no drawing, table or code in a comment."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        comment = re.match(r"\s*///?(?!/)( {0,3})(?! )(.*)", line)
        if len(line) > WIDTH and comment and not DRAWING.search(comment[2]):
            found.append(number)
    return found


def signature(lines, index):
    """A declaration from its first line up to its body, or, in a protocol, to its end."""
    text = lines[index].strip()
    while "{" not in text and index + 1 < len(lines):
        index += 1
        following = lines[index].strip()
        if text.count("(") == text.count(")") and not re.match(r"throws|rethrows|->|where|async", following):
            break
        text += " " + following
    return text.split("{")[0]


def throws(text):
    """Whether the function throws itself, and not only what its parameters are."""
    text = re.sub(r"\bthrows\([\w. <>]*\)", "throws", text)
    while (shorter := re.sub(r"\([^()]*\)", "", text)) != text:
        text = shorter
    return re.search(r"\bthrows\b", text) is not None


def enclosing(lines, index):
    """The line that begins the declaration around a line; empty for none."""
    indentation = len(lines[index]) - len(lines[index].lstrip())
    for line in reversed(lines[:index]):
        if line.strip() and len(line) - len(line.lstrip()) < indentation and line.rstrip().endswith("{"):
            return line.strip()
    return ""


def throwing_functions(text):
    """Throwing functions that another module may call: line number, name, doc comment, whether of a protocol."""
    lines, found = text.split("\n"), []
    for index, line in enumerate(lines):
        match = FUNCTION.match(line)
        if not match or "override" in match[1] or not throws(signature(lines, index)):
            continue
        around = enclosing(lines, index)
        is_required = re.match(r"(?:package|public) protocol\b", around) is not None
        is_visible = re.search(r"\b(?:package|public)\b", match[1]) or re.match(r"(?:package|public) extension\b", around)
        if not is_visible and not is_required:
            continue
        doc, above = [], index - 1
        while above >= 0 and re.match(r"\s*(?:///|@)", lines[above]):
            doc.insert(0, lines[above].strip())
            above -= 1
        name = re.search(r"\bfunc\s+`?(\w+)|\b(init|subscript)\b", line)
        found.append((index + 1, name[1] or name[2], "\n".join(one for one in doc if one[0] == "/"), is_required))
    return found


def undocumented_errors(files):
    """Throwing functions without `- Throws:`. One without any comment has that of the requirement that it implements."""
    functions = [(path, *one) for path, text in files for one in throwing_functions(text)]
    required = {name for _, _, name, doc, is_required in functions if is_required and "- Throws:" in doc}
    return [f"{path}:{line}: {name} throws, and its comment does not say what"
            for path, line, name, doc, _ in functions if "- Throws:" not in doc and (doc or name not in required)]
