"""Random requests with receipts, and random settings of engines, for scripts/check-receipts."""
import re
import subprocess

CONSTRAINTS = [{"schema": {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "boolean"}}, "required": ["a"]}},
               {"schema": {"type": "array", "items": {"enum": ["red", "green", 3]}, "maxItems": 4}},
               {"schema": {"type": "string", "maxLength": 9}}, {"regex": "[a-z ]{3,40}"}, {"regex": "(ab|cd)+e?"}, {"regex": "[0-9]{1,3}(\\.[0-9]+)?"},
               {"grammar": "root ::= word (\" \" word)*\nword ::= [a-z]+"}, {"grammar": "root ::= \"yes\" | \"no\" | [0-9]+"},
               {"choice": ["yes", "no", "perhaps"]}, {"choice": ["alpha", "beta", "gamma delta", "42"]}]
SHORT = [{"regex": "[a-z]{1,5}"}, {"choice": ["yes", "no"]}, {"grammar": "root ::= [0-9]+"}]  # that can end within 8 tokens
TEXTS = ["Once upon a time", "the sea and the stars", "a", "42 or 43?", "tell me more", "in the end there"]


class Class:
    """The options that decide bits: those of both the run and the verification."""

    def __init__(self, weights, kv, attention):
        self.weights, self.kv, self.attention = weights, kv, attention

    def options(self):
        return ["--weights", self.weights, "--kv", self.kv, "--attention", self.attention]

    def __str__(self):
        return f"{self.weights} kv {self.kv} {self.attention}"


class Menu:
    """The engines of a program, from the list that it prints for one that it does not have."""

    def __init__(self, program, model):
        asked = [program, "run", "--model", model, "--weights", "bfloat16_mma", "--attention", "flash_mma", "--device", "cpu"]
        text = subprocess.run(asked, input="", capture_output=True, text=True, check=False).stderr
        self.engines = []
        for line in text.splitlines():
            words = dict(re.findall(r"--(\w+) (\S+)", line))
            if line.startswith("  --weights") and words.get("device") == "cpu":
                self.engines.append({"head": "same"} | words | {key: words[key].split("|") for key in ["cache", "block", "kv", "attention"]})
        if not self.engines:
            raise SystemExit(f"{program} lists no engines:\n{text}")
        self.weights = list(dict.fromkeys(e["weights"] for e in self.engines))

    def classes(self, weights):
        return [Class(weights, kv, attention) for kv in dict.fromkeys(k for e in self.engines if e["weights"] == weights for k in e["kv"])
                for attention in dict.fromkeys(a for e in self.engines if e["weights"] == weights for a in e["attention"])]

    def settings(self, of, rng):
        """Options that decide no bit: head, cache and block, threads, batch, rows of a step, scheduler, drafts, how adapters run."""
        engine = rng.choice([e for e in self.engines if e["weights"] == of.weights and of.kv in e["kv"] and of.attention in e["attention"]])
        cache = rng.choice(engine["cache"])
        options = of.options() + ["--cache", cache, "--threads", str(rng.choice([1, 1, 2, 3])), "--batch", str(rng.choice([1, 2, 5, 32])),
                                  "--token-budget", str(rng.choice([3, 8, 33, 512])),
                                  "--scheduler", rng.choice(["continuous", "static", "sequential", "fair"]), "--max-wait-ms", "1",
                                  "--draft", rng.choice(["none", "suffix"] + ["lookup"] * (cache != "none")),
                                  "--lora", rng.choice(["segmented", "gathered", "looped"])]
        if engine["head"] != "same":
            options += ["--head", engine["head"]]
        if cache == "paged":
            options += ["--block", rng.choice(engine["block"])]
        if rng.random() < 0.3:
            options.append("--no-prefix-reuse")
        if rng.random() < 0.3:
            options += ["--cache-tokens", "512"]
        return options


def sampling(rng):
    """Parameters of sampling; a third of the requests is greedy."""
    out = {}
    if rng.random() < 0.67:
        out |= {"temperature": rng.choice([0.3, 0.7, 1, 1.7]), "seed": rng.choice([0, 7, rng.getrandbits(32), rng.getrandbits(64), 2**64 - 1])}
        for key, values in [("top_k", [1, 5, 40]), ("top_p", [0.5, 0.95]), ("min_p", [0.02, 0.1]), ("typical_p", [0.4, 0.9])]:
            if rng.random() < 0.3:
                out[key] = rng.choice(values)
    for key, values in [("repetition_penalty", [0.9, 1.1, 1.5]), ("presence_penalty", [-0.5, 0.3]), ("frequency_penalty", [-0.1, 0.7])]:
        if rng.random() < 0.3:
            out[key] = rng.choice(values)
    return out


def prompt(rng, model, invocation):
    if not invocation and rng.random() < 0.3:
        return {"prompt": rng.choice(TEXTS)}
    ids = [rng.randrange(model.vocab) for _ in range(rng.choice([1, 2, 5, 9, 17, 30]))]
    if invocation and rng.random() < 0.8:
        at = rng.randrange(len(ids) + 1)
        ids[at:at] = invocation
    return {"input_ids": ids}


def adapters(rng, model):
    """One adapter, or a composition with weights; none for most requests of models that have some, and for all others."""
    if not model.adapters or rng.random() < 0.25:
        return {}, []
    plain = model.plain_adapters()
    if len(plain) > 1 and rng.random() < 0.8:
        chosen = rng.sample(plain, 2)
        return {"adapter": {str(a.folder): rng.choice([0.25, 0.7, 1, 1.3]) for a in chosen}}, chosen
    chosen = rng.choice(model.adapters)
    return {"adapter": str(chosen.folder)}, [chosen]


def request(rng, model, name):
    """A line of `tenon run`, and whether it may be refused: its adapter is one that PEFT itself cannot load."""
    adapter, chosen = adapters(rng, model)
    out = {"id": name, "receipt": True, "max_new_tokens": rng.choice([1, 2, 5, 9, 16, 24, 24]), **adapter, **sampling(rng),
           **prompt(rng, model, next((a.invocation for a in chosen if a.invocation), []))}
    if rng.random() < 0.3:
        out["logit_bias"] = {str(i): rng.choice([-3.5, 0.25, 2]) for i in rng.sample(range(model.vocab), 3)}
    if rng.random() < 0.35 and model.has_all_bytes:
        if rng.random() < 0.5:
            out |= rng.choice(CONSTRAINTS)
        else:
            out |= rng.choice(SHORT) | {"finish_within_budget": True, "max_new_tokens": rng.choice([8, 12])}
    if rng.random() < 0.2:
        out["n"] = rng.choice([2, 3])
        if rng.random() < 0.3:
            out["best_of"] = out["n"] + 1
    if rng.random() < 0.2:
        out["stop"] = rng.sample(["e", "th", " ", "ab", "42", "."], 2)
    if rng.random() < 0.15:
        out["stop_ids"] = rng.sample(range(model.vocab), 2)
    for key in ["ignore_eos", "skip_special_tokens"]:
        if rng.random() < 0.2:
            out[key] = True
    if rng.random() < 0.2:
        out["prediction"] = [rng.randrange(model.vocab) for _ in range(6)]
    if rng.random() < 0.2:
        out["top_logprobs"] = 2
    if rng.random() < 0.2:
        out["cache_salt"] = "salt"
    if rng.random() < 0.03:
        out |= {"max_new_tokens": 0}
    return out, any(a.may_be_refused for a in chosen)
