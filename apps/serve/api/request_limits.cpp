#include "serve/api/request_limits.h"

#include <algorithm>

#include "serve/api/api_error.h"

namespace serve {
namespace {

[[noreturn]] void refuse(const std::string& message, const std::string& param) {
  throw ApiError(ApiError::Kind::invalid, message, param);
}

// Why a prompt may have no more tokens than max_input_tokens.
std::string reason_of_input_limit(const RequestLimits& limits) {
  if (limits.max_input_tokens < limits.max_total_tokens - 1) return " (--max-input-length)";
  // Clients look for these words of OpenAI's.
  return ": this model's maximum context length is " + std::to_string(limits.max_total_tokens) +
         " tokens, which prompt and answer share (--max-total-tokens)";
}

}  // namespace

int longest_prompt(std::optional<int> new_tokens, const RequestLimits& limits) {
  constexpr int kRoom = 256;
  const int total = limits.max_total_tokens;
  return std::clamp(total - new_tokens.value_or(std::min(kRoom, total / 2)), 1, limits.max_input_tokens);
}

void check_stop(const std::vector<std::string>& stop, const RequestLimits& limits, const std::string& field) {
  if (stop.size() > static_cast<std::size_t>(limits.max_stop_sequences)) {
    refuse("`" + field + "` supports up to " + std::to_string(limits.max_stop_sequences) +
               " stop sequences. Given: " + std::to_string(stop.size()),
           field);
  }
  for (const std::string& each : stop)
    if (each.empty()) refuse("`" + field + "` must not hold an empty string", field);
}

int lorax_new_tokens(std::optional<std::uint32_t> asked, std::size_t input_tokens, const RequestLimits& limits) {
  const auto total = static_cast<std::size_t>(limits.max_total_tokens);
  if (input_tokens > static_cast<std::size_t>(limits.max_input_tokens) || input_tokens >= total) {
    refuse("`inputs` must have at most " + std::to_string(limits.max_input_tokens) +
               " tokens. Given: " + std::to_string(input_tokens) + reason_of_input_limit(limits),
           "inputs");
  }
  const auto left = static_cast<int>(total - input_tokens);
  if (!asked) return limits.default_new_tokens > 0 ? std::min(limits.default_new_tokens, left) : left;
  if (*asked > total - input_tokens) {
    refuse("`inputs` tokens + `max_new_tokens` must be <= " + std::to_string(limits.max_total_tokens) + ". Given: " +
               std::to_string(input_tokens) + " `inputs` tokens and " + std::to_string(*asked) + " `max_new_tokens`",
           "max_new_tokens");
  }
  return static_cast<int>(*asked);
}

int openai_new_tokens(std::optional<int> asked, std::size_t prompt_tokens, const RequestLimits& limits,
                      const std::string& field, const std::string& prompt_field) {
  const auto total = static_cast<std::size_t>(limits.max_total_tokens);
  const bool fills_all = asked == 0 && prompt_tokens == total && limits.max_input_tokens == limits.max_total_tokens - 1;
  if (fills_all) return 0;  // it is scored, and nothing is answered
  if (prompt_tokens > static_cast<std::size_t>(limits.max_input_tokens) || prompt_tokens >= total) {
    throw ApiError(ApiError::Kind::prompt_too_long,
                   "the prompt has " + std::to_string(prompt_tokens) + " tokens; at most " +
                       std::to_string(limits.max_input_tokens) + " are possible" + reason_of_input_limit(limits),
                   prompt_field);
  }
  if (!asked) return static_cast<int>(total - prompt_tokens);
  if (static_cast<std::size_t>(*asked) > total - prompt_tokens) {
    throw ApiError(ApiError::Kind::prompt_too_long,
                   "the prompt has " + std::to_string(prompt_tokens) + " tokens, and `" + field + "` asks for " +
                       std::to_string(*asked) + " more; together at most " + std::to_string(limits.max_total_tokens) +
                       " are possible",
                   field);
  }
  return *asked;
}

}  // namespace serve
