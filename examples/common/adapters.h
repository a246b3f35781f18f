// Random adapters of a model's c_attn, as files: for the examples and benchmarks that need many.
#pragma once
#include <tenon/tenon.h>
#include <tenon/testing/random_adapter.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace example {

// In a folder that goes with it.
class RandomAdapters {
 public:
  // The adapters of a GPT-2.
  explicit RandomAdapters(const tenon::ModelConfig& config) {
    for (const auto& site : tenon::adapter_sites(tenon::Gpt2::tensors(config), tenon::Gpt2::name_prefix).sites) {
      if (site.site == tenon::Site::qkv) sites_.push_back(site);
    }
  }
  RandomAdapters(const RandomAdapters&) = delete;
  ~RandomAdapters() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // The folder of one, written when it is first asked for.
  std::string folder(int which, int rank) const {
    const auto own = folder_ / (std::to_string(which) + "-" + std::to_string(rank));
    if (!std::filesystem::exists(own)) {
      tenon::testing::write_adapter(own, sites_, {.rank = rank, .seed = static_cast<std::uint64_t>(which)});
    }
    return own.string();
  }

  // Bytes of the factors of one.
  double bytes(int rank) const {
    double bytes = 0;
    for (const auto& site : sites_) bytes += 4.0 * rank * (site.module.inputs + site.module.outputs);
    return bytes;
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("tenon-adapters-" + std::to_string(::getpid()));
  std::vector<tenon::AdapterSite> sites_;
};

}  // namespace example
