#include "serve/api/lorax/lorax_writer.h"

#include <algorithm>
#include <utility>

#include "tenon/engine/receipt.h"

namespace serve {

using tenon::Event;
using tenon::OrderedJson;

LoraxWriter::LoraxWriter(GenerateRequest request, const tenon::Tokenizer& tokenizer, Terms terms)
    : request_(std::move(request)),
      tokenizer_(tokenizer),
      terms_(std::move(terms)),
      sequences_(static_cast<std::size_t>(request_.best_of)),
      open_(sequences_.size()),
      receipts_(request_.options.receipt ? sequences_.size() : 0) {
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    sequences_[i].seed = tenon::choice_seed(request_.options.seed, static_cast<int>(i));
  }
}

void LoraxWriter::take(const Event& event) {
  if (event.scores) scores_ = event.scores;  // with the end, which may come when all tokens have been taken
  if (complete()) return;
  refuse_failed(event, Dialect::lorax);
  Sequence& sequence = sequences_[static_cast<std::size_t>(event.choice)];
  if (event.kind == Event::Kind::token && sequence.reason.empty()) take_token(sequence, event);
  if (!event.receipt) return;
  sequence.receipt = event.receipt;
  --receipts_;
}

void LoraxWriter::take_token(Sequence& sequence, const Event& event) {
  const bool special = tokenizer_.is_special(event.token) || ends(event.token);
  const std::string text = special ? text_of(tokenizer_, event.token) : event.text;
  OrderedJson token = token_json(event.token, text, event.logprob);
  token["special"] = special;
  token["skipped"] = false;
  if (request_.alternatives > 0) {
    OrderedJson& all = token["alternative_tokens"] = OrderedJson::array();
    const std::size_t shown = std::min(event.top_logprobs.size(), static_cast<std::size_t>(request_.alternatives));
    for (std::size_t i = 0; i < shown; ++i) {
      const tenon::TokenLogprob& each = event.top_logprobs[i];
      all.push_back(token_json(each.id, text_of(tokenizer_, each.id), each.logprob));
    }
  }
  const bool in_text = !special || (!request_.options.skip_special_tokens && !ends(event.token));
  if (in_text) sequence.text += text;
  sequence.logprob += static_cast<double>(event.logprob);
  ++sequence.count;
  sequence.reason = reason_of(sequence, event, /*adds_text=*/in_text && !text.empty());
  const bool last = !sequence.reason.empty();
  if (last) --open_;
  if (!request_.stream) {
    sequence.tokens.push_back(std::move(token));
    if (request_.top_tokens > 0) sequence.tops.push_back(top_tokens(event));
    return;
  }
  OrderedJson out = {{"token", std::move(token)}, {"generated_text", nullptr}, {"details", nullptr}};
  if (request_.top_tokens > 0) out["top_tokens"] = top_tokens(event);
  if (last) {
    out["generated_text"] = full_text(sequence);
    if (request_.details) {
      out["details"] = {{"finish_reason", sequence.reason},
                        {"prompt_tokens", terms_.input.size()},
                        {"input_length", terms_.input.size()},  // TGI's word for it in streams
                        {"generated_tokens", sequence.count},
                        {"seed", seed_of(sequence)}};
    }
  }
  streamed_ += sse(one_line(out));
}

// In LoRAX's order: the length first, then the end of text, then a stop string at the end of the text so far. A token
// without text finds none: the text before it was searched already, or was exempt by min_new_tokens.
std::string LoraxWriter::reason_of(const Sequence& sequence, const Event& event, bool adds_text) const {
  if (sequence.count == terms_.max_new_tokens) return "length";
  if (ends(event.token)) return "eos_token";
  const auto stops = [&](const std::string& stop) { return sequence.text.ends_with(stop); };
  const bool may_stop = adds_text && sequence.count > request_.options.min_new_tokens;
  if (may_stop && std::any_of(request_.stop.begin(), request_.stop.end(), stops)) return "stop_sequence";
  return event.final ? "eos_token" : "";  // a schema is complete: the end is all that may come
}

