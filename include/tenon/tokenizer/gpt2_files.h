// vocab.json and merges.txt: byte-level BPE as in GPT-2 (Radford et al., 2019; openai/gpt-2, encoder.py).
#pragma once
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "tenon/io/fields.h"
#include "tenon/io/file.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/added_token_list.h"
#include "tenon/tokenizer/spellings.h"
#include "tenon/tokenizer/tokenizer_config.h"
#include "tenon/tokenizer/vocabulary.h"

namespace tenon::detail {

// Calls f(rule, number of its line) for the rules of a merges.txt. strips: blanks around a rule and lines without one
// do not count, as in Qwen2's class.
template <class F>
void for_each_merge(std::string_view text, bool strips, F&& f) {
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t newline = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, newline - at);
    at = newline + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);  // a Windows line end; the byte 0x0D itself has another spelling
    if (++number == 1 && line.starts_with("#version")) continue;
    if (strips) {
      line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
      line.remove_suffix(line.size() - std::min(line.find_last_not_of(" \t") + 1, line.size()));
      if (line.empty()) continue;
    }
    f(line, number);
  }
}

inline void read_merges(const std::filesystem::path& path, bool strips, const Spellings& spellings, MergeRules& out) {
  const std::string text = read_text_file(path, kMaxTokenizerFile);
  const std::string file = file_name_of(path);
  for_each_merge(text, strips, [&](std::string_view line, int number) {
    const MergeSource source{file + ": line " + std::to_string(number), "vocab.json"};
    const auto [left, right] = split_merge(line, source.where);
    add_merge(left, right, spellings, source, out);
  });
}

inline void find_all_byte_tokens(const Spellings& spellings, TokenizerTables& out) {
  find_byte_tokens(spellings, out);
  for (int byte = 0; byte < 256; ++byte) {
    if (out.byte_token[static_cast<std::size_t>(byte)] >= 0 || !occurs_in_utf8(byte)) continue;
    throw Error(Error::Kind::invalid_file, "vocab.json",
                "has no token for the byte " + std::to_string(byte) + " (spelled \"" +
                    printable(spell_byte(static_cast<unsigned char>(byte))) +
                    "\"): a byte-level vocabulary needs all that UTF-8 has");
  }
}

// Reads both files, tokenizer_config.json and the class in config.json. Errors name file and field. GPT-2's steps or,
// for its class, Qwen2's (Qwen2Converter of transformers).
inline TokenizerTables read_gpt2_files(const std::filesystem::path& folder, std::optional<int> vocab_size) {
  TokenizerTables out;
  Spellings spellings(vocab_size.value_or(kMaxVocabulary));
  const Json json = read_json_file(folder / "vocab.json", kMaxTokenizerFile);
  spellings.add_all(Fields(json, "vocab.json"));
  find_all_byte_tokens(spellings, out);
  const TokenizerConfig read = read_tokenizer_config(folder);
  FieldLog log;
  const Fields config(read.members, read.file, {}, Error::Kind::invalid_file, &log);
  const TokenizerClass& which = class_beside_vocab(config, folder);
  const bool qwen2 = which.name == "Qwen2Tokenizer";
  read_merges(folder / "merges.txt", qwen2, spellings, out.merges);
  if (qwen2) out.pipeline.normalizer = Normalizer({{.form = NormalForm::nfc}});
  out.pipeline.pre_tokenizer = PreTokenizer({{.pattern = qwen2 ? Pattern::qwen2 : Pattern::gpt2}});
  out.pipeline.lone_byte_level = !qwen2;
  AddedTokenList added(spellings, out.pipeline.normalizer, AddedTokenList::Ids::as_written);
  read_config_beside_vocab(config, which, spellings, added, out);
  out.ignored = log.unread(read.members);
  const auto bytes = [&](TokenId id, const std::string& spelling) {
    return is_special(out.special, id) ? spelling : unspell(spelling);
  };
  finish_vocabulary(spellings, vocab_size, bytes, out);
  added.finish(out);
  return out;
}

}  // namespace tenon::detail
