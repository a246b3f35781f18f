"""The requests of scripts/check-server, and what an answer must keep: a seeded generator, and checks without a model.

A case is a dict: `number`, `kind`, `route` (chat, completions or generate), `prompt`, `system` (None: no system message), `stream`, and
`options` in OpenAI's names. A case with `twin` has the same prompt as the case of that number. The same arguments give the same cases
on every machine.
"""
import json
import random

# Cases of each kind among 20. A server may refuse a kind; the kinds after the first two need fields that not every server has.
SHARES = {"greedy": 5, "sampled": 4, "logprobs": 3, "stop": 2, "max_tokens": 2, "schema": 2, "n": 1, "logit_bias": 1}
LORAX_SHARES = {"greedy": 6, "sampled": 5, "logprobs": 3, "stop": 2, "max_tokens": 2, "schema": 2}
PAIRED = ("sampled", "max_tokens")  # these kinds come in pairs of one prompt
BIASED = (262, 287, 300, 317, 345, 361)  # token ids that a bias of 100 forces; each vocabulary has them

OPENINGS = [
    "The ferry left the harbour before the fog had lifted, and", "My neighbour keeps bees on the roof of the old bakery because",
    "In the third winter the mill stood still, so", "A letter without a sender lay on the stairs;", "Nobody in the valley had seen a train before;",
    "The clockmaker counted his tools twice and", "To boil an egg on a mountain you should", "When the lamp went out, the twins", "Between the two rivers there is",
    "The recipe asks for flour, salt and", "Her map of the island had a hole where", "On the first day of the fair the baker's son",
    "A good ladder has", "The reason why bridges hum in the wind is", "He opened the box with a spoon and found", "Every evening at six the gate"]
QUESTIONS = [
    "How does a lock on a canal lift a boat?", "Name three uses for an empty jam jar.", "Why do cats sleep so much?", "Write two lines about a slow train.",
    "What should I take along on a walk in the rain?", "Explain to a child what a magnet does.", "Which is heavier, a bucket of water or a bucket of sand?",
    "Give me a short plan for a kitchen garden.", "How can I tell whether bread is done?", "Describe a lighthouse in one sentence.",
    "What would you ask a clockmaker?", "Tell me a story about a lost umbrella.", "How do I write a letter to a landlord?", "Why is the sky dark at night?"]
SENTENCES = [
    "The inspector wrote down the depth of the well and the name of its owner.", "Two carts waited at the crossing until the herd had passed.",
    "Rope is sold by weight here, and nails are sold by the hundred.", "The third drawer holds spare keys, a candle and a torn timetable.",
    "Rain filled the barrels behind the school within an hour.", "A carpenter measured the door again, because the floor had settled.",
    "The orchard gives apples in September and firewood in January.", "She paid for the boat with four coins and a promise.",
    "Whenever the wind turns west, the chimney of the dairy smokes.", "The museum keeps its oldest lamp in a room without windows.",
    "A dog with one white ear slept under the table of the notary.", "The road over the pass is closed from November to the middle of May.",
    "He repaired the pump with a strip of leather and went home on foot.", "Their list had seven names, and one of them was written twice.",
    "The schoolmaster rings a hand bell, since the tower has none.", "Below the mill the stream divides around an island of willows.",
    "The parcel was wrapped in a page of an old atlas.", "At noon the market women cover the cheese with damp cloths.",
    "The bridge carries carts of two tons, and a sign says so on both sides.", "An owl lives in the loft and pays its rent in mice."]
TASKS = ["Sum up the notes above in one sentence.", "Which of these notes is about an animal?", "Go on with the notes.", "What is missing from the notes?"]
SYSTEM = "You are a patient assistant who answers in short, plain sentences."
STOPS = [["."], [" the"], ["\n", "."], [","], [" and", " a"]]
SCHEMAS = [
    ("Describe a person as JSON with the members mood and tall.",
     {"type": "object", "properties": {"mood": {"enum": ["glad", "sad", "calm"]}, "tall": {"type": "boolean"}},
      "required": ["mood", "tall"], "additionalProperties": False}),
    ("Answer in JSON: is the shop open, and on which day?",
     {"type": "object", "properties": {"open": {"type": "boolean"}, "day": {"enum": ["Monday", "Friday", "Sunday"]}},
      "required": ["open", "day"], "additionalProperties": False}),
    ("Rate the soup as JSON with the members taste and hot.",
     {"type": "object", "properties": {"taste": {"enum": ["mild", "sharp"]}, "hot": {"type": "object", "properties": {
         "now": {"type": "boolean"}}, "required": ["now"], "additionalProperties": False}},
      "required": ["taste", "hot"], "additionalProperties": False})]
