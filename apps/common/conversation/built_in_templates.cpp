#include "conversation/built_in_templates.h"

namespace program {
namespace {

constexpr std::string_view kChatml =
    R"({% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";

constexpr std::string_view kZephyr =
    R"({% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] }}{{ eos_token }}{{ '\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %})";

constexpr std::string_view kLlama3 =
    R"({{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}
{{- message['content'] | trim }}{{ '<|eot_id|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})";

constexpr std::string_view kMistral = R"({{ bos_token }}{% for message in messages %}
{%- if message['role'] not in ['user', 'assistant'] %}
{{- raise_exception('no turn for role ' + message['role'] + ': put its text into the first message of role user') }}
{%- elif (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate user, assistant, ...') }}
{%- elif message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}
{%- else %}{{ message['content'] }}{{ eos_token }}{% endif %}{% endfor %}
{%- if add_generation_prompt and messages[-1]['role'] != 'user' %}{{ raise_exception('the last message must be of role user') }}{% endif %})";

constexpr std::string_view kLlama2 = R"({% set folds = messages[0]['role'] == 'system' %}
{%- for message in (messages[1:] if folds else messages) %}
{%- if message['role'] not in ['user', 'assistant'] %}
{{- raise_exception('no turn for role ' + message['role'] + ': roles are user, assistant, and system in the first message alone') }}
{%- elif (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('roles must alternate user, assistant, ... after one system message at most') }}{% endif %}
{%- set content = '<<SYS>>\n' + messages[0]['content'] + '\n<</SYS>>\n\n' + message['content'] if loop.first and folds else message['content'] %}
{%- if message['role'] == 'user' %}{{ bos_token }}{{ '[INST] ' + content | trim + ' [/INST]' }}
{%- else %}{{ ' ' + content | trim + ' ' }}{{ eos_token }}{% endif %}{% endfor %}
{%- if add_generation_prompt and messages[-1]['role'] != 'user' %}{{ raise_exception('the last message must be of role user') }}{% endif %})";

// The last colon has no space after it: a byte-level vocabulary has it in front of the answer's first word.
constexpr std::string_view kPlain =
    R"({% for message in messages %}{{ message['role'] | capitalize + ': ' + message['content'] | trim + '\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ 'Assistant:' }}{% endif %})";
constexpr std::string_view kPlainStops[] = {"\nUser:", "\nAssistant:", "\nSystem:"};

constexpr BuiltInTemplate kTemplates[] = {{"chatml", kChatml, {}}, {"llama2", kLlama2, {}},
                                          {"llama3", kLlama3, {}}, {"mistral", kMistral, {}},
                                          {"zephyr", kZephyr, {}}, {"plain", kPlain, kPlainStops}};

}  // namespace

std::span<const BuiltInTemplate> built_in_templates() { return kTemplates; }

const BuiltInTemplate* built_in_template(std::string_view name) {
  for (const BuiltInTemplate& each : kTemplates)
    if (each.name == name) return &each;
  return nullptr;
}

}  // namespace program
