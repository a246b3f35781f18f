#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tenon/checkpoint/peft_fields.h"
#include "tenon/checkpoint/peft_selection.h"
#include "tenon/checkpoint/peft_targets.h"
#include "tenon/checkpoint/python_regex.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/file.h"

namespace tenon::detail {

// re.match(rf"(.*\.)?({key})$", path) for a literal key. Its dots match any character.
TENON_INLINE bool matches_pattern(std::string_view path, std::string_view key) {
  if (key.size() > path.size()) return false;
  const std::size_t start = path.size() - key.size();
  return (start == 0 || path[start - 1] == '.') &&
         std::equal(key.begin(), key.end(), path.begin() + static_cast<std::ptrdiff_t>(start),
                    [](char k, char p) { return k == p || k == '.'; });
}

// The number that starts at `at`, if digits and then a dot stand there.
TENON_INLINE std::optional<int> number_at(std::string_view path, std::size_t at) {
  const std::size_t dot = path.find('.', at);
  int number = 0;
  if (dot == path.npos || dot == at || path[at] < '0' || path[at] > '9') return std::nullopt;
  const auto [end, code] = std::from_chars(path.data() + at, path.data() + dot, number);
  return code == std::errc{} && end == path.data() + dot ? std::optional(number) : std::nullopt;
}

// The layer after a pattern that is not a literal. Tries the starts that `.*?\.` can match in order; the first with a
// match counts. Error unsupported if the pattern can end at several layers: which of them Python takes depends on
// the order of its attempts.
TENON_INLINE std::optional<int> layer_after(std::string_view path, const PythonRegex& pattern, std::uint64_t& budget) {
  for (std::size_t start = 0; start != path.npos;) {
    const auto ends = pattern.ends(path, start, budget);
    std::set<int> layers;
    for (std::size_t end = start; end < path.size(); ++end)
      if (ends[end] && path[end] == '.')
        if (const auto layer = number_at(path, end + 1)) layers.insert(*layer);
    if (layers.size() > 1)
      refuse_peft("layers_pattern", "several layers of one module match it, which is not supported");
    if (!layers.empty()) return *layers.begin();
    const std::size_t dot = path.find('.', start);
    start = dot == path.npos ? path.npos : dot + 1;
  }
  return std::nullopt;
}

TENON_INLINE std::optional<int> layer_of(std::string_view path, std::span<const PythonRegex> patterns,
                                         std::uint64_t& budget) {
  if (patterns.empty()) {
    std::size_t dot = path.find('.');
    while (dot != path.npos && (dot = path.find('.', dot + 1)) != path.npos)
      if (const auto layer = number_at(path, dot + 1)) return layer;
    return std::nullopt;
  }
  for (const PythonRegex& pattern : patterns)
    if (const auto layer = layer_after(path, pattern, budget)) return layer;
  return std::nullopt;
}

TENON_INLINE PeftKey::PeftKey(const std::string& key, const std::string& field) : key_(key) {
  if (!is_peft_literal(key)) regex_.emplace(peft_key_regex(key), peft_where(field + "." + key));
}

TENON_INLINE bool PeftKey::matches(std::string_view path, std::uint64_t& budget) const {
  return regex_ ? regex_->prefix_match(path, budget) : matches_pattern(path, key_);
}

TENON_INLINE PeftSelection::PeftSelection(const PeftConfig& config) : config_(config) {
  if (!config.target_regex.empty()) target_.emplace(config.target_regex, peft_where("target_modules"));
  if (!config.exclude_regex.empty()) exclude_.emplace(config.exclude_regex, peft_where("exclude_modules"));
  if (!config.feedforward_regex.empty())
    feedforward_.emplace(config.feedforward_regex, peft_where("feedforward_modules"));
  for (const std::string& pattern : config.layers_pattern) layers_.emplace_back(pattern, peft_where("layers_pattern"));
}

TENON_INLINE bool PeftSelection::selects(const PeftModule& module, std::uint64_t& budget) const {
  const std::string& path = module.path;
  if (exclude_ ? exclude_->full_match(path, budget) : matches_any(path, config_.exclude_modules)) return false;
  if (config_.saves_within(path)) return false;
  if (config_.all_linear) return !module.head && !module.embedding;
  if (target_) return target_->full_match(path, budget);
  const auto& names = config_.target_modules;
  if (std::find(names.begin(), names.end(), path) != names.end()) return true;
  if (!matches_any(path, names)) return false;
  const auto& layers = config_.layers_to_transform;
  if (layers.empty()) return true;
  const auto layer = layer_of(path, layers_, budget);
  return layer && std::find(layers.begin(), layers.end(), *layer) != layers.end();
}

TENON_INLINE bool PeftSelection::scales_inputs(std::string_view path, std::uint64_t& budget) const {
  const auto& names = config_.feedforward_modules;
  if (feedforward_) return feedforward_->full_match(path, budget);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return path.ends_with(name); });
}

TENON_INLINE double peft_scale(const PeftConfig& config, double alpha, int rank) {
  switch (config.kind) {
    case PeftKind::adalora:
      // By init_r, after pruning, too; an alpha that is not positive counts as the rank (SVDLinear, update_layer).
      return (alpha > 0 ? alpha : rank) / (config.r + 1e-5);
    case PeftKind::vera:
    case PeftKind::ia3:
      return 1;
    case PeftKind::lora:
      break;
  }
  return alpha / (config.rslora ? std::sqrt(static_cast<double>(rank)) : rank);
}

