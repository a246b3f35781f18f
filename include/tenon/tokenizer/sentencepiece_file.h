// tokenizer.model: a SentencePiece model as a protocol buffer (sentencepiece_model.proto of google/sentencepiece).
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/io/file.h"
#include "tenon/tokenizer/spellings.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

// Reads the fields of a message of a protocol buffer one after another.
class ProtoReader {
 public:
  // `where` names the message in errors. Both must outlive the reader.
  ProtoReader(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  // A field: its number, and its value by wire type.
  struct Field {
    std::uint32_t number = 0;
    enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 } wire = Wire::varint;
    std::uint64_t value = 0;  // varint, fixed64, fixed32
    std::string_view bytes;   // bytes: a string or a message
  };

  // Reads the next field. Returns false at the end of the message. Error invalid_file if it is damaged.
  bool next(Field& out) {
    if (at_ == bytes_.size()) return false;
    const std::uint64_t key = varint();
    out = {};
    if (key >> 3 == 0 || key >> 3 > 0x1FFFFFFF) refuse("a field has a wrong number");
    out.number = static_cast<std::uint32_t>(key >> 3);
    switch (key & 7) {
      case 0:
        out.value = varint();
        break;
      case 1:
        out.value = fixed(8);
        break;
      case 2: {
        const std::uint64_t size = varint();
        if (size > bytes_.size() - at_) refuse("a field is longer than the file");
        out.bytes = bytes_.substr(at_, static_cast<std::size_t>(size));
        at_ += static_cast<std::size_t>(size);
        break;
      }
      case 5:
        out.value = fixed(4);
        break;
      default:
        refuse("a field has an unknown wire type");
    }
    out.wire = static_cast<Field::Wire>(key & 7);
    return true;
  }

  // The value of a field. Error invalid_file if it has another wire type.
  std::string_view text(const Field& field) const { return need(field, Field::Wire::bytes), field.bytes; }
  bool boolean(const Field& field) const { return need(field, Field::Wire::varint), field.value != 0; }
  float real(const Field& field) const {
    need(field, Field::Wire::fixed32);
    return std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
  }
  // Negative numbers and those beyond 2^31 - 1 become -1.
  int integer(const Field& field) const {
    need(field, Field::Wire::varint);
    return field.value > static_cast<std::uint64_t>(std::numeric_limits<int>::max()) ? -1
                                                                                     : static_cast<int>(field.value);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw Error(Error::Kind::invalid_file, where_, what); }

  void need(const Field& field, Field::Wire wire) const {
    if (field.wire != wire) refuse("field " + std::to_string(field.number) + " has a wrong type");
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == bytes_.size()) refuse("ends within a field");
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    refuse("a number has more than 10 bytes");
  }

  std::uint64_t fixed(std::size_t size) {
    if (bytes_.size() - at_ < size) refuse("ends within a field");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[at_ + i])) << (8 * i);
    at_ += size;
    return value;
  }

  std::string_view bytes_;
  const std::string& where_;
  std::size_t at_ = 0;
};

// The parts of a model file that decide the ids of a text.
struct SentencePieceFile {
  enum Kind : int { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string text;
    float score = 0;
    int kind = normal;
  };
  std::vector<Piece> pieces;  // [id]
  bool unigram = true;        // otherwise BPE
  bool byte_fallback = false;
  // Settings of the normalizer, with the names of NormalizerSpec.
  std::string charsmap;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
};

inline SentencePieceFile::Piece read_piece(std::string_view message, const std::string& where) {
  SentencePieceFile::Piece piece;
  ProtoReader reader(message, where);
  for (ProtoReader::Field field; reader.next(field);) {
    if (field.number == 1) piece.text = reader.text(field);
    if (field.number == 2) piece.score = reader.real(field);
    if (field.number == 3) piece.kind = reader.integer(field);
  }
  const auto refuse = [&](const char* what) { throw Error(Error::Kind::invalid_file, where, what); };
  constexpr std::size_t longest = 8000;  // the bound of sentencepiece, in bytes
  if (piece.text.empty()) refuse("is empty");
  if (piece.text.size() >= longest) refuse("has 8,000 bytes or more");
  if (piece.text.find('\0') != piece.text.npos) refuse("has a NUL");
  if (find_invalid_utf8(piece.text) != piece.text.npos) refuse("is not valid UTF-8");
  if (!std::isfinite(piece.score)) refuse("has a score that is not finite");
  if (piece.kind < SentencePieceFile::normal || piece.kind > SentencePieceFile::byte) refuse("has an unknown type");
  return piece;
}

