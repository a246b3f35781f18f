"""Twenty-odd ways to change a receipt, for scripts/check-receipts. Each changes a receipt in place, or returns None where it does not fit.

It returns (field, position), which `tenon verify` must name:
- A field of the request, changed alone, no longer has the request's digest: `request_digest`.
- An adapter's digest is compared with the folder's before that, and `position` is the adapter's index. The fingerprint is compared first.
- An id or a link is found at its own position: rows before it do not depend on it.
- With a request digest that fits the changed request, the chain begins with another link 0: `links` at 0.
"""
import hashlib
import json

REQUEST = ("request_digest", None)


def request_digest(receipt):
    """SHA-256 over the request, as docs/receipts.md defines it."""
    fields = {key: receipt[key] for key in ["format", "fingerprint", "prompt_ids", "parameters", "constraint"]}
    fields["adapters"] = [{key: each[key] for key in ["digest", "weight"]} for each in receipt["adapters"]]
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


def flip_digit(text, rng):
    """Flips one of the 4 bits of a hexadecimal digit."""
    at = rng.randrange(len(text))
    return text[:at] + "%x" % (int(text[at], 16) ^ 1 << rng.randrange(4)) + text[at + 1:]


def more(number, by):
    """The sum, as the library would write it."""
    return round(number + by, 6)


def seed(r, rng):
    r["parameters"]["seed"] ^= 1 << rng.randrange(64)
    return REQUEST


def temperature(r, rng):
    r["parameters"]["temperature"] = more(r["parameters"]["temperature"], rng.choice([0.125, 1]))
    return REQUEST


def filters(r, rng):
    key = rng.choice(["top_k", "top_p", "min_p", "typical_p"])
    r["parameters"][key] = r["parameters"][key] + 1 if key == "top_k" else r["parameters"][key] / 2 + 0.1875
    return REQUEST


def penalty(r, rng):
    key = rng.choice(["repetition_penalty", "presence_penalty", "frequency_penalty"])
    r["parameters"][key] = more(r["parameters"][key], rng.choice([0.0625, 0.5]))
    return REQUEST


def logit_bias(r, rng):
    biases = r["parameters"]["logit_bias"]
    way = rng.choice(["add", "drop", "id", "value"]) if biases else "add"
    at = rng.randrange(len(biases)) if biases else 0
    if way == "add":
        biases.append([1, 0.5])
    elif way == "drop":
        del biases[at]
    elif way == "id":
        biases[at][0] ^= 1
    else:
        biases[at][1] += 0.25
    return REQUEST


def ends(r, rng):
    key = rng.choice(["max_new_tokens", "min_new_tokens", "stop", "stop_ids", "ignore_eos", "skip_special_tokens", "finish_within_budget"])
    value = r["parameters"][key]
    if isinstance(value, list):
        value.append("x" if key == "stop" else 3)
    else:
        r["parameters"][key] = not value if isinstance(value, bool) else value + 1
    return REQUEST


def prompt_id(r, rng):
    at = rng.randrange(len(r["prompt_ids"]))
    way = rng.choice(["flip", "drop", "add"]) if len(r["prompt_ids"]) > 1 else "flip"
    if way == "flip":
        r["prompt_ids"][at] ^= 1 << rng.randrange(7)
    elif way == "drop":
        del r["prompt_ids"][at]
    else:
        r["prompt_ids"].insert(at, r["prompt_ids"][at])
    return REQUEST


def answer_id(r, rng):
    if not r["ids"]:
        return None
    at = rng.randrange(len(r["ids"]))
    r["ids"][at] ^= 1 << rng.randrange(7)
    return "ids", at


def swapped_ids(r, rng):
    places = [i for i in range(len(r["ids"]) - 1) if r["ids"][i] != r["ids"][i + 1]]
    if not places:
        return None
    at = rng.choice(places)
    r["ids"][at:at + 2] = r["ids"][at + 1], r["ids"][at]
    return "ids", at


def dropped_id(r, rng):
    if not r["ids"]:
        return None
    r["ids"].pop()
    r["links"] = r["links"][:-8]
    return "ids", len(r["ids"])


