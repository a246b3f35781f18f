// The message that the parts of an answer make, as OpenAI's chat completions write it.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "conversation/answer_reader.h"
#include "tenon/io/json.h"

namespace program {

struct AnswerMessage {
  struct Call {
    std::string id, name, arguments;
  };

  std::string content = {}, reasoning = {};
  std::vector<Call> calls = {};

  // id: makes the id of a call.
  void add(const AnswerPart& part, const std::function<std::string()>& id);
  tenon::OrderedJson json() const;
};

}  // namespace program