inline void read_trainer(std::string_view message, const std::string& file, SentencePieceFile& out) {
  const std::string where = file + ": trainer_spec";
  const auto unsupported = [&](const char* name, const std::string& what) {
    throw Error(Error::Kind::unsupported, where + "." + name, what);
  };
  ProtoReader reader(message, where);
  for (ProtoReader::Field field; reader.next(field);) {
    if (field.number == 3) {
      const int type = reader.integer(field);
      if (type != 1 && type != 2)
        unsupported("model_type", std::to_string(type) + " is not supported; supported: 1 (unigram), 2 (BPE)");
      out.unigram = type == 1;
    }
    if (field.number == 24 && reader.boolean(field)) unsupported("treat_whitespace_as_suffix", "true is not supported");
    if (field.number == 35) out.byte_fallback = reader.boolean(field);
  }
}

inline void read_normalizer_spec(std::string_view message, const std::string& file, SentencePieceFile& out) {
  const std::string where = file + ": normalizer_spec";
  ProtoReader reader(message, where);
  for (ProtoReader::Field field; reader.next(field);) {
    if (field.number == 2) out.charsmap = reader.text(field);
    if (field.number == 3) out.add_dummy_prefix = reader.boolean(field);
    if (field.number == 4) out.remove_extra_whitespaces = reader.boolean(field);
    if (field.number == 5) out.escape_whitespaces = reader.boolean(field);
  }
}

// Rules that change decoded text. Files have the message, empty.
inline void refuse_denormalizer(std::string_view message, const std::string& file) {
  const std::string where = file + ": denormalizer_spec";
  ProtoReader reader(message, where);
  for (ProtoReader::Field field; reader.next(field);)
    if (field.number == 2 && !reader.text(field).empty())
      throw Error(Error::Kind::unsupported, where + ".precompiled_charsmap", "is not supported");
}

// Checks the pieces as sentencepiece does. Spellings are checked where they are added to the vocabulary.
inline void check_pieces(const std::string& file, const SentencePieceFile& model) {
  const auto refuse = [&](const std::string& what) { throw Error(Error::Kind::invalid_file, file + ": pieces", what); };
  int unknown = 0, bytes = 0;
  for (const SentencePieceFile::Piece& piece : model.pieces) {
    unknown += piece.kind == SentencePieceFile::unknown;
    bytes += piece.kind == SentencePieceFile::byte;
  }
  if (unknown > 1) refuse("there are several unknown tokens");
  if (unknown == 0 && !model.byte_fallback) refuse("there is no unknown token");
  if (bytes > 0 && !model.byte_fallback) refuse("there are byte tokens, but byte_fallback is false");
}

// Reads a model. `file` names it in errors. Error invalid_file if it is damaged; unsupported if it uses something that
// is not implemented.
inline SentencePieceFile parse_sentencepiece(std::string_view bytes, const std::string& file) {
  SentencePieceFile out;
  ProtoReader reader(bytes, file);
  for (ProtoReader::Field field; reader.next(field);) {
    if (field.number == 1) {
      if (out.pieces.size() == static_cast<std::size_t>(kMaxVocabulary))
        throw Error(Error::Kind::invalid_file, file, "has more than " + std::to_string(kMaxVocabulary) + " pieces");
      out.pieces.push_back(
          read_piece(reader.text(field), file + ": pieces[" + std::to_string(out.pieces.size()) + "]"));
    }
    if (field.number == 2) read_trainer(reader.text(field), file, out);
    if (field.number == 3) read_normalizer_spec(reader.text(field), file, out);
    if (field.number == 5) refuse_denormalizer(reader.text(field), file);
  }
  if (out.pieces.empty()) throw Error(Error::Kind::invalid_file, file, "has no pieces: it is no SentencePiece model");
  check_pieces(file, out);
  return out;
}

}  // namespace tenon::detail