def added_id(r, rng):
    r["ids"].append(rng.randrange(200))
    r["links"] += "%08x" % rng.getrandbits(32)
    return "ids", len(r["ids"]) - 1


def link(r, rng):
    if not r["ids"]:
        return None
    at = rng.randrange(len(r["ids"]))
    r["links"] = r["links"][:8 * at] + flip_digit(r["links"][8 * at:8 * at + 8], rng) + r["links"][8 * at + 8:]
    return "links", at


def digest(r, rng):
    r["digest"] = flip_digit(r["digest"], rng)
    return "digest", len(r["ids"]) - 1 if r["ids"] else None


def finish_reason(r, rng):
    # An answer without tokens that was cut from outside looks like one that was to have none (docs/receipts.md).
    others = ["length", "stop"] + ["cancelled", "deadline"] * bool(r["ids"])
    r["finish_reason"] = rng.choice([reason for reason in others if reason != r["finish_reason"]])
    return "finish_reason", None


def constraint_text(r, rng):
    if not r["constraint"]:
        return None
    r["constraint"]["text"] += " "
    return "constraint.digest", None  # of the text


def constraint(r, rng):
    way = rng.choice(["text", "kind", "drop"])
    if not r["constraint"]:
        r["constraint"] = {"kind": "regex", "text": "[a-z]+"}
    elif way == "drop":
        r["constraint"] = None
    elif way == "kind":
        r["constraint"]["kind"] = "grammar" if r["constraint"]["kind"] == "regex" else "regex"
    else:
        r["constraint"]["text"] += " "
    if r["constraint"]:
        r["constraint"]["digest"] = hashlib.sha256(r["constraint"]["text"].encode()).hexdigest()
    return REQUEST


def digest_of_request(r, rng):
    r["request_digest"] = flip_digit(r["request_digest"], rng)
    return REQUEST


def fingerprint(r, rng):
    r["fingerprint"] = flip_digit(r["fingerprint"], rng)
    return "fingerprint", None


def adapter_digest(r, rng):
    if not r["adapters"]:
        return None
    at = rng.randrange(len(r["adapters"]))
    kind, digits = r["adapters"][at]["digest"].split(":")
    r["adapters"][at]["digest"] = kind + ":" + flip_digit(digits, rng)
    return "adapters", at


def adapter_weight(r, rng):
    if not r["adapters"]:
        return None
    r["adapters"][rng.randrange(len(r["adapters"]))]["weight"] += 0.125
    return REQUEST


def adapter_order(r, rng):
    if len(r["adapters"]) < 2:
        return None
    r["adapters"].reverse()  # each is what it says, but the sum has another order
    return REQUEST


def adapter_names(r, rng):
    if len(r["adapters"]) < 2:
        return None
    a, b = r["adapters"]
    a["name"], b["name"] = b["name"], a["name"]
    return "adapters", 0


def adapter_dropped(r, rng):
    if not r["adapters"]:
        return None
    del r["adapters"][rng.randrange(len(r["adapters"]))]
    return REQUEST


def forged_request(r, rng):
    """A forger who knows the format writes the digest that fits the changed request."""
    if not r["ids"] or request_digest(r) != r["request_digest"]:  # a number that Python spells in another way
        return None
    rng.choice([seed, temperature, penalty, lambda r, rng: r["prompt_ids"].append(r["prompt_ids"][0])])(r, rng)
    r["request_digest"] = request_digest(r)
    return "links", 0


def form(r, rng):
    way = rng.choice(["format", "drop", "add"])
    if way == "format":
        r["format"] += 1
        return "format", None
    if way == "drop":
        key = rng.choice(sorted(r))
        del r[key]
        return key, None
    r["signed_by"] = "nobody"
    return "signed_by", None


KINDS = [seed, temperature, filters, penalty, logit_bias, ends, prompt_id, answer_id, swapped_ids, dropped_id, added_id, link, digest, finish_reason,
         constraint_text, constraint, digest_of_request, fingerprint, adapter_digest, adapter_weight, adapter_order, adapter_names, adapter_dropped,
         forged_request, form]
