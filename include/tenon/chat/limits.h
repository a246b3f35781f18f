// Bounds on what a chat template may cost.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/core/require.h"

namespace tenon::chat {

/// Bounds on one template and one rendering. A template is data of a model's author, so it may be hostile. Exceeding a
/// bound is an Error of the kind capacity.
struct Limits {
  std::size_t template_bytes = 1 << 20;  ///< of the template's text
  std::size_t output_bytes = 16 << 20;   ///< of the rendered prompt
  /// An expression or statement is a step, an element of a list 4, and 8 bytes of text 1. So one rendering makes at
  /// most 160 MB of texts.
  std::uint64_t steps = 20'000'000;
  int depth = 300;        ///< levels of nested expressions, statements and macro calls
  int value_depth = 100;  ///< levels of nested lists and dicts
};

}  // namespace tenon::chat
