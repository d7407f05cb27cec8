"""The console's edit form, what it says of a denied edit, edits that are gathered, and edits of
several paths while another client writes."""

import json

import pytest

from console_page import CONTROL, SHIFT
from pando_client import Connection
from test_console import act_as, desk, needs_browser, press_button, scene  # noqa: F401 (fixtures)
from test_console_edits import start_edit

pytestmark = needs_browser

FORM = "document.querySelector('.editor')"
# Writes as another client would, at the moment when the console sends an update.
WRITE_BEFORE_UPDATE = """import('/js/session.js').then(({{ session }}) => {{
  const {{ database }} = session, update = database.update;
  database.update = async (...parameters) => {{
    database.update = update;
    await fetch({url}, {{ method: "PUT", body: {body}, headers: {{ Authorization: "Bearer owner" }} }});
    return update.apply(database, parameters);
  }};
}})"""


def exported(desk, path):  # noqa: F811
    return json.loads(desk.rest.ask("GET", f"{path}.json?format=export").expect(200).body)


def fill(page, type=None, value=None, priority=None):
    """Fills the form of the row that is edited."""
    if type is not None:
        page.run(f"{{ const it = {FORM}.querySelector('.type'); it.value = '{type}'; it.dispatchEvent(new Event('change')); }}")
    for selector, text in [(".value-input", value), (".priority-input", priority)]:
        if text is not None:
            page.run(f"{FORM}.querySelector('{selector}').value = {json.dumps(text)}")


def choose(page, key, action, title):
    def act():
        page.press("F10", SHIFT)
        page.wait("document.activeElement.getAttribute('role') === 'menuitem'")
        page.run(f"[...document.querySelectorAll('.menu button')].find((item) => item.textContent.startsWith('{action}')).click()")

    page.open_dialog(key, act, title)


def test_a_value_is_set_to_null_by_its_type_and_undone(desk):  # noqa: F811
    page = desk.open({"a": 1, "b": 2})
    page.wait_row("b", "2")
    start_edit(page, "a")
    fill(page, type="null")
    assert page.run(f"{FORM}.querySelector('.value-input').disabled")
    press_button(page, "Save", ".editor")
    desk.wait_for("/", {"b": 2})
    page.undo("Set /a")
    desk.wait_for("/", {"a": 1, "b": 2})


def test_a_priority_is_set_changed_and_removed_in_the_form_of_a_value(desk):  # noqa: F811
    page = desk.open({"a": "text", "n": {".value": 5, ".priority": 2}})
    page.wait_row("n", "5")
    priority = "[...document.querySelectorAll('.row:not(.editor)')].find((row) => row.querySelector('.key').textContent === 'a').querySelector('.priority').textContent"
    for typed, kept, shown in [("7", 7, "7"), ("-1.5", -1.5, "-1.5"), ('"7"', "7", '"7"'), ("high", "high", '"high"'), ("true", "true", '"true"')]:
        start_edit(page, "a")
        fill(page, priority=typed)
        press_button(page, "Save", ".editor")
        page.wait(f"!{FORM} && {priority} === {json.dumps('priority ' + shown)}", f"the priority {shown}")
        assert exported(desk, "/a") == {".value": "text", ".priority": kept}
    start_edit(page, "a")
    assert page.run(f"{FORM}.querySelector('.priority-input').value") == '"true"'
    fill(page, priority="")
    press_button(page, "Save", ".editor")
    page.wait(f"!{FORM} && {priority} === ''")
    assert exported(desk, "/a") == "text"
    # A value that the server fills in keeps the priority.
    start_edit(page, "n")
    fill(page, type="increment", value="3")
    press_button(page, "Save", ".editor")
    page.wait_row("n", "8")
    assert exported(desk, "/n") == {".value": 8, ".priority": 2}


def test_a_child_is_added_with_a_priority(desk):  # noqa: F811
    page = desk.open({"list": {"a": 1}})
    page.open_dialog("list", lambda: page.press("Insert"), "Add to /list")
    page.type("b")
    page.run("document.querySelector('dialog .value-input').value = 'text'; document.querySelector('dialog .priority-input').value = '3'")
    page.press("Enter")
    page.wait("!document.querySelector('dialog')")
    assert exported(desk, "/list") == {"a": 1, "b": {".value": "text", ".priority": 3}}


