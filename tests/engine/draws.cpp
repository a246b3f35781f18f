// A device that prepares rows for a draw gives the answers of one that hands them over whole.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <memory>
#include <vector>

#include "../core/random.h"
#include "../ops/draw_reference.h"
#include "tenon/tenon.h"
#include "tiny.h"

namespace tenon::test {

// A CPU that does what a GPU does, and counts the rows; `spoiled` makes it wrong.
struct DrawingCpu : Cpu {
  using Cpu::Cpu;
  static inline int drawn = 0, heads = 0;
  static inline bool spoiled = false;
};

template <class W>
void head_draw(DrawingCpu& device, const HeadDrawArgs<W>& args) {
  std::vector<float> logits(static_cast<std::size_t>(args.hidden.rows) * static_cast<std::size_t>(args.vocab));
  head(static_cast<Cpu&>(device),
       HeadArgs<W>{args.hidden, args.weight, {logits.data(), args.hidden.rows, args.vocab, args.vocab}});
  for (int r = 0; r < args.hidden.rows; ++r) {
    const auto i = static_cast<std::size_t>(r);
    args.best[i].clear();
    if (args.draws[i].best == 0) continue;
    ++DrawingCpu::drawn;
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(i) * args.vocab;
    Drawn found = test::drawn(std::vector<float>(begin, begin + args.vocab), args.draws[i], args);
    args.best[i] = std::move(found.best);
    args.totals[i] = DrawingCpu::spoiled ? found.total / 2 : found.total;
    if (args.draws[i].log_total) args.log_totals[i] = DrawingCpu::spoiled ? found.log_total / 2 : found.log_total;
  }
}
template <class W>
void head(DrawingCpu& device, const HeadArgs<W>& args) {
  DrawingCpu::heads += args.hidden.rows;
  head(static_cast<Cpu&>(device), args);
}

}  // namespace tenon::test

BOOST_AUTO_TEST_SUITE(engine_draws)

using namespace tenon;
using test::DrawingCpu;

namespace {

// Requests of every kind; some need whole rows.
std::vector<Request> requests() {
  test::Random random(5);
  std::vector<Request> all;
  for (int i = 0; i < 40; ++i) {
    Request request;
    for (int t = 0; t < 3 + i % 9; ++t) request.input_ids.push_back(random.below(300));
    Options& o = request.options;
    o = {.max_new_tokens = 10,
         .temperature = i % 4 == 0 ? 0.0f : 0.5f + 0.05f * static_cast<float>(i),
         .seed = static_cast<std::uint64_t>(i)};
    o.top_k = i % 5 == 1 ? 3 : 0;
    o.top_p = i % 3 == 1 ? 0.8f : 1.0f;
    if (i % 4 == 2) o.repetition_penalty = 1.4f;
    if (i % 6 == 3) o.presence_penalty = 0.5f, o.frequency_penalty = 0.2f;
    if (i % 7 == 4) o.logit_bias = {{5, 2.0f}, {250, -100.0f}};
    if (i % 8 == 5) o.min_new_tokens = 4;
    o.ignore_eos = i % 2 == 0;
    if (i % 5 < 3) o.top_logprobs = std::array{0, 2, 20, 200, 256, 257, 301}[static_cast<std::size_t>(i % 7)];
    if (i % 13 == 7) o.prompt_logprobs = 1;
    if (i % 17 == 8) o.logits_hash = true;
    all.push_back(std::move(request));
  }
  return all;
}

template <class D>
std::vector<Completion> run(int batch) {
  Engine<Gpt2, Device<D>> engine{
      random_checkpoint(tiny_gpt2(), 9), ContinuousPolicy{.max_batch = batch}, {.threads = 2}};
  return engine.complete(requests());
}

bool alike(const std::vector<Completion>& a, const std::vector<Completion>& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) {
    same = a[i].error == b[i].error && a[i].ids == b[i].ids && a[i].logprobs == b[i].logprobs &&
           a[i].logits_hash == b[i].logits_hash && a[i].top_logprobs.size() == b[i].top_logprobs.size();
    for (std::size_t t = 0; same && t < a[i].top_logprobs.size(); ++t) {
      const auto equal = [](const TokenLogprob& x, const TokenLogprob& y) {
        return x.id == y.id && x.logprob == y.logprob;
      };
      same = std::ranges::equal(a[i].top_logprobs[t], b[i].top_logprobs[t], equal);
    }
  }
  return same;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_that_the_device_prepares_give_the_same_tokens) {
  const auto whole = run<Cpu>(40);
  for (const auto& each : whole) BOOST_TEST(each.error == "");
  for (const int batch : {1, 7, 40}) {
    DrawingCpu::drawn = 0;
    BOOST_TEST(alike(run<DrawingCpu>(batch), whole), "batch of " << batch);
    BOOST_TEST(DrawingCpu::drawn > 100);
  }
}

