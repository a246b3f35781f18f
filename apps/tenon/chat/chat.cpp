// tenon chat: a conversation in a terminal, or line by line through a pipe.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "chat/columns.h"
#include "chat/interrupts.h"
#include "chat/line_reader.h"
#include "chat/session.h"
#include "chat/terminal.h"
#include "chat/transcript.h"
#include "commands.h"
#include "conversations.h"
#include "exits.h"
#include "output.h"
#include "sampling.h"
#include "tenon/core/error.h"
#include "trimmed.h"

namespace program {
namespace {

constexpr std::string_view kBlock = "\"\"\"";  // encloses a message of several lines

// Words of a command's line. Quotes keep spaces in a word.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false, begun = false;
  for (const char c : text) {
    if (c == '"') {
      quoted = !quoted, begun = true;
    } else if (c == ' ' && !quoted) {
      if (begun) words.push_back(std::exchange(word, {}));
      begun = false;
    } else {
      word += c, begun = true;
    }
  }
  if (begun) words.push_back(word);
  return words;
}

// Prints the answer of one side as it comes. Reasoning in <think> is faint.
class AnswerPrinter {
 public:
  AnswerPrinter(const Terminal& terminal, Output& output, bool thinks)
      : terminal_(terminal), output_(output), thinks_(thinks) {}

  void add(std::string_view text) {
    constexpr std::string_view begin = "<think>", end = "</think>";
    while (!text.empty()) {
      const std::string_view mark = thinks_ ? end : begin;
      const std::size_t at = text.find(mark);
      std::string_view part = text.substr(0, at);
      if (thinks_ && at != text.npos) part = text.substr(0, at + end.size());
      output_.write(terminal_.paint(thinks_ ? Ink::faint : Ink::plain, terminal_.shown(part)));
      if (!part.empty()) ends_line_ = part.ends_with('\n');
      text.remove_prefix(part.size());
      if (at != text.npos) thinks_ = !thinks_;
      if (at != text.npos && thinks_ && text.starts_with(begin)) {  // the mark is faint, too
        output_.write(terminal_.paint(Ink::faint, begin));
        text.remove_prefix(begin.size());
        ends_line_ = false;
      }
    }
    output_.flush();
  }

  void end() {
    if (!ends_line_) output_.write("\n");
    output_.flush();
  }

 private:
  const Terminal& terminal_;
  Output& output_;
  bool thinks_, ends_line_ = false;
};

class Chat {
 public:
  Chat(const ChatCommand& command, tenon::AnyEngine& engine, ChatSession& session, std::string model)
      : command_(command),
        engine_(engine),
        session_(session),
        model_(std::move(model)),
        asks_(::isatty(STDIN_FILENO) == 1),
        timing_(command.timing || (asks_ && terminal_.is_live())) {}

  int run() {
    const std::unique_ptr<LineReader> reader = make_line_reader({.colours = terminal_.paint(Ink::faint, "x") != "x",
                                                                 .history_file = command_.history,
                                                                 .commands = command_names(),
                                                                 .names = known_adapters()});
    std::optional<Interrupts> guard;
    if (reader->catches_interrupts()) guard.emplace();
    if (asks_) greet();
    if (command_.message) ask(*command_.message);
    std::string message;
    while (!ended_ && read_message(*reader, message)) handle(message);
    return failed_ && !asks_ ? 1 : 0;
  }

 private:
  struct Command {
    std::string_view name, arguments, help;
    void (Chat::*act)(const std::string& rest);
  };
  static const std::vector<Command>& commands();

  static std::vector<std::string> command_names() {
    std::vector<std::string> names;
    for (const Command& each : commands()) names.push_back("/" + std::string(each.name));
    return names;
  }

  void print(const std::string& text, Ink ink = Ink::plain) {
    output_.write(terminal_.paint(ink, text) + "\n");
    output_.flush();
  }

  void complain(const std::string& text) {
    output_.flush();
    say(text);
    failed_ = true;
  }

  void greet() {
    print(model_ + "\n/help lists the commands. Ctrl-C stops an answer, Ctrl-D ends.", Ink::faint);
    if (!has_line_editor())
      print("Built without libedit (Debian: libedit-dev): there is no history and no editing of the line.", Ink::faint);
  }

  std::string prompt() const {
    std::string names;
    for (const Side& side : session_.sides())
      if (session_.sides().size() > 1 || side.name != kBaseName) names += (names.empty() ? "" : "|") + side.name;
    return names + "> ";
  }