def test_the_priority_of_an_object_is_a_member_of_its_json(desk):  # noqa: F811
    page = desk.open({"doc": {"x": 1}})
    page.wait_row("doc")
    shown = "[...document.querySelectorAll('.row')].find((row) => row.querySelector('.key').textContent === 'doc').querySelector('.priority').textContent"
    for before, text, after in [({"x": 1}, '{"x": 1, ".priority": 4}', "priority 4"), ({".priority": 4, "x": 1}, '{"x": 1}', "")]:
        choose(page, "doc", "Edit as JSON", "/doc")
        assert json.loads(page.run("document.querySelector('dialog textarea').value")) == before
        page.run(f"document.querySelector('dialog textarea').value = {json.dumps(text)}")
        press_button(page, "Review", "dialog")
        page.dialog("Change /doc")
        assert "/doc/.priority" in page.run("document.querySelector('dialog .diff').textContent")
        page.confirm()
        page.wait(f"{shown} === {json.dumps(after)}")
        assert exported(desk, "/doc") == json.loads(text)


RULES = {"rules": {".read": True, "list": {"$key": {".write": "auth.uid === 'bob'"}}, "doc": {".write": "auth.uid === 'bob'"}}}


def test_the_dialog_that_adds_says_which_rule_denied_it(desk):  # noqa: F811
    page = desk.open({"list": {"a": 1}})
    desk.rest.ask("PUT", "/.settings/rules.json", json.dumps(RULES)).expect(200)
    act_as(page, "ada")
    page.open_dialog("list", lambda: page.press("Insert"), "Add to /list")
    page.type("b")
    page.run("document.querySelector('dialog .value-input').value = 'kept'")
    page.press("Enter")
    page.wait("document.querySelector('dialog .toast button.link')?.textContent === 'Why?'")
    page.run("document.querySelector('dialog .toast button.link').click()")
    page.dialog("Why write of /list/b was denied")
    why = page.run("document.querySelector('dialog').textContent")
    assert '"ada"' in why and "/list/$key" in why
    page.press("Escape")
    page.dialog("Add to /list")
    assert page.run("document.querySelector('dialog .value-input').value") == "kept"
    page.press("Escape")
    page.wait("!document.querySelector('dialog')")


def test_a_key_that_is_there_already_is_not_overwritten_unasked(desk):  # noqa: F811
    page = desk.open({"list": {"a": 1}})
    page.open_dialog("list", lambda: page.press("Insert"), "Add to /list")
    page.type("a")
    page.run("document.querySelector('dialog .value-input').value = '2'")
    page.press("Enter")
    page.dialog("There is another value")
    assert page.run("[document.querySelector('.theirs').textContent, document.querySelector('.mine').textContent]") == ["1", '"2"']
    press_button(page, "Cancel", "dialog")
    page.dialog("Add to /list")
    press_button(page, "Cancel", "dialog")
    page.wait("!document.querySelector('dialog')")
    assert desk.rest.get("/list") == {"a": 1}


def test_a_denied_edit_of_text_is_explained_while_its_dialog_is_open(desk):  # noqa: F811
    """Where a dialog is open, what is behind it can't be clicked: the message is part of the dialog."""
    page = desk.open({"doc": "first\nsecond"})
    desk.rest.ask("PUT", "/.settings/rules.json", json.dumps(RULES)).expect(200)
    act_as(page, "ada")
    page.open_dialog("doc", lambda: page.press("Enter"), "/doc")
    page.run("document.querySelector('dialog textarea').value += '\\nthird'")
    press_button(page, "Write", "dialog")
    page.wait("document.querySelector('dialog .toast button.link')?.textContent === 'Why?'")
    assert page.run("document.querySelector('dialog textarea').value") == "first\nsecond\nthird"
    x, y = page.run("(() => { const it = document.querySelector('dialog .toast button.link').getBoundingClientRect(); return [it.x + it.width / 2, it.y + it.height / 2]; })()")
    for kind in ["mousePressed", "mouseReleased"]:
        page.browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    page.dialog("Why write of /doc was denied")
    for left in [1, 0]:
        page.press("Escape")
        page.wait(f"document.querySelectorAll('dialog').length === {left}")
    assert page.run("document.getElementById('toasts').parentElement === document.body")


def gather(page):
    press_button(page, "Gather")
    page.wait("document.querySelector('.tool[aria-pressed=true]') !== null")


def gather_value(page, key, value, count):
    start_edit(page, key)
    fill(page, value=value)
    press_button(page, "Gather", ".editor")
    page.wait(f"!{FORM}")
    wait_count(page, count)


def wait_count(page, count):
    """Waits until so many edits are gathered."""
    page.wait("document.querySelector('.tool[aria-pressed=true]')?.textContent === " + json.dumps(f"Write {count}…" if count else "Gather"), f"{count} edits")


def wait_written(page):
    page.wait("document.querySelector('.tool[aria-pressed=false]')?.textContent === 'Gather'", "nothing gathered any more")


