// Snapshots: an answer that is moved after any step, through JSON, into an engine with another scheduler, cache and
// draft, has the events that it would have had.
#include <tenon/tenon.h>

#include <bit>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/constrain/constraints.h"
#include "tenon/engine/snapshot.h"
#include "tenon/io/fields.h"
#include "tenon/io/json.h"
#include "tenon/testing/random_adapter.h"
#include "tiny.h"

BOOST_AUTO_TEST_SUITE(engine_snapshot)

using namespace tenon;

namespace {

const std::string kTales = std::string(TENON_SOURCE_DIR) + "/examples/models/tales";

std::string bits(float value) { return std::to_string(std::bit_cast<std::uint32_t>(value)); }

// Everything of an event but what says how it came.
std::string text_of(const Event& e) {
  std::string text = std::to_string(static_cast<int>(e.kind)) + (e.final ? " final " : " ") + std::to_string(e.token) +
                     " '" + e.text + "' " + bits(e.logprob) + e.error;
  for (const TokenLogprob& each : e.top_logprobs) text += " " + std::to_string(each.id) + ":" + bits(each.logprob);
  if (e.kind != Event::Kind::finished) return text;
  text += std::string(" ") + to_string(e.reason);
  if (e.logits_hash) text += " hash " + std::to_string(*e.logits_hash);
  if (e.receipt) text += " receipt " + to_json(*e.receipt).dump();
  if (!e.scores) return text;
  text += " nll " + std::to_string(e.scores->nll_mean ? std::bit_cast<std::uint64_t>(*e.scores->nll_mean) : 0);
  for (const auto& [position, row] : e.scores->logits) {
    text += " at " + std::to_string(position);
    for (const float value : row) text += " " + bits(value);
  }
  for (const PromptLogprob& each : e.scores->prompt) {
    text += " " + bits(each.token.logprob) + "/" + std::to_string(each.rank);
    for (const TokenLogprob& top : each.top) text += "," + std::to_string(top.id) + ":" + bits(top.logprob);
  }
  return text;
}

// The events of a request, by choice.
using Trace = std::map<int, std::vector<std::string>>;

void add(Trace& trace, const Event& event) { trace[event.choice].push_back(text_of(event)); }

template <class E>
Trace undisturbed(E& engine, const Request& request) {
  Trace trace;
  engine.submit(request);
  while (!engine.idle())
    for (const Event& event : engine.step()) add(trace, event);
  return trace;
}

// The snapshot after it was written as text and read.
Snapshot through_text(const Snapshot& snapshot) {
  return snapshot_from(parse_json(to_json(snapshot).dump(), "snapshot"));
}

struct Moved {
  Trace before;                      // the events of the first engine, without the ends that say `moved`
  std::optional<Snapshot> snapshot;  // none: the request had ended
};

// Steps a request in a crowd, and takes it out after `steps` steps.
template <class E>
Moved moved(E& engine, const Request& request, const std::vector<Request>& others, int steps) {
  Moved out;
  for (const Request& each : others) engine.submit(each);
  const RequestId id = engine.submit(request);
  bool ended = false;
  const auto take = [&] {
    for (const Event& event : engine.step()) {
      if (event.request != id) continue;
      ended |= event.last;
      if (event.reason != FinishReason::moved || event.kind == Event::Kind::token) add(out.before, event);
    }
  };
  for (int i = 0; i < steps && !ended; ++i) take();
  if (!ended) {
    out.snapshot = through_text(engine.snapshot(id));
    engine.cancel(id, FinishReason::moved);
  }
  while (!engine.idle()) take();
  BOOST_TEST(ended);
  return out;
}

template <class E>
Trace restored(E& engine, const Snapshot& snapshot, const std::vector<Request>& others,
               const ConstraintMaker& make = {}, bool repeats = false) {
  Trace trace;
  for (const Request& each : others) engine.submit(each);
  Request request = request_of(snapshot, make);
  request.repeats_begun = repeats;
  const RequestId id = engine.submit(std::move(request));
  while (!engine.idle())
    for (const Event& event : engine.step())
      if (event.request == id) add(trace, event);
  return trace;
}

Trace joined(Trace a, const Trace& b) {
  for (const auto& [choice, events] : b) a[choice].insert(a[choice].end(), events.begin(), events.end());
  return a;
}

// Moves the request after every step from `from` to `to`.
template <class From, class To>
void check_moves(From& from, To& to, const Request& request, const std::vector<Request>& others, const Trace& expected,
                 const std::string& what, const ConstraintMaker& make = {}) {
  int moves = 0;
  for (int steps = 0;; ++steps, ++moves) {
    const Moved first = moved(from, request, others, steps);
    if (!first.snapshot) break;
    const std::uint64_t before = to.stats().tokens;
    const Trace rest = restored(to, *first.snapshot, {}, make);
    BOOST_TEST((joined(first.before, rest) == expected), what << " after step " << steps);
    std::size_t had = 0, whole = 0;  // nothing is computed twice
    for (const ChoiceProgress& each : first.snapshot->progress.choices) had += each.ids.size();
    if (request.options.best_of <= request.options.n) {
      for (const auto& [choice, events] : expected) whole += events.size() - 1;
      BOOST_TEST(to.stats().tokens - before == whole - had, what << " after step " << steps);
    }
    if (steps % 3 == 1)
      BOOST_TEST((restored(to, *first.snapshot, others, make, true) == expected), what << " repeated, " << steps);
  }
  BOOST_TEST(moves > 0, what);
}

// ---- a model without text: every option that decides tokens

Request plain(std::vector<TokenId> prompt, int tokens) {
  return {.input_ids = std::move(prompt),
          .options = {.max_new_tokens = tokens, .ignore_eos = true, .logits_hash = true}};
}

std::vector<std::pair<std::string, Request>> tokens_requests() {
  std::vector<std::pair<std::string, Request>> all = {{"greedy", plain({5, 6, 7}, 7)}};
  Request r = plain({8, 9, 3, 2, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}, 7);
  Options& o = r.options;
  o.temperature = 0.9f;
  o.seed = 0xfedcba9876543210u;
  all.emplace_back("drawn", r);
  o.top_k = 50;
  o.top_p = 0.95f;
  o.min_p = 0.01f;
  o.typical_p = 0.9f;
  o.repetition_penalty = 1.2f;
  o.presence_penalty = 0.1f;
  o.frequency_penalty = 0.3f;
  o.logit_bias = {{17, 1.5f}, {4, -INFINITY}};
  o.min_new_tokens = 3;
  o.stop_ids = {12};
  o.top_logprobs = 3;
  all.emplace_back("every parameter", r);
  o.logits_at = {0, 3, 18};
  o.nll = true;
  o.prompt_logprobs = 2;
  all.emplace_back("scores of the prompt", r);
  o.n = 3;
  all.emplace_back("three choices with scores", r);
  o.best_of = 5;
  all.emplace_back("best of five with scores", r);
  o.logit_bias.pop_back();
  o.receipt = true;
  all.emplace_back("best of five with receipts", r);
  Request choices = plain({8, 9}, 6);
  choices.options.temperature = 1.3f;
  choices.options.seed = 3;
  choices.options.n = 4;
  choices.options.receipt = true;
  for (TokenId id = 0; id < 60; ++id) choices.options.stop_ids.push_back(id);  // they end at different steps
  all.emplace_back("choices with receipts", choices);
  Request scored = plain({8, 9, 4}, 0);
  scored.options.nll = true;
  all.emplace_back("a prompt alone", scored);
  return all;
}

std::vector<Request> crowd() {
  std::vector<Request> all;
  for (TokenId i = 0; i < 2; ++i) all.push_back(plain({i, 3, 1, 8, 9}, 4));
  return all;
}

ModelFiles tiny_files() { return random_checkpoint(tiny_gpt2(), 9); }

// Guesses wrong and right: the token after the last occurrence of the last one, or the last one again.
struct Parrot {
  void draft(const DraftState& state, DraftWriter& out) const {
    for (std::size_t i = state.text.size() - 1; i-- > 0;)
      if (state.text[i] == state.text.back()) out.add(state.text[i + 1]);
    out.add(state.text.back());
  }
};

template <class... Choices>
using Tiny = Engine<Gpt2, Scheduler<AnyScheduler>, Choices...>;

}  // namespace