// Throws: the field does not fit the model.
TENON_INLINE void refuse_misfit(const std::string& field, std::string_view what) {
  refuse_peft(field, what, Error::Kind::invalid_file);
}

TENON_INLINE PeftScales::PeftScales(const PeftConfig& config)
    : config_(config),
      rank_keys_(peft_keys(config.rank_pattern, "rank_pattern")),
      alpha_keys_(peft_keys(config.alpha_pattern, "alpha_pattern")) {}

TENON_INLINE PeftScales::Of PeftScales::of(const std::string& path, std::uint64_t& budget) const {
  const auto first_match = [&](const std::vector<PeftKey>& keys) {
    const auto found =
        std::find_if(keys.begin(), keys.end(), [&](const auto& each) { return each.matches(path, budget); });
    return static_cast<std::size_t>(found - keys.begin());
  };
  const std::size_t rank_at = first_match(rank_keys_), alpha_at = first_match(alpha_keys_);
  const bool own_alpha = alpha_at < alpha_keys_.size();
  const int rank = rank_at == rank_keys_.size() ? config_.r : config_.rank_pattern[rank_at].second;
  const double scale = peft_scale(config_, own_alpha ? config_.alpha_pattern[alpha_at].second : config_.alpha, rank);
  if (!(std::abs(scale) <= std::numeric_limits<float>::max()))
    refuse_misfit(own_alpha ? "alpha_pattern." + config_.alpha_pattern[alpha_at].first : "lora_alpha",
                  "gives a scale beyond the range of float32");
  return {rank_at, rank, scale};
}

// Throws: the adapter updates no linear of the model.
TENON_INLINE void refuse_no_target(const PeftConfig& config, std::span<const PeftModule> modules) {
  std::string names = config.target_regex;
  for (const std::string& each : config.target_modules) names += (names.empty() ? "" : ", ") + each;
  const bool excluded = !config.exclude_modules.empty() || !config.exclude_regex.empty();
  refuse_misfit("target_modules", "no linear of the model matches \"" + printable(names, 200) + "\"" +
                                      (excluded ? " after exclude_modules" : "") +
                                      (config.layers_to_transform.empty() ? "" : " within layers_to_transform") +
                                      (modules.empty() ? "" : "; the model has " + printable(modules.front().path)));
}

// Error where a rank exceeds both dimensions of every linear that it applies to. Such a rank is a mistake, found here
// before any tensor is read.
TENON_INLINE void require_peft_ranks(
    const PeftConfig& config, std::span<const PeftModule> modules, std::span<const PeftTarget> targets,
    std::span<const std::size_t> sources) {  // [targets]: index into rank_pattern, or its size for r
  std::vector<int> widest(config.rank_pattern.size() + 1, 0);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const PeftModule& module = modules[targets[i].module];
    widest[sources[i]] = std::max({widest[sources[i]], module.inputs, module.outputs});
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].rank <= widest[sources[i]]) continue;
    const bool pattern = sources[i] < config.rank_pattern.size();
    refuse_misfit(pattern ? "rank_pattern." + config.rank_pattern[sources[i]].first : "r",
                  "the rank " + std::to_string(targets[i].rank) +
                      " is above both dimensions of every linear that it is "
                      "for; the widest has " +
                      std::to_string(widest[sources[i]]));
  }
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE std::vector<std::string> peft_absent_targets(const PeftConfig& config,
                                                          std::span<const PeftModule> modules) {
  std::vector<std::string> absent;
  for (const std::string& name : config.target_modules)
    if (std::none_of(modules.begin(), modules.end(),
                     [&](const auto& each) { return detail::matches_name(each.path, name); }))
      absent.push_back(name);
  return absent;
}

TENON_INLINE std::vector<PeftTarget> peft_targets(const PeftConfig& config, std::span<const PeftModule> modules,
                                                  std::span<const std::string> unsupported) {
  const detail::PeftSelection selection(config);
  std::uint64_t budget = detail::kRegexBudget;
  for (const std::string& path : unsupported)
    if (!config.all_linear && selection.selects({path}, budget))
      detail::refuse_peft("target_modules",
                          "updates of " + printable(path) + " are not supported, only those of linears in layers");
  const detail::PeftScales scales(config);
  std::vector<PeftTarget> targets;
  std::vector<std::size_t> ranks;  // for each target, the index of its key in rank_pattern
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const PeftModule& module = modules[i];
    if (!selection.selects(module, budget)) continue;
    if (module.head && config.tied_to_embedding)
      detail::refuse_peft("ensure_weight_tying", "a head with the factors of the embedding is not supported");
    if (config.kind == PeftKind::ia3) {
      targets.push_back({i, 0, 1, selection.scales_inputs(module.path, budget)});
      continue;
    }
    const auto of = scales.of(module.path, budget);
    targets.push_back({i, of.rank, of.scale, false});
    ranks.push_back(of.rank_at);
  }
  if (targets.empty()) detail::refuse_no_target(config, modules);
  if (config.kind != PeftKind::vera && config.kind != PeftKind::ia3)  // VeRA: one rank for all modules, however small
    detail::require_peft_ranks(config, modules, targets, ranks);
  return targets;
}

}  // namespace tenon
