"""The page at /ui in Chromium, from its users' view: answers, comparison, the batch, keys, errors, keyboard, colours.

    test_page.py PROGRAM [TEST ...]        (scripts/check-browser runs it, with what it needs)
"""
import json
import math
import pathlib
import random
import re
import tempfile
import time
import unittest

from browsing import ActionChains, Page, Relay, reply, start_browser, stream_of
from serving import Server, eventually, free_port, main
from selenium.webdriver.common.keys import Keys

KING = "The king said"
NAMES = ["characters", "shakespeare", "weather"]
DOWN = ["ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE_CHUNKED_ENCODING"]

# [text, contrast] of every visible text against the nearest background that has a colour.
CONTRASTS = """
const rgb = text => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].reduce((sum, v, i) => {
  v /= 255;
  return sum + [.2126, .7152, .0722][i] * (v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
}, 0);
const ratio = (a, b) => (Math.max(light(a), light(b)) + .05) / (Math.min(light(a), light(b)) + .05);
const ground = element => {
  for (; element; element = element.parentElement) {
    const colour = rgb(getComputedStyle(element).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
};
const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const parent = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || parent.closest('script, .hidden') || !parent.checkVisibility()) continue;
  found.push([walk.currentNode.data.trim().slice(0, 40), ratio(rgb(getComputedStyle(parent).color), ground(parent))]);
}
for (const field of document.querySelectorAll('input, textarea, select')) {
  if (field.closest('.hidden') || !field.checkVisibility()) continue;
  found.push([field.id, ratio(rgb(getComputedStyle(field).color), ground(field))]);
}
return found;
"""

# The smallest contrast of an adapter's colour against the panel.
COLOURS = """
const at = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
const light = name => {
  at.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  at.fillRect(0, 0, 1, 1);
  return [...at.getImageData(0, 0, 1, 1).data].slice(0, 3).reduce((sum, v, i) => {
    v /= 255;
    return sum + [.2126, .7152, .0722][i] * (v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  }, 0);
};
const panel = light('--panel');
return Math.min(...['base', 'c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6'].map(name => light(`--${name}`))
  .map(l => (Math.max(l, panel) + .05) / (Math.min(l, panel) + .05)));
"""

# Events of every kind, split into two pieces at every place, and into single bytes.
CUTS = """
const bytes = new TextEncoder().encode('data: {"a": "\\u00e9\\u65e5\\u{1f389}"}\\n\\n:\\n\\ndata:1\\r\\ndata: 2\\r\\n\\r\\ndata: [DONE]\\n\\n');
const read = pieces => {
  const found = [], push = eventReader(data => found.push(data));
  pieces.forEach(push);
  return JSON.stringify(found);
};
const results = new Set([read([...bytes].map(b => Uint8Array.of(b)))]);
for (let i = 0; i <= bytes.length; ++i) results.add(read([bytes.slice(0, i), bytes.slice(i)]));
return [...results];
"""

# The last decoding cell and the last prompt cell of each place: [place, adapter, whether it is a prompt cell, whether
# the adapter's colour covers its whole height].
PAINTED = """
const {left, w, h, columns} = tenonBatch.geometry, canvas = document.getElementById('canvas'), last = new Map();
for (const [step, place, adapter, prompt] of tenonBatch.cells()) last.set(`${place} ${prompt > 0}`, [step, place, adapter, prompt > 0]);
const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
return [...last.values()].map(([step, place, adapter, reads]) => {
  const x = Math.floor(left + (columns - 1 - (tenonBatch.newest() - step) + .4) * w);
  const due = colours.of(adapter).match(/[0-9a-f]{2}/g).map(each => parseInt(each, 16));
  const whole = [.2, .25, .3, .35, .4, .45, .5, .55, .6, .65, .7, .75, .8].every(part => {
    const at = 4 * (Math.floor((place + part) * h) * canvas.width + x);
    return pixels.data[at + 3] > 200 && due.every((v, i) => Math.abs(v - pixels.data[at + i]) < 40);
  });
  return [place, adapter, reads, whole];
});
"""


class BrowserTest(unittest.TestCase):
    FLAGS = []

    @classmethod
    def setUpClass(cls):
        cls.browser = start_browser()
        cls.addClassCleanup(cls.browser.quit)
        cls.server = cls.enterClassContext(Server(*cls.FLAGS))

    def open(self, **more):
        return Page(self.browser, self.server, **more)

    def quiet(self, page, network=()):
        self.assertEqual(page.complaints(network), [])

    def told(self, model, prompt=KING, **more):
        """The text of the API's answer, not streamed."""
        answer = self.server.post("/v1/completions", {"model": model, "prompt": prompt} | more)
        self.assertEqual(answer.status, 200, answer)
        return answer.json()["choices"][0]["text"]


