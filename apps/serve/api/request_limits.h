// What one request may ask of the server.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tenon/core/request.h"

namespace serve {

struct RequestLimits {
  int max_input_tokens;
  int max_total_tokens;  // of the input and the answer
  int max_stop_sequences = 10;
  int max_best_of = 2;
  int max_n = 8;
  int max_alternatives = 20;                      // to each token
  int default_new_tokens = 0;                     // LoRAX's routes, where a request names no length; 0: what is left
  std::optional<tenon::Options> generation = {};  // of generation_config.json: defaults in place of the API's own
  float drawing_temperature = 1;                  // of generation_config.json, for `do_sample: true`
};

inline constexpr std::size_t kMostChoicesOfABody = 128;  // prompts times n
inline constexpr std::size_t kMostInputs = 2048;  // texts of a body for embeddings, classes or ranks; OpenAI's limit
inline constexpr std::size_t kMostMessages = 1024;
inline constexpr std::size_t kMostStopIds = 1024;
// Log-probabilities of one answer, some 80 MB of JSON being written; of all under way, but for those with few.
inline constexpr std::size_t kMostListed = 65536;
inline constexpr int kMostListedTogether = 4 * 65536;
inline constexpr std::size_t kFewListed = 8192;
inline constexpr std::size_t kMostSchemaBytes = std::size_t{256} << 10;

// ApiError where there are too many, or an empty one; `field` is what the client calls them.
void check_stop(const std::vector<std::string>& stop, const RequestLimits& limits, const std::string& field = "stop");

// `truncate_prompt_tokens: -1`: the most tokens of a prompt that leave room for an answer of `new_tokens`. none: for
// 256 tokens, or half of max_total_tokens if that is less.
int longest_prompt(std::optional<int> new_tokens, const RequestLimits& limits);

// How long an answer may become, once the input is tokenised: as asked, else limits.default_new_tokens (LoRAX) or what
// is left. ApiError where that does not fit; `field` is what the client calls the length ("max_tokens",
// "max_completion_tokens"), `prompt_field` what it calls the prompt.
int lorax_new_tokens(std::optional<std::uint32_t> asked, std::size_t input_tokens, const RequestLimits& limits);
int openai_new_tokens(std::optional<int> asked, std::size_t prompt_tokens, const RequestLimits& limits,
                      const std::string& field = "max_tokens", const std::string& prompt_field = "prompt");

}  // namespace serve
