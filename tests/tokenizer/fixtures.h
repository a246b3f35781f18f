// Shared by the tests of the tokenizer: folders with small vocabularies, and random text.
#pragma once
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/tokenizer/byte_level.h"

namespace fixtures {

inline std::filesystem::path tales() { return TENON_SOURCE_DIR "/examples/models/tales"; }
inline std::filesystem::path gpt2() { return TENON_SOURCE_DIR "/../shared/gpt2-tokenizer"; }

// A temporary folder that removes itself.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tenon-tokenizer-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }
  Folder& write(const std::string& name, std::string_view text) {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return *this;
  }

 private:
  std::filesystem::path path_;
};

// The 256 byte tokens with id == byte, then `more`.
inline nlohmann::json vocabulary(const std::vector<std::string>& more = {}) {
  nlohmann::json json = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) json[tenon::detail::spell_byte(static_cast<unsigned char>(byte))] = byte;
  int id = 256;
  for (const std::string& token : more) json[token] = id++;
  return json;
}

// The text of a file; empty where it does not exist.
inline std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Tokenizers of all families (kFamilies), written by make_fixtures.py.
inline std::filesystem::path data() { return TENON_SOURCE_DIR "/tests/tokenizer/data"; }

// The tokenizer.json of data()/qwen2 as vocab.json, merges.txt and tokenizer_config.json, to which `more` is added.
inline void write_qwen2_files(Folder& folder, const nlohmann::json& more) {
  const nlohmann::json whole = nlohmann::json::parse(read(data() / "qwen2" / "tokenizer.json"));
  nlohmann::json config = nlohmann::json::parse(read(data() / "qwen2" / "tokenizer_config.json"));
  config.erase("tokenizer_class");
  for (const nlohmann::json& token : whole["added_tokens"]) {
    nlohmann::json& entry = config["added_tokens_decoder"][std::to_string(token["id"].get<int>())] = token;
    entry.erase("id");
  }
  config.update(more);
  std::string merges = "#version: 0.2\n";
  for (const nlohmann::json& rule : whole["model"]["merges"])
    merges += rule[0].get<std::string>() + " " + rule[1].get<std::string>() + "\n";
  folder.write("vocab.json", whole["model"]["vocab"].dump()).write("merges.txt", merges);
  folder.write("tokenizer_config.json", config.dump());
}

inline constexpr const char* kFamilies[] = {
    "gpt2",          "starcoder",   "llama3",         "bloom",         "qwen2",  "shuffled",
    "llama2",        "mistral",     "metaspace",      "plain_replace", "prefix", "tekken",
    "deepseek_llm",  "deepseek_v3", "deepseek_coder", "falcon",        "midm",   "holes",
    "holes_unknown", "behaviors",   "llama2_added",   "gemma"};

// UTF-8 by its definition (RFC 3629, section 3), independent of the code under test.
inline void append(std::string& out, std::uint32_t c) {
  const auto byte = [&](std::uint32_t value) { out += static_cast<char>(value); };
  if (c < 0x80) return byte(c);
  if (c < 0x800) return byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F));
  if (c < 0x10000) return byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F));
  byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F));
}

inline std::uint32_t pick(std::mt19937& random, std::uint32_t count) {
  return static_cast<std::uint32_t>(random()) % count;
}

// Code points of every plane. Characters that the patterns treat specially are frequent.
inline std::uint32_t random_code_point(std::mt19937& random) {
  constexpr std::array<std::uint32_t, 30> edges = {' ',  ' ',  ' ',  '\n', '\t', '\'', 's',    't',    'r',    'e',
                                                   'v',  'l',  'd',  'm',  'A',  '0',  '9',    '.',    '<',    0x00,
                                                   0x1F, 0x85, 0xA0, 0xAD, 0xB2, 0xE9, 0x2003, 0x3000, 0x200D, 0x301};
  switch (pick(random, 4)) {
    case 0:
      return pick(random, 0x80);
    case 1:
      return pick(random, 0x800);
    case 2:
      return edges[pick(random, edges.size())];
    default: {
      const std::uint32_t c = pick(random, 0x110000);
      return c >= 0xD800 && c <= 0xDFFF ? 0xFFFD : c;
    }
  }
}

inline std::string random_text(std::mt19937& random, std::size_t code_points) {
  std::string text;
  for (std::size_t i = 0; i < code_points; ++i) append(text, random_code_point(random));
  return text;
}

}  // namespace fixtures
