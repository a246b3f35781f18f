#include "serve/api/openai/reasoning_fields.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "serve/api/api_error.h"

namespace serve {
namespace {

using tenon::Json;

constexpr std::array<std::string_view, 7> kEfforts{"none", "minimal", "low", "medium", "high", "xhigh", "max"};
constexpr const char* kEffortsNeeded = R"(must be "none", "minimal", "low", "medium", "high", "xhigh" or "max")";

class WishReader {
 public:
  WishReader(const RequestFields& fields, UnknownFields& unknown) : fields_(fields), unknown_(unknown) {}

  ReasoningWish read() {
    if (asks("enable_thinking")) turn("enable_thinking", fields_.boolean("enable_thinking", true));
    if (asks("think")) {
      if (fields_.find("think")->is_string())
        take_effort(fields_, "think", "think");
      else
        turn("think", fields_.boolean("think", true));
    }
    if (asks("thinking")) read_thinking();
    if (asks("reasoning_effort")) take_effort(fields_, "reasoning_effort", "reasoning_effort");
    if (asks("reasoning")) read_reasoning_object();
    return wish_;
  }

 private:
  bool asks(const char* key) const {
    const Json* const value = fields_.find(key);
    return value && !asks_nothing(*value);
  }

  void note(const char* field) {
    if (wish_.fields.empty() || wish_.fields.back() != field) wish_.fields.emplace_back(field);
  }

  [[noreturn]] void refuse_difference(const char* field) const {
    fields_.refuse(field, "and `" + wish_.fields.front() + "` say different things of the reasoning; keep one of them");
  }

  void turn(const char* field, bool on) {
    if (wish_.on.value_or(on) != on) refuse_difference(field);
    wish_.on = on;
    note(field);
  }

  // `field`: the member of the request that holds it.
  void take_effort(const RequestFields& in, const char* key, const char* field) {
    const std::string effort = in.string(key).value_or("");
    if (std::find(kEfforts.begin(), kEfforts.end(), effort) == kEfforts.end()) in.refuse(key, kEffortsNeeded);
    if (wish_.effort.value_or(effort) != effort) refuse_difference(field);
    turn(field, effort != "none");
    wish_.effort = effort;
    wish_.effort_fields.push_back(std::string(field) == key ? key : std::string(field) + "." + key);
  }

  void take_budget(const RequestFields& in, const char* key, const char* field) {
    const auto budget = in.integer(key, 1, std::numeric_limits<int>::max());
    if (!budget) return;
    if (wish_.budget.value_or(*budget) != *budget) refuse_difference(field);
    wish_.budget = *budget;
    wish_.budget_fields.push_back(std::string(field) + "." + key);
    turn(field, wish_.on.value_or(true));
  }

  // Anthropic's, which DeepSeek and others have, too; or true and false.
  void read_thinking() {
    if (!fields_.find("thinking")->is_object()) {
      if (!fields_.find("thinking")->is_boolean())
        fields_.refuse_type("thinking", "true, false or an object", *fields_.find("thinking"));
      return turn("thinking", fields_.boolean("thinking", true));
    }
    const RequestFields thinking = *fields_.object("thinking", kThinking, unknown_);
    const std::string type = thinking.string("type").value_or("");
    if (type != "enabled" && type != "adaptive" && type != "disabled")
      thinking.refuse("type", R"(must be "enabled", "adaptive" or "disabled")");
    turn("thinking", type != "disabled");
    take_budget(thinking, "budget_tokens", "thinking");
    const std::string display = thinking.string("display").value_or("summarized");
    if (display != "summarized" && display != "omitted")
      thinking.refuse("display", R"(must be "summarized" or "omitted")");
    wish_.omits_text = display == "omitted";
  }

  // OpenAI's of /v1/responses and OpenRouter's of chats; or true and false.
  void read_reasoning_object() {
    if (fields_.find("reasoning")->is_boolean()) return turn("reasoning", fields_.boolean("reasoning", true));
    const RequestFields reasoning = *fields_.object("reasoning", kReasoning, unknown_);
    if (reasoning.has("enabled")) turn("reasoning", reasoning.boolean("enabled", true));
    if (reasoning.has("effort")) take_effort(reasoning, "effort", "reasoning");
    take_budget(reasoning, "max_tokens", "reasoning");
  }

  const RequestFields& fields_;
  UnknownFields& unknown_;
  ReasoningWish wish_;
};

}  // namespace

tenon::OrderedJson ReasoningWish::variables() const {
  tenon::OrderedJson variables = tenon::OrderedJson::object();
  for (const char* const name : {"enable_thinking", "thinking"})
    if (on) variables[name] = *on;
  if (effort) variables["reasoning_effort"] = *effort;
  if (on == false)
    variables["thinking_budget"] = 0;
  else if (budget)
    variables["thinking_budget"] = *budget;
  return variables;
}

std::vector<std::string> unheeded_fields(const ReasoningWish& wish, const ChatTemplate& chat, bool has_tools) {
  const auto reads = [&](const char* name) { return chat.reads_variable(name, has_tools); };
  const auto holds = [](const std::vector<std::string>& paths, const std::string& field) {
    return std::any_of(paths.begin(), paths.end(),
                       [&](const std::string& path) { return path.substr(0, path.find('.')) == field; });
  };
  const bool effort = reads("reasoning_effort"), budget = reads("thinking_budget");
  const bool never_reasons = chat.style(has_tools).think.end.empty();
  const bool turns = reads("enable_thinking") || reads("thinking") ||
                     (wish.on == false && (never_reasons || budget || (wish.effort == "none" && effort)));
  std::vector<std::string> unheeded;
  for (const std::string& field : wish.fields)
    if (!turns && !(effort && holds(wish.effort_fields, field)) && !(budget && holds(wish.budget_fields, field)))
      unheeded.push_back(field);
  const auto add = [&](const std::vector<std::string>& paths) {
    for (const std::string& path : paths)
      if (!std::count(unheeded.begin(), unheeded.end(), path.substr(0, path.find('.')))) unheeded.push_back(path);
  };
  if (wish.on == true && !effort) add(wish.effort_fields);
  if (wish.on == true && !budget) add(wish.budget_fields);
  return unheeded;
}

ReasoningWish reasoning_wish_of(const RequestFields& fields, UnknownFields& unknown) {
  return WishReader(fields, unknown).read();
}

}  // namespace serve
