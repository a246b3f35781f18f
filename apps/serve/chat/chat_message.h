// A message of a conversation.
#pragma once
#include <string>

namespace serve {

struct ChatMessage {
  std::string role, content;
  std::string name = {};  // no template here shows it
};

}  // namespace serve
