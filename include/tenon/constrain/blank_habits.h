// Where one text puts its blanks.
#pragma once
#include <array>
#include <cstdint>

#include "tenon/core/require.h"

namespace tenon::constrain {

/// Whether a text puts a blank after a byte, where its constraint lets it choose: most texts always write `": "`, or
/// always `":"`. For guesses alone, so it may be wrong.
class BlankHabits {
 public:
  /// The text chose whether a blank follows the byte.
  void chose(std::uint8_t byte, bool blank) { after_[byte] = blank ? kBlank : kNone; }
  /// The last choice after the byte. Before the first choice: one blank, and no second one.
  bool blank_after(std::uint8_t byte) const { return after_[byte] == kUnknown ? byte != ' ' : after_[byte] == kBlank; }

 private:
  enum Choice : std::uint8_t { kUnknown, kBlank, kNone };
  std::array<Choice, 256> after_{};
};

}  // namespace tenon::constrain
