// tenon constrain: tests constraints without a model, with the same masks as requests. It reads one JSON line for each
// constraint and writes one JSON line with the verdicts (docs/constraints.md).
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "exits.h"
#include "json_lines.h"
#include "output.h"
#include "tenon/constrain/compile.h"
#include "tenon/constrain/token_mask.h"
#include "tenon/core/hash.h"
#include "tenon/io/hex.h"
#include "tenon/tokenizer/bpe.h"

namespace program {
namespace {

using namespace tenon::constrain;
using tenon::Error;
using tenon::OrderedJson;
using tenon::TokenId;
using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

std::string from_hex(const std::string& hex) {
  const auto digit = [&](char c) {
    const int value = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (value < 0) throw Error(Error::Kind::invalid_request, "texts", "must hold hexadecimal digits");
    return value;
  };
  if (hex.size() % 2 != 0) throw Error(Error::Kind::invalid_request, "texts", "must hold pairs of hexadecimal digits");
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return bytes;
}

// Splits a text into tokens. `words`: "bpe" uses the tokenizer, "bytes" the shortest token at each place, and
// "random:SEED" a random one. "bpe" falls back to "bytes" for a text that the tokenizer does not encode to itself.
class Walk {
 public:
  Walk(const std::string& words, const tenon::Tokenizer* tokenizer, const Vocabulary& vocabulary)
      : tokenizer_(words == "bpe" ? tokenizer : nullptr),
        random_(words.starts_with("random:")),
        vocabulary_(vocabulary) {
    if (random_) seed_ = std::stoull(words.substr(7));
  }

  std::vector<TokenId> tokens(const std::string& text) const {
    if (tokenizer_ && tenon::sanitize_utf8(text) == text) {
      auto ids = tokenizer_->encode(text);
      std::string back;  // differs from the text if the tokenizer has a special token that the vocabulary lacks
      for (const TokenId id : ids) back += vocabulary_.bytes(id);
      if (back == text) return ids;
    }
    std::vector<TokenId> ids;
    std::uint64_t draw = seed_;
    for (std::size_t at = 0; at < text.size();) {
      std::vector<TokenId> fitting;  // tokens that begin the rest of the text, by length, from the trie
      const TokenTrie& trie = vocabulary_.trie();
      for (std::size_t i = 0, depth = 0; i < trie.size() && at + depth < text.size();) {
        if (trie.node(i).depth <= depth) break;
        if (trie.node(i).byte != static_cast<std::uint8_t>(text[at + depth])) {
          i = trie.node(i).end;
          continue;
        }
        for (const TokenId id : trie.tokens(i)) fitting.push_back(id);
        ++depth, ++i;
      }
      if (fitting.empty())
        throw Error(Error::Kind::unsupported, "texts", "contains a byte that is no token of this vocabulary");
      draw = tenon::mix64(draw + at);
      ids.push_back(random_ ? fitting[draw % fitting.size()] : fitting.front());
      at += vocabulary_.bytes(ids.back()).size();
    }
    return ids;
  }

 private:
  const tenon::Tokenizer* tokenizer_;
  bool random_;
  std::uint64_t seed_ = 0;
  const Vocabulary& vocabulary_;
};

// Times of mask computations, in microseconds.
class Times {
 public:
  void add(double us) { us_.push_back(us); }
  OrderedJson json() {
    if (us_.empty()) return {{"n", 0}};
    std::sort(us_.begin(), us_.end());
    const auto at = [&](double share) {
      return us_[std::min(us_.size() - 1, static_cast<std::size_t>(share * static_cast<double>(us_.size())))];
    };
    return {{"n", us_.size()}, {"mean", std::accumulate(us_.begin(), us_.end(), 0.0) / static_cast<double>(us_.size())},
            {"p50", at(0.5)},  {"p95", at(0.95)},
            {"p99", at(0.99)}, {"max", us_.back()}};
  }

 private:
  std::vector<double> us_;
};

// One constraint under test. audit: number of first steps of each text whose masks are checked token by token.
class Trial {
 public:
  Trial(Automaton& automaton, const Vocabulary& vocabulary, int audit) : masks_(automaton, vocabulary), audit_(audit) {}

