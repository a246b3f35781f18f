"""lm-eval's local-completions model: log-likelihoods, rolling ones, generation, and a small task from end to end."""
import cases  # first: it sets variables that the libraries below read

import importlib.util
import json
import logging
import os
import pathlib
import tempfile

DATASETS = tempfile.TemporaryDirectory(prefix="tenon-datasets-")
os.environ.update(HF_DATASETS_CACHE=DATASETS.name, HF_HUB_OFFLINE="1")

import lm_eval
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask
from lm_eval.models.openai_completions import LocalCompletionsAPI

import serving
from cases import ADAPTER, MODEL, PROMPT, case, differs, equal, holds

ARGUMENTS = {"model": MODEL, "tokenizer": str(serving.ROOT / "examples" / "models" / "tales"), "tokenizer_backend": "huggingface",
             "max_length": 1024, "max_retries": 1}


def model(name=MODEL, **more):
    return LocalCompletionsAPI(**{"base_url": cases.tenon.v1 + "/completions", **ARGUMENTS, "model": name, **more})


def request(kind, *arguments):
    return [Instance(request_type=kind, doc={}, arguments=a, idx=i) for i, a in enumerate(arguments)]


def likelihoods(pairs, name=MODEL, **more):
    return model(name, **more).loglikelihood(request("loglikelihood", *pairs), disable_tqdm=True)


def continuation(name=MODEL):
    """(greedy text, sum of the log-probabilities of its tokens), from one plain request."""
    body = {"model": name, "prompt": PROMPT, "max_tokens": 8, "temperature": 0, "logprobs": 1}
    choice = cases.tenon.ok("/v1/completions", body)["choices"][0]
    return choice["text"], sum(choice["logprobs"]["token_logprobs"])


def near(got, wanted):
    holds(abs(got - wanted) <= 1e-4 * max(1, abs(wanted)), "log-likelihood: got %r, wanted %r" % (got, wanted))


@case
def loglikelihood_of_the_greedy_text():
    text, wanted = continuation()
    (got, greedy), = likelihoods([(PROMPT, text)])
    near(got, wanted)
    equal(greedy, True)


@case
def loglikelihood_of_another_text_is_lower():
    text, _ = continuation()
    one, other = likelihoods([(PROMPT, text), (PROMPT, " zebra zebra zebra")])
    holds(one[0] > other[0] and not other[1], "%s, %s" % (one, other))


@case
def loglikelihoods_in_a_batch_equal_those_alone():
    pairs = [(PROMPT, " the king"), ("Once upon a time", " there was"), (PROMPT, " rain")]
    together = likelihoods(pairs, batch_size=3)
    equal(together, [likelihoods([p])[0] for p in pairs])


@case
def loglikelihoods_side_by_side():
    pairs = [(PROMPT, " the king"), ("Once upon a time", " there was"), (PROMPT, " rain")]
    equal(likelihoods(pairs, num_concurrent=3), likelihoods(pairs))


@case
def loglikelihood_under_an_adapter():
    text, wanted = continuation(ADAPTER)
    (got, greedy), = likelihoods([(PROMPT, text)], ADAPTER)
    near(got, wanted)
    equal(greedy, True)
    differs(likelihoods([(PROMPT, text)])[0][0], got, "log-likelihoods")


@case
def loglikelihoods_of_texts_equal_those_of_ids():
    pairs = [(PROMPT, " the king"), ("Once upon a time", " there was"), (PROMPT, " rain")]
    ids = likelihoods(pairs)
    equal(likelihoods(pairs, tokenized_requests=False), ids)
    equal(likelihoods(pairs, tokenized_requests=False, batch_size=3), ids)


