"""tenon chat: through a pipe, and on a pseudo-terminal."""
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import time
import unittest

import support
from chat_support import END, TEMPLATE, ChatTest, messages
from support import PROGRAM, TALES, as_lines, json_lines, tenon

ADAPTERS = TALES / "adapters"
GREEDY = ("--temperature", 0, "--top-p", 1, "--threads", 1)
COLOUR = re.compile("\x1b\\[[0-9;]*m")
MODE = re.compile("\x1b\\[\\?2004[hl]")  # bracketed paste


class Pipe(ChatTest):
    def chat(self, text, *options, status=0, model=None, env=None):
        done = tenon("chat", "--model", model or self.chat_model(), *GREEDY, *options, stdin=text, env=env)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def answer(self, turns, adapter=None, length=12, model=None):
        request = {"messages": turns, "max_new_tokens": length, "adapter": adapter}
        (answer,) = self.lines(model or self.chat_model(), [request])
        return answer["text"]

    def talk(self, said, system=None, adapter=None):
        """The answers to messages of one conversation."""
        turns, out = messages(("system", system)) if system else [], []
        for each in said:
            turns = turns + messages(("user", each))
            out.append(self.answer(turns, adapter))
            turns = turns + messages(("assistant", out[-1]))
        return out

    def test_a_conversation(self):
        said = ["The rain", "And the sun?", "é 😀 " + END]
        done = self.chat("\n".join(said), "--max-new-tokens", 12)
        self.assertEqual(done.stdout, "".join(a + ("" if a.endswith("\n") else "\n") for a in self.talk(said)))
        self.assertNotIn("\x1b", done.stdout + done.stderr)

    def test_messages_of_several_lines(self):
        one = self.answer(messages(("user", "a\nb")))
        for text in ["a\\\nb\n", '"""\na\nb\n"""\n', '"""a\nb"""\n', '"""a\nb\n"""\n', 'a\\\nb']:
            self.assertEqual(self.chat(text, "--max-new-tokens", 12).stdout.rstrip("\n"), one.rstrip("\n"), text)
        slash = self.answer(messages(("user", "/help")))
        for text in ["//help\n", '"""/help"""\n']:
            self.assertEqual(self.chat(text, "--max-new-tokens", 12).stdout.rstrip("\n"), slash.rstrip("\n"), text)

    def test_the_first_message_may_be_an_argument(self):
        done = self.chat("And the sun?\n", "The rain", "--max-new-tokens", 12)
        self.assertEqual(done.stdout, "".join(a + ("" if a.endswith("\n") else "\n") for a in self.talk(["The rain", "And the sun?"])))

    def test_system_prompt(self):
        one, two = self.talk(["Hi"], "Be brief.")[0], self.talk(["Hi"])[0]
        self.assertNotEqual(one, two)
        for text, options in [("Hi\n", ["--system", "Be brief."]), ("/system Be brief.\nHi\n", []), ("/system x\n/system Be brief.\nHi\n", [])]:
            self.assertEqual(self.chat(text, "--max-new-tokens", 12, *options).stdout.split("\n", text.count("/"))[-1].rstrip("\n"), one.rstrip("\n"))
        self.assertIn(two, self.chat("/system none\nHi\n", "--max-new-tokens", 12, "--system", "Be brief.").stdout)
        self.assertIn("Be brief.", self.chat("/system\n", "--system", "Be brief.").stdout)

    def test_reset_undo_and_retry(self):
        first, = self.talk(["Hi"])
        for text in ["Other\n/reset\nHi\n", "Other\n/undo\nHi\n", "Hi\n/retry\n"]:
            self.assertTrue(self.chat(text, "--max-new-tokens", 12).stdout.rstrip("\n").endswith(first.rstrip("\n")), text)
        file = self.folder / "a.json"
        self.chat(f"Hi\n/retry\n/retry\nYou\n/undo\n/save {file}\n", "--max-new-tokens", 12)
        self.assertEqual(json.loads(file.read_text())["messages"], messages(("user", "Hi"), ("assistant", first)))
        # Drawn answers differ: each has a seed of its own.
        drawn = tenon("chat", "--model", self.chat_model(), "--temperature", 1, "--seed", 7, "--threads", 1, "--max-new-tokens", 24,
                      stdin=f"Hi\n/save {self.folder / 'b.json'}\n/retry\n/save {self.folder / 'c.json'}\n")
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        b, c = (json.loads((self.folder / name).read_text())["messages"] for name in ["b.json", "c.json"])
        self.assertEqual((len(b), b[0]), (2, c[0]))
        self.assertNotEqual(b[1], c[1])

    def test_adapters(self):
        weather, plain = str(ADAPTERS / "weather"), None
        by_weather, by_none = self.talk(["Hi"], adapter=weather)[0], self.talk(["Hi"])[0]
        self.assertNotEqual(by_weather, by_none)
        for text, options, expected in [
                ("Hi\n", ["--adapter", weather], by_weather),
                (f"/adapter {weather}\nHi\n", [], by_weather),
                ("/adapter weather\nHi\n", ["--adapter-root", ADAPTERS], by_weather),
                ("/adapter none\nHi\n", ["--adapter", weather], by_none)]:
            done = self.chat(text, "--max-new-tokens", 12, *options)
            self.assertTrue(done.stdout.rstrip("\n").endswith(expected.rstrip("\n")), (text, done.stdout, expected))
        listed = self.chat("/adapter\n", "--adapter-root", ADAPTERS).stdout.split("\n")
        self.assertEqual(listed, ["none", "characters", "shakespeare", "weather", ""])
        unknown = self.chat("/adapter\n")
        self.assertEqual(unknown.stdout, "none\n")
        self.assertIn("--adapter-root", unknown.stderr)
        done = self.chat("/adapter nowhere\nHi\n", "--max-new-tokens", 12, status=1)
        self.assertIn("adapter_config.json", done.stderr)
        self.assertEqual(done.stdout.rstrip("\n"), by_none.rstrip("\n"))

    def test_compare(self):
        names = ["none", "weather", "shakespeare"]
        sides = {name: self.talk(["Hi", "More"], adapter=None if name == "none" else str(ADAPTERS / name)) for name in names}
        file = self.folder / "a.json"
        text = f"/compare {' '.join(names)}\nHi\nMore\n/save {file}\n"
        done = self.chat(text, "--max-new-tokens", 12, "--adapter-root", ADAPTERS)
        expected = ""
        for turn in range(2):
            for name in names:
                expected += f"[{name}]\n" + sides[name][turn] + ("" if sides[name][turn].endswith("\n") else "\n")
        self.assertIn(expected, done.stdout)
        saved = json.loads(file.read_text())
        self.assertEqual([side["adapter"] for side in saved["sides"]], names)
        for side in saved["sides"]:
            self.assertEqual([m["content"] for m in side["messages"]], ["Hi", sides[side["adapter"]][0], "More", sides[side["adapter"]][1]])
        # A side goes on alone.
        other = self.folder / "b.json"
        self.chat(f"/compare none weather\nHi\n/adapter weather\nMore\n/save {other}\n", "--max-new-tokens", 12, "--adapter-root", ADAPTERS)
        self.assertEqual([m["content"] for m in json.loads(other.read_text())["messages"]], ["Hi", sides["weather"][0], "More", sides["weather"][1]])
        for bad in ["/compare none\n", "/compare none none\n", "/compare none nowhere\n", "/compare " + "a b c d e f g h i\n"]:
            self.chat(bad, "--adapter-root", ADAPTERS, status=1)

    def test_save_and_load(self):
        first, second = self.talk(["Hi", "More"], "Be brief.")
        json_file, text_file = self.folder / "a.json", self.folder / "with space.md"
        done = self.chat(f'Hi\n/save {json_file}\nMore\n/save "{text_file}"\n', "--max-new-tokens", 12, "--system", "Be brief.")
        saved = json.loads(json_file.read_text())
        self.assertEqual(list(saved), ["model", "adapter", "messages"])
        self.assertEqual((saved["model"], saved["adapter"]), ("chat-model", None))
        self.assertEqual(saved["messages"], messages(("system", "Be brief."), ("user", "Hi"), ("assistant", first)))
        self.assertEqual(text_file.read_text(), "# Conversation with chat-model\n\n**System:** Be brief.\n"
                         f"\n**You:** Hi\n\n**Model:** {first}\n\n**You:** More\n\n**Model:** {second}\n")
        done = self.chat(f"/load {json_file}\nMore\n", "--max-new-tokens", 12)
        self.assertTrue(done.stdout.rstrip("\n").endswith(second.rstrip("\n")))
        # tenon run takes the file's messages.
        self.assertEqual(self.answer(saved["messages"] + messages(("user", "More"))), second)
        self.assertIn("exists", self.chat(f"/save {json_file}\n", status=1).stderr)
        self.assertEqual(json.loads(json_file.read_text()), saved)
        for content in ["[]", "{}", '{"messages": [1]}', '{"messages": [{"role": "user"}]}', "no JSON"]:
            bad = self.folder / "bad.json"
            bad.write_text(content)
            self.assertIn("bad.json", self.chat(f"/load {bad}\n", status=1).stderr, content)
        self.assertIn("nowhere.json", self.chat(f"/load {self.folder / 'nowhere.json'}\n", status=1).stderr)
        self.chat(f"Hi\n/save {self.folder / 'no' / 'folder.json'}\n", "--max-new-tokens", 1, status=1)

    def test_parameters(self):
        long = self.answer(messages(("user", "Hi")), length=5)
        done = self.chat("/set max_new_tokens 5\nHi\n")
        self.assertEqual(done.stdout.rstrip("\n"), long.rstrip("\n"))
        self.assertIn("cut at 5 tokens", done.stderr)
        listed = self.chat("/set\n").stdout
        for name in ["temperature = 0", "top_p = 1", "max_new_tokens = 1024", "top_k = 0"]:
            self.assertIn(name + "\n", listed)
        for bad in ["/set top_p 7", "/set top_p x", "/set top_k 1.5", "/set nothing 1", "/set top_k"]:
            self.assertIn("tenon: ", self.chat(bad + "\n", status=1).stderr, bad)

    def test_commands_are_listed(self):
        listed = self.chat("/help\n").stdout
        for name in ["help", "adapter", "compare", "system", "retry", "undo", "reset", "save", "load", "set", "timing", "quit"]:
            self.assertIn("/" + name, listed)
        self.assertLessEqual(max(map(len, listed.split("\n"))), 80)
        self.assertIn("/helq", self.chat("/helq\n", status=1).stderr)
        self.assertEqual(self.chat("/quit\nHi\n").stdout, "")

    def test_the_conversation_is_reused(self):
        done = self.chat("The rain in Spain falls mainly on the plain.\nAnd the sun?\n/timing\nMore\n", "--max-new-tokens", 24, "--timing")
        reused = [(int(a), int(b)) for a, b in re.findall(r"(\d+) of (\d+) prompt tokens reused", done.stderr)]
        self.assertEqual(len(reused), 2)
        self.assertEqual(reused[0][0], 0)
        # All but the last message, in blocks of 16 tokens.
        self.assertGreater(reused[1][0], 16)
        self.assertRegex(done.stderr, r"\d+ tokens in \d+\.\d+ s, first after \d+\.\d+ s, then \d+\.\d+ tokens/s")

    def test_old_messages_leave_a_full_context(self):
        file = self.folder / "a.json"
        done = self.chat("word " * 50 + "\n" + "other " * 50 + f"\nlast\n/save {file}\n", "--max-new-tokens", 30, "--positions", 128)
        self.assertIn("the oldest 2 messages no longer fit into the context", done.stderr)
        saved = json.loads(file.read_text())["messages"]
        self.assertEqual(len(saved), 6)  # they are only left out of the prompt
        for too_long in ["word " * 300, "word " * 30000]:
            done = self.chat(too_long + "\nHi\n", "--max-new-tokens", 12, "--positions", 128, status=1)
            self.assertIn("messages", done.stderr)
        self.assertEqual(done.stdout.rstrip("\n"), self.talk(["Hi"])[0].rstrip("\n"))

    def test_characters_come_whole(self):
        # Two tokens, each half of a character, by turns: their logits fall with each use.
        halves = self.tokens("\u00e9")
        self.assertEqual(len(halves), 2)
        options = ["--logit-bias", f"{halves[0]}=1000", "--logit-bias", f"{halves[1]}=999.5", "--frequency-penalty", 1, "--max-new-tokens", 40]
        process = subprocess.Popen([PROGRAM, "chat", "--model", str(self.chat_model()), *map(str, GREEDY), *map(str, options)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdin.write(b"Hi\n")
        process.stdin.close()
        chunks = []
        while chunk := os.read(process.stdout.fileno(), 65536):
            chunks.append(chunk.decode("utf-8"))  # each write is whole
        self.assertEqual(process.wait(), 0)
        process.stdout.close()
        process.stderr.close()
        text = "".join(chunks).strip()
        self.assertGreaterEqual(text.count("\u00e9"), 15)
        self.assertLessEqual(set(text), {"\u00e9", "\ufffd"})  # the model's own logits may repeat a half

    def test_ctrl_c_stops_the_answer(self):
        process = subprocess.Popen([PROGRAM, "chat", "--model", str(self.chat_model()), *map(str, GREEDY), "--ignore-eos", "--max-new-tokens", "900"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdin.write(b"Hi\n")
        process.stdin.flush()
        os.read(process.stdout.fileno(), 100)  # it writes
        process.send_signal(signal.SIGINT)
        file = self.folder / "a.json"
        out, errors = process.communicate(f"/save {file}\n/set max_new_tokens 3\nMore\n".encode(), timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn(b"stopped", errors)
        saved = json.loads(file.read_text())["messages"]
        self.assertEqual(len(saved), 2)
        (tokens,) = json_lines(tenon("tokens", "--model", TALES, stdin=as_lines([{"text": saved[1]["content"]}])).stdout)
        self.assertLess(len(tokens["ids"]), 900)

    def test_errors_at_the_start(self):
        done = tenon("chat", "--model", TALES, "--threads", 1, stdin="Hi\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--chat-template", done.stderr)
        self.assertEqual(done.stdout, "")
        for options in [["--chat-template-kwargs", "[]"], ["--adapter-root", "/nowhere"], ["--top-k", "x"]]:
            self.assertEqual(tenon("chat", "--model", self.chat_model(), *options).returncode, 2, options)
        self.chat("Hi\n", "--adapter", "nowhere", status=1)

    def test_variables_of_the_template(self):
        template = "{% if loud %}!{% endif %}" + TEMPLATE
        model = self.chat_model(template)
        done = self.chat("Hi\n", "--max-new-tokens", 8, "--chat-template-kwargs", '{"loud": true}', model=model)
        (loud,) = self.lines(model, [{"messages": messages(("user", "Hi")), "chat_template_kwargs": {"loud": True}, "max_new_tokens": 8}])
        self.assertEqual(done.stdout.rstrip("\n"), loud["text"].rstrip("\n"))

    def test_generation_config(self):
        model = self.chat_model()
        (model / "generation_config.json").write_text(json.dumps({"do_sample": True, "temperature": 0.25, "top_k": 7}))
        listed = tenon("chat", "--model", model, "--threads", 1, "--top-p", 0.5, stdin="/set\n").stdout
        for line in ["temperature = 0.25", "top_k = 7", "top_p = 0.5"]:
            self.assertIn(line + "\n", listed)
        (model / "generation_config.json").write_text(json.dumps({"do_sample": False}))
        listed = tenon("chat", "--model", model, "--threads", 1, stdin="/set\n").stdout
        for line in ["temperature = 0.7", "top_k = 0", "top_p = 0.95"]:
            self.assertIn(line + "\n", listed)


class Terminal(ChatTest):
    """The program on a terminal of its own."""

    def start(self, *options, env=None, size=(24, 80)):
        command = [PROGRAM, "chat", "--model", str(self.chat_model()), *map(str, GREEDY), *map(str, options)]
        variables = {"TERM": "xterm", "LC_ALL": "C.UTF-8", **(env or {})}
        child, self.end = pty.fork()
        if child == 0:
            os.environ.pop("NO_COLOR", None)
            os.execve(command[0], command, {**os.environ, **variables})
        import fcntl
        import struct
        import termios
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.child, self.seen = child, b""
        self.addCleanup(self.stop)
        first = self.wait_for("> ")
        self.edits = "Built without libedit" not in first
        return first

    def stop(self):
        if self.child:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
        if self.end is not None:
            os.close(self.end)

    def text(self):
        return MODE.sub("", COLOUR.sub("", self.seen.decode("utf-8", "replace"))).replace("\r", "")

    def wait_for(self, wanted, after=0, seconds=60):
        """The text since `after`, once it contains the wanted one."""
        until = time.monotonic() + seconds
        while wanted not in self.text()[after:]:
            if not select.select([self.end], [], [], max(0, until - time.monotonic()))[0]:
                self.fail(f"{wanted!r} did not come in {self.text()[after:]!r}")
            try:
                read = os.read(self.end, 4096)
            except OSError:
                read = b""
            if not read:
                self.fail(f"the program ended before {wanted!r} in {self.text()[after:]!r}")
            self.seen += read
        return self.text()[after:]

    def type(self, keys):
        self.wait_for_reading()
        os.write(self.end, keys.encode())

    def wait_for_reading(self):
        """Until the program waits for keys. libedit leaves the line mode after it has drawn its prompt, and misses a signal before it reads."""
        import termios
        until = time.monotonic() + 60
        while time.monotonic() < until:
            raw = not termios.tcgetattr(self.end)[3] & termios.ICANON
            state = pathlib.Path(f"/proc/{self.child}/stat").read_text().rsplit(")", 1)[1].split()[0]
            if (raw or not self.edits) and state == "S":
                return
            time.sleep(0.005)
        self.fail("the program does not read")

    def send(self, keys, wanted="tokens reused]\n"):
        after = len(self.text())
        self.type(keys + "\n")
        text = self.wait_for(wanted, after)
        return self.wait_for("> ", after + text.index(wanted) + len(wanted)) and text

    def leave(self, keys="\x04"):
        self.type(keys)
        until = time.monotonic() + 60
        while True:
            if not select.select([self.end], [], [], 3)[0]:
                if time.monotonic() > until:
                    self.fail(f"the program does not end: {self.text()!r}")
                self.type(keys)  # they came too early
                continue
            try:
                read = os.read(self.end, 4096)
            except OSError:
                read = b""
            if not read:
                break
            self.seen += read
        os.close(self.end)
        self.end = None
        _, status = os.waitpid(self.child, 0)
        self.child = None
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)

    def test_a_conversation(self):
        self.start("--max-new-tokens", 8)
        (expected,) = self.lines(self.chat_model(), [{"messages": messages(("user", "Grüße 😀")), "max_new_tokens": 8}])
        text = self.send("Grüße 😀")
        self.assertIn(expected["text"].strip(), text)
        self.assertIn("\x1b[1;36m", self.seen.decode())
        self.leave()

    def test_no_colours(self):
        for env in [{"NO_COLOR": "1"}, {"TERM": "dumb"}]:
            self.start("--max-new-tokens", 4, env=env)
            self.send("Hi")
            self.assertNotRegex(self.seen.decode(), COLOUR)
            self.leave()

    def test_ctrl_c_stops_the_answer_and_drops_the_line(self):
        self.start("--ignore-eos", "--max-new-tokens", 900)
        after = len(self.text())
        self.type("Hi\n")
        self.wait_for(" ", after + len("Hi\n"))
        os.write(self.end, b"\x03")  # at once: a fast machine writes 900 tokens in half a second
        text = self.wait_for("tokens reused]", after)
        self.assertIn("stopped", text)
        self.assertLess(int(re.search(r"\[(\d+) tokens", text)[1]), 900)
        self.wait_for("> ", after + text.index("tokens reused]"))
        if self.edits:
            after = len(self.text())
            self.type("not sent")
            self.wait_for("not sent", after)
            self.type("\x03")
            self.wait_for("> ", after + len("not sent"))
            self.assertNotIn("tokens reused]", self.text()[after:])
            self.send("/set max_new_tokens 2", "")
            self.assertIn("[2 tokens", self.send("More"))
        self.leave()

    def test_history_and_completion(self):
        self.start("--max-new-tokens", 3, "--history", self.folder / "history", "--adapter-root", ADAPTERS)
        if not self.edits:
            self.skipTest("built without libedit")
        first = self.send("The rain in Spain")
        self.send("/reset", "new conversation")
        again = self.send("\x1b[A\x1b[A")  # up, up
        answer = lambda text: text[:text.index("\ntenon: the answer was cut")].rsplit("\n", 1)[-1]
        self.assertEqual(answer(again), answer(first))
        self.assertIn("The adapter weather answers", self.send("/ada\twea\t", "answers."))
        self.leave()
        lines = (self.folder / "history").read_text()
        self.assertIn("Spain", lines.replace("\\040", " "))
        self.assertEqual((self.folder / "history").stat().st_mode & 0o077, 0)
        self.start("--max-new-tokens", 3, "--history", self.folder / "history")
        self.send("\x1b[A", "\n")
        self.leave("/quit\n")

    def test_a_paste_is_one_message(self):
        self.start("--max-new-tokens", 3)
        if not self.edits:
            self.skipTest("built without libedit")
        file = self.folder / "a.json"
        self.send("\x1b[200~one\ntwo\nthree\x1b[201~")
        self.send(f"/save {file}", "Saved")
        self.assertEqual(json.loads(file.read_text())["messages"][0]["content"], "one\ntwo\nthree")
        self.leave()

    def test_side_by_side(self):
        self.start("--max-new-tokens", 40, "--adapter-root", ADAPTERS, "--ignore-eos", size=(24, 60))
        self.send("/compare none weather", "Side by side")
        text = self.send("The rain")
        self.assertRegex(text, r"\n\[none: 40 tokens in [^;\n]+;\n weather: 40 tokens in [^;\n]+; \d+ of \d+ prompt tokens reused\]\n")
        rows = [line for line in text.split("\n") if " | " in line]
        self.assertRegex(rows[0], r"^none +\| weather$")
        self.assertGreater(len(rows), 4)
        for row in rows:
            self.assertLessEqual(len(row), 60)
        for side, adapter in enumerate([None, str(ADAPTERS / "weather")]):
            request = {"messages": messages(("user", "The rain")), "max_new_tokens": 40, "adapter": adapter, "ignore_eos": True}
            (expected,) = self.lines(self.chat_model(), [request])
            column = "".join(row.split(" | ")[side] for row in rows[2:])
            self.assertEqual("".join(column.split()), "".join(expected["text"].split()))
        self.leave()


if __name__ == "__main__":
    support.main()
