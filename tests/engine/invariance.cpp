// The promise, axis by axis: every answer is, bit for bit, the one that the request gets alone, in one piece, on one
// thread, with no cache. The tests compare the logits after every token of a prompt, and those of new tokens by their
// hash. They also compare log-probabilities, tokens and scores. invariance_mixes.cpp mixes the axes at random, and
// invariance_twin.cpp shows that a kernel that breaks the promise is caught.
#include <boost/test/unit_test.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "invariance.h"
#include "tenon/ops/cpu/dot_kernel_sets.h"
#include "tenon/ops/cpu/kernel_sets.h"

BOOST_AUTO_TEST_SUITE(engine_invariance)

using namespace tenon;
using namespace tenon::invariance;

namespace {

Setup setup_of(Kv kv, Attend attend = Attend::flash, Keep cache = Keep::paged16) {
  return {.kv = kv, .attend = attend, .cache = cache, .scheduler = ContinuousPolicy{.max_batch = 1024}};
}

std::vector<Completion> each_alone(const Setup& like, const std::vector<Request>& requests) {
  return invariance::each_alone(like, requests, make_engine<>);
}

void require_same(const std::vector<Completion>& expected, const std::vector<Completion>& got, const Setup& setup) {
  const Differences d = compare(expected, got);
  BOOST_TEST(d.bits() == 0u, d.bits() << " bits differ, first " << d.first() << " in " << to_string(setup));
}

// All together, under `setup`.
EngineStats require_same(const Setup& setup, const std::vector<Request>& requests,
                         const std::vector<Completion>& expected) {
  const auto engine = make_engine(setup);
  require_same(expected, run_all(*engine, requests), setup);
  return engine->stats();
}

std::vector<Isa> isas() {
  std::vector<Isa> all;
  for (const Isa isa : kIsas) {
    if (has_isa(isa)) all.push_back(isa);
  }
  return all;
}

std::vector<TokenId> document(int tokens, std::uint64_t seed = 1) {
  Random random(seed);
  return random_text(random, tokens);
}
std::vector<TokenId> beginning(const std::vector<TokenId>& text, int tokens) {
  return {text.begin(), text.begin() + tokens};
}

}  // namespace

