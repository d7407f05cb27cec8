"""What leaves the console and comes into it: files, backups, the clipboard; and where one is: the path, the theme, the session."""

import json
import os
import subprocess
import time

import pytest

from console_page import CONTROL
from server import BINARY
from test_console import desk, needs_browser, press_button, scene  # noqa: F401 (fixtures)
from transports import DEADLINE

pytestmark = needs_browser

SHOP = {"orders": {"o1": {"customer": "Ada's", "total": 17}, "o2": {".value": 5, ".priority": 2}}, "empty": ""}


def choose(page, key, action):
    """An action of the menu of a row."""
    page.select(key)
    page.press("ContextMenu")
    page.wait("document.querySelector('.menu button') !== null")
    page.run(f"[...document.querySelectorAll('.menu button span:first-child')].find((item) => item.textContent === {json.dumps(action)}).parentElement.click()")


@pytest.fixture
def downloads(desk, tmp_path):  # noqa: F811
    """Waits for the file that the browser has downloaded."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    desk.page.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def wait():
        deadline = time.monotonic() + DEADLINE
        while not (found := [file for file in folder.iterdir() if file.suffix != ".crdownload"]):
            assert time.monotonic() < deadline, list(folder.iterdir())
            time.sleep(0.02)
        return found[0]

    yield wait
    desk.page.browser.call("Browser.setDownloadBehavior", behavior="deny")


def record_copies(page):
    page.run("navigator.clipboard.writeText = async (text) => { window.copied = text; };")


def test_a_node_is_exported_as_a_file_and_imported_from_it(desk, downloads):  # noqa: F811
    page = desk.open(SHOP)
    page.wait_row("orders")
    choose(page, "orders", "Export JSON")
    file = downloads()
    assert file.name == "orders.json" and json.loads(file.read_text()) == SHOP["orders"]
    desk.rest.put("/orders", {"o1": {"customer": "Ada's", "total": 18}})
    page.wait_row("orders", 'o1: {…}')
    choose(page, "orders", "Import JSON…")
    page.dialog("Import at /orders")
    root = page.browser.call("DOM.getDocument")["root"]["nodeId"]
    field = page.browser.call("DOM.querySelector", nodeId=root, selector="dialog input[type=file]")["nodeId"]
    page.browser.call("DOM.setFileInputFiles", files=[str(file)], nodeId=field)
    press_button(page, "Review", "dialog")
    page.wait("document.querySelectorAll('dialog .diff > div').length === 3")  # total − and +, o2 +
    page.confirm()
    page.wait("!document.querySelector('dialog')")
    assert json.loads(desk.rest.ask("GET", "/orders.json?format=export").body) == SHOP["orders"]


def test_a_backup_is_downloaded_and_is_whole(desk, downloads, tmp_path):  # noqa: F811
    desk.rest.put("/", SHOP)
    page = desk.open(place="operations")
    press_button(page, "Backup now")
    assert page.wait("document.querySelector('.toast span')?.textContent").startswith("Backup of ")
    checked = subprocess.run([BINARY, "check", "backup", downloads()], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked


def test_a_path_its_json_and_its_lines_are_copied(desk):  # noqa: F811
    page = desk.open(SHOP)
    page.wait_row("orders")
    record_copies(page)
    choose(page, "orders", "Copy path")
    page.wait("window.copied === '/orders'")
    page.select("orders")
    page.press("c", CONTROL)
    page.wait("window.copied?.startsWith('{')")
    assert json.loads(page.run("window.copied")) == SHOP["orders"]
    page.run("document.querySelector('.details summary').click()")
    press_button(page, "Copy curl")
    page.wait("window.copied.startsWith('curl ')")
    answer = subprocess.run(page.run("window.copied"), shell=True, env={**os.environ, "PANDO_TOKEN": "owner"}, capture_output=True, timeout=60)
    assert json.loads(answer.stdout) == {"o1": SHOP["orders"]["o1"], "o2": 5}, answer


def test_without_a_clipboard_text_is_copied_by_the_command(desk):  # noqa: F811
    """By http from another machine a browser gives pages no clipboard."""
    page = desk.open(SHOP)
    page.wait_row("orders")
    page.run("navigator.clipboard.writeText = async () => { throw new Error('none'); }; document.addEventListener('copy', () => { window.copied = getSelection().toString() || document.activeElement.value; });")
    choose(page, "orders", "Copy path")
    page.wait("window.copied === '/orders'")


def test_the_path_above_leads_to_each_level(desk):  # noqa: F811
    page = desk.open(SHOP, keys="/orders/o1")
    crumbs = "[...document.querySelectorAll('.crumbs a')].map((one) => [one.textContent, one.hash, one.ariaCurrent])"
    page.wait_row("total", "17")
    assert page.run(crumbs) == [[desk.ns, f"#/data/{desk.ns}", None], ["orders", f"#/data/{desk.ns}/orders", None], ["o1", f"#/data/{desk.ns}/orders/o1", "page"]]
    assert page.run("document.title") == f"Data/orders/o1 · {desk.ns} · Pando"  # the name of a tab, and of a bookmark
    page.run("document.querySelectorAll('.crumbs a')[1].click()")
    page.wait_row("o2", "5")
    page.focus_tree()
    page.press("Backspace")
    page.wait_row("empty", '""')
    assert page.run("location.hash") == f"#/data/{desk.ns}"


def test_light_and_dark_are_chosen_and_kept(desk):  # noqa: F811
    page = desk.open(SHOP)
    page.wait_row("orders")
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.run(ground)
    press_button(page, "Light or dark", "body")
    chosen = page.run(ground)
    assert chosen != before
    page.browser.reload()
    page.wait_row("orders")
    assert page.run(ground) == chosen
    press_button(page, "Light or dark", "body")
    assert page.run(ground) == before
    page.run("localStorage.clear()")
