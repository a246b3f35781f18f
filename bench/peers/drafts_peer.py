"""Guesses of a peer from its own text.

    bench_drafts MODEL.gguf --prompts | python bench/peers/drafts_peer.py transformers|llama.cpp MODEL.gguf THREADS ROUNDS > rows

Prompts are JSON lines {"task", "ids", "tokens", "eos"}. For each, a JSON line: seconds a token of the whole answer without guesses and with
them, medians of ROUNDS in turns, and whether the answer is the same. Greedy, up to the end of text. transformers computes in float32;
llama.cpp computes with the file's own weights: bench/peers/gguf_in_float32.py makes a file in float32.
"""
import json
import statistics
import sys
import time

PEER, MODEL, THREADS, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
MOST_GUESSES = 10  # what both peers' documents show


def transformers_runs():
    import pathlib

    import torch
    from transformers import AutoModelForCausalLM
    torch.set_num_threads(THREADS)
    path = pathlib.Path(MODEL)
    model = AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, dtype=torch.float32).eval()

    @torch.no_grad()
    def run(ids, tokens, eos, guesses):
        lookup = {"prompt_lookup_num_tokens": MOST_GUESSES} if guesses else {}
        x = torch.tensor([ids])
        out = model.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=tokens, do_sample=False, pad_token_id=0,
                             eos_token_id=eos, **lookup)
        return out[0, len(ids):].tolist()
    return run


def llamacpp_runs():
    import llama_cpp
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    def made(guesses):
        lookup = {"draft_model": LlamaPromptLookupDecoding(num_pred_tokens=MOST_GUESSES)} if guesses else {}
        return llama_cpp.Llama(MODEL, n_ctx=2048, n_threads=THREADS, n_threads_batch=THREADS, logits_all=True, verbose=False, **lookup)
    models = {guesses: made(guesses) for guesses in (False, True)}

    def run(ids, tokens, eos, guesses):
        models[guesses].reset()
        answer = []
        for token in models[guesses].generate(ids, temp=0, reset=True):
            answer.append(token)
            if len(answer) == tokens or token in eos:
                return answer
    return run


def main():
    run = transformers_runs() if PEER == "transformers" else llamacpp_runs()
    for line in sys.stdin:
        prompt = json.loads(line)
        seconds, answers = {False: [], True: []}, {}
        for _ in range(ROUNDS):
            for guesses in (False, True):
                begin = time.perf_counter()
                answers[guesses] = run(prompt["ids"], prompt["tokens"], prompt["eos"], guesses)
                seconds[guesses].append((time.perf_counter() - begin) / len(answers[guesses]))
        none, lookup = (1 / statistics.median(seconds[guesses]) for guesses in (False, True))
        print(json.dumps({"peer": PEER, "task": prompt["task"], "none_tok_s": round(none, 2), "guesses_tok_s": round(lookup, 2),
                          "ratio": round(lookup / none, 3), "same": answers[False] == answers[True]}), flush=True)


if __name__ == "__main__":
    main()
