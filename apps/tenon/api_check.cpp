#include "api_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "conversation/listed_tokens.h"
#include "output.h"
#include "tenon/io/file.h"
#include "tenon/tokenizer/stream_decoder.h"

namespace program {
namespace {

constexpr std::size_t kShown = 40;  // bytes of a difference

std::size_t common_bytes(std::string_view a, std::string_view b) {
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(differ.first - a.begin());
}

// Where the character begins that byte `at` belongs to.
std::size_t start_of_character(std::string_view text, std::size_t at) {
  while (at > 0 && at < text.size() && (text[at] & 0xc0) == 0x80) --at;
  return at;
}
std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string shown(std::string_view text, std::size_t from) {
  text = text.substr(std::min(from, text.size()));
  if (text.size() > kShown) text = text.substr(0, start_of_character(text, kShown));
  return std::string(text);
}

// The token of an answer whose text has byte `at`, or the one after the last.
int token_at(const tenon::Choice& answer, std::size_t at, bool skips_special, const tenon::Tokenizer& tokenizer) {
  std::size_t end = 0;
  const std::vector<std::string> texts = texts_of(answer.ids, skips_special, tokenizer);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    end += texts[i].size();
    if (end > at) return static_cast<int>(i);
  }
  return static_cast<int>(texts.size());
}

// The answer as `count` tokens would have it.
tenon::Choice cut_to(const tenon::Choice& answer, std::optional<std::size_t> count, bool skips_special,
                     const tenon::Tokenizer& tokenizer) {
  tenon::Choice cut = answer;
  if (!count || *count >= cut.ids.size()) return cut;
  cut.ids.resize(*count);
  cut.logprobs.resize(std::min(*count, cut.logprobs.size()));
  cut.top_logprobs.resize(std::min(*count, cut.top_logprobs.size()));
  cut.reason = tenon::FinishReason::length;
  tenon::StreamDecoder decoder(tokenizer);
  cut.text.clear();
  for (const tenon::TokenId id : cut.ids)
    if (!skips_special || !tokenizer.is_special(id)) cut.text += decoder.push(id);
  cut.text += decoder.finish();
  return cut;
}

// Without the U+FFFD that stands for a character whose end the length has cut off.
std::string_view whole_characters(std::string_view text) {
  return text.ends_with(kUnknownCharacter) ? text.substr(0, text.size() - kUnknownCharacter.size()) : text;
}

void append_member(std::string& out, std::string_view name, std::string_view value) {
  out += ", \"";
  out.append(name).append("\": ").append(value);
}

// One comparison of a choice. The first difference is noted.
class ChoiceCheck {
 public:
  ChoiceCheck(const ApiLine& line, std::size_t index, const tenon::Choice& ours, const tenon::Tokenizer& tokenizer,
              ApiCheck& check)
      : line_(line),
        theirs_(line.answer.choices[index]),
        index_(index),
        count_(may_be_cut(line, index) ? tokens_told(line, index) : std::nullopt),
        ours_(cut_to(ours, count_, line.parsed.request.options.skip_special_tokens, tokenizer)),
        batch_(*line.parsed.batch),
        tokenizer_(tokenizer),
        prefix_("choices[" + std::to_string(index) + "]."),
        is_cut_(may_be_cut(line, index) && !count_),
        message_(batch_choice(batch_, ours_, index, tokenizer)),
        check_(check) {}

  void run() {
    if (!check_.same) check_.same = true;
    check_ids();
    if (batch_.chat)
      check_message();
    else
      check_text("text", theirs_.text, ours_.text, /*is_whole=*/true);
    check_reason();
    check_logprobs();
    if (!agrees()) return;
    const std::size_t bytes = theirs_.text.size() + theirs_.reasoning.value_or("").size();
    check_.tokens += is_cut_ ? token_at(ours_, bytes, skips_special(), tokenizer_) : static_cast<int>(ours_.ids.size());
  }

 private:
  bool agrees() const { return check_.same == true; }
  bool skips_special() const { return line_.parsed.request.options.skip_special_tokens; }

  void differ(const std::string& field, std::string theirs, std::string ours, std::optional<int> position = {}) {
    if (!agrees()) return;
    check_.same = false;
    check_.field = prefix_ + field;
    check_.theirs = std::move(theirs);
    check_.ours = std::move(ours);
    check_.position = position;
    if (position) check_.tokens += *position;
  }

