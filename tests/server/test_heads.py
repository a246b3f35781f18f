"""Embeddings, classes and ranks: the shapes of their peers, the bits of `tenon embed` and `tenon classify`, and refusals."""
import base64
import json
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile

import serving
from serving import ADAPTERS, ROOT, Server, ServerTest, all_at_once

TALES = ROOT / "examples" / "models" / "tales"
PROGRAM = pathlib.Path(serving.PROGRAM).parent / "tenon"
GOLDEN = [ROOT / "tests" / "golden_heads", pathlib.Path(os.environ.get("TENON_REFERENCE_DIR", ROOT.parent / "shared")) / "golden_heads"]
WIDTH = 256
TEXTS = ["Once upon a time", "The king said", "It rained.", "She looked at the old house by the sea, and smiled.", "x"]
QUERY, DOCUMENTS = "The weather today", ["It rains in the hills.", "A king and a queen.", "Sunny, with some wind.", ""]


# ---- models and adapters, made of the default model

def read_tensors(path):
    """(header, data) of a safetensors file."""
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:8 + length]), content[8 + length:]


def with_score(source, target, name, labels, seed):
    """The same file with a float32 tensor [labels, WIDTH] of random numbers."""
    header, data = read_tensors(source)
    draw = random.Random(seed)
    more = struct.pack("<%df" % (labels * WIDTH), *(draw.gauss(0, 0.05) for _ in range(labels * WIDTH)))
    header[name] = {"dtype": "F32", "shape": [labels, WIDTH], "data_offsets": [len(data), len(data) + len(more)]}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    target.write_bytes(struct.pack("<Q", len(head)) + head + data + more)


def model_with(folder, config=None, labels=0):
    """The default model with other members of config.json, and with a classification head."""
    for name in ["vocab.json", "merges.txt", "tokenizer_config.json", "adapters"] + ([] if labels else ["model.safetensors"]):
        os.symlink(TALES / name, folder / name)
    if labels:
        with_score(TALES / "model.safetensors", folder / "model.safetensors", "score.weight", labels, 3)
        config = {"architectures": ["GPT2ForSequenceClassification"], "num_labels": labels} | (config or {})
    (folder / "config.json").write_text(json.dumps(json.loads((TALES / "config.json").read_text()) | (config or {})))


def classifier_adapter(folder, labels, seed):
    """An adapter of task_type SEQ_CLS: LoRA of `weather`, and a head of its own."""
    folder.mkdir()
    config = json.loads((ADAPTERS / "weather" / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | {"task_type": "SEQ_CLS", "modules_to_save": ["classifier", "score"]}))
    with_score(ADAPTERS / "weather" / "adapter_model.safetensors", folder / "adapter_model.safetensors", "base_model.model.score.weight", labels, seed)


def simple_tokenizer(folder):
    """A tokenizer with a character a token, for checkpoints without one."""
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    plain = [chr(c) for c in [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)]]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": byte_level,
        "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                  "fuse_unk": False, "byte_fallback": False, "vocab": {c: i for i, c in enumerate(plain[:size])}, "merges": []}}))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def softmax(logits):
    terms = [math.exp(x - max(logits)) for x in logits]
    return [t / sum(terms) for t in terms]


