// Receipts: the same alone, in crowds, with guesses and after preemptions. A change of any field is found at its place.
#include <algorithm>
#include <array>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tenon/constrain/constraints.h"
#include "tenon/engine/verify.h"
#include "tenon/io/json.h"
#include "tenon/tenon.h"
#include "tiny.h"

BOOST_AUTO_TEST_SUITE(engine_receipt)

using namespace tenon;

namespace {

const std::string kTales = std::string(TENON_SOURCE_DIR) + "/examples/models/tales";

ModelFiles tiny_files() { return random_checkpoint(tiny_gpt2(), 9); }

// Guesses how the texts go on that the test puts here, and spoils every third guess.
struct Knows {
  static inline std::vector<std::vector<TokenId>> texts = {};
  void draft(const DraftState& state, DraftWriter& out) const {
    for (const std::vector<TokenId>& text : texts) {
      if (state.text.size() >= text.size() || !std::equal(state.text.begin(), state.text.end(), text.begin())) continue;
      for (std::size_t i = state.text.size(); i < text.size(); ++i)
        if (!out.add(i % 3 == 2 ? (text[i] + 1) % 300 : text[i])) return;
    }
  }
};

Request request(std::vector<TokenId> prompt, std::uint64_t seed, int choices = 1) {
  return {.input_ids = std::move(prompt),
          .options = {.max_new_tokens = 20,
                      .temperature = seed ? 0.9f : 0.0f,
                      .seed = seed,
                      .ignore_eos = true,
                      .receipt = true,
                      .n = choices}};
}

// Greedy and drawn, with every parameter, and with several choices.
std::vector<Request> mixed() {
  std::vector<Request> all = {request({5, 6, 7}, 0), request({8, 9}, 3), request({1, 2, 3, 4, 5, 6}, 7, 3),
                              request({8, 9}, 5)};
  Options& o = all[3].options;
  o.top_k = 50;
  o.top_p = 0.95f;
  o.min_p = 0.01f;
  o.typical_p = 0.9f;
  o.repetition_penalty = 1.2f;
  o.presence_penalty = 0.1f;
  o.frequency_penalty = 0.3f;
  o.logit_bias = {{17, 1.5f}, {4, -2.25f}};
  o.min_new_tokens = 3;
  o.stop_ids = {12};
  return all;
}

std::vector<Receipt> receipts_of(const std::vector<Completion>& completions) {
  std::vector<Receipt> all;
  for (const Completion& each : completions) {
    BOOST_REQUIRE_MESSAGE(each.error.empty(), each.error);
    BOOST_REQUIRE(each.receipt);
    all.push_back(*each.receipt);
    for (const Choice& other : each.others) all.push_back(*other.receipt);
  }
  return all;
}

std::vector<std::string> texts_of(const std::vector<Receipt>& receipts) {
  std::vector<std::string> texts;
  for (const Receipt& each : receipts) texts.push_back(to_json(each).dump());
  return texts;
}

void check_holds(const ReceiptCheck& check) {
  BOOST_TEST(check.holds, check.field << " " << check.position.value_or(-1) << ": " << check.why);
}

Receipt read_back(const Receipt& receipt) { return receipt_from(parse_json(to_json(receipt).dump(), "receipt")); }

}  // namespace

// The chain, as docs/receipts.md defines it, over the logits of the prompt's last position.
BOOST_AUTO_TEST_CASE(the_chain_is_over_the_rows_that_tokens_were_picked_from) {
  Engine<Gpt2> engine(tiny_files());
  Request one = request({5, 6, 7}, 0);
  one.options.max_new_tokens = 1;
  one.options.logits_at = {2};
  const Completion done = engine.complete(one);
  const std::vector<float>& row = done.scores->logits.front().second;
  const Sha256::Digest of_row = Sha256().update(std::as_bytes(std::span(row))).digest();
  const Receipt& r = *done.receipt;
  const auto bytes = [](const Sha256::Digest& digest) { return std::as_bytes(std::span(digest)); };
  BOOST_TEST((r.digest == Sha256().update(bytes(r.request_digest)).update(bytes(of_row)).digest()));
  BOOST_TEST(r.links.at(0) ==
             std::uint32_t{r.digest[0]} * 0x1000000u + r.digest[1] * 0x10000u + r.digest[2] * 0x100u + r.digest[3]);
  BOOST_TEST(r.ids == done.ids);
  BOOST_TEST(r.fingerprint == engine.full_fingerprint());
  BOOST_TEST(!engine.complete(Request{.input_ids = {5}}).receipt);
}

