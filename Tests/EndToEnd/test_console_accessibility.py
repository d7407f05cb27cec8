"""Every page and dialog of the console by the rules that a program can check, dark and light; and on a screen of 4K width."""

import json

import pytest

from accessibility import FAULTS
from console_page import SHIFT
from rest_client import Rest
from test_console import SECRET, act_as, desk, needs_browser, press_button, scene  # noqa: F401 (fixtures)
from test_console_edits import start_edit
from test_console_gather import choose
from tokens import bearer, unsigned

pytestmark = needs_browser

DATA = {"posts": {f"a{number:02}": {"title": f"Post {number}", "stars": number, "open": True} for number in range(40)},
        "n": {".value": 5, ".priority": 3}, "text": "many words " * 40}
RULES = {"rules": {"posts": {".read": True, "$id": {".write": "auth != null && $id.length > 2 && newData.child('stars').val() < 5"}}}}


def open_data(desk):  # noqa: F811
    page = desk.open(keys="")
    page.wait_row("n", "5")
    return page


def form_of_a_row(desk):  # noqa: F811
    start_edit(open_data(desk), "n")


def menu_of_a_row(desk):  # noqa: F811
    page = open_data(desk)
    page.select("n")
    page.press("F10", SHIFT)
    page.wait("document.activeElement.getAttribute('role') === 'menuitem'")


def dialog_that_adds(desk):  # noqa: F811
    page = open_data(desk)
    page.open_dialog("posts", lambda: page.press("Insert"), "Add to /posts")


def existing_key(desk):  # noqa: F811
    dialog_that_adds(desk)
    desk.page.type("a01")
    desk.page.press("Enter")
    desk.page.dialog("There is another value")


def dialog_of_json(desk):  # noqa: F811
    choose(open_data(desk), "posts", "Edit as JSON", "/posts")


def dialog_of_text(desk):  # noqa: F811
    desk.rest.put("/text", "first\nsecond")
    page = open_data(desk)
    page.open_dialog("text", lambda: page.press("Enter"), "/text")


def dialog_that_moves(desk):  # noqa: F811
    choose(open_data(desk), "posts", "Rename", "Rename or move /posts")


def dialog_that_imports(desk):  # noqa: F811
    choose(open_data(desk), "posts", "Import JSON", "Import at /posts")


def dialog_that_deletes(desk):  # noqa: F811
    page = open_data(desk)
    page.open_dialog("posts", lambda: page.press("Delete"), "Delete /posts?")


def list_of_changes(desk):  # noqa: F811
    page = open_data(desk)
    press_button(page, "Gather")
    for key, value in [("n", "6"), ("text", "other")]:
        start_edit(page, key)
        page.run(f"document.querySelector('.editor .value-input').value = '{value}'")
        press_button(page, "Gather", ".editor")
        page.wait("!document.querySelector('.editor')")
    press_button(page, "Write 2…")
    page.dialog("Write 2 edits")


def query(desk):  # noqa: F811
    page = desk.open(place="query", keys="/posts")
    press_button(page, "Run")
    page.wait("document.querySelectorAll('tbody tr td a').length === 40")


def history(desk):  # noqa: F811
    desk.rest.put("/posts/a01/stars", 100)
    page = desk.open(place="history", keys="/posts")
    page.wait("document.querySelectorAll('ol.writes button').length > 1")
    page.run("document.querySelectorAll('ol.writes button')[1].click()")
    page.wait("document.querySelectorAll('#main .diff > div').length === 2")


def rules(desk):  # noqa: F811
    page = desk.open(place="rules")
    page.wait("document.querySelectorAll('.CodeMirror .cm-builtin').length > 1 && document.querySelectorAll('tbody tr').length === 1")


def published_rules(desk):  # noqa: F811
    rules(desk)
    press_button(desk.page, "Versions")
    desk.page.dialog("Published rules")


