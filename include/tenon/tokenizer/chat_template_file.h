// The chat templates of a model folder.
#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tenon/io/file.h"
#include "tenon/io/json.h"

namespace tenon {

/// A chat template as a file has it.
struct ChatTemplateText {
  std::string name;    ///< "default", or a use such as "tool_use"
  std::string source;  ///< file and field, for errors
  std::string text;    ///< Jinja
};

/// Most bytes of a file with chat templates.
inline constexpr std::uint64_t kMaxChatTemplateFile = 16u << 20;

namespace detail {

// Adds `chat_template` of a JSON file of the folder: a text, or a list of objects with `name` and `template`.
inline void add_chat_templates(const std::filesystem::path& folder, const std::string& file,
                               std::vector<ChatTemplateText>& out) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder / file, ignored)) return;
  const Json json = read_json_file(folder / file, kMaxChatTemplateFile);
  const auto found = json.is_object() ? json.find("chat_template") : json.end();
  if (found == json.end()) return;
  const std::string source = file + ": chat_template";
  if (found->is_string()) out.push_back({"default", source, found->get<std::string>()});
  if (!found->is_array()) return;
  const auto text = [](const Json& each, const char* key) { return each.contains(key) && each[key].is_string(); };
  for (std::size_t i = 0; i < found->size(); ++i)
    if (const Json& each = (*found)[i]; each.is_object() && text(each, "name") && text(each, "template"))
      out.push_back({each["name"].get<std::string>(), source + "[" + std::to_string(i) + "]",
                     each["template"].get<std::string>()});
}

}  // namespace detail

/// The chat templates of a folder, as transformers finds them. First come chat_template.jinja, which is the default,
/// and additional_chat_templates/NAME.jinja. Without these files it is `chat_template` in tokenizer_config.json: a
/// text, or a list of objects with `name` and `template`. Without that it is chat_template.json, which models of images
/// and texts have for their processor. Empty if the folder has none. Errors: those of read_text_file and
/// read_json_file.
inline std::vector<ChatTemplateText> read_chat_templates(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::vector<ChatTemplateText> out;
  const std::string jinja = "chat_template.jinja", more = "additional_chat_templates";
  if (std::filesystem::exists(folder / jinja, ignored))
    out.push_back({"default", jinja, read_text_file(folder / jinja, kMaxChatTemplateFile)});
  for (std::filesystem::directory_iterator each(folder / more, ignored), end; each != end; each.increment(ignored))
    if (each->path().extension() == ".jinja")
      out.push_back({each->path().stem().string(), more + "/" + each->path().filename().string(),
                     read_text_file(each->path(), kMaxChatTemplateFile)});
  if (!out.empty()) {
    std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return out;
  }
  for (const char* file : {"tokenizer_config.json", "chat_template.json"})
    if (out.empty()) detail::add_chat_templates(folder, file, out);
  return out;
}

/// The text of the template "default" of read_chat_templates; empty if there is none.
inline std::string read_chat_template(const std::filesystem::path& folder) {
  for (ChatTemplateText& each : read_chat_templates(folder))
    if (each.name == "default") return std::move(each.text);
  return {};
}

}  // namespace tenon
