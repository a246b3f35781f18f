"""scripts/check-server against the whole server: nothing is changed, refused, wrong or failed, on OpenAI's and on LoRAX's routes."""
import json
import subprocess
import sys
import unittest

import serving
from serving import ADAPTERS, ROOT, Server

SCRIPT = ROOT / "scripts" / "check-server"
CONFORMANCE = ROOT / "tests" / "conformance" / "adapters" / "gpt2"
COUNT = 60


def check(server, *options):
    done = subprocess.run([sys.executable, "-B", SCRIPT, "--url", f"http://127.0.0.1:{server.port}", *map(str, options)],
                          capture_output=True, text=True, timeout=10 * serving.PATIENCE)
    return done.returncode, json.loads((done.stdout.splitlines() or ["null"])[-1]), done.stdout + done.stderr


class CheckServer(unittest.TestCase):
    def all_right(self, status, line, text):
        self.assertEqual(status, 0, text)
        self.assertEqual(list(line["groups"]), ["alone", "again", "crowd of 8", "crowd of 32", "order", "stream", "adapters alone",
                                                "adapters beside"])
        for group in line["groups"].values():
            self.assertEqual(group["right"], sum(group.values()), text)
        self.assertEqual(line["groups"]["crowd of 32"]["right"], COUNT)

    def test_openai(self):
        with Server("--chat-template", "plain", "--batch", "16", "--token-budget", "64") as server:
            self.all_right(*check(server, "--model", "tales", "--requests", COUNT, "--words", 60, "--adapters", "weather,characters"))

    def test_lorax(self):
        with Server("--batch", "16", "--token-budget", "64") as server:
            self.all_right(*check(server, "--api", "lorax", "--requests", COUNT, "--words", 60, "--adapters", "weather,characters"))

    def test_a_key_is_sent(self):
        with Server("--api-key", "sk-test-1") as server:
            options = ["--model", "tales", "--routes", "completions", "--requests", 8, "--words", 20, "--crowds", "4"]
            self.assertEqual(check(server, *options, "--api-key", "sk-test-1")[1]["groups"]["crowd of 4"]["right"], 8)
            status, line, text = check(server, *options)
            self.assertEqual(line["groups"]["alone"]["refused"], 8, text)

    def test_the_cases_of_adapter_conformance(self):
        with Server("--model", CONFORMANCE, "--adapter-root", CONFORMANCE / "adapters", "--positions", "32") as server:
            for options in (["--api", "lorax"], ["--model", "gpt2"]):
                status, line, text = check(server, "--adapter-cases", "gpt2", *options)
                self.assertEqual((status, line["wrong"]), (0, 0), text)
                self.assertGreater(line["right"], 150, text)


if __name__ == "__main__":
    serving.main()