class ThePage(BrowserTest):
    def test_it_loads_small_and_silent(self):
        answer = self.server.get("/ui")
        self.assertEqual((answer.status, answer.headers["content-type"]), (200, "text/html; charset=utf-8"))
        self.assertLess(len(answer.body), 64000)
        policy = answer.headers["content-security-policy"]
        for part in ["default-src 'none'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"]:
            self.assertIn(part, policy)
        page = self.open()
        time.sleep(0.6)  # time for several polls
        loaded = page.js("return performance.getEntriesByType('resource').map(each => [each.name, each.transferSize])")
        base = "http://127.0.0.1:%d/" % self.server.port
        self.assertEqual({re.sub(r"\?.*", "", name.removeprefix(base)) for name, _ in loaded}, {"v1/models", "ui/steps"})
        self.assertLess(len(answer.body) + sum(size for _, size in loaded), 100000)
        self.assertEqual(page.js("return [...document.querySelectorAll('#choices input')].map(box => [box.value, box.checked])"),
                         [["tales", True], ["characters", False], ["shakespeare", False], ["weather", False]])
        self.quiet(page)

    def test_an_answer_streams(self):
        page = self.open()
        got, = page.generate(prompt=KING, max_tokens=60, temperature=0, top_k="", top_p="")
        self.assertEqual((got["state"], got["model"], got["error"]), ("done", "tales", ""))
        self.assertEqual(got["text"], self.told("tales", max_tokens=60, temperature=0))
        self.assertEqual(got["tokens"], 60)
        self.assertRegex(got["stats"], r"^60 tokens . first after [\d.,]+ ms . [\d.]+ ms per token . [\d,]+ tokens/s . .*\(length\)$")
        self.assertRegex(page.shown("said"), r"^Done: 60 tokens in [\d.]+ s$")
        self.assertEqual(page.js("return document.querySelector('.given').textContent"), KING)
        self.quiet(page)

    def test_a_seed_beyond_doubles_draws_what_the_api_draws(self):
        page, seed = self.open(), 2**63 - 1
        got, = page.generate(prompt=KING, max_tokens=40, temperature=0.9, top_k=30, top_p=0.9, seed=seed)
        self.assertEqual(got["text"], self.told("tales", max_tokens=40, temperature=0.9, top_k=30, top_p=0.9, seed=seed), got)
        self.quiet(page)

    def test_three_adapters_side_by_side(self):
        page = self.open()
        page.choose(*NAMES)
        answers = page.generate(prompt=KING, max_tokens=50, temperature=0, top_k="")
        self.assertEqual([each["model"] for each in answers], NAMES)
        for each in answers:
            self.assertEqual(each["text"], self.told(each["model"], max_tokens=50, temperature=0))
        self.assertEqual(len({each["text"] for each in answers}), 3)
        times = page.js("return [...document.querySelectorAll('.card')].map(card => [...card.querySelectorAll('.t')].map(span => span.piece.after))")
        for after in times:  # the server may write several tokens at a time
            self.assertLess(sum(time < 0.001 for time in after), len(after) / 5, after)
        boxes = page.js("return [...document.querySelectorAll('.card')].map(card => card.getBoundingClientRect().toJSON())")
        self.assertEqual(len({box["top"] for box in boxes}), 1)  # beside each other
        page.size(390, 800)
        boxes = page.js("return [...document.querySelectorAll('.card')].map(card => card.getBoundingClientRect().toJSON())")
        self.assertEqual(len({box["left"] for box in boxes}), 1)  # below each other
        self.assertLessEqual(page.js("return document.documentElement.scrollWidth"), 390)
        self.quiet(page)

    def test_no_more_than_connections_allow(self):
        page = self.open()
        page.js("models.push(...['a', 'b', 'c'].map(id => ({...models[1], id})));"
                "const box = document.querySelectorAll('#choices label')[1];"
                "for (const id of ['a', 'b', 'c']) { const more = box.cloneNode(true); more.querySelector('input').value = id;"
                " document.getElementById('choices').append(more); }")
        page.choose("tales", "characters", "shakespeare", "weather", "a")
        self.assertEqual(page.js("return [...document.querySelectorAll('#choices input:disabled')].map(box => box.value)"), ["b", "c"])

    def test_stop_leaves_the_text_and_ends_the_request(self):
        page = self.open()
        page.choose("tales", "shakespeare")
        page.fill(prompt=KING, max_tokens=1000, temperature=0, top_k="")
        before = self.server.metric("lorax_request_failure")
        page.click("generate")
        page.wait_text(3)
        page.click("stop")
        answers = page.wait_answers()
        for each in answers:
            self.assertEqual(each["state"], "stopped")
            self.assertIn("stopped here", each["stats"])
            self.assertTrue(3 <= each["tokens"] < 1000, each["tokens"])
            self.assertTrue(self.told(each["model"], max_tokens=1000, temperature=0).startswith(each["text"]))
        self.assertRegex(page.shown("said"), "^Stopped")
        self.assertEqual(self.server.wait_quiet()["vllm:num_requests_running{model_name=\"tales\"}"], 0)
        self.assertEqual(self.server.metric("lorax_request_failure"), before + 2)
        again = page.generate(max_tokens=5)[1]
        self.assertEqual((again["state"], again["tokens"]), ("done", 5))
        self.quiet(page)

    def test_events_may_be_cut_anywhere(self):
        page = self.open()
        self.assertEqual(page.js(CUTS), ['["{\\"a\\": \\"\u00e9\u65e5\U0001f389\\"}","1\\n2","[DONE]"]'])

    def test_texts_are_no_markup(self):
        page = self.open()
        got, = page.generate(prompt="<img src=x onerror=alert(1)><b>", max_tokens=3)
        self.assertEqual(got["state"], "done")
        self.assertEqual(page.js("return document.querySelectorAll('#answers img, #answers b').length"), 0)
        self.quiet(page)

    def test_errors_are_told_in_the_servers_words(self):
        page = self.open()
        got, = page.generate(prompt=KING, max_tokens=5000)
        self.assertEqual((got["state"], got["text"]), ("error", ""))
        said = self.server.post("/v1/completions", {"prompt": KING, "max_tokens": 5000}).json()["error"]["message"]
        self.assertEqual(got["error"], said)
        page.generate(max_tokens=5, seed="x")
        self.assertIn("seed", page.shown("said"))
        page.choose()
        page.generate(seed="")
        self.assertIn("Choose", page.shown("said"))
        self.quiet(page, ["status of 400"])

    def test_a_reload_keeps_the_form_but_not_the_key(self):
        page = self.open()
        page.choose("shakespeare", "weather")
        page.fill(prompt="Once more", max_tokens=7, temperature=0.3, seed=12)
        self.browser.refresh()
        page.wait_ready()
        self.assertEqual(page.js("return ['prompt', 'max_tokens', 'temperature', 'seed'].map(id => document.getElementById(id).value)"),
                         ["Once more", "7", "0.3", "12"])
        self.assertEqual([each["model"] for each in page.generate()], ["shakespeare", "weather"])
        self.assertNotIn("key", page.js("return sessionStorage.getItem('tenon.form')"))
        self.assertEqual(page.js("return localStorage.length"), 0)
        self.quiet(page)


MARKDOWN = """# A <b>title</b>

Some *words* and **more**, `a < b`,
two lines.

- one
- `two`

3. three
> said

```c
int x = 1 < 2;

```
<script>end"""
FORMATTED = ("<h4>A &lt;b&gt;title&lt;/b&gt;</h4><p>Some <em>words</em> and <strong>more</strong>, <code>a &lt; b</code>,<br>two lines.</p>"
             '<ul><li>one</li><li><code>two</code></li></ul><ol start="3"><li>three</li></ol><blockquote>said<br></blockquote>'
             "<pre><code>int x = 1 &lt; 2;\n</code></pre><p>&lt;script&gt;end</p>")

