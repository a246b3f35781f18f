// Time to the first token of one long text under several adapters in turn: activated LoRAs, which share the plain
// model's prefix, and plain LoRAs, each of which reads the text anew.
//   bench_activated_adapters DIR    a folder of a Llama, as bench/peers/make_llama_like.py writes it
// Prints one JSON line for each kind.
#include <tenon/tenon.h>
#include <tenon/testing/random_adapter.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using namespace tenon;

constexpr int kAdapters = 8, kTokens = 2000, kThreads = 2;
const std::vector<TokenId> kInvocation = {17, 5, 140};

struct Answer {
  double ms;
  std::vector<TokenId> ids;
  std::uint64_t hash;
};

Answer ask(Engine<Llama>& engine, const std::string& adapter) {
  std::vector<TokenId> ids;
  for (int i = 0; i < kTokens; ++i) ids.push_back(i * 7919 % 40'000 + 200);
  ids.insert(ids.end(), kInvocation.begin(), kInvocation.end());
  Request request{.input_ids = std::move(ids),
                  .options = {.max_new_tokens = 1, .ignore_eos = true, .logits_hash = true}};
  if (!adapter.empty()) {
    request.adapters = {{adapter}};
    request.lease = engine.lease(request.adapters);  // the adapter is in memory before the clock starts
  }
  const auto begin = std::chrono::steady_clock::now();
  const Completion done = engine.complete(request);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  if (!done.error.empty()) throw std::runtime_error(done.error);
  return {took.count(), done.ids, done.logits_hash.value()};
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIR\n", argv[0]);
    return 2;
  }
  const ModelFiles files = load_checkpoint(argv[1]);
  const ModelConfig config = Llama::configure(*files.config);
  const AdapterSites sites = adapter_sites(Llama::tensors(config), Llama::name_prefix, files.tensors);
  const auto root = std::filesystem::temp_directory_path() / "tenon-activated-adapters";
  for (const bool activated : {true, false}) {
    Engine<Llama> engine(files, EngineOptions{.threads = kThreads});
    const double text_ms = ask(engine, "").ms;  // the base reads the text once
    std::vector<double> ms;
    int equal = 0;
    for (int i = 0; i < kAdapters; ++i) {
      const auto folder = root / std::to_string(i);
      testing::write_adapter(
          folder, sites.sites,
          {.seed = static_cast<std::uint64_t>(i), .invocation = activated ? kInvocation : std::vector<TokenId>{}});
      const Answer shared = ask(engine, folder.string());
      ms.push_back(shared.ms);
      Engine<Llama> fresh(files, EngineOptions{.threads = kThreads, .prefix_reuse = false});
      const Answer alone = ask(fresh, folder.string());
      equal += shared.ids == alone.ids && shared.hash == alone.hash;
    }
    const nlohmann::json row = {{"adapters", activated ? "activated" : "plain"},
                                {"tokens", kTokens},
                                {"base_ms", text_ms},
                                {"first_token_ms", ms},
                                {"prefix_hit_tokens", engine.stats().prefix_hit_tokens},
                                {"equal_alone", equal}};
    std::printf("%s\n", row.dump().c_str());
  }
  std::filesystem::remove_all(root);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
