#include "serve/api/openai/openai_asked.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "serve/api/asked.h"
#include "serve/api/openai/openai_request.h"
#include "serve/api/openai/openai_writer.h"
#include "serve/text.h"

namespace serve {
namespace {

std::string as_text(const Model& model, std::vector<tenon::TokenId> ids, bool skip_special) {
  if (skip_special) std::erase_if(ids, [&](tenon::TokenId id) { return model.tokenizer().is_special(id); });
  return tenon::sanitize_utf8(model.tokenizer().decode(ids));
}

// What both OpenAI routes have in common.
struct OpenAiAsked {
  OpenAiAsked(Model& model, const SamplingRequest& request, const std::string& id)
      : terms{.id = id,
              .model = request.model.empty() ? model.name() : request.model,
              .created = static_cast<std::int64_t>(seconds_since_1970()),
              .n = request.options.n,
              .stream = request.stream,
              .include_usage = request.include_usage,
              .logprobs = request.options.top_logprobs >= 0,
              .alternatives = request.options.top_logprobs,
              .prompt_logprobs = request.prompt_logprobs,
              .return_token_ids = request.return_token_ids,
              .skip_special = request.options.skip_special_tokens},
        common{.adapters = request.adapters, .options = request.options} {
    need_adapters(model, request.adapters, request.adapter_field);
    if (!request.seed_given) common.options.seed = random_bits();
    need_tokens(model, request.options.stop_ids, "stop_token_ids");
    if (request.form) common.constraint = model.constraint(*request.form);
    asked.stream = request.stream;
    asked.ignored = request.ignored;
    asked.adapter = name_of(request.adapters);
  }

  void add(const Model& model, const SamplingRequest& request, std::vector<tenon::TokenId> ids, std::string echo) {
    tenon::Request one = common;
    one.options.max_new_tokens =
        openai_new_tokens(request.max_tokens, ids.size(), model.limits(), request.length_field, request.prompt_field);
    check_least(one.options, "min_tokens");
    one.input_ids = ids;
    asked.max_new_tokens = std::max(asked.max_new_tokens, one.options.max_new_tokens);
    asked.requests.push_back(std::move(one));
    terms.prompts.push_back(std::move(ids));
    terms.echoes.push_back(std::move(echo));
  }

  Asked finish(Model& model) {
    take_listed(model, asked, "logprobs");
    terms.ends = ends_of(model, common.options);
    asked.writer = std::make_unique<OpenAiWriter>(std::move(terms), model.tokenizer());
    return std::move(asked);
  }

  OpenAiWriter::Terms terms;
  tenon::Request common;
  Asked asked;
};

}  // namespace

Asked completion_asked(Model& model, std::string_view body, const std::string& id) {
  const CompletionRequest request = parse_completion(body, model.context());
  if (request.stream && request.echo && request.logprobs) {
    throw ApiError(ApiError::Kind::invalid, "`echo` together with `logprobs` is not supported in a stream", "echo");
  }
  OpenAiAsked made(model, request, id);
  for (const CompletionRequest::Prompt& prompt : request.prompts) {
    const auto* const text = std::get_if<std::string>(&prompt);
    std::vector<tenon::TokenId> ids;
    if (text) {
      ids = model.tokens(*text, {.parse_special = request.parse_special,
                                 .add_special_tokens = request.add_special_tokens,
                                 .truncate = request.truncate.value_or(0)});
    } else {
      ids = std::get<std::vector<tenon::TokenId>>(prompt);
      need_tokens(model, ids, request.prompt_field);
      keep_last(ids, request.truncate);
    }
    std::string echo = text ? *text : as_text(model, ids, request.options.skip_special_tokens);
    made.asked.characters += characters(echo);
    made.add(model, request, std::move(ids), request.echo ? std::move(echo) : std::string());
  }
  return made.finish(model);
}

Asked chat_asked(Model& model, std::string_view body, const std::string& id) {
  const ChatRequest request = parse_chat(body, model.context());
  OpenAiAsked made(model, request, id);
  made.terms.chat = true;
  model.add_chat_stops(made.common.options);
  for (const ChatMessage& message : request.messages) made.asked.characters += characters(message.content);
  std::vector<tenon::TokenId> ids = model.chat_tokens(request.messages);
  keep_last(ids, request.truncate);
  made.add(model, request, std::move(ids), {});
  return made.finish(model);
}

}  // namespace serve
