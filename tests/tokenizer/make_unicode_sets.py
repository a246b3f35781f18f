#!/usr/bin/env python3
"""Writes include/tenon/tokenizer/unicode_sets.h: the sets of characters that regular expressions name by property.

    python3 -m venv VENV && VENV/bin/pip install tokenizers==0.22.2
    VENV/bin/python tests/tokenizer/make_unicode_sets.py && clang-format-14 -i include/tenon/tokenizer/unicode_sets.h

The members of each set are asked of the library. A set is some general categories, which tenon knows, and ranges.
"""
import pathlib

from tokenizers import Regex, pre_tokenizers

OUT = pathlib.Path(__file__).resolve().parents[2] / "include" / "tenon" / "tokenizer" / "unicode_sets.h"
TEXT = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
# Names, without case, spaces, - and _, and the categories that are in the set wholly.
DERIVED = {"Alphabetic Alpha": "L Nl", "Alnum": "L Nl Nd", "Uppercase Upper": "Lu", "Lowercase Lower": "Ll",
           "Word": "L M Nd Pc Nl"}
# Names and codes of scripts whose texts tokenizers cut apart, or that a language of many speakers has.
SCRIPTS = """Arabic Arab,Armenian Armn,Bengali Beng,Bopomofo Bopo,Cyrillic Cyrl,Devanagari Deva,Ethiopic Ethi,
Georgian Geor,Greek Grek,Gujarati Gujr,Gurmukhi Guru,Han Hani,Hangul Hang,Hebrew Hebr,Hiragana Hira,
Kannada Knda,Katakana Kana,Khmer Khmr,Lao Laoo,Latin Latn,Malayalam Mlym,Mongolian Mong,Myanmar Mymr,Oriya Orya,
Sinhala Sinh,Tamil Taml,Telugu Telu,Thai,Tibetan Tibt""".replace("\n", "").split(",")

HEAD = """// Sets of characters that regular expressions name by property: derived ones and scripts.
// tests/tokenizer/make_unicode_sets.py writes this file, by what the Oniguruma of Hugging Face's tokenizers 0.22 has.
#pragma once
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

#include "tenon/tokenizer/unicode_categories.h"

namespace tenon::detail {

// A set: all characters of the categories, and those in `ranges`, which are sorted.
struct UnicodeSet {
  std::uint32_t categories = 0;
  std::span<const CodeRange> ranges = {};
};
"""


def members(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return {ord(c) for piece, _ in split.pre_tokenize_str(TEXT) for c in piece}


def ranges(points):
    out = []
    for point in sorted(points):
        if out and out[-1][1] == point - 1:
            out[-1][1] = point
        else:
            out.append([point, point])
    return out


def table(name, points):
    cells = [f"{{0x{first:X}, 0x{last:X}}}," for first, last in ranges(points)]
    lines, line = [], "   "
    for cell in cells:
        if len(line) + 1 + len(cell) > 120:
            lines.append(line)
            line = "   "
        line += " " + cell
    return f"\ninline constexpr CodeRange k{name}[] = {{\n" + "\n".join(lines + [line]) + "\n};\n"


def main():
    tables, rows, written = "", [], {}  # written: names of tables by their ranges
    for names, categories in list(DERIVED.items()) + [(each, "") for each in SCRIPTS]:
        first, *more = names.split()
        known = set().union(*(members(rf"\p{{{each}}}") for each in categories.split()))
        assert known <= members(rf"\p{{{first}}}")
        extra = members(rf"\p{{{first}}}") - known
        name = written.setdefault(frozenset(extra), first)
        if name == first:
            tables += table(first, extra)
        mask = " | ".join(f"category_bit(UTF8PROC_CATEGORY_{each.upper()})" if len(each) == 2 else
                          {"L": "kLetters", "M": "kMarks"}[each] for each in categories.split()) or "0"
        rows.append((first, more[0] if more else first, mask, name))
    text = HEAD + tables + """
// The set of a name in lower case, without spaces, - and _; null for an unknown name.
inline const UnicodeSet* unicode_set(std::string_view name) noexcept {
  struct Named {
    std::string_view name, short_name;
    UnicodeSet set;
  };
  static constexpr Named known[] = {
"""
    text += "".join(f'      {{"{first.lower()}", "{short.lower()}", {{{mask}, k{name}}}}},\n' for first, short, mask, name in rows)
    text += """  };
  for (const Named& each : known)
    if (each.name == name || each.short_name == name) return &each.set;
  return nullptr;
}

}  // namespace tenon::detail
"""
    OUT.write_text(text)


if __name__ == "__main__":
    main()
