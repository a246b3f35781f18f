// The fields by which a request turns reasoning on or off, or asks for an effort.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/request_fields.h"
#include "serve/chat.h"
#include "tenon/io/json.h"

namespace serve {

struct ReasoningWish {
  std::vector<std::string> fields = {};  // that ask, as the client calls them; none: the template decides
  std::optional<bool> on = {};
  std::optional<std::string> effort = {};
  std::optional<std::int64_t> budget = {};                          // tokens
  std::vector<std::string> effort_fields = {}, budget_fields = {};  // paths of the fields that ask for them
  bool omits_text = false;                                          // the answer is to leave the reasoning out

  // Variables of chat templates that say so, as in vLLM: `enable_thinking`, `thinking`, `reasoning_effort`,
  // `thinking_budget`. A template reads some of them, or none.
  tenon::OrderedJson variables() const;
};

// The fields of the wish that the template of conversations with or without tools cannot heed, for x-ignored-fields.
std::vector<std::string> unheeded_fields(const ReasoningWish& wish, const ChatTemplate& chat, bool has_tools);

// `reasoning_effort`, `reasoning`, `thinking`, `think` and `enable_thinking`. ApiError where two of them differ.
ReasoningWish reasoning_wish_of(const RequestFields& fields, UnknownFields& unknown);

}  // namespace serve