  // Reads a message: a line, lines that end in a backslash, or a block in """. False: the end.
  bool read_message(LineReader& reader, std::string& message) {
    message.clear();
    literal_ = false;
    std::string line;
    bool block = false, more = false;
    for (;;) {
      const auto status = reader.read(more ? "... " : prompt(), line);
      if (status == LineReader::Status::end) return more;  // what was read is a message
      if (status == LineReader::Status::interrupted) {
        message.clear(), block = more = literal_ = false;
        continue;
      }
      if (!more && trimmed(line).starts_with(kBlock)) {
        block = literal_ = true;
        line = std::string(trimmed(line).substr(kBlock.size()));
      }
      const bool closes = block && trimmed(line).ends_with(kBlock);
      if (closes) line.erase(line.rfind(kBlock));
      const bool joins = !block && line.ends_with('\\');
      if (joins) line.pop_back();
      message += (more && !(closes && line.empty()) && !message.empty() ? "\n" : "") + line;
      more = true;
      if (closes || (!block && !joins)) break;
    }
    reader.remember(message);
    return true;
  }

  void handle(const std::string& message) {
    if (trimmed(message).empty()) return;
    if (literal_ || !message.starts_with('/')) return ask(message);
    if (message.starts_with("//")) return ask(message.substr(1));
    const std::size_t space = message.find_first_of(" \n");
    const std::string name = message.substr(1, space == message.npos ? space : space - 1);
    const std::string rest(space == message.npos ? std::string_view()
                                                 : trimmed(std::string_view(message).substr(space)));
    for (const Command& each : commands()) {
      if (each.name != name) continue;
      try {
        (this->*each.act)(rest);
      } catch (const OutputClosed&) {
        throw;
      } catch (const std::filesystem::filesystem_error& error) {
        complain(error.code().message());
      } catch (const std::exception& error) {
        complain(error.what());
      }
      return;
    }
    complain("there is no command /" + tenon::printable(name, 40) +
             "; /help lists them. A message that begins with / begins with //");
  }

  // ---- answers

  void ask(const std::string& message) {
    round([&](const RoundListener& listener) { return session_.ask(message, listener); });
  }

  template <class Act>
  void round(Act act) {
    const bool aside = session_.sides().size() > 1;
    const std::size_t width = terminal_.width();
    const Round done = aside && terminal_.is_live() && Columns::fit(width, session_.sides().size())
                           ? in_columns(act, width)
                           : one_by_one(act, aside);
    for (std::size_t i = 0; i < done.replies.size(); ++i)
      report(done.replies[i], aside ? session_.sides()[i].name + ": " : "");
    if (timing_) print_timing(done, aside);
  }

  // One side as its text comes; several one after the other, under their names, since their texts come together.
  template <class Act>
  Round one_by_one(Act act, bool aside) {
    std::optional<AnswerPrinter> printer;
    Round done = act({.begin =
                          [&](std::size_t, const SideReply& reply) {
                            if (!aside) printer.emplace(terminal_, output_, reply.thinks);
                          },
                      .text =
                          [&](std::size_t, std::string_view text) {
                            if (printer) printer->add(text);
                          },
                      .end =
                          [&](std::size_t) {
                            if (printer) printer->end();
                          }});
    for (std::size_t i = 0; aside && i < done.replies.size(); ++i) {
      print("[" + session_.sides()[i].name + "]", Ink::name);
      AnswerPrinter each(terminal_, output_, done.replies[i].thinks);
      each.add(done.replies[i].text);
      each.end();
    }
    return done;
  }

  template <class Act>
  Round in_columns(Act act, std::size_t width) {
    std::vector<std::string> names;
    for (const Side& side : session_.sides()) names.push_back(side.name);
    Columns columns(terminal_, width, names);
    const auto show = [&] {
      output_.write(columns.take_rows());
      output_.flush();
    };
    return act({.begin = [](std::size_t, const SideReply&) {},
                .text =
                    [&](std::size_t side, std::string_view text) {
                      columns.add(side, terminal_.shown(text));
                      show();
                    },
                .end =
                    [&](std::size_t side) {
                      columns.end(side);
                      show();
                    }});
  }

  void report(const SideReply& reply, const std::string& name) {
    if (!reply.error.empty()) complain(name + reply.error);
    if (reply.forgotten > 0)
      say(name + "the oldest " + std::to_string(reply.forgotten) +
          " messages no longer fit into the context; /reset begins anew");
    if (!reply.error.empty()) return;
    if (reply.reason == tenon::FinishReason::length)
      say(name + "the answer was cut at " + std::to_string(reply.tokens) + " tokens");
    if (reply.reason == tenon::FinishReason::cancelled) say(name + "stopped");
  }

