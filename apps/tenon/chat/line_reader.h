// Lines that a person types, or that a pipe brings.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace program {

class LineReader {
 public:
  enum class Status { line, end, interrupted };

  virtual ~LineReader() = default;

  // Reads a line, without its newline. A paste may bring a line that holds newlines. prompt: plain text.
  virtual Status read(std::string_view prompt, std::string& line) = 0;
  // Adds an entry to the history.
  virtual void remember(const std::string& entry) = 0;
  // Whether Ctrl-C at the prompt only drops the line.
  virtual bool catches_interrupts() const = 0;
};

// Options of a reader of a terminal.
struct LineReaderOptions {
  bool colours = false;
  std::string history_file = {};           // read at the start, written at the end; empty: none
  std::vector<std::string> commands = {};  // completed by Tab at the begin of a line
  std::vector<std::string> names = {};     // completed by Tab after a command
};

// The editor (libedit) if standard input is a terminal and the program was built with it; otherwise plain lines.
std::unique_ptr<LineReader> make_line_reader(const LineReaderOptions& options);

// Whether the program was built with the editor.
bool has_line_editor();

}  // namespace program
