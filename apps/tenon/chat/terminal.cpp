#include "chat/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "tenon/tokenizer/unicode.h"

namespace program {
namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

// SGR sequences of ECMA-48.
std::string_view sequence(Ink ink) {
  switch (ink) {
    case Ink::plain:
      return "";
    case Ink::prompt:
      return "\x1b[1;36m";
    case Ink::name:
      return "\x1b[1;32m";
    case Ink::faint:
      return "\x1b[2m";
    case Ink::warning:
      return "\x1b[33m";
  }
  return "";
}

// Calls act(bytes, columns) for each character until it returns false.
template <class Act>
void each_character(std::string_view text, Act act) {
  while (!text.empty()) {
    const tenon::CodePoint point = tenon::decode_utf8(text, 0);
    const auto length = static_cast<std::size_t>(std::max(1, static_cast<int>(point.length)));
    const int columns = point.length > 0 ? utf8proc_charwidth(static_cast<utf8proc_int32_t>(point.value)) : 1;
    if (!act(text.substr(0, length), static_cast<std::size_t>(std::max(0, columns)))) return;
    text.remove_prefix(std::min(length, text.size()));
  }
}

}  // namespace

Terminal::Terminal()
    : live_(::isatty(STDOUT_FILENO) == 1),
      colours_(live_ && variable("NO_COLOR").empty() && variable("TERM") != "dumb" && !variable("TERM").empty()) {}

std::size_t Terminal::width() const {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string Terminal::paint(Ink ink, std::string_view text) const {
  if (!colours_ || text.empty() || ink == Ink::plain) return std::string(text);
  return std::string(sequence(ink)).append(text).append("\x1b[0m");
}

std::string Terminal::shown(std::string_view text) const {
  if (!live_) return std::string(text);
  std::string out;
  each_character(text, [&](std::string_view character, std::size_t) {
    const auto first = static_cast<unsigned char>(character[0]);
    const bool c0 = character.size() == 1 && (first < 0x20 || first == 0x7f) && first != '\n' && first != '\t';
    const bool c1 = character.size() == 2 && first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
    if (first != '\r') out += c0 || c1 ? std::string_view("\xef\xbf\xbd") : character;
    return true;
  });
  return out;
}

std::size_t display_width(std::string_view text) {
  std::size_t sum = 0;
  each_character(text, [&](std::string_view, std::size_t columns) {
    sum += columns;
    return true;
  });
  return sum;
}

std::size_t bytes_within(std::string_view text, std::size_t columns) {
  std::size_t bytes = 0, filled = 0;
  each_character(text, [&](std::string_view character, std::size_t wide) {
    if (bytes > 0 && filled + wide > columns) return false;
    bytes += character.size(), filled += wide;
    return true;
  });
  return bytes;
}

}  // namespace program
