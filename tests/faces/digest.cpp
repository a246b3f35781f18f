// Prints one line per engine and per part of the library: its name and a hash of the bits of everything it answers.
// The tests faces.* compile this file with each face of the library and with the flags of different users, and
// compare what it prints. Usage: digest MODEL, a folder with adapters.
#include <tenon/tenon.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "tenon/core/exact_math.h"
#include "tenon/core/hash.h"
#include "tenon/engine/receipt.h"
#include "tenon/model/adapter_sites.h"
#include "tenon/model/alibi.h"
#include "tenon/model/rotary.h"
#include "tenon/ops/sincos.h"
#include "tenon/sample/logprobs.h"
#include "tenon/sample/sampler.h"
#include "tenon/testing/random_adapter.h"
#include "tenon/weights/store.h"

using namespace tenon;

namespace {

// A hash of everything that is added to it, in order.
class Digest {
 public:
  template <class T>
  void add(std::span<const T> values) {
    hash_ = hash64(std::as_bytes(values), hash_);
  }
  void add(const std::vector<float>& values) { add(std::span<const float>(values)); }
  void add(double value) { add(std::span<const double>(&value, 1)); }
  void add(float value) { add(std::span<const float>(&value, 1)); }
  void add(const std::string& text) { add(std::span<const char>(text)); }
  void add(const TokenLogprob& token) {
    add(std::span<const TokenId>(&token.id, 1));
    add(token.logprob);
  }
  void print(const char* name) const { std::printf("%-24s %016llx\n", name, static_cast<unsigned long long>(hash_)); }

