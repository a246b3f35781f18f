// The chat templates that --chat-template names.
#pragma once
#include <span>
#include <string_view>

namespace program {

struct BuiltInTemplate {
  std::string_view name;
  std::string_view jinja;
  std::span<const std::string_view> stops;  // texts that end an answer and are no token
};

//   name     format                                  roles
//   chatml   <|im_start|>user\n...<|im_end|>\n        any order
//   llama2   <s>[INST] <<SYS>>\n...\n<</SYS>>\n\n... [/INST] ... </s>     one system message first, then alternating
//   llama3   <|start_header_id|>user<|end_header_id|>\n\n...<|eot_id|>    any order
//   mistral  <s>[INST] ... [/INST]...</s>             no system message; alternating
//   zephyr   <|user|>\n...</s>\n                      any order
//   plain    User: ...\nAssistant:                    any order; for models without a format of chats
std::span<const BuiltInTemplate> built_in_templates();

// Null: none has this name.
const BuiltInTemplate* built_in_template(std::string_view name);

}  // namespace program
