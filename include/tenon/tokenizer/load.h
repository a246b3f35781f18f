// Chooses the files of a folder from which its tokenizer is read.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "tenon/core/error.h"
#include "tenon/io/fields.h"
#include "tenon/io/file.h"
#include "tenon/tokenizer/gpt2_files.h"
#include "tenon/tokenizer/sentencepiece.h"
#include "tenon/tokenizer/spellings.h"
#include "tenon/tokenizer/tokenizer_config.h"
#include "tenon/tokenizer/tokenizer_json.h"
#include "tenon/tokenizer/vocabulary.h"

namespace tenon::detail {

// Whether the folder's class reads tokenizer.model.
inline bool names_reader_of_pieces(const std::filesystem::path& folder) {
  const TokenizerConfig config = read_tokenizer_config(folder);
  const FoundClass found = find_class(Fields(config.members, config.file), folder);
  return found.which && reads_pieces(*found.which);
}

// tokenizer.json if it exists, as in transformers' fast tokenizers; otherwise vocab.json with merges.txt, or
// tokenizer.model. The class decides if a folder has all three.
inline TokenizerTables load_vocabulary(const std::filesystem::path& folder, std::optional<int> vocab_size) {
  const auto has = [&](const char* name) {
    std::error_code ignored;  // a folder that cannot be searched: opening the file reports why
    return std::filesystem::exists(folder / name, ignored);
  };
  if (vocab_size && (*vocab_size < 1 || *vocab_size > kMaxVocabulary))
    throw Error(Error::Kind::unsupported, "vocab_size",
                "must be from 1 to " + std::to_string(kMaxVocabulary) + ", is " + std::to_string(*vocab_size));
  if (has("tokenizer.json")) return read_tokenizer_json(folder, vocab_size);
  const bool vocabulary = has("vocab.json"), merges = has("merges.txt");
  const bool pieces = has(kSentencePieceName);
  if (vocabulary && merges && !(pieces && names_reader_of_pieces(folder))) return read_gpt2_files(folder, vocab_size);
  if (pieces) return read_sentencepiece(folder, vocab_size);
  if (vocabulary) throw Error(Error::Kind::io, "merges.txt", "is missing beside vocab.json; a tokenizer needs both");
  if (merges) throw Error(Error::Kind::io, "vocab.json", "is missing beside merges.txt; a tokenizer needs both");
  throw Error(Error::Kind::io, "tokenizer",
              "the folder \"" + file_name_of(folder) +
                  "\" has none: neither tokenizer.json, nor vocab.json with merges.txt, nor tokenizer.model");
}

}  // namespace tenon::detail
