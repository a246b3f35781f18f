"""scripts/chat against a stand-in for the server: what it sends, what it prints, and how it ends."""
import http.server
import json
import pathlib
import subprocess
import threading
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "chat"


class Handler(http.server.BaseHTTPRequestHandler):
    bodies = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Handler.bodies.append((self.path, body))
        refused = body["messages"][-1]["content"] == "refuse this"
        self.send_response(422 if refused else 200)
        self.end_headers()
        if refused:
            self.wfile.write(b'{"error": {"message": "no"}}')
            return
        for part in ("An ", "answer", None):
            delta = {} if part is None else {"content": part}
            self.wfile.write(f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


class Chat(unittest.TestCase):
    def setUp(self):
        Handler.bodies.clear()
        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def chat(self, text, *options):
        return subprocess.run([SCRIPT, "--url", f"http://127.0.0.1:{self.server.server_port}", *options], input=text,
                              capture_output=True, text=True, timeout=60)

    def test_the_conversation_is_kept(self):
        done = self.chat("first\nsecond\n", "--max-tokens", "7")
        self.assertEqual((done.returncode, done.stdout), (0, "An answer\nAn answer\n"), done.stderr)
        path, body = Handler.bodies[1]
        self.assertEqual(path, "/v1/chat/completions")
        self.assertEqual(body["max_tokens"], 7)
        self.assertEqual([(m["role"], m["content"]) for m in body["messages"]],
                         [("user", "first"), ("assistant", "An answer"), ("user", "second")])

    def test_an_empty_line_ends_it(self):
        done = self.chat("first\n\nnever\n")
        self.assertEqual((done.returncode, len(Handler.bodies)), (0, 1), done.stderr)

    def test_a_refusal_is_shown(self):
        done = self.chat("refuse this\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("422", done.stderr)
        self.assertIn('"no"', done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