  void print_timing(const Round& done, bool aside) {
    std::size_t prompts = 0;
    std::string text;
    for (std::size_t i = 0; i < done.replies.size(); ++i) {
      const SideReply& reply = done.replies[i];
      prompts += reply.prompt_tokens;
      if (reply.tokens == 0) continue;
      if (!text.empty()) text += ";\n ";
      if (aside) text += session_.sides()[i].name + ": ";
      text += formatted("%d tokens in %.2f s, first after %.2f s", reply.tokens, reply.seconds, reply.first_seconds);
      const double rest = reply.seconds - reply.first_seconds;
      if (reply.tokens > 1 && rest > 0) text += formatted(", then %.1f tokens/s", (reply.tokens - 1) / rest);
    }
    if (text.empty()) return;
    text = "[" + text +
           formatted("; %llu of %zu prompt tokens reused]", static_cast<unsigned long long>(done.reused), prompts);
    if (terminal_.is_live())
      print(text, Ink::faint);
    else
      say(text);
  }

  // ---- commands

  void help(const std::string&) {
    for (const Command& each : commands()) {
      std::string usage =
          "/" + std::string(each.name) + (each.arguments.empty() ? "" : " ") + std::string(each.arguments);
      usage.resize(std::max<std::size_t>(usage.size(), 24), ' ');
      print(terminal_.paint(Ink::prompt, usage) + "  " + std::string(each.help));
    }
    print("A line that ends in \\ goes on in the next one.");
    print("Lines between \"\"\" and \"\"\" are one message.");
    print("A message that begins with / begins with //.");
    print("Ctrl-C stops an answer, Ctrl-D ends.");
  }

  void reset(const std::string&) {
    session_.reset();
    print("A new conversation.", Ink::faint);
  }

  void system(const std::string& rest) {
    if (rest.empty()) return print(session_.system ? *session_.system : "There is no system prompt.");
    session_.system = rest == kBaseName ? std::nullopt : std::optional(rest);
    print(session_.system ? "The system prompt is set." : "The system prompt is removed.", Ink::faint);
  }

  void adapter(const std::string& rest) {
    if (rest.empty()) {
      const std::vector<std::string> known = known_adapters();
      for (const std::string& name : known) print(name);
      if (known.size() == 1) say("no adapters are known: name a folder, or start with --adapter-root DIR");
      return;
    }
    const auto words = words_of(rest);
    if (words.size() != 1)
      throw tenon::Error(tenon::Error::Kind::invalid_request, "/adapter", "takes one name; quote one with spaces");
    session_.use(words[0]);
    print(words[0] == kBaseName ? "The plain model answers." : "The adapter " + words[0] + " answers.", Ink::faint);
  }

  void compare(const std::string& rest) {
    auto names = words_of(rest);
    if (names.empty()) {
      const std::string first = session_.sides().front().name;
      session_.use(first);
      return print("One answer again: " + first + ".", Ink::faint);
    }
    auto sorted = names;
    std::sort(sorted.begin(), sorted.end());
    const bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
    if (names.size() < 2 || twice || names.size() > kMostSides)
      throw tenon::Error(tenon::Error::Kind::invalid_request, "/compare",
                         "takes two to " + std::to_string(kMostSides) + " different adapters; none is the plain model");
    session_.compare(names);
    print("Side by side: " + joined(names) + ".", Ink::faint);
  }

  void retry(const std::string&) {
    bool any = true;
    round([&](const RoundListener& listener) {
      Round done;
      any = session_.retry(listener, done);
      return done;
    });
    if (!any) throw tenon::Error(tenon::Error::Kind::invalid_request, "/retry", "there is no message yet");
  }

  void undo(const std::string&) {
    if (!session_.undo()) throw tenon::Error(tenon::Error::Kind::invalid_request, "/undo", "there is no message yet");
    print("The last message and its answer are dropped.", Ink::faint);
  }

