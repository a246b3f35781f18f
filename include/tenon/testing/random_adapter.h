/// LoRA adapters with random factors, in PEFT's files: for benchmarks and tests.
#pragma once
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "tenon/adapter/site.h"
#include "tenon/checkpoint/safetensors_writer.h"
#include "tenon/core/hash.h"

namespace tenon::testing {

/// Parameters of a random adapter.
struct RandomAdapter {
  int rank = 16;
  double alpha = 16;
  std::uint64_t seed = 0;                     ///< factors are drawn from it, in -1/8 .. 1/8
  std::vector<std::int32_t> invocation = {};  ///< alora_invocation_tokens; empty: a plain LoRA
};

/// Writes an adapter, in float32, that updates all of `sites`. Makes the folder.
inline void write_adapter(const std::filesystem::path& folder, std::span<const AdapterSite> sites,
                          const RandomAdapter& adapter) {
  std::filesystem::create_directories(folder);
  std::vector<TensorPlan> plans;
  std::string targets;
  const auto size = [](int n) { return static_cast<std::uint64_t>(n); };
  for (const AdapterSite& site : sites) {
    const std::string name = "base_model.model." + site.module.path;
    plans.push_back({name + ".lora_A.weight", DType::f32, {size(adapter.rank), size(site.module.inputs)}});
    plans.push_back({name + ".lora_B.weight", DType::f32, {size(site.module.outputs), size(adapter.rank)}});
    targets += (targets.empty() ? "\"" : ", \"") + site.module.path + "\"";
  }
  SafetensorsWriter writer(folder / "adapter_model.safetensors", plans, {});
  std::uint64_t draw = mix64(adapter.seed);
  for (const TensorPlan& plan : plans) {
    std::vector<float> values(static_cast<std::size_t>(plan.shape[0] * plan.shape[1]));
    for (float& value : values) value = static_cast<float>(static_cast<int>(mix64(++draw) % 2001) - 1000) / 8000.0f;
    writer.write(plan.name, 0, std::as_bytes(std::span(values)));
  }
  writer.finish();
  std::string invocation;
  for (const std::int32_t token : adapter.invocation)
    invocation += (invocation.empty() ? "" : ", ") + std::to_string(token);
  std::ofstream(folder / "adapter_config.json")
      << R"({"peft_type": "LORA", "r": )" << adapter.rank << R"(, "lora_alpha": )" << adapter.alpha
      << R"(, "bias": "none", "alora_invocation_tokens": [)" << invocation << R"(], "target_modules": [)" << targets
      << "]}\n";
}

/// Random adapters of one site in every layer, in a temporary folder that this object removes.
class RandomAdapters {
 public:
  RandomAdapters(const AdapterSites& all, Site site) {
    for (const AdapterSite& each : all.sites)
      if (each.site == site) sites_.push_back(each);
  }
  RandomAdapters(const RandomAdapters&) = delete;
  RandomAdapters& operator=(const RandomAdapters&) = delete;
  ~RandomAdapters() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  /// The folder of the adapter drawn from `which`, written on the first call.
  std::string folder(int which, int rank) const {
    const auto own = root_ / (std::to_string(which) + "-" + std::to_string(rank));
    if (!std::filesystem::exists(own)) {
      write_adapter(own, sites_, {.rank = rank, .seed = static_cast<std::uint64_t>(which)});
    }
    return own.string();
  }

  /// Bytes of the float32 factors of one adapter.
  double bytes(int rank) const {
    double bytes = 0;
    for (const auto& site : sites_) bytes += 4.0 * rank * (site.module.inputs + site.module.outputs);
    return bytes;
  }

 private:
  inline static std::atomic<int> made_ = 0;
  std::filesystem::path root_ = std::filesystem::temp_directory_path() /
                                ("tenon-adapters-" + std::to_string(::getpid()) + "-" + std::to_string(made_++));
  std::vector<AdapterSite> sites_;
};

}  // namespace tenon::testing
