#include "serve/api/lorax/lorax_asked.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "serve/api/asked.h"
#include "serve/api/lorax/lorax_writer.h"

namespace serve {

Asked lorax_asked(Model& model, std::string_view body, const AnswerIdentity& identity, Streaming streaming,
                  bool as_list) {
  GenerateRequest request = parse_generate(body, model.context(), streaming);
  need_adapters(model, request.adapters, request.adapter_field);
  tenon::Request one{.adapters = request.adapters};
  tenon::Options& options = request.options;
  need_tokens(model, options.stop_ids, "stop_token_ids");
  if (request.messages.is_null()) {
    one.input_ids = model.tokens(request.inputs, {.parse_special = request.parse_special,
                                                  .add_special_tokens = request.add_special_tokens,
                                                  .truncate = request.truncate.value_or(0)});
  } else {
    one.input_ids =
        model.chat_prompt({.messages = request.messages, .add_generation_prompt = true}, identity.created).ids;
    keep_last(one.input_ids, request.truncate);
    model.add_chat_stops(options);
  }
  RequestLimits limits = model.limits();
  if (request.endless) limits.default_new_tokens = 0;
  options.max_new_tokens = lorax_new_tokens(request.max_new_tokens, one.input_ids.size(), limits);
  check_least(options, "min_new_tokens");
  options.n = request.best_of;
  if (request.best_of > 1) options.top_logprobs = std::max(options.top_logprobs, 0);  // by which the best is found
  if (request.sampling && !request.seed_given) options.seed = identity.seed;
  one.options = options;
  if (request.prediction) one.prediction = model.predicted(*request.prediction);
  if (request.form) {
    one.constraint = model.constraint(*request.form);
    one.constraint_source = request.form->source();
  }
  Asked asked{.stream = request.stream,
              .resumable = request.resumable,
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

}  // namespace serve
