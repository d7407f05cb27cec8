"""The console loses no edit: what was typed stays until it is written, and what others wrote meanwhile is asked about."""

from test_console import desk, needs_browser, press_button, scene  # noqa: F401 (fixtures)

pytestmark = needs_browser


def start_edit(page, key):
    page.select(key)
    page.press("Enter")
    page.wait("document.activeElement.className === 'value-input'")


def test_text_of_several_lines_is_edited_as_it_is(desk):  # noqa: F811
    page = desk.open({"text": "first\nsecond"})
    page.wait_row("text")
    page.open_dialog("text", lambda: page.press("Enter"), "/text")
    assert page.run("document.querySelector('dialog textarea').value") == "first\nsecond"
    page.run("document.querySelector('dialog textarea').value += '\\nthird'")
    press_button(page, "Write", "dialog")
    desk.wait_for("/text", "first\nsecond\nthird")
    page.undo("Set /text")
    desk.wait_for("/text", "first\nsecond")
    # Its type and its priority too.
    page.wait_row("text", '"first\\nsecond"')
    page.open_dialog("text", lambda: page.press("Enter"), "/text")
    assert page.run("document.activeElement.tagName") == "TEXTAREA"
    page.run("document.querySelector('dialog .priority-input').value = '3'")
    press_button(page, "Write", "dialog")
    page.wait("!document.querySelector('dialog')")
    assert desk.rest.get("/text", "format=export") == {".value": "first\nsecond", ".priority": 3}


def test_text_with_carriage_returns_keeps_them(desk):  # noqa: F811
    """A text area changes them: such text is edited as JSON."""
    page = desk.open({"text": "first\nsecond\r\nthird"})
    page.wait_row("text")
    page.open_dialog("text", lambda: page.press("Enter"), "/text")
    assert page.run("document.querySelector('dialog textarea').value") == r'"first\nsecond\r\nthird"'
    press_button(page, "Review", "dialog")
    page.wait("!document.querySelector('dialog')")
    assert desk.rest.get("/text") == "first\nsecond\r\nthird"


def test_what_is_typed_stays_when_its_node_goes(desk):  # noqa: F811
    page = desk.open({"a": "old", "b": 1})
    page.wait_row("b", "1")
    start_edit(page, "a")
    page.run("document.activeElement.select()")
    page.type("typed for a long time")
    desk.rest.ask("DELETE", "/a.json").expect(200)
    page.wait_rows(lambda rows: all(row["key"] != "a" for row in rows), "a gone")
    assert page.run("document.querySelector('.editor .value-input').value") == "typed for a long time"
    page.press("Enter")
    page.dialog("There is another value")
    page.confirm()
    desk.wait_for("/a", "typed for a long time")
    page.wait("!document.querySelector('.editor')")


def test_a_refused_value_can_be_written_once_more(desk):  # noqa: F811
    page = desk.open({"doc": {"x": 1}, "n": 1})
    page.wait_row("n", "1")
    page.open_dialog("doc", lambda: page.run(
        "import('/js/edit.js').then((edit) => void edit.editJSON({ path: '/doc', key: 'doc', keys: ['doc'] }))"), "/doc")
    page.run("document.querySelector('dialog textarea').value = '{\"x\": 2}'")
    press_button(page, "Review", "dialog")
    page.dialog("Change /doc")
    press_button(page, "Cancel", "dialog")
    page.wait("document.querySelector('dialog textarea')?.value === '{\"x\": 2}'")
    press_button(page, "Review", "dialog")
    page.dialog("Change /doc")
    page.confirm()
    desk.wait_for("/doc", {"x": 2})


def test_a_deletion_is_a_compare_and_set(desk):  # noqa: F811
    page = desk.open({"a": {"x": 1}, "b": 1})
    page.open_dialog("a", lambda: page.press("Delete"), "Delete /a?")
    desk.rest.put("/a/added", "by another")
    page.run("document.querySelector('dialog button.primary').click()")
    page.dialog("There is another value")
    assert "by another" in page.run("document.querySelector('.theirs').textContent")
    press_button(page, "Cancel", "dialog")
    page.wait("!document.querySelector('dialog')")
    assert desk.rest.get("/a") == {"x": 1, "added": "by another"}


def test_a_large_value_is_compared_and_set_too(desk):  # noqa: F811
    """It goes by REST, with a tag in place of the hash."""
    page = desk.open({"a": 1})
    page.run("window.write = (before) => import('/js/edit.js').then(({ write }) => void write('Large', [{ path: '/a', before, after: 'x'.repeat(2 << 20) }]))")
    page.run("window.write(2)")
    page.dialog("There is another value")
    press_button(page, "Cancel", "dialog")
    page.wait("!document.querySelector('dialog')")
    assert desk.rest.get("/a") == 1
    page.run("window.write(1)")
    desk.wait_for("/a", "x" * (2 << 20))


