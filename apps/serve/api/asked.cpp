#include "serve/api/asked.h"

#include <algorithm>
#include <utility>

namespace serve {

void take_listed(Model& model, Asked& asked, const std::string& param) {
  std::size_t listed = 0;
  for (const tenon::Request& request : asked.requests) {
    const tenon::Options& o = request.options;
    const auto of = [](int alternatives, std::size_t tokens) {
      return alternatives < 0 ? 0 : (static_cast<std::size_t>(alternatives) + 1) * tokens;
    };
    listed += of(o.top_logprobs, static_cast<std::size_t>(o.max_new_tokens) * static_cast<std::size_t>(o.n)) +
              of(o.prompt_logprobs, request.input_ids.size() * static_cast<std::size_t>(o.n));
  }
  if (listed > kMostListed) {
    throw ApiError(ApiError::Kind::invalid,
                   "`" + param + "`: the answer could list " + std::to_string(listed) + " log-probabilities; at most " +
                       std::to_string(kMostListed) + " are possible",
                   param);
  }
  if (listed <= kFewListed) return;
  asked.listed = model.listed().enter(static_cast<int>(listed));
  if (!asked.listed)
    throw ApiError(ApiError::Kind::overloaded,
                   "`" + param + "`: answers under way list as many log-probabilities as this server holds", param);
}

void need_adapters(Model& model, const std::vector<tenon::AdapterUse>& adapters, const std::string& param) {
  for (const tenon::AdapterUse& use : adapters) {
    if (!model.adapters().may_be_named(use.name)) throw unknown_adapter(use.name, param);
  }
}

std::string name_of(const std::vector<tenon::AdapterUse>& adapters) {
  std::string names;
  for (const tenon::AdapterUse& use : adapters) names += (names.empty() ? "" : "+") + use.name;
  return names;
}

void need_tokens(const Model& model, const std::vector<tenon::TokenId>& ids, const std::string& field) {
  for (const tenon::TokenId id : ids) {
    if (id < model.config().vocab) continue;
    throw ApiError(ApiError::Kind::invalid,
                   "`" + field + "`: token " + std::to_string(id) + " is outside the vocabulary of " +
                       std::to_string(model.config().vocab),
                   field);
  }
}

void keep_last(std::vector<tenon::TokenId>& ids, std::optional<int> most) {
  if (most && ids.size() > static_cast<std::size_t>(*most)) ids.erase(ids.begin(), ids.end() - *most);
}

void check_least(const tenon::Options& options, const std::string& field) {
  if (options.min_new_tokens <= options.max_new_tokens) return;
  throw ApiError(ApiError::Kind::invalid,
                 "`" + field + "` must be at most the length of the answer, which is " +
                     std::to_string(options.max_new_tokens) + " tokens",
                 field);
}

std::vector<tenon::TokenId> ends_of(const Model& model, const tenon::Options& options) {
  std::vector<tenon::TokenId> ends = options.stop_ids;
  if (!options.ignore_eos) ends.insert(ends.end(), model.config().eos.begin(), model.config().eos.end());
  return ends;
}

}  // namespace serve
