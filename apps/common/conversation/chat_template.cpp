#include "conversation/chat_template.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <map>
#include <utility>

#include "conversation/built_in_templates.h"
#include "tenon/core/error.h"
#include "tenon/io/file.h"
#include "tenon/tokenizer/unicode.h"
#include "trimmed.h"

namespace program {
namespace {

using tenon::Error;
using tenon::OrderedJson;
using tenon::chat::Conversation;

// Words that no template contains. If they are in a rendered text, the template shows the field that held them.
const std::string kWord = "Qzvxtrial", kOther = "Wkjyother", kCalled = "Xwqjcalled";

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

OrderedJson message(const char* role, const OrderedJson& content) { return {{"role", role}, {"content", content}}; }

bool has_calls(const OrderedJson& message) {
  return message.contains("tool_calls") && message["tool_calls"].is_array() && !message["tool_calls"].empty();
}

OrderedJson trial_tools() {
  return OrderedJson::parse(R"([{"type": "function", "function": {"name": ")" + kWord + R"(", "description": "x",
      "parameters": {"type": "object", "properties": {"a": {"type": "string", "description": "y"}}, "required": ["a"]}}}])");
}

OrderedJson trial_call() {
  return OrderedJson::parse(R"([{"id": "abcdefgh1", "type": "function", "function": {"name": ")" + kCalled +
                            R"(", "arguments": {"a": "b"}}}])");
}

// Converts the contents of messages. parts: one text becomes a list of text parts; otherwise a list becomes one text.
void convert_contents(OrderedJson& messages, bool parts) {
  for (OrderedJson& each : messages) {
    const auto content = each.find("content");
    if (content == each.end()) continue;
    if (parts && content->is_string()) {
      *content = OrderedJson::array({{{"type", "text"}, {"text", *content}}});
    } else if (!parts && content->is_array()) {
      std::string text;
      for (const OrderedJson& part : *content) text += part.value("text", "");
      *content = std::move(text);
    }
  }
}

std::string text_of(const OrderedJson& message) {
  OrderedJson list = OrderedJson::array({message});
  convert_contents(list, false);
  const auto content = list[0].find("content");
  return content != list[0].end() && content->is_string() ? content->get<std::string>() : std::string();
}

bool is_word(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)); }

// The length of the word, the text in quotes or the character with which the code begins.
std::size_t token_length(std::string_view code) {
  if (code[0] == '\'' || code[0] == '"') {
    std::size_t end = 1;
    while (end < code.size() && code[end] != code[0]) end += code[end] == '\\' ? 2 : 1;
    return std::min(end + 1, code.size());
  }
  const auto end = std::find_if_not(code.begin(), code.end(), is_word);
  return std::max<std::size_t>(1, static_cast<std::size_t>(end - code.begin()));
}

// The names in statements and expressions of the Jinja text, without members, texts in quotes and comments.
std::set<std::string, std::less<>> names_in(std::string_view jinja) {
  std::set<std::string, std::less<>> names;
  bool code = false;
  char before = ' ';  // the last character that is no space
  for (std::size_t at = 0; at < jinja.size();) {
    const std::string_view rest = jinja.substr(at);
    if (!code && rest.starts_with("{#")) {
      at = std::min(jinja.find("#}", at + 2), jinja.size() - 2) + 2;
      continue;
    }
    if (!code || rest.starts_with("%}") || rest.starts_with("}}")) {
      code = !code && (rest.starts_with("{%") || rest.starts_with("{{"));
      ++at;
      continue;
    }
    const std::string_view token = rest.substr(0, token_length(rest));
    if (is_word(token[0]) && before != '.') names.emplace(token);
    if (!std::isspace(static_cast<unsigned char>(token[0]))) before = token.back();
    at += token.size();
  }
  return names;
}

bool is_system(const OrderedJson& message) { return message["role"] == "system" || message["role"] == "developer"; }

}  // namespace

