// Lower case of characters, in the Unicode version of Hugging Face's tokenizers.
#pragma once
#include <utf8proc.h>

#include <string>

#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

// char::to_lowercase of Rust, which knows Unicode 17. utf8proc 2.8 knows Unicode 15.
inline std::string lower_case(char32_t c) {
  struct Shift {
    char32_t first, last, by;
  };
  constexpr Shift newer[] = {{0x1C89, 0x1C89, 1},      {0xA7CC, 0xA7CC, 1},     {0xA7CE, 0xA7CE, 1},
                             {0xA7D2, 0xA7D2, 1},      {0xA7D4, 0xA7D4, 1},     {0xA7DA, 0xA7DA, 1},
                             {0x10D50, 0x10D65, 0x20}, {0x16EA0, 0x16EB8, 0x1B}};
  if (c == 0x130) return "i\u0307";
  char32_t lower = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  if (c == 0xA7CB) lower = 0x264;
  if (c == 0xA7DC) lower = 0x19B;
  for (const Shift& each : newer)
    if (c >= each.first && c <= each.last) lower = c + each.by;
  std::string out;
  append_code_point(out, lower);
  return out;
}

}  // namespace tenon::detail
