#include "conversation/answer_reader.h"

#include <algorithm>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/io/json.h"

namespace program {
namespace {

using PartKind = AnswerPart::Kind;

constexpr std::string_view kWhiteSpace = " \t\r\n";

std::size_t first_not_blank(std::string_view text) {
  return std::min(text.find_first_not_of(kWhiteSpace), text.size());
}

// Length of the longest suffix of the text that is a proper prefix of the word.
std::size_t overlap(std::string_view text, std::string_view word) {
  for (std::size_t n = std::min(text.size(), word.size() - 1); n > 0; --n)
    if (text.ends_with(word.substr(0, n))) return n;
  return 0;
}

bool is_prefix(std::string_view text, std::string_view of) { return of.substr(0, text.size()) == text; }

}  // namespace

AnswerReader::AnswerReader(AnswerStyle style)
    : style_(std::move(style)), state_(style_.thinking ? State::thinking : State::start) {}

std::vector<AnswerPart> AnswerReader::push(std::string_view text) {
  pending_ += text;
  step();
  return std::exchange(out_, {});
}

std::vector<AnswerPart> AnswerReader::finish() {
  ended_ = true;
  step();
  if (state_ == State::header) emit(PartKind::text, std::exchange(call_text_, {}));
  return std::exchange(out_, {});
}

void AnswerReader::step() {
  for (State before = state_;; before = state_) {
    const std::size_t left = pending_.size();
    switch (state_) {
      case State::start:
        take_start();
        break;
      case State::thinking:
        take_thinking();
        break;
      case State::text:
        take_text();
        break;
      case State::between:
        take_between();
        break;
      case State::header:
        take_header();
        break;
      case State::arguments:
        take_arguments();
        break;
      case State::closing:
        take_closing();
        break;
    }
    if (state_ == before && pending_.size() == left) return;
  }
}

// Waits until it is known whether the answer starts with reasoning or with a call.
void AnswerReader::take_start() {
  const std::size_t blanks = first_not_blank(pending_);
  const std::string_view rest = std::string_view(pending_).substr(blanks);
  if (rest.empty() && !ended_) return;
  // As in the constraint, an answer has one reasoning part. A second marker is text.
  const std::string_view think = strips_ ? std::string_view() : std::string_view(style_.think.begin);
  if (!think.empty() && rest.starts_with(think)) {
    pending_.erase(0, blanks + think.size());
    state_ = State::thinking;
    return;
  }
  if (!ended_ && !think.empty() && is_prefix(rest, think)) return;
  if (style_.tools && !style_.starts.empty()) {
    const auto begins = [&](const std::string& start) { return std::string_view(pending_).starts_with(start); };
    if (std::any_of(style_.starts.begin(), style_.starts.end(), begins)) return begin_calls();
    const auto may_begin = [&](const std::string& start) { return is_prefix(pending_, start); };
    if (!ended_ && std::any_of(style_.starts.begin(), style_.starts.end(), may_begin)) return;
    state_ = State::text;
    return;
  }
  // A call starts the answer, or the text after the reasoning. White space before it makes it text, as in the
  // constraint.
  if (style_.tools && style_.tools->at_start && (blanks == 0 || strips_)) {
    if (rest.starts_with(style_.tools->marker)) {
      pending_.erase(0, blanks);
      return begin_calls();
    }
    if (!ended_ && is_prefix(rest, style_.tools->marker)) return;
  }
  state_ = State::text;
}

void AnswerReader::take_thinking() {
  const std::string& end = style_.think.end;
  const std::size_t at = pending_.find(end);
  if (at != pending_.npos) {
    emit(PartKind::reasoning, pending_.substr(0, at));
    pending_.erase(0, at + end.size());
    strips_ = true;
    state_ = State::start;
    return;
  }
  const std::size_t kept = ended_ ? 0 : overlap(pending_, end);
  emit(PartKind::reasoning, pending_.substr(0, pending_.size() - kept));
  pending_.erase(0, pending_.size() - kept);
}

// White space is emitted with the text after it, so that none precedes a call.
void AnswerReader::take_text() {
  if (std::exchange(strips_, false)) pending_.erase(0, first_not_blank(pending_));
  const bool calls = style_.tools && !style_.tools->at_start && style_.starts.empty();
  std::size_t at = calls ? pending_.find(style_.tools->marker) : pending_.npos;
  const bool found = at != pending_.npos;
  if (!found) at = pending_.size() - (calls && !ended_ ? overlap(pending_, style_.tools->marker) : 0);
  std::size_t told = at;
  if (found || (calls && !ended_)) {
    const std::size_t last = std::string_view(pending_).substr(0, at).find_last_not_of(kWhiteSpace);
    told = last == pending_.npos ? 0 : last + 1;
  }
  emit(PartKind::text, pending_.substr(0, told));
  pending_.erase(0, found ? at : told);
  if (!found) return;
  pending_.erase(0, style_.tools->marker.size());
  begin_calls();
}

void AnswerReader::begin_calls() { state_ = State::between; }

// Skips everything between calls: brackets, commas and markers.
void AnswerReader::take_between() {
  const std::size_t at = pending_.find('{');
  pending_.erase(0, std::min(at, pending_.size()));
  if (at == pending_.npos) return;
  call_text_.clear();
  depth_ = 0;
  in_string_ = escaped_ = false;
  state_ = State::header;
}

bool AnswerReader::scan(char c) {
  if (in_string_) {
    if (escaped_)
      escaped_ = false;
    else if (c == '\\')
      escaped_ = true;
    else if (c == '"')
      in_string_ = false;
    return false;
  }
  if (c == '"') in_string_ = true;
  if (c == '{' || c == '[') ++depth_;
  return (c == '}' || c == ']') && --depth_ == 0;
}

void AnswerReader::take_header() {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    const char c = pending_[i];
    call_text_ += c;
    const bool over = scan(c);
    if (over || (c == '{' && depth_ == 2)) {
      pending_.erase(0, i + 1);
      if (!over && read_header()) {
        pending_.insert(0, 1, '{');
        depth_ = 0;
        state_ = State::arguments;
      } else if (over) {
        read_whole_call();
        state_ = State::between;
      }
      return;
    }
  }
  pending_.clear();
}