# The message and the card that these chunks of a stream make.
CHUNKS = """
const answer = new TalkAnswer({name: 'tales', members: {model: 'tales'}}, [{message: 'What?', answers: {}}]);
answer.begun = performance.now();
for (const delta of arguments[0]) {
  answer.fresh = document.createDocumentFragment();
  answer.take(JSON.stringify({choices: [{delta, logprobs: null, finish_reason: null}]}));
  answer.text.append(answer.fresh);
}
answer.end('done');
return [answer.message, [...answer.card.querySelectorAll('.call')].map(each => each.textContent), answer.card.querySelector('.thinking')?.textContent,
        talk.messages('tales', [{message: 'What?', answers: {tales: answer.message}}, {message: 'Sunny', answers: {}}])];
"""


# Keeps the bodies of requests in `sent`, and adds these members to them.
WATCH = """
const more = arguments[0], own = window.fetch;
window.sent = [];
window.fetch = (path, options = {}) => {
  if (options.method !== 'POST') return own(path, options);
  sent.push(JSON.parse(options.body));
  return own(path, {...options, body: JSON.stringify({...sent.at(-1), ...more})});
};
"""


class AConversation(BrowserTest):
    FLAGS = ["--chat-template", "chatml"]

    def said(self, messages, model="tales", **more):
        answer = self.server.post("/v1/chat/completions", {"model": model, "messages": messages, "temperature": 0} | more)
        self.assertEqual(answer.status, 200, answer)
        return answer.json()["choices"][0]["message"]["content"]

    def send(self, page, message, **values):
        page.fill(message=message, **values)
        page.click("generate")
        return page.wait_answers()

    def bubbles(self, page):
        return page.js("return [...document.querySelectorAll('.card')].map(card => [...card.querySelectorAll('.said')].map(each => each.textContent))")

    def test_it_is_kept_over_a_reload_and_each_answer_sees_it(self):
        page = self.open()
        self.assertEqual([page.visible(each) for each in ["message", "prompt", "system"]], [True, False, True])
        self.assertEqual(page.shown("generate"), "Send")
        page.fill(system="Be kind.", max_tokens=20, temperature=0, top_k="", top_p="")
        page.js("document.getElementById('message').focus()")
        page.keys("Who is the king?", Keys.ENTER)
        page.wait_text(1)
        got, = page.wait_answers()
        turns = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Who is the king?"}]
        first = self.said(turns, max_tokens=20)
        self.assertEqual((got["state"], got["text"], got["error"]), ("done", first, ""))
        self.assertEqual(page.js("return document.getElementById('message').value"), "")
        turns += [{"role": "assistant", "content": first}, {"role": "user", "content": "And the queen?"}]
        self.browser.refresh()
        page.wait_ready()
        eventually(lambda: self.bubbles(page) == [["Who is the king?"]])
        got, = self.send(page, "And the queen?")
        self.assertEqual(got["text"], self.said(turns, max_tokens=20))
        self.assertEqual(self.bubbles(page), [["Who is the king?", "And the queen?"]])
        page.click("again")
        again, = page.wait_answers()
        self.assertEqual((again["text"], self.bubbles(page)), (got["text"], [["Who is the king?", "And the queen?"]]))
        page.click("anew")
        self.assertEqual(self.bubbles(page), [])
        page.fill(system="")
        got, = self.send(page, "Hello")
        self.assertEqual(got["text"], self.said([{"role": "user", "content": "Hello"}], max_tokens=20))
        self.quiet(page)

    def test_adapters_side_by_side_keep_their_own_answers(self):
        page = self.open()
        page.choose("tales", "shakespeare")
        page.fill(max_tokens=12, temperature=0, top_k="", top_p="", stops="never\nnor this", repetition_penalty=1.2)
        more = {"max_tokens": 12, "stop": ["never", "nor this"], "repetition_penalty": 1.2}
        firsts = self.send(page, "Hello")
        seconds = self.send(page, "More")
        for first, second in zip(firsts, seconds):
            turns = [{"role": "user", "content": "Hello"}]
            self.assertEqual(first["text"], self.said(turns, first["model"], **more))
            turns += [{"role": "assistant", "content": first["text"]}, {"role": "user", "content": "More"}]
            self.assertEqual(second["text"], self.said(turns, second["model"], **more))
        page.choose("shakespeare", "weather")
        page.fill(weights="0.5 0.25")
        mixed, = self.send(page, "Go on")
        self.assertEqual((mixed["model"], mixed["state"]), ("0.5 shakespeare + 0.25 weather", "done"))
        page.fill(weights="1")
        self.send(page, "Go on")
        self.assertIn("mix", page.shown("said"))
        self.quiet(page)

    def test_a_form_and_a_stop(self):
        page = self.open()
        got, = self.send(page, "Hello", schema='{"enum": ["red", "blue"]}', max_tokens=20)
        self.assertIn(got["text"], ['"red"', '"blue"'])
        self.send(page, "Hello", schema="{")
        self.assertIn("JSON", page.shown("said"))
        page.fill(schema="", max_tokens=900, temperature=0, message="Hello")
        page.click("generate")
        page.wait_text(1)
        page.keys(Keys.ESCAPE)
        got, = page.wait_answers()
        self.assertEqual(got["state"], "stopped")
        kept = page.js("return talk.turns.at(-1).answers.tales.content")
        self.assertEqual(kept, got["text"])
        page.js("document.querySelector('[name=way][value=text]').click()")
        self.assertEqual([page.visible("message"), page.visible("prompt"), page.shown("generate")], [False, True, "Generate"])
        got, = page.generate(prompt=KING, max_tokens=10, temperature=0, top_k="", top_p="")
        self.assertEqual(got["text"], self.told("tales", max_tokens=10, temperature=0))
        self.quiet(page)

    def test_calls_and_reasoning(self):
        page = self.open()
        call = {"role": "assistant", "content": "", "reasoning_content": "Hm.",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}]}
        message, calls, thought, messages = page.js(CHUNKS, [
            {"role": "assistant", "content": ""}, {"reasoning_content": "H"}, {"reasoning_content": "m."},
            {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "weather", "arguments": ""}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]}, {"tool_calls": [{"index": 0, "function": {"arguments": '"Rome"}'}}]}])
        self.assertEqual((message, calls, thought), (call, ['weather {"city": "Rome"}'], "Hm."))
        self.assertEqual(messages, [{"role": "user", "content": "What?"}, call, {"role": "tool", "tool_call_id": "c1", "content": "Sunny"}])
        tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
        got, = self.send(page, "Hello", tools=json.dumps(tools), max_tokens=8, temperature=0, top_k="", top_p="")
        self.assertEqual(got["text"].strip(), self.said([{"role": "user", "content": "Hello"}], max_tokens=8, tools=tools).strip())
        self.quiet(page)

    def test_a_call_is_shown_and_the_next_message_is_its_result(self):
        page = self.open()
        tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {
            "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"], "additionalProperties": False}}}]
        page.js(WATCH, {"tool_choice": "required", "parallel_tool_calls": False})  # no text model would call it
        got, = self.send(page, "The weather?", tools=json.dumps(tools), max_tokens=100, temperature=0, top_k="", top_p="")
        self.assertEqual((got["state"], got["text"]), ("done", ""), got)
        self.assertIn("(tool_calls)", got["stats"])
        call = page.js("return talk.turns[0].answers.tales.tool_calls[0]")
        self.assertIn(json.loads(call["function"]["arguments"])["city"], ["Rome", "Oslo"])
        shown = "return [...document.querySelectorAll('.call')].map(each => each.textContent)"
        self.assertEqual(page.js(shown), ["get_weather " + call["function"]["arguments"]])
        self.browser.refresh()
        page.wait_ready()
        eventually(lambda: page.js(shown) == ["get_weather " + call["function"]["arguments"]])
        page.js(WATCH, {"tool_choice": "none"})
        got, = self.send(page, "Sunny", max_tokens=12)
        turns = [{"role": "user", "content": "The weather?"}, {"role": "assistant", "content": "", "tool_calls": [call]},
                 {"role": "tool", "tool_call_id": call["id"], "content": "Sunny"}]
        self.assertEqual(page.js("return sent.at(-1).messages"), turns)
        self.assertEqual(got["text"], self.said(turns, max_tokens=12, tools=tools, tool_choice="none"))
        self.quiet(page)

    def test_copies_and_files(self):
        page = self.open()
        page.choose("tales", "shakespeare")
        page.fill(system="Be kind.", max_tokens=12, temperature=0, top_k="", top_p="")
        answers = self.send(page, "Hello")
        self.browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
        for i, each in enumerate(answers):
            page.js("document.querySelectorAll('.card')[arguments[0]].querySelector('.small button').click()", i)
            eventually(lambda: page.js("return navigator.clipboard.readText()") == each["text"], "nothing is copied")
        self.assertEqual(page.shown("said"), "Copied")
        page.js("URL.createObjectURL = blob => { window.blob = blob; return '#'; };"
                "HTMLAnchorElement.prototype.click = function() { window.named = this.download; };")
        page.click("export")
        self.assertEqual(page.js("return named"), "conversation.json")
        begin = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}]
        self.assertEqual(json.loads(page.js("return blob.text()")),
                         {each["model"]: begin + [{"role": "assistant", "content": each["text"]}] for each in answers})
        self.quiet(page)

    def test_tokens_are_coloured_by_probability(self):
        page = self.open()
        got, = self.send(page, "Hello", max_tokens=12, temperature=0, top_k="", top_p="")
        look = ("return [...document.querySelectorAll('.card .t')].map(span => [span.checkVisibility(), span.piece.logprob,"
                " getComputedStyle(span).backgroundColor, Number(span.style.getPropertyValue('--p'))])")
        self.assertEqual({each[0] for each in page.js(look)}, {False})  # the formatted text stands in their place
        page.click("heat")
        tokens = page.js(look)
        self.assertEqual({each[0] for each in tokens}, {True})
        answer = self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "temperature": 0, "max_tokens": 12,
                                                           "logprobs": True}).json()["choices"][0]["logprobs"]["content"]
        self.assertEqual([each[1] for each in tokens], [each["logprob"] for each in answer if each["token"]])
        for _, logprob, _, p in tokens:
            self.assertAlmostEqual(p, math.exp(logprob), places=6)
        alpha = {p: float(re.search(r"/ ([\d.e-]+)\)$", colour).group(1)) for _, _, colour, p in tokens}
        for p, value in alpha.items():
            self.assertAlmostEqual(value, 0.4 * (1 - p), places=3)
        self.assertGreater(len({round(value, 2) for value in alpha.values()}), 3)
        page.click("heat")
        self.assertEqual({(each[0], each[2]) for each in page.js(look)}, {(False, "rgba(0, 0, 0, 0)")})
        pressed = "return document.querySelector('.small button:last-child').getAttribute('aria-pressed')"
        self.assertEqual(page.js(pressed), "false")
        page.js("document.querySelector('.small button:last-child').click()")
        self.assertEqual((page.js(pressed), {each[0] for each in page.js(look)}), ("true", {True}))
        self.quiet(page)

    def test_what_the_form_says_is_asked_for(self):
        page = self.open()
        page.js(WATCH, {})
        more = {"max_tokens": 30, "temperature": 0, "repetition_penalty": 1.1, "presence_penalty": 0.5, "frequency_penalty": 0.25}
        text = self.said([{"role": "user", "content": "Hello"}], **more)
        word = text.split()[3]
        got, = self.send(page, "Hello", top_k="", top_p="", stops=word + "\nnever", **more)
        self.assertEqual(got["text"], text[:text.index(word)])
        self.assertIn("(stop)", got["stats"])
        self.assertEqual({name: value for name, value in page.js("return sent.at(-1)").items() if name in more}, more)
        page.click("anew")
        page.choose("shakespeare", "weather")
        got, = self.send(page, "Hello", weights="0.5, 0.25", stops="")
        merged = {"ids": ["shakespeare", "weather"], "weights": [0.5, 0.25]}
        self.assertEqual(got["text"], self.said([{"role": "user", "content": "Hello"}], merged_adapters=merged, **more))
        self.assertNotEqual(got["text"], text)
        self.quiet(page)

    def test_nothing_is_lost(self):
        page = self.open()
        page.click("again")
        self.assertEqual(page.shown("said"), "There is no message yet.")
        page.fill(message="Hello", max_tokens=900, temperature=0, top_k="", top_p="")
        page.click("generate")
        page.wait_text(3)
        self.browser.refresh()  # while the answer is written
        page.wait_ready()
        eventually(lambda: self.bubbles(page) == [["Hello"]])
        kept = page.js("return talk.turns[0].answers.tales.content")
        self.assertTrue(kept)
        self.assertTrue(self.said([{"role": "user", "content": "Hello"}], max_tokens=900).startswith(kept))
        page.js("window.own = window.fetch; window.fetch = (path, more) => more.method === 'POST' ? Promise.reject(new TypeError()) : own(path, more)")
        page.click("again")
        got, = page.wait_answers()
        self.assertEqual((got["state"], got["error"]), ("error", "The server is not reachable."))
        self.assertEqual(page.js("return talk.turns[0].answers.tales.content"), kept)  # until there is another one
        self.send(page, "More")
        self.assertEqual(page.js("return [talk.turns.length, document.getElementById('message').value]"), [1, "More"])
        page.js("window.fetch = own")
        self.browser.refresh()
        page.wait_ready()
        self.assertEqual(page.js("return document.getElementById('message').value"), "More")
        self.quiet(page)

    def test_markdown_is_shown_and_html_is_text(self):
        page = self.open()
        self.assertEqual(page.js("return formatted(arguments[0]).innerHTML", MARKDOWN), FORMATTED)
        for text in ["```", "", "\n\n", "* a", "**", "`", "1) x", ">", "```\na"]:
            page.js("return formatted(arguments[0]).innerHTML", text)  # ends
        self.quiet(page)

    def test_a_phone_shows_the_answer_at_once(self):
        page = self.open(width=390, height=844)
        self.browser.refresh()  # with the size of a phone
        page.wait_ready()
        self.assertFalse(page.visible("key-form"))
        got, = self.send(page, "Hello", max_tokens=5)
        top = page.js("return document.querySelector('.card').getBoundingClientRect().top + scrollY")
        self.assertLess(top, 500)
        self.assertLessEqual(page.js("return document.documentElement.scrollWidth"), 390)
        self.quiet(page)


