// tenon chat-batch: several prompts in one batch, each with its own adapter or none. Their rows stream side by side.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "commands.h"
#include "exits.h"
#include "output.h"
#include "sampling.h"
#include "tenon/core/error.h"
#include "tenon/io/json.h"

namespace program {
namespace {

struct Row {
  std::string name, text;
  std::vector<tenon::AdapterUse> adapters = {};
};

// Parses "PROMPT@ADAPTER_DIR" or "PROMPT". A prompt that contains an @ and has no adapter must end in another @.
Row parse_row(const std::string& argument) {
  const std::size_t at = argument.rfind('@');
  Row row{.name = "base", .text = argument.substr(0, at)};
  if (row.text.empty()) throw UsageError("--row " + argument + ": there is no prompt before @");
  const std::string folder = at == argument.npos ? std::string() : argument.substr(at + 1);
  if (folder.empty()) return row;
  row.adapters.push_back({folder});
  std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // a slash at the end
  row.name = tenon::printable(path.filename().string(), 24);
  return row;
}

// Redraws the rows on a terminal. If standard output is no terminal, prints one line per row at the end.
class Screen {
 public:
  explicit Screen(const std::vector<Row>& rows) : rows_(rows), live_(::isatty(STDOUT_FILENO) == 1) {
    for (const Row& row : rows) name_width_ = std::max(name_width_, row.name.size());
  }

  void draw() {
    if (!live_) return;
    if (drawn_) output_.write(formatted("\x1b[%zuA", rows_.size()));
    drawn_ = true;
    const std::size_t width = columns();
    for (const Row& row : rows_) output_.write("\r\x1b[K" + line(row, width) + "\n");
    output_.flush();
  }

  void finish() {
    draw();
    if (live_) return;
    for (const Row& row : rows_) output_.write(line(row, 0) + "\n");
    output_.flush();
  }

 private:
  static std::size_t columns() {
    winsize size{};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }

  // A row of at most `width` bytes; 0: no limit. A longer row loses the beginning of its text, because the end is new.
  std::string line(const Row& row, std::size_t width) const {
    const std::string text = tenon::printable(row.text, row.text.size() + 1);
    std::string head = row.name + std::string(name_width_ - row.name.size(), ' ') + " | ";
    if (width == 0 || head.size() + text.size() < width) return head + text;
    const std::size_t limit = width > head.size() + 4 ? width - head.size() - 4 : 1;
    std::size_t begin = text.size() > limit ? text.size() - limit : 0;
    while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xc0u) == 0x80u)
      ++begin;  // to the next character
    return head + "..." + text.substr(begin);
  }

  const std::vector<Row>& rows_;
  const bool live_;
  bool drawn_ = false;
  std::size_t name_width_ = 0;
  Output output_;
};

}  // namespace

int chat_batch(const ChatBatchCommand& command) {
  std::vector<Row> rows;
  for (const std::string& words : command.rows) rows.push_back(parse_row(words));
  const auto files = open_model(command.model);
  need_tokenizer(files, "chat-batch");
  const auto engine = make_engine(with_stored_weights(command.model, files), files);

  tenon::Options sampling = command.options;
  if (command.generation.config) sampling = with_generation_config(files, sampling, command.generation.given);
  std::unordered_map<tenon::RequestId, std::size_t> row_of;
  int failed = 0;
  const auto fail = [&](Row& row, const std::string& error) {
    row.text += " [" + error + "]";
    ++failed;
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    try {
      row_of.emplace(engine->submit({.prompt = rows[i].text, .adapters = rows[i].adapters, .options = sampling}), i);
    } catch (const tenon::Error& error) {
      fail(rows[i], error.what());
    }
  }
  engine->set_draining(true);
  Screen screen(rows);
  screen.draw();
  while (!engine->idle()) {
    for (const tenon::Event& event : step_or_wait(*engine)) {
      Row& row = rows[row_of.at(event.request)];
      row.text += event.text;
      if (event.kind == tenon::Event::Kind::error) fail(row, event.error);
    }
    screen.draw();
  }
  screen.finish();
  return failed == 0 ? 0 : 1;
}

}  // namespace program
