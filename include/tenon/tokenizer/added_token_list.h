// The added tokens of tokenizer.json and tokenizer_config.json. Each is checked when it is read.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
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

// A token as written in a file.
struct AddedToken {
  TokenId id = 0;
  std::string text;
  bool special = false, normalized = false, single_word = false, lstrip = false, rstrip = false;

  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

// Adds tokens as AddedVocabulary::add_tokens of tokenizers 0.22 ("the library" below) does. A token has the flags of
// its last addition. Each addition of a token searches it: in the normalized text if `normalized`, else in the raw
// text.
class AddedTokenList {
 public:
  // counted: each new token gets the next free id, as in the library, which ignores the ids of tokenizer.json. Other
  // ids are refused. as_written: new tokens get the ids that are given beside vocab.json.
  enum class Ids : std::uint8_t { counted, as_written };

  // `spellings`: the tokens of the model. New tokens are added to it.
  AddedTokenList(Spellings& spellings, const Normalizer& normalizer, Ids ids)
      : spellings_(spellings), normalizer_(normalizer), ids_(ids), model_size_(spellings.size()), next_(model_size_) {}

  // Reads a token. Error unsupported if it is too long. `special`: the token is special even if its own flag is false.
  AddedToken read(const Fields& fields, int id, bool special = false) const {
    AddedToken token{.id = id, .text = fields.string("content")};
    token.special = fields.boolean("special", false) || special;
    token.normalized = fields.boolean("normalized", !token.special);  // default of AddedToken in the library
    token.single_word = fields.boolean("single_word", false);
    token.lstrip = fields.boolean("lstrip", false);
    token.rstrip = fields.boolean("rstrip", false);
    if (token.text.empty()) fields.refuse("content", "a token is empty (\"\")");
    check_pattern(token, fields, "content");
    return token;
  }

  // Adds a new token. `fields`, `key`: named in errors about its id.
  void add(AddedToken token, const Fields& fields, const std::string& key) {
    const auto known = spellings_.find(token.text);
    if (known && flags_.contains(token.text)) fields.refuse(key, name(token) + " was added already");
    const TokenId given = known ? *known : ids_ == Ids::counted ? next_ : token.id;
    if (token.id != given)
      fields.refuse(key, "must be " + std::to_string(given) +
                             (known ? ", the id in the vocabulary" : ", the next free id") + ", for the token " +
                             name(token) + ", is " + std::to_string(token.id));
    const bool outside = token.id >= spellings_.limit();
    if (outside && !token.special)
      fields.refuse(key, "must be an id from 0 to " + std::to_string(spellings_.limit() - 1) + ", is " +
                             std::to_string(token.id) + ". Only a token with \"special\": true may have a larger id; " +
                             name(token) + " is not special");
    if (outside)
      spellings_.leave_out(token.text);
    else if (!known)
      spellings_.add(fields, key, token.text, token.id);
    if (!known) ++next_;
    after_ = std::max(after_, token.id + 1);
    added_.push_back(token);
    flags_.emplace(token.text, std::move(token));
  }

  // The token of this text with its last flags, or null.
  const AddedToken* find(const std::string& text) const {
    const auto found = flags_.find(text);
    return found == flags_.end() ? nullptr : &found->second;
  }

  // Adds a known token once more. It is special if either addition says so.
  void add_again(AddedToken token) {
    AddedToken& known = flags_.at(token.text);
    const bool special = known.special || token.special;
    // The library keeps two lists. Its list of special tokens takes a text only once.
    if (!known.special) added_.push_back(token);
    known = std::move(token);
    known.special = special;
  }

  // Later additions belong to a second call of the library's add_tokens, which counts from the highest id.
  void begin_second_call() { next_ = std::max(model_size_, after_); }

  // Adds a special token, as transformers does. A token that the vocabulary lacks gets the next free id. Returns the
  // id; none if the model has no row for it, or another token has it. `fields`, `key`: where the token was read.
  std::optional<TokenId> add_special(AddedToken token, const Fields& fields, const std::string& key) {
    if (!flags_.contains(token.text)) {
      check_pattern(token, fields, key);
      const auto known = spellings_.find(token.text);
      if (!known) begin_second_call();
      token.id = known.value_or(next_);
      if (!known && (token.id >= spellings_.limit() || spellings_.is_taken(token.id)))
        spellings_.leave_out(token.text);
      else if (!known)
        spellings_.add(fields, key, token.text, token.id);
      after_ = std::max(after_, token.id + 1);
      added_.push_back(token);
      flags_.emplace(token.text, token);
    }
    return spellings_.find(token.text);
  }

  // Tokens whose flags stay when an object with the same text names a role.
  void pin(const std::string& text) { pinned_.insert(text); }
  void pin_all() {
    for (const auto& [text, token] : flags_) pinned_.insert(text);
  }
  bool is_pinned(const std::string& text) const { return pinned_.contains(text); }

  // Adds the tokens with a role that were not added, as transformers does. They are searched in the raw text.
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

  // Builds the lookup tables. A token with a role is special, whatever its own flag. out.special must be complete and
  // sorted.
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
  // The size is checked first, because normalizing a long text can take gigabytes.
  void check_pattern(const AddedToken& token, const Fields& fields, const std::string& key) const {
    if (token.text.size() <= AddedTokens::kMaxBytes) {
      const std::string pattern = pattern_of(token);
      if (pattern.empty() && !token.text.empty())
        throw Error(Error::Kind::unsupported, fields.where(key),
                    "a token of which the normalizer leaves nothing is not supported, token " + name(token));
      if (pattern.size() <= AddedTokens::kMaxBytes) return;
    }
    throw Error(
        Error::Kind::unsupported, fields.where(key),
        "more than " + std::to_string(AddedTokens::kMaxBytes) + " bytes are not supported, token " + name(token));
  }

  static std::string name(const AddedToken& token) { return "\"" + printable(token.text, 60) + "\""; }

  // The text to search for. A normalized token is normalized as a text of its own, including the prefix.
  std::string pattern_of(const AddedToken& token) const {
    std::string text = token.text;
    Regex::Search search;
    if (token.normalized) normalizer_.apply(text, nullptr, search);
    return text;
  }

  Spellings& spellings_;
  const Normalizer& normalizer_;
  Ids ids_;
  TokenId model_size_, next_;
  TokenId after_ = 0;                                  // the highest id of an added token, plus 1
  std::vector<AddedToken> added_;                      // all additions, in order
  std::unordered_map<std::string, AddedToken> flags_;  // by text, with the last flags
  std::unordered_set<std::string> pinned_;
};

}  // namespace tenon::detail
