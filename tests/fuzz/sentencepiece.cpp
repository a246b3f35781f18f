// Damaged tokenizer.model files, as many as you like: scripts/fuzz-sentencepiece compiles this with sanitizers and runs
// it.
//   sentencepiece [--count N] [--first S]   N files from seed S on
// Each file is read as a tokenizer, and encodes a text. It must do so or be refused by tenon::Error.
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "seeds.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/encoder.h"
#include "tenon/tokenizer/sentencepiece.h"

namespace {

std::string damaged(std::string bytes, std::mt19937& random) {
  constexpr std::uint32_t edges[] = {0, 1, 31, 255, 1u << 31, ~0u};
  for (int k = static_cast<int>(random() % 4); k >= 0; --k) {
    // Half of the damage is at the end, where settings and rules are.
    const std::size_t span = random() % 2 == 0 ? std::min<std::size_t>(bytes.size(), 1200) : bytes.size();
    const std::size_t at = bytes.size() - 1 - random() % span;
    if (random() % 3 == 0 && at + 4 < bytes.size())
      std::memcpy(bytes.data() + at, &edges[random() % std::size(edges)], 4);
    else
      bytes[at] = static_cast<char>(random());
  }
  if (random() % 16 == 0) bytes.resize(random() % bytes.size());
  return bytes;
}

void encode(const std::string& bytes) {
  using namespace tenon;
  const detail::SentencePieceFile file = detail::parse_sentencepiece(bytes, "tokenizer.model");
  const Json none = Json::object();
  const Fields config(none, "tokenizer_config.json");
  const auto tables = detail::make_sentencepiece_tables(
      file, config, detail::class_named("LlamaTokenizer", config, "tokenizer_class"), 700);
  std::vector<TokenId> ids;
  detail::Encoder(tables, ids)
      .encode("the  caf\xC3\xA9 <s> \xEF\xAC\x81 123\n abc\xE3\x80\x80\xF0\x9F\x98\x80 <|turn|> ",
              detail::SpecialSpellings::everywhere());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> sound;
  for (const char* name : {"bpe", "unigram", "symbols", "unigram_symbols", "unused"}) {
    std::ifstream file(std::string(TENON_SOURCE_DIR "/tests/tokenizer/sentencepiece/") + name + ".model",
                       std::ios::binary);
    sound.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    if (std::string(name) != "symbols") encode(sound.back());  // that one has the names of Gemma's special tokens
  }
  // The generator is the one that made the files of these seeds so far.
  return tenon::test::run_seeds<std::mt19937>(argc, argv, [&](std::mt19937& random, std::uint32_t seed) {
    encode(damaged(sound[seed % sound.size()], random));
  });
}