  void save(const std::string& rest) {
    const std::filesystem::path file = file_of(rest, "/save");
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored) && std::find(saved_.begin(), saved_.end(), file) == saved_.end())
      throw tenon::Error(tenon::Error::Kind::invalid_request, "/save",
                         tenon::printable(file.string()) + " exists; name a new file");
    save_transcript(file, session_, model_);
    saved_.push_back(file);
    print("Saved in " + file.string() + ".", Ink::faint);
  }

  void load(const std::string& rest) {
    load_transcript(file_of(rest, "/load"), session_);
    print("The conversation has " + std::to_string(session_.sides().front().messages.size()) + " messages.",
          Ink::faint);
  }

  static std::filesystem::path file_of(const std::string& rest, const char* command) {
    const auto words = words_of(rest);
    if (words.size() != 1)
      throw tenon::Error(tenon::Error::Kind::invalid_request, command, "takes a file; quote a name with spaces");
    return words[0];
  }

  void set(const std::string& rest) {
    const auto words = words_of(rest);
    tenon::Options changed = session_.options;
    bool known = words.empty();
    const auto each_parameter = [&](const auto& parameters, auto read) {
      for (const auto& each : parameters) {
        auto& value = changed.*each.member;
        if (words.empty()) print(std::string(each.name) + " = " + formatted("%g", static_cast<double>(value)));
        if (words.size() == 2 && words[0] == each.name) known = true, value = read(words[1]);
      }
    };
    const auto number = [&](const std::string& text) {
      std::size_t used = 0;
      double value = 0;
      try {
        value = std::stod(text, &used);
      } catch (const std::exception&) {
        used = 0;
      }
      if (used == 0 || used != text.size())
        throw tenon::Error(tenon::Error::Kind::invalid_request, "/set", tenon::printable(text, 40) + " is no number");
      return value;
    };
    each_parameter(kIntParameters, [&](const std::string& text) {
      const double value = number(text);
      if (value != static_cast<double>(static_cast<int>(std::clamp(value, -2e9, 2e9))))
        throw tenon::Error(tenon::Error::Kind::invalid_request, "/set", tenon::printable(text, 40) + " is no integer");
      return static_cast<int>(value);
    });
    each_parameter(kFloatParameters, [&](const std::string& text) { return static_cast<float>(number(text)); });
    if (!known)
      throw tenon::Error(tenon::Error::Kind::invalid_request, "/set", "takes a name and a value; /set lists the names");
    tenon::validate(changed);
    session_.options = std::move(changed);
  }

  void toggle_timing(const std::string&) {
    timing_ = !timing_;
    print(timing_ ? "Timings are shown." : "Timings are hidden.", Ink::faint);
  }

  void quit(const std::string&) { ended_ = true; }

  // Names that /adapter takes: the plain model, those below --adapter-root, and those in memory.
  std::vector<std::string> known_adapters() {
    std::vector<std::string> names;
    std::error_code ignored;
    if (const std::filesystem::path root = command_.model.adapter_root; !root.empty())
      for (std::filesystem::directory_iterator each(root, ignored), end; each != end; each.increment(ignored))
        if (std::filesystem::exists(each->path() / "adapter_config.json", ignored))
          names.push_back(each->path().filename().string());
    for (const tenon::AdapterInfo& info : engine_.adapters()) names.push_back(info.name);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    names.insert(names.begin(), std::string(kBaseName));
    return names;
  }

  static constexpr std::size_t kMostSides = kChatBatch;

  const ChatCommand& command_;
  tenon::AnyEngine& engine_;
  ChatSession& session_;
  const std::string model_;
  const Terminal terminal_;
  const bool asks_;  // a person types
  bool timing_;
  Output output_;
  std::vector<std::filesystem::path> saved_;
  bool literal_ = false;  // the message was enclosed, so that it is no command
  bool failed_ = false, ended_ = false;
};

const std::vector<Chat::Command>& Chat::commands() {
  static const std::vector<Command> list = {
      {"help", "", "lists the commands", &Chat::help},
      {"adapter", "[NAME]", "answers by this adapter (none: by none), or lists them", &Chat::adapter},
      {"compare", "[A B ...]", "answers side by side; without names, by the first", &Chat::compare},
      {"system", "[TEXT]", "sets the system prompt, or shows it; none: removes it", &Chat::system},
      {"retry", "", "answers the last message anew", &Chat::retry},
      {"undo", "", "drops the last message and its answer", &Chat::undo},
      {"reset", "", "begins a new conversation", &Chat::reset},
      {"save", "FILE", "writes the conversation; JSON if FILE ends in .json", &Chat::save},
      {"load", "FILE.json", "goes on with a saved conversation", &Chat::load},
      {"set", "[NAME VALUE]", "sets a parameter of sampling, or lists them", &Chat::set},
      {"timing", "", "shows or hides timings", &Chat::toggle_timing},
      {"quit", "", "ends, as Ctrl-D does", &Chat::quit}};
  return list;
}

// The command line's options, then those of generation_config.json if the model draws by it.
tenon::Options sampling_of(const ChatCommand& command, const tenon::ModelFiles& files) {
  const auto config = files.config->generation();
  try {
    if (config && config->boolean("do_sample", false))
      return with_generation_config(files, command.options, command.given);
  } catch (const tenon::Error& error) {
    say(std::string(error.what()) + "; its defaults of sampling are not taken");
  }
  return command.options;
}

}  // namespace

int chat(const ChatCommand& command) {
  const auto files = open_model(command.model);
  need_tokenizer(files, "chat");
  // Before the weights are read, because it may refuse the model.
  const auto chat_template =
      find_chat_template(model_folder(command.model), command.chat_template, files.tokenizer.get());
  const auto engine = make_engine(with_stored_weights(command.model, files), files);
  Conversations conversations([&] { return chat_template; }, engine->tokenizer(), engine->config());
  ChatSession session(*engine, conversations, sampling_of(command, files), command.kwargs);
  session.system = command.system;
  if (command.adapter) session.use(*command.adapter);
  return Chat(command, *engine, session, model_name(command.model)).run();
}

}  // namespace program
