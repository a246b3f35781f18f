"""Random conversations and their ids by Hugging Face's libraries, for make_fixtures.py and scripts/check-tokenizers.

A form is the name of a tenon chat template, with the Jinja text that transformers runs for it. The reference ids are those
of apply_chat_template where the contents spell no special token. Otherwise they are put together here: the prompt is cut
at the template's own special tokens, and the text between two of them is encoded as one text. The same tokenizer is used
with encode_special_tokens, which treats every spelling as ordinary characters.
"""
import json
import re

from tokenizers import Tokenizer

ROLES = "{% for message in messages %}"
TEMPLATES = {
    "chatml": ROLES + "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "zephyr": ROLES + "{{ '<|' + message['role'] + '|>\\n' + message['content'] + eos_token + '\\n' }}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}",
    "llama3": "{{ bos_token }}" + ROLES + "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + "
              "'<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    "mistral": "{{ bos_token }}" + ROLES + "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% else %}"
               "{{ message['content'] + eos_token }}{% endif %}{% endfor %}",
    "llama2": "{% set system = messages[0]['content'] if messages[0]['role'] == 'system' else none %}"
              "{% set turns = messages[1:] if system is not none else messages %}{% for message in turns %}"
              "{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + message['content'] if loop.first and system is not none "
              "else message['content'] %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
              "{% else %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
}

# Ten tokenizers of make_fixtures.py, each under two forms.
FAMILIES = {"llama2": ("llama2", "zephyr"), "llama2_added": ("llama2", "mistral"), "mistral": ("mistral", "chatml"),
            "metaspace": ("zephyr", "chatml"), "plain_replace": ("zephyr", "llama2"), "llama3": ("llama3", "chatml"),
            "tekken": ("mistral", "llama2"), "holes": ("chatml", "zephyr"), "qwen2": ("chatml", "zephyr"), "prefix": ("zephyr", "chatml")}

WORDS = ["Hello", " there", ", who are you?", " ", "  ", "\n", "\n\n", " \t", "it's", " 12345 ", "caf\u00e9", " \u732b\u304c", "\U0001f600", "a", " b", "the ",
         "newword", " newword", "cat", "<tool>", " <tool> ", "<tool_x>", "ab", "\u2581", " \u2581x", "====", "<", "<|", "|>", "[INST", "\u3000", "\u00a0", "e\u0301",
         "def f(x):\n    return x", "What does cat <filen", "ame> do?", "</", "s>", "\x00", "\x1f", "- ", "** ", "\r\n"]


# White space in Unicode. Python's strip() would also take U+001C to U+001F.
WHITE_SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


def special_spellings(peer):
    return sorted({str(token) for token in peer.added_tokens_decoder.values() if token.special}, key=lambda text: (-len(text), text))


def content(rng, specials, quotes):
    words = [rng.choice(WORDS) for _ in range(rng.randint(0, 9))]
    if quotes:
        for _ in range(rng.randint(1, 3)):
            words.insert(rng.randint(0, len(words)), rng.choice(specials))
    return "".join(words)


def conversation(rng, form, specials, quotes):
    """[(role, content), ...] that the form takes."""
    say = lambda role: (role, content(rng, specials, quotes))
    alternates = form in ("llama2", "mistral")
    turns = rng.randint(0, 3)
    if alternates:
        talk = [say(role) for _ in range(turns) for role in ("user", "assistant")] + [say("user")]
    else:
        talk = [say(rng.choice(["user", "assistant"])) for _ in range(2 * turns)] + [say("user")]
    if form != "mistral" and rng.random() < 0.4:
        talk.insert(0, say("system"))
    return talk


