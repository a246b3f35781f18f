// What a lenient server tells of the fields that it has left out.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "serve/http/message.h"
#include "serve/serving.h"

namespace serve {

inline constexpr const char* kIgnoredHeader = "x-ignored-fields";

// A header names them, a counter counts them. At most 32 names of printable ASCII without commas; "..." stands for
// others.
inline void tell_ignored(HttpResponse& response, Serving& serving, const std::vector<std::string>& fields) {
  if (fields.empty()) return;
  serving.metrics.fields_ignored(fields.size());
  std::string names;
  for (std::size_t i = 0; i < fields.size() && i < 32; ++i) {
    const bool plain = fields[i].size() <= 64 && std::all_of(fields[i].begin(), fields[i].end(),
                                                             [](char c) { return c > ' ' && c <= '~' && c != ','; });
    names += (i == 0 ? "" : ", ") + (plain ? fields[i] : std::string("..."));
  }
  if (fields.size() > 32) names += ", ...";
  response.set_header(kIgnoredHeader, names);
}

}  // namespace serve