BOOST_AUTO_TEST_CASE(receipts_are_the_same_in_every_schedule) {
  Engine<Gpt2> plain(tiny_files(), {.threads = 1, .prefix_reuse = false});
  std::vector<Completion> alone;
  for (const Request& each : mixed()) alone.push_back(plain.complete(each));
  const std::vector<std::string> expected = texts_of(receipts_of(alone));
  BOOST_TEST(expected.size() == 6u);

  Engine<Gpt2> crowded(tiny_files(), {.token_budget = 5, .cache_tokens = 64, .threads = 2});
  std::vector<Request> crowd = mixed();
  for (TokenId i = 0; i < 8; ++i) crowd.push_back(request({i, 3, 1}, 0));
  std::vector<Completion> in_crowd = crowded.complete(crowd);
  in_crowd.resize(alone.size());
  BOOST_TEST(texts_of(receipts_of(in_crowd)) == expected, boost::test_tools::per_element());
  BOOST_TEST(crowded.stats().preemptions > 0u);

  Knows::texts.clear();
  for (const Receipt& each : receipts_of(alone)) {
    Knows::texts.push_back(each.prompt_ids);
    Knows::texts.back().insert(Knows::texts.back().end(), each.ids.begin(), each.ids.end());
  }
  Engine<Gpt2, Draft<Knows>> drafting(tiny_files(), {.draft_tokens = 6, .draft_gain = 0});
  BOOST_TEST(texts_of(receipts_of(drafting.complete(mixed()))) == expected, boost::test_tools::per_element());
  BOOST_TEST(drafting.stats().accepted > 0u);

  // Any of the engines verifies all of them.
  for (const ReceiptCheck& each : verify(crowded, receipts_of(alone))) check_holds(each);
  for (const ReceiptCheck& each : verify(drafting, receipts_of(alone))) check_holds(each);
}

BOOST_AUTO_TEST_CASE(holds_and_ends_from_outside_are_verified_too) {
  Engine<Gpt2> engine(tiny_files());
  const std::string expected = texts_of(receipts_of({engine.complete(request({8, 9}, 3))})).front();
  const auto ended = [&](RequestId id, int cancel_after) {
    Completion done;
    for (int tokens = 0; !engine.idle();) {
      for (const Event& event : engine.step()) {
        tokens += event.kind == Event::Kind::token;
        done.add(event, false);
      }
      if (tokens == 4 && engine.hold(id)) engine.resume(id);
      if (tokens == cancel_after) engine.cancel(id, FinishReason::deadline);
    }
    return *done.receipt;
  };
  BOOST_TEST(texts_of({ended(engine.submit(request({8, 9}, 3)), -1)}).front() == expected);
  const Receipt cut = ended(engine.submit(request({8, 9}, 3)), 7);
  BOOST_TEST(cut.ids.size() == 7u);
  BOOST_TEST((cut.reason == FinishReason::deadline));
  check_holds(verify(engine, cut));
  Receipt none = ended(engine.submit(request({8, 9}, 3)), 0);
  check_holds(verify(engine, none));
  Request scored = request({8, 9}, 0);
  scored.options.max_new_tokens = 0;
  check_holds(verify(engine, *engine.complete(scored).receipt));
}

// The best of several choices have receipts of their own seeds.
BOOST_AUTO_TEST_CASE(the_best_of_several_choices_are_verified) {
  Engine<Gpt2> engine(tiny_files());
  Request best = request({8, 9}, 3, 2);
  best.options.best_of = 5;
  best.options.prompt_logprobs = 2;
  const Completion done = engine.complete(best);
  const std::vector<Receipt> receipts = receipts_of({done});
  BOOST_REQUIRE(receipts.size() == 2u);
  BOOST_TEST(receipts[0].ids == done.ids);
  BOOST_TEST(receipts[1].ids == done.others.at(0).ids);
  BOOST_TEST(receipts[0].options.seed != receipts[1].options.seed);
  for (const ReceiptCheck& each : verify(engine, receipts)) check_holds(each);
}

