// The forms of conversations, as data: what stands around each turn.
#pragma once
#include <array>
#include <span>
#include <string_view>

namespace serve {

// In these texts {bos} and {eos} stand for the tokenizer's.
struct ChatTurn {
  std::string_view before, after;
};

struct ChatForm {
  // own: a turn anywhere; folded: the first message alone, in front of the first user's text; none: refused.
  enum class System { own, folded, none };

  std::string_view name;
  std::string_view opening;
  System system_is = System::own;
  ChatTurn system, user, assistant;
  std::string_view generation;  // empty: the answer follows the user's turn
  bool alternates = false;      // user, assistant, user, ..., and the last is a user's
  bool trims = false;           // white space around each text
  std::string_view default_system = {};
  std::array<std::string_view, 3> stops = {};
};

// The first that has the name is the form by that name.
std::span<const ChatForm> chat_forms();

// Of a digest of normalised_jinja(); null where it is none of those that are known.
const ChatForm* chat_form_of(std::string_view digest);

}  // namespace serve
