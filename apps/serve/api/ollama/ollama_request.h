// Requests of Ollama's API.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "serve/api/heads/head_request.h"
#include "serve/api/openai/openai_request.h"
#include "serve/api/request_context.h"

namespace serve {

// One of `chat` and `completion` is there, or none if `loads`.
struct OllamaRequest {
  std::string model;                                 // as asked, without ":latest"
  bool loads = false;                                // without messages or a prompt: asks for the model to be loaded
  std::optional<ChatRequest> chat = {};              // goes through the chat template
  std::optional<CompletionRequest> completion = {};  // a prompt as it is
};

// ApiError: malformed, invalid, bad_adapter_name.
OllamaRequest parse_ollama_chat(std::string_view body, const RequestContext& context);
// has_template: whether the model has a chat template. Without one, and with `raw`, the prompt is continued as it is.
OllamaRequest parse_ollama_generate(std::string_view body, const RequestContext& context, bool has_template);
EmbeddingRequest parse_ollama_embed(std::string_view body, const RequestContext& context);
EmbeddingRequest parse_ollama_embeddings(std::string_view body, const RequestContext& context);  // of one text
// The model that /api/show is asked about.
std::string parse_ollama_show(std::string_view body, const RequestContext& context);

// A name of Ollama's is NAME:TAG. This server's names have no tags, so ":latest" is left out, unless the base model is
// called so.
std::string without_tag(const std::string& name, const RequestContext& context);

}  // namespace serve
