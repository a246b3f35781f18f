#include "api_replay.h"

#include <algorithm>

#include "conversation/listed_tokens.h"
#include "options.h"
#include "prepare_line.h"
#include "tenon/core/error.h"
#include "tenon/engine/prepared_request.h"
#include "tenon/io/file.h"

namespace program {
namespace {

constexpr std::size_t kBeyond = 16;  // tokens that an answer may have beyond the bytes of its text

// The tokens of a text that this engine can have.
std::vector<tenon::TokenId> encoded(const std::string& text, const tenon::AnyEngine& engine) {
  std::vector<tenon::TokenId> ids = engine.tokenizer()->encode(text);
  std::erase_if(ids, [&](tenon::TokenId id) { return id >= engine.config().vocab; });
  return ids;
}

// Whether a list can be that of these tokens. Texts that are not clear are no contradiction.
bool can_list(const std::vector<ListedToken>& listed, const std::vector<tenon::TokenId>& ids, bool skips_special,
              const tenon::Tokenizer& tokenizer) {
  const std::vector<std::string> texts = texts_of(ids, skips_special, tokenizer);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (listed[i].is_exact && !listed[i].text.empty() && !is_token(listed[i], ids[i], texts[i], tokenizer))
      return false;
  return true;
}

}  // namespace

std::vector<ApiCheck> ApiReplay::run(std::vector<ApiLine>& lines) {
  lines_ = &lines;
  checks_.assign(lines.size(), {});
  jobs_.clear();
  for (std::size_t i = 0; i < lines.size(); ++i) plan(i);
  std::size_t next = 0;
  while (next < jobs_.size() || !open_.empty()) {
    while (next < jobs_.size() && submit(jobs_[next], next)) ++next;
    engine_.set_draining(next == jobs_.size());
    if (open_.empty()) continue;
    for (const tenon::Event& event : step_or_wait(engine_)) take(event);
    for (const tenon::RequestId request : std::exchange(wrong_, {})) engine_.cancel(request);
  }
  engine_.set_draining(false);
  return std::move(checks_);
}

void ApiReplay::plan(std::size_t index) {
  ApiLine& line = (*lines_)[index];
  ApiCheck& check = checks_[index];
  check.not_compared = line.refused;
  if (!line.refused.empty()) return;
  try {
    prepare_line(line.parsed, engine_, constraints_, conversations_, line.answer.created);
    const int prompt = static_cast<int>(line.parsed.request.input_ids.size());
    if (line.answer.prompt_tokens.value_or(prompt) != prompt) check.prompt_tokens = prompt;
    if (const auto unknown = why_not_known(line)) {
      check.not_compared.insert(*unknown);
      plan_scores(index);
    } else {
      plan_answer(index);
    }
  } catch (const tenon::Error& error) {
    check.not_compared.insert(refusal_of(error));
  }
}

// Why this engine cannot know what the server drew: the field, and the reason.
std::optional<std::pair<std::string, std::string>> ApiReplay::why_not_known(const ApiLine& line) {
  if (line.parsed.request.options.temperature == 0) return std::nullopt;
  if (!line.seed_given) return std::pair("request.seed", "is missing, and the temperature is not 0");
  if (fingerprint_.empty()) fingerprint_ = engine_.fingerprint();
  if (line.answer.fingerprint == fingerprint_) return std::nullopt;
  return std::pair("response.system_fingerprint",
                   "is not " + fingerprint_ + ", this engine's: what another draws from a seed is not known");
}

void ApiReplay::plan_answer(std::size_t index) {
  ApiLine& line = (*lines_)[index];
  Job job{.line = index, .request = std::move(line.parsed.request)};
  tenon::Options& o = job.request.options;
  const std::vector<ApiChoice>& choices = line.answer.choices;
  const ApiChoice& first = choices.front();
  const bool has_text = !line.parsed.batch->style;  // else the text that the model writes is not told
  if (!line.parsed.batch->length_given) {
    o.max_new_tokens = room_for_answer(job.request.input_ids.size(), engine_);
    std::size_t most = 0;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const auto told = may_be_cut(line, i) ? tokens_told(line, i) : std::nullopt;
      const std::size_t room = static_cast<std::size_t>(o.max_new_tokens);
      most = std::max(most, told ? *told : has_text ? choices[i].text.size() + kBeyond : room);
    }
    if (most < static_cast<std::size_t>(o.max_new_tokens))
      o.max_new_tokens = static_cast<int>(std::max<std::size_t>(most, 1));
  }
  const bool has_logprobs =
      std::any_of(choices.begin(), choices.end(), [](const auto& c) { return !c.listed.empty(); });
  o.top_logprobs = has_logprobs ? 0 : -1;
  line.parsed.batch->logprobs = false;  // they are compared as numbers
  job.request.prediction = first.ids ? *first.ids : encoded(first.reasoning.value_or("") + first.text, engine_);
  const int vocab = engine_.config().vocab;
  std::erase_if(job.request.prediction, [vocab](tenon::TokenId id) { return id < 0 || id >= vocab; });
  job.stops = has_text && choices.size() == 1 && o.best_of <= 1;
  line.parsed.request.options = o;  // the comparison reads them
  jobs_.push_back(std::move(job));
}