 private:
  std::uint64_t hash_ = 0;
};

void add_answer(Digest& digest, const Choice& answer) {
  digest.add(std::span<const TokenId>(answer.ids));
  digest.add(answer.text);
  digest.add(answer.logprobs);
  for (const auto& tops : answer.top_logprobs)
    for (const TokenLogprob& top : tops) digest.add(top);
  const std::uint64_t logits = answer.logits_hash.value_or(0);
  digest.add(std::span<const std::uint64_t>(&logits, 1));
}

// Throws if the request failed, because two programs that fail alike would agree.
void add_completion(Digest& digest, const Completion& completion) {
  if (!completion.error.empty()) throw Error(Error::Kind::internal, "digest", completion.error);
  add_answer(digest, completion);
  for (const Choice& other : completion.others) add_answer(digest, other);
  if (!completion.scores) return;
  for (const auto& [position, logits] : completion.scores->logits) digest.add(logits);
  digest.add(completion.scores->nll_mean.value_or(0));
  for (const PromptLogprob& each : completion.scores->prompt) {
    digest.add(each.token);
    for (const TokenLogprob& top : each.top) digest.add(top);
  }
}

Request scored(std::vector<TokenId> prompt, int new_tokens, std::vector<AdapterUse> adapters = {}) {
  Request r{.input_ids = std::move(prompt), .adapters = std::move(adapters)};
  for (int i = 0; i < static_cast<int>(r.input_ids.size()); ++i) r.options.logits_at.push_back(i);
  r.options.max_new_tokens = new_tokens;
  r.options.ignore_eos = true;
  r.options.nll = true;
  r.options.top_logprobs = r.options.prompt_logprobs = 3;
  r.options.logits_hash = true;
  return r;
}

std::vector<TokenId> tokens(int count, int vocab, std::uint64_t seed) {
  std::vector<TokenId> out;
  for (int i = 0; i < count; ++i)
    out.push_back(static_cast<TokenId>(mix64(seed + static_cast<std::uint64_t>(i)) % static_cast<unsigned>(vocab)));
  return out;
}

// Greedy and sampled requests with every filter and penalty, and prompts of several lengths, for one batch.
std::vector<Request> requests(int vocab, const std::vector<std::vector<AdapterUse>>& adapters) {
  std::vector<Request> all;
  std::uint64_t seed = 0;
  for (const int length : {1, 7, 40}) {
    for (const auto& uses : adapters) {
      all.push_back(scored(tokens(length, vocab, 100 * ++seed), 6, uses));
      all.push_back(scored(tokens(length + 3, vocab, 100 * ++seed), 6, uses));
      Options& o = all.back().options;
      o.seed = seed;
      o.temperature = 0.8f;
      o.repetition_penalty = 1.1f;
      o.frequency_penalty = 0.3f;
      o.presence_penalty = 0.2f;
      if (length == 1) o.top_p = 0.9f;
      if (length == 7) o.min_p = 0.02f, o.top_k = 40;
      if (length == 40) o.typical_p = 0.8f, o.n = 2;
    }
  }
  return all;
}

template <class Engine>
void print_engine(const char* name, Engine&& engine, int vocab, const std::vector<std::vector<AdapterUse>>& adapters) {
  Digest digest;
  for (const Completion& completion : engine.complete(requests(vocab, adapters))) add_completion(digest, completion);
  digest.print(name);
  std::printf("%-24s %s\n", (std::string(name) + " fingerprint").c_str(), engine.fingerprint().c_str());
  Request receipted = requests(vocab, {{}}).at(1);
  receipted.options.receipt = true;
  const std::string receipt = hex_of(engine.complete(receipted).receipt->digest);
  std::printf("%-24s %s\n", (std::string(name) + " receipt").c_str(), receipt.c_str());
}

ModelConfig small_model(std::string_view type, int heads, int kv_heads) {
  const bool bloom = type == Bloom::model_type;
  ModelConfig c = bloom ? ModelConfig{} : llama_like(type);
  if (bloom) c.position_kind = PositionKind::alibi;
  c.model_type = type;
  c.layers = 2, c.hidden = 48, c.heads = heads, c.kv_heads = kv_heads, c.head_dim = 48 / heads, c.inner = 100;
  c.vocab = 203, c.positions = 96;
  return c;
}

// The plain C++ kernels, in which compilers may contract.
struct Portable : Cpu {
  static constexpr NumericClass<Portable> numeric_class{"exact"};
  explicit Portable(CpuOptions options = {}) : Cpu({.threads = options.threads, .isa = Isa::portable}) {}
};

// A variant of a user's own, compiled with the user's flags.
struct Clipped {
  static constexpr bool materialises_scores = false;
  static constexpr NumericClass<Clipped> numeric_class{"clipped"};
  float cap = 0.25f;
  float score(int, int, int head, float s) const { return s > cap ? cap : head == 1 ? -s : s; }
  bool mask(int query, int key) const { return query - key < 4 || key % 2 == 0; }
  std::array<float, 1> values() const { return {cap}; }
};

void print_engines(const std::string& model) {
  using Int8 = Engine<Gpt2, Scheduler<ContinuousPolicy>, Cache<PagedKV>, Weights<ZeroPointInt8>, Adapter<GatheredLoRA>>;
  const AdapterUse weather{model + "/adapters/weather"}, shakespeare{model + "/adapters/shakespeare", 0.37f};
  print_engine("gpt2.int8.gathered", Int8(load_checkpoint(model), {.threads = 2}), 4095,
               {{}, {weather}, {weather, shakespeare}});

  using Int4 = Engine<Bloom, Scheduler<StaticPolicy>, Cache<ContiguousKVOf<bfloat16>>, Weights<GroupInt4>,
                      Adapter<NoAdapter>, Attention<DirectAttention>, Device<Portable>>;
  print_engine("bloom.int4.portable", Int4(random_checkpoint(small_model(Bloom::model_type, 6, 6), 1)), 203, {{}});

  ModelConfig llama = small_model(Llama::model_type, 4, 2);
  llama.rotary = {RotaryScaling::llama3, 500, 8, 1, 4, 24};
  using Float8s = Engine<Llama, Cache<PagedKVOf<16, std::int8_t>>, Weights<Float8<E4M3>>, Adapter<SegmentedLoRA>>;
  const testing::RandomAdapters of_llama(adapter_sites(Llama::tensors(llama), Llama::name_prefix), Site::mlp_down);
  print_engine("llama.float8.segmented", Float8s(random_checkpoint(llama, 2)), 203, {{}, {{of_llama.folder(1, 5)}}});

  ModelConfig mistral = small_model(Mistral::model_type, 4, 1);
  mistral.activation = Activation::gelu;
  mistral.rotary = {RotaryScaling::none, 10000};
  mistral.window = 7;
  using Merged = Engine<Mistral, Scheduler<FairPolicy>, Cache<WindowKV>, Weights<Float32>, Adapter<MergedLoRA>,
                        Attention<Clipped>>;
  const testing::RandomAdapters of_mistral(adapter_sites(Mistral::tensors(mistral), Mistral::name_prefix), Site::qkv);
  print_engine("mistral.float32.merged",
               Merged(random_checkpoint(mistral, 3),
                      EngineOptions{.merged = {{of_mistral.folder(1, 7)}, {of_mistral.folder(2, 4), 0.3f}}}),
               203, {{}});
}

// Random numbers in [-reach, reach].
std::vector<float> random_floats(std::size_t count, float reach, std::uint64_t seed) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto whole = static_cast<std::int32_t>(mix64(seed + i) >> 40) - (1 << 23);
    out[i] = static_cast<float>(whole) * (reach / (1 << 23));
  }
  return out;
}

