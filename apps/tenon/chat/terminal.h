// Standard output as a person sees it: colours, width, and text that cannot control the terminal.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace program {

enum class Ink { plain, prompt, name, faint, warning };

class Terminal {
 public:
  // Colours need a terminal that is not dumb, and no NO_COLOR in the environment (no-color.org).
  Terminal();

  bool is_live() const { return live_; }  // standard output is a terminal
  std::size_t width() const;              // columns; 80 if unknown
  std::string paint(Ink ink, std::string_view text) const;

  // Text of a model as it is printed: on a terminal without control characters except newline and tab.
  std::string shown(std::string_view text) const;

 private:
  bool live_, colours_;
};

// Columns that a text fills: wide characters of East Asia are two, combining ones none.
std::size_t display_width(std::string_view text);

// The bytes of the longest beginning of the text that fills at most `columns`, but at least one character.
std::size_t bytes_within(std::string_view text, std::size_t columns);

}  // namespace program