bool LoraxWriter::ends(tenon::TokenId token) const {
  return std::find(terms_.ends.begin(), terms_.ends.end(), token) != terms_.ends.end();
}

OrderedJson LoraxWriter::top_tokens(const Event& event) const {
  OrderedJson all = OrderedJson::array();
  const std::size_t shown = std::min(event.top_logprobs.size(), static_cast<std::size_t>(request_.top_tokens));
  for (std::size_t i = 0; i < shown; ++i) {
    const tenon::TokenLogprob& each = event.top_logprobs[i];
    OrderedJson token = token_json(each.id, text_of(tokenizer_, each.id), each.logprob);
    token["special"] = tokenizer_.is_special(each.id);
    all.push_back(std::move(token));
  }
  return all;
}

OrderedJson LoraxWriter::token_json(tenon::TokenId id, const std::string& text, float logprob) const {
  return {{"id", id}, {"text", text}, {"logprob", finite_logprob(logprob)}};
}

std::string LoraxWriter::full_text(const Sequence& sequence) const {
  return request_.return_full_text ? request_.inputs + sequence.text : sequence.text;
}

OrderedJson LoraxWriter::seed_of(const Sequence& sequence) const {
  return request_.sampling ? OrderedJson(sequence.seed) : OrderedJson(nullptr);
}

OrderedJson LoraxWriter::prefill() const {
  OrderedJson all = OrderedJson::array();
  if (!request_.decoder_input_details) return all;
  if (!scores_)
    throw ApiError(ApiError::Kind::engine, "decoder_input_details: the engine failed before they were known");
  for (std::size_t i = 0; i < terms_.input.size(); ++i) {
    OrderedJson token = token_json(terms_.input[i], text_of(tokenizer_, terms_.input[i]),
                                   i == 0 ? 0 : scores_->prompt.at(i - 1).token.logprob);
    if (i == 0) token["logprob"] = nullptr;
    all.push_back(std::move(token));
  }
  return all;
}

OrderedJson LoraxWriter::details(const Sequence& best) const {
  OrderedJson details = {{"finish_reason", best.reason},   {"prompt_tokens", terms_.input.size()},
                         {"generated_tokens", best.count}, {"skipped_tokens", 0},
                         {"seed", seed_of(best)},          {"prefill", prefill()},
                         {"tokens", best.tokens}};
  if (request_.top_tokens > 0) details["top_tokens"] = best.tops;
  if (sequences_.size() == 1) return details;
  OrderedJson& others = details["best_of_sequences"] = OrderedJson::array();
  for (const Sequence& each : sequences_) {
    if (&each == &best) continue;
    others.push_back({{"generated_text", full_text(each)},
                      {"finish_reason", each.reason},
                      {"generated_tokens", each.count},
                      {"seed", seed_of(each)},
                      {"prefill", OrderedJson::array()},
                      {"tokens", each.tokens}});
    if (request_.top_tokens > 0) others.back()["top_tokens"] = each.tops;
  }
  return details;
}

std::string LoraxWriter::whole() const {
  const auto less = [](const Sequence& a, const Sequence& b) { return a.mean_logprob() < b.mean_logprob(); };
  const Sequence& best = *std::max_element(sequences_.begin(), sequences_.end(), less);
  OrderedJson answer = {{"generated_text", full_text(best)}};
  if (request_.details || request_.decoder_input_details) answer["details"] = details(best);
  if (best.receipt) answer["receipt"] = OrderedJson(tenon::to_json(*best.receipt));
  return one_line(terms_.as_list ? OrderedJson::array({answer}) : answer);
}

Usage LoraxWriter::usage() const {
  Usage usage{.prompt_tokens = static_cast<int>(terms_.input.size())};
  for (const Sequence& each : sequences_) usage.generated_tokens += each.count;
  return usage;
}

}  // namespace serve