ChatTemplate::ChatTemplate(tenon::chat::ModelTemplate model, Clock clock, std::vector<std::string> stops)
    : model_(std::move(model)),
      clock_(std::move(clock)),
      turn_end_(model_.turn_end()),
      plain_(traits_of(false)),
      with_tools_(traits_of(true)) {
  if (!stops.empty()) turn_end_.texts = std::move(stops);
}

ChatTemplate ChatTemplate::named(std::string_view name, const std::filesystem::path& model,
                                 const tenon::Tokenizer& tokenizer, Clock clock) {
  const BuiltInTemplate* const found = built_in_template(name);
  if (!found)
    throw Error(Error::Kind::invalid_request, "--chat-template",
                "there is none of the name " + tenon::printable(name, 60));
  return ChatTemplate(
      tenon::chat::ModelTemplate::of_text(found->jinja, "chat template " + std::string(name), model, tokenizer),
      std::move(clock), {found->stops.begin(), found->stops.end()});
}

std::optional<ChatTemplate> ChatTemplate::chosen(std::string_view word, const std::filesystem::path& model,
                                                 const tenon::Tokenizer& tokenizer, Clock clock) {
  if (word == "none") return std::nullopt;
  if (word != "auto" && built_in_template(word)) return named(word, model, tokenizer, std::move(clock));
  if (word != "auto") {
    const std::string text = tenon::read_text_file(word, tenon::kMaxChatTemplateFile);
    return ChatTemplate(tenon::chat::ModelTemplate::of_text(text, tenon::file_name_of(word), model, tokenizer),
                        std::move(clock));
  }
  auto found = tenon::chat::ModelTemplate::find(model, tokenizer);
  if (!found) return std::nullopt;
  return ChatTemplate(std::move(*found), std::move(clock));
}

// ---- what a template does

// Empty where the template refuses.
std::string ChatTemplate::tried(const OrderedJson& messages, const OrderedJson& tools) const {
  try {
    return model_.render({.messages = messages, .tools = tools, .now = clock_()}).text;
  } catch (const Error&) {
    return {};
  }
}

ChatTemplate::Traits ChatTemplate::traits_of(bool tools) const {
  Traits traits;
  std::string_view source;
  try {
    source = model_.choose(tools ? trial_tools() : OrderedJson(nullptr)).source();
  } catch (const Error&) {  // reported at each request
    return traits;
  }
  traits.tools = tool_style_of(source);
  traits.think = think_style_of(source);
  traits.names = names_in(source);
  traits.knows_developer = has(source, "developer");
  const OrderedJson listed = tools ? trial_tools() : OrderedJson(nullptr);
  const auto shows = [&](const OrderedJson& messages, const std::string& word) {
    return has(tried(messages, listed), word);
  };
  const auto list = [](const std::string& text) { return OrderedJson::array({{{"type", "text"}, {"text", text}}}); };
  traits.takes_parts = !shows(OrderedJson::array({message("user", kOther)}), kOther) &&
                       shows(OrderedJson::array({message("user", list(kOther))}), kOther);
  const auto content = [&](const std::string& text) { return traits.takes_parts ? list(text) : OrderedJson(text); };
  const OrderedJson question = message("user", content("x"));
  traits.shows_system = shows({message("system", content(kOther)), question}, kOther);
  traits.shows_tools = tools && shows(OrderedJson::array({question}), kWord);
  OrderedJson calling = message("assistant", content(""));
  calling["tool_calls"] = trial_call();
  OrderedJson result = message("tool", content(kOther));
  result["tool_call_id"] = "abcdefgh1";
  result["name"] = "x";
  const std::string turns = tried({question, calling, result}, listed);
  traits.shows_tool_turns = has(turns, kCalled) && has(turns, kOther);
  calling["tool_calls"].push_back(calling["tool_calls"][0]);
  if (traits.shows_tool_turns && tried({question, calling, result, result}, listed).empty()) traits.tools.most = 1;
  return traits;
}

bool ChatTemplate::reads_variable(std::string_view name, bool tools) const {
  return traits(tools).names.contains(name);
}

