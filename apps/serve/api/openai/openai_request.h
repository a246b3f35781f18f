// Requests in OpenAI's dialect, from the bytes of their bodies.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/api/openai/chat_fields.h"
#include "serve/api/request_context.h"
#include "serve/api/response_format.h"
#include "tenon/core/request.h"

namespace serve {

struct SamplingRequest {
  std::string model;                        // as asked, which may be empty
  std::vector<tenon::AdapterUse> adapters;  // none: the base model
  std::string adapter_field;                // that names them; empty: none does
  // Complete but for max_new_tokens, which openai_new_tokens tells, and for a seed where none is given. Stop strings
  // are in options.stop: here they end an answer and stay out of it.
  tenon::Options options;
  bool seed_given = false;
  bool stream = false;
  bool resumable = false;  // the stream can be continued after a cut
  bool include_usage = false;
  bool continuous_usage = false;            // in each chunk, as vLLM has it
  std::optional<int> max_tokens;            // none: what is left beside the prompt; 0: only the prompt is scored
  std::string length_field = "max_tokens";  // what the client calls it
  std::string prompt_field = "prompt";      // what the client calls that
  std::optional<AnswerForm> form;
  std::optional<int> truncate;         // the prompt's last tokens that are kept; none: all
  bool truncate_to_fit = false;        // `truncate` is longest_prompt()
  std::optional<int> prompt_logprobs;  // alternatives to each token of the prompt, as vLLM shows them; none: not asked
  bool return_token_ids = false;
  std::optional<std::string> prediction;  // a text that the answer may well be; it decides speed alone
  std::vector<std::string> ignored;       // unknown fields, where the server is lenient
};

struct CompletionRequest : SamplingRequest {
  using Prompt = std::variant<std::string, std::vector<tenon::TokenId>>;
  std::vector<Prompt> prompts;  // none is empty; ids are at least 0, and not compared with the vocabulary
  std::optional<int> logprobs;
  bool echo = false;
  bool parse_special = true;  // special tokens spelled in texts are tokens
  bool add_special_tokens = true;
};

struct ChatRequest : SamplingRequest {
  tenon::chat::Conversation conversation;
  ToolChoice tools;
  ReasoningWish reasoning;
  bool tells_reasoning = true;  // apart from the text
  bool shows_reasoning = true;  // at all, where it is apart
  bool logprobs = false;
  int top_logprobs = 0;
};

// ApiError: malformed, invalid, bad_adapter_name.
CompletionRequest parse_completion(std::string_view body, const RequestContext& context);
ChatRequest parse_chat(std::string_view body, const RequestContext& context);

}  // namespace serve
