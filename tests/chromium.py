"""A real browser, driven over its DevTools protocol: what tests of the page and the pictures of the README need."""

import base64
import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests import processes

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--no-default-browser-check", "--hide-scrollbars", "--remote-debugging-port=0",
)  # fmt: skip
KEYS = {
    "Tab": (9, ""), "Enter": (13, "\r"), "Escape": (27, ""), "Backspace": (8, ""), " ": (32, " "),
    "ArrowDown": (40, ""), "ArrowLeft": (37, ""), "ArrowRight": (39, ""),
}  # fmt: skip
START_S, ANSWER_S = 60, 120
_DRAWN = """document.readyState === 'complete'
    && (!document.getElementById('data') || 'drawn' in document.documentElement.dataset)"""


def path() -> str | None:
    """The browser's program; None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Tab:
    """One page. `complaints` are errors on its console, exceptions, refused resources and dialogs."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol, and its answer."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message.get("result", {})
            self._heed(message)

    def open(self, file: Path) -> None:
        """Load a file and wait until it is drawn."""
        self.complaints.clear()
        self.requests.clear()
        self.call("Page.navigate", url=file.resolve().as_uri())
        deadline = time.monotonic() + ANSWER_S
        while not self.run(_DRAWN) or self.run("location.href") == "about:blank":
            if time.monotonic() > deadline:
                raise TimeoutError(f"{file} does not load")
            time.sleep(0.05)
        self.settle()

    def settle(self) -> None:
        """Wait for what the page does after an event."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def run(self, script: str) -> Any:
        """The value of an expression; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def click(self, selector: str, nth: int = 0) -> None:
        """Click in the middle of an element, as a person does."""
        element = f"document.querySelectorAll({json.dumps(selector)})[{nth}]"
        self.run(f"{element}.scrollIntoView({{block: 'center'}})")
        self.settle()  # a list that is scrolled may draw its rows anew
        spot = self.run(
            f"(() => {{ const r = {element}.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=spot[0], y=spot[1], button="left", clickCount=1)
        self.settle()

    def drag(self, selector: str, begin: float, end: float) -> None:
        """Drag across an element, between shares of its width."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            "return [r.x, r.width, r.y + r.height / 3]; })()"
        )
        places = [box[0] + share * box[1] for share in (begin, (begin + end) / 2, end)]
        steps = zip(("mousePressed", "mouseMoved", "mouseMoved", "mouseReleased"), (*places, places[-1]), strict=True)
        for kind, x in steps:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=box[2], button="left", buttons=1, clickCount=1)
            self.settle()

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)
        self.settle()

    def back(self) -> None:
        """Go back one step within the page, and wait until it is drawn."""
        self.run("""new Promise((done) => {
            addEventListener("popstate", () => requestAnimationFrame(() => done(1)), { once: true });
            setTimeout(() => history.back());
        })""")
        self.settle()

    def press(self, key: str, *, shift: bool = False, alt: bool = False) -> None:
        """Press a key, named or the sign that it writes, and let it go."""
        code, text = KEYS.get(key) or (ord(key.upper()), key)
        pressed = {"key": key, "windowsVirtualKeyCode": code, "modifiers": (8 if shift else 0) + (1 if alt else 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **pressed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)
        self.settle()

    def window(self, width: int, height: int, *, dark: bool = False) -> None:
        """Size in pixels, and what the system prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media="", features=features)
        self.settle()

    def paper(self, width: int) -> None:
        """Lay the page out as for a printer, that many pixels between the margins; `window` ends it."""
        self.call("Emulation.setEmulatedMedia", media="print")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=700, deviceScaleFactor=1, mobile=False)
        self.settle()

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """What is seen, or the whole page, as PNG."""
        made = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(made["data"]))

    def _heed(self, message: dict[str, Any]) -> None:
        event = message.get("params", {})
        match message.get("method"):
            case "Runtime.consoleAPICalled" if event["type"] in ("error", "warning", "assert"):
                self.complaints.append(str([a.get("value", a.get("description")) for a in event["args"]]))
            case "Runtime.exceptionThrown":
                details = event["exceptionDetails"]
                self.complaints.append(details.get("exception", {}).get("description", details["text"]))
            case "Log.entryAdded" if event["entry"]["level"] in ("error", "warning"):
                self.complaints.append(event["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(event["request"]["url"])
            case "Page.javascriptDialogOpening":
                self.complaints.append(f"dialog: {event['message']}")
                self._socket.send(
                    json.dumps(
                        {"id": next(self._numbers), "method": "Page.handleJavaScriptDialog", "params": {"accept": True}}
                    )
                )


@contextmanager
def tab() -> Iterator[Tab]:
    """A fresh browser with one page."""
    import websocket

    program = path()
    if program is None:
        raise FileNotFoundError("no Chromium here")
    with TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            socket = websocket.create_connection(_address(Path(profile)), timeout=ANSWER_S, suppress_origin=True)
            made = Tab(socket)
            made.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
            yield made
            socket.close()
        finally:
            processes.end(browser, 10)


def _address(profile: Path) -> str:
    """Where the page's socket is."""
    deadline, port_file = time.monotonic() + START_S, profile / "DevToolsActivePort"
    while time.monotonic() < deadline:
        if port_file.is_file() and port_file.read_text().strip():
            port = port_file.read_text().split()[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=START_S) as answer:
                pages = [one for one in json.load(answer) if one["type"] == "page"]
            if pages:
                return str(pages[0]["webSocketDebuggerUrl"])
        time.sleep(0.1)
    raise TimeoutError("the browser does not start")
