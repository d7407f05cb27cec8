"""What the documents say of the repository is so: links, anchors, paths, names of types; tables are whole."""

import posixpath
import re

import pytest

import markdown
from repository import documents, exists, files, identifiers, none, read

README_LINES = 200
# Documents that speak of one module each: its page.
MODULE_PAGES = [path for path in documents() if path.startswith("Sources/")]


def target_fault(path, target):
    """What is wrong with a link, or None. Addresses of the web are not asked."""
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return None
    file, _, anchor = target.partition("#")
    if file.startswith("/"):
        return "is absolute: it leads nowhere in a checkout"
    goal = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
    if goal.startswith("..") or not exists(goal):
        return "leads to no file"
    if anchor and goal.endswith(".md") and anchor not in markdown.anchors(read(goal)):
        return "leads to no heading"
    return None


@pytest.mark.parametrize("path", documents())
def test_links_lead_somewhere(path):
    found = ((line, target, target_fault(path, target)) for line, target in markdown.links(read(path)))
    none([f"{path}:{line}: {target} {fault}" for line, target, fault in found if fault])


@pytest.mark.parametrize("path", documents())
def test_paths_of_the_repository_exist(path):
    none([f"{path}:{line}: there is no {found}" for line, found in markdown.repository_paths(read(path))
          if not exists(found)])


@pytest.mark.parametrize("path", documents())
def test_types_exist(path):
    known = identifiers()
    none([f"{path}:{line}: the code has no {name}" for line, name in markdown.type_names(read(path)) if name not in known])


@pytest.mark.parametrize("path", documents())
def test_files_named_without_their_folder_exist(path):
    known = {"Package.swift"}
    for file in files("Sources", "Tests"):
        parts = file.split("/")
        known |= {"/".join(parts[start:]) for start in range(len(parts))}
        # `+Backup.swift` is the part of a type in a file of its own, behind the type's name.
        known |= {parts[-1][parts[-1].index("+"):]} if "+" in parts[-1] else set()
    none([f"{path}:{line}: there is no {name}" for line, name in markdown.file_names(read(path)) if name not in known])


def test_decisions_are_in_the_files_that_the_map_names():
    """Each name in a row of "Where is it decided?" stands in a file of its row."""
    path, heading = "public/docs/architecture.md", "\n## Where is it decided?\n"
    before, _, after = read(path).partition(heading)
    rows = markdown.table_rows(after.partition("\n## ")[0])
    first_line = before.count("\n") + 2
    assert len(rows) > 60
    faults = []
    for line, (_, *cells) in rows:
        row = " ".join(cells)
        named = {name for _, name in markdown.repository_paths(row)}
        named |= {name for name in files("Sources") for _, file in markdown.file_names(row) if name.endswith("/" + file)}
        texts = [read(name) for name in sorted(named) if name.endswith((".swift", ".c"))]
        faults += [f"{path}:{first_line + line}: {name} is in no file of the row" for name in markdown.code_names(row)
                   if not any(re.search(rf"\b{name}\b", text) for text in texts)]
    none(faults)


@pytest.mark.parametrize("path", documents())
def test_tables_are_whole(path):
    none([f"{path}:{fault.line}: {fault.text}" for fault in markdown.table_faults(read(path))])


@pytest.mark.parametrize("path", documents())
def test_no_path_of_a_private_machine(path):
    none([f"{path}:{line}: {found}" for line, found in markdown.private_paths(read(path))])


# What starts a thread, with the thread's name; `N` is the number of an I/O thread.
THREAD_START = re.compile(
    r'(?:WorkerThread(?:<[^()]*>)?|NamedThread\.start|ThreadCall|SnapshotThread|BodyLane|\bstart)\(\s*"(pando-[a-z]+(?:-\\\(\w+\))?)"')
# Threads of other programs than pando.
TOOLS = ("Sources/Bench/", "Sources/Echo/", "Sources/Load/", "Sources/Traffic/")


def thread_names():
    sources = [path for path in files("Sources") if path.endswith(".swift") and not path.startswith(TOOLS)]
    found = {name for path in sources for name in THREAD_START.findall(read(path))}
    return {re.sub(r"-\\\(.*\)", "-N", name) for name in found}


def test_every_thread_is_in_the_table():
    table = read("public/docs/architecture.md").split("## Threads")[1].split("\n## ")[0]
    listed = {name for row in re.findall(r"^\| (`pando-.*?) \|", table, re.M) for name in re.findall(r"`([^`]+)`", row)}
    assert listed == thread_names()
    assert {"pando-io-N", "pando-database", "pando-journal", "pando-light"} < listed


@pytest.mark.parametrize("path", ["Sources/Server/Server.swift", "Sources/Server/Server.docc/Server.md"])
def test_every_thread_of_the_server_is_in_its_overview(path):
    of_commands = {"pando-memory", "pando-write"}
    none([f"{path} does not name {name}" for name in sorted(thread_names() - of_commands) if name not in read(path)])


def test_every_module_has_a_page():
    folders = {path.split("/")[1] for path in files("Sources") if path.endswith(".swift")}
    pages = {path.split("/")[1] for path in MODULE_PAGES}
    none([f"Sources/{name} has no page" for name in sorted(folders - pages)])


def test_every_document_is_linked():
    """A reader finds a page of public/docs only if another document links it."""
    linked = {
        posixpath.normpath(posixpath.join(posixpath.dirname(path), target.partition("#")[0]))
        for path in documents() for _, target in markdown.links(read(path))
    }
    pages = [path for path in documents() if path.startswith("public/docs/") and path != "public/docs/index.md"]
    none([f"{path} is linked nowhere" for path in pages if path not in linked])


def test_the_readme_is_short():
    count = len(read("README.md").splitlines())
    assert count <= README_LINES, f"README.md has {count} lines of {README_LINES}: move details to public/docs"