// The tokens that the server drew are scored as a part of the prompt.
void ApiReplay::plan_scores(std::size_t index) {
  const ApiLine& line = (*lines_)[index];
  for (std::size_t i = 0; i < line.answer.choices.size(); ++i) {
    const ApiChoice& choice = line.answer.choices[i];
    if (choice.listed.empty()) continue;
    const auto ids = ids_of(line, choice);
    if (!ids) {
      checks_[index].not_compared.emplace("choices[" + std::to_string(i) + "].logprobs",
                                          "list texts that are not, or not clearly, this model's tokens");
      continue;
    }
    Job job{.line = index, .scored = i};
    const tenon::Request& request = line.parsed.request;
    job.request.input_ids = request.input_ids;
    job.request.input_ids.insert(job.request.input_ids.end(), ids->begin(), ids->end());
    job.request.adapters = request.adapters;
    job.request.options = {.max_new_tokens = 0, .prompt_logprobs = 0};
    job.prompt = request.input_ids.size();
    jobs_.push_back(std::move(job));
  }
}

// The tokens that a choice lists; none: they are not this model's, or several could be meant.
std::optional<std::vector<tenon::TokenId>> ApiReplay::ids_of(const ApiLine& line, const ApiChoice& choice) {
  const int vocab = std::min(engine_.config().vocab, engine_.tokenizer()->vocab_size());
  const auto known = [vocab](tenon::TokenId id) { return id >= 0 && id < vocab; };
  const std::size_t listed = choice.listed.size();
  std::vector<tenon::TokenId> ids;
  if (choice.ids && choice.ids->size() + 1 >= listed) {
    ids = *choice.ids;
    ids.resize(std::min(ids.size(), listed));
    if (!std::all_of(ids.begin(), ids.end(), known) ||
        !can_list(choice.listed, ids, line.parsed.request.options.skip_special_tokens, *engine_.tokenizer()))
      return std::nullopt;
  } else {
    ids = ids_by_bytes(choice);
  }
  if (ids.size() + 1 == listed)
    if (const auto end = end_of(line, choice)) ids.push_back(*end);
  if (ids.size() != listed) return std::nullopt;
  return ids;
}

