#include "chat/transcript.h"

#include <span>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/io/json.h"
#include "tenon/io/new_file.h"

namespace program {
namespace {

using tenon::OrderedJson;

constexpr std::uint64_t kMostBytes = 64 << 20;  // of a file that is read

OrderedJson with_system(const ChatSession& session, const OrderedJson& messages) {
  OrderedJson out = OrderedJson::array();
  if (session.system) out.push_back({{"role", "system"}, {"content", *session.system}});
  for (const OrderedJson& each : messages) out.push_back(each);
  return out;
}

std::string as_json(const ChatSession& session, const std::string& model) {
  const auto& sides = session.sides();
  OrderedJson out = {{"model", model}, {"adapter", sides.front().name}};
  if (sides.front().name == kBaseName) out["adapter"] = nullptr;
  out["messages"] = with_system(session, sides.front().messages);
  if (sides.size() > 1)
    for (const Side& side : sides)
      out["sides"].push_back({{"adapter", side.name}, {"messages", with_system(session, side.messages)}});
  return out.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string as_markdown(const ChatSession& session, const std::string& model) {
  std::string out = "# Conversation with " + model + "\n";
  if (session.system) out += "\n**System:** " + *session.system + "\n";
  for (const Side& side : session.sides()) {
    if (session.sides().size() > 1 || side.name != kBaseName) out += "\n## Adapter: " + side.name + "\n";
    for (const OrderedJson& message : side.messages) {
      out += message["role"] == "user" ? "\n**You:** " : "\n**Model:** ";
      out += message["content"].get<std::string>() + "\n";
    }
  }
  return out;
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw tenon::Error(tenon::Error::Kind::invalid_file, tenon::printable(file.filename().string()), what);
}

}  // namespace

void save_transcript(const std::filesystem::path& file, const ChatSession& session, const std::string& model) {
  const std::string text = file.extension() == ".json" ? as_json(session, model) : as_markdown(session, model);
  tenon::NewFile out(file);
  out.write_at(0, std::as_bytes(std::span(text)));
  out.publish();
}

void load_transcript(const std::filesystem::path& file, ChatSession& session) {
  const auto json = tenon::read_json_file<OrderedJson>(file, kMostBytes);
  if (!json.is_object() || !json.contains("messages") || !json["messages"].is_array())
    refuse(file, "must be an object with a list `messages`");
  std::optional<std::string> system;
  OrderedJson messages = OrderedJson::array();
  for (const OrderedJson& each : json["messages"]) {
    const auto text = [&](const char* key) { return each.is_object() && each.contains(key) && each[key].is_string(); };
    if (!text("role") || !text("content")) refuse(file, "messages: each must have role and content as text");
    const bool first = messages.empty() && !system;
    if (first && each["role"] == "system")
      system = each["content"].get<std::string>();
    else
      messages.push_back(each);
  }
  session.system = std::move(system);
  session.set_messages(std::move(messages));
}

}  // namespace program