class TheBatch(BrowserTest):
    FLAGS = ["--draft", "none"]  # each token has a cell of its own

    def test_four_fill_the_grid_and_counts_agree(self):
        page = self.open()
        page.choose("tales", *NAMES)
        page.generate(prompt=KING, max_tokens=10)
        boxes = page.js("return [...document.querySelectorAll('.card')].map(card => card.getBoundingClientRect().toJSON())")
        self.assertEqual((len({box["left"] for box in boxes}), len({box["top"] for box in boxes})), (2, 2))
        self.wait_still(page)
        now = page.js("return [...document.querySelectorAll('#legend tbody tr')].map(row => Number(row.cells[1].textContent))")
        self.assertEqual((sum(now), page.shown("running")), (0, "0"))
        self.quiet(page)

    def wait_still(self, page):
        """Waits until no request runs and the picture has the last step."""
        def still():
            before = page.js("return tenonBatch.last")
            time.sleep(0.6)
            return page.shown("running") == "0" and page.js("return tenonBatch.last") == before
        eventually(still, "the steps do not end")

    def test_a_row_for_each_request(self):
        page = self.open()
        page.choose(*NAMES)
        page.fill(view=480)
        page.generate(prompt=KING, max_tokens=5, temperature=0, top_k="")  # the first request with an adapter loads it
        self.wait_still(page)
        begin = page.js("return tenonBatch.newest()")
        answers = page.generate(prompt="Once upon a time", max_tokens=150)
        wanted = {each["model"].replace("tales", ""): int(each["stats"].split()[0]) for each in answers}

        def decoded():
            found = dict.fromkeys(wanted, 0)
            for step, _, adapter, prompt in page.cells():
                found[adapter] += step > begin and not prompt
            return found

        # The step that reads the prompt also gives the first token.
        eventually(lambda: all(wanted[name] - count in (1, 2) for name, count in decoded().items()),
                   lambda: "%s tokens, and cells: %s" % (wanted, decoded()), 10)
        cells = page.cells()
        rows = {(place, adapter) for step, place, adapter, _ in cells if step > begin}
        self.assertEqual({adapter for _, adapter in rows}, set(wanted))
        self.assertEqual((len(rows), len({place for place, _ in rows})), (3, 3))
        self.assertTrue(any(cell[3] for cell in cells), "no prompt was read")
        table = page.js("return [...document.querySelectorAll('#legend tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))")
        generated = {name.removesuffix(" (base)"): int(value.replace(",", "")) for name, _, value, _ in table}
        self.assertEqual(set(generated), {"tales", "characters", "shakespeare", "weather"})
        for name in generated:
            self.assertEqual(generated[name], sum(not cell[3] for cell in cells if (cell[2] or "tales") == name), table)
        eventually(lambda: page.shown("running") == "0")
        self.assertRegex(page.shown("cache"), r"^[\d.]+ %$")
        self.quiet(page)

    def test_cells_have_the_colours_of_adapters(self):
        page = self.open()
        page.choose("tales", "shakespeare", "weather")
        page.generate(prompt=KING, max_tokens=8, temperature=0, top_k="", view=60)
        self.wait_still(page)
        painted = page.js(PAINTED)
        self.assertEqual({(adapter, reads) for _, adapter, reads, _ in painted},
                         {(adapter, reads) for adapter in ["", "shakespeare", "weather"] for reads in [True, False]})
        self.assertEqual([each for each in painted if each[2] == each[3]], [])
        self.quiet(page)

    def test_a_step_in_words(self):
        page = self.open()
        self.wait_still(page)
        page.generate(prompt=KING, max_tokens=30, temperature=0)
        self.wait_still(page)
        page.js("document.getElementById('picture').focus()")
        page.keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
        at = page.js("return tenonBatch.looked")
        self.assertEqual(at, page.js("return tenonBatch.newest()") - 2)
        self.assertRegex(page.shown("step"), r"^Step %d, [\d.,]+ ms: 1 sequence; place \d+ tales$" % at)
        self.assertEqual(page.js("return document.getElementById('picture').getAttribute('aria-valuetext')"), page.shown("step"))
        self.quiet(page)

    def test_a_hidden_tab_asks_nothing(self):
        page = self.open()
        count = "return performance.getEntriesByType('resource').filter(each => each.name.includes('/ui/steps')).length"
        hide = ("Object.defineProperty(document, 'hidden', {configurable: true, get: () => arguments[0]});"
                "document.dispatchEvent(new Event('visibilitychange'));").replace("arguments[0]", "%s")
        page.js(hide % "true")
        time.sleep(0.5)
        before = page.js(count)
        time.sleep(1)
        self.assertEqual(page.js(count), before)
        page.js(hide % "false")
        eventually(lambda: page.js(count) >= before + 3, seconds=10)

    def test_a_server_that_begins_anew(self):
        port = free_port()
        with Server(*self.FLAGS, port=port) as first:
            page = Page(self.browser, first)
            page.generate(prompt=KING, max_tokens=40, temperature=0, top_k="")
            eventually(lambda: len(page.cells()) >= 40)
            boot = page.js("return tenonBatch.boot")
            first.kill()
            eventually(lambda: page.link() == "Server not reachable, trying again.", lambda: page.link())
            got, = page.generate()
            self.assertEqual((got["state"], got["error"]), ("error", "The server is not reachable."))
            self.assertTrue(page.cells())  # the last known state stays until the server is back
        with Server(*self.FLAGS, port=port) as second:
            eventually(lambda: page.link() == "Connected", lambda: page.link(), 15)
            eventually(lambda: page.js("return tenonBatch.boot") not in (None, boot))
            self.assertEqual(page.cells(), [])
            got, = page.generate()
            self.assertEqual((got["state"], got["tokens"]), ("done", 40))
            eventually(lambda: len(page.cells()) >= 40)
            self.assertEqual(second.post("/v1/completions", {"prompt": KING, "max_tokens": 40, "temperature": 0}).json()["choices"][0]["text"], got["text"])
            self.quiet(page, DOWN)