def publishing(desk):  # noqa: F811
    rules(desk)
    desk.page.run("document.querySelector('.CodeMirror').CodeMirror.setValue('{\"rules\": {\".read\": true}}')")
    desk.page.wait("[...document.querySelectorAll('button')].some((one) => one.textContent === 'Publish' && !one.disabled)")
    press_button(desk.page, "Publish")
    desk.page.dialog("Publish the rules?")


def operations(desk):  # noqa: F811
    page = desk.open(place="operations")
    page.wait("document.querySelector('.meter b').textContent !== '' && document.querySelectorAll('tbody tr').length > 1")


def why(desk):  # noqa: F811
    page = desk.open(place="operations")
    press_button(page, "Why?")
    page.dialog("was denied")


def run_as(desk):  # noqa: F811
    page = open_data(desk)
    page.run("document.getElementById('actor').click()")
    page.dialog("Run as")


PAGES = [
    open_data, form_of_a_row, menu_of_a_row, dialog_that_adds, existing_key, dialog_of_json, dialog_of_text, dialog_that_moves, dialog_that_imports,
    dialog_that_deletes, list_of_changes, query, history, rules, published_rules, publishing, operations, why, run_as,
]


@pytest.fixture(params=["light", "dark"])
def theme(scene, request):  # noqa: F811
    """The theme that the system has."""
    _, page = scene
    page.browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": request.param}])
    yield request.param
    page.browser.call("Emulation.setEmulatedMedia", features=[])


def wait_without_faults(page, theme):
    # A flash passes.
    page.wait("document.getAnimations().every((one) => one.playState === 'finished')", "no animation")
    assert page.run("matchMedia('(prefers-color-scheme: dark)').matches") == (theme == "dark")
    assert page.run(FAULTS) == []


@pytest.mark.parametrize("place", PAGES, ids=lambda place: place.__name__)
def test_a_page_is_accessible(desk, theme, place):  # noqa: F811
    desk.rest.put("/", DATA)
    desk.rest.ask("PUT", "/.settings/rules.json", json.dumps(RULES)).expect(200)
    Rest(desk.server.port, desk.ns, fields=[bearer(unsigned("ada"))]).ask("GET", "/n.json").expect(401)
    place(desk)
    wait_without_faults(desk.page, theme)


def test_signing_in_is_accessible(servers, scene, theme, tmp_path):  # noqa: F811
    _, page = scene
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    server = servers(dev=False, arguments=["--auth-secret-file", secret], memory=True)
    page.size(1280, 800)
    page.open(server.port)
    page.wait("document.querySelector('input[type=password]')?.type === 'password'")
    page.type("wrong")
    page.press("Enter")
    page.wait("document.querySelector('.problem').textContent")
    wait_without_faults(page, theme)


@pytest.mark.parametrize("document", ["index", "console", "protocol/rest"])
def test_a_document_is_accessible(scene, theme, document):  # noqa: F811
    server, page = scene
    page.size(1280, 800)
    page.open(server.port, f"#/{document}.md", path="/docs")
    page.wait(f"document.querySelector('nav [aria-current]')?.hash === '#/{document}.md'")
    wait_without_faults(page, theme)


GOOD = "<main><h1>T</h1>{}</main>"


