#include "serve/chat/chat_template.h"

#include <cstddef>
#include <cstdint>

#include "serve/chat/chat_form.h"
#include "serve/chat/jinja_text.h"
#include "tenon/core/error.h"
#include "tenon/io/sha256.h"
#include "tenon/tokenizer/unicode.h"

namespace serve {
namespace {

using tenon::Error;

[[noreturn]] void refuse(const std::string& what) { throw Error(Error::Kind::invalid_request, "messages", what); }

std::string at(std::size_t index) { return "[" + std::to_string(index) + "] "; }

// Bytes of the white space that a text begins with: one character, or none. Python's str.isspace(), by which Jinja
// trims.
std::size_t space_at_front(std::string_view text) {
  if (text.empty()) return 0;
  const tenon::CodePoint point = tenon::decode_utf8(text, 0);
  const bool separator = point.value >= 0x1c && point.value <= 0x1f;
  return separator || tenon::char_class(point.value) == tenon::CharClass::space ? static_cast<std::size_t>(point.length)
                                                                                : 0;
}
std::size_t space_at_back(std::string_view text) {
  for (std::size_t n = 1; n <= 3 && n <= text.size(); ++n)
    if (space_at_front(text.substr(text.size() - n)) == n) return n;
  return 0;
}
std::string_view back_stripped(std::string_view text) {
  while (const std::size_t n = space_at_back(text)) text.remove_suffix(n);
  return text;
}
std::string_view stripped(std::string_view text) {
  while (const std::size_t n = space_at_front(text)) text.remove_prefix(n);
  return back_stripped(text);
}

// Puts a conversation together in a form, refusing what the form does not take.
class PromptWriter {
 public:
  PromptWriter(const ChatForm& form, std::string_view bos, std::string_view eos) : form_(form), bos_(bos), eos_(eos) {}

  RenderedChat write(std::span<const ChatMessage> messages) {
    if (messages.empty()) refuse("must not be empty");
    add(form_.opening);
    if (!form_.default_system.empty() && !is_system(messages[0])) {
      add(form_.system.before);
      add(form_.default_system);
      add(form_.system.after);
    }
    const bool folds = form_.system_is == ChatForm::System::folded && is_system(messages[0]);
    if (folds) check(messages[0], 0);
    for (std::size_t i = folds ? 1 : 0; i < messages.size(); ++i) {
      check(messages[i], i);
      check_order(messages[i], i, folds ? i - 1 : i);
      if (folds && i == 1)
        add_folded(messages[0].content, messages[1].content);
      else
        add_turn(turn_of(messages[i]), messages[i].content);
    }
    if (form_.alternates && messages.back().role != "user")
      refuse("the last one must be of role user: " + chat_template() + " has nothing else to answer");
    add(form_.generation);
    return std::move(chat_);
  }

 private:
  static bool is_system(const ChatMessage& message) { return message.role == "system" || message.role == "developer"; }

  std::string chat_template() const { return "the chat template " + std::string(form_.name); }

  // Text of the template, {bos} and {eos} as the tokenizer's.
  void add(std::string_view text) {
    std::string& out = chat_.text;
    const std::size_t begin = out.size();
    for (std::size_t i = 0; i < text.size();) {
      const std::string_view rest = text.substr(i);
      const bool bos = rest.starts_with("{bos}"), eos = rest.starts_with("{eos}");
      if (bos || eos)
        out += bos ? bos_ : eos_;
      else
        out += text[i];
      i += bos || eos ? 5 : 1;
    }
    if (begin < out.size()) chat_.template_spans.push_back({begin, out.size()});
  }

  void add_turn(const ChatTurn& turn, std::string_view content) {
    add(turn.before);
    chat_.text += form_.trims ? stripped(content) : content;
    add(turn.after);
  }

  // White space is trimmed at the end of both texts together; at the front stands what the form puts before the
  // system's.
  void add_folded(std::string_view system, std::string_view user) {
    const std::string_view rest = form_.trims ? back_stripped(user) : user;
    add(form_.user.before);
    add(form_.system.before);
    chat_.text += system;
    add(form_.trims && rest.empty() ? back_stripped(form_.system.after) : form_.system.after);
    chat_.text += rest;
    add(form_.user.after);
  }

  const ChatTurn& turn_of(const ChatMessage& message) const {
    return is_system(message) ? form_.system : message.role == "user" ? form_.user : form_.assistant;
  }

  void check(const ChatMessage& message, std::size_t index) const {
    if (message.role == "tool") refuse(at(index) + "is of role tool, which " + chat_template() + " has no turn for");
    if (!is_system(message) && message.role != "user" && message.role != "assistant")
      refuse(at(index) + "is of role \"" + tenon::printable(message.role, 40) +
             "\"; a role is system, developer, user or assistant");
    if (is_system(message) && form_.system_is == ChatForm::System::none)
      refuse(at(index) + "is of role " + message.role + ", which " + chat_template() +
             " has no turn for: put its text into the first message of role user");
  }

  // `turn`: the message's place without a folded one.
  void check_order(const ChatMessage& message, std::size_t index, std::size_t turn) const {
    if (form_.alternates && message.role != (turn % 2 == 0 ? "user" : "assistant"))
      refuse(at(index) + "is of role " + message.role + ": with " + chat_template() + " roles must alternate " +
             (form_.system_is == ChatForm::System::folded ? "user, assistant, ... after one system message at most"
                                                          : "user, assistant, ..."));
  }

  const ChatForm& form_;
  std::string_view bos_, eos_;
  RenderedChat chat_;
};

}  // namespace

ChatTemplate ChatTemplate::named(std::string_view name) {
  for (const ChatForm& form : chat_forms())
    if (form.name == name) return ChatTemplate(form);
  throw Error(Error::Kind::invalid_request, "--chat-template",
              "there is none of the name " + tenon::printable(name, 60));
}

std::optional<ChatTemplate> ChatTemplate::recognise(const std::string& jinja) {
  const ChatForm* const form = chat_form_of(tenon::Sha256().update(normalised_jinja(jinja)).hex());
  return form == nullptr ? std::nullopt : std::optional(ChatTemplate(*form));
}

std::optional<ChatTemplate> ChatTemplate::chosen(std::string_view word, const std::string& jinja) {
  if (word == "none") return std::nullopt;
  return word == "auto" ? recognise(jinja) : named(word);
}

RenderedChat ChatTemplate::render(std::span<const ChatMessage> messages, std::string_view bos_text,
                                  std::string_view eos_text) const {
  return PromptWriter(*form_, bos_text, eos_text).write(messages);
}

std::vector<std::string> ChatTemplate::stops() const {
  std::vector<std::string> texts;
  for (const std::string_view each : form_->stops)
    if (!each.empty()) texts.emplace_back(each);
  return texts;
}

std::string_view ChatTemplate::name() const { return form_->name; }

}  // namespace serve