// An int8 copy of the head, and a head that draws from the best logits, give the receipts of whole rows.
BOOST_AUTO_TEST_CASE(shortcuts_of_the_head_are_off) {
  Engine<Gpt2> plain(tiny_files());
  Engine<Gpt2, Head<Int8Exact>> exact(tiny_files());
  Request drawn = request({8, 9}, 3);
  drawn.options.top_k = 5;
  for (const Request& each : {request({8, 9}, 0), drawn}) {
    Request without = each;
    without.options.receipt = false;
    const Receipt a = *plain.complete(each).receipt, b = *exact.complete({without, each, without})[1].receipt;
    BOOST_TEST(to_json(a).dump() == to_json(b).dump());
    BOOST_TEST(exact.complete(without).ids == b.ids);
    check_holds(verify(exact, a));
  }
}

BOOST_AUTO_TEST_CASE(json_reads_back) {
  Engine<Gpt2> engine(tiny_files());
  for (const Receipt& each : receipts_of(engine.complete(mixed()))) {
    BOOST_TEST(to_json(read_back(each)).dump() == to_json(each).dump());
    check_holds(verify(engine, read_back(each)));
  }
  Json json = to_json(*engine.complete(request({8, 9}, 3)).receipt);
  const auto refused = [&](auto&& change, const std::string& field) {
    Json other = json;
    change(other);
    BOOST_CHECK_EXCEPTION(receipt_from(other), Error, [&](const Error& error) {
      BOOST_TEST(error.where() == "receipt: " + field, error.what());
      return true;
    });
  };
  for (const auto& item : json.items()) {
    const std::string key = item.key();
    refused([&](Json& r) { r.erase(key); }, key);
  }
  for (const auto& item : json["parameters"].items()) {
    const std::string key = item.key();
    refused([&](Json& r) { r["parameters"].erase(key); }, "parameters." + key);
  }
  refused([](Json& r) { r["more"] = 1; }, "more");
  refused([](Json& r) { r["parameters"]["best_of"] = 1; }, "parameters.best_of");
  refused([](Json& r) { r["format"] = 2; }, "format");
  refused([](Json& r) { r["prompt_ids"] = Json::array(); }, "prompt_ids");
  refused([](Json& r) { r["links"] = "00"; }, "links");
  refused([](Json& r) { r["links"] = "00000000"; }, "links");
  refused([](Json& r) { r["digest"] = "00"; }, "digest");
  refused([](Json& r) { r["parameters"]["seed"] = -1; }, "parameters.seed");
}

// ---- changes

