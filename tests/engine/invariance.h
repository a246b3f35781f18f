// Shared by the tests of the promise: small models of odd widths, engines of every kind, random requests, a way to run
// them, and the comparison, which counts the bits that differ.
#pragma once
#include <tenon/tenon.h>

#include <array>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "differences.h"
#include "known_texts.h"
#include "random_requests.h"
#include "tenon/cache/any_cache.h"
#include "tenon/schedule/fair.h"

namespace tenon::invariance {

// Rows of a step, tokens of a text and of a chunk: every place where the code takes another path, and both sides of it
// (invariance.cpp reads the places from the sources).
inline constexpr std::array kSizes = {1,   2,   3,   4,   5,   6,   7,   8,   9,   11,  12,  13,  15,  16,
                                      17,  23,  24,  25,  31,  32,  33,  47,  48,  49,  63,  64,  65,  127,
                                      128, 129, 191, 192, 193, 255, 256, 257, 319, 320, 321, 511, 512, 513};
static_assert(kSizes.back() == kLongest);

// ---- models and engines

// Layers, heads and widths that are no multiples of anything.
inline ModelConfig tiny(int shape = 0) {
  ModelConfig c = Gpt2::small();
  const auto sizes = [&](int layers, int heads, int head_dim, int inner, int vocab) {
    c.layers = layers;
    c.heads = c.kv_heads = heads;
    c.head_dim = head_dim;
    c.hidden = heads * head_dim;
    c.inner = inner;
    c.vocab = vocab;
  };
  if (shape == 1) {
    sizes(2, 2, 7, 33, 131);
    c.tied_head = false;
    c.activation = Activation::gelu;
    c.scale_scores_by_layer = true;
  } else if (shape == 2) {
    sizes(2, 1, 80, 48, 67);
    c.scale_scores = false;
  } else if (shape == 3) {
    sizes(3, 4, 16, 64, 96);
  } else {
    sizes(2, 3, 20, 100, 77);
  }
  c.positions = 640;
  c.eos = {3};
  return c;
}
inline constexpr int kShapes = 4;

// The embedding of kPoison reads as NaN: all that its text computes from there on is NaN, and lies in the cache for
// those who get its place. As an output it is a token like any other.
struct PoisonedHead : Float32 {
  struct View : Float32::View {
    View() = default;
    explicit View(const Float32::View& whole) : Float32::View(whole) {}
    float at(int row, int col) const {
      return row == kPoison ? std::numeric_limits<float>::quiet_NaN() : Float32::View::at(row, col);
    }
  };
  static View view(Shape shape, std::span<const std::byte> stored) { return View(Float32::view(shape, stored)); }
};

// EngineOptions choose no instruction set: a device of the tests' own does.
class ChosenCpu : public Cpu {
 public:
  ChosenCpu() : Cpu(next) {}
  static inline CpuOptions next;
};

using Kv = KvType;
enum class Attend { flash, direct };
using Keep = CacheKind;

inline constexpr std::array kKvs = {Kv::float32, Kv::bfloat16, Kv::int8};
inline constexpr std::array kAllKvs = {Kv::float32, Kv::bfloat16, Kv::float16, Kv::int8};
inline constexpr std::array kAttends = {Attend::flash, Attend::direct};
inline constexpr std::array kKeeps = {Keep::none, Keep::contiguous, Keep::paged16, Keep::paged32, Keep::paged64};

inline std::string to_string(Kv kv) {
  return std::array{"float32", "bfloat16", "float16", "int8"}[static_cast<std::size_t>(kv)];
}
inline std::string to_string(Attend attend) { return attend == Attend::direct ? "direct" : "flash"; }
inline std::string to_string(Keep cache) {
  return std::array{
      "paged 16", "paged 32", "paged 64", "contiguous", "window", "none"}[static_cast<std::size_t>(cache)];
}
inline bool is_paged(Keep cache) { return cache >= Keep::paged16 && cache <= Keep::paged64; }
inline int block_of(Keep cache) { return cache == Keep::paged64 ? 64 : cache == Keep::paged32 ? 32 : 16; }

struct Setup {
  // Decide the bits:
  int shape = 0;
  std::uint64_t weights = 5;
  Kv kv = Kv::float32;
  Attend attend = Attend::flash;
  // Must not:
  Keep cache = Keep::paged16;
  AnyScheduler scheduler = SequentialPolicy{};
  EngineOptions options = {.threads = 1, .draft_tokens = 0};
  Isa isa = best_isa();
  AnyLoRA::Kind lora = AnyLoRA::Kind::segmented;  // of engines that have adapters
};

inline std::string to_string(const Setup& s) {
  const EngineOptions& o = s.options;
  return to_string(s.kv) + " " + to_string(s.attend) + " " + to_string(s.cache) + " shape " + std::to_string(s.shape) +
         " budget " + std::to_string(o.token_budget) + " cache_tokens " + std::to_string(o.cache_tokens) + " reuse " +
         std::to_string(o.prefix_reuse) + " threads " + std::to_string(o.threads) + " guesses " +
         std::to_string(o.draft_tokens) + " " + tenon::to_string(s.isa);
}

// Sizes of a model that divide nothing, for families that need no heads that divide the width.
inline ModelConfig small(ModelConfig c, int heads, int kv_heads, int head_dim) {
  c.layers = 2;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.head_dim = head_dim;
  c.hidden = heads * head_dim + 4;
  c.inner = 50;
  c.vocab = 77;
  c.positions = 640;
  c.window = 0;
  c.rotary = {};
  c.eos = {3};
  return c;
}

using Factory = std::unique_ptr<AnyEngine> (*)(const Setup&);

template <class AttentionP, class CacheP, class Model = Gpt2>
std::unique_ptr<AnyEngine> make(const Setup& s, const ModelConfig& config) {
  using E = Engine<Model, Scheduler<AnyScheduler>, Cache<CacheP>, Attention<AttentionP>, Head<PoisonedHead>,
                   Draft<KnownTexts>, Device<ChosenCpu>>;
  ChosenCpu::next = {.threads = s.options.threads, .isa = s.isa};
  EngineOptions options = s.options;
  if constexpr (ChoosesElement<typename CacheP::View>) options.cache_element = s.kv;
  if constexpr (ChoosesCache<CacheP>) options.cache_kind = s.cache;
  AttentionP attention;
  if constexpr (std::is_same_v<AttentionP, AnyAttention>) attention.direct = s.attend == Attend::direct;
  return std::make_unique<EngineBox<E>>(random_checkpoint(config, s.weights), s.scheduler, attention, options);
}
template <class AttentionP, class CacheP>
std::unique_ptr<AnyEngine> make(const Setup& s) {
  return make<AttentionP, CacheP>(s, tiny(s.shape));
}

template <class AttentionP, class Element>
std::unique_ptr<AnyEngine> make_with_cache(const Setup& s) {
  switch (s.cache) {
    case Keep::none:
      return make<AttentionP, NoCacheOf<Element>>(s);
    case Keep::contiguous:
      return make<AttentionP, ContiguousKVOf<Element>>(s);
    case Keep::paged16:
      return make<AttentionP, PagedKVOf<16, Element>>(s);
    case Keep::paged32:
      return make<AttentionP, PagedKVOf<32, Element>>(s);
    case Keep::paged64:
      return make<AttentionP, PagedKVOf<64, Element>>(s);
    case Keep::window:
      break;  // GPT-2 has none: families.h
  }
  return nullptr;
}

// Any of the engines, which choose cache, element and attention at run time (any_cache.cpp).
template <class = void>
std::unique_ptr<AnyEngine> make_engine(const Setup& s) {
  return make<AnyAttention, AnyKV>(s);
}

// The reference: nothing is kept, one request at a time, each in one piece, by one thread.
inline Setup alone_in(Setup s) {
  s.cache = Keep::none;
  s.scheduler = SequentialPolicy{};
  s.options = {.token_budget = 1 << 20, .batch = 1, .threads = 1};
  s.options.prefix_reuse = false;
  s.isa = best_isa();
  return s;
}

// ---- running

// Collects the answers of an engine, in the order in which the requests were submitted.
class Run {
 public:
  explicit Run(AnyEngine& engine) : engine_(engine) {}

