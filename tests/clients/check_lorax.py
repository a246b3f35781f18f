"""lorax-client: texts and streams, adapters from "local" and "hub", schemas, errors, and its asynchronous client."""
import cases  # first: it sets variables that the libraries below read

import asyncio

from lorax import AsyncClient, Client
from lorax.errors import GenerationError, ValidationError
from lorax.types import FinishReason, MergedAdapters

import serving
from cases import ADAPTER, HUB_ADAPTER, PERSON, PROMPT, case, differs, equal, holds, is_person, raises


def client():
    return Client(cases.tenon.url)


def generate(**more):
    return client().generate(PROMPT, **{"max_new_tokens": 16, **more})


def text_of(events):
    return "".join(e.token.text for e in events if not e.token.special)


@case
def text_equals_the_reference():
    answer = generate()
    equal(answer.generated_text, cases.tenon.completion())
    equal(answer.details.generated_tokens, 16)
    equal(answer.details.finish_reason, FinishReason.Length)


@case
def stream_concatenates():
    events = list(client().generate_stream(PROMPT, max_new_tokens=16))
    equal(text_of(events), cases.tenon.completion())
    equal(events[-1].generated_text, cases.tenon.completion())


@case
def adapter_changes_the_text():
    text = generate(adapter_id=ADAPTER).generated_text
    equal(text, cases.tenon.completion(model=ADAPTER))
    differs(text, cases.tenon.completion())


@case
def adapter_from_local():
    equal(generate(adapter_id=ADAPTER, adapter_source="local").generated_text, cases.tenon.completion(model=ADAPTER))


@case
def adapter_from_hub_is_a_folder_below_the_root():
    equal(generate(adapter_id=HUB_ADAPTER, adapter_source="hub").generated_text, cases.tenon.completion(model=ADAPTER))
    equal(generate(adapter_id=ADAPTER, adapter_source="hub").generated_text, cases.tenon.completion(model=ADAPTER))


@case
def adapter_of_two_parts_without_a_source():
    equal(generate(adapter_id=HUB_ADAPTER).generated_text, cases.tenon.completion(model=ADAPTER))


@case
def stream_of_an_adapter_from_hub():
    events = list(client().generate_stream(PROMPT, max_new_tokens=16, adapter_id=HUB_ADAPTER, adapter_source="hub"))
    equal(text_of(events), cases.tenon.completion(model=ADAPTER))


@case
def adapters_in_a_hub_cache():
    for name, theirs in zip(cases.tenon.cached, serving.NAMES):
        equal(generate(adapter_id=name, adapter_source="hub").generated_text, cases.tenon.completion(model=theirs))
    raises(GenerationError, lambda: generate(adapter_id=cases.tenon.cached[0], adapter_source="local"), cases.tenon.cached[0])


@case
def cells_of_a_notebook():
    holds(cases.example().notebook(client(), cases.tenon.cached, serving.NAMES), "the cells of examples/13_serving.py fail")


@case
def merged_adapters_with_one_weight_zero():
    merged = MergedAdapters(ids=[ADAPTER, "shakespeare"], weights=[1.0, 0.0], merge_strategy="linear", density=1.0)
    equal(generate(merged_adapters=merged).generated_text, cases.tenon.completion(model=ADAPTER))


@case
def stop_sequence_ends_the_text():
    text, word = cases.tenon.stop_word()
    answer = generate(stop_sequences=[word])
    equal(answer.generated_text, text[:text.index(word) + len(word)])
    equal(answer.details.finish_reason, FinishReason.StopSequence)


@case
def seed_repeats_a_sample():
    one = generate(do_sample=True, seed=7)
    equal(generate(do_sample=True, seed=7).generated_text, one.generated_text)
    equal(one.details.seed, 7)
    holds(len({generate(do_sample=True, seed=s).generated_text for s in range(7, 12)}) > 1, "five seeds gave one text")


@case
def token_details_and_alternatives():
    answer = generate(max_new_tokens=4, return_k_alternatives=3, decoder_input_details=True)
    equal(len(answer.details.prefill), answer.details.prompt_tokens)
    for token in answer.details.tokens:
        holds(len(token.alternative_tokens) >= 3, "fewer than three alternatives")
        equal(token.logprob, max(a.logprob for a in token.alternative_tokens), "log-probability of a greedy token")


@case
def truncate_keeps_the_last_tokens():
    prompt = "A long beginning. " + PROMPT
    last = [t["id"] for t in cases.tenon.ok("/tokenize", {"inputs": prompt})][-3:]
    got = client().generate(prompt, max_new_tokens=16, truncate=3).generated_text
    equal(got, cases.tenon.completion(last))
    differs(got, cases.tenon.completion(prompt))


@case
def full_text_begins_with_the_prompt():
    equal(generate(return_full_text=True).generated_text, PROMPT + cases.tenon.completion())


@case
def schema_by_response_format():
    is_person(generate(max_new_tokens=100, response_format={"type": "json_object", "schema": PERSON}).generated_text)


@case
def unknown_adapter_is_a_generation_error():
    raises(GenerationError, lambda: generate(adapter_id="no-such-adapter"), "no-such-adapter")
    raises(GenerationError, lambda: generate(adapter_id="acme/no-such-adapter", adapter_source="hub"), "no-such-adapter")
    raises(GenerationError, lambda: list(client().generate_stream(PROMPT, adapter_id="no-such-adapter")), "no-such-adapter")


@case
def sources_elsewhere_are_refused_by_name():
    raises(ValidationError, lambda: generate(adapter_id=ADAPTER, adapter_source="s3"), "adapter_source")


@case
def wrong_values_are_validation_errors():
    raises(ValidationError, lambda: generate(max_new_tokens=100000), "max_new_tokens")
    raises(ValidationError, lambda: client().generate(PROMPT, stop_sequences=["x%d" % i for i in range(99)]), "stop")


@case
def embeddings_are_made():
    embeddings = client().embed(PROMPT).embeddings
    equal(len(embeddings), 256)
    differs(embeddings, client().embed("Rain").embeddings, "embeddings")


@case
def a_model_without_a_head_gives_no_classes():
    raises(ValidationError, lambda: client().classify(PROMPT), "ForSequenceClassification")


@case
async def asynchronous_streams_side_by_side():
    async def one(**adapter):
        stream = AsyncClient(cases.tenon.url).generate_stream(PROMPT, max_new_tokens=16, **adapter)
        return text_of([event async for event in stream])

    got = await asyncio.gather(one(), one(adapter_id=ADAPTER), one(adapter_id=HUB_ADAPTER, adapter_source="hub"))
    equal(got, [cases.tenon.completion(), cases.tenon.completion(model=ADAPTER), cases.tenon.completion(model=ADAPTER)])


@case
def closed_stream_frees_its_slot():
    before = cases.tenon.dropped()
    c = client()
    stream = c.generate_stream(PROMPT, max_new_tokens=900, ignore_eos_token=True)
    next(stream)
    stream.close()
    c.session.close()
    cases.tenon.was_dropped(before)


if __name__ == "__main__":
    cases.main("lorax-client")