  struct Verdict {
    bool accepted = true;
    std::optional<std::size_t> stopped_at = {};  // offset of the first token that the mask refuses
  };
  Verdict judge(const std::vector<TokenId>& tokens) {
    Automaton::State state = masks_.automaton().start();
    std::size_t at = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool allowed = allows(timed_mask(state, at, i), tokens[i]);
      const Automaton::State next = masks_.advance(state, tokens[i]);
      if (!allowed || next == Automaton::kDead) return {false, at};
      state = next;
      at += masks_.vocabulary().bytes(tokens[i]).size();
    }
    const auto mask = timed_mask(state, at, tokens.size());
    const auto& ends = masks_.vocabulary().ends();
    return {std::any_of(ends.begin(), ends.end(), [&](TokenId id) { return allows(mask, id); })};
  }

  OrderedJson generate(std::uint64_t seed, int most) {
    Automaton::State state = masks_.automaton().start();
    std::string text;
    std::uint64_t draw = seed;
    for (int n = 0; n < most; ++n) {
      const auto mask = timed_mask(state, text.size(), static_cast<std::size_t>(n));
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id < masks_.vocabulary().width(); ++id) {
        if (allows(mask, id)) allowed.push_back(id);
      }
      if (allowed.empty())
        return {{"text", tenon::hex_of(text)}, {"complete", false}, {"tokens", n}, {"dead_end", true}};
      const TokenId token = allowed[(draw = tenon::mix64(draw + 1)) % allowed.size()];
      const auto& ends = masks_.vocabulary().ends();
      if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
        return {{"text", tenon::hex_of(text)}, {"complete", true}, {"tokens", n}, {"dead_end", false}};
      }
      state = masks_.advance(state, token);
      text += masks_.vocabulary().bytes(token);
    }
    return {{"text", tenon::hex_of(text)}, {"complete", false}, {"tokens", most}, {"dead_end", false}};
  }

  Times& times() { return times_; }

 private:
  std::span<const MaskWord> timed_mask(Automaton::State state, std::size_t at, std::size_t step) {
    const auto begin = Clock::now();
    const auto mask = masks_.mask(state);
    times_.add(us_since(begin));
    if (step < static_cast<std::size_t>(audit_)) audit(state, mask, at);
    return mask;
  }

  // Compares the mask with a check of every token, byte by byte. `at`: offset in the text, for the error.
  void audit(Automaton::State state, std::span<const MaskWord> mask, std::size_t at) {
    const auto& ends = masks_.vocabulary().ends();
    for (TokenId id = 0; id < masks_.vocabulary().width(); ++id) {
      const bool is_end = std::find(ends.begin(), ends.end(), id) != ends.end();
      const bool right = is_end ? masks_.automaton().accepts(state) : masks_.advance(state, id) != Automaton::kDead;
      if (allows(mask, id) == right) continue;
      throw Error(Error::Kind::internal, "",
                  "the mask is wrong for token " + std::to_string(id) + " at byte " + std::to_string(at));
    }
  }

  TokenMasks masks_;
  Times times_;
  const int audit_;
};

SchemaOptions options_of(const std::vector<std::string>& words) {
  SchemaOptions options;
  for (const std::string& word : words) {
    if (word == "whitespace=single")
      options.whitespace = SchemaOptions::Whitespace::single;
    else if (word == "whitespace=compact")
      options.whitespace = SchemaOptions::Whitespace::compact;
    else if (word == "whitespace=flexible")
      options.whitespace = SchemaOptions::Whitespace::flexible;
    else if (word == "additional_properties=closed")
      options.additional_properties = SchemaOptions::AdditionalProperties::closed;
    else if (word == "additional_properties=spec")
      options.additional_properties = SchemaOptions::AdditionalProperties::spec;
    else if (word == "one_of=disjoint")
      options.any_of_for_one_of = false;
    else if (word == "one_of=any")
      options.any_of_for_one_of = true;
    else
      throw UsageError(
          "--option " + word +
          ": must be whitespace=single|compact|flexible, additional_properties=closed|spec or one_of=disjoint|any");
  }
  return options;
}

class Session {
 public:
  Session(const ConstrainCommand& command, const tenon::Tokenizer* tokenizer, const Vocabulary& vocabulary)
      : options_(options_of(command.options)),
        audit_(command.audit),
        vocabulary_(vocabulary),
        walk_(command.walk, tokenizer, vocabulary) {}

