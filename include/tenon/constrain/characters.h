// Sets of characters as ByteSet: ASCII characters one by one, all other characters as one.
#pragma once
#include "tenon/constrain/byte_set.h"

namespace tenon::constrain {

/// The member of such a set that stands for all characters beyond ASCII. ASCII characters stand for themselves.
inline constexpr int kBeyondAscii = 0x80;

/// Finds the characters whose UTF-8 leads from a state to an end state. step(state, byte) returns `dead` where there is
/// no next state.
template <class State, class Step, class IsEnd>
class CharactersBetween {
 public:
  CharactersBetween(State from, State dead, Step step, IsEnd is_end)
      : from_(from), dead_(dead), step_(step), is_end_(is_end) {}

  /// The characters. kBeyondAscii is in the set only if every character beyond ASCII leads to an end.
  ByteSet find() {
    ByteSet set;
    for (int byte = 0; byte < 0x80; ++byte) {
      if (all(from_, byte, byte, 0)) set.add(byte);
    }
    if (all(from_, 0xc2, 0xdf, 1) && led_by(0xe0, 0xa0, 0xbf, 1) && all(from_, 0xe1, 0xec, 2) &&
        led_by(0xed, 0x80, 0x9f, 1) && all(from_, 0xee, 0xef, 2) && led_by(0xf0, 0x90, 0xbf, 2) &&
        all(from_, 0xf1, 0xf3, 3) && led_by(0xf4, 0x80, 0x8f, 2)) {
      set.add(kBeyondAscii);
    }
    return set;
  }

 private:
  // Whether each of the bytes first..last, followed by any `more` continuation bytes, leads to an end.
  bool all(State from, int first, int last, int more) {
    State known = dead_;
    for (int byte = first; byte <= last; ++byte) {
      const State next = step_(from, byte);
      if (next == dead_) return false;
      if (next == known) continue;  // most bytes lead to the same state as their neighbours
      if (more == 0 ? !is_end_(next) : !all(next, 0x80, 0xbf, more - 1)) return false;
      known = next;
    }
    return true;
  }
  bool led_by(int lead, int first, int last, int more) {
    const State next = step_(from_, lead);
    return next != dead_ && all(next, first, last, more);
  }

  State from_, dead_;
  Step step_;
  IsEnd is_end_;
};

}  // namespace tenon::constrain