BOOST_AUTO_TEST_CASE(every_step_between_every_kind_of_engine) {
  Tiny<Cache<PagedKV>, Draft<NoDraft>> paged(tiny_files(), ContinuousPolicy{}, {.token_budget = 7, .threads = 1});
  Tiny<Cache<ContiguousKV>, Draft<Parrot>> guessing(tiny_files(), FairPolicy{},
                                                    {.threads = 1, .draft_tokens = 3, .draft_gain = 0});
  Tiny<Cache<NoCache>, Draft<NoDraft>> cacheless(tiny_files(), SequentialPolicy{}, {.threads = 1});
  Tiny<Cache<PagedKV>, Draft<NoDraft>> small(tiny_files(), StaticPolicy{.n = 3, .max_wait = {}},
                                             {.token_budget = 64, .cache_tokens = 96, .threads = 1});
  BOOST_TEST(paged.full_fingerprint() == cacheless.full_fingerprint());
  for (const auto& [name, request] : tokens_requests()) {
    const Trace expected = undisturbed(paged, request);
    check_moves(paged, guessing, request, crowd(), expected, name + ", paged to guessing");
    check_moves(guessing, cacheless, request, {}, expected, name + ", guessing to cacheless");
    check_moves(small, paged, request, crowd(), expected, name + ", small to paged");
    check_moves(cacheless, small, request, {}, expected, name + ", cacheless to small");
  }
}

