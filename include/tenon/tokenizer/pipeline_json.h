// normalizer, decoder and post_processor of tokenizer.json. Anything that is not known exactly is refused by name.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/tokenizer/json_node.h"
#include "tenon/tokenizer/metaspace.h"
#include "tenon/tokenizer/normalizer.h"
#include "tenon/tokenizer/pre_tokenizer_json.h"
#include "tenon/tokenizer/vocabulary.h"

namespace tenon::detail {

// Conversion of a token's spelling to its bytes.
enum class TokenDecoder : std::uint8_t {
  byte_level,
  byte_fallback,  // U+2581 is a space, <0xNN> is a byte
  metaspace,      // U+2581 is a space
};

// Reads a Replace, of a string or of the matches of an expression.
inline NormalizerStep read_replace(const JsonNode& step) {
  using Kind = NormalizerStep::Kind;
  step.only({"type", "pattern", "content"});
  const JsonNode pattern = step.object("pattern");
  pattern.only({"Regex", "String"});
  if (pattern->json().size() != 1) step->refuse("pattern", "must hold one of Regex and String");
  NormalizerStep out{.kind = Kind::replace, .to = step->string("content")};
  const bool plain =
      pattern->has("String") || pattern->string("Regex").find_first_of("\\.[]{}()*+?^$|") == std::string::npos;
  if (!plain) {
    out.kind = Kind::replace_matches;
    out.regex = RegexParser::parse(pattern->string("Regex"), pattern->where("Regex"), RegexParser::Empty::refused);
    return out;
  }
  const char* const key = pattern->has("String") ? "String" : "Regex";
  out.from = pattern->string(key);
  if (out.from.empty()) pattern->refuse(key, "is empty");
  return out;
}

inline NormalizerStep read_normalizer_step(const JsonNode& step) {
  using Kind = NormalizerStep::Kind;
  const std::string type = step.type();
  if (type == "Replace") return read_replace(step);
  if (type == "Prepend") {
    step.only({"type", "prepend"});
    NormalizerStep out{.kind = Kind::prepend, .to = step->string("prepend")};
    if (out.to.empty()) step.unsupported("prepend", "an empty text is not supported: it would double a character");
    return out;
  }
  if (type == "Strip") {
    step.only({"type", "strip_left", "strip_right"});
    return {.kind = Kind::strip, .left = step->boolean("strip_left"), .right = step->boolean("strip_right")};
  }
  if (type == "Precompiled") {
    constexpr const char* key = "precompiled_charsmap";
    step.only({"type", key});
    const std::string bytes = decode_base64(step->string(key), step->where(key));
    return {.kind = Kind::precompiled, .rules = std::make_shared<const Charsmap>(bytes, step->where(key))};
  }
  const bool forms = type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD";
  if (!forms && type != "Lowercase" && type != "Nmt")
    step.unsupported_type("NFC, NFD, NFKC, NFKD, Lowercase, Nmt, Precompiled, Strip, Prepend, Replace");
  step.only({"type"});
  if (!forms) return {.kind = type == "Nmt" ? Kind::clean : Kind::lower_case};
  return {.form = type == "NFC"    ? NormalForm::nfc
                  : type == "NFD"  ? NormalForm::nfd
                  : type == "NFKC" ? NormalForm::nfkc
                                   : NormalForm::nfkd};
}

inline Normalizer read_normalizer(const JsonNode& top) {
  const auto found = top.steps("normalizer", "normalizers");
  if (found.size() > kMostSteps) top.unsupported("normalizer", "more than 32 steps are not supported");
  std::vector<NormalizerStep> steps;
  for (const JsonNode& step : found) steps.push_back(read_normalizer_step(step));
  return Normalizer(std::move(steps));
}

// Whether the normalizer replaces spaces by U+2581, as SentencePiece does.
inline bool spells_spaces(const Normalizer& normalizer) {
  for (const NormalizerStep& step : normalizer.steps())
    if (step.kind == NormalizerStep::Kind::replace && step.from == " " && step.to == kMetaspace) return true;
  return false;
}

// Reads the pre-tokenizer, and sets the family that it implies.
inline void read_pieces(const JsonNode& top, Pipeline& out) {
  PreTokenizerFile found = read_pre_tokenizer(top);
  out.lone_byte_level = found.lone_byte_level;
  out.pre_tokenizer = std::move(found.steps);
  if (found.byte_level) return;
  out.family = TokenizerFamily::sentencepiece;
  if (!spells_spaces(out.normalizer) && !out.pre_tokenizer.has(PreTokenizerStep::Kind::metaspace))
    top.unsupported("pre_tokenizer",
                    "must have ByteLevel or Metaspace, unless the normalizer replaces spaces by U+2581 (as Llama 2's)");
}

// The Sequence [Replace, ByteFallback, Fuse] or [Replace, ByteFallback, Fuse, Strip], as LlamaConverter of
// transformers writes it.
inline void read_fallback_decoder(const std::vector<JsonNode>& steps, Pipeline& out) {
  constexpr std::string_view types[] = {"Replace", "ByteFallback", "Fuse", "Strip"};
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (i >= std::size(types) || steps[i].type() != types[i])
      steps[i].unsupported_type("Replace, ByteFallback, Fuse, Strip in this order, or Metaspace");
  if (steps.size() < 3)
    steps.back().unsupported("type", "must be followed by Replace, ByteFallback, Fuse in this order");
  steps[0].only({"type", "pattern", "content"});
  const JsonNode pattern = steps[0].object("pattern");
  pattern.only({"String"});
  if (pattern->string("String") != kMetaspace) pattern.unsupported("String", "only U+2581 is supported");
  if (steps[0]->string("content") != " ") steps[0].unsupported("content", "only a space is supported");
  steps[1].only({"type"});
  steps[2].only({"type"});
  if (steps.size() == 3) return;
  steps[3].only({"type", "content", "start", "stop"});
  if (steps[3]->string("content") != " ") steps[3].unsupported("content", "only a space is supported");
  if (steps[3]->integer("start", 0, 1) == 1) out.start = Pipeline::Start::drop_space;
  steps[3]->integer("stop", 0, 0);
}

inline TokenDecoder read_decoder(const JsonNode& top, Pipeline& out) {
  const auto steps = top.steps("decoder", "decoders");
  if (steps.empty())
    top.unsupported("decoder", "none is not supported: the library would put a space between any two tokens");
  const std::string type = steps.front().type();
  if (out.family == TokenizerFamily::byte_level) {
    if (type != "ByteLevel" || steps.size() != 1) steps.front().unsupported_type("ByteLevel");
    check_byte_level(steps.front());
    return TokenDecoder::byte_level;
  }
  if (type != "Metaspace") return read_fallback_decoder(steps, out), TokenDecoder::byte_fallback;
  if (steps.size() > 1) steps[1].unsupported_type("Metaspace alone");
  if (read_metaspace(steps.front()).prepend != Metaspace::Prepend::never)
    out.start = Pipeline::Start::drop_spaces_of_token;
  return TokenDecoder::metaspace;
}

// Most tokens before or after a text. Real templates have one or two; a file could have any number.
inline constexpr std::size_t kMaxTemplate = 1024;

// Appends the ids of a special token from the template's own table. Each id must have a token.
inline void add_template_ids(const JsonNode& step, const std::string& name, const Spellings& spellings,
                             std::vector<TokenId>& out) {
  const JsonNode table = step.object("special_tokens");
  const JsonNode token = table.object(name);
  token.only({"id", "ids", "tokens"});
  const Json& ids = token->value("ids");
  if (!ids.is_array()) token->refuse("ids", "must be a list of ids, is " + Fields::describe(ids));
  if (ids.size() + out.size() > kMaxTemplate)
    token.unsupported("ids", "more than " + std::to_string(kMaxTemplate) + " tokens beside a text are not supported");
  const auto& by_id = spellings.by_id();
  for (const Json& each : ids) {
    const int id = token->check_integer("ids", each, 0, static_cast<int>(by_id.size()) - 1);
    if (by_id[static_cast<std::size_t>(id)] == nullptr)
      token->refuse("ids", "names the id " + std::to_string(id) + ", which has no token");
    out.push_back(id);
  }
}

inline void read_template(const JsonNode& step, const Spellings& spellings, Pipeline& out) {
  step.only({"type", "single", "pair", "special_tokens"});
  step.object("special_tokens");
  step.objects("pair");  // the template for two texts, which tenon never encodes together
  bool text_seen = false;
  for (const JsonNode& piece : step.objects("single")) {
    piece.only({"SpecialToken", "Sequence"});
    if (piece->json().size() != 1) step->refuse("single", "each element must be a SpecialToken or a Sequence");
    const bool text = piece->has("Sequence");
    const JsonNode part = piece.object(text ? "Sequence" : "SpecialToken");
    part.only({"id", "type_id"});
    part->integer("type_id", 0, std::numeric_limits<int>::max(), 0);
    const std::string id = part->string("id");
    if (!text) {
      add_template_ids(step, id, spellings, text_seen ? out.after : out.before);
    } else {
      if (id != "A" || text_seen) step->refuse("single", "must hold the sequence A once, and no other");
      text_seen = true;
    }
  }
  if (!text_seen) step->refuse("single", "must hold the sequence A");
}

inline void read_post_processor(const JsonNode& top, const Spellings& spellings, Pipeline& out) {
  bool template_seen = false;
  for (const JsonNode& step : top.steps("post_processor", "processors")) {
    const std::string type = step.type();
    if (type == "ByteLevel") {
      check_byte_level(step);  // only sets how offsets are counted, and tenon has no offsets
    } else if (type == "TemplateProcessing" && !template_seen) {
      read_template(step, spellings, out);
      template_seen = true;
    } else {
      step.unsupported_type("ByteLevel, and TemplateProcessing once");
    }
  }
}

}  // namespace tenon::detail