// Prints y = activation(W x + bias) + residual for every set of kernels that this processor supports.
template <class P>
void print_products(const char* name) {
  constexpr int kIn = 197, kOut = 83, kRows = 40;
  const auto weights = random_floats(std::size_t{kIn} * kOut, 0.4f, 1), bias = random_floats(kOut, 0.5f, 2);
  const auto x = random_floats(std::size_t{kIn} * kRows, 2.0f, 3),
             more = random_floats(std::size_t{kOut} * kRows, 1, 4);
  Digest digest;
  for (const Isa isa : kIsas) {
    if (!has_isa(isa)) continue;
    Cpu device({.threads = 1, .isa = isa});
    const Shape shape{kOut, kIn};
    WeightStore<P, Cpu> store(device, std::span<const Shape>(&shape, 1));
    const auto view = store.add(device, shape, [&](int first, int rows, float* out) {
      std::copy_n(weights.data() + std::ptrdiff_t{first} * kIn, std::ptrdiff_t{rows} * kIn, out);
    });
    for (const Activation activation : {Activation::none, Activation::gelu_new, Activation::gelu, Activation::silu}) {
      for (const int rows : {1, 5, kRows}) {
        std::vector<float> y(std::size_t{kOut} * static_cast<std::size_t>(rows));
        linear(device, LinearArgs<typename P::View>{.x = {x.data(), rows, kIn, kIn},
                                                    .weight = view,
                                                    .bias = bias.data(),
                                                    .activation = activation,
                                                    .residual = {more.data(), rows, kOut, kOut},
                                                    .y = {y.data(), rows, kOut, kOut}});
        digest.add(y);
      }
    }
  }
  digest.print((std::string("products ") + name).c_str());
}

template <WeightCode C>
void print_code() {
  constexpr int kRows = 300, kCols = 331;
  Digest digest;
  const std::vector<float> rows = random_floats(std::size_t{kRows} * kCols, 0.37f, 11);
  ValueRange range;
  range.add(rows);
  CodeBlock block;
  C::encode(kCols, rows, range, block);
  digest.add(std::span<const std::byte>(block.codes));
  digest.add(block.scales);
  digest.add(block.zero_points);
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kCols; ++c) digest.add(C::value(block, r, c));
  digest.print(std::string("code ").append(C::name).c_str());
}

void print_positions() {
  Digest rotary, slopes;
  for (const RotaryScaling scaling :
       {RotaryScaling::none, RotaryScaling::linear, RotaryScaling::dynamic, RotaryScaling::llama3}) {
    for (const double theta : {10000.0, 500000.0, 1e6}) {
      for (const double factor : {1.7, 8.0, 32.0}) {
        for (const int trained : {24, 1000, 8192}) {
          const RotaryConfig c{scaling, theta, factor, 1.1, 4.3, trained};
          for (const int dim : {8, 20, 64, 128}) rotary.add(rotary_frequencies(c, dim, 3 * trained));
        }
      }
    }
  }
  rotary.print("rotary");
  for (int heads = 1; heads <= 130; ++heads) slopes.add(alibi_slopes(heads));
  slopes.print("alibi");
}

void print_functions() {
  Digest digest;
  for (const float x : random_floats(20000, 95.0f, 3)) {
    digest.add(exact::exp(x));
    digest.add(exact::log(std::fabs(static_cast<double>(x))));
    const exact::SinCos angle = exact::sincos(static_cast<double>(x) * 1000);
    digest.add(angle.sine);
    digest.add(angle.cosine);
  }
  digest.print("functions");
}

void print_sampler() {
  Digest digest;
  Sampler sampler;
  const std::vector<TokenId> prompt = tokens(20, 1003, 5), generated = tokens(20, 1003, 6);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const std::vector<float> logits = random_floats(1003, 9.0f, 2000 * seed);
    Options o;
    o.seed = seed;
    o.temperature = 0.3f + 0.007f * static_cast<float>(seed);
    o.top_logprobs = 5;
    if (seed % 2 == 0) o.top_p = 0.93f;
    if (seed % 3 == 0) o.min_p = 0.013f;
    if (seed % 5 == 0) o.typical_p = 0.77f;
    if (seed % 7 == 0) o.repetition_penalty = 1.13f, o.frequency_penalty = 0.31f, o.presence_penalty = 0.21f;
    const Pick pick = sampler.sample({logits, prompt, generated, o, static_cast<int>(seed)});
    digest.add(std::span<const TokenId>(&pick.token, 1));
    digest.add(pick.logprob);
    for (const TokenLogprob& top : pick.top) digest.add(top);
    digest.add(log_sum_exp(logits));
  }
  digest.print("sampler");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  print_functions();
  print_positions();
  print_sampler();
  print_code<Int8Code<PerRow>>();
  print_code<Int8Code<PerTensor>>();
  print_code<Int4Code<32>>();
  print_code<Int4Code<128>>();
  print_code<GroupInt8Code>();
  print_code<NormalFloat4Code>();
  print_code<Float8Code<E4M3>>();
  print_code<Float8Code<E5M2>>();
  print_products<Float32>("float32");
  print_products<ZeroPointInt8>("int8");
  print_products<GroupInt4>("int4");
  print_products<GroupInt8>("int8_group32");
  print_products<NormalFloat4>("nf4");
  print_products<Float8<E4M3>>("float8");
  print_products<ZeroPointInt8Act8>("int8_act8");
  print_engines(argv[1]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "FAIL: %s\n", error.what());
  return 1;
}
