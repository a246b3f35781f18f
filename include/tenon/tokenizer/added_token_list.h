// The added tokens of tokenizer.json and of tokenizer_config.json, each checked as it is read.
#pragma once
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/fields.h"
#include "tenon/core/file.h"
#include "tenon/tokenizer/added_tokens.h"
#include "tenon/tokenizer/nfc.h"
#include "tenon/tokenizer/pipeline_json.h"
#include "tenon/tokenizer/spellings.h"
#include "tenon/tokenizer/vocabulary.h"

namespace tenon::detail {

// Of one token: content and flags. A special one is never cut out of text here, so that its other flags change nothing.
struct AddedToken {
  TokenId id = 0;
  std::string text;
  bool special = false, normalized = false;
};

class AddedTokenList {
 public:
  // `spellings` holds the tokens of the model; what is new is added to it.
  AddedTokenList(Spellings& spellings, const Normalizers& normalizers)
      : spellings_(spellings), normalizers_(normalizers), model_size_(spellings.size()), next_(spellings.size()) {}

  // Reads a token. Error unsupported where its flags would change ids in a way that is not done here.
  AddedToken read(const Fields& fields, int id) const {
    const auto flag = [&](const char* key) { return fields.boolean(key, false); };
    AddedToken token{id, fields.string("content"), flag("special")};
    token.normalized = fields.boolean("normalized", !token.special);  // the default of the library's AddedToken
    if (token.text.empty()) fields.refuse("content", "a token is empty (\"\")");
    const auto refuse = [&](const char* key, const std::string& what) {
      throw Error(Error::Kind::unsupported, fields.where(key), what + ", token " + name(token));
    };
    if (token.text.size() > AddedTokens::kMaxBytes)
      refuse("content", "more than " + std::to_string(AddedTokens::kMaxBytes) + " bytes are not supported");
    for (const char* key : {"single_word", "lstrip", "rstrip"})
      if (flag(key) && !token.special) refuse(key, "true is not supported for what is cut out of text");
    if (token.normalized &&
        ((normalizers_.nfc && to_nfc(token.text) != token.text) || (normalizers_.replace && !token.special)))
      refuse("normalized", "true is not supported where the normalizer changes the token");
    return token;
  }

  // fields, key: what to name in errors about its id.
  void add(AddedToken token, const Fields& fields, const std::string& key) {
    const auto known = spellings_.find(token.text);
    if (known && tokens_.contains(token.text)) fields.refuse(key, name(token) + " was added already");
    // Hugging Face's library counts on from the vocabulary, whatever the file says (added_vocabulary.rs, add_tokens).
    const TokenId given = known ? *known : next_;
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
    tokens_.emplace(token.text, std::move(token));
  }

  const AddedToken* find(const std::string& text) const {
    const auto found = tokens_.find(text);
    return found == tokens_.end() ? nullptr : &found->second;
  }

  // A token that was added, once more: special if either says so, which is what the library comes to.
  void add_again(const AddedToken& token) {
    AddedToken& known = tokens_.at(token.text);
    known.special = known.special || token.special;
  }

  // What is added from now on is a call of its own to the library, which then counts from the highest id.
  void begin_second_call() {
    next_ = model_size_;
    for (const auto& [text, token] : tokens_)
      if (token.id >= next_) next_ = token.id + 1;
  }

  void list_special(Vocabulary& out) const {
    for (const auto& [text, token] : tokens_)
      if (token.special && !spellings_.left_out(text)) out.special.push_back({token.id, text});
  }

  // A token with a role is special, whatever its own flag says: text is text. out.special is complete and sorted.
  void finish(Vocabulary& out) const {
    std::vector<AddedTokens::Token> raw, normalized;
    for (const auto& [text, token] : tokens_) {
      const bool special = token.special || is_special(out.special, token.id);
      (token.normalized ? normalized : raw).push_back({text, token.id, special});
    }
    out.pipeline.added = AddedTokens(std::move(raw));
    out.pipeline.added_normalized = AddedTokens(std::move(normalized));
  }

 private:
  static std::string name(const AddedToken& token) { return "\"" + printable(token.text, 60) + "\""; }

  Spellings& spellings_;
  const Normalizers& normalizers_;
  TokenId model_size_, next_;
  std::unordered_map<std::string, AddedToken> tokens_;
};

}  // namespace tenon::detail
