// pre_tokenizer of tokenizer.json. Anything that is not known exactly is refused by name.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/tokenizer/json_node.h"
#include "tenon/tokenizer/metaspace.h"
#include "tenon/tokenizer/pre_tokenizer.h"
#include "tenon/tokenizer/regex_parser.h"

namespace tenon::detail {

// The patterns with hand-written code. Bloom's contains U+2026 U+3002 U+FF0C U+3001 U+0964 U+06D4 U+060C.
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kBloomPattern =
    R"( ?[^(\s|[.,!?)"
    "\xE2\x80\xA6\xE3\x80\x82\xEF\xBC\x8C\xE3\x80\x81\xE0\xA5\xA4\xDB\x94\xD8\x8C"
    R"(])]+)";

// The known pattern that does the same as this expression and behaviour, if any. All patterns but Bloom's match every
// character, so they leave no text between matches.
inline std::optional<Pattern> known_pattern(std::string_view regex, SplitBehavior behavior, bool invert) {
  const bool isolated = behavior == SplitBehavior::isolated;
  if (regex == kBloomPattern && isolated) return Pattern::bloom;
  if (!isolated && !(behavior == SplitBehavior::removed && invert)) return std::nullopt;
  if (regex == kLlama3Pattern) return Pattern::llama3;
  if (regex == kQwen2Pattern) return Pattern::qwen2;
  if (regex == kGpt2Pattern) return Pattern::gpt2;
  return std::nullopt;
}

inline SplitBehavior read_behavior(const JsonNode& step, const std::string& absent = {}) {
  const std::string name = absent.empty() ? step->string("behavior") : step->string("behavior", absent);
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  step->refuse("behavior", "must be Isolated, Removed, Contiguous, MergedWithPrevious or MergedWithNext, is \"" +
                               printable(name, 60) + "\"");
}

inline PreTokenizerStep read_split(const JsonNode& step) {
  step.only({"type", "pattern", "behavior", "invert"});
  const JsonNode pattern = step.object("pattern");
  pattern.only({"Regex", "String"});
  if (pattern->json().size() != 1) step->refuse("pattern", "must hold one of Regex and String");
  PreTokenizerStep out{.behavior = read_behavior(step), .invert = step->boolean("invert")};
  if (pattern->has("String")) {
    out.kind = PreTokenizerStep::Kind::literal;
    out.literal = pattern->string("String");
    if (out.literal.empty()) pattern->refuse("String", "is empty");
    return out;
  }
  const std::string regex = pattern->string("Regex");
  if (const auto known = known_pattern(regex, out.behavior, out.invert)) {
    out.pattern = *known;
    return out;
  }
  out.kind = PreTokenizerStep::Kind::regex;
  out.regex = RegexParser::parse(regex, pattern->where("Regex"));
  return out;
}

// Reads the steps that drop what is between words. Whitespace is an expression of Rust's regex in tokenizers: its \w
// has two joiners more, and lacks numbers such as U+00B2.
inline PreTokenizerStep read_words(const JsonNode& step) {
  PreTokenizerStep out{.kind = PreTokenizerStep::Kind::regex, .behavior = SplitBehavior::removed};
  if (step.type() == "CharDelimiterSplit") {
    step.only({"type", "delimiter"});
    out.kind = PreTokenizerStep::Kind::literal;
    out.literal = step->string("delimiter");
    if (out.literal.empty() || static_cast<std::size_t>(decode_utf8(out.literal, 0).length) != out.literal.size())
      step->refuse("delimiter", "must be one character");
    return out;
  }
  step.only({"type"});
  const bool words = step.type() == "Whitespace";
  out.invert = words;
  out.regex = RegexParser::parse(words ? "[\\w\u200C\u200D]+|[^\\w\u200C\u200D\\s]+" : "\\s", step->where("type"));
  return out;
}

// Checks the members of a ByteLevel, in any of the four parts that can have one.
inline void check_byte_level(const JsonNode& step) {
  step.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) step->boolean(key, false);
}

