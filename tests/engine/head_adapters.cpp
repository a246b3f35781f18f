// Adapters with classification heads, and adapters for embeddings: bit-equal alone and in any batch with other
// adapters, heads and text, however rows are grouped.
#include <tenon/tenon.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "../io/scratch.h"
#include "tenon/adapter/any_lora.h"
#include "tenon/cache/no_cache.h"
#include "tenon/model/random.h"
#include "tenon/schedule/sequential.h"
#include "tenon/testing/random_adapter.h"
#include "tiny.h"

BOOST_AUTO_TEST_SUITE(engine_head_adapters)

using namespace tenon;
using tenon::test::Scratch;
using testing::RandomKind;

namespace {

constexpr int kClassifiers = 6, kPlain = 6, kDora = 7, kVectors = 8, kEmbeds = 9;

// A model with a language head and, with labels, a classification head, so that all kinds of requests run in one batch.
ModelConfig model(int labels = 5) {
  ModelConfig c = tiny_gpt2();
  for (int i = 0; i < labels; ++i) c.labels.push_back(std::to_string(i));
  return c;
}

// Folders of adapters: classifiers with 1 .. kClassifiers labels, of which two have equal updates; then other kinds.
class Adapters {
 public:
  Adapters() {
    const AdapterSites all = adapter_sites(Gpt2::tensors(tiny_gpt2()), Gpt2::name_prefix);
    for (int i = 0; i < kClassifiers; ++i)
      write(i, all, {.rank = 1 + 3 * i, .alpha = 4, .kind = RandomKind::classifier, .labels = i + 1});
    testing::write_adapter(
        scratch_ / std::to_string(kClassifiers - 1), all.sites,
        {.rank = 1 + 3 * (kClassifiers - 2), .alpha = 4, .seed = kClassifiers - 2, .kind = RandomKind::classifier}, {},
        all.base);
    write(kPlain, all, {.rank = 4, .alpha = 4});
    write(kDora, all, {.rank = 3, .alpha = 4, .kind = RandomKind::dora});
    write(kVectors, all, {.rank = 2, .alpha = 4, .kind = RandomKind::vectors});
    write(kEmbeds, all, {.rank = 5, .alpha = 4});
    set_task(kEmbeds, "FEATURE_EXTRACTION");
  }
  std::vector<AdapterUse> use(int number) const { return {{folder(number)}}; }
  std::string folder(int number) const { return (scratch_ / std::to_string(number)).string(); }