@case
def loglikelihood_before_the_end_of_the_text():
    """The model ends the text after the continuation. The end is one more token, and lm-eval leaves it out."""
    body = {"model": ADAPTER, "prompt": "The end", "max_tokens": 400, "temperature": 0, "logprobs": 1}
    choice = cases.tenon.ok("/v1/completions", body)["choices"][0]
    equal(choice["finish_reason"], "stop")
    values = choice["logprobs"]["token_logprobs"][:-1]
    equal(len(model().tok_encode(choice["text"])), len(values), "tokens")
    (got, greedy), = likelihoods([("The end", choice["text"])], ADAPTER)
    near(got, sum(values))
    equal(greedy, True)


@case
def rolling_loglikelihood():
    """The text after the end-of-text token, as lm-eval defines it."""
    text = PROMPT + continuation()[0]
    got, = model().loglikelihood_rolling(request("loglikelihood_rolling", (text,)), disable_tqdm=True)
    tokenizer = model().tokenizer
    body = {"prompt": [tokenizer.eos_token_id] + tokenizer.encode(text), "max_tokens": 1, "temperature": 0, "logprobs": 0, "echo": True}
    found = cases.tenon.ok("/v1/completions", body)["choices"][0]["logprobs"]["token_logprobs"]
    near(got, sum(found[1:-1]))


@case
def generation_until_a_word():
    whole, word = cases.tenon.stop_word()
    arguments = (PROMPT, {"until": [word], "max_gen_toks": 16, "do_sample": False})
    equal(model().generate_until(request("generate_until", arguments), disable_tqdm=True), [whole[:whole.index(word)]])


@case
def generation_from_texts_without_a_tokenizer():
    arguments = (PROMPT, {"until": ["@@"], "max_gen_toks": 16})
    got = model(tokenizer=None, tokenizer_backend="None").generate_until(request("generate_until", arguments), disable_tqdm=True)
    equal(got, [cases.tenon.completion()])


@case
def tokenizer_backend_is_found():
    """`auto` tries routes that the server does not have, and falls back to transformers' tokenizer."""
    (got, _), = likelihoods([(PROMPT, continuation()[0])], tokenizer_backend="auto")
    near(got, continuation()[1])


@case
def task_from_end_to_end():
    """Two questions whose right answer is the model's own greedy word: accuracy 1."""
    with tempfile.TemporaryDirectory() as folder:
        prompts = [PROMPT, "Once upon a time"]
        rows = [{"query": p, "choices": [cases.tenon.completion(p, 3), " zebra zebra"], "gold": 0} for p in prompts]
        data = pathlib.Path(folder, "rows.jsonl")
        data.write_text("".join(json.dumps(r) + "\n" for r in rows))
        task = ConfigurableTask(config={
            "task": "own", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(data)}, "cache_dir": folder},
            "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "{{query}}", "doc_to_choice": "{{choices}}",
            "doc_to_target": "gold", "target_delimiter": "", "metric_list": [{"metric": "acc"}], "num_fewshot": 0})
        found = lm_eval.simple_evaluate(model=model(), tasks=[task], bootstrap_iters=0, verbosity="ERROR")
    equal(found["results"]["own"]["acc,none"], 1.0, "accuracy")


@case
def committed_tasks_give_the_same_digits_at_every_batch_size():
    """Tasks of examples/evaluation, by the code of the example."""
    path = serving.ROOT / "examples" / "36_evaluate.py"
    spec = importlib.util.spec_from_file_location("evaluate_example", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    place = pathlib.Path.cwd()
    os.chdir(serving.ROOT)  # the tasks name their data from there
    try:
        found = [example.evaluate("local-completions", {**ARGUMENTS, "base_url": cases.tenon.v1 + "/completions", "num_concurrent": requests}, prompts)
                 for prompts, requests in [(1, 1), (32, 1), (1, 8)]]
    finally:
        os.chdir(place)
    holds(len(example.likelihoods(found[0])) >= 160 and len(example.texts(found[0])) == 24, "the tasks have too few answers")
    for other in found[1:]:
        equal(other["answers"], found[0]["answers"], "answers")
        equal(other["metrics"], found[0]["metrics"], "metrics")


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    cases.main("lm-eval", "transformers")