  // Servers differ in whether they list the token that ends an answer.
  void check_ids() {
    if (!theirs_.ids) return;
    const std::vector<tenon::TokenId>&a = *theirs_.ids, &b = ours_.ids;
    const auto differs = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
    const auto at = static_cast<std::size_t>(differs);
    if (at == a.size() || at == b.size()) {
      if (ours_.reason == tenon::FinishReason::cancelled) return;  // the text differs, and is told
      const std::size_t most = ours_.reason == tenon::FinishReason::stop ? 1 : 0;
      if (std::max(a.size(), b.size()) - at <= most) return;
    }
    const auto id = [at](const auto& list) { return at < list.size() ? std::to_string(list[at]) : std::string(); };
    differ("token_ids", id(a), id(b), static_cast<int>(at));
  }

  // is_whole: our text is that of all tokens, from the first on.
  void check_text(const std::string& field, const std::string& theirs, const std::string& ours, bool is_whole) {
    if (!agrees() || theirs == ours) return;
    if (is_cut_ && ours.starts_with(whole_characters(theirs))) return;
    const std::size_t at = start_of_character(ours, common_bytes(theirs, ours));
    std::optional<int> position;
    if (is_whole) position = token_at(ours_, at, skips_special(), tokenizer_);
    differ(field, shown(theirs, at), shown(ours, at), position);
    check_.character = characters(std::string_view(ours).substr(0, at));
  }

  void check_message() {
    const tenon::OrderedJson& message = message_["message"];
    const auto text = [&](const char* key) {
      return message.contains(key) && message[key].is_string() ? message[key].get<std::string>() : std::string();
    };
    const std::string reasoning = text("reasoning_content");
    if (theirs_.reasoning)
      check_text("message.reasoning_content", *theirs_.reasoning, reasoning, /*is_whole=*/false);
    else if (!reasoning.empty())
      check_.not_compared.emplace(prefix_ + "message.reasoning_content", "is missing in the answer");
    check_text("message.content", theirs_.text, text("content"), /*is_whole=*/!batch_.style);
    const std::vector<std::string> calls = calls_of(message);
    const auto call = [](const std::vector<std::string>& list, std::size_t i) {
      return i < list.size() ? list[i] : std::string();
    };
    for (std::size_t i = 0; i < std::max(calls.size(), theirs_.calls.size()); ++i)
      if (!may_be_cut(line_, index_) || i + 1 < theirs_.calls.size())
        check_text("message.tool_calls[" + std::to_string(i) + "]", call(theirs_.calls, i), call(calls, i), false);
  }

  void check_reason() {
    if (!agrees() || is_cut_) return;
    const std::string ours = message_["finish_reason"].get<std::string>();
    if (theirs_.reason == ours) return;
    if (theirs_.reason == "stop" || theirs_.reason == "length" || theirs_.reason == "tool_calls")
      differ("finish_reason", theirs_.reason, ours, static_cast<int>(ours_.ids.size()));
    else
      check_.not_compared.emplace(prefix_ + "finish_reason", theirs_.reason.empty() ? "is missing" : "is another word");
  }

  // Up to the first token that differs, or is not clear.
  void check_logprobs() {
    const std::vector<std::string> texts = texts_of(ours_.ids, skips_special(), tokenizer_);
    const std::size_t listed = theirs_.listed.size(), most = std::min(listed, ours_.logprobs.size());
    std::size_t i = 0;
    for (; i < most && is_ours(i, texts[i]); ++i)
      check_.add_difference(theirs_.listed[i].logprob - finite_logprob(ours_.logprobs[i]));
    const bool all = i == listed || (i + 1 == listed && i == ours_.ids.size() && has_stopped());
    if (all || (i > 0 && !agrees())) return;
    check_.not_compared.emplace(prefix_ + "logprobs", i == 0 ? "begin with another token, or one that is not clear"
                                                             : "compared up to token " + std::to_string(i));
  }

  bool has_stopped() const { return ours_.reason == tenon::FinishReason::stop; }