  OrderedJson answer(const std::string& line, int number) const {
    OrderedJson out = {{"id", nullptr}};
    try {
      check_nesting(line);
      const OrderedJson request = tenon::parse_json<OrderedJson>(
          line, line_name(number), {.depth = kMostNesting, .refusal = Error::Kind::invalid_request});
      if (request.is_object() && request.contains("id")) out["id"] = request["id"];
      try_all(request, out);
    } catch (const Refused& refused) {
      fail(out, refused.kind() == Error::Kind::unsupported ? "unsupported" : "invalid", refused.reason(),
           refused.where());
    } catch (const std::exception& error) {
      fail(out, "error", error.what(), "");
    }
    return out;
  }

 private:
  static void fail(OrderedJson& out, const char* status, const std::string& reason, const std::string& at) {
    out = OrderedJson{{"id", out["id"]}, {"status", status}, {"reason", reason}, {"at", at}};
  }

  static const std::string& text_of(const OrderedJson& value, const char* name) {
    if (!value.is_string()) throw Error(Error::Kind::invalid_request, name, "must be a string");
    return value.get_ref<const std::string&>();
  }
  static const OrderedJson& member(const OrderedJson& request, const char* name) {
    if (!request.is_object() || !request.contains(name)) throw Error(Error::Kind::invalid_request, name, "is missing");
    return request.at(name);
  }

  static std::vector<std::string> texts_of(const OrderedJson& list) {
    if (!list.is_array()) throw Error(Error::Kind::invalid_request, "constraint", "must be a list of strings");
    std::vector<std::string> texts;
    for (const OrderedJson& each : list) texts.push_back(text_of(each, "constraint"));
    return texts;
  }

  std::unique_ptr<Automaton> compiled(const OrderedJson& request) const {
    const std::string& kind = text_of(member(request, "kind"), "kind");
    const OrderedJson& constraint = member(request, "constraint");
    if (kind == "schema") return json_schema(constraint, options_);
    if (kind == "regex") return regex(text_of(constraint, "constraint"));
    if (kind == "grammar") return grammar(text_of(constraint, "constraint"));
    if (kind == "choice") return choice(texts_of(constraint));
    throw Error(Error::Kind::invalid_request, "kind", "must be schema, regex, choice or grammar");
  }

  void try_all(const OrderedJson& request, OrderedJson& out) const {
    const auto begin = Clock::now();
    const auto automaton = compiled(request);
    const double compile_us = us_since(begin);
    Trial trial(*automaton, vocabulary_, audit_);
    OrderedJson verdicts = OrderedJson::array(), stopped = OrderedJson::array();
    for (const auto& hex : request.value("texts", OrderedJson::array())) {
      const auto verdict = trial.judge(walk_.tokens(from_hex(text_of(hex, "texts"))));
      verdicts.push_back(verdict.accepted);
      stopped.push_back(verdict.stopped_at ? OrderedJson(*verdict.stopped_at) : OrderedJson(nullptr));
    }
    out.update({{"status", "ok"},
                {"warnings", automaton->grammar().warnings},
                {"verdicts", verdicts},
                {"stopped_at", stopped},
                {"compile_us", compile_us}});
    if (request.contains("generate")) {
      const auto& wanted = request["generate"];
      OrderedJson generated = OrderedJson::array();
      for (int i = 0; i < wanted.value("count", 1); ++i) {
        generated.push_back(
            trial.generate(tenon::mix64(wanted.value("seed", std::uint64_t{0}) + static_cast<std::uint64_t>(i) * 7919),
                           wanted.value("max_tokens", 400)));
      }
      out["generated"] = std::move(generated);
    }
    out["mask_us"] = trial.times().json();
  }

  const SchemaOptions options_;
  const int audit_;
  const Vocabulary& vocabulary_;
  const Walk walk_;
};

}  // namespace

int constrain(const ConstrainCommand& command) {
  std::optional<tenon::Tokenizer> tokenizer;
  if (!command.tokenizer.empty()) tokenizer = tenon::load_tokenizer(command.tokenizer);
  const Vocabulary vocabulary = tokenizer ? Vocabulary::from(*tokenizer) : Vocabulary::bytes();
  if (vocabulary.ends().empty())
    throw Error(Error::Kind::unsupported, command.tokenizer, "has no token that ends a text");
  const Session session(command, tokenizer ? &*tokenizer : nullptr, vocabulary);
  Output output;
  std::string line;
  for (int number = 0; next_line(std::cin, line, number);) {
    output.write(session.answer(line, number).dump(-1, ' ', true, OrderedJson::error_handler_t::replace) + "\n");
    output.flush();
  }
  return 0;
}

}  // namespace program