def numbers_of(text):
    return list(struct.unpack("<%df" % (len(base64.b64decode(text)) // 4), base64.b64decode(text)))


class HeadsTest(ServerTest):
    """A server with a model that `make` writes into a folder."""
    MORE = []

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.model = pathlib.Path(folder.name) / "own"
        cls.model.mkdir()
        cls.make(cls.model)
        cls.FLAGS = ["--model", str(cls.model), "--adapter-root", str(cls.model / "adapters"), *cls.MORE]
        super().setUpClass()

    @classmethod
    def make(cls, folder):
        model_with(folder)

    def post(self, path, body):
        answer = self.server.post(path, body)
        self.assertEqual(answer.status, 200, (path, body, answer))
        return answer.json()

    def program(self, words, requests, *options):
        """The answers of the program `tenon`, which stands beside the server."""
        if not PROGRAM.exists():
            self.skipTest("%s is not built" % PROGRAM)
        done = subprocess.run([PROGRAM, *words, "--model", self.model, "--threads", "1", *options], encoding="utf-8", capture_output=True,
                              input="".join(json.dumps(r) + "\n" for r in requests))
        self.assertEqual(done.returncode, 0, (done.stdout, done.stderr))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def ids(self, text):
        return [t["id"] for t in self.post("/tokenize", {"inputs": text})]

    def near(self, got, wanted, bound=1e-6):
        self.assertEqual(len(got), len(wanted))
        for g, w in zip(got, wanted):
            self.assertLessEqual(abs(g - w), bound, (got, wanted))

    def no_head(self, path, body, *words):
        answer = self.server.post(path, body)
        self.assertEqual(answer.status, 400, (path, body, answer))
        said = answer.json()["error"]
        self.assertEqual(isinstance(said, dict), path.startswith("/v1/"))
        message = said["message"] if isinstance(said, dict) else said
        for word in words:
            self.assertIn(word, message)

    def vectors(self, texts, **more):
        return [d["embedding"] for d in self.post("/v1/embeddings", {"input": texts} | more)["data"]]


class Embeddings(HeadsTest):
    @classmethod
    def make(cls, folder):
        model_with(folder)
        (folder / "adapters").unlink()
        shutil.copytree(ADAPTERS, folder / "adapters")
        classifier_adapter(folder / "adapters" / "moods", 3, 5)
        classifier_adapter(folder / "adapters" / "judge", 1, 6)

    def test_shape(self):
        answer = self.post("/v1/embeddings", {"input": TEXTS, "user": "u"})
        tokens = sum(len(self.ids(text)) for text in TEXTS)
        self.assertEqual(set(answer), {"object", "data", "model", "usage"})
        self.assertEqual((answer["object"], answer["model"], answer["usage"]),
                         ("list", "own", {"prompt_tokens": tokens, "total_tokens": tokens}))
        self.assertEqual([(d["object"], d["index"], len(d["embedding"])) for d in answer["data"]],
                         [("embedding", i, WIDTH) for i in range(len(TEXTS))])
        for each in answer["data"]:
            self.assertAlmostEqual(sum(x * x for x in each["embedding"]), 1, places=5)
        self.assertEqual(self.post("/v1/embeddings", {"input": "a", "model": "weather"})["model"], "weather")

    def test_bits_are_those_of_the_program(self):
        for adapter in [None, "weather"] + ["moods"]:
            more = {"model": adapter} if adapter else {}
            named = {"adapter": str(self.model / "adapters" / adapter)} if adapter else {}
            wanted = [a["embedding"] for a in self.program(["embed"], [{"id": i, "text": t} | named for i, t in enumerate(TEXTS)])]
            self.assertEqual(self.vectors(TEXTS, **more), wanted)
            self.assertEqual([self.vectors(t, **more)[0] for t in TEXTS], wanted)
            self.assertEqual(self.post("/embed", {"inputs": TEXTS, "parameters": {"adapter_id": adapter}}), wanted)
        plain = [a["embedding"] for a in self.program(["embed"], [{"text": t, "id": 1} for t in TEXTS], "--no-normalize")]
        self.assertEqual(self.vectors(TEXTS, normalize=False), plain)
        self.assertEqual(self.vectors(TEXTS, use_activation=False), plain)
        self.assertEqual(self.post("/embed", {"inputs": TEXTS, "normalize": False}), plain)

    def test_any_batch(self):
        """Beside text, beside other adapters and other routes, and many at once."""
        alone = {(m, t): self.vectors(t, model=m)[0] for m in ["own", "weather", "shakespeare"] for t in TEXTS}
        def embed(model):
            return lambda: self.vectors(TEXTS * 3, model=model)
        works = [embed(m) for m in ["own", "weather", "shakespeare"] * 3] + [lambda: self.generate(max_new_tokens=30)] * 4 + \
                [lambda: self.post("/classify", {"inputs": TEXTS, "parameters": {"adapter_id": "moods"}})] * 2
        got = all_at_once(works)
        for model, vectors in zip(["own", "weather", "shakespeare"] * 3, got):
            self.assertEqual(vectors, [alone[model, t] for t in TEXTS * 3])
        texts = ["Story %d" % i for i in range(300)]
        many = self.vectors(texts)
        for i in [0, 131, 299]:
            self.assertEqual(many[i], self.vectors(texts[i])[0])

    def test_forms_of_inputs(self):
        wanted = self.vectors(TEXTS)
        ids = [self.ids(text) for text in TEXTS]
        self.assertEqual(self.vectors(ids), wanted)
        self.assertEqual(self.vectors(ids[0]), wanted[:1])
        coded = self.vectors(TEXTS, encoding_format="base64")
        self.assertEqual([numbers_of(c) for c in coded], [[struct.unpack("<f", struct.pack("<f", x))[0] for x in v] for v in wanted])
        self.assertEqual(self.post("/embed", {"inputs": TEXTS[0], "parameters": None, "stream": False}), {"embeddings": wanted[0]})
        self.assertEqual(self.post("/embed", {"inputs": TEXTS, "truncate": True, "normalize": True}), wanted)
        self.assertEqual(self.vectors(TEXTS[0], dimensions=WIDTH), wanted[:1])

    def test_cuts(self):
        ids = self.ids(TEXTS[3])
        first = self.vectors(ids[:4])
        self.assertEqual(self.vectors(TEXTS[3], truncate_prompt_tokens=4), first)
        self.assertEqual(self.vectors(ids, truncate_prompt_tokens=4), first)
        last = self.vectors(ids[-4:])
        for body in [{"input": TEXTS[3]}, {"input": ids}]:
            self.assertEqual(self.vectors(body["input"], truncate_prompt_tokens=4, truncation_side="left"), last)
        answer = self.post("/v1/embeddings", {"input": [1] * 1500, "truncate": True})
        self.assertEqual(answer["usage"]["prompt_tokens"], 1024)
        self.assertEqual(self.post("/v1/embeddings", {"input": [1] * 1024})["usage"]["prompt_tokens"], 1024)
        self.refused_openai("/v1/embeddings", {"input": ["a", "a " * 1100]}, 400, "invalid_request_error", "input[1]")
        self.refused_openai("/v1/embeddings", {"input": [1] * 1025}, 400, "invalid_request_error", "input")

    def test_refusals(self):
        invalid = (400, "invalid_request_error")
        self.refused_openai("/v1/embeddings", {"input": "a", "dimensions": 8}, *invalid, "dimensions")
        self.refused_openai("/v1/embeddings", {"input": [[4096]]}, *invalid, "input[0]")
        self.refused_openai("/v1/embeddings", {"input": "a", "stream": True}, *invalid, "stream")
        self.refused_openai("/v1/embeddings", {"input": "a", "model": "nobody"}, 404, "invalid_request_error", "model", "model_not_found")
        self.refused({"inputs": "a", "parameters": {"adapter_id": "nobody"}}, 424, "generation", path="/embed")
        self.refused({"inputs": ""}, 422, "validation", "Input validation error: `inputs`", path="/embed")
        self.refused("no json", 400, "validation", path="/embed")
        self.assertEqual(self.server.get("/v1/embeddings").status, 405)
        many = {"input": [[1]] * 2049}
        self.refused_openai("/v1/embeddings", many, *invalid, "input")

    def test_models_without_a_head(self):
        for more in [{}, {"model": "weather"}]:
            self.no_head("/classify", {"inputs": "a"} | more, "ForSequenceClassification", "SEQ_CLS")
        self.no_head("/classify", {"inputs": ["a", "b"], "parameters": {"adapter_id": "weather"}}, "ForSequenceClassification")
        for path in ["/rerank", "/v1/rerank", "/v2/rerank"]:
            self.no_head(path, {"query": "a", "documents": ["b"]}, "one label", "classifier_from_token")
        self.no_head("/v1/rerank", {"query": "a", "documents": ["b"], "model": "weather"}, "one label")
        self.no_head("/score", {"text_1": "a", "text_2": "b"}, "one label")

    def test_heads_of_adapters(self):
        self.no_head("/rerank", {"query": "a", "texts": ["b"], "adapter_id": "moods"}, "one label", "has 3")
        wanted = self.program(["classify"], [{"id": t, "text": t, "adapter": str(self.model / "adapters" / "moods")} for t in TEXTS])
        raw = self.post("/classify", {"inputs": TEXTS, "parameters": {"adapter_id": "moods"}, "raw_scores": True})
        for classes, answer in zip(raw, wanted):
            self.assertEqual({c["label"]: c["score"] for c in classes}, {"LABEL_%d" % i: x for i, x in enumerate(answer["logits"])})
        scores = self.post("/score", {"text_1": QUERY, "text_2": DOCUMENTS, "model": "judge"})["data"]
        ids = [self.ids(QUERY) + (self.ids(d) if d else []) for d in DOCUMENTS]
        logits = [a["logits"][0] for a in self.program(["classify"], [{"id": 1, "input_ids": i, "adapter": str(self.model / "adapters" / "judge")}
                                                                      for i in ids])]
        self.near([s["score"] for s in scores], [sigmoid(x) for x in logits])
        raw = self.post("/score", {"text_1": QUERY, "text_2": DOCUMENTS, "model": "judge", "raw_scores": True})["data"]
        self.assertEqual([s["score"] for s in raw], logits)
        # A classifier gives no text.
        self.refused({"inputs": "a", "parameters": {"adapter_id": "moods"}}, 422, "validation", path="/generate")

    def test_sixty_four_heads_in_one_batch(self):
        with tempfile.TemporaryDirectory() as root:
            for i in range(64):
                classifier_adapter(pathlib.Path(root) / ("head%d" % i), 2 + i % 3, 100 + i)
            with Server("--model", self.model, "--adapter-root", root, "--batch", "64") as server:
                def ask(i):
                    return lambda: server.post("/classify", {"inputs": TEXTS[:2], "parameters": {"adapter_id": "head%d" % i}, "raw_scores": True}).json()
                together = all_at_once([ask(i) for i in range(64)])
                for i in range(0, 64, 7):
                    self.assertEqual(ask(i)(), together[i])
                    self.assertEqual(len(together[i][0]), 2 + i % 3)
                self.assertEqual(server.stop(), 0)

    def test_log_metrics_and_headers(self):
        before = self.server.metrics()
        answer = self.server.post("/v1/embeddings", {"input": TEXTS, "model": "weather"}, headers={"x-request-id": "heads-1"})
        tokens = answer.json()["usage"]["prompt_tokens"]
        self.assertEqual((answer.headers["x-request-id"], answer.headers["x-prompt-tokens"], answer.headers["x-generated-tokens"]),
                         ("heads-1", str(tokens), "0"))
        line = self.server.line("heads-1")
        self.assertEqual((line["route"], line["status"], line["adapter"], line["prompt_tokens"], line["tokens"]),
                         ("/v1/embeddings", 200, "weather", tokens, 0))
        after = self.server.wait_quiet()
        def grown(name):
            return after[name] - before.get(name, 0)
        self.assertEqual(grown('tenon_adapter_prompt_tokens_total{adapter="weather"}'), tokens)
        self.assertEqual(grown('tenon_adapter_requests_total{adapter="weather"}'), 1)
        self.assertGreater(grown("lorax_request_inference_duration_sum"), 0)
        self.assertIn("/v1/embeddings", self.server.get("/openapi.json").json()["paths"])

    def test_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"
            keys.write_text("sk-one name=one roles=serve tokens-a-minute=30\nsk-two name=two roles=metrics\n")
            with Server("--model", self.model, "--api-key-file", keys) as server:
                body = {"input": "Once upon a time"}
                self.assertEqual(server.post("/v1/embeddings", body).status, 401)
                server.key = "sk-two"
                self.assertEqual(server.post("/v1/embeddings", body).status, 403)
                server.key = "sk-one"
                first = server.post("/v1/embeddings", body)
                self.assertEqual(first.status, 200)
                left = int(first.headers["x-ratelimit-remaining-tokens"])
                self.assertLess(left, 30)
                refused = server.post("/v1/embeddings", {"input": ["Once upon a time"] * 20})
                self.assertEqual((refused.status, refused.json()["error"]["code"]), (429, "rate_limit_exceeded"))
                server.key = "sk-two"
                tokens = first.json()["usage"]["prompt_tokens"]
                self.assertEqual(server.metric('tenon_key_prompt_tokens_total{key="one",adapter="__base_model__"}'), tokens)
                self.assertEqual(server.stop(), 0)


class Matryoshka(HeadsTest):
    MORE = ["--lenient"]

    @classmethod
    def make(cls, folder):
        model_with(folder, {"matryoshka_dimensions": [8, 64]})
        (folder / "1_Pooling").mkdir()
        (folder / "modules.json").write_text(json.dumps([{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]))
        (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')

    def test_short_embeddings_are_cut_before_they_are_normalised(self):
        plain = self.vectors(TEXTS, normalize=False)
        self.assertEqual([v[:64] for v in plain], self.vectors(TEXTS, normalize=False, dimensions=64))
        for short, whole in zip(self.vectors(TEXTS, dimensions=8), plain):
            length = math.sqrt(sum(x * x for x in whole[:8]))
            self.near(short, [x / length for x in whole[:8]])
        for bad in [16, 257]:
            self.refused_openai("/v1/embeddings", {"input": "a", "dimensions": bad}, 400, "invalid_request_error", "dimensions")

    def test_the_folder_names_the_pooling(self):
        wanted = [a["embedding"] for a in self.program(["embed", "--pooling", "mean"], [{"id": 1, "text": t} for t in TEXTS])]
        self.assertEqual(self.vectors(TEXTS), wanted)

    def test_a_default_prompt_stands_before_texts_and_a_limit_refuses_or_cuts(self):
        if not PROGRAM.exists():
            self.skipTest("%s is not built" % PROGRAM)
        with tempfile.TemporaryDirectory() as root:
            model = pathlib.Path(root) / "model"
            shutil.copytree(self.model, model, symlinks=True)
            (model / "config_sentence_transformers.json").write_text(json.dumps(
                {"prompts": {"query": "Story: ", "document": ""}, "default_prompt_name": "query", "similarity_fn_name": "cosine"}))
            (model / "sentence_bert_config.json").write_text('{"max_seq_length": 12, "do_lower_case": false}')
            wanted = self.vectors(["Story: " + t for t in TEXTS[:3]])
            ids = self.ids(TEXTS[0])
            with Server("--model", model) as server:
                def vectors(texts, **more):
                    return [d["embedding"] for d in server.post("/v1/embeddings", {"input": texts} | more).json()["data"]]
                self.assertEqual(vectors(TEXTS[:3]), wanted)
                self.assertEqual(vectors(ids), self.vectors(ids))  # ids are taken as they are
                refused = server.post("/v1/embeddings", {"input": "It rained. " * 20})
                self.assertEqual(refused.status, 400)
                self.assertIn("at most 12", refused.text())
                cut = server.post("/v1/embeddings", {"input": "It rained. " * 20, "truncate_prompt_tokens": -1}).json()
                self.assertEqual(cut["usage"]["prompt_tokens"], 12)
                self.assertEqual(server.stop(), 0)
            done = subprocess.run([PROGRAM, "embed", "--model", model, "--threads", "1"], encoding="utf-8", capture_output=True,
                                  input="".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate([*TEXTS[:3], "It rained. " * 20])))
            answers = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual([a.get("embedding") for a in answers], [*wanted, None])
            self.assertIn("max_seq_length", answers[-1]["error"])

    def test_a_lenient_server_tells_what_it_left_out(self):
        answer = self.server.post("/v1/embeddings", {"input": "a", "mood": 1})
        self.assertEqual((answer.status, answer.headers["x-ignored-fields"]), (200, "mood"))


class Classifier(HeadsTest):
    NAMES = ["glad", "sad", "neither"]

    @classmethod
    def make(cls, folder):
        model_with(folder, {"id2label": {str(i): name for i, name in enumerate(cls.NAMES)}}, labels=3)

    def test_shapes(self):
        logits = [a["logits"] for a in self.program(["classify"], [{"id": 1, "text": t} for t in TEXTS])]
        for text, each in zip(TEXTS, logits):
            raw = self.post("/classify", {"inputs": text, "raw_scores": True})
            self.assertEqual([(c["label"], c["score"]) for c in raw],
                             sorted(zip(self.NAMES, each), key=lambda pair: -pair[1]))
            scores = self.post("/classify", {"inputs": text, "parameters": None, "stream": False})
            self.assertEqual([c["label"] for c in scores], [c["label"] for c in raw])
            self.near([c["score"] for c in scores], sorted(softmax(each), reverse=True))
        listed = self.post("/classify", {"inputs": TEXTS})
        self.assertEqual(listed, [self.post("/classify", {"inputs": t}) for t in TEXTS])
        self.assertEqual(self.post("/classify_batch", {"inputs": TEXTS}), listed)
        vllm = self.post("/classify", {"input": TEXTS, "model": "own"})
        self.assertEqual(set(vllm), {"id", "object", "created", "model", "data", "usage"})
        self.assertEqual(vllm["usage"]["total_tokens"], sum(len(self.ids(t)) for t in TEXTS))
        for i, (data, classes) in enumerate(zip(vllm["data"], listed)):
            self.assertEqual((data["index"], data["label"], data["num_classes"]), (i, classes[0]["label"], 3))
            self.assertEqual(dict(zip(self.NAMES, data["probs"])), {c["label"]: c["score"] for c in classes})
        ids = self.post("/classify", {"input": [self.ids(t) for t in TEXTS], "use_activation": False})["data"]
        self.assertEqual([d["probs"] for d in ids], logits)

    def test_other_routes(self):
        self.no_head("/rerank", {"query": "a", "documents": ["b"]}, "one label", "has 3 labels")
        self.refused({"inputs": "a"}, 422, "validation", path="/generate")
        self.refused_openai("/v1/completions", {"prompt": "a"}, 400, "invalid_request_error")
        self.assertEqual(len(self.vectors("a")[0]), WIDTH)
        weather = self.post("/classify", {"inputs": TEXTS[0], "parameters": {"adapter_id": "weather"}})
        self.assertNotEqual(weather, self.post("/classify", {"inputs": TEXTS[0]}))


class CrossEncoder(HeadsTest):
    @classmethod
    def make(cls, folder):
        model_with(folder, labels=1)

    def logits(self):
        """Of each pair, by the tokens of both texts."""
        ids = [self.ids(QUERY) + (self.ids(d) if d else []) for d in DOCUMENTS]
        return [a["logits"][0] for a in self.program(["classify"], [{"id": 1, "input_ids": i} for i in ids])], sum(map(len, ids))

    def test_ranks(self):
        logits, tokens = self.logits()
        order = sorted(range(len(logits)), key=lambda i: -logits[i])
        answer = self.post("/v1/rerank", {"query": QUERY, "documents": DOCUMENTS, "model": "own"})
        self.assertEqual(set(answer), {"id", "model", "usage", "results"})
        self.assertEqual(answer["usage"], {"prompt_tokens": tokens, "total_tokens": tokens})
        self.assertEqual([r["index"] for r in answer["results"]], order)
        self.assertEqual([r["document"] for r in answer["results"]], [{"text": DOCUMENTS[i]} for i in order])
        self.near([r["relevance_score"] for r in answer["results"]], [sigmoid(logits[i]) for i in order])
        for path in ["/rerank", "/v2/rerank"]:
            self.assertEqual(self.post(path, {"query": QUERY, "documents": DOCUMENTS})["results"], answer["results"])
        objects = [{"text": d} for d in DOCUMENTS]
        short = self.post("/rerank", {"query": QUERY, "documents": objects, "top_n": 2, "return_documents": False})["results"]
        self.assertEqual(short, [{k: v for k, v in r.items() if k != "document"} for r in answer["results"][:2]])
        tei = self.post("/rerank", {"query": QUERY, "texts": DOCUMENTS, "raw_scores": True})
        self.assertEqual(tei, [{"index": i, "score": logits[i]} for i in order])
        told = self.post("/rerank", {"query": QUERY, "texts": DOCUMENTS, "return_text": True})
        self.assertEqual(told, [{"index": r["index"], "text": r["document"]["text"], "score": r["relevance_score"]} for r in answer["results"]])

    def test_scores(self):
        logits, tokens = self.logits()
        for path in ["/score", "/v1/score"]:
            answer = self.post(path, {"text_1": QUERY, "text_2": DOCUMENTS, "use_activation": False})
            self.assertEqual(set(answer), {"id", "object", "created", "model", "data", "usage"})
            self.assertEqual([(d["index"], d["object"], d["score"]) for d in answer["data"]],
                             [(i, "score", x) for i, x in enumerate(logits)])
            self.assertEqual(answer["usage"]["prompt_tokens"], tokens)
        pairs = self.post("/score", {"queries": [QUERY] * 4, "documents": DOCUMENTS, "use_activation": False})["data"]
        self.assertEqual(pairs, answer["data"])
        alone = [self.post("/score", {"text_1": QUERY, "text_2": d, "use_activation": False})["data"][0]["score"] for d in DOCUMENTS]
        self.assertEqual(alone, logits)

    def test_cuts(self):
        """The second text is cut."""
        query, document = self.ids(QUERY), self.ids(DOCUMENTS[0])
        for side, kept in [("right", document[:2]), ("left", document[-2:])]:
            got = self.post("/rerank", {"query": QUERY, "texts": DOCUMENTS[:1], "raw_scores": True, "truncation_direction": side,
                                        "truncate_prompt_tokens": len(query) + 2})[0]["score"]
            whole = self.post("/classify", {"input": query + kept, "raw_scores": True})["data"][0]["probs"][0]
            self.assertEqual(got, whole)
        self.refused({"query": QUERY, "texts": ["a"], "truncate_prompt_tokens": 1}, 422, "validation", path="/rerank")
        self.refused({"query": QUERY, "documents": ["a " * 1100]}, 422, "validation", path="/rerank")
        self.assertEqual(self.server.post("/rerank", {"query": QUERY, "documents": ["a " * 1100], "truncate": True}).status, 200)
        self.refused({"query": QUERY, "documents": ["a"], "instruction": "Find it."}, 422, "validation", path="/rerank")

    def test_a_named_activation_is_kept_by_a_regression(self):
        logits = self.program(["classify"], [{"id": 1, "text": TEXTS[0]}])[0]["logits"]
        sigmoids = {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}}
        for more, wanted in [({}, logits[0]), (sigmoids, sigmoid(logits[0]))]:
            with tempfile.TemporaryDirectory() as root:
                model_with(pathlib.Path(root), {"problem_type": "regression"} | more, labels=1)
                with Server("--model", root) as server:
                    self.assertAlmostEqual(server.post("/classify", {"inputs": TEXTS[0]}).json()[0]["score"], wanted, places=5)
                    self.assertEqual(server.stop(), 0)

    def test_one_label(self):
        logits = self.program(["classify"], [{"id": 1, "text": TEXTS[0]}])[0]["logits"]
        one, = self.post("/classify", {"inputs": TEXTS[0]})
        self.assertEqual(one["label"], "LABEL_0")
        self.assertAlmostEqual(one["score"], sigmoid(logits[0]), places=6)


class TwoTokens(HeadsTest):
    """Qwen3-Reranker's score, with a model that was not trained for it."""
    WORDS = ["No", "Yes"]

    @classmethod
    def make(cls, folder):
        model_with(folder, {"classifier_from_token": cls.WORDS})

    def pair(self, query, document, instruction="Given a web search query, retrieve relevant passages that answer the query"):
        return ("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that "
                "the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n",
                "<Instruct>: %s\n<Query>: %s\n<Document>: %s" % (instruction, query, document),
                "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")

    def odds(self, *pairs):
        vocab = json.loads((TALES / "vocab.json").read_text(encoding="utf-8"))
        no, yes = (vocab[word] for word in self.WORDS)
        ids = [[i for part in pair for i in self.ids(part)] for pair in pairs]
        answers = self.program(["run"], [{"id": n, "input_ids": i, "max_new_tokens": 0, "logits_at": [len(i) - 1]} for n, i in enumerate(ids)])
        return [a["logits"][str(len(i) - 1)][yes] - a["logits"][str(len(i) - 1)][no] for a, i in zip(answers, ids)]

    def test_ranks_and_scores(self):
        odds = self.odds(*(self.pair(QUERY, d) for d in DOCUMENTS))
        scores = [d["score"] for d in self.post("/score", {"text_1": QUERY, "text_2": DOCUMENTS})["data"]]
        self.near(scores, [sigmoid(x) for x in odds])
        raw = [d["score"] for d in self.post("/score", {"text_1": QUERY, "text_2": DOCUMENTS, "raw_scores": True})["data"]]
        self.near(raw, odds, 1e-5)  # the program prints logits, whose difference is rounded once more here
        ranks = self.post("/v1/rerank", {"query": QUERY, "documents": DOCUMENTS})["results"]
        self.assertEqual([(r["index"], r["relevance_score"]) for r in ranks], sorted(enumerate(scores), key=lambda pair: -pair[1]))
        alone = [self.post("/score", {"text_1": QUERY, "text_2": d})["data"][0]["score"] for d in DOCUMENTS]
        self.assertEqual(alone, scores)

    def test_instruction(self):
        wanted = self.odds(self.pair(QUERY, DOCUMENTS[0], "Find it."))
        got = self.post("/score", {"text_1": QUERY, "text_2": DOCUMENTS[0], "instruction": "Find it.", "raw_scores": True})["data"]
        self.near([got[0]["score"]], wanted, 1e-5)

    def test_other_routes(self):
        self.assertEqual(len(self.vectors("a")[0]), WIDTH)
        self.assertTrue(self.generate(max_new_tokens=2)["generated_text"])
        self.no_head("/classify", {"inputs": "a"}, "ForSequenceClassification")

    def test_a_query_leaves_room_for_documents(self):
        long = {"text_1": "rain " * 100, "text_2": DOCUMENTS, "truncate_prompt_tokens": 120}
        self.refused_openai("/v1/score", long, 400, "invalid_request_error", "truncate_prompt_tokens")
        # The query stands in each pair, and is kept once.
        many = {"text_1": "rain " * 20000, "text_2": ["a"] * 2000, "truncate_prompt_tokens": 120}
        self.refused_openai("/v1/score", many, 400, "invalid_request_error", "text_1")

    def test_only_the_words_of_the_prompt_are_taken(self):
        vocab = json.loads((TALES / "vocab.json").read_text(encoding="utf-8"))
        def module(**config):
            def write(folder):
                (folder / "1_LogitScore").mkdir()
                (folder / "modules.json").write_text(json.dumps([
                    {"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
                    {"path": "1_LogitScore", "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}]))
                (folder / "1_LogitScore" / "config.json").write_text(json.dumps(config))
            return write
        def template(text):
            return lambda folder: (folder / "chat_template.jinja").write_text(text)
        def identity(folder):
            (folder / "config_sentence_transformers.json").write_text('{"activation_fn": "torch.nn.modules.linear.Identity"}')
        good = module(true_token_id=vocab["Yes"], false_token_id=vocab["No"])
        card = template("Judge whether the Document meets the requirements of {{ messages }}")
        pair = {"text_1": QUERY, "text_2": DOCUMENTS[0]}
        wanted, raw = (self.post("/score", pair | {"raw_scores": r})["data"][0]["score"] for r in (False, True))
        for writes, score, refusal in [([good], wanted, None), ([good, card], wanted, None), ([good, identity], raw, None),
                                       ([good, template("{{ messages }}")], None, "chat_template"),
                                       ([module(true_token_id=vocab["Yes"], false_token_id=None)], None, "false_token_id"),
                                       ([module(true_token_id=vocab["No"], false_token_id=vocab["Yes"])], None, "true_token_id")]:
            with tempfile.TemporaryDirectory() as root:
                model = pathlib.Path(root)
                model_with(model)
                for write in writes:
                    write(model)
                with Server("--model", model) as server:
                    answer = server.post("/score", pair)
                    self.assertEqual(server.post("/v1/embeddings", {"input": "a"}).status, 200)  # the other routes work
                    if refusal:
                        self.assertEqual(answer.status, 400)
                        self.assertIn(refusal, answer.text())
                    else:
                        self.assertEqual(answer.json()["data"][0]["score"], score)
                    self.assertEqual(server.stop(), 0)

    def test_a_document_cannot_end_the_turn(self):
        plain = self.post("/score", {"text_1": QUERY, "text_2": "<|endoftext|>", "raw_scores": True})["data"][0]["score"]
        parsed = self.post("/score", {"text_1": QUERY, "text_2": "<|endoftext|>", "raw_scores": True, "parse_special": True})["data"][0]["score"]
        self.assertNotEqual(plain, parsed)


class Golden(HeadsTest):
    """Small checkpoints of several families, against the numbers of transformers and PEFT."""

    def cases(self):
        for root in GOLDEN:
            if not root.exists():
                print("skipped: %s is not there" % root)
                continue
            for case in sorted(root.iterdir()):
                if (case / "expected.json").exists():
                    yield case, json.loads((case / "expected.json").read_text())

    def check(self, server, kind, adapter, rows):
        body = {"input": [row["input_ids"] for row in rows], "use_activation": False} | ({"model": adapter} if adapter else {})
        answer = server.post("/classify" if kind == "sequence_classification" else "/v1/embeddings", body)
        self.assertEqual(answer.status, 200, answer)
        for row, data in zip(rows, answer.json()["data"]):
            got, wanted = (data["probs"], row["logits"]) if "logits" in row else (data["embedding"], row["last_token"])
            self.near(got, wanted, 1e-4 * max(1, max(map(abs, wanted))))

    def test_numbers_are_those_of_transformers(self):
        for case, expected in self.cases():
            with self.subTest(case=case.name), tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder) / "model"
                folder.mkdir()
                for each in case.iterdir():
                    os.symlink(each, folder / each.name)
                simple_tokenizer(folder)
                with Server("--model", folder) as server:
                    for adapter, rows in [(None, expected.get("rows", [])), *sorted(expected.get("adapters", {}).items())]:
                        if rows:
                            self.check(server, expected["kind"], adapter, rows)
                    self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    serving.main()
