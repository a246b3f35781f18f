"""tenon run: JSON lines in, JSON lines out."""
import json
import os
import pty
import struct
import subprocess
import threading
import time

import support
from support import PROGRAM, TALES, ProgramTest, as_lines, json_lines, tenon

GOOD = {"input_ids": [10, 20, 30], "max_new_tokens": 4, "ignore_eos": True}


def terminal_output(end):
    """Reads the other end of a terminal until it is closed."""
    while True:
        try:
            yield os.read(end, 4096)
        except OSError:  # EIO: the other end is closed
            return


class Run(ProgramTest):
    def test_answers_come_in_the_order_of_input(self):
        requests = [{"id": i, "prompt": "The rain", "max_new_tokens": 1 + (7 * i) % 12, "ignore_eos": True} for i in range(12)]
        answers, counters = self.answers(requests, "--batch", 3)
        self.assertEqual([a["id"] for a in answers], list(range(12)))
        self.assertEqual([len(a["output_ids"]) for a in answers], [r["max_new_tokens"] for r in requests])
        self.assertEqual({a["finish_reason"] for a in answers}, {"length"})
        self.assertEqual(counters["tokens"], sum(r["max_new_tokens"] for r in requests))

    def test_counters(self):
        _, counters = self.answers([GOOD])
        self.assertEqual(set(counters), {"steps", "preemptions", "prefix_hit_tokens", "drafted", "accepted", "tokens", "seconds"})
        self.assertEqual((counters["steps"], counters["tokens"]), (4, 4))
        answers, counters = self.answers([])
        self.assertEqual((answers, counters["steps"]), ([], 0))

    def test_bad_lines_among_good_ones(self):
        bad = ["garbage", "[1]", '{"id": "twice", "nll": true, "nll": false, "input_ids": [1]}', "{", '"text"', "\x01"]
        requests = []
        for i, line in enumerate(bad):
            requests += [dict(GOOD, id=i), line, ""]
        answers, _ = self.answers(requests, status=1)
        self.assertEqual(len(answers), 2 * len(bad))
        for i in range(len(bad)):
            self.assertEqual(answers[2 * i]["output_ids"], answers[0]["output_ids"])
            self.assertEqual(set(answers[2 * i + 1]), {"id", "error"})
            self.assertIsNone(answers[2 * i + 1]["id"])
        self.assertIn("line 2: not valid JSON at column 1", answers[1]["error"])
        self.assertIn("duplicate", answers[5]["error"])

    def test_refused_fields_are_named(self):
        cases = [("temperature", "hot"), ("temperature", -1), ("temperature", [0]), ("top_k", 1.5), ("top_k", -1),
                 ("top_p", 0), ("min_p", 2), ("typical_p", 0), ("repetition_penalty", 0), ("presence_penalty", "1"),
                 ("frequency_penalty", True), ("logit_bias", [1]), ("logit_bias", {"x": 1}), ("logit_bias", {"05": 1}),
                 ("logit_bias", {"99999": 1}), ("seed", -1), ("seed", 1.0), ("seed", "1"), ("n", 129), ("n", 0), ("best_of", -1), ("cache_salt", 1), ("logits_hash", 1),
                 ("priority", "high"), ("ignore_eos", 0), ("stop", "x"), ("stop", [1]), ("stop", [""]),
                 ("stop_ids", [-1]), ("logits_at", [-1]), ("logits_at", [3]), ("logits_at", 0), ("nll", 1),
                 ("top_logprobs", -1), ("top_logprobs", 5000), ("max_new_tokens", -1), ("max_new_tokens", 5000),
                 ("max_new_tokens", "4"), ("delay_ms", -1), ("delay_ms", "soon"), ("input_ids", []),
                 ("input_ids", [1.5]), ("input_ids", [4096]), ("input_ids", "1"), ("prompt", "both"), ("adapter", "x"),
                 ("schema", {"type": 3}), ("id", [1]), ("tempreature", 1)]
        answers, _ = self.answers([dict(GOOD, id="a", **{}) | {field: value} for field, value in cases] + [GOOD], status=1)
        for (field, value), answer in zip(cases, answers):
            self.assertIn("error", answer, (field, value))
            named = "input_ids" if field == "prompt" else field
            self.assertIn(named, answer["error"], (field, value))
            self.assertEqual(answer["id"], None if field == "id" else "a")
        self.assertEqual(len(answers[-1]["output_ids"]), 4)

    def test_a_prompt_or_ids_are_needed(self):
        answers, _ = self.answers([{"id": 1}, {"id": 2, "prompt": ""}], status=1)
        self.assertIn("input_ids", answers[0]["error"])
        self.assertIn("prompt", answers[1]["error"])

    def test_every_field_is_taken(self):
        full = {"id": "a", "prompt": "The rain in", "max_new_tokens": 5, "temperature": 0.7, "top_k": 50, "top_p": 0.9,
                "min_p": 0.01, "typical_p": 0.95, "repetition_penalty": 1.1, "presence_penalty": 0.1,
                "frequency_penalty": 0.1, "logit_bias": {"5": -1.5}, "seed": 2**64 - 1, "n": 1, "best_of": 1, "cache_salt": "a", "logits_hash": True, "priority": -3,
                "ignore_eos": True, "stop": ["\u00e9"], "stop_ids": [7], "logits_at": [0, 2], "nll": True,
                "top_logprobs": 3, "delay_ms": 1.5}
        (answer,), _ = self.answers([full])
        self.assertEqual(list(answer), ["id", "output_ids", "text", "finish_reason", "logprobs", "top_logprobs", "logits_hash", "logits", "nll_mean"])
        self.assertRegex(answer["logits_hash"], "^[0-9a-f]{16}$")
        self.assertEqual(list(answer["logits"]), ["0", "2"])
        self.assertEqual(len(answer["logprobs"]), len(answer["output_ids"]))
        for token, logprob, top in zip(answer["output_ids"], answer["logprobs"], answer["top_logprobs"]):
            self.assertEqual(len(top), 3)
            self.assertEqual(sorted((-t["logprob"] for t in top)), [-t["logprob"] for t in top])
            self.assertIn(logprob, [t["logprob"] for t in top if t["id"] == token] or [logprob])

    def test_choices(self):
        request = dict(GOOD, temperature=1, seed=3, top_logprobs=0, max_new_tokens=6)
        (answer, alone), counters = self.answers([dict(request, n=3), request])
        self.assertEqual(answer["choices"][0]["output_ids"], answer["output_ids"])
        self.assertEqual([answer[k] for k in ("output_ids", "logprobs")], [alone[k] for k in ("output_ids", "logprobs")])
        self.assertNotIn("choices", alone)
        self.assertEqual(len({tuple(c["output_ids"]) for c in answer["choices"]}), 3)
        (best,), _ = self.answers([dict(request, n=1, best_of=3)])
        means = [sum(c["logprobs"]) / len(c["logprobs"]) for c in answer["choices"]]
        self.assertEqual(best["output_ids"], answer["choices"][means.index(max(means))]["output_ids"])

    def test_a_prompt_is_found_in_the_cache(self):
        request = dict(prompt="The rain in Spain falls mainly on the plain, and the quick brown fox jumped over it. " * 2)
        later = dict(request, delay_ms=200)
        answers, counters = self.answers([dict(request, logits_hash=True), dict(later, logits_hash=True)])
        self.assertEqual(answers[0], answers[1])
        self.assertGreater(counters["prefix_hit_tokens"], 16)
        answers, counters = self.answers([request, dict(later, cache_salt="other")])
        self.assertEqual(counters["prefix_hit_tokens"], 0)
        _, counters = self.answers([request, later], "--no-prefix-reuse")
        self.assertEqual(counters["prefix_hit_tokens"], 0)

    def test_null_is_not_given(self):
        (answer, plain), _ = self.answers([dict(GOOD, id=None, temperature=None, stop=None, adapter=None, top_logprobs=None), GOOD])
        self.assertEqual(answer, plain)
        self.assertEqual(set(plain), {"id", "output_ids", "text", "finish_reason"})

    def test_scoring_only(self):
        (answer,), _ = self.answers([{"prompt": "The rain in Spain", "max_new_tokens": 0, "nll": True}])
        self.assertEqual((answer["output_ids"], answer["text"], answer["finish_reason"]), ([], "", "length"))
        self.assertGreater(answer["nll_mean"], 0)
        (answer,), _ = self.answers([{"input_ids": [5], "max_new_tokens": 0, "nll": True}])
        self.assertIsNone(answer["nll_mean"])

    def test_a_stop_string_is_left_out(self):
        (free,), _ = self.answers([{"prompt": "The rain", "max_new_tokens": 12}])
        stop = free["text"][4:7]
        (answer,), _ = self.answers([{"prompt": "The rain", "max_new_tokens": 12, "stop": [stop]}])
        self.assertEqual((answer["text"], answer["finish_reason"]), (free["text"][:free["text"].index(stop)], "stop"))

    def test_logits_read_back_as_the_same_float32(self):
        done = tenon("run", "--model", TALES, "--threads", 1, stdin=as_lines([dict(GOOD, logits_at=[1], top_logprobs=4)]))
        answer = json.loads(done.stdout, parse_float=str)
        numbers = answer["logits"]["1"] + answer["logprobs"] + [t["logprob"] for row in answer["top_logprobs"] for t in row]
        self.assertGreater(len(numbers), 4096)
        for text in map(str, numbers):
            digits = text.lower().split("e")[0].replace("-", "").replace(".", "").strip("0")
            self.assertLessEqual(len(digits), 9, text)
            as_float = struct.unpack("f", struct.pack("f", float(text)))[0]
            # The nearest float32 is at most half a unit in the last place away: 2^-24 of the number, or 2^-150 near
            # zero.
            self.assertLessEqual(abs(as_float - float(text)), abs(as_float) * 2.0**-24 + 2.0**-150, text)

    def test_neighbours_change_nothing(self):
        requests = [dict(GOOD, id=i, input_ids=[i + 1, 7, 9], temperature=1.1, seed=i, top_logprobs=2, logits_at=[2]) for i in range(5)]
        together, _ = self.answers(requests, "--batch", 5)
        for request, answer in zip(requests, together):
            self.assertEqual(self.answers([request])[0], [answer])

    def test_the_default_seed_is_the_option(self):
        sampled = dict(GOOD, temperature=1.5, max_new_tokens=20)
        (named,), _ = self.answers([dict(sampled, seed=5)])
        (option,), _ = self.answers([sampled], "--seed", 5)
        (other,), _ = self.answers([sampled])
        self.assertEqual(named["output_ids"], option["output_ids"])
        self.assertNotEqual(other["output_ids"], option["output_ids"])

    def test_a_delayed_request_keeps_its_place(self):
        begin = time.monotonic()
        answers, _ = self.answers([dict(GOOD, id="late", delay_ms=300), dict(GOOD, id="soon")])
        self.assertGreaterEqual(time.monotonic() - begin, 0.3)
        self.assertEqual([a["id"] for a in answers], ["late", "soon"])

    def test_every_scheduler(self):
        requests = [dict(GOOD, id=i, max_new_tokens=2 + i) for i in range(6)]
        expected, _ = self.answers(requests)
        for options in [["static", "--batch", 4], ["static", "--batch", 64, "--max-wait-ms", 10000], ["sequential"]]:
            self.assertEqual(self.answers(requests, "--scheduler", *options)[0], expected)

    def test_without_a_tokenizer(self):
        model = self.model_of("config.json", "model.safetensors")
        done = tenon("run", "--model", model, "--threads", 1, stdin=as_lines([GOOD, {"id": 1, "prompt": "x"}, dict(GOOD, stop=["x"])]))
        answers = json_lines(done.stdout)
        self.assertEqual(done.returncode, 1)
        self.assertIsNone(answers[0]["text"])
        self.assertEqual(len(answers[0]["output_ids"]), 4)
        self.assertIn("prompt", answers[1]["error"])
        self.assertIn("stop", answers[2]["error"])

    def test_a_reader_that_leaves_early_is_no_failure(self):
        requests = as_lines([dict(GOOD, id=i, logits_at=[0, 1, 2]) for i in range(40)])
        process = subprocess.Popen([PROGRAM, "run", "--model", str(TALES), "--threads", "1"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        process.stdin.write(requests.encode())
        process.stdin.close()
        stderr = process.stderr.read()
        process.stderr.close()
        self.assertEqual((process.wait(timeout=60), stderr), (0, b""))

    def test_a_progress_bar_on_a_terminal_only(self):
        requests = as_lines([dict(GOOD, id=i, max_new_tokens=300) for i in range(4)])
        command = [PROGRAM, "run", "--model", str(TALES), "--threads", "1", "--batch", "2"]
        plain = subprocess.run(command, input=requests, capture_output=True, encoding="utf-8", timeout=120)
        self.assertEqual(len(plain.stderr.strip().split("\n")), 1, plain.stderr)
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        shown = []
        reader = threading.Thread(target=lambda: shown.extend(terminal_output(ours)), daemon=True)
        reader.start()
        try:
            done = subprocess.run(command, input=requests, stdout=subprocess.PIPE, stderr=theirs, encoding="utf-8", timeout=120)
        finally:
            os.close(theirs)  # ends the reader
        reader.join(timeout=60)
        text = b"".join(shown).decode()
        self.assertEqual(done.stdout, plain.stdout)
        self.assertIn("/4 requests, ", text)
        self.assertEqual(json.loads(text[text.rindex("{"):])["tokens"], 1200)

    def test_a_full_disk_is_a_failure(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAM, "run", "--model", str(TALES), "--threads", "1"], input=as_lines([GOOD]),
                                  stdout=full, stderr=subprocess.PIPE, encoding="utf-8", timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)


if __name__ == "__main__":
    support.main()
