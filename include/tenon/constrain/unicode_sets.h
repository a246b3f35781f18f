// Sets of characters by Unicode property, with the names of \p{...}.
#pragma once
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "tenon/constrain/code_points.h"

namespace tenon::constrain {

namespace detail {

struct UnicodeTables {
  std::array<CodePoints, 30> categories;  // by utf8proc_category_t
  CodePoints pictographs;

  // Scans all code points once: about 10 ms.
  UnicodeTables() {
    std::array<std::vector<CodePoints::Range>, 30> ranges;
    std::vector<CodePoints::Range> pictographic;
    const auto extend = [](std::vector<CodePoints::Range>& all, char32_t c) {
      if (!all.empty() && all.back().last + 1 == c)
        all.back().last = c;
      else
        all.push_back({c, c});
    };
    for (char32_t c = 0; c <= 0x10FFFF; ++c) {
      const auto* const property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
      extend(ranges[static_cast<std::size_t>(property->category)], c);
      if (property->boundclass == UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC) extend(pictographic, c);
    }
    for (std::size_t i = 0; i < ranges.size(); ++i) categories[i] = CodePoints(ranges[i]);
    pictographs = CodePoints(pictographic);
  }
};

inline const UnicodeTables& unicode_tables() {
  static const UnicodeTables tables;
  return tables;
}

// Unicode 15.0, PropertyValueAliases.txt: a short name, a long name, and the members of a group as pairs of letters.
struct Category {
  std::string_view name, long_name, members;
};
inline constexpr std::string_view kCategories = "CnLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCo";
inline constexpr Category kCategoryNames[] = {
    {"L", "Letter", "LuLlLtLmLo"},
    {"LC", "Cased_Letter", "LuLlLt"},
    {"Lu", "Uppercase_Letter", "Lu"},
    {"Ll", "Lowercase_Letter", "Ll"},
    {"Lt", "Titlecase_Letter", "Lt"},
    {"Lm", "Modifier_Letter", "Lm"},
    {"Lo", "Other_Letter", "Lo"},
    {"M", "Mark", "MnMcMe"},
    {"M", "Combining_Mark", "MnMcMe"},
    {"Mn", "Nonspacing_Mark", "Mn"},
    {"Mc", "Spacing_Mark", "Mc"},
    {"Me", "Enclosing_Mark", "Me"},
    {"N", "Number", "NdNlNo"},
    {"Nd", "Decimal_Number", "Nd"},
    {"Nd", "digit", "Nd"},
    {"Nl", "Letter_Number", "Nl"},
    {"No", "Other_Number", "No"},
    {"P", "Punctuation", "PcPdPsPePiPfPo"},
    {"P", "punct", "PcPdPsPePiPfPo"},
    {"Pc", "Connector_Punctuation", "Pc"},
    {"Pd", "Dash_Punctuation", "Pd"},
    {"Ps", "Open_Punctuation", "Ps"},
    {"Pe", "Close_Punctuation", "Pe"},
    {"Pi", "Initial_Punctuation", "Pi"},
    {"Pf", "Final_Punctuation", "Pf"},
    {"Po", "Other_Punctuation", "Po"},
    {"S", "Symbol", "SmScSkSo"},
    {"Sm", "Math_Symbol", "Sm"},
    {"Sc", "Currency_Symbol", "Sc"},
    {"Sk", "Modifier_Symbol", "Sk"},
    {"So", "Other_Symbol", "So"},
    {"Z", "Separator", "ZsZlZp"},
    {"Zs", "Space_Separator", "Zs"},
    {"Zl", "Line_Separator", "Zl"},
    {"Zp", "Paragraph_Separator", "Zp"},
    {"C", "Other", "CcCfCsCoCn"},
    {"Cc", "Control", "Cc"},
    {"Cc", "cntrl", "Cc"},
    {"Cf", "Format", "Cf"},
    {"Cs", "Surrogate", "Cs"},
    {"Co", "Private_Use", "Co"},
    {"Cn", "Unassigned", "Cn"},
};

inline std::optional<CodePoints> category_set(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kCategoryNames), std::end(kCategoryNames),
                                         [&](const Category& c) { return c.name == name || c.long_name == name; });
  if (found == std::end(kCategoryNames)) return std::nullopt;
  std::vector<CodePoints::Range> ranges;
  for (std::size_t i = 0; i < found->members.size(); i += 2) {
    const std::size_t number = kCategories.find(found->members.substr(i, 2)) / 2;
    const auto& part = unicode_tables().categories[number].ranges();
    ranges.insert(ranges.end(), part.begin(), part.end());
  }
  return CodePoints(ranges);
}

// Short properties, and Extended_Pictographic, which utf8proc has for grapheme breaks but without reserved code
// points. Source: PropList.txt and emoji-data.txt of Unicode 15.0.
inline std::optional<CodePoints> binary_set(std::string_view name) {
  const auto is = [&](std::string_view a, std::string_view b) { return name == a || name == b; };
  if (name == "Any") return CodePoints::all();
  if (name == "ASCII") return CodePoints{{0, 0x7F}};
  if (name == "Assigned") return ~*category_set("Cn");
  if (is("ASCII_Hex_Digit", "AHex")) return CodePoints{{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  if (is("White_Space", "space")) {
    return CodePoints{{'\t', '\r'},     {' ', ' '},       {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
                      {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
  }
  if (is("Extended_Pictographic", "ExtPict")) return unicode_tables().pictographs;
  if (is("Emoji_Modifier", "EMod")) return CodePoints{{0x1F3FB, 0x1F3FF}};
  if (is("Regional_Indicator", "RI")) return CodePoints{{0x1F1E6, 0x1F1FF}};
  if (is("Emoji_Component", "EComp")) {
    return CodePoints{{'#', '#'},       {'*', '*'},         {'0', '9'},         {0x200D, 0x200D},   {0x20E3, 0x20E3},
                      {0xFE0F, 0xFE0F}, {0x1F1E6, 0x1F1FF}, {0x1F3FB, 0x1F3FF}, {0x1F9B0, 0x1F9B3}, {0xE0020, 0xE007F}};
  }
  return std::nullopt;
}

}  // namespace detail

/// The characters that \p{name} matches, by Unicode 15.0: general categories (Lu, Uppercase_Letter, gc=Lu,
/// General_Category=Lu) and the properties of binary_set(). Empty for all others, such as scripts, Alphabetic and
/// Emoji. Names are those of ECMA-262, 22.2.1.
inline std::optional<CodePoints> unicode_set(std::string_view name) {
  for (const std::string_view prefix : {"General_Category=", "gc="}) {
    if (name.starts_with(prefix)) return detail::category_set(name.substr(prefix.size()));
  }
  if (auto found = detail::category_set(name)) return found;
  return detail::binary_set(name);
}

}  // namespace tenon::constrain
