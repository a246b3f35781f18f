"""Adapters while the server runs: loading, unloading, preloading, and taking turns in a store for one."""
import json
import os
import pathlib
import shutil
import tempfile
import time

import serving
from serving import ADAPTERS, NAMES, Server, ServerTest, all_at_once, eventually

KING = "The king said"
KEY = "the-key"
ADMIN = ["--enable-adapter-admin", "--api-key", KEY]


class Admin(ServerTest):
    FLAGS = ADMIN

    def setUp(self):
        self.server.key = KEY

    def post(self, action, **body):
        return self.server.post("/v1/%s_lora_adapter" % action, body)

    def done(self, action, **body):
        answer = self.post(action, **body)
        self.assertEqual(answer.status, 200, answer)
        self.assertTrue(answer.headers["content-type"].startswith("text/plain"))
        return answer.text()

    def failed(self, status, error_type, action, **body):
        answer = self.post(action, **body)
        self.assertEqual(answer.status, status, (body, answer))
        self.assertEqual(answer.json()["error"]["type"], error_type, body)
        if str(serving.ROOT) not in json.dumps(body):  # the answer may repeat the client's own words
            self.assertNotIn(str(serving.ROOT), answer.text())

    def models(self):
        return [m["id"] for m in self.server.get("/v1/models").json()["data"]]

    def test_loaded_and_unloaded(self):
        self.assertEqual(self.done("load", lora_name="sky", lora_path="weather"), "Success: LoRA adapter 'sky' added successfully.")
        self.assertIn("sky", self.models())
        self.assertIn("sky", [a["path"] for a in self.server.get("/lora-adapters").json()])
        self.assertEqual(self.generate(adapter_id="sky", max_new_tokens=12, details=True),
                         self.generate(adapter_id="weather", max_new_tokens=12, details=True))
        self.assertEqual(self.complete(model="sky", temperature=0)["choices"], self.complete(model="weather", temperature=0)["choices"])
        self.failed(400, "InvalidUserInput", "load", lora_name="sky", lora_path="weather")
        self.failed(400, "InvalidUserInput", "load", lora_name="sky", lora_path="shakespeare")
        self.done("load", lora_name="heaven", lora_path="sky")  # a name of a name
        self.done("unload", lora_name="heaven")
        self.assertEqual(self.done("unload", lora_name="sky", lora_int_id=None), "Success: LoRA adapter 'sky' removed successfully.")
        self.assertNotIn("sky", self.models())
        self.failed(404, "NotFoundError", "unload", lora_name="sky")
        self.refused({"inputs": KING, "parameters": {"adapter_id": "sky"}}, 424, "generation")
        self.refused_openai("/v1/completions", {"prompt": KING, "model": "sky"}, 404, "invalid_request_error", "model", "model_not_found")
        # The name is free again.
        self.done("load", lora_name="sky", lora_path="shakespeare")
        self.assertEqual(self.generate(adapter_id="sky", max_new_tokens=12), self.generate(adapter_id="shakespeare", max_new_tokens=12))
        self.done("unload", lora_name="sky")

    def test_names_and_paths(self):
        for body in [{}, {"lora_name": "a"}, {"lora_path": "weather"}, {"lora_name": "", "lora_path": "weather"},
                     {"lora_name": 3, "lora_path": "weather"},
                     {"lora_name": "tales", "lora_path": "weather"}, *({"lora_name": n, "lora_path": "weather"} for n in
                                                                       ["../x", "a b", "a/b/c", "-x", "x" * 129, "..", "a..b", "x\n",
                                                                        "\u00e9"])]:
            self.failed(400, "InvalidUserInput", "load", **body)
        for path in ["nobody", "../adapters/weather", str(ADAPTERS / "nobody"), "/etc", "..", "weather/..", "weather/../weather",
                     "x" * 5000, ""]:
            self.failed(400 if path == "" else 404, "InvalidUserInput" if path == "" else "NotFoundError", "load", lora_name="fresh",
                        lora_path=path)
        self.failed(400, "InvalidUserInput", "unload")
        for name in ["nobody", "../x", "tales"]:
            self.failed(404, "NotFoundError", "unload", lora_name=name)
        self.assertNotIn("fresh", self.models())
        for word in ["{", "[]", ""]:
            for action in ["load", "unload"]:
                self.assertEqual(self.server.post("/v1/%s_lora_adapter" % action, word).status, 400)

    def test_what_is_unloaded_loads_again_when_asked_for(self):
        before = self.generate(adapter_id="characters", max_new_tokens=8)
        self.done("unload", lora_name="characters")
        self.assertNotIn("characters", [a["path"] for a in self.server.get("/lora-adapters").json()])
        self.assertEqual(self.generate(adapter_id="characters", max_new_tokens=8), before)

    def test_unloaded_while_a_request_runs(self):
        self.done("load", lora_name="moving", lora_path="weather")
        asked = {"inputs": KING, "parameters": {"max_new_tokens": 300, "ignore_eos_token": True, "adapter_id": "moving", "details": True}}
        alone = self.server.post("/generate", asked).json()
        with self.server.stream("/generate_stream", asked) as stream:
            events = [next(stream) for _ in range(3)]
            self.done("unload", lora_name="moving")
            self.done("load", lora_name="moving", lora_path="shakespeare")  # another adapter under the same name
            other = self.generate(adapter_id="moving", max_new_tokens=12)
            events += stream
        self.assertEqual([e["token"] for e in events], alone["details"]["tokens"])  # the running request keeps its adapter
        self.assertEqual(other, self.generate(adapter_id="shakespeare", max_new_tokens=12))
        self.done("unload", lora_name="moving")

    def test_many_at_once(self):
        def load(i):
            return lambda: self.post("load", lora_name="same", lora_path=NAMES[i % 3]).status

        for _ in range(5):
            self.assertEqual(sorted(all_at_once([load(i) for i in range(8)])), [200] + [400] * 7)
            self.assertEqual(sorted(all_at_once([lambda: self.post("unload", lora_name="same").status] * 8)), [200] + [404] * 7)

    def test_a_key_is_needed(self):
        self.server.key = None
        for headers in [{}, {"X-Api-Key": "wrong"}, {"Authorization": "Bearer wrong"}]:
            for action in ["load", "unload"]:
                answer = self.server.post("/v1/%s_lora_adapter" % action, {"lora_name": "k", "lora_path": "weather"}, headers=headers)
                self.assertEqual((answer.status, answer.json()["error"]["code"]), (401, "invalid_api_key"))
        answer = self.server.post("/v1/load_lora_adapter", {"lora_name": "k", "lora_path": "weather"},
                                  headers={"Authorization": "Bearer " + KEY})
        self.assertEqual(answer.status, 200)
        self.server.key = KEY
        self.done("unload", lora_name="k")

    def test_fields(self):
        for more, status in [({"lora_int_id": 3}, 200), ({"base_model_name": "tales"}, 200), ({"base_model_name": "other"}, 400),
                             ({"load_inplace": False}, 200), ({"load_inplace": True}, 400), ({"no_such": 1}, 400)]:
            answer = self.post("load", lora_name="field", lora_path="weather", **more)
            self.assertEqual(answer.status, status, (more, answer))
            if status == 200:
                self.done("unload", lora_name="field")
            else:
                self.assertIn(next(iter(more)), answer.json()["error"]["message"])
        self.assertEqual(self.post("unload", lora_name="field", no_such=1).status, 400)

    def test_methods(self):
        self.assertEqual(self.server.get("/v1/load_lora_adapter").status, 405)


