#pragma once
#include <algorithm>

#include "tenon/core/require.h"
#include "tenon/engine/stop_matcher.h"

namespace tenon {

TENON_INLINE std::string StopMatcher::push(std::string_view text, bool may_stop) {
  if (stopped_) return {};
  const std::size_t before = held_.size();
  held_ += text;
  std::size_t first = std::string::npos, length = 0;
  for (const auto& stop : stops_) {
    if (!may_stop) break;
    // The search begins where a match would end in the new text: earlier text was searched, or was not to be.
    const std::size_t at = held_.find(stop, before + 1 > stop.size() ? before + 1 - stop.size() : 0);
    if (at == std::string::npos || at > first) continue;
    length = at < first ? stop.size() : std::min(length, stop.size());
    first = at;
  }
  if (first != std::string::npos) {
    stopped_ = true;
    held_.resize(include_ ? first + length : first);
    return std::exchange(held_, {});
  }
  std::string certain = held_.substr(0, held_.size() - longest_start());
  held_.erase(0, certain.size());
  return certain;
}

TENON_INLINE std::size_t StopMatcher::longest_start() const {
  std::size_t longest = 0;
  for (const auto& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > longest; --n) {
      if (std::string_view(held_).substr(held_.size() - n) == std::string_view(stop).substr(0, n)) longest = n;
    }
  }
  return longest;
}

TENON_INLINE std::string OutputText::push(TokenId token, bool may_stop) {
  may_stop_ = may_stop;
  if (!decoder_ || (special_ && special_->is_special(token))) return {};
  return stops_.push(decoder_->push(token), may_stop);
}

TENON_INLINE std::string OutputText::finish() {
  if (!decoder_ || stops_.stopped()) return {};
  std::string text = stops_.push(decoder_->finish(), may_stop_);
  return stops_.stopped() ? text : text + stops_.finish();
}

}  // namespace tenon
