// Texts side by side on a terminal. A row is printed once all columns have it, so that nothing is redrawn.
#pragma once
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "chat/terminal.h"

namespace program {

// Narrowest column that texts are wrapped to.
inline constexpr std::size_t kNarrowestColumn = 16;

class Columns {
 public:
  // width: of the terminal.
  Columns(const Terminal& terminal, std::size_t width, const std::vector<std::string>& names);

  static bool fit(std::size_t width, std::size_t columns) {
    return (width + kGap) / columns >= kNarrowestColumn + kGap;
  }

  void add(std::size_t column, std::string_view text);
  void end(std::size_t column);

  // Rows that became complete, with their newlines.
  std::string take_rows();

 private:
  static constexpr std::size_t kGap = 3;  // " | "

  struct Column {
    std::deque<std::string> rows = {};  // complete and not yet taken
    std::string row, word;              // being written
    bool ended = false;
  };

  void finish_word(Column& column);
  void finish_row(Column& column);
  std::string joined_row(const std::vector<std::string>& cells, Ink ink) const;

  const Terminal& terminal_;
  const std::size_t width_;  // of a column
  std::vector<Column> columns_;
  std::string head_;  // names and a rule, before the first row
};

}  // namespace program
