// Adapters come and go under streams: a thousand times names are replaced and unloaded while eight clients send
// requests. One request in five names a malformed adapter: a rank of 0, a file cut short, shapes of another rank, a
// value that is NaN. Every answer is that of the version it began with, and all memory comes back.
#include <boost/test/unit_test.hpp>

#include <malloc.h>

#include <atomic>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "../io/scratch.h"
#include "tenon/tenon.h"
#include "tenon/testing/process_memory.h"
#include "tenon/testing/random_adapter.h"
#include "tiny.h"

BOOST_AUTO_TEST_SUITE(engine_adapter_churn)

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr int kNames = 6, kVersions = 2, kClients = 8, kCycles = 1000, kMalformed = 4;

[[maybe_unused]] double resident_after_trim() {
  ::malloc_trim(0);
  return testing::resident_megabytes();
}

Request request(std::uint64_t draw) {
  return {.input_ids = {static_cast<TokenId>(draw % 7), 3, 1},
          .options = {.max_new_tokens = 3, .ignore_eos = true, .logits_hash = true}};
}

class Churn {
 public:
  Churn() : files_(random_checkpoint(tiny_gpt2(), 1)) {
    const auto sites = adapter_sites(Gpt2::tensors(tiny_gpt2()), Gpt2::name_prefix).sites;
    for (int n = 0; n < kNames * kVersions; ++n) {
      testing::write_adapter(folder(n), sites,
                             {.rank = 1 + n, .alpha = 4.0 * (1 + n), .seed = static_cast<std::uint64_t>(n)});
    }
    for (int n = 0; n < kMalformed; ++n) testing::write_adapter(bad(n), sites, {.rank = 2, .seed = 1});
    std::ofstream(bad(0) / "adapter_config.json") << R"({"peft_type": "LORA", "r": 0})";
    const auto cut = bad(1) / "adapter_model.safetensors";
    std::filesystem::resize_file(cut, std::filesystem::file_size(cut) / 2);
    testing::write_adapter(scratch_ / "wide", sites, {.rank = 3, .seed = 1});
    std::filesystem::copy_file(scratch_ / "wide/adapter_config.json", bad(2) / "adapter_config.json",
                               std::filesystem::copy_options::overwrite_existing);
    std::fstream values(bad(3) / "adapter_model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    values.seekp(-2, std::ios::end).write("\xff\x7f", 2);  // NaN
    Engine<Gpt2> alone(files_, EngineOptions{.threads = 1, .prefix_reuse = false});
    for (int n = 0; n < kNames * kVersions; ++n) {
      for (std::uint64_t draw = 0; draw < 7; ++draw) {
        Request r = request(draw);
        r.lease = lease(alone, folder(n).string());
        const std::string identity = r.lease.identity;
        truth_[{identity, draw}] = *alone.complete(r).logits_hash;
      }
    }
  }

  // Clients that answer while names change; returns how many answers were wrong.
  int run(int cycles) {
    auto owned = std::make_unique<Engine<Gpt2>>(
        files_,
        EngineOptions{
            .threads = 1,
            .adapters = {.count = kClients + 2, .remember_failures = {}, .folder_of = [this](const std::string& name) {
                           return name.starts_with("bad") ? scratch_ / name : folder(std::stoi(name) * kVersions);
                         }}});
    Engine<Gpt2>& engine = *owned;
    Service<Engine<Gpt2>> service(std::move(owned));
    std::atomic<int> wrong = 0, malformed = 0, answered = 0;
    std::atomic<bool> done = false;
    std::vector<std::thread> clients;
    for (int c = 0; c < kClients; ++c) {
      clients.emplace_back([&, c] {
        for (std::uint64_t i = 0; !done; ++i) {
          const std::uint64_t draw = mix64(static_cast<std::uint64_t>(c) << 32 | i);
          Request r = request(draw % 7);
          try {
            r.lease = lease(engine, draw % 5 == 0 ? bad(static_cast<int>(draw / 5 % kMalformed)).filename().string()
                                                  : std::to_string(draw / 7 % kNames));
            if (draw % 5 == 0) ++wrong;
            const auto expected = truth_.find({r.lease.identity, draw % 7});
            auto stream = service.submit(std::move(r));
            std::optional<std::uint64_t> hash;
            while (auto event = stream.next()) hash = event->logits_hash ? event->logits_hash : hash;
            if (expected == truth_.end() || hash != expected->second) ++wrong;
            ++answered;
          } catch (const Error& error) {
            if (draw % 5 == 0)
              ++malformed;
            else if (error.kind() != Error::Kind::overloaded)
              ++wrong;
          }
        }
      });
    }
    for (int i = 0, changes = 0; changes < cycles; ++i) {
      while (answered <= i)
        std::this_thread::sleep_for(std::chrono::microseconds(100));  // streams are what it is about
      changes += change(engine, i);
    }
    done = true;
    for (auto& client : clients) client.join();
    service.drain();
    for (int n = 0; n < kNames; ++n) engine.adapters().unload(std::to_string(n));
    BOOST_TEST(engine.adapters().stats().versions == 0);
    BOOST_TEST(engine.adapters().stats().bytes == 0u);
    BOOST_TEST(answered > 0);
    BOOST_TEST(malformed > 0);
    return wrong;
  }

 private:
  // Unloads or replaces some adapter. Returns how many have changed.
  int change(Engine<Gpt2>& engine, int i) const {
    const int name = static_cast<int>(mix64(static_cast<std::uint64_t>(i)) % kNames);
    if (i % 3 == 0) return engine.adapters().unload(std::to_string(name));
    int changes = 0;
    for (const AdapterInfo& info : engine.adapters().list()) {
      if (info.name != std::to_string(name)) continue;
      try {
        engine.adapters().replace(info.name, folder(name * kVersions + i % kVersions), info.digest);
        ++changes;
      } catch (const Error&) {  // another client was sooner, or there is no room while all are in use
      }
    }
    return changes;
  }

  std::filesystem::path folder(int n) const { return scratch_ / ("a" + std::to_string(n)); }
  std::filesystem::path bad(int n) const { return scratch_ / ("bad" + std::to_string(n)); }

  static AdapterLease lease(Engine<Gpt2>& engine, const std::string& name) {
    const AdapterUse use{name};
    return engine.lease({&use, 1});
  }

  Scratch scratch_;
  ModelFiles files_;
  std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> truth_;  // hash of logits by identity and prompt
};

}  // namespace

BOOST_AUTO_TEST_CASE(answers_are_those_of_the_version_they_began_with_and_memory_comes_back) {
  Churn churn;
  BOOST_TEST(churn.run(kCycles / 10) == 0);
  [[maybe_unused]] const double before = resident_after_trim();
  BOOST_TEST(churn.run(kCycles) == 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  BOOST_TEST(resident_after_trim() - before < 2.1);
#endif
}

BOOST_AUTO_TEST_SUITE_END()
