"""The console in a tab of Chromium, driven by the keys and clicks of a person; waits for what is to be seen."""

import json
import time

from transports import DEADLINE

# Whatever the page says that it should not say.
WATCH = """
window.complaints = [];
addEventListener("error", (event) => complaints.push(`${event.message} ${event.filename}:${event.lineno}`));
addEventListener("unhandledrejection", (event) => complaints.push(`rejected: ${event.reason?.stack ?? event.reason}`));
addEventListener("securitypolicyviolation", (event) => complaints.push(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
"""
ROWS = """[...document.querySelectorAll(".row:not([hidden]):not(.editor)")].sort((a, b) => a.row - b.row).map((row) => ({
  key: row.querySelector(".key").textContent, value: row.querySelector(".value").textContent,
  badge: row.querySelector(".badge").textContent, level: Number(row.getAttribute("aria-level")), kind: row.className.split(" ")[1]}))"""
CODES = {"Enter": 13, "Escape": 27, "Tab": 9, "Delete": 46, "Insert": 45, "End": 35, "Home": 36, "PageDown": 34, "PageUp": 33,
         "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "F2": 113, "F10": 121, " ": 32, "Backspace": 8, "ContextMenu": 93}
CONTROL, SHIFT = 2, 8
ATTEMPT = 5  # seconds until a person presses the key once more


class ConsolePage:
    def __init__(self, browser):
        self.browser = browser
        browser.before_each_page(WATCH)

    def open(self, port, place="", path="/", scheme="http"):
        self.browser.open("about:blank")
        self.browser.open(f"{scheme}://127.0.0.1:{port}{path}{place}")

    def size(self, width, height, mobile=False):
        self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def run(self, script):
        """The value of a script, awaited; fails where it throws."""
        answer = self.browser.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]["exception"].get("description")
        return answer["result"].get("value")

    def wait(self, script, what=None):
        """Waits until a script gives something that is true, and answers it."""
        deadline = time.monotonic() + DEADLINE
        while not (found := self.browser.evaluate(script)):
            assert time.monotonic() < deadline, f"not {what or script}; shown: {self.text()[:1500]}; {self.complaints()}"
            time.sleep(0.02)
        return found

    def wait_rows(self, condition, what):
        """Waits until the rows of the tree are as they should be, and answers them."""
        deadline = time.monotonic() + DEADLINE
        while not condition(rows := self.rows()):
            assert time.monotonic() < deadline, f"not {what}: {rows[:40]}; {self.complaints()}"
            time.sleep(0.02)
        return rows

    def wait_row(self, key, value=None):
        return self.wait_rows(
            lambda rows: any(row["key"] == key and value in (None, row["value"]) for row in rows), f"{key}: {value}")

    def rows(self):
        return self.browser.evaluate(ROWS) or []

    def text(self):
        return self.browser.evaluate("document.body.innerText") or ""

    def complaints(self):
        return self.browser.evaluate("window.complaints")

    def select(self, key):
        """Moves to the row of a key with the arrow keys. The rows are drawn in the next frame: each step waits for its own."""
        self.wait_row(key)
        self.focus_tree()
        self.press("Home")
        self.wait(f"({SELECTED}) === ({ROWS})[0].key", "the first row selected")
        for _ in range(200):
            if self.selected() == key:
                return
            before = self.selected()
            self.press("ArrowDown")
            self.wait(f"({SELECTED}) !== {json.dumps(before)}", f"below {before}, on the way to {key}")
        raise AssertionError(f"no row {key}: {self.rows()}")

    def selected(self):
        return self.run(SELECTED)

    def focus_tree(self):
        self.run("document.querySelector('.tree').focus()")

    def press(self, key, modifiers=0):
        parameters = {"key": key, "code": key, "modifiers": modifiers, "windowsVirtualKeyCode": CODES.get(key) or ord(key.upper())}
        text = {"Enter": "\r"}.get(key) or (key if len(key) == 1 and not modifiers & CONTROL else None)
        self.browser.call("Input.dispatchKeyEvent", type="keyDown", **parameters, **({"text": text} if text else {}))
        self.browser.call("Input.dispatchKeyEvent", type="keyUp", **parameters)

    def type(self, text):
        self.browser.call("Input.insertText", text=text)

    def dialog(self, title):
        """Waits for a dialog whose title has this text."""
        self.wait(f"document.querySelector('dialog h2')?.textContent.includes({json.dumps(title)})", f"a dialog {title}")

    def open_dialog(self, key, act, title):
        """Selects a row and does what opens a dialog. Once more where the rows were loaded anew meanwhile, and the selection
        went with them: a write of the page itself comes back as a push."""
        shown = f"document.querySelector('dialog h2')?.textContent.includes({json.dumps(title)})"
        deadline = time.monotonic() + DEADLINE
        while True:
            self.select(key)
            act()
            attempt_end = time.monotonic() + ATTEMPT
            while time.monotonic() < attempt_end:
                if self.browser.evaluate(shown):
                    return
                time.sleep(0.02)
            assert time.monotonic() < deadline, f"no dialog {title}; shown: {self.text()[:1500]}; {self.complaints()}"

    def undo(self, label):
        """Undoes a step. Its response may come after others see the change: a step can be undone when the button names it."""
        self.wait(f"document.querySelector('button[title=\"Undo: {label}\"]') !== null", f"a step {label}")
        self.focus_tree()
        self.press("z", CONTROL)

    def confirm(self):
        """Presses the button that does what the dialog asks, and waits until it is closed."""
        self.run("document.querySelector('dialog button.primary').focus()")
        self.press("Enter")
        self.wait("!document.querySelector('dialog')", "the dialog closed")


SELECTED = """document.querySelector('.row[aria-selected="true"]:not([hidden]) .key')?.textContent"""