// Alone, a row that the device has prepared never leaves it.
BOOST_AUTO_TEST_CASE(a_row_that_is_decided_is_not_asked_for_again) {
  Engine<Gpt2, Device<DrawingCpu>> engine{
      random_checkpoint(tiny_gpt2(), 9), ContinuousPolicy{.max_batch = 4}, {.threads = 1}};
  DrawingCpu::heads = 0;
  engine.complete(Request{.input_ids = {1, 2, 3},
                          .options = {.max_new_tokens = 20, .temperature = 1, .top_p = 0.5f, .ignore_eos = true}});
  BOOST_TEST(DrawingCpu::heads == 0);
  for (const float temperature : {0.0f, 0.7f, 1.0f}) {  // nor with log-probabilities
    engine.complete(Request{
        .input_ids = {1, 2, 3},
        .options = {
            .max_new_tokens = 20, .temperature = temperature, .top_p = 0.5f, .ignore_eos = true, .top_logprobs = 5}});
  }
  BOOST_TEST(DrawingCpu::heads == 0);
  engine.complete(Request{.input_ids = {1, 2, 3},
                          .options = {.max_new_tokens = 5, .temperature = 1, .ignore_eos = true, .logits_hash = true}});
  BOOST_TEST(DrawingCpu::heads == 5);
}

// A flat row is drawn beyond its best 256 of 301: then, and only then, it comes whole.
BOOST_AUTO_TEST_CASE(a_walk_that_leaves_the_best_asks_for_the_row) {
  const Request request{.input_ids = {1, 2, 3},
                        .options = {.max_new_tokens = 60, .temperature = 50, .seed = 3, .ignore_eos = true}};
  Engine<Gpt2, Device<DrawingCpu>> engine{random_checkpoint(tiny_gpt2(), 9), {}, {.threads = 1}};
  DrawingCpu::heads = 0;
  const auto drawn = engine.complete(request);
  BOOST_TEST((DrawingCpu::heads > 0 && DrawingCpu::heads < 60), DrawingCpu::heads << " of 60");
  Engine<Gpt2, Device<Cpu>> whole{random_checkpoint(tiny_gpt2(), 9), {}, {.threads = 1}};
  BOOST_TEST(drawn.ids == whole.complete(request).ids);
}

// Where nothing is allowed the whole row says so, beside rows that are decided.
BOOST_AUTO_TEST_CASE(a_row_with_no_token_fails_as_on_any_device) {
  const auto run = [](auto engine) {
    std::vector<Request> all(
        3, Request{.input_ids = {1, 2, 3},
                   .options = {.max_new_tokens = 4, .temperature = 1, .top_p = 0.5f, .ignore_eos = true}});
    for (TokenId id = 0; id < 301; ++id)
      all[1].options.logit_bias.push_back({id, -std::numeric_limits<float>::infinity()});
    return engine->complete(all);
  };
  const auto drawn = run(std::make_unique<Engine<Gpt2, Device<DrawingCpu>>>(random_checkpoint(tiny_gpt2(), 9),
                                                                            EngineOptions{.threads = 1}));
  const auto whole =
      run(std::make_unique<Engine<Gpt2, Device<Cpu>>>(random_checkpoint(tiny_gpt2(), 9), EngineOptions{.threads = 1}));
  BOOST_TEST((alike(drawn, whole) && !whole[1].error.empty() && whole[0].error.empty() && whole[2].error.empty()),
             whole[1].error);
}

// The twin.
BOOST_AUTO_TEST_CASE(a_device_that_sums_up_wrongly_is_noticed) {
  DrawingCpu::spoiled = true;
  const auto wrong = run<DrawingCpu>(7);
  DrawingCpu::spoiled = false;
  const auto right = run<Cpu>(7);
  BOOST_TEST(!alike(wrong, right));
  const auto greedy = [](const std::vector<Completion>& all) {
    return std::vector(all.begin(), all.begin() + 1);
  };  // by its log-probabilities alone
  BOOST_TEST((wrong[0].ids == right[0].ids && !alike(greedy(wrong), greedy(right))));
}

BOOST_AUTO_TEST_SUITE_END()
