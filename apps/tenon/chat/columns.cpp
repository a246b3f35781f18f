#include "chat/columns.h"

#include <algorithm>
#include <utility>

namespace program {

Columns::Columns(const Terminal& terminal, std::size_t width, const std::vector<std::string>& names)
    : terminal_(terminal), width_((width + kGap) / names.size() - kGap), columns_(names.size()) {
  std::vector<std::string> cells, rules;
  for (const std::string& name : names) {
    cells.push_back(name.substr(0, bytes_within(name, width_)));
    rules.emplace_back(width_, '-');
  }
  head_ = joined_row(cells, Ink::name) + joined_row(rules, Ink::faint);
}

void Columns::add(std::size_t index, std::string_view text) {
  Column& column = columns_[index];
  for (const char c : text) {
    if (c == '\n') {
      finish_word(column);
      finish_row(column);
    } else if (c == ' ' || c == '\t') {
      finish_word(column);
      if (display_width(column.row) < width_) column.row += ' ';
    } else {
      column.word += c;
    }
  }
}

void Columns::end(std::size_t index) {
  Column& column = columns_[index];
  if (column.ended) return;
  finish_word(column);
  if (!column.row.empty()) finish_row(column);
  column.ended = true;
}

// Puts the word into the row, or into new rows if it does not fit.
void Columns::finish_word(Column& column) {
  if (column.word.empty()) return;
  if (!column.row.empty() && display_width(column.row) + display_width(column.word) > width_) finish_row(column);
  while (display_width(column.word) > width_) {
    const std::size_t bytes = bytes_within(column.word, width_);
    column.row = column.word.substr(0, bytes);
    column.word.erase(0, bytes);
    finish_row(column);
  }
  column.row += std::exchange(column.word, {});
}

void Columns::finish_row(Column& column) {
  while (column.row.ends_with(' ')) column.row.pop_back();
  column.rows.push_back(std::exchange(column.row, {}));
}

std::string Columns::take_rows() {
  std::string out;
  const auto has_row = [](const Column& each) { return !each.rows.empty(); };
  while (
      std::any_of(columns_.begin(), columns_.end(), has_row) &&
      std::all_of(columns_.begin(), columns_.end(), [&](const Column& each) { return has_row(each) || each.ended; })) {
    std::vector<std::string> cells;
    for (Column& column : columns_) {
      cells.push_back(column.rows.empty() ? std::string() : std::move(column.rows.front()));
      if (!column.rows.empty()) column.rows.pop_front();
    }
    out += std::exchange(head_, {}) + joined_row(cells, Ink::plain);
  }
  return out;
}

std::string Columns::joined_row(const std::vector<std::string>& cells, Ink ink) const {
  std::string row;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) row += terminal_.paint(Ink::faint, " | ");
    row += terminal_.paint(ink, cells[i]);
    const std::size_t filled = display_width(cells[i]);
    if (i + 1 < cells.size() && filled < width_) row.append(width_ - filled, ' ');
  }
  return row + "\n";
}

}  // namespace program