class Access(BrowserTest):
    def active(self, page):
        return page.js("const at = document.activeElement; return at.id || at.value || at.className || at.tagName")

    def tab_to(self, page, wanted, most=40):
        for _ in range(most):
            page.keys(Keys.TAB)
            if self.active(page) == wanted:
                return
        self.fail("Tab does not reach " + wanted)

    def test_keys_alone(self):
        page = self.open()
        page.keys(Keys.TAB)
        self.assertEqual(self.active(page), "skip")
        page.keys(Keys.TAB)
        self.assertEqual(self.active(page), "prompt")
        outline = page.js("const style = getComputedStyle(document.activeElement); return [style.outlineStyle, parseFloat(style.outlineWidth)]")
        self.assertEqual(outline, ["solid", 2])
        page.keys((Keys.CONTROL, "a"), KING)
        self.tab_to(page, "shakespeare")
        page.keys(" ")
        self.tab_to(page, "max_tokens")
        page.keys((Keys.CONTROL, "a"), "12")
        page.keys((Keys.CONTROL, Keys.ENTER))
        page.wait_text(1)
        answers = page.wait_answers()
        self.assertEqual([(each["model"], each["tokens"]) for each in answers], [("tales", 12), ("shakespeare", 12)])
        self.assertEqual(self.active(page), "max_tokens")

        self.tab_to(page, "t shown")
        first = page.tip()
        self.assertIn("time to first token", first)
        page.keys(Keys.ARROW_RIGHT)
        second = page.tip()
        self.assertIn("after the one before", second)
        self.assertRegex(second, r"probability\s+[<\d.]+ %\s+log-probability\s+-?[\d.]+")
        self.assertIn(page.js("return document.querySelectorAll('#tip .bars i').length"), (5, 6))  # the taken token may be none of the five likeliest
        taken = page.js("return document.querySelector('#tip .bars code.taken').textContent")
        self.assertTrue(second.startswith(taken), second)
        self.assertEqual(page.js("return document.activeElement.getAttribute('aria-describedby')"), "tip")
        page.keys(Keys.END)
        self.assertEqual(page.js("return [...document.querySelectorAll('.card')][0].querySelectorAll('.t')[11] === document.activeElement"), True)
        page.keys(Keys.HOME)
        self.assertEqual(page.tip(), first)
        page.keys(Keys.ESCAPE)
        self.assertIsNone(page.tip())
        page.keys(Keys.TAB)  # one tab stop per answer
        self.assertEqual(page.js("return document.activeElement.closest('.card').dataset.model"), "shakespeare")

        page.fill(max_tokens=1000, temperature=0)
        page.keys((Keys.CONTROL, Keys.ENTER))
        page.wait_text(1)
        page.keys(Keys.ESCAPE)
        self.assertEqual({each["state"] for each in page.wait_answers()}, {"stopped"})
        self.quiet(page)

    def test_the_skip_link_leads_to_the_answers(self):
        page = self.open()
        page.keys(Keys.TAB, Keys.ENTER)
        self.assertEqual(self.active(page), "answers")

    def test_a_pointer_shows_a_token(self):
        page = self.open()
        page.generate(prompt=KING, max_tokens=10, temperature=0)
        span = self.browser.find_elements("css selector", ".t")[4]
        ActionChains(self.browser).move_to_element(span).perform()
        self.assertIn("log-probability", page.tip())
        ActionChains(self.browser).move_to_element(self.browser.find_element("css selector", "h1")).perform()
        self.assertIsNone(page.tip())

    def test_everything_has_a_name(self):
        page = self.open()
        page.generate(prompt=KING, max_tokens=3)
        tree = self.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        wanted = {"button", "textbox", "spinbutton", "checkbox", "combobox", "slider", "searchbox", "article", "region", "table"}
        nameless = [node["role"]["value"] for node in tree if not node.get("ignored") and node.get("role", {}).get("value") in wanted
                    and not node.get("name", {}).get("value")]
        self.assertEqual(nameless, [])
        self.assertEqual(page.js("const answer = document.querySelector('.answer'); return [answer.getAttribute('aria-live'), answer.getAttribute('aria-busy')]"),
                         ["polite", "false"])

    def test_both_colour_schemes_can_be_read(self):
        page = self.open()
        page.choose(*NAMES)
        grounds = set()
        for scheme in ["light", "dark"]:
            page.emulate(scheme)
            page.generate(prompt=KING, max_tokens=5000)
            contrasts = page.js(CONTRASTS)  # while errors are shown
            page.generate(max_tokens=8)
            page.js("document.querySelectorAll('.t')[2].focus()")
            page.js("document.getElementById('key-asked').hidden = false; document.getElementById('key-asked').textContent = 'asked'")
            page.js("document.getElementById('link').classList.add('lost')")
            contrasts += page.js(CONTRASTS)
            self.assertGreater(len(contrasts), 60)
            self.assertEqual([each for each in contrasts if each[1] < 4.5], [], scheme)
            self.assertGreaterEqual(page.js(COLOURS), 3, scheme)
            grounds.add(page.js("return getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(grounds), 2)
        self.quiet(page, ["status of 400"])


class ATimeout(BrowserTest):
    FLAGS = ["--request-timeout", "1"]

    def test_an_error_within_a_stream_is_told_and_the_text_stays(self):
        page = self.open()
        page.choose("tales", "shakespeare")
        answers = page.generate(prompt=KING, max_tokens=1000, temperature=0, top_k="")
        late = [each for each in answers if each["state"] == "error"]
        if not late:
            self.skipTest("this machine generates 2,000 tokens in a second")
        for each in late:
            self.assertTrue(each["text"], each)
            self.assertRegex(each["error"], "longer than the server allows")
            self.assertTrue(self.told(each["model"], max_tokens=20, temperature=0).startswith(each["text"][:20]))
        self.assertRegex(page.shown("said"), "^Failed")
        self.quiet(page)


# Keeps what is said of the answers in `said`, and the pauses before tries in `pauses`. Shortens these, and the longest silence.
HASTE = """
window.said = [];
new MutationObserver(() => said.push(document.getElementById('said').textContent)).observe(document.getElementById('said'), {childList: true});
const own = window.setTimeout;
window.pauses = [];
window.setTimeout = (act, time) => {
  if (act === poll) return own(act, time);
  if (time === SILENCE_MS) return own(act, 3000);
  pauses.push(time);
  return own(act, Math.min(time, 20));
};
"""


class ACut(BrowserTest):
    """Streams that are cut: the page continues them."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.FLAGS = cls.flags("one")
        super().setUpClass()

    @classmethod
    def flags(cls, name):
        key = cls.folder / name
        key.write_text("a secret with the name %s, and of at least thirty-two bytes" % name)
        return ["--chat-template", "chatml", "--resume-key-file", key]

    def relayed(self, *plan, server=None, text=True, haste=True):
        """A relay with this plan, and a page that asks through it."""
        relay = self.enterContext(Relay((server or self.server).port))
        page = Page(self.browser, relay)
        if haste:
            page.js(HASTE)
        if text:
            page.js("document.querySelector('[name=way][value=text]').click()")
        page.fill(top_k="", top_p="")
        relay.plan = list(plan)
        return relay, page

    def generate(self, relay, page, **values):
        """Cuts the answer once text is shown, and waits for its end. The plan begins with a negative number.

        A browser drops what a script has not read yet when the connection ends.
        """
        page.fill(**values)
        page.click("generate")
        page.wait_text(1)
        relay.closing.set()
        return page.wait_answers()

    def quiet(self, page, network=()):
        super().quiet(page, [*DOWN, *network])

    def bodies(self, relay):
        """The bodies of the requests, without predictions: one and the same."""
        bodies = [{name: value for name, value in body.items() if name != "prediction"} for _, body in relay.posts]
        self.assertEqual([body for body in bodies if body != bodies[0]], [])
        return bodies

    def test_cuts_at_any_byte(self):
        draw, cuts = random.Random(3), 0
        for temperature, seed in [(0, ""), (0.9, 7)]:
            relay, page = self.relayed(2000, *(draw.randint(1, 6000) for _ in range(9)))
            got, = page.generate(prompt=KING, max_tokens=60, temperature=temperature, seed=seed)
            more = {"seed": seed} if seed else {}
            self.assertEqual(got["text"], self.told("tales", max_tokens=60, temperature=temperature, **more))
            self.assertEqual((got["state"], got["error"], got["tokens"]), ("done", "", 60))
            self.assertRegex(got["stats"], r"^60 tokens .*\(length\)$")
            self.assertRegex(page.shown("said"), "^Done: 60 tokens")
            self.assertIn("Reconnecting", page.js("return said"))
            self.assertEqual(len(self.bodies(relay)), relay.cuts + 1)
            self.assertTrue(self.bodies(relay)[0]["resumable"])
            cuts += relay.cuts
            for _, body in relay.posts[1:]:  # a reset may take back all that came, so that nothing is predicted
                self.assertTrue(got["text"].startswith(body.get("prediction", {"content": ""})["content"]))
            headers, body = relay.posts[-1]
            self.assertTrue(headers["last-event-id"] and body["prediction"]["content"])
            self.quiet(page)
        self.assertGreater(cuts, 8)

    def test_an_answer_without_a_seed_stays_one_answer(self):
        relay, page = self.relayed(-6000, 5000)
        got, = self.generate(relay, page, prompt=KING, max_tokens=50, temperature=1)
        seed = int(relay.posts[1][0]["last-event-id"].split(".")[2])
        self.assertEqual(got["text"], self.told("tales", max_tokens=50, temperature=1, seed=seed))
        self.assertEqual(relay.cuts, 2)
        self.quiet(page)

    def test_a_conversation_side_by_side(self):
        relay, page = self.relayed(6000, 9000, 3000, 4000, text=False)
        page.choose("tales", "shakespeare")
        page.fill(message="Hello")
        answers = page.generate(max_tokens=40, temperature=0)
        for each in answers:
            body = {"model": each["model"], "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 40, "temperature": 0}
            text = self.server.post("/v1/chat/completions", body).json()["choices"][0]["message"]["content"]
            self.assertEqual((each["state"], each["text"], each["error"]), ("done", text, ""))
            self.assertEqual(page.js("return talk.turns[0].answers[arguments[0]].content", each["model"]), text)
        self.assertEqual((relay.cuts, len(relay.posts)), (4, 6))
        self.quiet(page)

    def test_a_server_that_begins_anew(self):
        port = free_port()
        with Server(*self.FLAGS, port=port) as first:
            relay, page = self.relayed(-6000, server=first, haste=False)
            page.fill(prompt=KING, max_tokens=300, temperature=0)
            page.click("generate")
            page.wait_text(1)
            first.kill()
            relay.closing.set()
            eventually(lambda: "reconnecting (try" in page.answers()[0]["stats"], "no note is shown")
        with Server(*self.FLAGS, port=port):
            got, = page.wait_answers()
            self.assertEqual((got["state"], got["text"], got["error"]), ("done", self.told("tales", max_tokens=300, temperature=0), ""))
            self.assertNotIn("reconnecting", got["stats"])
            self.quiet(page, ["503 (Service Unavailable)"])  # what a server answers that is not ready yet

    def test_it_gives_up_after_some_tries(self):
        relay, page = self.relayed(-6000, *[reply(502, {"error": "bad gateway"})] * 20)
        got, = self.generate(relay, page, prompt=KING, max_tokens=60, temperature=0)
        self.assertEqual(got["state"], "error")
        self.assertEqual(got["error"], "The connection was cut, and 12 tries did not continue the answer: bad gateway")
        self.assertTrue(got["text"] and self.told("tales", max_tokens=60, temperature=0).startswith(got["text"]))
        self.assertEqual(len(relay.posts), 13)
        pauses = [each for each in page.js("return pauses") if isinstance(each, (int, float))]
        longest = [0] + [min(5000, 250 * 2**i) for i in range(11)]
        self.assertEqual(len(pauses), 12)
        for pause, most in zip(pauses, longest):
            self.assertTrue(most / 2 <= pause <= most, pauses)
        self.assertEqual(page.js("return document.querySelectorAll('.card .error').length"), 1)
        self.quiet(page, ["status of 502"])

    def test_stop_ends_the_tries(self):
        relay, page = self.relayed(-6000, reply(503, {"error": "loading"}, "Retry-After: 60"), haste=False)
        page.fill(prompt=KING, max_tokens=60, temperature=0)
        page.click("generate")
        page.wait_text(1)
        relay.closing.set()
        eventually(lambda: "reconnecting (try" in page.answers()[0]["stats"] and len(relay.posts) == 2, "no note is shown")
        page.click("stop")
        got, = page.wait_answers()
        self.assertEqual((got["state"], got["error"]), ("stopped", ""))
        self.assertTrue(got["text"] and self.told("tales", max_tokens=60, temperature=0).startswith(got["text"]))
        self.assertRegex(page.shown("said"), "^Stopped")
        time.sleep(0.5)
        self.assertEqual(len(relay.posts), 2)
        self.quiet(page, ["status of 503"])

    def test_a_refusal_is_told_and_the_text_stays(self):
        with Server(*self.flags("two")) as foreign:
            relay, page = self.relayed(-6000)
            relay.on_cut = lambda: setattr(relay, "target", foreign.port)
            got, = self.generate(relay, page, prompt=KING, max_tokens=60, temperature=0)
        self.assertEqual(got["state"], "error")
        self.assertRegex(got["error"], "^The answer cannot be continued: `Last-Event-ID` was not given by a server with this --resume-key-file")
        self.assertTrue(got["text"] and self.told("tales", max_tokens=60, temperature=0).startswith(got["text"]))
        self.assertEqual(["prediction" in body for _, body in relay.posts], [False, True, False])
        self.quiet(page, ["status of 400"])

    def test_another_engine_may_be_one_of_several(self):
        other = reply(400, {"error": {"message": "another engine", "type": "x", "param": None, "code": "stream_of_another_engine"}})
        relay, page = self.relayed(6000, other, other)
        got, = page.generate(prompt=KING, max_tokens=60, temperature=0)
        self.assertEqual((got["state"], got["text"]), ("done", self.told("tales", max_tokens=60, temperature=0)))
        relay.plan = [6000, *[other] * 9]
        got, = page.generate()
        self.assertEqual((got["state"], got["error"]), ("error", "The connection was cut, and 3 tries did not continue the answer: another engine"))
        self.quiet(page, ["status of 400"])

    def test_what_may_pass_is_tried_again(self):
        error = {"error": {"message": "the server is shutting down", "type": "server_error", "param": None, "code": None}}
        relay, page = self.relayed(6000, reply(503, error, "Retry-After: 2"), stream_of(error), -1500, b"", 9000)
        got, = page.generate(prompt=KING, max_tokens=60, temperature=0)
        self.assertEqual((got["state"], got["text"], got["error"]), ("done", self.told("tales", max_tokens=60, temperature=0), ""))
        self.assertEqual(got["tokens"], 60)
        self.assertIn(2000, page.js("return pauses"))
        self.assertEqual(len(self.bodies(relay)), 7)
        self.quiet(page, ["status of 503"])

    def test_what_would_come_again_is_not_tried_again(self):
        for answer in [stream_of({"error": {"message": "longer than allowed", "type": "x", "param": None, "code": "timeout"}}),
                       reply(500, {"error": {"message": "the engine failed", "type": "x", "param": None, "code": "engine_failed"}}, "x-should-retry: false")]:
            relay, page = self.relayed(-6000, answer)
            got, = self.generate(relay, page, prompt=KING, max_tokens=60, temperature=0)
            self.assertEqual((got["state"], len(relay.posts)), ("error", 2))
            self.assertIn(got["error"], ["longer than allowed", "the engine failed"])
            self.assertTrue(got["text"])
            self.quiet(page, ["status of 500"])

    def test_a_server_without_a_key_continues_nothing(self):
        with Server() as keyless:
            relay, page = self.relayed(-6000, server=keyless, text=False)
            got, = self.generate(relay, page, prompt=KING, max_tokens=60, temperature=0)
            self.assertEqual((got["state"], got["error"]), ("error", "The connection was cut before the end of the answer."))
            self.assertTrue(got["text"])
            self.assertEqual(["resumable" in body for _, body in relay.posts], [False])
            self.assertNotIn("Reconnecting", page.js("return said"))
            self.quiet(page)


class AKey(BrowserTest):
    FLAGS = ["--api-key", "secret-1"]

    def setUp(self):
        self.server.key = "secret-1"

    def test_a_key_is_asked_for(self):
        page = self.open(wait=False)
        eventually(lambda: page.visible("key-asked"), "no key is asked for")
        self.assertIn("asks for a key", page.shown("key-asked"))
        self.assertEqual(page.js("return document.activeElement.id"), "key")
        page.keys("wrong", Keys.ENTER)
        eventually(lambda: "refused" in page.shown("key-asked"), "the wrong key is not refused")
        page.keys((Keys.CONTROL, "a"), "secret-1", Keys.ENTER)
        page.wait_ready()
        self.assertFalse(page.visible("key-asked"))
        got, = page.generate(prompt=KING, max_tokens=20, temperature=0, top_k="")
        self.assertEqual(got["text"], self.told("tales", max_tokens=20, temperature=0))
        eventually(lambda: len(page.cells()) >= 20)
        self.browser.refresh()  # the tab keeps the key
        page.wait_ready()
        self.assertEqual(page.js("return [localStorage.length, document.cookie]"), [0, ""])
        self.assertNotIn("secret-1", page.js("return location.href + sessionStorage.getItem('tenon.form')"))
        other = self.open(wait=False)  # another tab does not have it
        eventually(lambda: other.visible("key-asked"), "no key is asked for")
        self.quiet(other, ["status of 401"])


if __name__ == "__main__":
    main()
