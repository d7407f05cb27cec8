"""The console loses no edit: what was typed stays until it is written, and what others wrote meanwhile is asked about."""

from test_console import desk, needs_browser, press_button, scene  # noqa: F401 (fixtures)

pytestmark = needs_browser


def start_edit(page, key):
    page.select(key)
    page.press("Enter")
    page.wait("document.activeElement.className === 'value-input'")


def test_text_of_several_lines_keeps_its_line_breaks(desk):  # noqa: F811
    """A field of one line drops them: such text is edited as JSON."""
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
    page.dialog("Changed by another client")
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


def test_a_deletion_asks_where_the_value_has_changed(desk):  # noqa: F811
    page = desk.open({"a": {"x": 1}, "b": 1})
    page.open_dialog("a", lambda: page.press("Delete"), "Delete /a?")
    desk.rest.put("/a/added", "by another")
    page.run("document.querySelector('dialog button.primary').click()")
    page.dialog("Changed since")
    press_button(page, "Cancel", "dialog")
    page.wait("!document.querySelector('dialog')")
    assert desk.rest.get("/a") == {"x": 1, "added": "by another"}


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