 private:
  void write(int number, const AdapterSites& all, testing::RandomAdapter adapter) const {
    adapter.seed = static_cast<std::uint64_t>(number);
    testing::write_adapter(folder(number), all.sites, adapter,
                           adapter.kind == RandomKind::vectors ? all.vectors : std::vector<AdapterVector>{}, all.base);
  }
  void set_task(int number, const std::string& task) const {
    const std::string path = folder(number) + "/adapter_config.json";
    std::ifstream in(path);
    std::string text(std::istreambuf_iterator<char>(in), {});
    text.insert(1, "\"task_type\": \"" + task + "\", ");
    std::ofstream(path) << text;
  }
  Scratch scratch_;
};

const Adapters& adapters() {
  static const Adapters all;
  return all;
}

std::vector<TokenId> text(int number, int length) {
  std::vector<TokenId> ids;
  for (int i = 0; i < length; ++i) ids.push_back((number * 37 + i * i * 11 + 5) % 299);
  return ids;
}

Request pooled(std::vector<TokenId> ids, Pooling pooling, std::vector<AdapterUse> uses = {}) {
  return {
      .input_ids = std::move(ids), .adapters = std::move(uses), .options = {.max_new_tokens = 0, .pooling = pooling}};
}

Request written(std::vector<TokenId> ids, std::vector<AdapterUse> uses = {}) {
  return {.input_ids = std::move(ids),
          .adapters = std::move(uses),
          .options = {.max_new_tokens = 7, .ignore_eos = true, .logits_hash = true}};
}

// Every classifier several times, by its own head and for embeddings; the model's head under other adapters; text.
// Half of the texts share a prefix.
std::vector<Request> requests() {
  std::vector<Request> all;
  const std::vector<TokenId> shared = text(90, 50);
  for (int i = 0; i < 40; ++i) {
    std::vector<TokenId> ids = i % 2 == 0 ? shared : std::vector<TokenId>{};
    const std::vector<TokenId> own = text(i % 7, 1 + i);
    ids.insert(ids.end(), own.begin(), own.end());
    const int classifier = i % kClassifiers;
    switch (i % 5) {
      case 0:
        all.push_back(pooled(std::move(ids), i % 2 == 0 ? Pooling::last : Pooling::mean,
                             adapters().use(i % 3 == 0 ? kEmbeds : classifier)));
        break;
      case 1:
        all.push_back(pooled(std::move(ids), Pooling::classify, adapters().use(kPlain + i / 5 % 3)));
        break;
      case 2:
        all.push_back(i % 4 == 0 ? pooled(std::move(ids), Pooling::classify)
                                 : written(std::move(ids), adapters().use(kPlain + i / 5 % 3)));
        break;
      default:
        all.push_back(pooled(std::move(ids), Pooling::classify, adapters().use(classifier)));
    }
  }
  return all;
}

struct Got {
  std::vector<float> values;
  std::vector<TokenId> ids;
  std::optional<std::uint64_t> hash;
  friend bool operator==(const Got&, const Got&) = default;
};

Got got_of(const Completion& c) {
  BOOST_TEST_REQUIRE(c.error == "");
  if (!c.scores) return {{}, c.ids, c.logits_hash};
  return {c.scores->class_logits.empty() ? c.scores->embedding : c.scores->class_logits, c.ids, c.logits_hash};
}

template <class E>
std::vector<Got> one_by_one(E& engine) {
  std::vector<Got> all;
  for (Request& each : requests()) all.push_back(got_of(engine.complete(std::move(each))));
  return all;
}

template <class E>
std::vector<Got> together(E& engine) {
  std::vector<Got> all;
  for (const Completion& each : engine.complete(requests())) all.push_back(got_of(each));
  return all;
}

const EngineOptions kAlone{.token_budget = 1 << 16, .batch = 1, .threads = 1, .prefix_reuse = false};

void check_every_way_to_add(const std::vector<Got>& wanted, auto& engine) {
  for (const AnyLoRA::Kind way : {AnyLoRA::Kind::looped, AnyLoRA::Kind::gathered, AnyLoRA::Kind::segmented}) {
    engine.adapter_policy() = AnyLoRA(way);
    BOOST_TEST((together(engine) == wanted));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(bits_are_equal_alone_and_in_any_batch) {
  const ModelFiles files = random_checkpoint(model(), 3);
  Engine<Gpt2, Cache<NoCache>, Scheduler<SequentialPolicy>> alone{files, kAlone};
  const std::vector<Got> wanted = one_by_one(alone);
  for (const int budget : {5, 48, 512}) {
    Engine<Gpt2, Adapter<AnyLoRA>> engine{files,
                                          {.token_budget = budget, .batch = 40, .threads = budget == 48 ? 3 : 1}};
    check_every_way_to_add(wanted, engine);
  }
  // Few adapters have room at once, and few requests.
  Engine<Gpt2, Adapter<AnyLoRA>> tight{
      files, {.token_budget = 20, .batch = 16, .cache_tokens = 336, .threads = 1, .adapters = {.count = 2}}};
  check_every_way_to_add(wanted, tight);
  BOOST_TEST(tight.adapters().stats().evictions > 0u);
}

BOOST_AUTO_TEST_CASE(rounded_weights_keep_the_promise_too) {
  const ModelFiles files = random_checkpoint(model(), 3);
  const auto check = [&](auto weights) {
    using E = Engine<Gpt2, Weights<decltype(weights)>, Adapter<AnyLoRA>>;
    E alone{files, kAlone}, engine{files, {.token_budget = 37, .batch = 40, .threads = 2}};
    check_every_way_to_add(one_by_one(alone), engine);
  };
  check(BFloat16{});
  check(ZeroPointInt8{});
  check(GroupInt4{});
}

// Twin of the above: the answers could have differed.
BOOST_AUTO_TEST_CASE(heads_and_updates_change_answers) {
  Engine<Gpt2> engine{random_checkpoint(model(), 3), {.threads = 1}};
  const std::vector<TokenId> ids = text(8, 50);
  std::vector<std::vector<float>> all;
  for (int i = 0; i < kClassifiers; ++i) {
    all.push_back(engine.classify(Request{.input_ids = ids, .adapters = adapters().use(i)}).logits);
    all.push_back(engine.embed(Request{.input_ids = ids, .adapters = adapters().use(i)}));
  }
  all.push_back(engine.classify(Request{.input_ids = ids}).logits);
  // The last two classifiers have equal updates.
  BOOST_TEST((all[kClassifiers * 2 - 1] == all[kClassifiers * 2 - 3]));
  all.erase(all.begin() + kClassifiers * 2 - 1);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) BOOST_TEST((all[i] != all[j]), i << " and " << j);
  }
}

// The adapter's own head, or else the model's, times the row that embed() gives under the same adapter.
BOOST_AUTO_TEST_CASE(a_classification_is_the_head_times_the_row) {
  ModelConfig config = model();
  config.pad = 9;
  Engine<Gpt2> engine{random_checkpoint(config, 3), {.threads = 1}};
  std::vector<float> weights(5 * 60);
  random_rows(3, "score.weight", 60, 0, 5, weights.data());
  const ClassifierHead of_model(weights, 60);
  const std::vector<TokenId> ids = text(8, 50);
  std::vector<TokenId> padded = ids;
  padded.insert(padded.end(), 20, 9);
  for (const int number : {0, 2, 4, kPlain, kDora, kVectors}) {
    const std::vector<AdapterUse> uses = adapters().use(number);
    const auto row = engine.embed(Request{.input_ids = ids, .adapters = uses}, Pooling::last, false);
    const AdapterLease held = engine.lease(uses);
    BOOST_TEST((held.head != nullptr) == (number < kClassifiers));
    const std::vector<float> wanted = (held.head ? *held.head : of_model).logits(row);
    for (const auto& prompt : {ids, padded}) {
      const Classification found = engine.classify(Request{.input_ids = prompt, .adapters = uses});
      BOOST_TEST((found.logits == wanted));
      BOOST_TEST(found.label == best_label(wanted));
    }
    if (number < kClassifiers - 1) BOOST_TEST(held.head->labels() == number + 1);
  }
}

BOOST_AUTO_TEST_CASE(a_model_needs_no_head_of_its_own) {
  Engine<Gpt2> plain{random_checkpoint(model(0), 3), {.threads = 1}},
      with_head{random_checkpoint(model(), 3), {.threads = 1}};
  const Request request{.input_ids = text(1, 30), .adapters = adapters().use(3)};
  BOOST_TEST((plain.classify(request).logits == with_head.classify(request).logits));
}

BOOST_AUTO_TEST_CASE(what_an_adapter_cannot_give_is_refused_by_name) {
  Engine<Gpt2> engine{random_checkpoint(model(), 3), {.threads = 1}},
      headless{random_checkpoint(model(0), 3), {.threads = 1}};
  const auto refused = [](auto& from, Request request, const std::string& part) {
    const Completion answer = from.complete(std::move(request));
    BOOST_TEST(answer.error.find(part) != std::string::npos, answer.error);
  };
  refused(engine, written({1}, adapters().use(0)), "SEQ_CLS");
  Request scored = written({1}, adapters().use(0));
  scored.options = {.max_new_tokens = 0, .nll = true};
  refused(engine, scored, "SEQ_CLS");
  refused(engine, written({1}, adapters().use(kEmbeds)), "FEATURE_EXTRACTION");
  refused(engine, pooled({1}, Pooling::classify, adapters().use(kEmbeds)), "FEATURE_EXTRACTION");
  refused(headless, pooled({1}, Pooling::classify, adapters().use(kPlain)), "no classification head");
  refused(engine, pooled({1}, Pooling::classify, {{adapters().folder(0), 0.5f}}), "score.weight");
  refused(engine, pooled({1}, Pooling::classify, {{adapters().folder(kPlain)}, {adapters().folder(0)}}),
          "score.weight");
  for (const int number : {0, kPlain, kEmbeds})
    BOOST_TEST(headless.embed(Request{.input_ids = {1}, .adapters = adapters().use(number)}).size() == 60u);
}

// Refused requests do not end those beside them.
BOOST_AUTO_TEST_CASE(others_go_on_beside_a_refused_request) {
  Engine<Gpt2> engine{random_checkpoint(model(), 3), {.threads = 1}};
  std::vector<Request> both;
  both.push_back(written(text(1, 9), adapters().use(1)));
  both.push_back(pooled(text(1, 9), Pooling::classify, adapters().use(1)));
  const std::vector<Completion> answers = engine.complete(both);
  BOOST_TEST(!answers[0].error.empty());
  BOOST_TEST(got_of(answers[1]).values.size() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