def test_a_move_asks_where_a_value_has_changed(desk):  # noqa: F811
    """Several paths have no compare-and-set: they are compared before."""
    page = desk.open({"a": 1, "b": 1})
    page.run("import('/js/edit.js').then(({ write }) => void write('Move', [{ path: '/c', before: null, after: 0 }, { path: '/a', before: 0, after: null }]))")
    page.dialog("There is another value")
    press_button(page, "Cancel", "dialog")
    page.wait("!document.querySelector('dialog')")
    assert desk.rest.get("/") == {"a": 1, "b": 1}


DIFFERENCES = """import('/js/edit.js').then(({{ differences }}) =>
  differences({before}, {after}, ["a"]).map(({{ path, before, after }}) => [path, JSON.stringify(before), JSON.stringify(after)]))"""


def test_a_change_is_listed_where_it_is(desk):  # noqa: F811
    page = desk.open({})
    for before, after, changes in [
        ("{x: 1, y: {z: 2}}", "{x: 1, y: {z: 3}}", [["/a/y/z", "2", "3"]]),
        ("{x: 1}", "{x: 1}", []),
        ("{x: 1, '.priority': 1}", "{x: 1, '.priority': 2}", [["/a/.priority", "1", "2"]]),
        ("{'.value': 1, '.priority': 1}", "1", [["/a/.priority", "1", "null"]]),
        ("null", "{x: 1}", [["/a", "null", '{"x":1}']]),
        ("{x: 1}", "{x: {'.sv': 'timestamp'}}", [["/a/x", "1", '{".sv":"timestamp"}']]),
        ("{x: {y: 1}}", "{x: {'.sv': 'timestamp'}}", [["/a/x", '{"y":1}', '{".sv":"timestamp"}']]),
    ]:
        assert page.run(DIFFERENCES.format(before=before, after=after)) == changes, (before, after)


def test_an_import_lists_what_it_changes_and_is_undone(desk):  # noqa: F811
    page = desk.open({"doc": {"x": 1, "y": 2}})
    page.open_dialog("doc", lambda: page.run(
        "import('/js/edit.js').then((edit) => void edit.importJSON({ path: '/doc', key: 'doc', keys: ['doc'] }))"), "Import at /doc")
    page.run("document.querySelector('dialog textarea').value = '{\"x\": 1, \"y\": 3}'")
    press_button(page, "Review", "dialog")
    page.wait("document.querySelectorAll('dialog .diff > div').length === 2")
    page.confirm()
    desk.wait_for("/doc", {"x": 1, "y": 3})
    page.undo("Import at /doc")
    desk.wait_for("/doc", {"x": 1, "y": 2})


def test_rules_that_others_published_meanwhile_are_named(desk):  # noqa: F811
    page = desk.open(place="rules")
    page.wait("document.querySelector('.CodeMirror')?.CodeMirror.getValue().includes('rules')")
    desk.rest.ask("PUT", "/.settings/rules.json", '{"rules": {"theirs": {".read": true}}}').expect(200)
    page.run("document.querySelector('.CodeMirror').CodeMirror.setValue('{\"rules\": {\"mine\": {\".read\": true}}}')")
    page.wait("document.querySelector('.page .hint').textContent === 'not published: no errors'")
    press_button(page, "Publish")
    page.dialog("Publish the rules?")
    assert "Others were published meanwhile" in page.run("document.querySelector('dialog').textContent")
    press_button(page, "Cancel", "dialog")


def test_the_menu_of_the_right_button_stays_open(desk):  # noqa: F811
    page = desk.open({"a": 1})
    page.wait_row("a", "1")
    x, y = page.run("(() => { const row = [...document.querySelectorAll('.row .key')].find((it) => it.textContent === 'a').getBoundingClientRect(); return [row.x + 3, row.y + 5]; })()")
    for kind in ["mousePressed", "mouseReleased"]:
        page.browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="right", buttons=2 if kind == "mousePressed" else 0, clickCount=1)
    page.wait("document.activeElement.getAttribute('role') === 'menuitem'", "the menu")
    assert page.selected() == "a"
    page.press("Escape")
    page.wait("!document.querySelector('.menu') && document.activeElement.className === 'tree'", "the menu closed, and the focus back in the tree")
