"""scripts/check-server against a stand-in: an honest server passes, and each fault is found where it is."""
import importlib.machinery
import io
import json
import contextlib
import pathlib
import sys
import unittest
from unittest import mock

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "scripts")]
import server_requests
from stand_in_server import FAULTS, StandIn

check_server = importlib.machinery.SourceFileLoader("check_server", str(ROOT / "scripts" / "check-server")).load_module()
COUNT = 40


def run(fault, *options):
    """(exit status, the JSON line, everything that is printed)"""
    server, out = StandIn(fault), io.StringIO()
    command = ["check-server", "--url", server.url, "--model", "base", "--requests", str(COUNT), "--words", "40", *options]
    try:
        with mock.patch.object(sys, "argv", command), contextlib.redirect_stdout(out):
            status = check_server.main()
    finally:
        server.stop()
    return status, json.loads(out.getvalue().splitlines()[-1]), out.getvalue()


class Faults(unittest.TestCase):
    tested = set()

    def find(self, fault, *options, count=COUNT):
        Faults.tested.add(fault)
        status, line, text = run(fault, *options)
        self.assertEqual(status, 0 if fault in ("refuse", "overload", "streams_only", "null_error") else 1, text)
        for name, group in line["groups"].items():
            sent = sum(group[verdict] for verdict in check_server.VERDICTS)
            self.assertEqual(sent, count if "adapters" not in name else sent, text)
        return line["groups"], line["kinds"], text

    def only(self, groups, verdict, *names):
        """Checks that exactly these groups have a verdict."""
        self.assertEqual({name for name, group in groups.items() if group[verdict]}, set(names), groups)

    def test_an_honest_server_passes(self):
        status, line, text = run(None, "--adapters", "one,two")
        self.assertEqual(status, 0, text)
        self.assertEqual(list(line["groups"]), ["alone", "again", "crowd of 8", "crowd of 32", "order", "stream", "adapters alone",
                                                "adapters beside"])
        for group in line["groups"].values():
            self.assertEqual(group, {"right": sum(group.values())} | {each: 0 for each in check_server.VERDICTS[1:]}, text)
        self.assertEqual(line["groups"]["adapters beside"]["right"], COUNT + line["groups"]["adapters alone"]["right"])
        self.assertEqual(set(line["kinds"]), set(server_requests.SHARES))

    def test_a_crowd_that_changes_texts(self):
        groups, _, text = self.find("crowd")
        self.only(groups, "changed", "crowd of 8", "crowd of 32")
        self.only(groups, "wrong")
        self.assertEqual(set(groups["crowd of 32"]["changed_by"]), {"text"}, text)
        self.assertIn("the text differs at character", text)

    def test_a_crowd_that_changes_the_last_digit(self):
        groups, _, _ = self.find("logprobs_crowd")
        self.only(groups, "changed", "crowd of 8", "crowd of 32")
        self.assertEqual(set(groups["crowd of 32"]["changed_by"]), {"logprobs"})

    def test_a_warm_cache_that_changes_texts(self):
        groups, _, _ = self.find("warm")
        self.assertGreater(groups["again"]["changed"] + groups["again"]["wrong"], COUNT // 2)

    def test_texts_that_depend_on_the_order(self):
        groups, _, _ = self.find("order")
        self.assertGreater(groups["order"]["changed"], COUNT // 4)

    def test_streams_with_another_text(self):
        groups, _, _ = self.find("whole")
        self.only(groups, "changed", "stream")

    def test_seeds_that_are_ignored(self):
        groups, kinds, _ = self.find("seed")
        self.only(groups, "changed")
        self.assertEqual(groups["alone"]["wrong_by"].keys(), {"seed"})
        self.assertEqual((kinds["sampled"], kinds["greedy"].get("wrong")), ({"wrong": 8}, None))

    def test_fields_that_are_ignored(self):
        for fault, kind in [("temperature", "sampled"), ("schema", "schema"), ("stop", "stop"), ("finish_reason", "max_tokens"), ("n", "n"),
                            ("logit_bias", "logit_bias"), ("logprobs", "logprobs"), ("max_tokens", "greedy"), ("stream", "greedy")]:
            with self.subTest(fault):
                groups, kinds, text = self.find(fault)
                self.only(groups, "changed")
                self.only(groups, "wrong", *groups)
                self.assertEqual(set(groups["alone"]["wrong_by"]), {fault}, text)
                self.assertGreater(kinds[kind]["wrong"], 0, text)
                others = set(kinds) if fault in ("max_tokens", "stream") else {kind}
                self.assertEqual({each for each, counts in kinds.items() if counts.get("wrong")} - others, set(), text)

    def test_adapters_that_are_ignored(self):
        groups, _, _ = self.find("adapter", "--adapters", "one,two")
        self.only(groups, "wrong", "adapters alone", "adapters beside")
        self.assertEqual(groups["adapters alone"]["right"], 0)

    def test_adapters_that_change_places_in_a_crowd(self):
        groups, _, _ = self.find("adapter_crowd", "--adapters", "one,two")
        self.only(groups, "changed", "adapters beside")

    def test_refusals_are_no_fault(self):
        groups, kinds, text = self.find("refuse")
        self.only(groups, "refused", *groups)
        self.assertEqual((kinds["logit_bias"], kinds["schema"]), ({"refused": 2}, {"refused": kinds["schema"]["refused"]}))
        self.assertIn("alone: refused: request", text)
        groups, _, _ = self.find("overload")
        self.only(groups, "refused", "crowd of 8", "crowd of 32")
        groups, _, text = self.find("streams_only")
        self.only(groups, "refused", *groups)
        self.only(groups, "changed")
        self.assertEqual(groups["stream"]["right"] + groups["alone"]["right"], COUNT, text)

    def test_errors_and_silence_are_failures(self):
        groups, kinds, _ = self.find("error")
        self.only(groups, "failed", *groups)
        self.assertEqual(kinds["n"], {"failed": 2})
        groups, kinds, text = self.find("hang", "--timeout", "2")
        self.assertEqual(kinds["logit_bias"], {"failed": 2}, text)
        self.assertEqual((groups["crowd of 32"]["failed"], groups["crowd of 32"]["not sent"]), (0, 2), text)
        self.only(groups, "failed", "alone")

    def test_requests_that_are_not_sent_have_a_verdict_of_their_own(self):
        groups, kinds, text = self.find("hang", "--timeout", "2", "--requests", "80", "--routes", "chat", count=80)
        self.assertEqual(kinds["logit_bias"], {"failed": 2, "not sent": 2}, text)
        self.assertEqual((groups["alone"]["failed"], groups["alone"]["not sent"]), (2, 2), text)
        self.assertEqual((groups["order"]["failed"], groups["order"]["not sent"]), (0, 4), text)
        self.assertEqual(groups["order"]["not sent_by"], {"logit_bias": 4}, text)
        self.assertIn("not sent: two requests of this kind had no answer", text)

    def test_an_error_that_is_null_is_none(self):
        groups, _, _ = self.find("null_error")
        self.only(groups, "failed")

    def test_log_probabilities_that_are_null(self):
        groups, kinds, text = self.find("null_logprobs")
        self.assertEqual((set(groups["alone"]["wrong_by"]), set(kinds["logprobs"])), ({"logprobs"}, {"wrong"}), text)
        self.only(groups, "failed")

    def test_answers_that_cannot_be_read_are_failures(self):
        for fault in ("text_logprobs", "nan", "usage"):
            with self.subTest(fault):
                groups, kinds, text = self.find(fault)
                self.only(groups, "failed", *groups)
                self.only(groups, "wrong")
                self.assertIn("an answer that cannot be read", text)
                if fault != "usage":
                    self.assertEqual(set(kinds["logprobs"]), {"failed"}, text)

    @classmethod
    def tearDownClass(cls):
        if cls.tested and cls.tested != set(FAULTS) and not sys.argv[1:]:
            raise AssertionError(f"faults without a test: {set(FAULTS) - cls.tested}")


class Requests(unittest.TestCase):
    def test_a_seed_gives_the_same_requests(self):
        make = lambda seed: server_requests.make_cases(200, seed, "openai", ["chat", "completions"], 120, "both")
        self.assertEqual(make(1), make(1))
        self.assertNotEqual(make(1), make(2))

    def test_the_200_requests_have_all_kinds(self):
        for api, routes, shares in (("openai", ["chat"], server_requests.SHARES), ("lorax", [], server_requests.LORAX_SHARES)):
            cases = server_requests.make_cases(200, 1, api, routes, 120, "both")
            self.assertEqual([case["number"] for case in cases], list(range(200)))
            for kind, share in shares.items():
                self.assertEqual(sum(case["kind"] == kind for case in cases), 10 * share, kind)
            self.assertGreater(sum(case["stream"] for case in cases), 60)
            self.assertGreater(sum(len(case["prompt"].split()) > 90 for case in cases), 30)
            self.assertTrue(all(cases[case["twin"]]["prompt"] == case["prompt"] for case in cases if case["twin"] is not None))

    def test_schemas(self):
        schema = server_requests.SCHEMAS[2][1]
        for text, finish, broken in [('{"taste": "mild", "hot": {"now": true}}', "stop", False), ('{"taste": "mild"}', "stop", True),
                                     ('{"taste": "mild", "hot": {"now": 1}}', "stop", True), ('{"taste": "hot", "hot": {"now": true}}', "stop", True),
                                     ('{"taste": "mild", "hot": {"now": true}, "x": 1}', "stop", True), ("Mild.", "stop", True),
                                     (' {"taste": "mi', "length", False), ("The taste", "length", True), ('{"taste": "mi', "stop", True)]:
            self.assertEqual(server_requests.breaks_schema(text, finish, schema), broken, text)


if __name__ == "__main__":
    unittest.main()
