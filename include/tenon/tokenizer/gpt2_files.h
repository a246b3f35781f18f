// vocab.json and merges.txt: byte-level byte pairs as GPT-2 has them (Radford et al., 2019; openai/gpt-2, encoder.py).
#pragma once
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "tenon/core/fields.h"
#include "tenon/core/file.h"
#include "tenon/core/json.h"
#include "tenon/tokenizer/spellings.h"
#include "tenon/tokenizer/tokenizer_config.h"
#include "tenon/tokenizer/vocabulary.h"

namespace tenon::detail {

inline void read_merges(const std::filesystem::path& path, const Spellings& spellings, MergeRules& out) {
  const std::string text = read_text_file(path, kMaxTokenizerFile);
  const std::string file = file_name_of(path);
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t newline = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, newline - at);
    at = newline + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);  // 0x0D itself is spelled otherwise, so this is a Windows line end
    if (++number == 1 && line.starts_with("#version")) continue;
    add_merge(line, spellings, {file + ": line " + std::to_string(number), "vocab.json"}, out);
  }
}

// Errors name file and field.
inline Vocabulary read_gpt2_files(const std::filesystem::path& folder, std::optional<int> vocab_size) {
  Vocabulary out;
  Spellings spellings(vocab_size.value_or(kMaxVocabulary));
  const Json json = read_json_file(folder / "vocab.json", kMaxTokenizerFile);
  spellings.add_all(Fields(json, "vocab.json"));
  find_byte_tokens(spellings, "vocab.json", out);
  read_merges(folder / "merges.txt", spellings, out.merges);
  const auto config = folder / "tokenizer_config.json";
  if (std::error_code ignored; std::filesystem::exists(config, ignored)) {
    const Json config_json = read_json_file(config, kMaxTokenizerFile);
    read_config_beside_vocab(Fields(config_json, file_name_of(config)), spellings, out);
  }
  default_end_of_text(spellings, out);
  sort_special_tokens(out);
  out.size = vocab_size.value_or(static_cast<int>(spellings.by_id().size()));
  lay_out_tokens(
      spellings,
      [special = out.special.begin(), end = out.special.end()](TokenId id, const std::string& spelling) mutable {
        return special != end && special->id == id ? (special++)->text : unspell(spelling);
      },
      out);
  return out;
}

}  // namespace tenon::detail
