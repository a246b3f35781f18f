"""The answers of transformers for scripts/config-conformance. Needs torch and transformers 4.57.6."""
import json
import logging
import os
import tempfile
import warnings

for name, value in {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "critical"}.items():
    os.environ.setdefault(name, value)
import torch
import transformers
from config_models import COLUMNS, NEW_TOKENS, PROMPTS, TOLERANCE, folded, write_model

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
transformers.logging.set_verbosity(50)
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)

VERSIONS = {"torch": torch.__version__, "transformers": transformers.__version__}
MOST_WEIGHTS = 4_000_000
MARGIN = 10 * TOLERANCE  # of the best token over the second, in largest logits


class Failure(Exception):
    """transformers cannot serve a configuration."""


def attempt(stage, call):
    try:
        return call()
    except Exception as error:  # any class: each is a way in which transformers refuses
        text = str(error).strip().split("\n")[0]
        raise Failure(f"{stage}: {type(error).__name__}: {text}"[:200]) from error


def tensors_of(config, fallback=None):
    """[[name, shape]] of the file of weights, folded: all parameters, without those that are tied to others.

    Where transformers fails, they are those of the configuration `fallback`, if there is one.
    """
    try:
        return folded(parameters(config))
    except Failure:
        if not fallback:
            raise
        return folded(parameters(fallback))


def parameters(config):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        parsed = attempt("config", lambda: transformers.AutoConfig.from_pretrained(folder))
    # The module of the class has to be imported before: imports fail while "meta" is the default device.
    attempt("class", lambda: auto_class(config)._model_mapping[type(parsed)])
    with torch.device("meta"), transformers.modeling_utils.no_init_weights():
        model = attempt("model", lambda: auto_class(config).from_config(parsed))
        attempt("model", model.tie_weights)
    tensors = [[name, list(parameter.shape)] for name, parameter in model.named_parameters()]
    if sum(parameter.numel() for parameter in model.parameters()) > MOST_WEIGHTS:
        raise Failure("too large for this test")
    return tensors


def auto_class(config):
    return transformers.AutoModelForImageTextToText if "vision_config" in config else transformers.AutoModelForCausalLM


def attention_of(config):
    """eager, except for Falcon with ALiBi (docs/decisions/0026)."""
    return "sdpa" if config["model_type"] == "falcon" and config.get("alibi") else "eager"


def load(folder, config):
    model, info = attempt("load", lambda: auto_class(config).from_pretrained(
        folder, attn_implementation=attention_of(config), dtype=torch.float32, output_loading_info=True))
    if info["missing_keys"] or info["unexpected_keys"] or info["mismatched_keys"]:
        raise AssertionError(f"the tensors are not the model's: {info}")
    settings = dict(eos_token_id=None, pad_token_id=0, do_sample=False, cache_implementation=None)
    for key, value in settings.items():
        setattr(model.generation_config, key, value)
    return model.eval()


def forget_longest_text(model):
    """Dynamic rotary positions remember the longest text so far."""
    for module in model.modules():
        if hasattr(module, "original_inv_freq") and hasattr(module, "max_seq_len_cached"):
            module.register_buffer("inv_freq", module.original_inv_freq, persistent=False)
            module.max_seq_len_cached = module.original_max_seq_len


def answers(config, tensors, seed):
    """(logits, greedy) as in a case, and the smallest margin of a choice in largest logits."""
    logits, greedy, margin = [], [], float("inf")
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        write_model(folder, config, tensors, seed)
        model = load(folder, config)
        for prompt in PROMPTS:
            ids = torch.tensor([prompt["input_ids"]])
            forget_longest_text(model)
            rows = attempt("forward", lambda: model(ids, attention_mask=torch.ones_like(ids)).logits[0])
            forget_longest_text(model)
            out = attempt("generate", lambda: model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False,
                output_logits=True, return_dict_in_generate=True))
            steps = torch.stack(out.logits)[:, 0]
            if not (rows.isfinite().all() and steps.isfinite().all()):
                raise Failure("logits are not finite")
            best = steps.topk(2).values
            margin = min(margin, ((best[:, 0] - best[:, 1]) / steps.abs().amax(-1)).min().item())
            logits.append([[float(f"{v:.7g}") for v in rows[at][:COLUMNS].tolist()] for at in prompt["logits_at"]])
            greedy.append(out.sequences[0, ids.shape[1]:].tolist())
    return logits, greedy, margin


def expected(config, most_seeds=40):
    """The members tensors (folded), seed, logits and greedy of a case. Raises Failure where transformers fails."""
    tensors = tensors_of(config)
    for seed in range(most_seeds):
        logits, greedy, margin = answers(config, tensors, seed)
        if margin > MARGIN:
            return {"tensors": tensors, "seed": seed, "logits": logits, "greedy": greedy}
    raise AssertionError(f"no seed up to {most_seeds} keeps the best two tokens apart: {config}")