  // Whether the token that is listed at i is that of this engine. text: of that.
  bool is_ours(std::size_t i, const std::string& text) const {
    if (theirs_.ids && i < theirs_.ids->size()) return (*theirs_.ids)[i] == ours_.ids[i];
    const ListedToken& listed = theirs_.listed[i];
    const bool ends = has_stopped() && i + 1 == ours_.ids.size();
    return is_token(listed, ours_.ids[i], text, tokenizer_) || (ends && listed.text.empty());
  }

  const ApiLine& line_;
  const ApiChoice& theirs_;
  const std::size_t index_;
  const std::optional<std::size_t> count_;  // of tokens, if the server's length has cut the answer; none: not told
  const tenon::Choice ours_;                // cut likewise
  const BatchLine& batch_;
  const tenon::Tokenizer& tokenizer_;
  const std::string prefix_;
  const bool is_cut_;  // at an unknown place: it is compared as far as its text goes
  const tenon::OrderedJson message_;
  ApiCheck& check_;
};

}  // namespace

void ApiCheck::add_difference(double difference) {
  if (!std::isfinite(difference)) return;
  logprob_difference = std::max(logprob_difference.value_or(0), std::fabs(difference));
}

std::string check_line(const ApiLine& line, const ApiCheck& check) {
  std::string out = "{\"id\": " + line.id + ", \"same\": ";
  out += !check.same ? "null" : *check.same ? "true" : "false";
  const auto number = [](auto value) {
    std::string text;
    append_json_number(text, value);
    return text;
  };
  if (check.same == false) {
    append_member(out, "field", json_string(check.field));
    append_member(out, "position", check.position ? number(*check.position) : "null");
    if (check.character) append_member(out, "character", number(*check.character));
    append_member(out, "theirs", json_string(check.theirs));
    append_member(out, "ours", json_string(check.ours));
  }
  if (check.same) append_member(out, "tokens", number(check.tokens));
  if (check.logprob_difference) append_member(out, "logprob_difference", number(*check.logprob_difference));
  if (check.prompt_tokens)
    append_member(
        out, "prompt_tokens",
        "{\"theirs\": " + number(*line.answer.prompt_tokens) + ", \"ours\": " + number(*check.prompt_tokens) + "}");
  if (!check.not_compared.empty()) {
    std::string reasons;
    for (const auto& [field, why] : check.not_compared)
      reasons += (reasons.empty() ? "{" : ", ") + json_string(field) + ": " + json_string(why);
    append_member(out, "not_compared", reasons + "}");
  }
  return out + "}\n";
}

bool may_be_cut(const ApiLine& line, std::size_t choice) {
  return !line.parsed.batch->length_given && line.answer.choices[choice].reason == "length";
}

void check_choice(const ApiLine& line, std::size_t index, const tenon::Choice& ours, const tenon::Tokenizer& tokenizer,
                  ApiCheck& check) {
  ChoiceCheck(line, index, ours, tokenizer, check).run();
}

std::optional<std::size_t> tokens_told(const ApiLine& line, std::size_t index) {
  const ApiChoice& choice = line.answer.choices[index];
  std::optional<std::size_t> told;
  const auto tell = [&](std::size_t count) { told = std::max(told.value_or(0), count); };
  if (choice.ids) tell(choice.ids->size());
  if (!choice.listed.empty()) tell(choice.listed.size());
  const int written = line.answer.written_tokens.value_or(0);
  if (written > 0 && line.answer.choices.size() == 1 && line.parsed.request.options.best_of <= 1)
    tell(static_cast<std::size_t>(written));
  return told;
}

std::vector<std::string> texts_of(const std::vector<tenon::TokenId>& ids, bool skips_special,
                                  const tenon::Tokenizer& tokenizer) {
  tenon::StreamDecoder decoder(tokenizer);
  std::vector<std::string> texts;
  for (const tenon::TokenId id : ids)
    texts.push_back(skips_special && tokenizer.is_special(id) ? std::string() : decoder.push(id));
  return texts;
}

bool is_token(const ListedToken& listed, tenon::TokenId id, const std::string& text,
              const tenon::Tokenizer& tokenizer) {
  return listed.is_exact && (listed.text == tokenizer.bytes(id) || listed.text == text);
}

}  // namespace program
