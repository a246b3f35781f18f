// tenon as an engine of bench/masks. Input: a constraint and the tokens of texts per line. Output: the times of
// compiling and of each mask per line. `tenon constrain` prints summaries; this program prints every time, so that
// quantiles over all cases are exact.
//   bench_masks_peer DIR    DIR: a tokenizer
#include <chrono>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "tenon/constrain/compile.h"
#include "tenon/constrain/token_mask.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/bpe.h"

namespace {

using namespace tenon;
using namespace tenon::constrain;
using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

std::unique_ptr<Automaton> compiled(const std::string& kind, const OrderedJson& constraint) {
  if (kind == "schema") return json_schema(constraint);
  return kind == "regex" ? regex(constraint.get<std::string>()) : grammar(constraint.get<std::string>());
}

// Computes the masks before each token and after the last. Returns whether they allow the text.
bool walk(TokenMasks& masks, const std::vector<TokenId>& tokens, std::vector<double>& us) {
  Automaton::State state = masks.automaton().start();
  for (std::size_t i = 0; i <= tokens.size(); ++i) {
    const TokenId token = i < tokens.size() ? tokens[i] : masks.vocabulary().ends().front();
    const auto begin = Clock::now();
    const auto mask = masks.mask(state);
    us.push_back(us_since(begin));
    if (!allows(mask, token)) return false;
    if (i < tokens.size()) state = masks.advance(state, token);
  }
  return true;
}

OrderedJson answer(const OrderedJson& ask, const Vocabulary& vocabulary) {
  try {
    const auto begin = Clock::now();
    const auto automaton = compiled(ask.at("kind").get<std::string>(), ask.at("constraint"));
    TokenMasks masks(*automaton, vocabulary);
    const double compile_us = us_since(begin);
    std::vector<double> us;
    OrderedJson verdicts = OrderedJson::array();
    for (const auto& tokens : ask.at("tokens")) verdicts.push_back(walk(masks, tokens.get<std::vector<TokenId>>(), us));
    return {{"compile_us", compile_us}, {"mask_us", us}, {"verdicts", verdicts}};
  } catch (const std::exception& error) {
    return {{"refused", error.what()}};
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) return std::cerr << "bench_masks_peer DIR\n", 2;
  const Vocabulary vocabulary = Vocabulary::from(Tokenizer::load(words[1]));
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(OrderedJson::parse(line), vocabulary).dump(-1, ' ', true, OrderedJson::error_handler_t::replace)
              << std::endl;
  }
}
