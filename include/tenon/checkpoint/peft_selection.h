// Selects modules by the keys and lists of an adapter_config.json.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/peft_config.h"
#include "tenon/checkpoint/peft_targets.h"
#include "tenon/checkpoint/python_regex.h"
#include "tenon/core/require.h"

namespace tenon::detail {

// Work limit of all regular expressions of one adapter, in visits of nodes: about a second. Functions with a parameter
// `budget` subtract their visits from it. Error unsupported at 0.
inline constexpr std::uint64_t kRegexBudget = 20'000'000;

// Whether the path equals the name, or ends with a dot and the name.
inline bool matches_name(std::string_view path, std::string_view name) {
  return path == name ||
         (path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '.');
}
inline bool matches_any(std::string_view path, std::span<const std::string> names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& each) { return matches_name(path, each); });
}

// Layer of a path: the first number after one of the patterns, as re.match(rf"(?:^|.*?\.){pattern}\.(\d+)\.") finds
// it. Without patterns the expression is r".*?\.[^.]*\.(\d+)\.", which needs two names before the number.
std::optional<int> layer_of(std::string_view path, std::span<const PythonRegex> patterns, std::uint64_t& budget);

// A compiled key of rank_pattern or alpha_pattern. `field` names the key in errors.
class PeftKey {
 public:
  PeftKey(const std::string& key, const std::string& field);
  bool matches(std::string_view path, std::uint64_t& budget) const;

 private:
  std::string key_;
  std::optional<PythonRegex> regex_;
};

// Compiled keys of a pattern, in the file's order.
template <class Value>
std::vector<PeftKey> peft_keys(const PeftConfig::Pattern<Value>& pattern, const std::string& field) {
  std::vector<PeftKey> keys;
  for (const auto& [key, value] : pattern) keys.emplace_back(key, field);
  return keys;
}

// Ranks and scales of modules: rank_pattern and alpha_pattern, else r and lora_alpha.
class PeftScales {
 public:
  struct Of {
    std::size_t rank_at;  // index into rank_pattern, or its size for r
    int rank;
    double scale;
  };
  // `config` must outlive it.
  explicit PeftScales(const PeftConfig& config);
  // Error invalid_file if the scale exceeds float32.
  Of of(const std::string& path, std::uint64_t& budget) const;

 private:
  const PeftConfig& config_;
  std::vector<PeftKey> rank_keys_, alpha_keys_;
};

// Selects the modules that target_modules, exclude_modules and the layers of a config name.
class PeftSelection {
 public:
  // `config` must outlive the selection.
  explicit PeftSelection(const PeftConfig& config);

  // Whether the config selects the module, as PEFT's check_target_module_exists decides. A path that target_modules
  // lists in full is selected even if its layer is not.
  bool selects(const PeftModule& module, std::uint64_t& budget) const;

  // Whether IA3 scales the module's inputs: PEFT compares the ends of the texts, without regard to dots.
  bool scales_inputs(std::string_view path, std::uint64_t& budget) const;

 private:
  const PeftConfig& config_;
  std::optional<PythonRegex> target_, exclude_, feedforward_;
  std::vector<PythonRegex> layers_;
};

}  // namespace tenon::detail
