// Shared by the tests of chat templates: their data, and shorthands.
#pragma once
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "tenon/chat/template.h"
#include "tenon/io/json.h"

namespace tenon::test {

inline std::filesystem::path chat_data() { return TENON_SOURCE_DIR "/tests/chat"; }

inline std::string read_chat_file(const std::string& name) {
  std::ifstream file(chat_data() / name, std::ios::binary);
  if (!file) throw std::runtime_error("tests/chat/" + name + " is missing");
  return {std::istreambuf_iterator<char>(file), {}};
}

// The clock of reference.py.
inline std::chrono::local_seconds chat_clock() {
  using namespace std::chrono;
  return local_days(2024y / July / 26) + 9h + 5min + 7s;
}

// A conversation of conversations.json.
inline chat::Conversation chat_conversation(const OrderedJson& json) {
  chat::Conversation out;
  out.messages = json.value("messages", OrderedJson::array());
  out.tools = json.value("tools", OrderedJson());
  out.documents = json.value("documents", OrderedJson());
  out.kwargs = json.value("kwargs", OrderedJson::object());
  out.special_tokens = json.value("special_tokens", OrderedJson::object());
  out.add_generation_prompt = json.value("add_generation_prompt", false);
  out.continue_final_message = json.value("continue_final_message", false);
  out.now = chat_clock();
  return out;
}

// The text of a template with these variables.
inline std::string render_text(const std::string& text, OrderedJson variables = OrderedJson::object()) {
  return chat::Template(text).render({.kwargs = std::move(variables), .now = chat_clock()}).text;
}

// The text with the bytes of messages in [ and ].
inline std::string marked(const chat::Rendered& rendered) {
  std::string out;
  std::size_t done = 0;
  const auto message = [&](std::size_t end) {
    if (end > done) out += "[" + rendered.text.substr(done, end - done) + "]";
  };
  for (const TextSpan& span : rendered.template_spans) {
    message(span.begin);
    out += rendered.text.substr(span.begin, span.end - span.begin);
    done = span.end;
  }
  message(rendered.text.size());
  return out;
}

}  // namespace tenon::test