AnswerStyle ChatTemplate::style(bool tools) const {
  AnswerStyle style{.think = traits(tools).think};
  if (tools) style.tools = traits(tools).tools;
  return style;
}

// ---- conversations in the words of a template

void ChatTemplate::replace_developer(OrderedJson& messages) {
  for (OrderedJson& each : messages)
    if (each["role"] == "developer") each["role"] = "system";
}

// Rewrites calls as texts that the model would write, and their results as messages of the user.
void ChatTemplate::replace_tool_turns(OrderedJson& messages, const ToolStyle& style) {
  OrderedJson out = OrderedJson::array();
  bool results = false;  // the last message holds results of calls
  for (OrderedJson& each : messages) {
    const bool result = each["role"] == "tool";
    if (result) {
      const std::string text = "<tool_response>\n" + text_of(each) + "\n</tool_response>";
      if (results)
        out.back()["content"] = out.back()["content"].get<std::string>() + "\n" + text;
      else
        out.push_back(message("user", text));
    } else if (has_calls(each)) {
      OrderedJson calls = OrderedJson::array();
      for (const OrderedJson& call : each["tool_calls"]) calls.push_back(call["function"]);
      const std::string text = text_of(each);
      out.push_back(message("assistant", (text.empty() ? text : text + "\n") + style.written(calls)));
    } else {
      out.push_back(std::move(each));
    }
    results = result;
  }
  messages = std::move(out);
}

// Writes the tools into the system message, or into the user's if the template shows no system message.
void ChatTemplate::tell_tools(Conversation& conversation, const Traits& traits) {
  const std::string told = tool_prompt(traits.tools, conversation.tools);
  OrderedJson& messages = conversation.messages;
  conversation.tools = nullptr;
  const char* const role = traits.shows_system ? "system" : "user";
  if (!messages.empty() && messages[0]["role"] == role) {
    const std::string text = text_of(messages[0]);
    messages[0]["content"] = traits.shows_system ? text + "\n\n" + told : told + "\n\n" + text;
    return;
  }
  messages.insert(messages.begin(), message(role, told));
}

ChatPrompt ChatTemplate::render(Conversation conversation, std::chrono::local_seconds now) const {
  if (!conversation.tools.is_array() || conversation.tools.empty()) conversation.tools = nullptr;
  const bool tools = !conversation.tools.is_null();
  const Traits& known = traits(tools);
  OrderedJson& messages = conversation.messages;
  if (!known.knows_developer) replace_developer(messages);
  const bool has_tool_turns = std::any_of(messages.begin(), messages.end(), [](const OrderedJson& each) {
    return each["role"] == "tool" || has_calls(each);
  });
  if (has_tool_turns && !known.shows_tool_turns) replace_tool_turns(messages, known.tools);
  if (tools && !known.shows_tools) tell_tools(conversation, known);
  std::vector<std::string> systems;
  for (const OrderedJson& each : messages)
    if (is_system(each)) systems.push_back(text_of(each));
  convert_contents(messages, known.takes_parts);
  conversation.now = now;
  const bool continues = conversation.continue_final_message;
  tenon::chat::Rendered rendered = model_.render(std::move(conversation));
  if (!known.shows_system) {
    for (const std::string& text : systems) {
      if (!has(rendered.text, trimmed(text)))
        throw Error(Error::Kind::invalid_request, "messages",
                    "the chat template does not show a message of role system: put its text into the first message of "
                    "role user");
    }
  }
  ChatPrompt prompt{std::move(rendered.text), std::move(rendered.template_spans)};
  const std::string& think = known.think.begin;
  prompt.thinking = !think.empty() && !continues && trimmed(prompt.text).ends_with(think);
  return prompt;
}

std::chrono::local_seconds local_now() { return local_time(std::time(nullptr)); }

std::chrono::local_seconds local_time(std::time_t moment) {
  std::tm local{};
  localtime_r(&moment, &local);
  return std::chrono::local_seconds(std::chrono::seconds(moment + local.tm_gmtoff));
}

}  // namespace program