namespace {

// Null if the text is not JSON or is nested too deeply, because copies and dumps recurse.
tenon::OrderedJson parsed(const std::string& text) {
  try {
    return tenon::parse_json<tenon::OrderedJson>(text, "call");
  } catch (const tenon::Error&) {
    return {};
  }
}

bool has_name(const tenon::OrderedJson& call) {
  return call.is_object() && call.contains("name") && call["name"].is_string() &&
         !call["name"].get_ref<const std::string&>().empty();
}

}  // namespace

// Whether the call so far is {"name": "...", "arguments": {
bool AnswerReader::read_header() {
  for (const char* const key : {"arguments", "parameters"}) {
    const std::string end = "\"" + std::string(key) + "\"";
    const std::size_t at = call_text_.rfind(end);
    if (at == call_text_.npos) continue;
    // The call with its arguments left out must be an object with a name alone.
    const tenon::OrderedJson head = parsed(call_text_ + "}}");
    if (!head.is_object() || head.size() != 2 || !has_name(head)) return false;
    if (!head.contains(key) || (++head.begin()).key() != key) return false;
    emit(PartKind::call, head["name"].get<std::string>());
    call_text_.clear();
    return true;
  }
  return false;
}

void AnswerReader::read_whole_call() {
  const tenon::OrderedJson call = parsed(call_text_);
  const std::string text = std::exchange(call_text_, {});
  if (!has_name(call)) return emit(PartKind::text, text);
  tenon::OrderedJson arguments = tenon::OrderedJson::object();
  for (const char* const key : {"arguments", "parameters"})
    if (call.contains(key)) arguments = call[key];
  emit(PartKind::call, call["name"].get<std::string>());
  emit(PartKind::arguments, arguments.is_string() ? arguments.get<std::string>() : arguments.dump());
}

void AnswerReader::take_arguments() {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    if (!scan(pending_[i])) continue;
    emit(PartKind::arguments, pending_.substr(0, i + 1));
    pending_.erase(0, i + 1);
    state_ = State::closing;
    return;
  }
  emit(PartKind::arguments, std::exchange(pending_, {}));
}

void AnswerReader::take_closing() {
  const std::size_t at = pending_.find('}');
  if (at == pending_.npos) return pending_.clear();
  pending_.erase(0, at + 1);
  state_ = State::between;
}

void AnswerReader::emit(PartKind kind, std::string text) {
  if (text.empty()) return;
  if (kind == PartKind::call) ++calls_;
  const int call = kind == PartKind::call || kind == PartKind::arguments ? calls_ - 1 : 0;
  if (kind != PartKind::call && !out_.empty() && out_.back().kind == kind && out_.back().call == call)
    out_.back().text += text;
  else
    out_.push_back({kind, std::move(text), call});
}

}  // namespace program
