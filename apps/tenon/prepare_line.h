// Makes the request of a line ready for an engine: its constraint is compiled, its conversation rendered.
#pragma once
#include <cstdint>
#include <optional>

#include "constraints.h"
#include "conversations.h"
#include "request_line.h"
#include "tenon/core/request.h"
#include "tenon/engine/any_engine.h"
#include "tenon/tokenizer/bpe.h"

namespace program {

// Replaces the text of a prompt by its tokens.
void tokenize(tenon::Request& request, const tenon::Tokenizer& tokenizer, int positions);

// Most new tokens after a prompt in this engine.
int room_for_answer(std::size_t prompt_tokens, const tenon::AnyEngine& engine);

// now: the time that a template of a batch's line sees, in seconds since 1970; none: that of `conversations`. Errors
// name the field.
void prepare_line(ParsedRequest& line, const tenon::AnyEngine& engine, RequestConstraints& constraints,
                  Conversations& conversations, std::optional<std::int64_t> now = {});

}  // namespace program
