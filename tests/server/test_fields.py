"""Every field of every route is honoured, refused by name, or inert (report: peer_fields_ignored).

2,000 requests have the rows of apps/serve/api/field_table.cpp and unknown names."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import random
import shutil
import tempfile

import serving
from serving import ADAPTERS, ROOT, Server, ServerTest
from test_heads import with_score

KING = "The king said"
MODEL = ROOT / "examples" / "models" / "tales"
EOS = 4095
SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}
MESSAGE = {"role": "user", "content": "Who is the king?"}
FUNCTION = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {"at": {"enum": ["sky", "sea"]}}}}
TOOL = {"type": "function", "function": FUNCTION}
OTHER = {"type": "function", "function": {"name": "listen", "parameters": {"type": "object", "properties": {"to": {"const": "rain"}}}}}
CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": \"sky\"}"}}
SEED = int(os.environ.get("TENON_TEST_SEED", 41))
REQUESTS = 2000


def field_table():
    loader = importlib.machinery.SourceFileLoader("field_table", str(ROOT / "scripts" / "field-table"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("field_table", loader))
    loader.exec_module(module)
    return module


TABLE = field_table()
ROWS = [(field, place) for field in TABLE.fields() for place in field.places]


def model_with_begin(folder, end="<|endoftext|>"):
    """The default model, with a tokenizer that puts the end of text (spelled `end`) before prompts, so that special tokens matter."""
    vocab = json.loads((MODEL / "vocab.json").read_text(encoding="utf-8"))
    vocab[end] = vocab.pop("<|endoftext|>")
    lines = (MODEL / "merges.txt").read_text(encoding="utf-8").split("\n")
    merges = [line for line in lines if line and not line.startswith("#version")]
    token = {"id": EOS, "content": end, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    around = [{"SpecialToken": {"id": end, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [token], "normalizer": None, "pre_tokenizer": level,
        "post_processor": {"type": "TemplateProcessing", "single": around, "pair": around + [{"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {end: {"id": end, "ids": [EOS], "tokens": [end]}}},
        "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                  "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": merges}}
    for name in ["config.json", "model.safetensors", "adapters"]:
        os.symlink(MODEL / name, folder / name)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": end,
                                                              "eos_token": end}))


def classifier_with_begin(folder):
    """The same as a classifier with one label, which all routes of heads can use."""
    model_with_begin(folder)
    (folder / "model.safetensors").unlink()
    (folder / "config.json").unlink()
    with_score(MODEL / "model.safetensors", folder / "model.safetensors", "score.weight", 1, 3)
    config = json.loads((MODEL / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["GPT2ForSequenceClassification"], "num_labels": 1}))


# ---- bodies: for each `place`, the default members and the route

BASE = {"kGenerate": {}, "kParameters": {"max_new_tokens": 8, "details": True}, "kCompletions": {"max_tokens": 8, "temperature": 0},
        "kChat": {"max_tokens": 8, "temperature": 0}, "kTokenize": {}}
LORAX = ["/generate", "/", "/generate_stream"]
RAIN, SNOW = "Rain falls on the hills.", "Snow"
HEADS = {"kEmbeddings": ("/v1/embeddings", {"input": KING}), "kEmbed": ("/embed", {"inputs": KING}), "kClassify": ("/classify", {"inputs": KING}),
         "kRerank": ("/rerank", {"query": KING, "documents": [RAIN, SNOW]}), "kScore": ("/score", {"text_1": KING, "text_2": RAIN})}
# (route, body, the member that holds the place; None: the body does)
DRAWS = {"seed": 7, "num_predict": 8}
OLLAMA = {"kOllamaChat": ("/api/chat", {"messages": [MESSAGE], "stream": False, "options": DRAWS}, None),
          "kOllamaGenerate": ("/api/generate", {"prompt": KING, "stream": False, "options": DRAWS}, None),
          "kOllamaOptions": ("/api/chat", {"messages": [MESSAGE], "stream": False, "options": DRAWS}, "options"),
          "kOllamaEmbed": ("/api/embed", {"input": KING}, None), "kOllamaEmbeddings": ("/api/embeddings", {"prompt": KING}, None),
          "kOllamaShow": ("/api/show", {}, None)}
HEAD_PATHS = {path for path, _ in HEADS.values()} | {"/api/embed", "/api/embeddings"}


def within(place, members):
    """(path, body) of a request with these members in that object."""
    if place == "kGenerate":
        return "/generate", {"inputs": KING, "parameters": BASE["kParameters"]} | members
    if place == "kParameters":
        inputs = members.pop("inputs", KING) if "inputs" in members else KING
        return "/generate", {"inputs": inputs, "parameters": BASE["kParameters"] | members}
    if place == "kCompletions":
        return "/v1/completions", {"prompt": KING} | BASE["kCompletions"] | members
    if place == "kChat":
        return "/v1/chat/completions", {"messages": [MESSAGE]} | BASE["kChat"] | members
    if place in OLLAMA:
        path, base, key = OLLAMA[place]
        return path, base | ({key: base.get(key, {}) | members} if key else members)
    if place == "kOllamaMessage":
        turns = [MESSAGE | members] if "tool_calls" not in members else [MESSAGE, {"role": "assistant"} | members, MESSAGE]
        return "/api/chat", OLLAMA["kOllamaChat"][1] | {"messages": turns}
    if place in ("kOllamaCall", "kOllamaFunction"):
        function = {"name": "look", "arguments": {"at": "sky"}} | (members if place == "kOllamaFunction" else {})
        call = {"function": function} | (members if place == "kOllamaCall" else {})
        return "/api/chat", OLLAMA["kOllamaChat"][1] | {"messages": [MESSAGE, {"role": "assistant", "tool_calls": [call]}, MESSAGE]}
    if place == "kPrediction":
        return "/v1/completions", {"prompt": KING, "prediction": {"type": "content", "content": "Rain"} | members} | BASE["kCompletions"]
    if place == "kTokenize":
        return "/tokenize", {"inputs": KING} | members
    if place == "kDetokenize":
        return "/detokenize", {"tokens": [500, 501]} | members
    if place in ("kReasoning", "kThinking"):
        return "/v1/chat/completions", {"messages": [MESSAGE], ("reasoning" if place == "kReasoning" else "thinking"):
                                        ({} if place == "kReasoning" else {"type": "enabled"}) | members} | BASE["kChat"]
    if place in HEADS:
        return HEADS[place][0], HEADS[place][1] | members
    if place == "kHeadParameters":
        return "/embed", {"inputs": KING, "parameters": members}
    if place == "kDocument":
        return "/rerank", {"query": KING, "documents": [{"text": RAIN} | members, SNOW]}
    if place == "kLoad":
        return "/v1/load_lora_adapter", {"lora_name": "sky", "lora_path": "weather"} | members
    if place == "kUnload":
        return "/v1/unload_lora_adapter", {"lora_name": "sky"} | members
    if place == "kTemplate":
        return "/apply-template", {"messages": [MESSAGE]} | members
    if place == "kMessage":
        turns = [MESSAGE, MESSAGE | members, MESSAGE] if members.get("role") == "assistant" else [MESSAGE | members]
        return "/v1/chat/completions", {"messages": turns} | BASE["kChat"]
    tools = {"kTool": {"tools": [TOOL | members]}, "kFunction": {"tools": [{"function": FUNCTION | members}]},
             "kToolChoice": {"tools": [TOOL, OTHER], "tool_choice": {"function": {"name": "look"}} | members},
             "kAllowedTools": {"tools": [TOOL, OTHER], "tool_choice": {"type": "allowed_tools", "allowed_tools": {
                 "mode": "required", "tools": [{"type": "function", "function": {"name": "look"}}]} | members}},
             "kChosenFunction": {"tools": [TOOL, OTHER], "tool_choice": {"function": {"name": "look"} | members}},
             "kToolCall": {"messages": [MESSAGE, {"role": "assistant", "tool_calls": [CALL | members]}, MESSAGE]},
             "kCalledFunction": {"messages": [MESSAGE, {"role": "assistant", "tool_calls": [CALL | {"function": CALL["function"] | members}]}, MESSAGE]}}
    if place == "kResponses":
        return "/v1/responses", {"input": "Who?", "temperature": 0, "max_output_tokens": 8} | members
    if place == "kMessages":
        return "/v1/messages", {"messages": [MESSAGE], "temperature": 0, "max_tokens": 8} | members
    item = MESSAGE | members
    items = {"kInputItem": [MESSAGE, item, MESSAGE] if item.get("type") == "function_call" else [item],
             "kInputPart": [{"role": "user", "content": [{"type": "input_text", "text": "Who?"} | members]}]}
    if place in items:
        return "/v1/responses", {"input": items[place], "temperature": 0, "max_output_tokens": 8}
    if place == "kResponsesText":
        return "/v1/responses", {"input": "Who?", "temperature": 0, "max_output_tokens": 40, "text": members}
    inner = {"kTurn": {"messages": [MESSAGE | members]}, "kBlock": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Who?"} | members]}]},
             "kInputTool": {"tools": [{"name": "look", "input_schema": FUNCTION["parameters"]} | members]},
             "kInputChoice": {"tools": [{"name": "look"}, {"name": "listen"}], "tool_choice": {"type": "any"} | members}}
    if place in inner:
        return "/v1/messages", {"messages": [MESSAGE], "temperature": 0, "max_tokens": 60} | inner[place]
    if place in tools:
        return "/v1/chat/completions", {"messages": [MESSAGE], "temperature": 0, "max_tokens": 60} | tools[place]
    if place == "kPart":
        return "/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "text", "text": "Who?"} | members]}]} | BASE["kChat"]
    if place == "kStreamOptions":
        return "/v1/completions", {"prompt": KING, "stream": True, "stream_options": {"include_usage": True} | members} | BASE["kCompletions"]
    if place == "kHubOptions":
        return "/generate", {"inputs": KING, "parameters": BASE["kParameters"], "options": members}
    inner = {"kFormat": ("response_format", {"type": "json_object", "schema": SCHEMA} | members),
             "kJsonSchema": ("response_format", {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA} | members}),
             "kStructured": ("structured_outputs", {"json": SCHEMA} | members),
             "kMerged": ("merged_adapters", {"ids": ["weather", "shakespeare"], "weights": [0.5, 0.5]} | members),
             "kScaledAdapter": ("lora", [{"id": "weather", "scale": 1} | members]),
             "kAdapterRequest": ("lora_request", {"lora_name": "weather"} | members)}
    name, value = inner[place]
    return "/v1/completions", {"prompt": KING, name: value} | BASE["kCompletions"]


def essence(answer):
    """The parts of a body that are the same every time."""
    if isinstance(answer, list) and answer and isinstance(answer[0], dict) and "generated_text" in answer[0]:
        return answer[0]
    if isinstance(answer, dict) and ("done_reason" in answer or "modified_at" in answer):
        return {k: v for k, v in answer.items() if k not in ("model", "created_at", "modified_at", "details") and not k.endswith("duration")}
    if isinstance(answer, dict) and ("output" in answer or "stop_reason" in answer):
        parts = [{k: v for k, v in part.items() if k not in ("id", "call_id")} for part in answer.get("output") or answer["content"]]
        return [parts, answer["usage"]]
    if isinstance(answer, dict) and ("data" in answer or "results" in answer):
        return {k: v for k, v in answer.items() if k not in ("id", "created", "model")}
    if isinstance(answer, dict) and "choices" in answer:
        for choice in answer["choices"]:
            for call in choice.get("message", {}).get("tool_calls") or []:
                call.pop("id")  # random
        (answer.get("usage") or {}).pop("completion_tokens_details", None)  # time decides how many guesses are verified
        return {k: v for k, v in answer.items() if k not in ("id", "created", "model")}
    return answer


# ---- effects: what changes if a field is honoured

FORMS = {"response_format": {"type": "json_object", "schema": SCHEMA}, "structured_outputs": {"json": SCHEMA}, "guided_json": SCHEMA,
         "json_schema": SCHEMA, "schema": SCHEMA, "response_schema": json.dumps(SCHEMA), "format": SCHEMA,
         "grammar": {"type": "json", "value": SCHEMA}}
REGEXES = {"regex": "(yes|no)!", "guided_regex": "(yes|no)!", "choice": ["yes!", "no!"], "guided_choice": ["yes!", "no!"],
           "ebnf": 'root ::= ("yes" | "no") "!"', "guided_grammar": 'root ::= ("yes" | "no") "!"'}
ADAPTERS_NAMED = {"model": "weather", "adapter_id": "weather", "adapters": ["weather"], "lora": [{"id": "weather", "scale": 1}],
                  "lora_request": {"lora_name": "weather", "lora_int_id": 1},
                  "merged_adapters": {"ids": ["weather", "shakespeare"], "weights": [0.7, 0.3]}}
BIAS_TO_END = {"logit_bias": {str(EOS): 100}}


def effects(second, second_id, chat_id):
    """{(canonical name, place): (value, other members)}: adding the value changes the answer to the other members.
    `second`, `second_id`: the second token of the answer to KING; `chat_id`: that of the answer to MESSAGE."""
    same = {}  # for parameters and both routes of OpenAI
    drawn = {"do_sample": True, "seed": 7}
    for place in ["kParameters", "kCompletions", "kChat"]:
        lorax = place == "kParameters"
        draws = drawn if lorax else {"temperature": 1, "seed": 7}
        length = "max_new_tokens" if lorax else "max_tokens"
        long = {length: 40}
        for name, value in (FORMS | ADAPTERS_NAMED).items():
            same[name, place] = (value, {length: 24})
        for name, value in REGEXES.items():
            same[name, place] = (value, {})
        same |= {(length, place): (3, {}), ("temperature", place): (1.7, draws | {length: 24}), ("top_k", place): (1, draws | {length: 24}),
                 ("top_p", place): (0.05, draws | {length: 24}), ("typical_p", place): (0.05, draws | {length: 24}),
                 ("min_p", place): (0.95, draws | {length: 24}), ("repetition_penalty", place): (3.0, long),
                 ("presence_penalty", place): (2, long), ("frequency_penalty", place): (2, long),
                 ("logit_bias", place): ({str(second_id): -100}, {}), ("seed", place): (8, draws | {length: 24}),
                 ("stop_token_ids", place): ([second_id], {}), ("stop", place): ([second if lorax else second.strip()], {})}
    p, c, h = "kParameters", "kCompletions", "kChat"
    same |= {
        ("do_sample", p): (True, {"seed": 7}), ("truncate", p): (2, {}), ("details", p): (False, {}), ("return_full_text", p): (True, {}),
        ("decoder_input_details", p): (True, {}), ("return_k_alternatives", p): (2, {}), ("top_n_tokens", p): (2, {}),
        ("ignore_eos_token", p): (True, BIAS_TO_END), ("min_new_tokens", p): (3, BIAS_TO_END),
        ("skip_special_tokens", p): (False, BIAS_TO_END | {"ignore_eos_token": True}),
        ("skip_special_tokens", c): (False, BIAS_TO_END | {"ignore_eos": True}),
        ("skip_special_tokens", h): (False, BIAS_TO_END | {"ignore_eos": True}),
        ("add_special_tokens", p): (False, {}), ("add_special_tokens", c): (False, {}),
        ("parse_special", p): (False, {"inputs": "The <|endoftext|>king"}), ("parse_special", c): (False, {"prompt": "The <|endoftext|>king"}),
        ("apply_chat_template", p): (True, {"inputs": json.dumps([MESSAGE])}),
        ("ignore_eos", c): (True, BIAS_TO_END), ("ignore_eos", h): (True, BIAS_TO_END),
        ("min_tokens", c): (3, BIAS_TO_END), ("min_tokens", h): (3, BIAS_TO_END),
        ("include_stop_str_in_output", c): (True, {"stop": [second.strip()]}), ("include_stop_str_in_output", h): (True, {"stop": ["e"], "max_tokens": 40}),
        ("n", c): (2, {}), ("n", h): (2, {}), ("echo", c): (True, {}), ("logprobs", c): (2, {}), ("logprobs", h): (True, {}),
        ("top_logprobs", h): (2, {"logprobs": True}), ("prompt_logprobs", c): (1, {}), ("prompt_logprobs", h): (1, {}),
        ("return_token_ids", c): (True, {}), ("return_token_ids", h): (True, {}), ("receipt", p): (True, {}), ("receipt", c): (True, {}),
        ("receipt", h): (True, {}), ("truncate_prompt_tokens", c): (2, {}),
        ("truncate_prompt_tokens", h): (3, {}), ("prompt", c): ("Rain", {}), ("messages", h): ([{"role": "user", "content": "Rain"}], {}),
        ("stop", h): (["e"], {"max_tokens": 40}), ("stop_token_ids", h): ([chat_id], {}), ("logit_bias", h): ({str(EOS): 100}, {}),
        ("inputs", "kGenerate"): ("Rain", {}), ("parameters", "kGenerate"): ({"max_new_tokens": 3}, {}),
        ("inputs", "kTokenize"): ("Rain", {}), ("add_special_tokens", "kTokenize"): (False, {}),
        ("prompt", "kTokenize"): ("Rain", {"inputs": None}), ("content", "kTokenize"): ("Rain", {"inputs": None}),
        ("with_pieces", "kTokenize"): (True, {"inputs": None, "content": KING}), ("tokens", "kDetokenize"): ([600], {}),
        ("return_token_strs", "kTokenize"): (True, {"inputs": None, "prompt": KING}),
        ("parse_special", "kTokenize"): (False, {"inputs": "a<|endoftext|>"}),
    }
    for name, value in ADAPTERS_NAMED.items():
        same[name, "kGenerate"] = (value, {})
    same |= {("content", "kMessage"): ("Rain", {}), ("text", "kPart"): ("Rain", {}),
             ("ids", "kMerged"): (["shakespeare", "characters"], {}), ("weights", "kMerged"): ([3, 0.1], {}),
             ("id", "kScaledAdapter"): ("shakespeare", {}), ("scale", "kScaledAdapter"): (0, {}),
             ("lora_name", "kAdapterRequest"): ("shakespeare", {}), ("schema", "kJsonSchema"): ({"const": 5}, {}),
             ("parameters", "kJsonSchema"): ({"const": 5}, {"schema": None}), ("json", "kStructured"): ({"const": 5}, {}),
             ("regex", "kStructured"): ("yes!", {"json": None}), ("choice", "kStructured"): (["yes!"], {"json": None}),
             ("grammar", "kStructured"): ('root ::= "yes!"', {"json": None}), ("json_object", "kStructured"): (True, {"json": None}),
             ("lora_path", "kAdapterRequest"): ("shakespeare", {"lora_name": None}), ("path", "kAdapterRequest"): ("shakespeare", {"lora_name": None}),
             ("path", "kScaledAdapter"): ("shakespeare", {"id": None}), ("schema", "kFormat"): ({"const": 5}, {}),
             ("value", "kFormat"): ({"const": 5}, {"schema": None}), ("json_schema", "kFormat"): ({"const": 5}, {"schema": None}),
             ("response_schema", "kFormat"): ({"const": 5}, {"schema": None}),
             ("type", "kFormat"): ("text", {"schema": None}), ("regex", "kFormat"): ("yes!", {"type": "regex", "schema": None}),
             ("pattern", "kFormat"): ("yes!", {"type": "regex", "schema": None}),
             ("grammar", "kFormat"): ('root ::= "yes!"', {"type": "grammar", "schema": None}),
             ("include_usage", "kStreamOptions"): (False, {}), ("continuous_usage_stats", "kStreamOptions"): (True, {}),
             ("mode", "kAllowedTools"): ("auto", {}), ("tools", "kAllowedTools"): ([{"function": {"name": "listen"}}], {}),
             ("return", "kFunction"): ({"type": "string"}, {}),
             ("allowed_tools", "kToolChoice"): ({"mode": "auto", "tools": [{"function": {"name": "look"}}]},
                                                {"type": "allowed_tools", "function": None})}
    alone = {"messages": [MESSAGE], "inputs": None}
    for place, beside in [("kChat", {}), ("kTemplate", {}), ("kTokenize", alone)]:
        same |= {("messages", place): ([{"role": "user", "content": "Rain"}], {"inputs": None} if beside else {}),
                 ("tools", place): ([TOOL], dict(beside)), ("chat_template_kwargs", place): ({"bos_token": "Rain"}, dict(beside)),
                 ("continue_final_message", place): (True, beside | {"messages": [MESSAGE, {"role": "assistant", "content": "Rain"}]})}
    same |= {("tool_choice", h): ("required", {"tools": [TOOL], "max_tokens": 60}), ("tool_calls", "kMessage"): ([CALL], {"role": "assistant"}),
             ("function", "kTool"): (OTHER["function"], {}), ("name", "kFunction"): ("see", {}), ("description", "kFunction"): ("Sees all that there is to see.", {}),
             ("parameters", "kFunction"): ({"type": "object", "properties": {}}, {}), ("strict", "kFunction"): (True, {}),
             ("function", "kToolCall"): ({"name": "see", "arguments": "{}"}, {}), ("name", "kCalledFunction"): ("see", {}),
             ("arguments", "kCalledFunction"): ("{}", {}), ("function", "kToolChoice"): ({"name": "listen"}, {}),
             ("name", "kChosenFunction"): ("listen", {})}
    r, m, i, b = "kResponses", "kMessages", "kInputItem", "kBlock"
    called = {"type": "function_call", "role": None, "content": None, "name": "look", "call_id": "1"}
    flat, theirs = FUNCTION | {"type": "function"}, {"name": "look", "input_schema": FUNCTION["parameters"]}
    same |= {("input", r): ("Rain", {}), ("instructions", r): ("Be kind.", {}), ("tools", r): ([flat], {}), ("text", r): ({"format": {"type": "json_object"}}, {}),
             ("tool_choice", r): ("required", {"tools": [flat], "max_output_tokens": 60}),
             ("format", "kResponsesText"): ({"type": "json_schema", "name": "x", "schema": {"const": 5}}, {}),
             ("content", i): ("Rain", {}), ("name", i): ("see", called), ("arguments", i): ('{"a": 1}', called),
             ("output", i): ("Rain", {"type": "function_call_output", "role": None, "content": None, "call_id": "1", "output": "x"}),
             ("text", "kInputPart"): ("Rain", {}), ("system", m): ("Be kind.", {}), ("messages", m): ([{"role": "user", "content": "Rain"}], {}),
             ("stop_sequences", m): (["e"], {"max_tokens": 40}), ("tools", m): ([theirs], {}),
             ("tool_choice", m): ({"type": "any"}, {"tools": [theirs], "max_tokens": 60}), ("content", "kTurn"): ("Rain", {}), ("text", b): ("Rain", {}),
             ("content", b): ("Rain", {"type": "tool_result", "text": None, "tool_use_id": "1"}), ("name", "kInputTool"): ("see", {}),
             ("description", "kInputTool"): ("Sees all that there is to see.", {}), ("input_schema", "kInputTool"): ({"type": "object", "properties": {}}, {}),
             ("strict", "kInputTool"): (True, {}), ("type", "kInputChoice"): ("none", {})}
    return same | head_effects() | ollama_effects()


def ollama_effects():
    chat, text, options = "kOllamaChat", "kOllamaGenerate", "kOllamaOptions"
    rain = [{"role": "user", "content": "Rain"}]
    same = {("model", place): ("weather", {}) for place in [chat, text, "kOllamaEmbed", "kOllamaEmbeddings"]}
    same |= {(name, place): (value, {}) for place in [chat, text]
             for name, value in {"format": SCHEMA, "options": {"num_predict": 3}}.items()}
    return same | {
        ("messages", chat): (rain, {}), ("tools", chat): ([TOOL], {}), ("prompt", text): ("Rain", {}), ("system", text): ("Be kind.", {}),
        ("raw", text): (True, {}), ("input", "kOllamaEmbed"): ("Rain", {}), ("prompt", "kOllamaEmbeddings"): ("Rain", {}),
        ("content", "kOllamaMessage"): ("Rain", {}), ("tool_calls", "kOllamaMessage"): ([{"function": {"name": "look", "arguments": {}}}], {}),
        ("function", "kOllamaCall"): ({"name": "see", "arguments": {}}, {}), ("name", "kOllamaFunction"): ("see", {}),
        ("arguments", "kOllamaFunction"): ({}, {}), ("num_predict", options): (3, {}), ("temperature", options): (1.9, {"num_predict": 24}),
        ("top_k", options): (1, {}), ("top_p", options): (0.05, {}), ("min_p", options): (0.95, {}), ("typical_p", options): (0.05, {}),
        ("repeat_penalty", options): (3.0, {"num_predict": 40}), ("presence_penalty", options): (2, {"num_predict": 40}),
        ("frequency_penalty", options): (2, {"num_predict": 40}), ("seed", options): (8, {}), ("stop", options): (["E", "e"], {"num_predict": 40}),
        ("repeat_last_n", options): (0, {"repeat_penalty": 3.0, "num_predict": 40})}


def head_effects():
    text = {"kEmbeddings": "input", "kEmbed": "inputs", "kClassify": "inputs", "kRerank": "query", "kScore": "text_1"}
    same = {}
    for place, field in text.items():
        pair = place in ("kRerank", "kScore")
        cut = {"truncate_prompt_tokens": 5 if pair else 2}
        same |= {(name, place): (value, {}) for name, value in ADAPTERS_NAMED.items()}
        same |= {(field, place): ("Rain", {}), ("truncate_prompt_tokens", place): (cut["truncate_prompt_tokens"], {}),
                 ("truncation_direction", place): ("left", cut), ("add_special_tokens", place): (False, {}),
                 ("parse_special", place): (False, {field: "The <|endoftext|>king"}), ("parameters", place): ({"adapter_id": "weather"}, {}),
                 ("normalize", place): (False, {}), ("raw_scores", place): (True, {}), ("use_activation", place): (False, {})}
    same |= {(name, "kHeadParameters"): (value, {}) for name, value in ADAPTERS_NAMED.items()}
    return same | {("input", "kClassify"): ("Rain", {"inputs": None}), ("encoding_format", "kEmbeddings"): ("base64", {}),
                   ("documents", "kRerank"): ([SNOW], {}), ("texts", "kRerank"): ([SNOW], {"documents": None}), ("text", "kDocument"): (SNOW, {}),
                   ("top_n", "kRerank"): (1, {}), ("return_documents", "kRerank"): (False, {}), ("text_2", "kScore"): (SNOW, {}),
                   ("return_text", "kRerank"): (True, {"documents": None, "texts": [RAIN]})}


# Honoured fields that by their meaning do not change this answer: (good values, a value that is refused by name).
CHECKED = {"role": (["user"], "nobody"), "priority": ([0, 5, -3], "high"), "cache_salt": (["a", "b"], 5), "adapter_source": (["local", "hub"], "s3"),
           "stream": ([False], "yes"), "stream_options": ([None], {"include_usage": True}), "best_of": ([1], 0),
           "merge_strategy": (["linear"], "ties"), "type": (["text"], "image_url"), "options": ([{"use_cache": True}], {"x": 1}),
           "parallel_tool_calls": ([True, False], "x"), "documents": ([[]], ["x"]), "add_generation_prompt": ([None], "x"),
           # The template reads no variable of reasoning: test_chat.py has others.
           "enable_thinking": ([True, False, None], "x"), "think": ([True, False, "low"], 5), "reasoning_effort": (["none", "high"], "loud"),
           "thinking": ([True, False, {"type": "adaptive"}], 5), "reasoning": ([{"effort": "low", "summary": None}, False], 5),
           **{(name, "kTokenize"): ([None, False], "x") for name in ["enable_thinking", "think", "reasoning_effort", "thinking", "reasoning"]},
           "effort": (["low", "none", None], "loud"), "enabled": ([True, False], "x"), ("max_tokens", "kReasoning"): ([100], 0),
           ("type", "kThinking"): (["enabled", "disabled", "adaptive"], "x"), "budget_tokens": ([1024], 0), "display": (["summarized", "omitted", None], "x"),
           "include": ([["reasoning.encrypted_content"], []], ["file_search_call.results"]),
           "reasoning_format": (["auto", "deepseek", "none"], "x"), "separate_reasoning": ([True, False], "x"),
           "include_reasoning": ([True, False], 5), "name": (["ann"], 5), "tool_call_id": (["1"], 5), "reasoning_content": (["x"], 5), "id": (["2"], 5),
           ("role", "kInputItem"): (["user"], "nobody"), ("role", "kTurn"): (["user"], "system"), ("type", "kInputItem"): (["message"], "item_reference"),
           ("type", "kInputPart"): (["input_text", "output_text"], "input_image"), ("type", "kBlock"): (["text"], "image"),
           ("type", "kInputTool"): (["custom"], "bash_20250124"), ("name", "kInputChoice"): ([None], "x"), ("name", "kBlock"): ([None], "x"),
           ("input", "kBlock"): ([None], {"a": 1}), ("id", "kBlock"): ([None], "x"), ("thinking", "kBlock"): ([None], "x"), "truncation": (["disabled"], "auto"), "call_id": ([None], "1"),
           "tool_use_id": ([None], "1"), "is_error": ([None], True), "disable_parallel_tool_use": ([False], "x"),
           ("type", "kTool"): (["function"], "web_search"), ("type", "kToolCall"): (["function"], "custom"), ("type", "kToolChoice"): (["function"], "x"),
           "resumable": ([False], "yes"), "prediction": ([{"type": "content", "content": "Rain"}], {"type": "text", "content": "Rain"}), ("type", "kPrediction"): (["content"], "text"),
           ("content", "kPrediction"): (["It rains.", [{"type": "text", "text": "It rains."}]], 5), "dimensions": ([256], 8), "truncate": ([True, False], "x"), "instruction": ([None], "Find it."),
           ("model", "kOllamaShow"): (["tales", "tales:latest"], 5), ("options", "kOllamaEmbed"): ([{"num_ctx": 512}], {"num_ctx": 0}),
           ("options", "kOllamaEmbeddings"): ([{"num_ctx": 512}], {"num_ctx": 0}), "num_ctx": ([64, 4096], 0), "tool_name": ([None], 5),
           ("thinking", "kOllamaMessage"): ([None], 5), "base_model_name": (["tales"], "other"), "lora_name": (["sky"], "../x"), "lora_path": (["weather"], "")}
VALUES = [True, 1, 2.5, "x", ["x"], {"a": 1}, 7, -3, [1, 2], "none of that"]


class Fields(ServerTest):
    FLAGS = ["--chat-template", "llama2", "--enable-adapter-admin", "--api-key", "k"]

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        model_with_begin(pathlib.Path(folder.name))
        cls.FLAGS = cls.FLAGS + ["--model", folder.name, "--served-model-name", "tales"]
        super().setUpClass()
        cls.server.key = "k"
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        classifier_with_begin(pathlib.Path(folder.name))
        cls.heads = Server("--model", folder.name)
        cls.addClassCleanup(cls.heads.kill)
        cls.known, cls.sent, cls.choice = {}, 0, random.Random(SEED)

    def ask(self, path, body):
        """The status and the body of the answer."""
        type(self).sent += 1
        if body.get("stream") is True or path == "/generate_stream":
            with self.server.stream(path, body) as stream:
                if stream.status != 200:
                    return stream.status, json.loads(stream.response.read())
                return 200, [essence(e) if isinstance(e, dict) else e for e in stream]
        answer = (self.heads if path in HEAD_PATHS else self.server).post(path, body)
        is_json = answer.headers["content-type"] == "application/json"
        return answer.status, essence(answer.json()) if is_json else answer.text()

    def reference(self, path, body):
        key = json.dumps([path, body], sort_keys=True)
        if key not in self.known:
            self.known[key] = self.ask(path, body)
        return self.known[key]

    def good(self, path, body):
        status, said = self.ask(path, body)
        self.assertEqual(status, 200, (path, body, said))
        return said

    def any_route(self, path):
        """One of the routes that take the same body."""
        return self.choice.choice(LORAX) if path == "/generate" else path

    def check_refused(self, name, path, body):
        path = self.any_route(path)
        status, said = self.ask(path, body)
        self.assertEqual(status, 400 if path.startswith(("/v1/", "/api/")) else 422, (path, body, said))
        message = said["error"]["message"] if isinstance(said["error"], dict) else said["error"]
        # Either "`lora[0].id` ...", or the name anywhere in back quotes.
        named = any(before + name + after in message for before in "`." for after in "`.=")
        self.assertTrue(named, (path, body, message))

    def check_row(self, field, place, random):
        name = field.name
        if place == "kUnload":
            self.ask(*within("kLoad", {}))  # otherwise the adapter is loaded already, which is refused
        elif place == "kLoad":
            self.ask(*within("kUnload", {}))
        if field.kind == "refused":
            value = random.choice([v for v in VALUES if not TABLE.is_neutral(field, v)])
            if random.random() < 0.6:
                return self.check_refused(name, *within(place, {name: value}))
            neutrals = [None] + ([] if field.neutral.startswith("=") else [False, "", [], {}]) + json.loads(field.neutral.lstrip("=") or "[]")
            return self.check_same(place, {name: random.choice(neutrals)})
        if field.kind == "inert":
            return self.check_same(place, {name: random.choice(VALUES if name != "name" else ["ann"])})
        canonical = field.same_as or name
        if name == "best_of" and place == "kParameters":
            said = self.good(*within(place, {name: 2, "do_sample": True}))
            return self.assertEqual(len(said["details"]["best_of_sequences"]), 1)
        effect = self.effects.get((canonical, place))
        if effect is None:
            key = (canonical, place) if (canonical, place) in CHECKED else canonical
            self.assertIn(key, CHECKED, (name, place, "has no effect to check"))
            values, bad = CHECKED[key]
            if random.random() < 0.5:
                return self.check_refused_or_admin(name, place, bad)
            return self.check_same(place, {name: random.choice(values)})
        value, beside = effect
        ref_path, ref_body = within(place, dict(beside))
        status, before = self.reference(ref_path, ref_body)
        own_path, own_body = within(place, dict(beside) | {canonical: value})
        after = self.good(own_path, own_body)
        if status == 200:
            self.assertNotEqual(after, before, (name, place, value, "has no effect"))
        if name == canonical:
            return
        other_path, other_body = within(place, dict(beside) | {canonical: None, name: value})
        self.assertEqual(self.good(other_path, other_body), after, (name, "is not", canonical))

    def check_refused_or_admin(self, name, place, bad):
        path, body = within(place, {name: bad})
        if place in ("kLoad", "kUnload") and name != "base_model_name":  # with vLLM's wording
            return self.assertIn(self.ask(path, body)[0], [400, 404])
        self.check_refused(name, path, body)

    def check_same(self, place, members):
        """The answer is that of the same request without the members."""
        path, plain = within(place, {})
        if place in ("kLoad", "kUnload"):
            return self.good(*within(place, members))
        path = self.any_route(path)
        self.assertEqual(self.good(path, within(place, members)[1]), self.reference(path, plain)[1], (path, place, members))

    def check_unknown(self, random):
        place = random.choice(sorted(TABLE.PLACES))
        known = {f.name for f, p in ROWS if p == place}
        name = random.choice(sorted(known | {"temperature", "max_tokens"}))
        name = random.choice([name + "s", name[:-1], name.upper(), "x_" + name, "-".join(name.split("_")) + "-", name + "_v2",
                              "".join(random.choice("abcdefghijklmnopqrstuvwxyz_") for _ in range(9))])
        if not name or name in known or (place == "kGenerate" and name == "inputs"):
            return self.check_unknown(random)
        self.check_refused(name, *within(place, {name: random.choice(VALUES)}))

    def test_two_thousand_requests(self):
        """report: peer_fields_ignored"""
        self.learn_effects()
        choice = self.choice
        rows = list(ROWS)
        choice.shuffle(rows)
        for field, place in rows:  # each row at least once
            with self.subTest(field=field.name, place=place):
                self.check_row(field, place, choice)
        while self.sent < REQUESTS:
            if choice.random() < 0.4:
                with self.subTest("unknown"):
                    self.check_unknown(choice)
            else:
                field, place = choice.choice(rows)
                with self.subTest(field=field.name, place=place):
                    self.check_row(field, place, choice)

    def test_two_names_of_one_field(self):
        self.learn_effects()
        for field, place in [(f, p) for f, p in ROWS if f.same_as and p in ("kParameters", "kCompletions", "kChat")]:
            value, beside = self.effects[field.same_as, place]
            other = {"weather": "shakespeare"}.get(value, 5 if isinstance(value, (int, float)) else value) if not isinstance(value, list) else ["zzz"]
            if isinstance(value, bool):
                other = not value
            path, body = within(place, dict(beside) | {field.same_as: other, field.name: value})
            status, said = self.ask(path, body)
            self.assertEqual(status, 400 if path.startswith(("/v1/", "/api/")) else 422, (field.name, body, said))
            self.good(*within(place, dict(beside) | {field.same_as: value, field.name: value}))

    def learn_effects(self):
        token = self.good(*within("kParameters", {}))["details"]["tokens"][1]
        chat = self.good(*within("kChat", {"return_token_ids": True}))["choices"][0]["token_ids"]
        type(self).effects = effects(token["text"], token["id"], chat[1])

    def test_formats_are_kept_on_every_route(self):
        """report: response_format_schema_dropped"""
        spellings = [{"response_format": {"type": kind} | held} for kind in ["json_object", "json_schema", "json"]
                     for held in [{"schema": SCHEMA}, {"value": SCHEMA}, {"json_schema": SCHEMA}, {"response_schema": SCHEMA},
                                  {"json_schema": {"name": "x", "schema": SCHEMA}}, {"json_schema": {"name": "x", "parameters": SCHEMA}}]]
        spellings += [{name: value} for name, value in FORMS.items()]
        for place in ["kParameters", "kCompletions", "kChat"]:
            for each in spellings:
                said = self.good(*within(place, {"max_new_tokens" if place == "kParameters" else "max_tokens": 40} | each))
                text = said["generated_text"] if place == "kParameters" else said["choices"][0].get("text")
                text = said["choices"][0]["message"]["content"] if place == "kChat" else text
                self.assertIn(json.loads(text), [{"a": True}, {"a": False}], (place, each))
            for name, value in REGEXES.items():
                said = json.dumps(self.good(*within(place, {name: value})))
                self.assertTrue("yes!" in said or "no!" in said, (name, said))
            hidden = [{"type": kind, key: {"name": "x", inner: SCHEMA}} for kind in ["json_object", "json_schema"]
                      for key in ["schema", "value", "json_schema", "response_schema"] for inner in ["value", "json_schema", "definition"]]
            for bad in [{"type": "json_schema"}, {"type": "json"}, {"type": "json_schema", "json_schema": {"name": "x"}}, *hidden]:
                self.check_refused("response_format", *within(place, {"response_format": bad}))

    def test_a_type_that_is_no_word(self):
        with Server("--chat-template", "plain") as server:
            answer = server.post("/v1/responses", {"input": "x", "text": {"format": {"type": 5}}})
            self.assertEqual(answer.status, 400, answer)
            self.assertIn("type", answer.json()["error"]["message"])
            self.assertEqual(server.stop(), 0)

    def test_cut_prompts_have_as_many_tokens_as_asked(self):
        text = "The king of rain"
        ids = [t["id"] for t in self.server.post("/tokenize", {"inputs": text}).json()]
        self.assertEqual(ids[0], EOS)
        for most, kept in [(1, [EOS]), (2, [EOS, ids[-1]]), (3, [EOS, *ids[-2:]])]:
            said = self.good(*within("kParameters", {"inputs": text, "truncate": most, "decoder_input_details": True}))
            self.assertEqual([t["id"] for t in said["details"]["prefill"]], kept)
            said = self.good(*within("kCompletions", {"prompt": text, "truncate_prompt_tokens": most}))
            self.assertEqual(said["usage"]["prompt_tokens"], most)

    def test_special_tokens_of_prompts(self):
        """report: prompt_special_tokens_are_text"""
        text = "The <|endoftext|>king"
        ids = [t["id"] for t in self.server.post("/tokenize", {"inputs": text}).json()]
        self.assertEqual(ids.count(EOS), 2)  # one of them is before the prompt
        for more, count in [({"parse_special": False}, 1), ({"add_special_tokens": False}, 1),
                            ({"parse_special": False, "add_special_tokens": False}, 0)]:
            own = [t["id"] for t in self.server.post("/tokenize", {"inputs": text} | more).json()]
            self.assertEqual(own.count(EOS), count, more)
            said = self.good(*within("kCompletions", {"prompt": text} | more))
            self.assertEqual(said["choices"], self.good(*within("kCompletions", {"prompt": own}))["choices"])
            lorax = self.good(*within("kParameters", {"inputs": text, "decoder_input_details": True} | more))
            self.assertEqual([t["id"] for t in lorax["details"]["prefill"]], own)
        self.assertEqual(self.good(*within("kCompletions", {"prompt": text}))["choices"],
                         self.good(*within("kCompletions", {"prompt": ids}))["choices"])
        with Server(*self.FLAGS, "--no-parse-special") as server:
            server.key = "k"
            own = [t["id"] for t in server.post("/tokenize", {"inputs": text}).json()]
            self.assertEqual(own.count(EOS), 1)
            self.assertEqual([t["id"] for t in server.post("/tokenize", {"inputs": text, "parse_special": True}).json()], ids)
            self.assertEqual(server.stop(), 0)

    def test_special_tokens_of_answers(self):
        """report: openai_special_tokens_in_text"""
        more = {"logit_bias": {str(EOS): 100}, "ignore_eos": True, "max_tokens": 3, "temperature": 0}
        for path, ask in [("/v1/completions", {"prompt": KING}), ("/v1/chat/completions", {"messages": [MESSAGE]})]:
            for shown, field in [("", {}), ("", {"skip_special_tokens": True}), ("<|endoftext|>" * 3, {"skip_special_tokens": False})]:
                whole = self.server.post(path, ask | more | field).json()["choices"][0]
                self.assertEqual(whole.get("text", whole.get("message", {}).get("content")), shown)
                chunks = self.openai_stream(path, ask | more | field)
                pieces = [c["choices"][0].get("text") or c["choices"][0].get("delta", {}).get("content") or "" for c in chunks]
                self.assertEqual("".join(pieces), shown)
        lorax = {"logit_bias": {str(EOS): 100}, "ignore_eos_token": True, "max_new_tokens": 3}
        self.assertEqual(self.generate(**lorax)["generated_text"], "")
        self.assertEqual(self.generate(skip_special_tokens=False, **lorax)["generated_text"], "<|endoftext|>" * 3)
        self.assertEqual(self.generate_stream(skip_special_tokens=False, **lorax)[-1]["generated_text"], "<|endoftext|>" * 3)
        # A prompt of ids, echoed before the answer, and its tokens.
        choice = self.complete([EOS, 500, 501], echo=True, logprobs=0, max_tokens=2, temperature=0)["choices"][0]
        self.assertNotIn("<|endoftext|>", choice["text"])
        self.assertEqual("".join(choice["logprobs"]["tokens"]), choice["text"])
        choice = self.complete("<|endoftext|>The king", echo=True, logprobs=0, max_tokens=2, temperature=0)["choices"][0]
        self.assertTrue(choice["text"].startswith("<|endoftext|>The king"))
        self.assertEqual("".join(choice["logprobs"]["tokens"]), choice["text"])

    def test_fields_that_show_more(self):
        plain = self.complete(temperature=0, max_tokens=4)["choices"][0]["text"]
        prompt = [t["id"] for t in self.server.post("/tokenize", {"inputs": KING}).json()]
        choice = self.complete(temperature=0, max_tokens=4, return_token_ids=True, prompt_logprobs=2)["choices"][0]
        self.assertEqual((choice["text"], choice["prompt_token_ids"], len(choice["token_ids"])), (plain, prompt, 4))
        listed = choice["prompt_logprobs"]
        self.assertIsNone(listed[0])
        self.assertEqual(len(listed), len(prompt))
        prefill = self.generate(max_new_tokens=1, decoder_input_details=True)["details"]["prefill"]
        for token, entry, own in zip(prompt[1:], listed[1:], prefill[1:]):
            self.assertEqual(entry[str(token)]["logprob"], own["logprob"])
            ranks = sorted(e["rank"] for e in entry.values())
            self.assertEqual(ranks[:2], [1, 2])
            self.assertTrue(len(entry) == 2 and entry[str(token)]["rank"] <= 2 or len(entry) == 3 and entry[str(token)]["rank"] > 2)
            self.assertEqual(set(entry[str(token)]), {"logprob", "rank", "decoded_token"})
        chunks = self.openai_stream("/v1/completions", {"prompt": KING, "temperature": 0, "max_tokens": 4, "return_token_ids": True})
        self.assertEqual(chunks[0]["choices"][0]["prompt_token_ids"], prompt)
        self.assertEqual([i for c in chunks for i in c["choices"][0].get("token_ids", [])], choice["token_ids"])
        chat = self.chat(temperature=0, max_tokens=4, return_token_ids=True, prompt_logprobs=0)
        self.assertEqual(len(chat["prompt_logprobs"]), len(chat["prompt_token_ids"]))
        chunks = self.openai_stream("/v1/chat/completions", {"messages": [MESSAGE], "temperature": 0, "max_tokens": 4, "return_token_ids": True})
        self.assertEqual(chunks[0]["prompt_token_ids"], chat["prompt_token_ids"])
        self.assertEqual([i for c in chunks for i in c["choices"][0].get("token_ids", [])], chat["choices"][0]["token_ids"])
        # LoRAX's conversations in `inputs` match those of the chat route.
        asked = {"inputs": json.dumps([MESSAGE]), "parameters": {"apply_chat_template": True, "max_new_tokens": 4, "decoder_input_details": True}}
        lorax = self.server.post("/generate", asked).json()
        self.assertEqual([t["id"] for t in lorax["details"]["prefill"]], chat["prompt_token_ids"])
        self.assertEqual(lorax["generated_text"], chat["choices"][0]["message"]["content"])
        # TGI's alternatives, whole and streamed.
        details = self.generate(max_new_tokens=3, details=True, top_n_tokens=2)["details"]
        self.assertEqual([[t["id"] for t in top][0] for top in details["top_tokens"]], [t["id"] for t in details["tokens"]])
        self.assertEqual({len(top) for top in details["top_tokens"]}, {2})
        self.assertEqual([e["top_tokens"] for e in self.generate_stream(max_new_tokens=3, top_n_tokens=2)], details["top_tokens"])

    def test_only_the_prompt(self):
        for more in [{}, {"logprobs": 1}]:
            answer = self.complete(max_tokens=0, echo=True, n=2, **more)
            self.assertEqual([c["text"] for c in answer["choices"]], [KING] * 2)
            self.assertEqual((answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]), (0, "length"))
        longer = self.complete(max_tokens=1, temperature=0, echo=True, logprobs=1)["choices"][0]["logprobs"]
        for choice in answer["choices"]:
            self.assertEqual(choice["logprobs"]["token_logprobs"], longer["token_logprobs"][:-1])
        chunks = self.openai_stream("/v1/completions", {"prompt": KING, "max_tokens": 0, "echo": True})
        self.assertEqual("".join(c["choices"][0]["text"] for c in chunks), KING)
        self.refused_openai("/v1/completions", {"prompt": KING, "max_tokens": 0}, 400, "invalid_request_error", "max_tokens")

    def test_adapters_by_number(self):
        with Server("--preload-adapters", "weather,shakespeare", "--model", str(MODEL)) as server:
            listed = server.get("/lora-adapters").json()
            self.assertEqual([(a["id"], a["path"]) for a in listed], [(0, "weather"), (1, "shakespeare")])
            for number, name in [(0, "weather"), (1, "shakespeare")]:
                one = server.post("/v1/completions", {"prompt": KING, "temperature": 0, "lora": [{"id": number, "scale": 1.0}]}).json()
                other = server.post("/v1/completions", {"prompt": KING, "temperature": 0, "model": name}).json()
                self.assertEqual(one["choices"], other["choices"])
            answer = server.post("/v1/completions", {"prompt": KING, "lora": [{"id": 2, "scale": 1.0}]})
            self.assertEqual(answer.status, 400)
            self.assertIn("/lora-adapters", answer.json()["error"]["message"])
            # An adapter keeps its number when others are loaded.
            server.post("/generate", {"inputs": KING, "parameters": {"max_new_tokens": 1, "adapter_id": "characters"}})
            self.assertEqual([(a["id"], a["path"]) for a in server.get("/lora-adapters").json()],
                             [(0, "weather"), (1, "shakespeare"), (2, "characters")])
            self.assertEqual(server.stop(), 0)

    def test_names_of_the_base_model(self):
        """report: hf_inference_client_chat_404"""
        with Server("--chat-template", "plain", "--served-model-name", "one,two", "--served-model-name", "org/three") as server:
            body = {"messages": [MESSAGE], "temperature": 0, "max_tokens": 4}
            plain = server.post("/v1/chat/completions", body).json()
            self.assertEqual(plain["model"], "one")
            for name in ["tgi", "dummy", "one", "two", "org/three"]:
                answer = server.post("/v1/chat/completions", body | {"model": name})
                self.assertEqual(answer.status, 200, answer)
                self.assertEqual(answer.json()["choices"], plain["choices"])
                self.assertEqual(server.get("/v1/models/" + name).status, 200)
            self.assertEqual([m["id"] for m in server.get("/v1/models").json()["data"]][:3], ["one", "two", "org/three"])
            self.assertEqual(server.post("/v1/chat/completions", body | {"model": "nobody"}).status, 404)
            self.assertEqual(server.stop(), 0)
        with tempfile.TemporaryDirectory() as root:  # an adapter of that name has precedence
            shutil.copytree(ADAPTERS / "weather", os.path.join(root, "dummy"))
            with Server("--adapter-root", root) as server:
                said = [server.post("/v1/completions", {"prompt": KING, "temperature": 0, "model": m}).json()["choices"] for m in ["dummy", "tgi"]]
                self.assertNotEqual(*said)
                self.assertEqual(server.stop(), 0)

    def test_lenient(self):
        with Server("--lenient", "--chat-template", "plain") as server:
            plain = essence(server.post("/v1/completions", {"prompt": KING, "temperature": 0}).json())
            answer = server.post("/v1/completions", {"prompt": KING, "temperature": 0, "no_such": 1, "an,other": [2]})
            self.assertEqual(answer.status, 200, answer)
            self.assertEqual(essence(answer.json()), plain)
            self.assertEqual(answer.headers["x-ignored-fields"], "..., no_such")
            answer = server.post("/generate", {"inputs": KING, "parameters": {"max_new_tokens": 2, "nested": {"a": 1}}})
            self.assertEqual((answer.status, answer.headers["x-ignored-fields"]), (200, "nested"))
            answer = server.post("/v1/chat/completions", {"messages": [MESSAGE | {"mood": "glad"}], "max_tokens": 2})
            self.assertEqual((answer.status, answer.headers["x-ignored-fields"]), (200, "messages[0].mood"))
            answer = server.post("/tokenize", {"inputs": KING, "mood": 1})
            self.assertEqual((answer.status, answer.headers["x-ignored-fields"]), (200, "mood"))
            self.assertNotIn("x-ignored-fields", server.post("/tokenize", {"inputs": KING}).headers)
            self.assertEqual(server.metric("tenon_ignored_fields_total"), 5)
            # Known fields are unaffected.
            answer = server.post("/v1/completions", {"prompt": KING, "no_repeat_ngram_size": 2})
            self.assertEqual(answer.status, 400)
            self.assertEqual(server.stop(), 0)


class EndOfTurn(ServerTest):
    """The end of a turn is the end of text, as in many chat models."""
    FLAGS = ["--chat-template", "chatml"]

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        model_with_begin(pathlib.Path(folder.name), "<|im_end|>")
        cls.FLAGS = cls.FLAGS + ["--model", folder.name]
        super().setUpClass()

    def test_it_is_ignored_where_that_is_asked_for(self):
        body = {"messages": [MESSAGE], "logit_bias": {str(EOS): 100}, "max_tokens": 3, "temperature": 0}
        for ignores, tokens, reason in [(False, 1, "stop"), (True, 3, "length")]:
            answer = self.server.post("/v1/chat/completions", body | {"ignore_eos": ignores}).json()
            self.assertEqual((answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]), (tokens, reason), answer)
            lorax = {"apply_chat_template": True, "logit_bias": {str(EOS): 100}, "max_new_tokens": 3, "details": True,
                     "ignore_eos_token": ignores}
            answer = self.server.post("/generate", {"inputs": json.dumps([MESSAGE]), "parameters": lorax}).json()
            self.assertEqual(answer["details"]["generated_tokens"], tokens, answer)


if __name__ == "__main__":
    serving.main()