def pieces(form, talk, bos, eos):
    """The prompt as [(text, the template's)]; written apart from the Jinja text, which must come to the same."""
    out = []
    own = lambda text: out.append((text, True))
    theirs = lambda text: out.append((text, False))
    if form in ("chatml", "zephyr"):
        before, after, end = ("<|im_start|>{}\n", "<|im_end|>\n", "<|im_start|>assistant\n") if form == "chatml" else ("<|{}|>\n", eos + "\n", "<|assistant|>\n")
        for role, text in talk:
            own(before.format(role)), theirs(text), own(after)
        own(end)
    elif form == "llama3":
        own(bos)
        for role, text in talk:
            own(f"<|start_header_id|>{role}<|end_header_id|>\n\n"), theirs(text.strip()), own("<|eot_id|>")
        own("<|start_header_id|>assistant<|end_header_id|>\n\n")
    elif form == "mistral":
        own(bos)
        for role, text in talk:
            own("[INST] " if role == "user" else ""), theirs(text), own(" [/INST]" if role == "user" else eos)
    else:
        system = talk[0][1] if talk[0][0] == "system" else None
        for i, (role, text) in enumerate(talk[1:] if system is not None else talk):
            own(bos + "[INST] " if role == "user" else " ")
            if i == 0 and system is not None:
                own("<<SYS>>\n"), theirs(system)
                own("\n<</SYS>>\n\n" if text.strip() else "\n<</SYS>>"), theirs(text.rstrip())
            else:
                theirs(text.strip())
            own(" [/INST]" if role == "user" else " " + eos)
    return [piece for piece in out if piece[0]]


class Reference:
    def __init__(self, peer):
        """peer: transformers' tokenizer, which parses special tokens."""
        self.peer = peer
        self.specials = special_spellings(peer)
        self.flags = {str(token): token for token in peer.added_tokens_decoder.values()}
        text = json.loads(peer._tokenizer.to_str())
        text["truncation"] = text["padding"] = None
        self.at_start, self.behind = Tokenizer.from_str(json.dumps(text)), None
        if (text["pre_tokenizer"] or {}).get("prepend_scheme") == "first":
            text["pre_tokenizer"]["prepend_scheme"] = "never"
        self.behind = Tokenizer.from_str(json.dumps(text))
        for each in self.at_start, self.behind:
            each.encode_special_tokens = True
        self.splitter = re.compile("|".join(map(re.escape, self.specials)))

    def rendered(self, form, talk):
        return self.peer.apply_chat_template([{"role": r, "content": c} for r, c in talk], chat_template=TEMPLATES[form],
                                             add_generation_prompt=True, tokenize=False)

    def plain(self, text):
        return self.peer(text, add_special_tokens=False)["input_ids"]

    def quoted(self, prompt):
        """prompt: of pieces()."""
        text, mask = "".join(t for t, _ in prompt), "".join(("#" if own else ".") * len(t) for t, own in prompt)
        parts, done, at = [], 0, 0
        while at < len(text):
            match = self.splitter.search(text, at)
            if not match:
                break
            if "." in mask[match.start():match.end()]:
                at = match.start() + 1
                continue
            parts += [text[done:match.start()], match.group()]
            done = at = match.end()
        parts.append(text[done:])
        ids = []
        for i, part in enumerate(parts):
            if i % 2:
                ids.append(self.peer.convert_tokens_to_ids(part))
                continue
            if i > 0 and self.flags[parts[i - 1]].rstrip:
                part = part.lstrip(WHITE_SPACE)
            if i + 1 < len(parts) and self.flags[parts[i + 1]].lstrip:
                part = part.rstrip(WHITE_SPACE)
            ids += (self.behind if i else self.at_start).encode(part, add_special_tokens=False).ids
        return ids

    def case(self, rng, form, quotes):
        """{"form", "messages", "ids"}: the ids that tenon must come to."""
        talk = conversation(rng, form, self.specials, quotes)
        prompt = pieces(form, talk, self.peer.bos_token or "", self.peer.eos_token or "")
        text = "".join(t for t, _ in prompt)
        if text != self.rendered(form, talk):
            raise AssertionError(f"{form}: {talk!r}\n{text!r}\n{self.rendered(form, talk)!r}")
        spelled = any(self.splitter.search(c) for _, c in talk)
        ids = self.quoted(prompt) if spelled else self.plain(text)
        return {"form": form, "messages": talk, "ids": ids}


def raw_prompt(rng, specials):
    """A prompt that a client formatted: words and special tokens."""
    return "".join(rng.choice(specials) if rng.random() < 0.3 else rng.choice(WORDS) for _ in range(rng.randint(1, 16)))