class Start(ServerTest):
    def test_admin_needs_a_key(self):
        done = serving.run("--enable-adapter-admin", "--port", 0)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--enable-adapter-admin", done.stderr)

    def test_without_the_flag_there_are_no_such_routes(self):
        for action in ["load", "unload"]:
            answer = self.server.post("/v1/%s_lora_adapter" % action, {"lora_name": "a", "lora_path": "weather"})
            self.assertEqual((answer.status, answer.json()["error"]["type"]), (404, "not_found_error"))

    def test_preloaded(self):
        with Server("--preload-adapters", "weather,shakespeare") as server:
            self.assertEqual({a["path"] for a in server.get("/lora-adapters").json()}, {"weather", "shakespeare"})
            self.assertEqual(server.metric("tenon_adapter_loads_total"), 2)
            answer = server.post("/generate", {"inputs": KING, "parameters": {"max_new_tokens": 2, "adapter_id": "weather"}})
            self.assertEqual((answer.status, server.metric("tenon_adapter_loads_total")), (200, 2))
            self.assertEqual(server.stop(), 0)

    def test_preloading_what_is_not_there(self):
        for flags, status, named in [(["--preload-adapters", "nobody"], None, "nobody"),
                                     (["--preload-adapters", "../weather"], None, "weather"),
                                     (["--preload-adapters", "weather,shakespeare", "--adapter-slots", 1], 2, "--adapter-slots"),
                                     (["--preload-adapters", "weather", "--lora", "none"], 2, "--lora")]:
            done = serving.run("--port", 0, *flags)
            self.assertIn(done.returncode, [status] if status else [1, 2])
            self.assertIn(named, done.stderr)

    def test_no_adapters_at_all(self):
        with Server("--lora", "none") as server:
            self.assertEqual([m["id"] for m in server.get("/v1/models").json()["data"]], ["tales"])
            answer = server.post("/generate", {"inputs": KING, "parameters": {"adapter_id": "weather"}})
            self.assertEqual((answer.status, answer.json()["error_type"]), (424, "generation"))
            self.assertEqual(server.stop(), 0)