@pytest.mark.parametrize("body, rule", [
    (GOOD.format("<p>text</p>"), None),
    ("<main>text</main>", "one heading is the first"),
    ("<nav><h1>T</h1></nav>", "one landmark is the main one"),
    (GOOD.format("") + "<p>text</p>", "text is in a landmark"),
    (GOOD.format("<button></button>"), "controls have names"),
    (GOOD.format("<input value='text'>"), "controls have names"),
    (GOOD.format("<img src='data:,'>"), "images have words"),
    (GOOD.format("<p tabindex='1'>text</p>"), "the order of Tab is that of the page"),
    (GOOD.format("<button>a <input aria-label='b'></button>"), "no control is in another"),
    (GOOD.format("<ol><p>text</p></ol>"), "lists have items only"),
    (GOOD.format("<dl><p>text</p></dl>"), "lists of terms have terms"),
    (GOOD.format("<p role='treeitem'>text</p>"), "rows of a tree are in a tree"),
    (GOOD.format("<table><tr><td>text</table>"), "tables have heads"),
    (GOOD.format("<p aria-describedby='none'>text</p>"), "aria-describedby leads to an element"),
    (GOOD.format("<p id='a'>text</p><p id='a'>text</p>"), "an id is of one element"),
    (GOOD.format("<h3>text</h3>"), "headings skip no level"),
    (GOOD.format("<div style='height: 20px; overflow: auto'><p>text<p>text<p>text</div>"), "what scrolls is reached by keys"),
    (GOOD.format("<p style='color: #777'>text</p>"), "text has contrast (4.48)"),
    (GOOD.format("<p style='color: #767676'>text</p>"), None),
    (GOOD.format("<p style='color: #000; background: rgb(0 0 0 / 60%)'>text</p>"), "text has contrast (3.66)"),
])
def test_the_rules_find_what_they_are_for(scene, body, rule):  # noqa: F811
    _, page = scene
    page.browser.open("about:blank")
    page.run(f"document.documentElement.lang = 'en'; document.title = 'Title'; document.body.innerHTML = {json.dumps(body)}")
    found = {fault.split(": <")[0] for fault in page.run(FAULTS)}
    assert found == ({rule} if rule else set())


# 4K


@pytest.mark.parametrize("place", ["data", "denied", "query", "history", "rules", "operations", "docs"])
def test_a_screen_of_4k_width_is_filled_with_lines_that_can_be_read(desk, place):  # noqa: F811
    desk.rest.put("/", DATA)
    page = desk.page
    try:
        if place == "docs":
            page.open(desk.server.port, "#/console.md", path="/docs")
            page.wait("document.querySelectorAll('article h2').length > 0")
        elif place == "denied":
            desk.rest.ask("PUT", "/.settings/rules.json", json.dumps(RULES)).expect(200)
            page = desk.open(keys="/" + "k" * 110)
            page.wait("document.querySelector('.notice')?.textContent.includes('There is nothing at /kkk')")
            act_as(page, "grace-hopper-of-new-york")
            page.wait("document.querySelector('.notice .problem')?.textContent.length > 145")
        else:
            page = desk.open(place=place, keys="/text" if place == "history" else "")
            page.wait("document.querySelector('#main > *')?.className")
        page.size(3840, 2160)
        page.wait("innerWidth === 3840 && document.documentElement.scrollWidth <= 3840", "as wide as the screen")
        beyond = """[...document.querySelectorAll('body *')].filter((it) => it.checkVisibility() && !it.closest('.tree, .CodeMirror, .skip') && it.getBoundingClientRect().right > innerWidth + 1)
          .map((it) => it.outerHTML.slice(0, 120))"""
        assert page.run(beyond) == []
        # Of running text, at most so many characters in a line.
        long_lines = """[...document.querySelectorAll('p, li, blockquote')].filter((it) => it.checkVisibility() && !it.closest('.writes')).map((it) => {
          const range = document.createRange(); range.selectNodeContents(it);
          const lines = Math.max(1, Math.round(range.getBoundingClientRect().height / parseFloat(getComputedStyle(it).lineHeight)));
          return [it.textContent.length / lines, it.textContent.slice(0, 80)]; }).filter(([length]) => length > 130)"""
        assert page.run(long_lines) == []
        if place not in ("data", "denied", "docs"):
            left, width = page.run("(() => { const box = document.querySelector('.page > :not(link)').getBoundingClientRect(); return [box.left, box.width]; })()")
            assert width <= 2400 and abs(left - (3840 - width) / 2) < 20  # in the middle
    finally:
        page.size(1280, 800)
