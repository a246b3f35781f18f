// Compares a server's answer with that of this engine.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api_line.h"
#include "tenon/engine/completion.h"
#include "tenon/tokenizer/bpe.h"

namespace program {

// The result of a comparison.
struct ApiCheck {
  std::optional<bool> same;                              // none: the answers could not be compared
  std::string field = {}, theirs = {}, ours = {};        // of the first difference; the texts begin there
  std::optional<int> position = {};                      // of it, in this engine's tokens; none: not known
  std::optional<std::size_t> character = {};             // of it, in the field
  int tokens = 0;                                        // of this engine, before the first difference
  std::optional<double> logprob_difference = {};         // the greatest; none: there is nothing to compare
  std::map<std::string, std::string> not_compared = {};  // fields and reasons
  std::optional<int> prompt_tokens = {};                 // of this engine, if the server counts another number

  // Adds the difference of another log-probability.
  void add_difference(double difference);
};

// The check as a line, with its newline.
std::string check_line(const ApiLine& line, const ApiCheck& check);

// Whether a server may have had a length of its own for this answer: it named the length as the reason of the end, and
// the request names none. Such an answer is compared as far as it goes.
bool may_be_cut(const ApiLine& line, std::size_t choice);

// Compares a choice with this engine's and adds the result. The first difference stays.
void check_choice(const ApiLine& line, std::size_t index, const tenon::Choice& ours, const tenon::Tokenizer& tokenizer,
                  ApiCheck& check);

// Number of tokens that a choice has, as far as its `token_ids`, `logprobs` or the usage tell; none: nothing tells it.
std::optional<std::size_t> tokens_told(const ApiLine& line, std::size_t choice);

// The text that each token adds to an answer: nothing, while a character is incomplete.
std::vector<std::string> texts_of(const std::vector<tenon::TokenId>& ids, bool skips_special,
                                  const tenon::Tokenizer& tokenizer);

// Whether the listed token has the bytes of that token, or its text, which is what it adds to the answer. False if
// U+FFFD in the list may stand for other bytes.
bool is_token(const ListedToken& listed, tenon::TokenId id, const std::string& text, const tenon::Tokenizer& tokenizer);

}  // namespace program
