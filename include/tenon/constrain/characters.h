// Sets of characters that masks tell apart.
#pragma once
#include "tenon/constrain/byte_set.h"

namespace tenon::constrain {

// In a set of characters ASCII's stand for themselves, and this for all others.
inline constexpr int kBeyondAscii = 0x80;

// The characters whose UTF-8 leads from a state to one that is an end. step(state, byte): `dead` where there is none.
template <class State, class Step, class IsEnd>
class CharactersBetween {
 public:
  CharactersBetween(State from, State dead, Step step, IsEnd is_end)
      : from_(from), dead_(dead), step_(step), is_end_(is_end) {}

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
  // Whether each of the bytes, with so many more behind it, leads to an end.
  bool all(State from, int first, int last, int more) {
    State known = dead_;
    for (int byte = first; byte <= last; ++byte) {
      const State next = step_(from, byte);
      if (next == dead_) return false;
      if (next == known) continue;  // most bytes lead where their neighbours do
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
