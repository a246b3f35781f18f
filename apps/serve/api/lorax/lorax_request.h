// Requests in LoRAX's dialect, from the bytes of their bodies.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/openai/reasoning_fields.h"
#include "serve/api/request_context.h"
#include "serve/api/response_format.h"
#include "tenon/chat/template.h"
#include "tenon/core/request.h"
#include "tenon/io/json.h"

namespace serve {

struct GenerateRequest {
  std::string inputs;
  tenon::OrderedJson messages = {};  // with apply_chat_template what `inputs` holds; else null
  bool parse_special = true;         // special tokens spelled in `inputs` are tokens
  bool add_special_tokens = true;
  bool stream = false;
  bool resumable = false;                   // the stream can be continued after a cut
  std::optional<std::string> prediction;    // a text that the answer may well be; it decides speed alone
  std::vector<tenon::AdapterUse> adapters;  // none: the base model; several, or one with a weight: merged
  std::string adapter_field;                // that names them; empty: none does
  // The sampling parameters (temperature 0 where `sampling` is false), the seed if given, ignore_eos, stop_ids,
  // top_logprobs and prompt_logprobs. Left for later: max_new_tokens, n, best_of, and a seed where none is given.
  tenon::Options options;
  std::optional<std::uint32_t> max_new_tokens;  // none: lorax_new_tokens
  bool endless = false;  // no max_new_tokens, and what is left is asked for, whatever the default
  bool sampling = false;
  bool seed_given = false;
  int best_of = 1;
  std::vector<std::string> stop;  // not in options.stop: here a stop string ends an answer and stays in it
  bool details = false;
  bool decoder_input_details = false;
  bool return_full_text = false;
  std::optional<int> truncate;  // keeps the last so many tokens of the input
  int alternatives = 0;         // to each token; 0: none asked
  int top_tokens = 0;           // the same, in TGI's form
  std::optional<AnswerForm> form;
  std::vector<std::string> ignored = {};  // unknown fields, where the server is lenient
};

// How the answer lists tokens: with places in the text, or as vLLM or llama.cpp does.
enum class TokenShape { placed, vllm, llama_cpp };

struct TokenizeRequest {
  std::string inputs;
  std::optional<tenon::chat::Conversation> conversation = {};  // whose prompt is asked for, instead of `inputs`
  ReasoningWish reasoning = {};                                // of the conversation
  bool add_special_tokens = true;
  bool parse_special = true;
  TokenShape shape = TokenShape::placed;
  bool with_pieces = false;  // where the shape may do without them
  std::vector<std::string> ignored = {};
};

struct DetokenizeRequest {
  std::vector<tenon::TokenId> tokens;  // at least 0, and not compared with the vocabulary
  std::vector<std::string> ignored = {};
};

// Whether the answer is a stream: as the body says (POST /), or as the route does.
enum class Streaming { as_asked, never, always };

// ApiError: malformed, invalid, bad_adapter_name.
GenerateRequest parse_generate(std::string_view body, const RequestContext& context,
                               Streaming streaming = Streaming::as_asked);
TokenizeRequest parse_tokenize(std::string_view body, const RequestContext& context);
DetokenizeRequest parse_detokenize(std::string_view body, const RequestContext& context);

}  // namespace serve