def marks(page):
    """Of the rows that name gathered edits the key, the words, and what a screen reader says."""
    return page.run("""[...document.querySelectorAll('.row:not([hidden]):not(.editor)')].sort((a, b) => a.row - b.row)
      .map((row) => [row.querySelector('.key').textContent, row.querySelector('.mark').textContent, row.ariaLabel]).filter(([, words]) => words)""")


def test_gathered_edits_are_written_as_one_step_and_undone_as_one(desk):  # noqa: F811
    page = desk.open({"a": 1, "b": {"c": True}, "gone": 3, "kept": 4})
    page.wait_row("kept", "4")
    gather(page)
    gather_value(page, "a", "2", 1)
    page.open_dialog("gone", lambda: page.press("Delete"), "Delete /gone?")
    page.confirm()
    wait_count(page, 2)
    page.open_dialog("b", lambda: page.press("Insert"), "Add to /b")
    page.type("new")
    page.run("document.querySelector('dialog .value-input').value = 'text'")
    page.press("Enter")
    page.wait("!document.querySelector('dialog')")
    wait_count(page, 3)
    # Nothing is written yet, and the rows say what is gathered, also to a screen reader.
    assert desk.rest.get("/") == {"a": 1, "b": {"c": True}, "gone": 3, "kept": 4}
    page.wait("[...document.querySelectorAll('.row .mark')].some((mark) => mark.textContent === '3 gathered inside')")
    assert marks(page) == [[desk.ns, "3 gathered inside", f"{desk.ns}: 4 children, 3 gathered inside"], ["a", "gathered: 2", "a: 1, gathered: 2"],
                           ["b", "1 gathered inside", "b: 1 child, 1 gathered inside"], ["gone", "gathered: delete", "gone: 3, gathered: delete"]]
    # The server takes no update of a place and of what is inside it: such an edit is refused before it is sent.
    page.open_dialog("b", lambda: page.press("Delete"), "Delete /b?")
    page.confirm()
    page.wait("document.querySelector('.toast.error')?.textContent.includes('Delete /b: one step can\\'t change a place and another inside it, and /b/new is gathered')")
    wait_count(page, 3)
    # Of two edits of the same place the later is written, and the dialog says so.
    gather_value(page, "a", "7", 4)
    page.wait("[...document.querySelectorAll('.row .mark')].some((mark) => mark.textContent === 'gathered: 7')")
    with Connection(desk.server.port, desk.ns) as other:
        other.must("q", {"p": "/", "h": ""})
        other.taken_pushes()
        press_button(page, "Write 4…")
        page.dialog("Write 4 edits")
        assert page.run("[...document.querySelectorAll('dialog .diff > div')].map((row) => row.textContent)") == [
            "−/a1", "+/a7", "−/gone3", '+/b/new"text"']
        assert page.run("document.querySelector('dialog .warning').textContent") == "Edited more than once: /a. Only the last edit is written."
        page.confirm()
        desk.wait_for("/", {"a": 7, "b": {"c": True, "new": "text"}, "kept": 4})
        other.fence()
        assert len(other.taken_pushes()) == 1  # one step
    wait_written(page)
    page.wait("[...document.querySelectorAll('.row .mark')].every((mark) => mark.textContent === '')")
    page.undo("Write 4 edits")
    desk.wait_for("/", {"a": 1, "b": {"c": True}, "gone": 3, "kept": 4})
    # Then edits are written at once again.
    page.wait_row("a", "1")
    start_edit(page, "a")
    fill(page, value="5")
    press_button(page, "Save", ".editor")
    desk.wait_for("/a", 5)


def test_a_gathered_edit_is_taken_back_and_a_conflict_is_asked_about(desk):  # noqa: F811
    page = desk.open({"a": 1, "b": 2, "c": 3})
    page.wait_row("c", "3")
    gather(page)
    for number, key in enumerate("abc"):
        gather_value(page, key, "9", number + 1)
    page.undo("Set /c")
    wait_count(page, 2)
    desk.rest.put("/b", 22)
    press_button(page, "Write 2…")
    page.dialog("Write 2 edits")
    page.run("document.querySelector('dialog button.primary').click()")
    page.dialog("There is another value")
    assert page.run("[document.querySelector('.theirs').textContent, document.querySelector('.mine').textContent]") == ["22", "9"]
    press_button(page, "Cancel", "dialog")
    page.wait("!document.querySelector('dialog')")
    assert desk.rest.get("/") == {"a": 1, "b": 22, "c": 3}
    press_button(page, "Write 2…")
    page.dialog("Write 2 edits")
    page.run("document.querySelector('dialog button.primary').click()")
    page.dialog("There is another value")
    page.confirm()
    desk.wait_for("/", {"a": 9, "b": 9, "c": 3})
    wait_written(page)
    # What undo brings back is what was there, not what was seen first.
    page.undo("Write 2 edits")
    desk.wait_for("/", {"a": 1, "b": 22, "c": 3})


