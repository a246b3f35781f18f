#include "serve/chat/chat_form.h"

#include <cstddef>

namespace serve {
namespace {

constexpr ChatForm chatml(std::string_view default_system) {
  return {.name = "chatml",
          .opening = "",
          .system = {"<|im_start|>system\n", "<|im_end|>\n"},
          .user = {"<|im_start|>user\n", "<|im_end|>\n"},
          .assistant = {"<|im_start|>assistant\n", "<|im_end|>\n"},
          .generation = "<|im_start|>assistant\n",
          .default_system = default_system,
          .stops = {"<|im_end|>"}};
}

constexpr ChatForm mistral(ChatForm::System system_is, ChatTurn user, ChatTurn assistant) {
  return {.name = "mistral",
          .opening = "{bos}",
          .system_is = system_is,
          .system = {"", "\n\n"},
          .user = user,
          .assistant = assistant,
          .generation = "",
          .alternates = true};
}

constexpr ChatForm kLlama2 = {.name = "llama2",
                              .opening = "",
                              .system_is = ChatForm::System::folded,
                              .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
                              .user = {"{bos}[INST] ", " [/INST]"},
                              .assistant = {" ", " {eos}"},
                              .generation = "",
                              .alternates = true,
                              .trims = true};

constexpr ChatForm kLlama3 = {.name = "llama3",
                              .opening = "{bos}",
                              .system = {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
                              .user = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
                              .assistant = {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
                              .generation = "<|start_header_id|>assistant<|end_header_id|>\n\n",
                              .trims = true,
                              .stops = {"<|eot_id|>"}};

constexpr ChatForm kZephyr = {.name = "zephyr",
                              .opening = "",
                              .system = {"<|system|>\n", "{eos}\n"},
                              .user = {"<|user|>\n", "{eos}\n"},
                              .assistant = {"<|assistant|>\n", "{eos}\n"},
                              .generation = "<|assistant|>\n"};

// The last colon has no space behind it: a byte-level vocabulary has it in front of the answer's first word.
constexpr ChatForm kPlain = {.name = "plain",
                             .opening = "",
                             .system = {"System: ", "\n"},
                             .user = {"User: ", "\n"},
                             .assistant = {"Assistant: ", "\n"},
                             .generation = "Assistant:",
                             .trims = true,
                             .stops = {"\nUser:", "\nAssistant:", "\nSystem:"}};

using enum ChatForm::System;
constexpr ChatForm kForms[] = {
    chatml(""),
    kLlama2,
    kLlama3,
    mistral(none, {"[INST] ", " [/INST]"}, {"", "{eos}"}),
    kZephyr,
    kPlain,
    chatml("You are a helpful assistant"),
    chatml("You are a helpful assistant."),
    chatml("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
    chatml("You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
    mistral(none, {"[INST] ", " [/INST]"}, {"", "{eos} "}),
    mistral(folded, {" [INST] ", " [/INST]"}, {" ", "{eos}"}),
};

struct Known {
  std::string_view digest;
  std::size_t form;
};

// SHA-256 of the normalised template in tokenizer_config.json, of these models and of many that were made from them.
constexpr Known kKnown[] = {
    {"01a545b2213148253138be00177d7ca0964b9d821e64961e50a1f52942ea6d6e", 0},   // OpenHermes-2.5-Mistral-7B
    {"eec3dad75908c008e6cf50b061da422c501828a9e37ec28f7e5651bfb766ba72", 1},   // Llama-2-7b-chat
    {"412eb5bf39199a0995a17c78eeb10d149ac623ee06a6efc14bfb487e85b4ca07", 2},   // Meta-Llama-3-8B-Instruct
    {"364ec875ef3243578400a1ac7f6511ad66cb3a32de42658dd156639fe8fbb856", 2},   // the same, in April 2024
    {"423af8fdaa9c677ba0b96c91bdf7c0f489b7ac97ec8c7f00e3864cbf1f4ae1d3", 3},   // Mistral-7B-Instruct-v0.2, at first
    {"f28bfaf359c156b2cb723faa54deaa3957f19f7d25ffff2c95985802d3fbb3c2", 4},   // zephyr-7b-beta, TinyLlama-1.1B-Chat
    {"35b4d2bde6acc9bc734950defb6a4d7e34c1862deb5c494de584fcbaee8e77c6", 6},   // Qwen1.5-Chat
    {"109bf3a81e09caa53305b1262016c84d813099d3bf93873691f4b184f5af3c15", 7},   // Qwen2-Instruct
    {"bcf80aa1dfac06ae6c4c8184163bd9c9c5de44d2c2a9afe7e0085ce4a1f508b4", 8},   // Qwen2.5-Instruct
    {"daae26450b46e7225425a30f5cd3d12ffb9c42a9a7088af0762fe3b5f41509d5", 9},   // SmolLM2-Instruct
    {"a0e1e61e8fe6483c6a3fe7510c036e874b83ae0baaf2dc1cebe8b0e02bd770e0", 10},  // Mistral-7B-Instruct-v0.1, at first
    {"9bf388cfb13704da10c34bb7c8e142df82d1c0a9e586b8fd05dd4177f2bdfb33", 11},  // both, since they follow mistral-common
};

}  // namespace

std::span<const ChatForm> chat_forms() { return kForms; }

const ChatForm* chat_form_of(std::string_view digest) {
  for (const Known& each : kKnown)
    if (each.digest == digest) return &kForms[each.form];
  return nullptr;
}

}  // namespace serve
