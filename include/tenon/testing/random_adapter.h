// LoRA adapters with random factors, written as PEFT writes them: for benchmarks and tests.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "tenon/adapter/site.h"
#include "tenon/checkpoint/safetensors_writer.h"
#include "tenon/core/hash.h"

namespace tenon::testing {

struct RandomAdapter {
  int rank = 16;
  double alpha = 16;
  std::uint64_t seed = 0;  // factors are drawn from it, in -1/8 .. 1/8
};

// Updates all of these linears. float32.
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
  std::ofstream(folder / "adapter_config.json")
      << R"({"peft_type": "LORA", "r": )" << adapter.rank << R"(, "lora_alpha": )" << adapter.alpha
      << R"(, "bias": "none", "target_modules": [)" << targets << "]}\n";
}

}  // namespace tenon::testing