// A text of 513 tokens in chunks of every size, so that steps have every number of rows, and the positions of every
// boundary come first, last and in the middle of a chunk.
BOOST_AUTO_TEST_CASE(chunks_of_every_size) {
  const std::vector<Request> requests = {whole_request(document(kLongest), 3)};
  for (const Kv kv : kKvs) {
    for (const Attend attend : kAttends) {
      Setup setup = setup_of(kv, attend);
      const auto alone = each_alone(setup, requests);
      BOOST_REQUIRE_EQUAL(alone[0].scores->logits.size(), static_cast<std::size_t>(kLongest));
      for (const int chunk : kSizes) {
        setup.options.token_budget = chunk;
        const EngineStats stats = require_same(setup, requests, alone);
        BOOST_TEST(stats.steps == static_cast<std::uint64_t>((kLongest + chunk - 1) / chunk + 2));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(threads_and_instruction_sets) {
  const std::vector<Request> requests = {whole_request(document(270), 3)};  // beyond a split
  for (const Kv kv : kKvs) {
    for (const Attend attend : kAttends) {
      Setup setup = setup_of(kv, attend);
      const auto alone = each_alone(setup, requests);
      for (const Isa isa : isas()) {
        for (int threads = 1; threads <= 4; ++threads) {
          setup.isa = isa;
          setup.options.threads = threads;
          setup.options.token_budget =
              std::array{512, 7, 65}[static_cast<std::size_t>(threads + static_cast<int>(isa)) % 3];
          require_same(setup, requests, alone);
        }
      }
    }
  }
}

// Each instruction set has tiles of its own, and so its own numbers of rows to mind.
BOOST_AUTO_TEST_CASE(chunks_of_every_size_on_every_instruction_set) {
  const std::vector<Request> requests = {whole_request(document(140), 3)};
  Setup setup = setup_of(Kv::float32);
  const auto alone = each_alone(setup, requests);
  for (const Isa isa : isas()) {
    setup.isa = isa;
    for (const int chunk : kSizes) {
      setup.options.token_budget = chunk;
      require_same(setup, requests, alone);
    }
  }
}

// Steps of `rows` rows, each of another text. A prompt of one token is a row, too: every step has all of them.
BOOST_AUTO_TEST_CASE(batches_of_every_size) {
  std::vector<Request> requests;
  for (int i = 0; i < kLongest; ++i) {
    requests.push_back(whole_request(document(1, 100 + static_cast<std::uint64_t>(i)), 3));
    requests.back().options.seed = static_cast<std::uint64_t>(i);
    requests.back().options.temperature = i % 2 == 0 ? 0.0f : 1.0f;
  }
  for (const Kv kv : kKvs) {
    Setup setup = setup_of(kv);
    setup.options.token_budget = 1024;
    setup.options.cache_tokens = 16 * kLongest;
    const auto alone = each_alone(setup, requests);
    for (const int rows : kSizes) {
      const std::vector<Request> some(requests.begin(), requests.begin() + rows);
      const EngineStats stats = require_same(setup, some, {alone.begin(), alone.begin() + rows});
      BOOST_TEST(stats.steps == 3u);
      BOOST_TEST(stats.rows == static_cast<std::uint64_t>(3 * rows));
    }
  }
}

// Texts whose last tokens and first new ones lie on both sides of every boundary, side by side, in every cache.
BOOST_AUTO_TEST_CASE(texts_of_every_length_in_every_cache) {
  const auto text = document(kLongest, 2);
  std::vector<Request> requests;
  for (const int length : kSizes) requests.push_back(plain_request(beginning(text, length), 3));
  for (const Kv kv : kKvs) {
    for (const Attend attend : kAttends) {
      const auto alone = each_alone(setup_of(kv, attend), requests);
      for (const Keep cache : kKeeps) {
        Setup setup = setup_of(kv, attend, cache);
        setup.options.token_budget = 100;
        setup.options.threads = 2;
        require_same(setup, requests, alone);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(order_batch_and_scheduler) {
  const auto requests = random_requests(21, 24, tiny().vocab);
  const std::vector<Request> reversed(requests.rbegin(), requests.rend());
  for (const Kv kv : kKvs) {
    Setup setup = setup_of(kv);
    const auto alone = each_alone(setup, requests);
    const std::vector<Completion> alone_reversed(alone.rbegin(), alone.rend());
    for (const AnyScheduler& scheduler :
         {AnyScheduler(SequentialPolicy{}), AnyScheduler(StaticPolicy{.n = 5}),
          AnyScheduler(FairPolicy{.max_batch = 7}), AnyScheduler(ContinuousPolicy{.max_batch = 3}),
          AnyScheduler(ContinuousPolicy{.max_batch = 24}),
          AnyScheduler(ContinuousPolicy{.max_batch = 9, .order = Order::longest_first})}) {
      setup.scheduler = scheduler;
      setup.options.token_budget = 70;
      require_same(setup, requests, alone);
      require_same(setup, reversed, alone_reversed);
    }
  }
}

// ---------------------------------------------------------------- what is kept between requests

namespace {

// Runs one request in an engine that has seen others. Returns how many of its tokens were found in the cache.
std::uint64_t hit_tokens(AnyEngine& engine, const Setup& setup, const Request& request, const Completion& expected) {
  const std::uint64_t before = engine.stats().prefix_hit_tokens;
  require_same({expected}, run_all(engine, {request}), setup);
  return engine.stats().prefix_hit_tokens - before;
}

std::uint64_t whole_blocks(int tokens, Keep cache) {
  return static_cast<std::uint64_t>(tokens / block_of(cache) * block_of(cache));
}

}  // namespace

// Cold, then again, then texts that share a number of its tokens and go on otherwise. The last token is always
// computed.
BOOST_AUTO_TEST_CASE(prefixes_that_are_found_change_nothing) {
  constexpr int length = 320;
  const auto text = document(length, 3);
  std::vector<Request> requests = {plain_request(text, 20)};
  std::vector<int> shared = {0};
  for (const int common : kSizes) {
    if (common > length) continue;
    Request next = plain_request(beginning(text, common), 3);
    for (const TokenId id : document(9, 1000 + static_cast<std::uint64_t>(common))) next.input_ids.push_back(id);
    next.input_ids[static_cast<std::size_t>(common)] =
        kPoison - 1 - (common < length ? text[static_cast<std::size_t>(common)] : 0);
    next.options.logits_at = {static_cast<int>(next.input_ids.size()) - 1};
    requests.push_back(next);
    shared.push_back(common);
  }
  for (const Kv kv : kKvs) {
    for (const Attend attend : kAttends) {
      const auto alone = each_alone(setup_of(kv, attend), requests);
      for (const Keep cache : {Keep::paged16, Keep::paged32, Keep::paged64}) {
        const Setup setup = setup_of(kv, attend, cache);
        const auto engine = make_engine(setup);
        BOOST_TEST(hit_tokens(*engine, setup, requests[0], alone[0]) == 0u);
        BOOST_TEST(hit_tokens(*engine, setup, requests[0], alone[0]) == whole_blocks(length - 1, cache));
        for (std::size_t i = 1; i < requests.size(); ++i) {
          BOOST_TEST(hit_tokens(*engine, setup, requests[i], alone[i]) == whole_blocks(shared[i], cache));
        }
        Request salted = requests[0];
        salted.options.cache_salt = "mine";
        BOOST_TEST(hit_tokens(*engine, setup, salted, alone[0]) == 0u);
        BOOST_TEST(hit_tokens(*engine, setup, salted, alone[0]) == whole_blocks(length - 1, cache));
        BOOST_TEST(hit_tokens(*engine, setup, requests[0], alone[0]) == whole_blocks(length - 1, cache));
        Setup without = setup;
        without.options.prefix_reuse = false;
        const auto forgetful = make_engine(without);
        for (int run = 0; run < 2; ++run) BOOST_TEST(hit_tokens(*forgetful, without, requests[0], alone[0]) == 0u);
      }
    }
  }
}

// The next turn of a conversation begins with an answer: its keys were computed one by one, as tokens were drawn.
BOOST_AUTO_TEST_CASE(an_answer_that_is_found_as_a_prefix_changes_nothing) {
  for (const Kv kv : kKvs) {
    const Setup setup = setup_of(kv);
    const Request first = plain_request(document(21, 4), 30);
    const Completion answer = each_alone(setup, {first})[0];
    std::vector<TokenId> turn = first.input_ids;
    turn.insert(turn.end(), answer.ids.begin(), answer.ids.end());
    for (const TokenId id : document(5, 5)) turn.push_back(id);
    const Request second = plain_request(turn, 10);
    const auto alone = each_alone(setup, {second});
    const auto engine = make_engine(setup);
    hit_tokens(*engine, setup, first, answer);
    BOOST_TEST(hit_tokens(*engine, setup, second, alone[0]) == 48u);  // of 21 + 29: the last new token was not fed back
  }
}

BOOST_AUTO_TEST_CASE(preemption_changes_nothing) {
  std::vector<Request> requests;
  for (int i = 0; i < 16; ++i)
    requests.push_back(plain_request(document(3 + 5 * i, 30 + static_cast<std::uint64_t>(i)), 40));
  for (const Kv kv : kKvs) {
    for (const Attend attend : kAttends) {
      const auto alone = each_alone(setup_of(kv, attend), requests);
      for (const Keep cache : {Keep::paged16, Keep::paged32, Keep::paged64}) {
        for (const bool reuse : {false, true}) {
          Setup setup = setup_of(kv, attend, cache);
          setup.options.prefix_reuse = reuse;
          setup.options.cache_tokens = tight_cache(requests, block_of(cache)) + 64;
          const EngineStats stats = require_same(setup, requests, alone);
          BOOST_TEST(stats.preemptions > 0u, "none in " << to_string(setup));
        }
      }
    }
  }
}

// ---------------------------------------------------------------- choices, neighbours that fail, runs

// Choice i is the request with choice_seed(seed, i), whether its prompt was shared, copied or read again.
BOOST_AUTO_TEST_CASE(choices_are_the_requests_with_their_seeds) {
  std::vector<Request> requests;
  for (const int length : {1, 2, 15, 16, 17, 33, 64, 65}) {
    Request r = plain_request(document(length, 6), 12);
    r.options.n = 4;
    r.options.temperature = 1.0f;
    r.options.seed = 7;
    r.options.logits_at = {length - 1};
    requests.push_back(r);
  }
  for (const Kv kv : kKvs) {
    const auto alone = each_alone(setup_of(kv), requests);
    for (const Completion& answer : alone) {
      BOOST_REQUIRE_EQUAL(answer.others.size(), 3u);
      BOOST_TEST(answer.ids != answer.others[0].ids);
      BOOST_TEST((answer.logits_hash != answer.others[0].logits_hash));
    }
    for (const Keep cache : kKeeps) {
      Setup setup = setup_of(kv, Attend::flash, cache);
      setup.options.token_budget = 24;
      require_same(setup, requests, alone);
      if (!is_paged(cache)) continue;
      setup.options.cache_tokens = 192;
      BOOST_TEST(require_same(setup, requests, alone).preemptions > 0u);
    }
  }
}

// NaN in a neighbour's keys and values, before, beside and after, and in the place that others get when it has gone.
BOOST_AUTO_TEST_CASE(failing_neighbours_change_nothing) {
  std::vector<Request> requests;
  for (int i = 0; i < 20; ++i) {
    requests.push_back(plain_request(document(10 + 7 * i, 50), 9));  // with a common beginning
    if (i % 2 == 0) continue;
    if (i % 5 == 0) {
      requests[static_cast<std::size_t>(i)].options.logit_bias.clear();
      for (TokenId id = 0; id < tiny().vocab; ++id)
        requests[static_cast<std::size_t>(i)].options.logit_bias.emplace_back(id, -INFINITY);
    } else {
      requests[static_cast<std::size_t>(i)].input_ids[static_cast<std::size_t>(5 + 3 * i)] = kPoison;
    }
  }
  for (const Kv kv : kKvs) {
    for (const Attend attend : kAttends) {
      const auto alone = each_alone(setup_of(kv, attend), requests);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const std::string why = i % 2 == 0 ? "" : i % 5 == 0 ? "no token is allowed" : "not finite";
        BOOST_TEST(alone[i].error.find(why) != std::string::npos);
        BOOST_TEST(alone[i].error.empty() == why.empty());
      }
      for (const Keep cache : kKeeps) {
        for (const int batch : {2, 8, 20}) {
          Setup setup = setup_of(kv, attend, cache);
          setup.scheduler = ContinuousPolicy{.max_batch = batch};
          setup.options.token_budget = 31;
          setup.options.cache_tokens = tight_cache(requests, 64) + 128;
          require_same(setup, requests, alone);
        }
      }
    }
  }
}

namespace {

std::uint64_t digest_of_a_run() {
  Setup setup = setup_of(Kv::float32);
  setup.options.threads = 2;
  setup.options.token_budget = 29;
  const auto engine = make_engine(setup);
  std::uint64_t digest = 0;
  for (const Completion& answer : run_all(*engine, random_requests(22, 12, tiny().vocab))) {
    digest = mix64(digest ^ answer.logits_hash.value_or(1));
    digest = hash64(std::as_bytes(std::span(answer.ids)), digest);
    digest = hash64(std::as_bytes(std::span(answer.logprobs)), digest);
  }
  return digest;
}

std::string text_of(std::uint64_t number) { return "digest " + std::to_string(number) + "\n"; }

}  // namespace

// For the test below, which runs it in a process of its own.
BOOST_AUTO_TEST_CASE(print_digest, *boost::unit_test::disabled()) {
  std::printf("%s", text_of(digest_of_a_run()).c_str());
}

BOOST_AUTO_TEST_CASE(two_runs_and_two_processes) {
  const std::string expected = text_of(digest_of_a_run());
  BOOST_TEST(text_of(digest_of_a_run()) == expected);
  const std::string command =
      std::filesystem::read_symlink("/proc/self/exe").string() + " --run_test=engine_invariance/print_digest";
  std::FILE* other = ::popen(command.c_str(), "r");
  BOOST_REQUIRE(other != nullptr);
  std::string output;
  for (int c; (c = std::fgetc(other)) != EOF;) output += static_cast<char>(c);
  BOOST_TEST(::pclose(other) == 0);
  BOOST_TEST(output.find(expected) != std::string::npos, "the other process says " << output);
}

// ---------------------------------------------------------------- the hash and the fingerprint

// As docs/promise.md says, a caller who has the logits can compute the hash.
BOOST_AUTO_TEST_CASE(the_hash_is_over_the_logits_that_tokens_were_drawn_from) {
  const Setup setup = setup_of(Kv::float32);
  const auto engine = make_engine(setup);
  const Request one = whole_request(document(20, 8), 1);
  const Completion first = run_all(*engine, {one})[0];
  const std::uint64_t first_row = hash64(std::as_bytes(std::span(first.scores->logits.back().second)));
  BOOST_TEST(first.logits_hash.value() == mix64(first_row));
  Request two = one;
  two.options.max_new_tokens = 2;
  Request after = one;
  after.input_ids.push_back(first.ids[0]);
  after.options.logits_at = {20};
  const Completion second = run_all(*engine, {after})[0];
  const std::uint64_t second_row = hash64(std::as_bytes(std::span(second.scores->logits.back().second)));
  BOOST_TEST(run_all(*engine, {two})[0].logits_hash.value() == mix64(mix64(first_row) ^ second_row));
  Request none = one;
  none.options.logits_hash = false;
  BOOST_TEST(!run_all(*engine, {none})[0].logits_hash.has_value());
}

// Raw logits: what is done to a token's chances afterwards is not in the hash, unless it changes what follows.
BOOST_AUTO_TEST_CASE(the_hash_sees_logits_and_not_what_is_made_of_them) {
  const auto engine = make_engine(setup_of(Kv::float32));
  Request plain = plain_request(document(20, 8), 1), bent = plain, other = plain;
  bent.options.temperature = 2.0f;
  bent.options.repetition_penalty = 1.5f;
  bent.options.logit_bias = {{4, 50.0f}};
  other.input_ids[0] ^= 1;
  const auto answers = run_all(*engine, {plain, bent, other});
  BOOST_TEST(answers[1].ids.front() == 4);
  BOOST_TEST((answers[0].logits_hash == answers[1].logits_hash));
  BOOST_TEST((answers[0].logits_hash != answers[2].logits_hash));
}

BOOST_AUTO_TEST_CASE(the_fingerprint_is_equal_where_bits_are) {
  for (const Kv kv : kKvs) {
    for (const Attend attend : kAttends) {
      const std::string expected = make_engine(alone_in(setup_of(kv, attend)))->fingerprint();
      BOOST_TEST(std::regex_match(expected, std::regex("fp_[0-9a-f]{16}")));
      for (const Keep cache : kKeeps) {
        for (const Isa isa : isas()) {
          Setup setup = setup_of(kv, attend, cache);
          setup.isa = isa;
          setup.scheduler = StaticPolicy{.n = 3};
          setup.options = {.token_budget = 7, .batch = 3, .threads = 3};
          BOOST_TEST(make_engine(setup)->fingerprint() == expected);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_fingerprint_differs_where_bits_may) {
  std::set<std::string> seen;
  const auto is_new = [&](const std::string& fingerprint, const char* what) {
    BOOST_TEST(seen.insert(fingerprint).second, what << " does not change the fingerprint");
  };
  for (const Kv kv : kKvs) {
    for (const Attend attend : kAttends)
      is_new(make_engine(setup_of(kv, attend))->fingerprint(), "KV element or attention");
  }
  Setup other = setup_of(Kv::float32);
  other.weights = 6;
  is_new(make_engine(other)->fingerprint(), "the weights");
  const auto of = [](const ModelConfig& config) {
    return Engine<Gpt2>(random_checkpoint(config, 5), EngineOptions{.threads = 1}).fingerprint();
  };
  is_new(of(tiny()), "the head's format");
  const auto with = [&](auto&& change, const char* what) {
    ModelConfig config = tiny();
    change(config);
    is_new(of(config), what);
  };
  // None of these changes a weight.
  with([](ModelConfig& c) { c.norm_epsilon = 1e-6f; }, "norm_epsilon");
  with([](ModelConfig& c) { c.activation = Activation::gelu; }, "activation");
  with([](ModelConfig& c) { c.scale_scores = false; }, "scale_scores");
  with([](ModelConfig& c) { c.scale_scores_by_layer = true; }, "scale_scores_by_layer");
  with([](ModelConfig& c) { c.heads = c.kv_heads = 5, c.head_dim = 12; }, "heads");
  with([](ModelConfig& c) { c.layers = 1; }, "layers");
  with([](ModelConfig& c) { c.tied_head = false; }, "tied_head");
}

// As docs/promise.md shows it.
BOOST_AUTO_TEST_CASE(users_can_verify_it) {
  const char* const folder = TENON_SOURCE_DIR "/examples/models/tales";
  // [verify]
  const auto files = tenon::load_checkpoint(folder);
  tenon::Engine<tenon::Gpt2> quiet(files);
  tenon::Engine<tenon::Gpt2, tenon::Cache<tenon::ContiguousKV>> busy(files, {.token_budget = 7, .threads = 1});
  const tenon::Request mine{.prompt = "Once upon a time",
                            .options = {.temperature = 0.8f, .seed = 5, .logits_hash = true}};
  const auto alone = quiet.complete(mine);
  const auto together = busy.complete({{.prompt = "The rain in Spain"}, mine, {.prompt = "Alice"}})[1];
  const bool comparable = quiet.fingerprint() == busy.fingerprint();
  const bool equal = alone.ids == together.ids && alone.logits_hash == together.logits_hash;
  // [/verify]
  BOOST_TEST(comparable);
  BOOST_TEST(equal);
  BOOST_TEST(alone.logits_hash.has_value());
}

// ---------------------------------------------------------------- the list of sizes

namespace {

struct Threshold {
  std::string where;
  int value;
};

// Constants by name, and numbers that a count of rows, tokens or positions is compared with. Not columns: how wide rows
// are, a model says, and tests/ops try; nor candidates, which are rows of the vocabulary.
std::vector<Threshold> thresholds_in(const std::string& source, const std::string& file) {
  std::vector<Threshold> found;
  const auto all = [&](const std::string& text, const std::string& pattern) {
    const std::regex regex(pattern);
    for (auto i = std::sregex_iterator(text.begin(), text.end(), regex); i != std::sregex_iterator(); ++i) {
      const std::string name = (*i)[1].str();
      if (!name.ends_with("Columns") && !name.ends_with("Candidates"))
        found.push_back({file + ": " + name, std::stoi((*i)[2].str())});
    }
  };
  std::string line;
  std::istringstream lines(source);
  while (std::getline(lines, line)) {
    line = line.substr(0, line.find("//"));
    if (line.find("constexpr") != std::string::npos) all(line, R"(\b(k[A-Z]\w*) = (\d+)\s*[,;])");
    all(line, R"(\b(\w+_(?:rows|tokens|queries|positions)) = (\d+)\s*[,;])");
    all(line, R"(\b(rows|tokens|count|positions|seen|length|lanes)\b(?:\(\))? (?:<|<=|>|>=|==|!=) (\d+)\b)");
  }
  return found;
}

bool is_tested(int size) { return std::find(kSizes.begin(), kSizes.end(), size) != kSizes.end(); }

// Whether both sides of it are tested: a step of `value` rows, one fewer and one more.
bool is_tested(const Threshold& t) {
  return t.value == 0 || ((t.value == 1 || is_tested(t.value - 1)) && is_tested(t.value) && is_tested(t.value + 1));
}

std::vector<Threshold> thresholds_of_the_library() {
  const std::filesystem::path include = std::filesystem::path(TENON_SOURCE_DIR) / "include/tenon";
  std::vector<std::filesystem::path> files = {include / "core/concepts.h", include / "engine/picker.h",
                                              include / "model/decoder.h", include / "device/cpu_tuning.h"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(include / "ops/cpu")) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::vector<Threshold> all;
  for (const auto& file : files) {
    std::ifstream in(file);
    const std::string source{std::istreambuf_iterator<char>(in), {}};
    BOOST_REQUIRE(!source.empty());
    for (const Threshold& t : thresholds_in(source, file.filename().string())) all.push_back(t);
  }
  return all;
}

}  // namespace

// Who adds a path for steps, tiles or texts of some size adds the size to kSizes.
BOOST_AUTO_TEST_CASE(the_sizes_hold_both_sides_of_every_threshold) {
  const auto thresholds = thresholds_of_the_library();
  for (const Threshold& t : thresholds)
    BOOST_TEST(is_tested(t), t.where << " " << t.value << " is not among kSizes with both its neighbours");
  // The search finds what there is.
  std::set<std::string> names;
  for (const Threshold& t : thresholds) names.insert(t.where);
  for (const char* name : {"concepts.h: kTilePositions",
                           "kernel_types.h: kSplitPositions",
                           "attention.inc: kStride",
                           "attention.h: kAttentionRows",
                           "picker.h: kRows",
                           "avx512.inc: kTokens",
                           "avx512.inc: kWideTokens",
                           "avx512.inc: kLoneTokens",
                           "avx512.inc: kQueries",
                           "avx2.inc: kTokens",
                           "portable.inc: kTokens",
                           "rows.h: rows",
                           "linear.h: tokens",
                           "dot_zmm.inc: kDotTokens",
                           "dot_zmm.inc: kDotWideTokens",
                           "dot_avx2.inc: kDotTokens",
                           "dot_zmm.inc: kGroupTokens",
                           "dot_zmm.inc: kGroupWideTokens",
                           "dot_amx.inc: kTileTokens",
                           "dot_portable.inc: kDotTokens",
                           "attention.inc: positions",
                           "cpu_tuning.h: low_rank_rows",
                           "cpu_tuning.h: least_prefetch_rows",
                           "cpu_tuning.h: most_prefetch_rows",
                           "cpu_tuning.h: top_k_rows",
                           "avx512.inc: kFactorTile"}) {
    BOOST_TEST(names.contains(name), name << " was not found");
  }
  for (const int tokens :
       {cpu::portable::kTokens, cpu::kAttentionRows, cpu::kSplitPositions, cpu::portable::kStride, kTilePositions}) {
    BOOST_TEST((is_tested(tokens) && is_tested(tokens - 1) && is_tested(tokens + 1)));
  }
  // Steps of rows that fill several tiles, and one more.
  for (const Threshold& t : thresholds) {
    if (!t.where.ends_with("Tokens")) continue;
    for (const int rows : {2 * t.value - 1, 2 * t.value, 2 * t.value + 1})
      BOOST_TEST(is_tested(rows), rows << " rows, of tiles of " << t.where);
  }
}

BOOST_AUTO_TEST_CASE(a_new_threshold_is_found) {
  const auto missing = [](const std::string& source) {
    const auto found = thresholds_in(source, "new.h");
    return found.size() == 1 && !is_tested(found[0]);
  };
  BOOST_TEST(missing("inline constexpr int kFast = 40;\n"));
  BOOST_TEST(missing("  static constexpr int kFew = 70, kMany = other;\n"));
  BOOST_TEST(missing("  int least_rows = 70;\n"));
  BOOST_TEST(missing("  if (args.x.rows < 100) return wide(args);\n"));
  BOOST_TEST(missing("  const int strips = args.batch.rows >= 384 ? 1024 : 256;\n"));
  BOOST_TEST(!missing("  if (args.x.rows < 64) return wide(args);\n"));
  BOOST_TEST(!missing("  // rows < 100 are slower\n"));
  BOOST_TEST(!missing("inline constexpr int kSumColumns = 65536;\n"));
}

BOOST_AUTO_TEST_SUITE_END()
