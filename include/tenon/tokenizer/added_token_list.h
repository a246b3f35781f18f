// The added tokens of tokenizer.json and of tokenizer_config.json, each checked as it is read.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/io/fields.h"
#include "tenon/io/file.h"
#include "tenon/tokenizer/added_tokens.h"
#include "tenon/tokenizer/normalizer.h"
#include "tenon/tokenizer/spellings.h"
#include "tenon/tokenizer/vocabulary.h"

namespace tenon::detail {

// A token as a file writes it.
struct AddedToken {
  TokenId id = 0;
  std::string text;
  bool special = false, normalized = false, single_word = false, lstrip = false, rstrip = false;

  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

// Follows AddedVocabulary::add_tokens of tokenizers 0.22: the flags of a token are those it was last added with, and
// it is looked for in the raw text or in the normalized one as each addition said.
class AddedTokenList {
 public:
  // The library ignores the ids of tokenizer.json and counts on from the vocabulary; those beside vocab.json count.
  enum class Ids : std::uint8_t { counted, as_written };

  // `spellings` holds the tokens of the model; what is new is added to it.
  AddedTokenList(Spellings& spellings, const Normalizer& normalizer, Ids ids)
      : spellings_(spellings), normalizer_(normalizer), ids_(ids), model_size_(spellings.size()), next_(model_size_) {}

  // Reads a token. Error unsupported where it is too long.
  AddedToken read(const Fields& fields, int id) const {
    AddedToken token{.id = id, .text = fields.string("content")};
    token.special = fields.boolean("special", false);
    token.normalized = fields.boolean("normalized", !token.special);  // the default of the library's AddedToken
    token.single_word = fields.boolean("single_word", false);
    token.lstrip = fields.boolean("lstrip", false);
    token.rstrip = fields.boolean("rstrip", false);
    if (token.text.empty()) fields.refuse("content", "a token is empty (\"\")");
    // The size is checked first: normalizing a long text can take gigabytes.
    if (token.text.size() > AddedTokens::kMaxBytes || pattern_of(token).size() > AddedTokens::kMaxBytes)
      throw Error(
          Error::Kind::unsupported, fields.where("content"),
          "more than " + std::to_string(AddedTokens::kMaxBytes) + " bytes are not supported, token " + name(token));
    return token;
  }

  // fields, key: what to name in errors about its id.
  void add(AddedToken token, const Fields& fields, const std::string& key) {
    const auto known = spellings_.find(token.text);
    if (known && flags_.contains(token.text)) fields.refuse(key, name(token) + " was added already");
    const TokenId given = known ? *known : ids_ == Ids::counted ? next_ : token.id;
    if (token.id != given)
      fields.refuse(key, name(token) + " has the id " + std::to_string(given) +
                             (known ? " in the vocabulary" : " where tokens are counted") + ", here " +
                             std::to_string(token.id));
    const bool outside = token.id >= spellings_.limit();
    if (outside && !token.special)
      fields.refuse(key, "must be an id from 0 to " + std::to_string(spellings_.limit() - 1) + ", is " +
                             std::to_string(token.id) + ": " + name(token) + " is found in text");
    if (outside)
      spellings_.leave_out(token.text);
    else if (!known)
      spellings_.add(fields, key, token.text, token.id);
    if (!known) ++next_;
    added_.push_back(token);
    flags_.emplace(token.text, std::move(token));
  }

  // The token of this text as it was last added, or null.
  const AddedToken* find(const std::string& text) const {
    const auto found = flags_.find(text);
    return found == flags_.end() ? nullptr : &found->second;
  }

  // Adds a token that is there once more. It is special if either addition says so.
  void add_again(AddedToken token) {
    AddedToken& known = flags_.at(token.text);
    const bool special = known.special || token.special;
    // The library has two lists; the one of special tokens takes a text once.
    if (!known.special) added_.push_back(token);
    known = std::move(token);
    known.special = special;
  }

  // What is added from now on is a call of its own to the library, which then counts from the highest id.
  void begin_second_call() {
    next_ = model_size_;
    for (const auto& [text, token] : flags_)
      if (token.id >= next_) next_ = token.id + 1;
  }

  // As transformers does, adds the tokens that have a role and were not added: they are found in the raw text.
  void add_roles(const std::vector<SpecialToken>& roles) {
    for (const SpecialToken& role : roles) {
      if (flags_.contains(role.text)) continue;
      AddedToken token{.id = role.id, .text = role.text, .special = true};
      added_.push_back(token);
      flags_.emplace(role.text, std::move(token));
    }
  }

  void list_special(TokenizerTables& out) const {
    for (const auto& [text, token] : flags_)
      if (token.special && !spellings_.left_out(text)) out.special.push_back({token.id, text});
  }

  // A token with a role is special, whatever its own flag says. out.special is complete and sorted.
  void finish(TokenizerTables& out) const {
    std::vector<AddedTokens::Token> raw, normalized;
    for (const bool special_first : {true, false}) {  // the library's order, which decides between equal patterns
      for (const AddedToken& each : added_) {
        const AddedToken& flags = flags_.at(each.text);
        const bool special = flags.special || is_special(out.special, flags.id);
        if (special != special_first) continue;
        const TokenId id = spellings_.left_out(each.text) ? -1 : flags.id;
        AddedTokens::Token token{pattern_of(each), id, special, flags.single_word, flags.lstrip, flags.rstrip};
        if (!token.text.empty()) (each.normalized ? normalized : raw).push_back(std::move(token));
      }
    }
    out.pipeline.added = AddedTokens(std::move(raw));
    out.pipeline.added_normalized = AddedTokens(std::move(normalized));
  }

 private:
  static std::string name(const AddedToken& token) { return "\"" + printable(token.text, 60) + "\""; }

  // The text that is looked for. A normalized token is normalized like a text of its own, with the prefix of one.
  std::string pattern_of(const AddedToken& token) const {
    std::string text = token.text;
    if (token.normalized) normalizer_.apply(text, nullptr);
    return text;
  }

  Spellings& spellings_;
  const Normalizer& normalizer_;
  Ids ids_;
  TokenId model_size_, next_;
  std::vector<AddedToken> added_;                      // each addition, in order
  std::unordered_map<std::string, AddedToken> flags_;  // by text, as last added
};

}  // namespace tenon::detail
