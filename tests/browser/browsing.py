"""Shared by the tests of the page at /ui: a headless Chromium, and the page from its users' view.

Needs Debian's chromium, chromium-driver and python3-selenium; scripts/check-browser installs them.
"""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import struct
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))

import serving  # noqa: E402
from serving import eventually  # noqa: E402

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
except ImportError:
    print("skipped: %s has no selenium; run scripts/check-browser" % sys.executable)
    sys.exit(77)

FLAGS = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-sync",
         "--disable-component-update", "--disable-default-apps", "--no-first-run", "--force-color-profile=srgb",
         "--hide-scrollbars", "--lang=en"]


def start_browser(width=1280, height=900):
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not program or not driver:
        print("skipped: no chromium, or no chromedriver; run scripts/check-browser")
        sys.exit(77)
    options = Options()
    options.binary_location = program
    for flag in FLAGS + ["--window-size=%d,%d" % (width, height)] + (["--no-sandbox"] if os.geteuid() == 0 else []):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(driver, log_path=os.devnull), options=options)


class Page:
    """The page of a server in its own tab, with empty session storage."""

    def __init__(self, browser, server, wait=True, width=1280, height=900):
        self.browser, self.server = browser, server
        old = browser.current_window_handle
        browser.switch_to.new_window("tab")
        new = browser.current_window_handle
        browser.switch_to.window(old)
        browser.close()
        browser.switch_to.window(new)
        browser.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
        self.size(width, height)
        self.emulate("light")
        browser.get_log("browser")
        browser.get("http://127.0.0.1:%d/ui" % server.port)
        if wait:
            self.wait_ready()

    def js(self, code, *arguments):
        return self.browser.execute_script(code, *arguments)

    def wait_ready(self):
        eventually(lambda: self.js("return document.querySelectorAll('#choices input').length") and self.link() == "Connected",
                   lambda: "the page does not connect: %s" % self.link())

    def size(self, width, height):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def emulate(self, scheme):
        """Sets the preferred colour scheme: light or dark."""
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def keys(self, *keys):
        """Presses keys one after another. A pair is a key that is held, and one that is pressed."""
        chain = ActionChains(self.browser)
        for key in keys:
            if isinstance(key, tuple):
                chain.key_down(key[0]).send_keys(key[1]).key_up(key[0])
            else:
                chain.send_keys(key)
        chain.perform()

    # ---- the form

    def fill(self, **values):
        for name, value in values.items():
            self.js("const [id, value] = arguments, field = document.getElementById(id); field.value = value;"
                    "field.dispatchEvent(new Event(field.tagName === 'SELECT' ? 'change' : 'input', {bubbles: true}));", name, str(value))

    def choose(self, *names):
        self.js("for (const box of document.querySelectorAll('#choices input'))"
                "  if (box.checked !== arguments[0].includes(box.value)) box.click();", names)

    def click(self, element):
        self.js("document.getElementById(arguments[0]).click()", element)

    def generate(self, **values):
        """Fills the form and waits from the click to the last answer."""
        self.fill(**values)
        self.click("generate")
        return self.wait_answers()

    def generating(self):
        return self.js("return document.getElementById('stop').getAttribute('aria-disabled') === 'false'")

    def wait_answers(self):
        eventually(lambda: not self.generating(), "the answers do not end")
        return self.answers()

    def wait_text(self, tokens=1):
        """Waits until every card has at least this number of tokens."""
        eventually(lambda: self.js("const cards = [...document.querySelectorAll('.card')]; return cards.length > 0 &&"
                                   " cards.every(card => card.querySelectorAll('.t').length >= arguments[0])", tokens), "no text comes")

    # ---- the visible page

    def answers(self):
        return self.js("return [...document.querySelectorAll('.card[data-model]')].map(card => ({model: card.dataset.model,"
                       " state: card.dataset.state, tokens: card.querySelectorAll('.t').length,"
                       " text: [...card.querySelectorAll('.t')].map(span => span.textContent).join(''),"
                       " stats: card.querySelector('.stats').textContent,"
                       " error: card.querySelector('.error')?.textContent || ''}))")

    def shown(self, element):
        return self.js("return document.getElementById(arguments[0]).textContent", element)

    def visible(self, element):
        return self.js("return document.getElementById(arguments[0]).checkVisibility()", element)

    def link(self):
        return self.shown("link")

    def tip(self):
        """The text of the tooltip; None if it is hidden."""
        return self.js("const tip = document.getElementById('tip'); return tip.hidden ? null : tip.innerText")

    def cells(self):
        """[step, place, adapter, tokens of a prompt] of the picture."""
        return self.js("return tenonBatch.cells()")

    def complaints(self, network=()):
        """Warnings and errors of the console, except for failed requests with one of these words in the message."""
        found = []
        for entry in self.browser.get_log("browser"):
            expected = entry["source"] == "network" and any(each in entry["message"] for each in network)
            if entry["level"] in ("WARNING", "SEVERE") and not expected:
                found.append(entry["message"])
        return found


class Relay:
    """Stands between the page and a server, and cuts answers. A connection carries one request.

    `plan` has an entry for each of the next POST requests. After the plan, all passes.
      N       passes N bytes of the answer, then cuts the connection
      -N      passes N bytes, then nothing; the connection stays open until `closing` is set
      bytes   are sent in place of the server's answer
    `posts` has [headers, body] of each POST request.
    """

    def __init__(self, port):
        self.target, self.plan, self.posts, self.cuts = port, [], [], 0
        self.closing, self.on_cut = threading.Event(), lambda: None
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closing.set()
        self.listening.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with contextlib.suppress(OSError), client, client.makefile("rb") as reader:
            first = reader.readline()
            if not first:
                return  # the browser opens connections before it needs them
            lines = list(iter(reader.readline, b"\r\n"))
            headers = {name.lower(): value for name, value in (line.decode("latin-1").strip().split(": ", 1) for line in lines)}
            body = reader.read(int(headers.get("content-length", 0)))
            what = None
            if first.startswith(b"POST"):
                self.posts.append([headers, json.loads(body)])
                what = self.plan.pop(0) if self.plan else None
            if isinstance(what, bytes):
                return client.sendall(what)
            kept = b"".join(line for line in lines if not line.lower().startswith(b"connection:"))
            with socket.create_connection(("127.0.0.1", self.target), timeout=serving.PATIENCE) as server:
                server.sendall(first + kept + b"Connection: close\r\n\r\n" + body)
                self.pass_on(server, client, what)

    def pass_on(self, server, client, what):
        left = float("inf") if what is None else abs(what)
        while left > 0 and (piece := server.recv(4096)):
            client.sendall(piece[:int(min(left, len(piece)))])
            left -= len(piece)
        if left > 0:
            return
        self.cuts += 1
        self.on_cut()
        if what < 0:
            self.closing.wait(serving.PATIENCE)
        elif self.cuts % 2 == 0:  # a reset, after which the page may miss what was sent; else an end without the last chunk
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def reply(status, body, *headers):
    """The bytes of an answer with JSON."""
    text = json.dumps(body)
    head = ["HTTP/1.1 %d x" % status, "Content-Type: application/json", "Content-Length: %d" % len(text), "Connection: close", *headers]
    return ("\r\n".join(head) + "\r\n\r\n" + text).encode()


def stream_of(*events):
    """The bytes of a stream with this data, without ids."""
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    return (head + "".join("data: %s\n\n" % json.dumps(each) for each in events)).encode()
