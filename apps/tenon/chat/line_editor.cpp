#include "chat/line_editor.h"

#ifdef TENON_HAS_LIBEDIT
#include <histedit.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "chat/interrupts.h"
#endif

namespace program {

#ifndef TENON_HAS_LIBEDIT

std::unique_ptr<LineReader> make_line_editor(const LineReaderOptions&) { return nullptr; }
bool has_line_editor() { return false; }

#else

bool has_line_editor() { return true; }

namespace {

constexpr int kHistorySize = 1000;  // entries
constexpr char kEscape = '\1';      // encloses what fills no column of a prompt

class LineEditor final : public LineReader {
 public:
  explicit LineEditor(const LineReaderOptions& options) : options_(options) {
    // libedit reads characters by the locale. The C locale has none beyond ASCII.
    if (!std::setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    edit_ = ::el_init("tenon", stdin, out_, stderr);
    history_ = ::history_init();
    if (!edit_ || !history_) throw std::runtime_error("libedit cannot start");
    HistEvent event{};
    ::history(history_, &event, H_SETSIZE, kHistorySize);
    ::history(history_, &event, H_SETUNIQUE, 1);
    if (!options_.history_file.empty()) ::history(history_, &event, H_LOAD, options_.history_file.c_str());
    ::el_set(edit_, EL_CLIENTDATA, this);
    ::el_set(edit_, EL_EDITOR, "emacs");
    ::el_set(edit_, EL_SIGNAL, 1);  // the terminal is right again after Ctrl-Z, and after a change of its size
    ::el_set(edit_, EL_HIST, ::history, history_);
    ::el_set(edit_, EL_PROMPT_ESC, prompt_of, kEscape);
    ::el_set(edit_, EL_ADDFN, "tenon-complete", "complete a command or a name", complete);
    ::el_set(edit_, EL_BIND, "^I", "tenon-complete", nullptr);
    ::el_set(edit_, EL_ADDFN, "tenon-paste", "insert a paste", paste);
    if (pastes_) ::el_set(edit_, EL_BIND, kPasteBegin, "tenon-paste", nullptr);
    ::el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    ::el_source(edit_, nullptr);  // ~/.editrc
  }

  ~LineEditor() override {
    if (!options_.history_file.empty()) {
      const mode_t before = ::umask(077);  // other accounts must not read messages
      HistEvent event{};
      ::history(history_, &event, H_SAVE, options_.history_file.c_str());
      ::umask(before);
    }
    ::history_end(history_);
    ::el_end(edit_);
  }
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  Status read(std::string_view prompt, std::string& line) override {
    constexpr std::string_view bold = "\x1b[1;36m", plain = "\x1b[0m";
    const auto escaped = [](std::string_view sequence) {
      return std::string(1, kEscape).append(sequence).append(1, kEscape);
    };
    prompt_ = options_.colours ? escaped(bold) + std::string(prompt) + escaped(plain) : std::string(prompt);
    int count = 0;
    set_bracketed_paste(true);
    errno = 0;
    const char* const text = ::el_gets(edit_, &count);
    const int error = errno;
    set_bracketed_paste(false);
    if (text && count > 0) {
      line.assign(text, static_cast<std::size_t>(count));
      while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
      return Status::line;
    }
    std::fputc('\n', out_);
    std::fflush(out_);
    if (!Interrupts::take() && !(count < 0 && error == EINTR)) return Status::end;
    ::el_reset(edit_);
    return Status::interrupted;
  }

  void remember(const std::string& entry) override {
    HistEvent event{};
    if (!entry.empty()) ::history(history_, &event, H_ENTER, entry.c_str());
  }

  bool catches_interrupts() const override { return true; }

 private:
  static bool is_dumb() {
    const char* const terminal = std::getenv("TERM");
    return !terminal || std::string_view(terminal) == "dumb" || *terminal == 0;
  }

  static LineEditor& of(EditLine* edit) {
    void* self = nullptr;
    ::el_get(edit, EL_CLIENTDATA, &self);
    return *static_cast<LineEditor*>(self);
  }

  static char* prompt_of(EditLine* edit) { return of(edit).prompt_.data(); }

  // Inserts what all words that fit have in common.
  static unsigned char complete(EditLine* edit, int) {
    const LineEditor& self = of(edit);
    const LineInfo* const line = ::el_line(edit);
    const std::string_view before(line->buffer, static_cast<std::size_t>(line->cursor - line->buffer));
    if (!before.starts_with('/')) return CC_REFRESH_BEEP;
    const std::size_t space = before.rfind(' ');
    const std::string_view word = space == before.npos ? before : before.substr(space + 1);
    std::vector<std::string> fit;
    for (const std::string& each : space == before.npos ? self.options_.commands : self.options_.names)
      if (each.starts_with(word)) fit.push_back(each);
    if (fit.empty()) return CC_REFRESH_BEEP;
    std::string common = fit.front();
    for (const std::string& each : fit)
      common.resize(static_cast<std::size_t>(
          std::mismatch(common.begin(), common.end(), each.begin(), each.end()).first - common.begin()));
    const std::string rest = common.substr(word.size()) + (fit.size() == 1 ? " " : "");
    if (rest.empty() || ::el_insertstr(edit, rest.c_str()) != 0) return CC_REFRESH_BEEP;
    return CC_REFRESH;
  }

  // A terminal that knows this mode of xterm encloses a paste in kPasteBegin and kPasteEnd. Others ignore it.
  void set_bracketed_paste(bool on) {
    if (!pastes_) return;
    std::fputs(on ? "\x1b[?2004h" : "\x1b[?2004l", out_);
    std::fflush(out_);
  }

  // Inserts the pasted text. Its newlines stay in the line, so that a paste is one message.
  static unsigned char paste(EditLine* edit, int) {
    std::wstring text;
    wchar_t character = 0;
    while (!text.ends_with(kPasteEnd) && ::el_wgetc(edit, &character) == 1)
      text += character == L'\r' ? L'\n' : character;
    if (text.ends_with(kPasteEnd)) text.resize(text.size() - kPasteEnd.size());
    return ::el_winsertstr(edit, text.c_str()) == 0 || text.empty() ? CC_REFRESH : CC_ERROR;
  }

  static constexpr const char* kPasteBegin = "\x1b[200~";
  static constexpr std::wstring_view kPasteEnd = L"\x1b[201~";

  const LineReaderOptions options_;
  std::FILE* const out_ = ::isatty(STDOUT_FILENO) == 1 ? stdout : stderr;
  const bool pastes_ = !is_dumb();
  EditLine* edit_ = nullptr;
  History* history_ = nullptr;
  std::string prompt_;
};

}  // namespace

std::unique_ptr<LineReader> make_line_editor(const LineReaderOptions& options) {
  return std::make_unique<LineEditor>(options);
}

#endif

}  // namespace program
