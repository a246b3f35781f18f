#include "conversation/listed_tokens.h"

#include "tenon/io/hex.h"
#include "tenon/tokenizer/unicode.h"

namespace program {
namespace {

constexpr std::string_view kBytesMark = "bytes:", kByteMark = "\\x";

std::string spelled_bytes(std::string_view bytes) {
  std::string text(kBytesMark);
  for (const char c : bytes) text.append(kByteMark).append(tenon::hex_of(static_cast<unsigned char>(c), 2));
  return text;
}

}  // namespace

std::optional<std::string> bytes_spelled_by(std::string_view text) {
  if (!text.starts_with(kBytesMark) || text.size() == kBytesMark.size()) return std::nullopt;
  text.remove_prefix(kBytesMark.size());
  std::string bytes;
  for (; !text.empty(); text.remove_prefix(kByteMark.size() + 2)) {
    if (!text.starts_with(kByteMark) || text.size() < kByteMark.size() + 2) return std::nullopt;
    const auto byte = tenon::bytes_of_hex(text.substr(kByteMark.size(), 2));
    if (!byte) return std::nullopt;
    bytes += *byte;
  }
  return bytes;
}

tenon::OrderedJson top_by_text(const tenon::Tokenizer& tokenizer, tenon::TokenLogprob chosen,
                               std::span<const tenon::TokenLogprob> top) {
  tenon::OrderedJson all = {{tenon::sanitize_utf8(tokenizer.bytes(chosen.id)), finite_logprob(chosen.logprob)}};
  for (const tenon::TokenLogprob& each : top) {
    const std::string_view bytes = tokenizer.bytes(each.id);
    const double logprob = finite_logprob(each.logprob);
    if (each.id != chosen.id && !all.emplace(tenon::sanitize_utf8(bytes), logprob).second)
      all.emplace(spelled_bytes(bytes), logprob);
  }
  return all;
}

}  // namespace program