// Reads a ByteLevel. `last`: no step follows.
inline void read_byte_level(const JsonNode& step, bool last, std::vector<PreTokenizerStep>& out) {
  using Kind = PreTokenizerStep::Kind;
  check_byte_level(step);
  if (step->boolean("add_prefix_space")) out.push_back({.kind = Kind::prefix_space});
  if (step->boolean("use_regex", true)) out.push_back({.pattern = Pattern::gpt2});
  if (!last) out.push_back({.kind = Kind::spell_bytes});
}

// Reads a Metaspace of pre_tokenizer or decoder.
inline Metaspace read_metaspace(const JsonNode& step) {
  using Prepend = Metaspace::Prepend;
  step.only({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  if (step->string("replacement") != kMetaspace) step.unsupported("replacement", "only U+2581 is supported");
  step->string("str_rep", "");  // repeats the replacement; the library ignores it
  const std::string scheme = step->choice("prepend_scheme", {"always", "first", "never"}, "always");
  if (!step->boolean("add_prefix_space", true) && scheme != "never")
    step->refuse("add_prefix_space", "false contradicts the prepend_scheme, which is \"" + scheme + "\"");
  return {scheme == "always"  ? Prepend::always
          : scheme == "first" ? Prepend::first
                              : Prepend::never,
          step->boolean("split", true)};
}

inline constexpr std::size_t kMostSteps = 32;  // of a normalizer, and of a pre_tokenizer

// A pre_tokenizer as read from tokenizer.json.
struct PreTokenizerFile {
  PreTokenizer steps;
  bool byte_level = false;       // one of the steps is ByteLevel
  bool lone_byte_level = false;  // ByteLevel is the only step, outside any Sequence
};

inline PreTokenizerFile read_pre_tokenizer(const JsonNode& top) {
  using Kind = PreTokenizerStep::Kind;
  const auto parts = top.steps("pre_tokenizer", "pretokenizers");
  if (parts.size() > kMostSteps) top.unsupported("pre_tokenizer", "more than 32 steps are not supported");
  PreTokenizerFile out;
  std::vector<PreTokenizerStep> steps;
  bool metaspace = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const JsonNode& part = parts[i];
    const std::string type = part.type();
    if (type == "Split") {
      steps.push_back(read_split(part));
    } else if (type == "Digits") {
      part.only({"type", "individual_digits"});
      const bool each = part->boolean("individual_digits");
      steps.push_back({.kind = Kind::digits, .behavior = each ? SplitBehavior::isolated : SplitBehavior::contiguous});
    } else if (type == "Punctuation") {
      part.only({"type", "behavior"});
      steps.push_back({.kind = Kind::punctuation, .behavior = read_behavior(part, "Isolated")});
    } else if (type == "Whitespace" || type == "WhitespaceSplit" || type == "CharDelimiterSplit") {
      steps.push_back(read_words(part));
    } else if (type == "ByteLevel" && !out.byte_level && !metaspace) {
      read_byte_level(part, i + 1 == parts.size(), steps);
      out.byte_level = true;
    } else if (type == "Metaspace" && !out.byte_level && !metaspace) {
      steps.push_back({.kind = Kind::metaspace, .metaspace = read_metaspace(part)});
      metaspace = true;
    } else {
      part.unsupported_type(
          "Split, Digits, Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit, and one of ByteLevel and "
          "Metaspace, once");
    }
  }
  out.lone_byte_level =
      parts.size() == 1 && out.byte_level && top->value("pre_tokenizer").value("type", "") != "Sequence";
  // StarCoder's steps have a pattern that does both in one pass.
  if (steps.size() == 2 && steps[0].kind == Kind::digits && steps[0].behavior == SplitBehavior::isolated &&
      steps[1].kind == Kind::pattern && steps[1].pattern == Pattern::gpt2 && out.byte_level)
    steps = {{.pattern = Pattern::starcoder}};
  out.steps = PreTokenizer(std::move(steps));
  return out;
}

}  // namespace tenon::detail