BOOST_AUTO_TEST_CASE(windows_and_elements_of_the_cache) {
  ModelConfig c = Mistral::seven_billion();
  c.layers = 2, c.hidden = 32, c.heads = 4, c.kv_heads = 2, c.head_dim = 8, c.inner = 48, c.vocab = 97;
  c.positions = 128, c.window = 8, c.eos = {96};
  const ModelFiles files = random_checkpoint(c, 3);
  using Ring = Engine<Mistral, Cache<WindowKVOf<16, std::int8_t>>>;
  using Paged = Engine<Mistral, Cache<PagedKVOf<16, std::int8_t>>>;
  Ring ring(files, {.token_budget = 5, .threads = 1});
  Paged paged(files, {.threads = 1});
  for (const auto& [name, request] : tokens_requests()) {
    Request own = request;
    std::erase_if(own.options.stop_ids, [](TokenId id) { return id > 30; });
    const Trace expected = undisturbed(ring, own);
    check_moves(ring, paged, own, {}, expected, name + ", ring to paged");
    check_moves(paged, ring, own, {}, expected, name + ", paged to ring");
  }
}

// The keys of a text that grows past the trained length are others.
BOOST_AUTO_TEST_CASE(texts_that_outgrow_their_keys) {
  const ModelFiles files = random_checkpoint(tiny_longrope(), 3);
  const auto one = any_model<Cache<PagedKV>>(ModelList<Phi3>{}, files, EngineOptions{.threads = 1});
  const auto other =
      any_model<Cache<PagedKV>>(ModelList<Phi3>{}, files, EngineOptions{.token_budget = 3, .threads = 1});
  Request request = plain({}, 16);
  for (int i = 0; i < 20; ++i) request.input_ids.push_back(7 * i % 97);
  check_moves(*one, *other, request, {}, undisturbed(*one, request), "longrope");
  check_moves(*other, *one, request, {}, undisturbed(*one, request), "longrope, small steps");
}

BOOST_AUTO_TEST_CASE(a_restored_request_can_be_moved_again) {
  Engine<Gpt2> one(tiny_files(), {.threads = 1, .draft_tokens = 0}),
      other(tiny_files(), {.threads = 1, .draft_tokens = 0});
  for (const auto& [name, request] : tokens_requests()) {
    const Trace expected = undisturbed(one, request);
    Trace trace;
    Request next = request;
    for (int turn = 0; turn < 100; ++turn) {  // a step in each engine, in turn
      auto& engine = turn % 2 == 0 ? one : other;
      const Moved step = moved(engine, next, {}, 1);
      trace = joined(trace, step.before);
      if (!step.snapshot) break;
      next = request_of(*step.snapshot);
    }
    BOOST_TEST((trace == expected), name);
  }
}

// ---- a model with text

