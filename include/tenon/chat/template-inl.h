#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tenon/chat/evaluation.h"
#include "tenon/chat/execution.h"
#include "tenon/chat/statement_parser.h"
#include "tenon/chat/template.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"

namespace tenon::chat {
namespace detail {

// The text that transformers appends to a message that is to be continued, and cuts off with all that follows it.
inline constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";

[[noreturn]] inline void throw_placed(const PlacedFault& fault, std::string_view source, const std::string& name) {
  const std::string_view before = source.substr(0, std::min(fault.at, source.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t column = 1 + count_characters(before.substr(before.rfind('\n') + 1));
  throw Error(fault.fault.kind, name + ", line " + std::to_string(line) + ", column " + std::to_string(column),
              fault.fault.what);
}

// JSON as values of a template.
class JsonReader {
 public:
  // `where`: the variable, for errors. `by`: who wrote it.
  JsonReader(std::string_view where, char by, Meter& meter) : where_(where), by_(by), meter_(meter) {}

  Value read(const OrderedJson& json) {
    switch (json.type()) {
      case OrderedJson::value_t::null:
        return Value::none(by_);
      case OrderedJson::value_t::boolean:
        return Value(json.get<bool>(), by_);
      case OrderedJson::value_t::number_integer:
        return Value(json.get<std::int64_t>(), by_);
      case OrderedJson::value_t::number_unsigned:
        if (json.get<std::uint64_t>() > INT64_MAX) refuse("an integer of more than 64 bits, with its sign,");
        return Value(json.get<std::int64_t>(), by_);
      case OrderedJson::value_t::number_float:
        return Value(json.get<double>(), by_);
      case OrderedJson::value_t::string:
        return text(json.get_ref<const std::string&>(), by_);
      case OrderedJson::value_t::array: {
        const Meter::Level level(meter_);
        List items;
        for (const OrderedJson& item : json) items.push_back(read(item));
        return make_list(std::move(items), meter_, ListObject::Kind::list, by_);
      }
      case OrderedJson::value_t::object: {
        const Meter::Level level(meter_);
        DictObject dict;
        for (const auto& [key, value] : json.items()) dict.entries.emplace_back(text(key, by_), read(value));
        return make_dict(std::move(dict), meter_, by_);
      }
      default:
        fail("a value is not JSON");
    }
  }

  // Messages: the role counts as the template's if it is a word.
  Value read_messages(const OrderedJson& messages) {
    if (!messages.is_array()) fail("must be a list");
    List items;
    for (const OrderedJson& message : messages) {
      if (!message.is_object()) fail("must be a list of objects");
      DictObject dict;
      for (const auto& [key, value] : message.items()) {
        const bool role = key == "role" && value.is_string() && is_word(value.get_ref<const std::string&>());
        dict.entries.emplace_back(text(key, by_),
                                  role ? text(value.get_ref<const std::string&>(), kByTemplate) : read(value));
      }
      items.push_back(make_dict(std::move(dict), meter_, by_));
    }
    return make_list(std::move(items), meter_, ListObject::Kind::list, by_);
  }

 private:
  static bool is_word(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
  }

  Value text(const std::string& bytes, char by) {
    if (const std::size_t at = find_invalid_utf8(bytes); at != std::string::npos)
      fail("a text is not valid UTF-8 at byte " + std::to_string(at));
    meter_.charge_text(bytes.size());
    return Value::text(bytes, by);
  }

  std::string_view where_;
  char by_;
  Meter& meter_;
};

// The text of the last message, which is to be continued; it gets the tag appended.
inline std::string tag_final_message(OrderedJson& messages) {
  const auto refuse_message = [](const char* what) { throw Error(Error::Kind::invalid_request, "messages", what); };
  if (!messages.is_array() || messages.empty() || !messages.back().is_object() || !messages.back().contains("content"))
    refuse_message("have no final message to continue");
  OrderedJson& content = messages.back()["content"];
  OrderedJson* text = content.is_string() ? &content : nullptr;
  if (content.is_array())
    for (OrderedJson& block : content)
      if (block.is_object() && block.contains("text") && block["text"].is_string()) text = &block["text"];
  if (!text) refuse_message("have no text to continue in the final message");
  std::string before = text->get<std::string>();
  *text = before + std::string(kContinueTag);
  return before;
}

// Cuts the prompt at the tag.
inline void cut_at_tag(MarkedText& text, std::string_view final_message) {
  constexpr std::string_view tag = kContinueTag.substr(0, kContinueTag.size() - 1);
  const TextSpan inner = stripped_range(final_message, nullptr, true, true);
  const std::size_t at = text.bytes.rfind(tag);
  if (at == kNotFound || find_text(text.bytes, final_message.substr(inner.begin, inner.end - inner.begin)) == kNotFound)
    throw Error(Error::Kind::invalid_request, "continue_final_message",
                "the final message does not appear in the prompt: the template changes it");
  const bool keeps_space = std::string_view(text.bytes).substr(at).starts_with(kContinueTag);
  text = text.part(0, at);
  if (!keeps_space) text = text.part(0, stripped_range(text.bytes, nullptr, false, true).end);
}

// Sets a variable of the template from JSON.
inline void set_variable(Interpreter& run, const std::string& name, const OrderedJson& json, char by) {
  try {
    JsonReader reader(name, by, run.meter());
    run.set(name, name == "messages" ? reader.read_messages(json) : reader.read(json));
  } catch (const RenderFault& fault) {
    throw Error(fault.kind, name, fault.what);
  }
}

}  // namespace detail

TENON_INLINE Template::Template(std::string_view text, std::string name, const Limits& limits)
    : name_(std::move(name)), limits_(limits) {
  if (text.size() > limits.template_bytes)
    throw Error(Error::Kind::capacity, name_,
                "has " + std::to_string(text.size()) + " bytes, at most " + std::to_string(limits.template_bytes) +
                    " are read");
  if (const std::size_t at = find_invalid_utf8(text); at != std::string_view::npos)
    throw Error(Error::Kind::invalid_file, name_, "is not valid UTF-8 at byte " + std::to_string(at));
  const auto tree = std::make_shared<detail::SyntaxTree>();
  tree->source = detail::normalized_source(text);
  try {
    tree->body = detail::StatementParser(*tree, detail::Lexer(tree->source).run(), limits_).parse_template();
  } catch (const detail::PlacedFault& fault) {
    detail::throw_placed(fault, tree->source, name_);
  }
  tree_ = tree;
}

TENON_INLINE Rendered Template::render(const Conversation& conversation) const {
  using detail::kByMessage;
  using detail::kByTemplate;
  detail::Interpreter run(*tree_, limits_, conversation.now);
  const auto set_all = [&](const OrderedJson& variables, const char* field, char by) {
    if (!variables.is_object()) throw Error(Error::Kind::invalid_request, field, "must be an object");
    for (const auto& [name, value] : variables.items()) detail::set_variable(run, name, value, by);
  };
  set_all(conversation.special_tokens, "special_tokens", kByTemplate);
  set_all(conversation.kwargs, "kwargs", kByMessage);
  std::string final_message;
  if (conversation.continue_final_message) {
    OrderedJson messages = conversation.messages;
    final_message = detail::tag_final_message(messages);
    detail::set_variable(run, "messages", messages, kByMessage);
  } else {
    detail::set_variable(run, "messages", conversation.messages, kByMessage);
  }
  detail::set_variable(run, "tools", conversation.tools, kByMessage);
  detail::set_variable(run, "documents", conversation.documents, kByMessage);
  detail::set_variable(run, "add_generation_prompt", conversation.add_generation_prompt, kByTemplate);
  detail::MarkedText text;
  try {
    text = run.run();
  } catch (const detail::PlacedFault& fault) {
    detail::throw_placed(fault, tree_->source, name_);
  }
  if (conversation.continue_final_message) detail::cut_at_tag(text, final_message);
  std::vector<TextSpan> spans = detail::template_spans(text);
  return {std::move(text.bytes), std::move(spans)};
}

TENON_INLINE const std::string& Template::source() const { return tree_->source; }

}  // namespace tenon::chat
