"""Experiment 36: the same score to the last digit. lm-eval from PyPI runs the tasks of examples/evaluation through tenon-serve.

It uses batches of 1, 8, 32 and 128: prompts of one request (batch_size), and requests side by side (num_concurrent). Every
log-likelihood and every text must be equal. With --transformers it runs lm-eval's own `hf` model on the same weights in float32, too.
It shows how far its batch sizes are apart, and how far it is from tenon.

    python3 -m venv VENV && VENV/bin/pip install 'lm_eval[api]==0.4.13' transformers       (for --transformers: torch accelerate)
    VENV/bin/python examples/36_evaluate.py [SERVER] [--model PATH] [--sizes 1,8,32,128] [--transformers [1,32]] [--json FILE]

PATH is a folder or a .gguf file (default: the default model). Exit status 1 if anything differs between the batches of tenon, 77
without lm-eval.
"""
import argparse
import contextlib
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
TASKS = ["tenon_choices", "tenon_texts", "tenon_answers"]
DATA = ROOT / "examples" / "evaluation"


@contextlib.contextmanager
def served(program, model, batch):
    """The address of a server, which is stopped at the end."""
    command = [program, "--port=0", "--model", model, "--weights", "float32", "--batch", batch,
               "--max-concurrent-requests", 2 * batch, "--no-log-requests"]
    with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as server:
        try:
            said = ""
            for line in server.stderr:
                said = line
                if "listening on" in line:
                    break
            else:
                raise SystemExit("the server does not start: " + said)
            yield said.split()[-1]
        finally:
            server.terminate()


def tokenizer_folder(model, place):
    """A folder that transformers reads a tokenizer from."""
    if model.is_dir():
        return model
    import transformers
    transformers.AutoTokenizer.from_pretrained(str(model.parent), gguf_file=model.name).save_pretrained(place)
    return pathlib.Path(place)


def evaluate(name, arguments, batch):
    """{"seconds", "metrics": {task and metric: number}, "answers": {task: all that the model answered, in order}}"""
    import lm_eval
    import lm_eval.tasks
    tasks = lm_eval.tasks.TaskManager(include_path=str(DATA), include_defaults=False)
    begin = time.perf_counter()
    found = lm_eval.simple_evaluate(model=name, model_args=arguments, tasks=TASKS, task_manager=tasks, batch_size=batch, bootstrap_iters=0,
                                    log_samples=True)
    metrics = {"%s %s" % (task, metric.split(",")[0]): float(value) for task in TASKS for metric, value in found["results"][task].items()
               if isinstance(value, float) and "stderr" not in metric}
    answers = {task: [sample["resps"] for sample in sorted(found["samples"][task], key=lambda s: s["doc_id"])] for task in TASKS}
    return {"seconds": time.perf_counter() - begin, "metrics": metrics, "answers": json.loads(json.dumps(answers))}


def flat(value):
    return [each for part in value for each in flat(part)] if isinstance(value, list) else [value]


def likelihoods(found):
    return [each for task in TASKS for each in flat(found["answers"][task]) if isinstance(each, float)]


def texts(found):
    return [each for task in TASKS for each in flat(found["answers"][task]) if isinstance(each, str)]


def asked():
    """Numbers of log-likelihoods and of texts that the tasks' files ask for."""
    rows = {name: [json.loads(line) for line in (DATA / (name + ".jsonl")).read_text().splitlines()] for name in ("choices", "texts", "answers")}
    return sum(len(row["choices"]) for row in rows["choices"]) + len(rows["texts"]), len(rows["answers"])


def check_counts(name, found):
    """Exits if an evaluation has too few or too many answers: two that are empty would be equal."""
    if (counts := (len(likelihoods(found)), len(texts(found)))) != asked():
        raise SystemExit("%s: %d log-likelihoods and %d texts instead of %d and %d" % (name, *counts, *asked()))