class Roots(ServerTest):
    """A folder of adapters, many of them invalid."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        outside, root = (pathlib.Path(cls.folder.name) / n for n in ["outside", "root"])
        outside.mkdir()
        root.mkdir()
        shutil.copytree(ADAPTERS / "weather", outside / "secret")
        shutil.copytree(ADAPTERS / "weather", root / "good")
        shutil.copytree(ADAPTERS / "shakespeare", root / "team" / "good")
        (root / "link").symlink_to(outside / "secret")
        shutil.copytree(ADAPTERS / "weather", root / "linked-file")
        (root / "linked-file" / "adapter_model.safetensors").unlink()
        (root / "linked-file" / "adapter_model.safetensors").symlink_to(outside / "secret" / "adapter_model.safetensors")
        shutil.copytree(root / "linked-file", root / "linked-index", symlinks=True)
        (root / "linked-index" / "adapter_model.safetensors").unlink()
        (outside / "secret" / "index.json").write_text('{"weight_map": {"confidential": 1}}')
        (root / "linked-index" / "adapter_model.safetensors.index.json").symlink_to(outside / "secret" / "index.json")
        shutil.copytree(root / "linked-file", root / "linked-shard", symlinks=True)
        (root / "linked-shard" / "adapter_model.safetensors").rename(root / "linked-shard" / "shard")
        (root / "linked-shard" / "adapter_model.safetensors.index.json").write_text('{"weight_map": {"confidential": "shard"}}')
        (root / "good" / "nowhere").symlink_to(outside / "nothing")
        (root / "a-file").write_text("x")
        (root / "empty").mkdir()
        shutil.copytree(ADAPTERS / "weather", root / "dora")
        config = json.loads((root / "dora" / "adapter_config.json").read_text())
        (root / "dora" / "adapter_config.json").write_text(json.dumps(config | {"use_dora": True}))
        shutil.copytree(ADAPTERS / "weather", root / "cut")
        weights = root / "cut" / "adapter_model.safetensors"
        weights.write_bytes(weights.read_bytes()[:1000])
        cls.root = root
        cls.FLAGS = ["--adapter-root", root]
        super().setUpClass()

    def test_good_ones(self):
        for name in ["good", "team/good"]:
            self.assertIn("generated_text", self.generate(adapter_id=name, max_new_tokens=2))
        self.assertEqual(self.server.get("/v1/models/team/good").status, 200)
        self.assertEqual(self.server.get("/v1/models/team%2Fgood").status, 200)

    def test_unusable(self):
        for name in ["dora", "cut", "empty", "a-file"]:
            body = {"inputs": KING, "parameters": {"adapter_id": name}}
            for _ in range(2):
                answer = self.refused(body, 424, "generation", "Request failed during generation: ")
                self.assertNotIn(self.folder.name, answer.text())
        for name in ["dora", "cut"]:
            answer = self.refused_openai("/v1/completions", {"prompt": KING, "model": name}, 400, "invalid_request_error", "model")
            self.assertNotIn(self.folder.name, answer.text())

    def test_links_out_of_the_root_are_not_there(self):
        told = []
        for name in ["link", "nobody"]:
            answer = self.refused({"inputs": KING, "parameters": {"adapter_id": name}}, 424, "generation",
                                  "Request failed during generation: ")
            told.append(answer.json()["error"].replace(name, "NAME"))
        self.assertEqual(*told)

    def test_files_that_are_links_out_of_the_root(self):
        for name in ["linked-file", "linked-index", "linked-shard"]:
            answer = self.refused({"inputs": KING, "parameters": {"adapter_id": name}}, 424, "generation")
            self.assertNotIn("confidential", answer.text())

    def test_a_name_whose_first_path_was_no_good(self):
        with Server("--adapter-root", self.root, *ADMIN) as server:
            server.key = KEY
            for path, statuses in [("cut", [400, 424]), ("good", [200])]:
                answer = server.post("/v1/load_lora_adapter", {"lora_name": "x", "lora_path": path})
                self.assertIn(answer.status, statuses, answer)
            self.assertEqual(server.stop(), 0)

    def test_paths_below_the_root(self):
        """vLLM's documentation names adapters by absolute paths."""
        with Server("--adapter-root", self.root, *ADMIN) as server:
            server.key = KEY

            def post(action, **body):
                return server.post("/v1/%s_lora_adapter" % action, body)

            for path in [self.root / "good", str(self.root / "team" / "good") + "/", "./good", "team/./good"]:
                answer = post("load", lora_name="x", lora_path=str(path))
                self.assertEqual(answer.status, 200, answer)
                self.assertEqual(post("load", lora_name="x", lora_path=str(path)).status, 400)  # it is loaded
                self.assertEqual(post("unload", lora_name="x").status, 200)
            self.assertEqual(post("load", lora_name="good", lora_path=str(self.root / "good")).status, 200)
            outside = pathlib.Path(self.folder.name) / "outside" / "secret"
            for path in [outside, self.root / "link", self.root, "/etc", "./link", "./nobody", "../outside/secret", self.root / "good" / ".." / "good"]:
                answer = post("load", lora_name="y", lora_path=str(path))
                self.assertEqual((answer.status, answer.json()["error"]["type"]), (404, "NotFoundError"))
                self.assertIn(": `lora_path` is a name or a path below --adapter-root.", answer.json()["error"]["message"])
            self.assertNotIn("lora_path", post("load", lora_name="y", lora_path="nobody").json()["error"]["message"])
            self.assertEqual(server.stop(), 0)

    def test_folders_that_cannot_be_used_are_told_at_the_start(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for each in ["good", "team/good", "two words", "team/-x", "pickle", "bare"]:
                shutil.copytree(ADAPTERS / "weather", root / each)
            (root / "pickle" / "adapter_model.safetensors").rename(root / "pickle" / "adapter_model.bin")
            (root / "bare" / "adapter_config.json").unlink()
            (root / "out").symlink_to(ADAPTERS / "weather")
            (root / "no adapter").mkdir()
            with Server("--adapter-root", root) as server:
                told = [line.removeprefix("tenon: warning: the adapter folder ") for line in server.text().splitlines() if "adapter folder" in line]
                self.assertEqual(server.stop(), 0)
            form = "cannot be used: a name has letters, digits, '.', '_' and '-', and begins with a letter or digit"
            self.assertEqual(told, ["bare cannot be used: it has no adapter_config.json",
                                    "out cannot be used: it, or a link in it, leads out of --adapter-root",
                                    "pickle cannot be used: its adapter_model.bin is a pickle: `tenon convert` writes it as safetensors",
                                    "team/-x " + form, "two words " + form])

    def test_a_load_forgets_an_earlier_failure(self):
        with Server("--adapter-root", self.root, *ADMIN) as server:
            server.key = KEY
            ask = {"lora_name": "mended", "lora_path": "mended"}
            shutil.copytree(self.root / "cut", self.root / "mended")
            self.assertIn(server.post("/v1/load_lora_adapter", ask).status, [400, 424])
            body = {"inputs": KING, "parameters": {"adapter_id": "mended", "max_new_tokens": 1}}
            self.assertEqual(server.post("/generate", body).status, 424)  # the failure is remembered
            shutil.copy(ADAPTERS / "weather" / "adapter_model.safetensors", self.root / "mended")
            self.assertEqual(server.post("/v1/load_lora_adapter", ask).status, 200)
            self.assertEqual(server.post("/generate", body).status, 200)
            self.assertEqual(server.stop(), 0)
        shutil.rmtree(self.root / "mended")

    def test_the_list_of_many_is_kept(self):
        with tempfile.TemporaryDirectory() as root:
            for i in range(2000):
                os.makedirs(os.path.join(root, "a%d" % i))
                shutil.copy(ADAPTERS / "weather" / "adapter_config.json", os.path.join(root, "a%d" % i))
            with Server("--adapter-root", root) as server:
                def ask(times):
                    begin = time.monotonic()
                    for _ in range(times):
                        self.assertEqual(len(server.get("/v1/models").json()["data"]), 2001)
                    return time.monotonic() - begin

                ask(1)
                cpu = server.metric("process_cpu_seconds_total")
                ask(20)
                each = (server.metric("process_cpu_seconds_total") - cpu) / 20
                # Reading 2,000 folders takes tens of ms; the cached list is only sent.
                if not serving.is_sanitized():
                    self.assertLess(each, 0.02)
                os.makedirs(os.path.join(root, "fresh"))
                shutil.copy(ADAPTERS / "weather" / "adapter_config.json", os.path.join(root, "fresh"))
                eventually(lambda: "fresh" in server.get("/v1/models").text(), "a new adapter is not listed")
                self.assertEqual(server.stop(), 0)

    def test_one_that_comes_later(self):
        body = {"inputs": KING, "parameters": {"adapter_id": "late", "max_new_tokens": 2}}
        self.refused(body, 424, "generation")
        shutil.copytree(ADAPTERS / "weather", self.root / "late")
        # A missing adapter is remembered for at most 5 s.
        eventually(lambda: self.server.post("/generate", body).status == 200, "an adapter that came later is not found")


class OneSlot(ServerTest):
    """A store for one adapter: all adapters take turns."""

    FLAGS = ["--adapter-slots", 1]

    def test_in_turn_under_load(self):
        def body(i):
            return {"inputs": "%d: %s" % (i % 4, KING), "parameters": {"max_new_tokens": 12, "details": True,
                                                                       "adapter_id": (NAMES + [""])[i % 4]}}

        alone = [self.server.post("/generate", body(i)).json() for i in range(24)]
        together = all_at_once([lambda i=i: self.server.post("/generate", body(i)) for i in range(24)])
        self.assertEqual([a.status for a in together], [200] * 24)
        self.assertEqual([a.json() for a in together], alone)
        metrics = self.server.wait_quiet()
        self.assertLessEqual(metrics["tenon_adapters_resident"], 1)
        self.assertGreater(metrics["tenon_adapter_evictions_total"], 3)
        self.assertEqual(metrics["tenon_adapter_requests_waiting"], 0)

    def test_two_that_can_never_be_there_together(self):
        asked = {"merged_adapters": {"ids": ["weather", "shakespeare"], "weights": [1, 1]}}
        answer = self.server.post("/generate", {"inputs": KING, "parameters": asked})
        self.assertIn(answer.status, [422, 424], answer)  # not 5xx, and without waiting
        self.assertIn("error_type", answer.json())

    def test_those_that_wait_and_leave(self):
        long = {"inputs": KING, "parameters": {"max_new_tokens": 600, "ignore_eos_token": True, "adapter_id": "weather"}}
        with self.server.stream("/generate_stream", long) as stream:
            next(stream)
            waiting = []
            for _ in range(3):
                s = self.server.raw()
                s.sendall(serving.post_bytes("/generate", json.dumps({"inputs": KING,
                                                                      "parameters": {"adapter_id": "shakespeare"}}).encode()))
                waiting.append(s)
            base = self.generate(max_new_tokens=2)  # does not need the slot
            for s in waiting:
                s.close()
            self.assertIn("generated_text", base)
            list(stream)
        self.server.wait_quiet()
        self.assertIn("generated_text", self.generate(adapter_id="shakespeare", max_new_tokens=2))

    def test_the_longest_wait(self):
        with Server("--adapter-slots", 1, "--adapter-wait", 0.1, "--batch", 2) as server:
            long = {"inputs": KING, "parameters": {"max_new_tokens": 1000, "ignore_eos_token": True, "adapter_id": "weather"}}
            with server.stream("/generate_stream", long) as stream:
                next(stream)
                lorax = server.post("/generate", {"inputs": KING, "parameters": {"adapter_id": "shakespeare", "max_new_tokens": 2}})
                openai = server.post("/v1/completions", {"prompt": KING, "model": "shakespeare", "max_tokens": 2})
                self.assertIn("token", next(stream), "the long one has ended")
                # The slot is taken, so the server is overloaded for this adapter.
                self.assertEqual((lorax.status, lorax.json()["error_type"], lorax.headers.get("retry-after")), (429, "overloaded", "1"))
                self.assertEqual((openai.status, openai.json()["error"]["code"], openai.headers.get("retry-after")),
                                 (429, "overloaded", "1"))
            server.wait_quiet()
            self.assertEqual(server.stop(), 0)


class FullRoot(ServerTest):
    def test_links_within_the_root_are_fine_for_an_operator(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(ADAPTERS, os.path.join(folder, "root"))  # the root itself may be a link
            with Server("--adapter-root", os.path.join(folder, "root")) as server:
                answer = server.post("/generate", {"inputs": KING, "parameters": {"adapter_id": "weather", "max_new_tokens": 2}})
                self.assertEqual(answer.status, 200, answer)
                self.assertEqual(server.stop(), 0)

    def test_a_root_that_is_none(self):
        done = serving.run("--port", 0, "--adapter-root", "/no/such/folder")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--adapter-root", done.stderr)


if __name__ == "__main__":
    serving.main()
