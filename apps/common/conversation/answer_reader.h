// Takes an assistant's answer apart as it is written: reasoning, text, and calls of functions.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conversation/tool_style.h"

namespace program {

struct AnswerPart {
  enum class Kind { reasoning, text, call, arguments };
  Kind kind;
  std::string text;  // call: the function's name; arguments: the next piece of their JSON
  int call = 0;      // index of the call in the answer; for call and arguments
};

struct AnswerStyle {
  std::optional<ToolStyle> tools = {};  // none: the answer has no calls
  ThinkStyle think = {};                // empty: reasoning is not separated
  bool thinking = false;                // the answer starts within the reasoning
  // Texts with which an answer of calls begins. Not empty: such an answer has no other text, and every other answer is
  // text, even if it contains the marker.
  std::vector<std::string> starts = {};
};

// Takes pieces of an answer's text, and returns its parts as soon as they are known. The parts do not depend on how the
// text is cut into pieces. A call that is not well-formed JSON is text.
class AnswerReader {
 public:
  explicit AnswerReader(AnswerStyle style);

  std::vector<AnswerPart> push(std::string_view text);
  std::vector<AnswerPart> finish();  // the answer has ended
  int calls() const { return calls_; }
  // After finish(): whether there is a call and all calls are complete. The end of the answer may have cut the last
  // one.
  bool has_whole_calls() const { return calls_ > 0 && state_ != State::header && state_ != State::arguments; }

 private:
  // start: before the first character that is not white space. between: after the marker, outside of a call. header: in
  // a call, its arguments are not known yet. closing: after the arguments, within the call.
  enum class State { start, thinking, text, between, header, arguments, closing };

  void step();
  void take_start();
  void take_thinking();
  void take_text();
  void take_between();
  void take_header();
  void take_arguments();
  void take_closing();
  bool read_header();
  void read_whole_call();
  void begin_calls();
  void emit(AnswerPart::Kind kind, std::string text);
  // Moves the scan over JSON; true at the end of the value that began at depth 0.
  bool scan(char c);

  const AnswerStyle style_;
  State state_;
  bool ended_ = false;     // finish() was called
  bool strips_ = false;    // the reasoning is over: white space in front of the next text is dropped
  std::string pending_;    // not emitted yet
  std::string call_text_;  // header: the call so far
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false;
  int calls_ = 0;
  std::vector<AnswerPart> out_;
};

}  // namespace program