BOOST_AUTO_TEST_CASE(texts_stop_strings_constraints_and_adapters) {
  const ModelFiles files = load_checkpoint(kTales);
  Engine<Gpt2> one(files, {.threads = 1, .draft_tokens = 0}), other(files, {.token_budget = 9, .threads = 2});
  constrain::Constraints constraints(
      constrain::Vocabulary::from(*one.tokenizer(), one.config().vocab, one.config().eos));
  const ConstraintMaker make = [&](const ConstraintSource& source) -> std::shared_ptr<const Constraint> {
    if (source.kind == "schema") return constraints.json_schema(parse_json<OrderedJson>(source.text, "schema"));
    return source.kind == "regex" ? constraints.regex(source.text) : constraints.grammar(source.text);
  };
  const auto ask = [](int tokens) {
    return Request{.prompt = "The king said",
                   .options = {.max_new_tokens = tokens, .temperature = 0.9f, .seed = 5, .logits_hash = true}};
  };
  std::map<std::string, Request> requests;
  Request r = ask(12);
  r.options.stop = {" the", ".", "zebra"};
  requests["stop strings"] = r;
  r.options.include_stop = true;
  r.options.temperature = 0;
  requests["stop strings that stay"] = r;
  r = ask(12);
  r.options.temperature = 2.5f;
  r.options.skip_special_tokens = true;
  requests["half characters"] = r;
  r = ask(10);
  r.adapters = {{kTales + "/adapters/weather", 0.7f}, {kTales + "/adapters/shakespeare", 0.5f}};
  r.options.receipt = true;
  requests["adapters"] = r;
  for (
      const auto& [kind, text] :
      {std::pair{"regex", "[a-z ]{4,14}(\\.|!)"}, std::pair{"grammar", "root ::= (\"a\" | \" b\")+ \"!\""},
       std::pair{
           "schema",
           R"({"type": "object", "properties": {"age": {"type": "integer", "maximum": 99, "minimum": 0}, "kind": {"enum": ["long", "short"]}}, "required": ["age", "kind"], "additionalProperties": false})"}}) {
    r = ask(26);
    r.constraint_source = {kind, text};
    r.constraint = make(r.constraint_source);
    requests[kind] = r;
    r.options.finish_within_budget = true;
    r.options.n = 2;
    requests[std::string(kind) + " within its budget"] = r;
  }
  for (const auto& [name, request] : requests)
    check_moves(one, other, request, {}, undisturbed(one, request), name, make);
}

// ---- a service

BOOST_AUTO_TEST_CASE(services_move_open_requests) {
  Engine<Gpt2> alone(tiny_files(), {.threads = 1});
  using Serving = Service<Engine<Gpt2>>;
  Serving one(std::make_unique<Engine<Gpt2>>(tiny_files(), EngineOptions{.threads = 1, .draft_tokens = 0}));
  Serving other(std::make_unique<Engine<Gpt2>>(tiny_files(), EngineOptions{.threads = 1}));
  for (int after = 0; after < 24; ++after) {
    Request request = plain({5, 6, 7, static_cast<TokenId>(after)}, 200);
    request.options.n = 1 + after % 3;
    const Trace expected = undisturbed(alone, request);
    AnswerStream first = one.submit(request);
    Trace trace;
    for (int i = 0; i < after; ++i) add(trace, *first.next());
    const Snapshot snapshot = through_text(one.snapshot(first.id()));
    while (const auto event = first.next())
      if (event->kind == Event::Kind::token || event->reason != FinishReason::moved) add(trace, *event);
    BOOST_TEST((first.reason() == FinishReason::moved));
    AnswerStream rest = other.restore(snapshot);
    while (const auto event = rest.next()) add(trace, *event);
    BOOST_TEST((trace == expected), after);
    BOOST_CHECK_THROW(one.snapshot(first.id()), Error);
  }
  BOOST_TEST(one.stats().moved == 24u);
  BOOST_TEST(one.stats().open == 0);
  BOOST_TEST(other.stats().finished == 24u);
}

BOOST_AUTO_TEST_CASE(held_requests_and_callbacks) {
  using Serving = Service<Engine<Gpt2>>;
  Serving one(ServiceOptions{.buffer = 2}, tiny_files(), EngineOptions{.threads = 1, .draft_tokens = 0});
  const Request request = plain({5, 6, 7}, 60);
  AnswerStream slow = one.submit(request);
  while (one.stats().held == 0) std::this_thread::yield();  // the reader takes nothing
  const Snapshot snapshot = one.snapshot(slow.id());
  BOOST_TEST(snapshot.progress.choices.at(0).ids.size() >= 2u);
  Completion whole = slow.wait();
  BOOST_TEST((whole.reason == FinishReason::moved));
  BOOST_TEST(whole.ids == snapshot.progress.choices[0].ids);
  const auto progress = [&](const Event& event) {
    if (event.kind == Event::Kind::token) one.take_progress(event.request);
  };
  AnswerStream calls = one.submit(request, {.on_event = progress});
  BOOST_TEST(calls.wait().error.find("own thread") != std::string::npos);
  one.stop();
  BOOST_CHECK_EXCEPTION(one.snapshot(1), Error, [](const Error& e) { return e.kind() == Error::Kind::overloaded; });
}

