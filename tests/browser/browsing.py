"""Shared by the tests of the page at /ui: a headless Chromium, and the page from its users' view.

Needs Debian's chromium, chromium-driver and python3-selenium; scripts/check-browser installs them.
"""
import os
import pathlib
import shutil
import sys

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