namespace {

struct Change {
  const char* name;
  std::function<void(Receipt&, std::size_t)> apply;  // changes bit or element i
  const char* field;
  bool has_position;  // it is i
};

template <class T>
void flip(T& value, std::size_t bit) {
  auto bytes = std::as_writable_bytes(std::span(&value, 1));
  bytes[bit / 8 % bytes.size()] ^= static_cast<std::byte>(1u << (bit % 8));
}
void flip_hex(std::string& digits, std::size_t i) { digits[i] = digits[i] == '0' ? '1' : '0'; }

const std::vector<Change>& changes() {
  static const std::vector<Change> all = {
      {"id", [](Receipt& r, std::size_t i) { flip(r.ids[i], i % 8); }, "ids", true},
      {"link", [](Receipt& r, std::size_t i) { flip(r.links[i], i); }, "links", true},
      {"fingerprint", [](Receipt& r, std::size_t i) { flip_hex(r.fingerprint, i); }, "fingerprint", false},
      {"seed", [](Receipt& r, std::size_t i) { flip(r.options.seed, i); }, "request_digest", false},
      {"prompt", [](Receipt& r, std::size_t i) { flip(r.prompt_ids[i % 2], i % 8); }, "request_digest", false},
      {"temperature", [](Receipt& r, std::size_t i) { flip(r.options.temperature, i % 23); }, "request_digest", false},
      {"top_p", [](Receipt& r, std::size_t i) { flip(r.options.top_p, i % 23); }, "request_digest", false},
      {"min_p", [](Receipt& r, std::size_t i) { flip(r.options.min_p, i % 23); }, "request_digest", false},
      {"typical_p", [](Receipt& r, std::size_t i) { flip(r.options.typical_p, i % 23); }, "request_digest", false},
      {"repetition_penalty", [](Receipt& r, std::size_t i) { flip(r.options.repetition_penalty, i % 23); },
       "request_digest", false},
      {"presence_penalty", [](Receipt& r, std::size_t i) { flip(r.options.presence_penalty, i % 23); },
       "request_digest", false},
      {"frequency_penalty", [](Receipt& r, std::size_t i) { flip(r.options.frequency_penalty, i % 23); },
       "request_digest", false},
      {"logit_bias", [](Receipt& r, std::size_t i) { flip(r.options.logit_bias[i % 2].second, i); }, "request_digest",
       false},
      {"biased token", [](Receipt& r, std::size_t i) { flip(r.options.logit_bias[i % 2].first, i % 8); },
       "request_digest", false},
      {"stop_ids", [](Receipt& r, std::size_t i) { flip(r.options.stop_ids[0], i % 8); }, "request_digest", false},
      {"top_k", [](Receipt& r, std::size_t i) { flip(r.options.top_k, i % 16); }, "request_digest", false},
      {"max_new_tokens", [](Receipt& r, std::size_t i) { flip(r.options.max_new_tokens, i % 16); }, "request_digest",
       false},
      {"min_new_tokens", [](Receipt& r, std::size_t i) { flip(r.options.min_new_tokens, i % 16); }, "request_digest",
       false},
      {"ignore_eos", [](Receipt& r, std::size_t) { r.options.ignore_eos = !r.options.ignore_eos; }, "request_digest",
       false},
      {"request_digest", [](Receipt& r, std::size_t i) { flip(r.request_digest, 8 * i + i % 8); }, "request_digest",
       false},
      {"digest", [](Receipt& r, std::size_t i) { flip(r.digest, 8 * i + i % 8); }, "digest", false},
  };
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_change_is_found_at_its_place) {
  Engine<Gpt2> engine(tiny_files());
  const Receipt right = receipts_of(engine.complete(mixed())).back();
  const std::size_t tokens = right.ids.size();
  BOOST_REQUIRE(tokens >= 12u);
  for (const Change& change : changes()) {
    std::vector<Receipt> wrong(tokens, right);
    for (std::size_t i = 0; i < tokens; ++i) change.apply(wrong[i], i);
    const std::vector<ReceiptCheck> checks = verify(engine, wrong);
    for (std::size_t i = 0; i < tokens; ++i) {
      BOOST_TEST(!checks[i].holds, change.name << " " << i);
      BOOST_TEST(checks[i].field == change.field, change.name << " " << i << ": " << checks[i].field);
      if (change.has_position)
        BOOST_TEST(checks[i].position.value_or(-1) == static_cast<int>(i), change.name << " " << i);
    }
  }
  Receipt of_another_version = right;
  of_another_version.library = "9.9.9";
  BOOST_TEST(verify(engine, of_another_version).holds);
  Receipt shorter = right;
  shorter.ids.pop_back();
  shorter.links.pop_back();
  ReceiptCheck check = verify(engine, shorter);
  BOOST_TEST(check.field == "ids");
  BOOST_TEST(check.position.value_or(-1) == static_cast<int>(tokens) - 1);
  shorter.reason = FinishReason::cancelled;
  BOOST_TEST(verify(engine, shorter).field == "digest");
  for (const FinishReason reason : {FinishReason::cancelled, FinishReason::deadline}) {
    Receipt other = right;
    other.reason = reason;
    BOOST_TEST(verify(engine, other).field == "finish_reason");
  }
}

// One who changes a field and computes the digest over the request anew is found by the tokens or the chain.
BOOST_AUTO_TEST_CASE(a_forged_request_is_found_by_its_answer) {
  Engine<Gpt2> engine(tiny_files());
  Receipt forged = *engine.complete(request({8, 9}, 3)).receipt;
  forged.options.seed = 4;
  forged.request_digest = request_digest(forged);
  const ReceiptCheck check = verify(engine, forged);
  BOOST_TEST(!check.holds);
  BOOST_TEST(check.field == "links");
  BOOST_TEST(check.position.value_or(-1) == 0);
}

BOOST_AUTO_TEST_CASE(other_weights_are_found) {
  const Receipt receipt = *Engine<Gpt2>(tiny_files()).complete(request({8, 9}, 3)).receipt;
  Engine<Gpt2> other(random_checkpoint(tiny_gpt2(), 10));
  BOOST_TEST(verify(other, receipt).field == "fingerprint");
  Receipt renamed = receipt;
  renamed.fingerprint = other.full_fingerprint();
  renamed.request_digest = request_digest(renamed);
  const ReceiptCheck check = verify(other, renamed);
  BOOST_TEST(check.field == "links");
  BOOST_TEST(check.position.value_or(-1) == 0);
}

// ---- adapters and constraints

BOOST_AUTO_TEST_CASE(adapters_and_constraints_are_part_of_it) {
  const ModelFiles files = load_checkpoint(kTales);
  Engine<Gpt2> engine(files);
  constrain::Constraints constraints(
      constrain::Vocabulary::from(*engine.tokenizer(), engine.config().vocab, engine.config().eos));
  const auto make = [&](const ConstraintSource& source) -> std::shared_ptr<const Constraint> {
    return constraints.regex(source.text);
  };
  const std::string weather = kTales + "/adapters/weather", shakespeare = kTales + "/adapters/shakespeare";
  std::vector<Request> requests(3);
  for (Request& each : requests) {
    each.prompt = "Once upon a time";
    each.options = {.max_new_tokens = 12, .temperature = 0.8f, .seed = 5, .stop = {" the"}, .receipt = true};
  }
  requests[1].adapters = {{weather, 0.7f}, {shakespeare, 0.5f}};
  requests[2].adapters = {{weather}};
  requests[2].constraint_source = {"regex", "[a-z ]{4,30}"};
  requests[2].constraint = make(requests[2].constraint_source);
  const std::vector<Receipt> receipts = receipts_of(engine.complete(requests));
  for (const ReceiptCheck& each : verify(engine, receipts, make)) check_holds(each);
  for (const Receipt& each : receipts) check_holds(verify(engine, read_back(each), make));

  for (std::size_t i = 0; i < 2; ++i) {
    Receipt other = receipts[1];
    flip_hex(other.adapters[i].digest, 5 + i);
    const ReceiptCheck check = verify(engine, other);
    BOOST_TEST(check.field == "adapters");
    BOOST_TEST(check.position.value_or(-1) == static_cast<int>(i));
    other = receipts[1];
    flip(other.adapters[i].weight, 3 + i);
    BOOST_TEST(verify(engine, other).field == "request_digest");
  }
  Receipt other = receipts[1];
  other.adapters[1].name = weather + "/none";
  BOOST_TEST(!verify(engine, other).holds);
  other.adapters[1].name = kTales + "/../tales/adapters/shakespeare";
  check_holds(verify(engine, other));
  BOOST_TEST(verify(engine, receipts[2]).field == "constraint");
  other = receipts[2];
  other.constraint.text = "[a-z ]{4,31}";
  BOOST_TEST(verify(engine, other, make).field == "request_digest");
}

BOOST_AUTO_TEST_CASE(what_no_receipt_can_hold_is_refused) {
  Engine<Gpt2> engine(tiny_files());
  const auto refused = [&](const Request& r, const char* field) {
    const Completion done = engine.complete(r);
    BOOST_TEST(done.error.starts_with(field), done.error);
  };
  Request code = request({8, 9}, 3);
  code.logits_processor = [](std::span<float>, std::span<const TokenId>, std::span<const TokenId>) {};
  refused(code, "receipt");
  Request infinite = request({8, 9}, 3);
  infinite.options.logit_bias = {{3, -INFINITY}};
  refused(infinite, "logit_bias");
  Request pooled = request({8, 9}, 0);
  pooled.options.max_new_tokens = 0;
  pooled.options.pooling = Pooling::mean;
  refused(pooled, "receipt");
}

BOOST_AUTO_TEST_SUITE_END()
