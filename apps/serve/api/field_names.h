// What a client calls the fields of a body that was turned into another route's.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/api/api_error.h"

namespace serve {

// Paths of the other route, and what the client calls them; the first that fits counts.
using FieldNames = std::vector<std::pair<std::string, std::string>>;

// The path, with the beginning that the client calls otherwise replaced. "tools[1]" is no beginning of "tools[10]".
inline std::string renamed_path(const std::string& path, const FieldNames& names) {
  for (const auto& [from, to] : names) {
    if (!path.starts_with(from)) continue;
    if (path.size() == from.size() || path[from.size()] == '.' || path[from.size()] == '[')
      return to + path.substr(from.size());
  }
  return path;
}

// The error with the client's names, in `param` and between the back quotes of its message.
inline ApiError renamed(const ApiError& error, const FieldNames& names) {
  const std::string_view what = error.what();
  std::string message;
  bool quoted = false;
  for (std::size_t at = 0; at <= what.size(); quoted = !quoted) {
    const std::size_t end = std::min(what.find('`', at), what.size());
    const std::string piece(what.substr(at, end - at));
    message += quoted && end < what.size() ? renamed_path(piece, names) : piece;
    if (end < what.size()) message += '`';
    at = end + 1;
  }
  ApiError out(error.kind, message, renamed_path(error.param, names));
  out.retry_after = error.retry_after;
  return out;
}

}  // namespace serve