  void submit(const Request& request) {
    with_logprobs_.push_back(request.options.top_logprobs >= 0);
    answers_.emplace_back();
    ids_.push_back(engine_.submit(request));
    open_.emplace(ids_.back(), ids_.size() - 1);
  }

  void step() {
    const auto events = engine_.step();
    if (events.empty() && ++silent_ > 1'000'000) throw std::runtime_error("a million steps without an event");
    if (!events.empty()) silent_ = 0;
    for (const Event& event : events) {
      const std::size_t i = open_.at(event.request);
      if (answers_[i].add(event, with_logprobs_[i])) open_.erase(event.request);
    }
  }

  bool done() const { return open_.empty(); }
  std::size_t submitted() const { return ids_.size(); }
  bool open(std::size_t i) const { return open_.contains(ids_[i]); }
  RequestId id(std::size_t i) const { return ids_[i]; }
  std::vector<Completion>& answers() { return answers_; }

 private:
  AnyEngine& engine_;
  std::vector<Completion> answers_;
  std::vector<bool> with_logprobs_;
  std::vector<RequestId> ids_;
  std::unordered_map<RequestId, std::size_t> open_;
  int silent_ = 0;
};

inline std::vector<Completion> run_all(AnyEngine& engine, const std::vector<Request>& requests) {
  Run run(engine);
  for (const Request& request : requests) run.submit(request);
  engine.set_draining(true);
  while (!run.done()) run.step();
  return std::move(run.answers());
}

// Each of several choices is run as a request of its own.
inline Completion alone(AnyEngine& reference, const Request& request) {
  const Options& o = request.options;
  if (o.n == 1 || o.best_of > o.n) return std::move(run_all(reference, {request}).front());
  Completion all;
  for (int choice = 0; choice < o.n; ++choice) {
    Request one = request;
    one.options.n = 1;
    one.options.best_of = 0;
    one.options.seed = choice_seed(o.seed, choice);
    if (choice > 0) {
      one.options.logits_at.clear();
      one.options.nll = false;
      one.options.prompt_logprobs = -1;
    }
    Completion answer = std::move(run_all(reference, {one}).front());
    if (choice == 0)
      all = std::move(answer);
    else
      all.others.push_back(std::move(answer));
  }
  return all;
}

inline std::vector<Completion> each_alone(const Setup& like, const std::vector<Request>& requests, Factory factory) {
  const auto reference = factory(alone_in(like));
  std::vector<Completion> answers;
  for (const Request& request : requests) answers.push_back(alone(*reference, request));
  return answers;
}

}  // namespace tenon::invariance