# The next update waits until `window.goOn()` is called; with words it fails with them.
HOLD_UPDATE = """import('/js/session.js').then(({ session }) => {
  const { database } = session, update = database.update;
  const held = new Promise((resolve) => (window.goOn = resolve));
  database.update = async (...parameters) => {
    database.update = update;
    window.isHeld = true;
    const words = await held;
    if (words) throw new Error(words);
    return update.apply(database, parameters);
  };
})"""


def begin_write_that_waits(page):
    """Writes the two gathered edits; the write goes on with `goOn()`."""
    page.run(HOLD_UPDATE)
    press_button(page, "Write 2…")
    page.dialog("Write 2 edits")
    page.confirm()
    page.wait("window.isHeld === true")


def test_what_is_gathered_while_a_write_is_running_waits_for_the_next_one(desk):  # noqa: F811
    page = desk.open({"a": 1, "b": 2, "c": 3})
    page.wait_row("c", "3")
    gather(page)
    gather_value(page, "a", "10", 1)
    gather_value(page, "b", "20", 2)
    begin_write_that_waits(page)
    # Neither undone nor written twice while they are on their way.
    page.focus_tree()
    page.press("z", CONTROL)
    page.wait("document.querySelectorAll('.toast.error').length === 1")
    press_button(page, "Write 2…")
    page.wait("document.querySelectorAll('.toast.error').length === 2")
    assert page.run("document.querySelector('.toast.error').textContent") == "These edits are being written."
    gather_value(page, "c", "30", 3)
    gather_value(page, "a", "11", 4)
    page.run("window.goOn()")
    desk.wait_for("/", {"a": 10, "b": 20, "c": 3})
    wait_count(page, 2)
    page.wait_row("a", "10")
    # What was on its way has changed what the second edit of /a began with: it is asked about.
    press_button(page, "Write 2…")
    page.dialog("Write 2 edits")
    page.run("document.querySelector('dialog button.primary').click()")
    page.dialog("There is another value")
    page.confirm()
    desk.wait_for("/", {"a": 11, "b": 20, "c": 30})
    wait_written(page)
    page.undo("Write 2 edits")
    desk.wait_for("/", {"a": 10, "b": 20, "c": 3})


@pytest.mark.parametrize("failure", [None, "Not written."])
def test_undo_leaves_alone_what_is_on_its_way(desk, failure):  # noqa: F811
    page = desk.open({"a": 1, "b": 2, "c": 3, "d": 4})
    page.wait_row("d", "4")
    gather(page)
    gather_value(page, "a", "10", 1)
    gather_value(page, "b", "20", 2)
    begin_write_that_waits(page)
    gather_value(page, "c", "30", 3)
    page.undo("Set /c")
    wait_count(page, 2)
    for errors in [1, 2]:
        page.focus_tree()
        page.press("z", CONTROL)
        page.wait(f"document.querySelectorAll('.toast.error').length === {errors}")
    assert page.run("[...document.querySelectorAll('.toast > :first-child')].map((one) => one.textContent)") == [
        "Undone: Set /c", "These edits are being written.", "These edits are being written."]
    gather_value(page, "d", "40", 3)
    page.run(f"window.goOn({json.dumps(failure)})")
    if failure:
        # All three wait again, in the order in which they were made.
        page.wait("document.querySelector('button[title=\"Undo: Set /d\"]') !== null && [...document.querySelectorAll('.toast.error')].at(-1).textContent.startsWith('Write 2 edits: Not written.')")
        wait_count(page, 3)
        assert desk.rest.get("/") == {"a": 1, "b": 2, "c": 3, "d": 4}
    else:
        desk.wait_for("/", {"a": 10, "b": 20, "c": 3, "d": 4})
        wait_count(page, 1)
        page.wait("[...document.querySelectorAll('.row .mark')].filter((mark) => mark.textContent.startsWith('gathered')).length === 1", "one row marked")
        assert [one[:2] for one in marks(page) if one[0] != desk.ns] == [["d", "gathered: 40"]]
    press_button(page, "Write 3…" if failure else "Write 1…")
    page.dialog("Write 3 edits" if failure else "Write 1 edit")
    page.confirm()
    desk.wait_for("/", {"a": 10, "b": 20, "c": 3, "d": 40})
    wait_written(page)