SCHEMA_TOKENS = 64


def make_cases(count, seed, api, routes, words, streams):
    """`count` cases, shuffled. `words`: length of long prompts. `streams`: both, always or never."""
    rng = random.Random(f"{seed} {api}")
    shares = LORAX_SHARES if api == "lorax" else SHARES
    kinds = [kind for kind, share in shares.items() for _ in range(max(2, round(count * share / 20 / 2) * 2) if kind in PAIRED
                                                                    else max(1, round(count * share / 20)))]
    kinds = (kinds + ["greedy"] * count)[:count]
    shared = " ".join(rng.choice(SENTENCES) for _ in range(max(1, words // 18)))  # a prefix of half of the long prompts
    cases, first_of_pair = [], None
    for position, kind in enumerate(kinds):
        route = "generate" if api == "lorax" else routes[position // 2 % len(routes)]
        if kind == "schema" and route == "completions":  # OpenAI's completions have no such field
            kind = "greedy"
        if kind in PAIRED and first_of_pair and first_of_pair["kind"] == kind:
            case = paired(first_of_pair, rng)
            first_of_pair = None
        else:
            case = make_case(kind, position, rng, words, shared)
            case["stream"] = {"both": rng.random() < 0.5, "always": True, "never": False}[streams]
            case["route"] = route
            first_of_pair = case if kind in PAIRED else None
        cases.append(case)
    if "logit_bias" in kinds:
        add_unbiased(cases)
    return numbered(cases, rng)


def make_case(kind, position, rng, words, shared):
    long = rng.random() < 0.3 and kind != "schema"
    prompt = long_prompt(rng, words, shared) if long else f"{rng.choice(OPENINGS)} {rng.choice(['', 'at last', 'by then', 'of course'])}".strip()
    if not long and rng.random() < 0.5:
        prompt = rng.choice(QUESTIONS)
    prompt = f"{prompt}" if long else f"Page {rng.randrange(1000)}. {prompt}"
    options = {"max_tokens": rng.choice([8, 12, 16, 24]), "temperature": 0}
    if kind == "sampled" or kind == "n" or (kind in ("logprobs", "stop") and position % 2):
        options |= {"temperature": rng.choice([0.7, 1.0, 1.3]), "seed": rng.randrange(1, 2**31)}
        if rng.random() < 0.5:
            options["top_p"] = rng.choice([0.8, 0.95])
    if kind == "sampled":
        options["max_tokens"] = 16
    elif kind == "logprobs":
        options["logprobs"] = 3
    elif kind == "stop":
        options |= {"stop": rng.choice(STOPS), "max_tokens": 24}
    elif kind == "max_tokens":
        options["max_tokens"] = 5
    elif kind == "schema":
        prompt, schema = rng.choice(SCHEMAS)
        options |= {"schema": schema, "max_tokens": SCHEMA_TOKENS}
    elif kind == "n":
        options["n"] = 2
    elif kind == "logit_bias":
        options |= {"logit_bias": {str(rng.choice(BIASED)): 100}, "max_tokens": 6}
    return {"kind": kind, "prompt": prompt, "system": SYSTEM if rng.random() < 0.3 else None, "options": options}


def long_prompt(rng, words, shared):
    text = shared if rng.random() < 0.5 else ""
    while len(text.split()) < words:
        text = f"{text} {rng.choice(SENTENCES)}".strip()
    return f"Notes: {text} {rng.choice(TASKS)}"


def paired(case, rng):
    """The second case of a pair: another seed, or more tokens."""
    options = dict(case["options"])
    if case["kind"] == "sampled":
        options["seed"] = rng.randrange(1, 2**31)
    else:
        options["max_tokens"] = 16
    return {**case, "options": options, "twin_case": case}


def add_unbiased(cases):
    """Makes a greedy case out of another for each case with a bias: the same request without the bias."""
    free = [case for case in cases if case["kind"] == "greedy"]
    for case in [case for case in cases if case["kind"] == "logit_bias"]:
        if free:
            plain = free.pop()
            plain.update({key: case[key] for key in ("prompt", "system", "stream", "route")}, options={**case["options"]})
            del plain["options"]["logit_bias"]
            case["twin_case"] = plain


def numbered(cases, rng):
    rng.shuffle(cases)
    for number, case in enumerate(cases):
        case["number"] = number
    for case in cases:
        twin = case.pop("twin_case", None)
        case["twin"] = None if twin is None else twin["number"]
    return cases


# ----------------------------------------------------------------------------------------------------- one answer


def fits(value, schema):
    """Whether `value` satisfies a schema of the keywords that SCHEMAS has."""
    if "enum" in schema:
        return value in schema["enum"]
    if schema["type"] == "boolean":
        return isinstance(value, bool)
    return (isinstance(value, dict) and set(schema["required"]) <= set(value) <= set(schema["properties"])
            and all(fits(value[name], schema["properties"][name]) for name in value))


def breaks_schema(text, finish, schema):
    if finish == "length":  # not complete: only its beginning can be judged
        return not (text.lstrip()[:1] in ("{", ""))
    try:
        return not fits(json.loads(text), schema)
    except (ValueError, RecursionError):
        return True


def ignored_stop(text, stops, at_the_end):
    """The stop string in a text. LoRAX's answers may end with it: `at_the_end`."""
    for stop in stops:
        found = text.find(stop)
        if found >= 0 and not (at_the_end and found + len(stop) == len(text)):
            return stop
    return None


def contradictions(case, answer, streamed_as_asked):
    """{field: reason} of each way in which an answer contradicts its request."""
    found, options = {}, case["options"]
    if not streamed_as_asked:
        found["stream"] = "a stream instead of one answer" if answer["streamed"] else "one answer instead of a stream"
    if len(answer["choices"]) != options.get("n", 1):
        found["n"] = f"{len(answer['choices'])} answers instead of {options.get('n', 1)}"
    tokens = answer["tokens"]
    for choice in answer["choices"]:
        text, most = choice["text"], options["max_tokens"]
        counts = [len(choice["logprobs"] or []), *([tokens] if tokens is not None and len(answer["choices"]) == 1 else [])]
        # A token may be the end of the text, which some servers count. A text has no more words than tokens.
        if max(counts) > most + 1 or len(text.split()) > most + 1:
            found["max_tokens"] = f"more than {most} tokens"
        if "logprobs" in options and not choice["logprobs"] and text:
            found["logprobs"] = "no log-probabilities"
        if any(None in (value, *others.values()) for _, value, others in choice["logprobs"] or []):
            found["logprobs"] = "a log-probability is null"
        if "stop" in options and (stop := ignored_stop(text, options["stop"], case["route"] == "generate")):
            found["stop"] = f"{stop!r} is in the answer"
        if "schema" in options and breaks_schema(text, choice["finish"], options["schema"]):
            found["schema"] = f"{text[:60]!r} does not satisfy the schema"
        if options["temperature"] == 0:
            for token, logprob, others in choice["logprobs"] or []:
                known = [value for value in others.values() if value is not None]
                if logprob is not None and known and logprob < max(known) - 1e-3:
                    found["temperature"] = f"{token!r} is not the likeliest token"
    return found


# -------------------------------------------------------------------------------------------------- several answers


def text_of(answer):
    return answer["choices"][0]["text"] if answer["state"] == "ok" and answer["choices"] else None


def same_text(a, b):
    return text_of(a) is not None and text_of(a) == text_of(b)


def ignored_by_twins(cases, answers):
    """{number: {field: reason}}: what pairs of answers to related requests show."""
    found = {}
    pairs = [(case, cases[case["twin"]]) for case in cases if case["twin"] is not None]
    for case, twin in pairs:
        mine, other = answers[case["number"]], answers[twin["number"]]
        if case["kind"] == "logit_bias" and same_text(mine, other):
            found[case["number"]] = {"logit_bias": "a bias of 100 changes nothing"}
        if case["kind"] == "max_tokens" and text_of(mine) and text_of(other):  # `other` may write fewer tokens
            is_cut = text_of(mine).startswith(text_of(other)) and len(text_of(mine)) > len(text_of(other))
            if is_cut and other["choices"][0]["finish"] != "length":
                found[twin["number"]] = {"finish_reason": f"{other['choices'][0]['finish']!r} where max_tokens cut the answer"}
    drawn = [(case, twin) for case, twin in pairs if case["kind"] == "sampled" and text_of(answers[case["number"]]) is not None
             and text_of(answers[twin["number"]]) is not None]
    if len(drawn) > 1 and all(same_text(answers[case["number"]], answers[twin["number"]]) for case, twin in drawn):
        for pair in drawn:
            for case in pair:
                found[case["number"]] = {"temperature": "answers of all seeds are equal"}
    return found


def seeds_ignored(cases, first, second, differ):
    """Numbers of the sampled cases if most of them differ when they are repeated alone."""
    drawn = [case["number"] for case in cases if "seed" in case["options"]]
    both = [n for n in drawn if first[n]["state"] == second[n]["state"] == "ok"]
    changed = [n for n in both if differ(first[n], second[n])]
    return set(drawn) if len(both) > 1 and 2 * len(changed) > len(both) else set()
