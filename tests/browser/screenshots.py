"""Takes the pictures of docs/ui.md. Their texts are always the same; times and steps are those of this run. scripts/get-model fetches
the model of the conversations.

    screenshots.py PROGRAM DIR        (scripts/check-browser --screenshots DIR runs it)
"""
import contextlib
import http.client
import pathlib
import subprocess
import sys
import threading
import time

from browsing import Page, start_browser
from serving import ROOT, Server, eventually

PROMPT = "It was a dark and stormy night"
NAMES = ["characters", "shakespeare", "weather"]
QUESTIONS = ["What is the capital of France?", "Write a Python function that adds two numbers. Be brief."]
OTHERS = ["characters", "shakespeare", "weather", "tales", "characters"]


def settled(page):
    """Waits until the newest steps are painted and the numbers are those of the last second."""
    time.sleep(0.4)
    page.js("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def answer_with_tooltip(page, scheme):
    page.emulate(scheme)
    page.generate(prompt=PROMPT, max_tokens=80, temperature=0.8, top_k=40, seed=7, view=120)
    page.js("document.querySelectorAll('.t')[9].focus()")
    settled(page)


def others(server):
    """Requests of another client, which end one after another."""
    def one(i, model):
        body = {"model": model, "prompt": PROMPT, "max_tokens": 180 + 90 * i, "temperature": 0.8, "seed": 20 + i, "ignore_eos": True}
        with contextlib.suppress(OSError, http.client.HTTPException):  # the server ends first
            server.post("/v1/completions", body)
    for each in enumerate(OTHERS):
        threading.Thread(target=one, args=each, daemon=True).start()
        time.sleep(0.05)


def comparison(page, scheme):
    page.emulate(scheme)
    page.choose(*NAMES)
    page.fill(prompt=PROMPT, max_tokens=110, temperature=0.8, top_k=40, seed=3, view=240)
    others(page.server)
    page.generate()
    eventually(lambda: len({cell[2] for cell in page.cells()}) >= 3)
    settled(page)


def conversation(page, scheme, questions, **form):
    page.emulate(scheme)
    page.fill(max_tokens=160, temperature=0, top_k="", top_p="", repetition_penalty=1.05, **form)
    for question in questions:
        page.generate(message=question)
    settled(page)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    browser = start_browser()
    try:
        for scheme in ["light", "dark"]:
            with Server() as server:
                page = Page(browser, server)
                answer_with_tooltip(page, scheme)
                browser.save_screenshot(str(folder / ("ui-answer-%s.png" % scheme)))
            with Server() as server:
                page = Page(browser, server)
                comparison(page, scheme)
                browser.save_screenshot(str(folder / ("ui-compare-%s.png" % scheme)))
        model = subprocess.run([ROOT / "scripts" / "get-model", "smollm2"], check=True, capture_output=True, encoding="utf-8").stdout.strip()
        with Server("--model", model, "--threads", "2") as server:
            page = Page(browser, server)
            conversation(page, "light", QUESTIONS)
            browser.save_screenshot(str(folder / "ui-chat-light.png"))
            page = Page(browser, server)
            page.click("heat")
            conversation(page, "dark", QUESTIONS)
            page.js("[...document.querySelectorAll('.t')].find(each => each.textContent === 'two').focus()")
            settled(page)
            browser.save_screenshot(str(folder / "ui-chat-dark.png"))
            page = Page(browser, server, width=390, height=844)
            browser.refresh()  # with the size of a phone
            page.wait_ready()
            conversation(page, "light", QUESTIONS[:1])
            page.js("scrollTo(0, 0)")
            settled(page)
            browser.save_screenshot(str(folder / "ui-phone.png"))
            if page.complaints():
                raise AssertionError(page.complaints())
    finally:
        browser.quit()
    for path in sorted(folder.glob("ui-*.png")):
        print("%s: %d KiB" % (path, path.stat().st_size // 1024))


if __name__ == "__main__":
    main()