// As far as the bytes of a token tell its id. Where several have the same, that of the text's encoding is taken.
std::vector<tenon::TokenId> ApiReplay::ids_by_bytes(const ApiChoice& choice) {
  const tenon::Tokenizer& tokenizer = *engine_.tokenizer();
  if (by_bytes_.empty()) {
    for (tenon::TokenId id = 0; id < std::min(engine_.config().vocab, tokenizer.vocab_size()); ++id) {
      const auto [place, is_new] = by_bytes_.emplace(tokenizer.bytes(id), id);
      if (!is_new) place->second = -1;
    }
  }
  const std::vector<tenon::TokenId> likely = encoded(choice.text, engine_);
  std::vector<tenon::TokenId> ids;
  bool is_likely = true;
  for (const ListedToken& each : choice.listed) {
    if (!each.is_exact || each.text.empty()) break;
    is_likely = is_likely && ids.size() < likely.size() && tokenizer.bytes(likely[ids.size()]) == each.text;
    const auto found = by_bytes_.find(each.text);
    const tenon::TokenId alone = found == by_bytes_.end() ? -1 : found->second;
    if (!is_likely && alone < 0) break;
    ids.push_back(is_likely ? likely[ids.size()] : alone);
  }
  return ids;
}

// The token that ends a choice, and is listed last: with its text or without one. None: it is not clear.
std::optional<tenon::TokenId> ApiReplay::end_of(const ApiLine& line, const ApiChoice& choice) {
  if (choice.reason != "stop" || !choice.listed.back().is_exact) return std::nullopt;
  const tenon::Options& o = line.parsed.request.options;
  std::vector<tenon::TokenId> ends = o.stop_ids;
  if (!o.ignore_eos) ends.insert(ends.end(), engine_.config().eos.begin(), engine_.config().eos.end());
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  const std::string& text = choice.listed.back().text;
  std::erase_if(ends, [&](tenon::TokenId id) {
    return id < 0 || id >= engine_.config().vocab || id >= engine_.tokenizer()->vocab_size() ||
           (!text.empty() && engine_.tokenizer()->bytes(id) != text);
  });
  return ends.size() == 1 ? std::optional(ends.front()) : std::nullopt;
}

// False if its adapters have no room until another request ends.
bool ApiReplay::submit(Job& job, std::size_t number) {
  try {
    if (!job.request.adapters.empty() && !tenon::take_lease(engine_, job.request, !open_.empty())) return false;
    open_.emplace(engine_.submit(std::move(job.request)), number);
  } catch (const tenon::Error& error) {
    checks_[job.line].not_compared.insert(refusal_of(error));
  }
  return true;
}

void ApiReplay::take(const tenon::Event& event) {
  const auto found = open_.find(event.request);
  if (found == open_.end()) return;
  Job& job = jobs_[found->second];
  if (job.stops) {
    job.text += event.text;
    const std::string& theirs = (*lines_)[job.line].answer.choices.front().text;
    if (!theirs.starts_with(job.text)) {
      wrong_.push_back(event.request);
      job.stops = false;
    }
  }
  if (!job.done.add(event, /*with_logprobs=*/true)) return;
  open_.erase(found);
  finish(job);
}

void ApiReplay::finish(Job& job) {
  const ApiLine& line = (*lines_)[job.line];
  ApiCheck& check = checks_[job.line];
  if (job.done.reason == tenon::FinishReason::error) {
    check.not_compared.emplace("request", job.done.error);
  } else if (job.scored) {
    const std::vector<ListedToken>& listed = line.answer.choices[*job.scored].listed;
    for (std::size_t i = 0; i < listed.size(); ++i)
      check.add_difference(listed[i].logprob -
                           finite_logprob(job.done.scores->prompt.at(job.prompt - 1 + i).token.logprob));
  } else {
    for (std::size_t i = 0; i < line.answer.choices.size(); ++i)
      check_choice(line, i, i == 0 ? job.done : job.done.others.at(i - 1), *engine_.tokenizer(), check);
    if (check.same == true && check.tokens == 0) {
      check.same.reset();
      check.not_compared.emplace("response.choices", "have no tokens to compare");
    }
  }
  job.done = {};
}

}  // namespace program