def test_gathered_edits_stay_with_their_database(desk):  # noqa: F811
    page = desk.open({"a": 1})
    page.wait_row("a", "1")
    gather(page)
    gather_value(page, "a", "2", 1)
    page.run(f"location.hash = '#/data/{desk.ns}-other'")
    page.wait(f"document.querySelector('.crumbs').textContent === '{desk.ns}-other'")
    press_button(page, "Write 1…")
    page.wait(f"document.querySelector('.toast.error')?.textContent.includes('The gathered edits belong to the database {desk.ns}: open it first.')")
    page.run(f"location.hash = '#/data/{desk.ns}'")
    page.wait_row("a", "1")
    page.wait("document.getElementById('state').className === 'state open'")
    press_button(page, "Write 1…")
    page.dialog("Write 1 edit")
    page.confirm()
    desk.wait_for("/a", 2)


def review_move_of_a(page):
    """Asks for the move of /a to /moved, and waits for the list of its two changes."""
    choose(page, "a", "Rename", "Rename or move /a")
    page.run("document.activeElement.select()")
    page.type("/moved")
    page.press("Enter")
    page.wait("document.querySelectorAll('dialog .diff > div').length === 2")


def test_a_change_between_the_last_look_and_a_move_is_found_and_brought_back(desk):  # noqa: F811
    """An update has no compare-and-set: what it replaced unseen is shown after it, and undo brings that back."""
    page = desk.open({"a": {"x": 1}, "b": 1})
    page.wait_row("b", "1")
    page.run(WRITE_BEFORE_UPDATE.format(url=json.dumps(f"/a/x.json?ns={desk.ns}"), body="'2'"))
    review_move_of_a(page)
    page.run("document.querySelector('dialog button.primary').click()")
    page.wait("document.querySelector('.toast.error')?.textContent.includes('Another client changed /a just before')")
    assert desk.rest.get("/") == {"b": 1, "moved": {"x": 1}}
    page.undo("Rename or move /a")
    desk.wait_for("/", {"a": {"x": 2}, "b": 1})


def test_a_change_elsewhere_does_not_disturb_a_move(desk):  # noqa: F811
    page = desk.open({"a": {"x": 1}, "b": 1})
    page.wait_row("b", "1")
    page.run(WRITE_BEFORE_UPDATE.format(url=json.dumps(f"/b.json?ns={desk.ns}"), body="'2'"))
    review_move_of_a(page)
    page.confirm()
    desk.wait_for("/", {"b": 2, "moved": {"x": 1}})
    page.undo("Rename or move /a")
    desk.wait_for("/", {"a": {"x": 1}, "b": 2})
    assert not page.run("document.querySelector('.toast.error')")


def test_a_change_from_above_just_before_a_move_is_found(desk):  # noqa: F811
    page = desk.open({"top": {"a": {"x": 1}}})
    page.wait_row("top")
    page.run(WRITE_BEFORE_UPDATE.format(url=json.dumps(f"/.json?ns={desk.ns}"), body="'{\"top\": {\"a\": \"whole\"}}'"))
    page.run("""import('/js/edit.js').then(({ write }) => void write('Move', [
      { path: '/moved', before: null, after: { x: 1 } }, { path: '/top/a', before: { x: 1 }, after: null }]))""")
    page.wait("document.querySelector('.toast.error')?.textContent.includes('Another client changed /top/a just before')")
    page.undo("Move")
    desk.wait_for("/", {"top": {"a": "whole"}})


def test_a_write_stays_in_its_database_when_another_is_opened_meanwhile(desk):  # noqa: F811
    page = desk.open({"a": 1, "b": 2})
    page.wait_row("a")
    other = f"{desk.ns}-other"
    desk.rest.ask("PUT", f"/.json?ns={other}", b'{"a": 1, "b": 2}').expect(200)
    page.run(f"""import('/js/session.js').then(async ({{ session }}) => {{
      const {{ write }} = await import('/js/edit.js'), read = session.read;
      session.read = async (...parameters) => {{
        const value = await read.apply(session, parameters);
        session.use("{other}");
        while (session.database.state !== "open") await new Promise(requestAnimationFrame);
        return value;
      }};
      await write('Delete both', [{{ path: '/a', before: 1, after: null }}, {{ path: '/b', before: 2, after: null }}]);
      session.read = read;
      document.title = "done";
    }})""")
    page.wait("document.title === 'done'")
    for namespace in (desk.ns, other):
        assert desk.rest.ask("GET", f"/.json?ns={namespace}").json() == {"a": 1, "b": 2}, "nothing was written"
