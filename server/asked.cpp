#include "server/asked.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "server/lorax_writer.h"
#include "server/openai_request.h"
#include "server/openai_writer.h"
#include "server/text.h"

namespace serve {
namespace {

// Room for those of all choices, their tokens and the alternatives to each.
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

// Before anything is read: one that nobody knows is another error than one that does not fit.
void need_adapters(Model& model, const std::vector<tenon::AdapterUse>& adapters, const std::string& param) {
  for (const tenon::AdapterUse& use : adapters) {
    if (!model.adapters().is_known(use.name)) throw unknown_adapter(use.name, param);
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

std::string as_text(const Model& model, std::vector<tenon::TokenId> ids, bool skip_special) {
  if (skip_special) std::erase_if(ids, [&](tenon::TokenId id) { return model.tokenizer().is_special(id); });
  return tenon::sanitize_utf8(model.tokenizer().decode(ids));
}

void keep_last(std::vector<tenon::TokenId>& ids, std::optional<int> most) {
  if (most && ids.size() > static_cast<std::size_t>(*most)) ids.erase(ids.begin(), ids.end() - *most);
}

// Where a request names no length, only here is known how long its answer may be.
void check_least(const tenon::Options& options, const std::string& field) {
  if (options.min_new_tokens <= options.max_new_tokens) return;
  throw ApiError(ApiError::Kind::invalid,
                 "`" + field + "` must be at most the length of the answer, which is " +
                     std::to_string(options.max_new_tokens) + " tokens",
                 field);
}

// Tokens that end an answer and are no part of it.
std::vector<tenon::TokenId> ends_of(const Model& model, const tenon::Options& options) {
  std::vector<tenon::TokenId> ends = options.stop_ids;
  if (!options.ignore_eos) ends.insert(ends.end(), model.config().eos.begin(), model.config().eos.end());
  return ends;
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

Asked lorax_asked(Model& model, std::string_view body, Streaming streaming, bool as_list) {
  GenerateRequest request = parse_generate(body, model.context(), streaming);
  need_adapters(model, request.adapters, request.adapter_field);
  tenon::Request one{.adapters = request.adapters};
  tenon::Options& options = request.options;
  need_tokens(model, options.stop_ids, "stop_token_ids");
  if (request.messages.empty()) {
    one.input_ids = model.tokens(request.inputs, {.parse_special = request.parse_special,
                                                  .add_special_tokens = request.add_special_tokens,
                                                  .truncate = request.truncate.value_or(0)});
  } else {
    one.input_ids = model.chat_tokens(request.messages);
    keep_last(one.input_ids, request.truncate);
    model.add_chat_stops(options);
  }
  RequestLimits limits = model.limits();
  if (request.endless) limits.default_new_tokens = 0;
  options.max_new_tokens = lorax_new_tokens(request.max_new_tokens, one.input_ids.size(), limits);
  check_least(options, "min_new_tokens");
  options.n = request.best_of;
  if (request.best_of > 1) options.top_logprobs = std::max(options.top_logprobs, 0);  // by which the best is found
  if (request.sampling && !request.seed_given) options.seed = random_bits();
  one.options = options;
  if (request.form) one.constraint = model.constraint(*request.form);
  Asked asked{.stream = request.stream,
              .adapter = name_of(request.adapters),
              .max_new_tokens = options.max_new_tokens,
              .characters = characters(request.inputs),
              .ignored = std::move(request.ignored)};
  LoraxWriter::Terms terms{.input = one.input_ids,
                           .max_new_tokens = options.max_new_tokens,
                           .ends = ends_of(model, options),
                           .as_list = as_list};
  asked.requests.push_back(std::move(one));
  take_listed(model, asked, request.top_tokens > request.alternatives ? "top_n_tokens" : "return_k_alternatives");
  asked.writer = std::make_unique<LoraxWriter>(std::move(request), model.tokenizer(), std::move(terms));
  return asked;
}

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