def show(name, found, first):
    """Prints a line, and returns whether all log-likelihoods and texts are equal to those of `first`."""
    same = found["answers"] == first["answers"]
    digits = "  ".join(repr(value) for value in found["metrics"].values())
    apart = [abs(a - b) for a, b in zip(likelihoods(found), likelihoods(first)) if a != b]
    others = sum(a != b for a, b in zip(texts(found), texts(first)))
    difference = "equal" if same else "%d of %d log-likelihoods differ, by up to %.2g; %d of %d texts" % (
        len(apart), len(likelihoods(found)), max(apart, default=0), others, len(texts(found)))
    print("%-24s %6.1f s  %s\n    %s" % (name, found["seconds"], difference, digits), flush=True)
    return same


def through_the_server(wanted, place, sizes):
    """The evaluations by name: each size as prompts of one request, and as requests side by side."""
    found = {}
    with served(wanted.server, wanted.model, max(sizes)) as base:
        with urllib.request.urlopen(base + "/v1/models", timeout=60) as answer:
            model = json.load(answer)["data"][0]
        fixed = {"base_url": base + "/v1/completions", "model": model["id"], "tokenizer": str(tokenizer_folder(wanted.model, place)),
                 "tokenizer_backend": "huggingface", "max_length": min(2048, model["max_model_len"])}
        for size in sizes:
            for prompts, requests in [(size, 1), (1, size)][:1 if size == 1 else 2]:
                name = "tenon, %d prompts" % prompts if requests == 1 else "tenon, %d requests" % requests
                found[name] = evaluate("local-completions", {**fixed, "num_concurrent": requests}, prompts)
                check_counts(name, found[name])
                show(name, found[name], next(iter(found.values())))
    return found


def through_transformers(wanted, place, sizes, tenon):
    found = {}
    weights = {"pretrained": str(wanted.model)} if wanted.model.is_dir() else {
        "pretrained": str(wanted.model.parent), "gguf_file": wanted.model.name}
    for size in sizes:
        name = "transformers, batch %d" % size
        found[name] = evaluate("hf", {**weights, "tokenizer": str(tokenizer_folder(wanted.model, place)), "dtype": "float32", "device": "cpu"}, size)
        check_counts(name, found[name])
        show(name, found[name], next(iter(found.values())))
        show("  against tenon", found[name], tenon)
    return found


def integers(text):
    return [int(each) for each in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", nargs="?", default=ROOT / "build" / "tenon-serve")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "examples" / "models" / "tales")
    parser.add_argument("--sizes", type=integers, default=[1, 8, 32, 128])
    parser.add_argument("--transformers", type=integers, nargs="?", const=[1, 32], default=[])
    parser.add_argument("--json", type=pathlib.Path)
    wanted = parser.parse_args()
    wanted.model = wanted.model.resolve()
    server = pathlib.Path(wanted.server).resolve()
    wanted.server, wanted.json = server, wanted.json and wanted.json.resolve()
    os.chdir(ROOT)  # the tasks name their data from here
    with tempfile.TemporaryDirectory() as place:
        os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_DATASETS_CACHE=place + "/datasets", TQDM_DISABLE="1",
                          TOKENIZERS_PARALLELISM="false", LMEVAL_LOG_LEVEL="ERROR")
        try:
            import lm_eval
        except ImportError as error:
            print("skipped: %s" % error)
            return 77
        print("lm-eval %s, %s" % (importlib.metadata.version("lm_eval"), wanted.model.name))
        tenon = through_the_server(wanted, place + "/tokenizer", wanted.sizes)
        first = next(iter(tenon.values()))
        print("metrics: %s" % ", ".join(first["metrics"]))
        others = through_transformers(wanted, place + "/tokenizer", wanted.transformers, first)
    if wanted.json:
        wanted.json.write_text(json.dumps(tenon | others, indent=1))
    same = all(found["answers"] == first["answers"] and found["metrics"] == first["metrics"] for found in tenon.values())
    print("%d evaluations by tenon, %d log-likelihoods and %d texts each: %s" % (
        len(tenon), len(likelihoods(first)), len(texts(first)), "equal to the last digit" if same else "THEY DIFFER"))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