// ---- refusals

namespace {

template <class F>
void refused(F&& f, const std::string& field) {
  BOOST_CHECK_EXCEPTION(f(), Error, [&](const Error& error) {
    BOOST_TEST(error.where() == field, error.what());
    return true;
  });
}

struct Anything {
  std::vector<std::uint32_t> words = std::vector<std::uint32_t>(10, ~0u);
  std::span<const std::uint32_t> mask() const { return words; }
  void advance(TokenId) {}
  bool must_end() const { return false; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(what_cannot_be_moved_is_refused_and_goes_on) {
  Engine<Gpt2> engine(tiny_files(), {.threads = 1});
  const auto refuses = [&](const Request& request, const std::string& field) {
    const Trace expected = undisturbed(engine, request);
    const RequestId id = engine.submit(request);
    Trace trace;
    for (const Event& event : engine.step()) add(trace, event);
    refused([&] { engine.snapshot(id); }, field);
    BOOST_TEST(engine.progress(id).choices.size() == 1u);  // for a caller that makes the request again
    while (!engine.idle())
      for (const Event& event : engine.step()) add(trace, event);
    BOOST_TEST((trace == expected), field);
    refused([&] { engine.snapshot(id); }, "request");
  };
  Request code = plain({5, 6, 7}, 5);
  code.logits_processor = [](std::span<float>, std::span<const TokenId>, std::span<const TokenId>) {};
  refuses(code, "logits_processor");
  Request constraint = plain({5, 6, 7}, 5);
  constraint.constraint = constraint_of(Anything{}, 301);
  refuses(constraint, "constraint");
  Request salt = plain({5, 6, 7}, 5);
  salt.options.cache_salt = "\xff";
  refuses(salt, "cache_salt");
}

BOOST_AUTO_TEST_CASE(other_engines_and_adapters_are_refused) {
  Engine<Gpt2> one(tiny_files(), {.threads = 1});
  const RequestId id = one.submit(plain({5, 6, 7}, 5));
  one.step();
  const Snapshot snapshot = one.snapshot(id);
  Engine<Gpt2> weights(random_checkpoint(tiny_gpt2(), 10));
  refused([&] { weights.submit(request_of(snapshot)); }, "fingerprint");
  Engine<Gpt2, Weights<Float16>> formats(tiny_files());
  refused([&] { formats.submit(request_of(snapshot)); }, "fingerprint");
  Service<Engine<Gpt2>> service(random_checkpoint(tiny_gpt2(), 10));
  refused([&] { service.restore(snapshot); }, "fingerprint");
  Snapshot adapted = snapshot;
  adapted.progress.digests = {std::string(64, '0')};
  refused([&] { one.submit(request_of(adapted)); }, "adapters");
  Snapshot constrained = snapshot;
  constrained.request.constraint_source = {"regex", "a*"};
  refused([&] { request_of(constrained); }, "constraint");
}

BOOST_AUTO_TEST_CASE(progress_that_cannot_be_is_refused) {
  Engine<Gpt2> engine(tiny_files(), {.threads = 1, .draft_tokens = 0});
  Request request = plain({5, 6, 7}, 5);
  request.options.top_logprobs = 1;
  request.options.stop_ids = {299};
  const RequestId id = engine.submit(request);
  for (int i = 0; i < 3; ++i) engine.step();
  const Snapshot right = engine.snapshot(id);
  BOOST_REQUIRE(right.progress.choices.at(0).ids.size() == 3u);
  const auto refuses = [&](auto&& change) {
    Snapshot wrong = right;
    change(wrong.progress.choices[0]);
    wrong.request.repeats_begun = true;
    refused([&] { engine.submit(request_of(wrong)); }, "begun");
  };
  refuses([](ChoiceProgress& c) { c.ids[1] = 301; });
  refuses([](ChoiceProgress& c) { c.ids[1] = -1; });
  refuses([](ChoiceProgress& c) { c.ids[1] = 299; });  // goes on after its end
  refuses([](ChoiceProgress& c) { c.ids[2] = 299; });  // has ended
  refuses([](ChoiceProgress& c) { c.ids.pop_back(); });
  refuses([](ChoiceProgress& c) { c.ids.resize(6, 5), c.logprobs.resize(6), c.top_logprobs.resize(6); });
  refuses([](ChoiceProgress& c) { c.top_logprobs.clear(); });
  refuses([](ChoiceProgress& c) { c.chain.resize(3); });
  refuses([](ChoiceProgress& c) { c.top_logprobs[1].front().id = 301; });
  refuses([](ChoiceProgress& c) { c.top_logprobs[1].front().id = -1; });
  Snapshot wrong = right;
  wrong.progress.choices.push_back(right.progress.choices[0]);
  refused([&] { engine.submit(request_of(wrong)); }, "begun");
  const auto refuses_scores = [&](auto&& change) {
    Snapshot other = right;
    Scores scores;
    change(scores);
    other.progress.scores = std::make_shared<const Scores>(std::move(scores));
    refused([&] { engine.submit(request_of(other)); }, "begun");
  };
  refuses_scores([](Scores& s) { s.logits.emplace_back(3, std::vector<float>(301)); });  // the prompt has three tokens
  refuses_scores([](Scores& s) { s.logits.emplace_back(0, std::vector<float>(300)); });
  refuses_scores([](Scores& s) { s.prompt.resize(1), s.prompt[0].token.id = 301; });
  refuses_scores([](Scores& s) { s.prompt.resize(1), s.prompt[0].top.resize(1), s.prompt[0].top[0].id = 301; });
  refuses_scores([](Scores& s) { s.prompt.resize(3); });
  engine.cancel(id);
  int events = 0;  // those of what was refused are gone
  while (!engine.idle())
    for (const Event& event : engine.step()) events += event.request != id;
  BOOST_TEST(events == 0);
}

BOOST_AUTO_TEST_CASE(json_refuses_what_it_does_not_know) {
  Engine<Gpt2> engine(tiny_files(), {.threads = 1});
  const Request request = tokens_requests().at(4).second;
  const RequestId id = engine.submit(request);
  for (int i = 0; i < 3; ++i) engine.step();
  const Json json = to_json(engine.snapshot(id));
  BOOST_TEST(to_json(snapshot_from(json)).dump() == json.dump());
  const auto refuses = [&](auto&& change, const std::string& field) {
    Json other = json;
    change(other);
    refused([&] { snapshot_from(other); }, "snapshot: " + field);
  };
  for (const auto& item : json.items()) refuses([&](Json& j) { j.erase(item.key()); }, item.key());
  for (const char* part : {"parameters", "others", "progress"})
    for (const auto& item : json[part].items())
      refuses([&](Json& j) { j[part].erase(item.key()); }, std::string(part) + "." + item.key());
  for (const auto& item : json["progress"]["choices"][0].items())
    refuses([&](Json& j) { j["progress"]["choices"][0].erase(item.key()); }, "choices[0]." + item.key());
  refuses([](Json& j) { j["more"] = 1; }, "more");
  refuses([](Json& j) { j["others"]["more"] = 1; }, "others.more");
  refuses([](Json& j) { j["format"] = 2; }, "format");
  refuses([](Json& j) { j["others"]["pooling"] = "max"; }, "others.pooling");
  refuses([](Json& j) { j["others"]["tag"] = -1; }, "others.tag");
  refuses([](Json& j) { j["others"]["deadline"] = "now"; }, "others.deadline");
  refuses([](Json& j) { j["others"]["logit_bias"] = {{1, "much"}}; }, "others.logit_bias");
  refuses([](Json& j) { j["progress"]["choices"][0]["logprobs"] = {1.5}; }, "choices[0].logprobs");
  refuses([](Json& j) { j["progress"]["choices"][0]["chain"] = {"00"}; }, "choices[0].chain");
}

BOOST_AUTO_TEST_CASE(a_deadline_is_a_moment_of_the_day) {
  Engine<Gpt2> engine(tiny_files(), {.threads = 1});
  Request request = plain({5, 6, 7}, 5);
  request.options.deadline = Clock::now() + std::chrono::hours(1);
  const Snapshot read = through_text(engine.snapshot(engine.submit(request)));
  const auto off = read.request.options.deadline - request.options.deadline;
  BOOST_TEST((off < std::chrono::seconds(2) && off > std::chrono::seconds(-2)));
  request.options.deadline = TimePoint::max();
  const Snapshot never = through_text(engine.snapshot(engine.submit(request)));
  BOOST_TEST((never.request.options.deadline == TimePoint::max()));
}

BOOST_AUTO_TEST_SUITE_END()
