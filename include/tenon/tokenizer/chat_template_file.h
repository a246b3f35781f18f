// The chat template of a model folder.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include "tenon/io/file.h"
#include "tenon/io/json.h"

namespace tenon {

/// The Jinja text of chat_template.jinja, or else of `chat_template` in tokenizer_config.json; of several templates
/// there, the one named "default". Empty if the folder has none. Errors: those of read_text_file and read_json_file.
inline std::string read_chat_template(const std::filesystem::path& folder) {
  constexpr std::uint64_t kLargest = 16u << 20;  // bytes
  std::error_code ignored;
  const auto jinja = folder / "chat_template.jinja", config = folder / "tokenizer_config.json";
  if (std::filesystem::exists(jinja, ignored)) return read_text_file(jinja, kLargest);
  if (!std::filesystem::exists(config, ignored)) return {};
  const Json json = read_json_file(config, kLargest);
  const auto found = json.is_object() ? json.find("chat_template") : json.end();
  if (found == json.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array())
    for (const Json& each : *found)
      if (each.is_object() && each.value("name", Json()) == "default" && each.contains("template") &&
          each["template"].is_string())
        return each["template"].get<std::string>();
  return {};
}

}  // namespace tenon
