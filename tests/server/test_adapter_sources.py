"""Where adapters come from: a hub cache, and a command that fetches them."""
import json
import os
import pathlib
import shutil
import tempfile
import threading
import time

import serving
from serving import ADAPTERS, NAMES, Server, ServerTest, all_at_once, eventually

KING = "The king said"
KEY = "the-key"
FILES = ["adapter_config.json", "adapter_model.safetensors"]


def add_to_cache(cache, repository, source, commit="0123abcd", reference="main"):
    """Writes an adapter into a hub cache, as huggingface_hub does: links to blobs."""
    folder = pathlib.Path(cache, "models--" + repository.replace("/", "--"))
    snapshot = folder / "snapshots" / commit
    for each in [snapshot, folder / "refs", folder / "blobs"]:
        each.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        blob = "%s-%s" % (commit, name)
        shutil.copy(pathlib.Path(source, name), folder / "blobs" / blob)
        (snapshot / name).symlink_to("../../blobs/" + blob)
    (folder / "refs" / reference).write_text(commit)
    return folder


class HubCache(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.cache, cls.root = pathlib.Path(cls.folder.name, "hub"), pathlib.Path(cls.folder.name, "root")
        add_to_cache(cls.cache, "acme/weather-lora", ADAPTERS / "weather")
        add_to_cache(cls.cache, "acme/weather-lora", ADAPTERS / "characters", "beef", "v2")
        add_to_cache(cls.cache, "plain", ADAPTERS / "shakespeare")
        (add_to_cache(cls.cache, "acme/no-ref", ADAPTERS / "weather") / "refs" / "main").unlink()
        secret = pathlib.Path(cls.folder.name, "secret")
        secret.write_text('{"secret": 1}')
        out = add_to_cache(cls.cache, "acme/out", ADAPTERS / "weather") / "snapshots" / "0123abcd" / FILES[0]
        out.unlink()
        out.symlink_to(secret)
        (add_to_cache(cls.cache, "acme/bad-ref", ADAPTERS / "weather") / "refs" / "main").write_text("../../../../secret")
        (cls.cache / "models--acme--model" / "refs").mkdir(parents=True)
        # The root's adapter of the same name wins.
        shutil.copytree(ADAPTERS / "characters", cls.root / "acme" / "both")
        add_to_cache(cls.cache, "acme/both", ADAPTERS / "weather")
        shutil.copytree(ADAPTERS / "weather", cls.root / "weather")
        cls.FLAGS = ["--hub-cache", cls.cache, "--adapter-root", cls.root]
        cls.texts = {}
        with Server() as server:
            for name in NAMES:
                cls.texts[name] = server.post("/generate", {"inputs": KING, "parameters": {"adapter_id": name}}).json()
            server.stop()
        super().setUpClass()

    def answer(self, name, **more):
        answer = self.server.post("/generate", {"inputs": KING, "parameters": {"adapter_id": name, **more}})
        self.assertEqual(answer.status, 200, answer)
        return answer

    def test_names_of_repositories(self):
        for source in [{}, {"adapter_source": "hub"}]:
            for name, same in [("acme/weather-lora", "weather"), ("acme/weather-lora@main", "weather"), ("plain", "shakespeare"),
                               ("acme/weather-lora@v2", "characters"), ("acme/weather-lora@beef", "characters"),
                               ("acme/no-ref@0123abcd", "weather")]:
                answer = self.answer(name, **source)
                self.assertEqual(answer.json(), self.texts[same], name)
                self.assertEqual((answer.headers["x-adapter-id"], answer.headers["x-adapter-source"]), (name, "hub"))
        self.assertEqual(self.complete(model="acme/weather-lora", temperature=0)["choices"],
                         self.complete(model="weather", temperature=0)["choices"])

    def test_the_root_comes_first(self):
        for source in [{}, {"adapter_source": "hub"}, {"adapter_source": "local"}]:
            answer = self.answer("acme/both", **source)
            self.assertEqual(answer.json(), self.texts["characters"])
            self.assertEqual(answer.headers["x-adapter-source"], "local")
        self.assertEqual(self.answer("acme/both@main").json(), self.texts["weather"])

    def test_local_is_below_the_root(self):
        self.assertEqual(self.answer("weather", adapter_source="local").json(), self.texts["weather"])
        for name in ["acme/weather-lora", "plain", "acme/weather-lora@v2"]:
            self.answer(name)
            self.refused({"inputs": KING, "parameters": {"adapter_id": name, "adapter_source": "local"}}, 424, "generation")

    def test_what_is_not_there(self):
        for name in ["acme/nobody", "acme/no-ref", "acme/weather-lora@v3", "acme/model", "acme/out", "acme/bad-ref", "weather@main"]:
            for source in [{}, {"adapter_source": "hub"}]:
                answer = self.refused({"inputs": KING, "parameters": {"adapter_id": name, **source}}, 424, "generation",
                                      "Request failed during generation: ")
                self.assertIn(name, answer.text())
                self.assertNotIn("secret", answer.text())
                self.assertNotIn(self.folder.name, answer.text())
            answer = self.server.post("/v1/completions", {"prompt": KING, "model": name})
            self.assertIn(answer.status, [400, 404], answer)
            self.assertNotIn("secret", answer.text())

    def test_names_in_odd_form(self):
        for name in ["acme/weather-lora@", "acme/weather-lora@../beef", "acme/weather-lora@a//b", "../hub/models--plain", "a/b/c",
                     "acme/weather-lora@v2@v2", "acme/weather-lora@-v2", "/" + str(self.cache), "models--plain/snapshots/0123abcd"]:
            for source in ["hub", "local"]:
                self.refused({"inputs": KING, "parameters": {"adapter_id": name, "adapter_source": source}}, 422, "validation")
        # "--" stands for a slash in the cache: no name has it.
        self.refused({"inputs": KING, "parameters": {"adapter_id": "acme--weather-lora"}}, 424, "generation")

    def test_nothing_is_fetched_here(self):
        for source in ["s3", "pbase"]:
            answer = self.refused({"inputs": KING, "parameters": {"adapter_id": "weather", "adapter_source": source}}, 422, "validation")
            self.assertIn("adapter_source=" + source, answer.text())
        self.refused({"inputs": KING, "parameters": {"adapter_id": "s3:weather"}}, 424, "generation")

    def test_they_are_listed(self):
        names = [m["id"] for m in self.server.get("/v1/models").json()["data"]]
        self.assertEqual(sorted(names[1:]), ["acme/both", "acme/weather-lora", "plain", "weather"])
        for name in ["acme/weather-lora", "acme/weather-lora@v2", "acme%2Fweather-lora"]:
            self.assertEqual(self.server.get("/v1/models/" + name).status, 200)
        self.assertEqual(self.server.get("/v1/models/acme/out").status, 404)

    def test_an_adapter_that_comes_later(self):
        body = {"inputs": KING, "parameters": {"adapter_id": "acme/late"}}
        self.refused(body, 424, "generation")
        add_to_cache(self.cache, "acme/late", ADAPTERS / "weather")
        self.addCleanup(shutil.rmtree, self.cache / "models--acme--late")
        self.assertEqual(eventually(lambda: (a := self.server.post("/generate", body)).status == 200 and a).json(), self.texts["weather"])


class Settings(ServerTest):
    def test_the_environment_counts_where_a_flag_says_so(self):
        with tempfile.TemporaryDirectory() as home:
            add_to_cache(os.path.join(home, "hub"), "acme/lora", ADAPTERS / "weather")
            body = {"inputs": KING, "parameters": {"adapter_id": "acme/lora", "adapter_source": "hub", "max_new_tokens": 2}}
            for flags, status in [([], 424), (["--hub-cache-env"], 200)]:
                with Server(*flags, env=serving.environment(HF_HOME=home, HF_HUB_CACHE="")) as server:
                    self.assertEqual(server.post("/generate", body).status, status)
                    server.stop()

    def test_preloaded(self):
        with tempfile.TemporaryDirectory() as cache:
            add_to_cache(cache, "acme/lora", ADAPTERS / "weather")
            with Server("--hub-cache", cache, "--preload-adapters", "acme/lora@main,weather") as server:
                self.assertEqual([a["path"] for a in server.get("/lora-adapters").json()], ["acme/lora@main", "weather"])
                server.stop()

    def test_flags_that_do_not_go_together(self):
        with tempfile.TemporaryDirectory() as folder:
            for flags, says in [(["--adapter-fetch", "/bin/true", "--adapter-fetch-folder", folder], "needs a key"),
                                (["--adapter-fetch", "/bin/true", "--api-key", KEY], "--adapter-fetch-folder"),
                                (["--hub-cache", "/no/such/folder"], "--hub-cache"),
                                (["--hub-cache", folder, "--hub-cache-env"], "--hub-cache-env")]:
                done = serving.run("--port", 0, *flags)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(says, done.stderr)


FETCH = """#!/bin/sh
# The operator's command: its arguments are -- and the name, its working folder is the destination.
echo "$TENON_ADAPTER_SOURCE $1 $2 $TENON_ADAPTER_REVISION" >> CALLS
env > environment.txt
case "$2" in
  */hang) sleep 1000;;
  */fail) echo "no such object: SECRET" >&2; exit 5;;
  */large) head -c 3000000 /dev/zero > adapter_model.safetensors; sleep 1000;;
  */garbage) head -c 200000 /dev/urandom; head -c 200000 /dev/urandom > adapter_model.safetensors; echo '{' > adapter_config.json;;
  */nothing) ;;
  */link) ln -s ADAPTERS/weather/adapter_model.safetensors . ; cp ADAPTERS/weather/adapter_config.json . ;;
  */slow) sleep 1; cp ADAPTERS/weather/adapter_* . ;;
  *) cp ADAPTERS/"${2##*/}"/adapter_* . ;;
esac
"""


class Fetched(ServerTest):
    """The error of each kind of failure has a status and the adapter's name, and no path of the host."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.calls, cls.fetched = pathlib.Path(cls.folder.name, "calls"), pathlib.Path(cls.folder.name, "fetched")
        cls.calls.write_text("")
        command = pathlib.Path(cls.folder.name, "fetch")
        command.write_text(FETCH.replace("CALLS", str(cls.calls)).replace("ADAPTERS", str(ADAPTERS)))
        command.chmod(0o700)
        cls.cache = pathlib.Path(cls.folder.name, "hub")
        add_to_cache(cls.cache, "acme/here", ADAPTERS / "weather")
        cls.FLAGS = ["--adapter-fetch", command, "--adapter-fetch-folder", cls.fetched, "--adapter-fetch-timeout", 3,
                     "--adapter-fetch-limit", 2_000_000, "--api-key", KEY, "--hub-cache", cls.cache, "--enable-adapter-admin"]
        super().setUpClass()
        cls.server.key = KEY

    def parameters(self, name, source="s3", **more):
        return {"inputs": KING, "parameters": {"adapter_id": name, "adapter_source": source, "max_new_tokens": 8, **more}}

    def count(self, line):
        return self.calls.read_text().split("\n").count(line)

    def unfetched(self, name, status, error_type, says, source="s3"):
        answer = self.server.post("/generate", self.parameters(name, source))
        self.assertEqual((answer.status, answer.json()["error_type"]), (status, error_type), answer)
        self.assertIn("%s:%s" % (source, name), answer.text())
        self.assertIn(says, answer.text())
        for word in [self.folder.name, str(ADAPTERS), "SECRET"]:
            self.assertNotIn(word, answer.text())
        return answer

    def test_fetched_once(self):
        local = self.generate(adapter_id="weather", max_new_tokens=8)
        for source, name, line in [("s3", "bucket/path/weather", "s3 -- bucket/path/weather "),
                                   ("hub", "acme/weather", "hub -- acme/weather "),
                                   ("hub", "acme/weather@v2", "hub -- acme/weather v2")]:
            for _ in range(2):
                answer = self.server.post("/generate", self.parameters(name, source))
                self.assertEqual((answer.status, answer.json()), (200, local), answer)
                self.assertEqual((answer.headers["x-adapter-id"], answer.headers["x-adapter-source"]), (name, source))
            self.assertEqual(self.count(line), 1)
        environment = dict(line.split("=", 1) for line in
                           (self.fetched / "s3:bucket+path+weather" / "environment.txt").read_text().strip().split("\n"))
        self.assertLessEqual(set(environment), {"PATH", "HOME", "LANG", "PWD", "OLDPWD", "SHLVL", "_", "TENON_ADAPTER_SOURCE",
                                                "TENON_ADAPTER_REVISION"})
        self.assertIn("s3:bucket/path/weather", [m["id"] for m in self.server.get("/v1/models").json()["data"]])

    def test_requests_at_once_share_it(self):
        answers = all_at_once([lambda: self.server.post("/generate", self.parameters("bucket/slow"))] * 6)
        self.assertEqual([a.status for a in answers], [200] * 6, answers)
        self.assertEqual(len({a.text() for a in answers}), 1)
        self.assertEqual(self.count("s3 -- bucket/slow "), 1)

    def test_openai(self):
        body = {"prompt": KING, "model": "acme/shakespeare", "adapter_source": "s3", "temperature": 0}
        local = self.complete(model="shakespeare", temperature=0)["choices"]
        self.assertEqual(self.server.post("/v1/completions", body).json()["choices"], local)
        # Clients without the field name the source so.
        self.assertEqual(self.complete(model="s3:acme/shakespeare", temperature=0)["choices"], local)

    def test_several_in_one_request(self):
        merged = {"ids": ["acme/characters", "acme/weather"], "weights": [0.5, 0.5]}
        answer = self.server.post("/generate", {"inputs": KING, "parameters": {"merged_adapters": merged, "adapter_source": "s3",
                                                                               "max_new_tokens": 4}})
        self.assertEqual(answer.status, 200, answer)

    def test_a_name_without_a_source_is_not_fetched(self):
        self.refused({"inputs": KING, "parameters": {"adapter_id": "acme/nobody"}}, 424, "generation")
        self.refused({"inputs": KING, "parameters": {"adapter_id": "acme/nobody", "adapter_source": "local"}}, 424, "generation")
        self.assertNotIn("nobody", self.calls.read_text())
        self.assertEqual(self.server.post("/generate", self.parameters("acme/here", "hub")).status, 200)
        self.assertNotIn("here", self.calls.read_text())

    def test_a_command_that_hangs(self):
        begin = time.monotonic()
        self.unfetched("acme/hang", 504, "timeout", "took too long")
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(self.complete(max_tokens=1)["choices"][0]["finish_reason"], "length")

    def test_failures(self):
        for name, says in [("acme/fail", "status 5"), ("acme/large", "larger than"), ("acme/nothing", "no adapter_config.json"),
                           ("acme/link", "a symbolic link")]:
            self.unfetched(name, 424, "generation", says)
            answer = self.server.post("/v1/completions", {"prompt": KING, "model": name, "adapter_source": "s3"})
            self.assertEqual((answer.status, answer.json()["error"]["type"]), (400, "invalid_request_error"), answer)
            self.assertEqual([n for n in os.listdir(self.fetched) if n.startswith(".partial") or name.split("/")[1] in n], [])
        eventually(lambda: "no such object: SECRET" in self.server.text(), "the operator is not told")
        self.refused(self.parameters("acme/garbage"), 424, "generation")  # fetched, and no adapter

    def test_odd_names(self):
        calls = self.calls.read_text()
        for name in ["../a", "a/../b", "/etc/passwd", "a/", "a//b", "-rf", "a/-rf", "a b", "a;b", "$(a)", "a@v2", "hub:a", "a" * 161, ".hidden"]:
            self.refused(self.parameters(name), 422, "validation")
        self.assertEqual(self.calls.read_text(), calls)

    def test_a_key_is_needed(self):
        answer = self.server.ask("POST", "/generate", self.parameters("acme/unknown"), headers={"X-Api-Key": "other"})
        self.assertEqual(answer.status, 401)
        self.assertNotIn("unknown", self.calls.read_text())

    def test_unloaded_and_fetched_again(self):
        name = "again/weather"
        self.assertEqual(self.server.post("/generate", self.parameters(name)).status, 200)
        self.assertTrue((self.fetched / "s3:again+weather").is_dir())
        self.assertEqual(self.server.post("/v1/unload_lora_adapter", {"lora_name": "s3:" + name}).status, 200)
        self.assertFalse((self.fetched / "s3:again+weather").exists())
        self.assertEqual(self.server.post("/generate", self.parameters(name)).status, 200)
        self.assertEqual(self.count("s3 -- again/weather "), 2)
        self.assertEqual(self.server.post("/v1/load_lora_adapter", {"lora_name": "rain", "lora_path": "s3:" + name}).status, 200)
        self.assertEqual(self.generate(adapter_id="rain", max_new_tokens=8), self.generate(adapter_id="weather", max_new_tokens=8))

    def test_a_server_that_ends_meanwhile(self):
        with tempfile.TemporaryDirectory() as folder:
            with Server(*self.FLAGS[:2], "--adapter-fetch-folder", folder, "--api-key", KEY, "--shutdown-timeout", 0.5) as server:
                server.key = KEY
                got = []
                thread = threading.Thread(target=lambda: got.append(server.post("/generate", self.parameters("ends/hang"))))
                thread.start()
                eventually(lambda: "ends/hang" in self.calls.read_text())
                begin = time.monotonic()
                self.assertEqual(server.stop(), 0)
                self.assertLess(time.monotonic() - begin, 20)
                thread.join()
                self.assertEqual(got[0].status, 503, got)
            self.assertEqual(os.listdir(folder), [".lock"])


if __name__ == "__main__":
    serving.main()
