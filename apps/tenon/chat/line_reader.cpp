#include "chat/line_reader.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "chat/line_editor.h"

namespace program {
namespace {

class PlainReader final : public LineReader {
 public:
  PlainReader() : asks_(::isatty(STDIN_FILENO) == 1) {}

  Status read(std::string_view prompt, std::string& line) override {
    if (asks_) {
      std::fwrite(prompt.data(), 1, prompt.size(), stderr);
      std::fflush(stderr);
    }
    if (!std::getline(std::cin, line)) return Status::end;
    if (line.ends_with('\r')) line.pop_back();
    return Status::line;
  }
  void remember(const std::string&) override {}
  bool catches_interrupts() const override { return false; }

 private:
  const bool asks_;
};

}  // namespace

std::unique_ptr<LineReader> make_line_reader(const LineReaderOptions& options) {
  if (::isatty(STDIN_FILENO) == 1)
    if (auto editor = make_line_editor(options)) return editor;
  return std::make_unique<PlainReader>();
}

}  // namespace program
