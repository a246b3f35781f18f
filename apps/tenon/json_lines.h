// Reads JSON lines, for `tenon run` and `tenon tokens`.
#pragma once
#include <istream>
#include <string>
#include <string_view>

#include "tenon/core/error.h"
#include "tenon/io/json.h"

namespace program {

// Reads the next line that is not blank. `number` counts all lines from 1. False at the end.
inline bool next_line(std::istream& in, std::string& line, int& number) {
  while (std::getline(in, line)) {
    ++number;
    if (line.find_first_not_of(" \t\r") != line.npos) return true;
  }
  return false;
}

inline std::string line_name(int number) { return "line " + std::to_string(number); }

// Parses a line. Error invalid_request, with the number of the line in the input, if it is not JSON.
inline tenon::Json parse_json_line(std::string_view line, int number) {
  constexpr tenon::Error::Kind kRefusal = tenon::Error::Kind::invalid_request;
  try {
    return tenon::parse_json(line, "", {.refusal = kRefusal});
  } catch (const tenon::Error& error) {
    // The parser sees one line, which it numbers 1.
    std::string what = error.what();
    constexpr std::string_view kOwnLine = " at line 1, column ";
    if (const auto at = what.find(kOwnLine); at != what.npos) what.replace(at, kOwnLine.size(), " at column ");
    throw tenon::Error(kRefusal, line_name(number), what);
  }
}

}  // namespace program
