// Tokens as the `logprobs` of OpenAI's API list them.
#pragma once
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tenon/core/request.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/bpe.h"

namespace program {

// A log-probability as answers have it. JSON has no infinities: a token that is ruled out has -9999.
inline double finite_logprob(float logprob) { return std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0; }

// Reads OpenAI's spelling of a token that is no whole character, `bytes:\xe2\x98`, and returns its bytes. None for
// other texts.
std::optional<std::string> bytes_spelled_by(std::string_view text);

// `top_logprobs` of a completion's token: an object from texts to log-probabilities. The chosen one is always among
// them. If several tokens read alike (halves of characters), one has the text as its key and the others have their
// bytes: clients look for the largest value.
tenon::OrderedJson top_by_text(const tenon::Tokenizer& tokenizer, tenon::TokenLogprob chosen,
                               std::span<const tenon::TokenLogprob> top);

}  // namespace program
