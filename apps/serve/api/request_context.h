// What the words of a request mean on this server.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/api/request_limits.h"

namespace serve {

struct RequestContext {
  RequestLimits limits;
  std::vector<std::string> base_names;  // of the base model; the first is what answers call it
  bool lenient = false;                 // unknown fields are noted and left out, not refused
  bool parse_special = true;            // special tokens spelled in prompts are tokens, where the request does not say
  std::function<bool(const std::string&)> is_adapter = {};  // none: no name is one
  std::function<std::optional<std::string>(std::int64_t)> adapter_of_id =
      {};                // ids of GET /lora-adapters; none: no ids
  bool fetches = false;  // whether `adapter_source` may be s3
  // The server's name for an adapter of a valid name, from `source`: "", "local", "hub" or "s3". ApiError where that
  // source has none. None: names stay as they are.
  std::function<std::string(const std::string& name, const std::string& source)> adapter_from = {};
};

}  // namespace serve
