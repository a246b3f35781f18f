#include "chat/session.h"

#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <span>
#include <utility>

#include "chat/interrupts.h"
#include "options.h"
#include "tenon/core/error.h"

namespace program {
namespace {

using tenon::OrderedJson;

double seconds_since(tenon::TimePoint begin) {
  return std::chrono::duration<double>(tenon::Clock::now() - begin).count();
}

// Keys typed ahead, and ^C, are not printed into an answer.
class EchoOff {
 public:
  EchoOff() : is_terminal_(::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!is_terminal_) return;
    termios quiet = before_;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
  }
  ~EchoOff() {
    if (is_terminal_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  EchoOff(const EchoOff&) = delete;
  EchoOff& operator=(const EchoOff&) = delete;

 private:
  termios before_ = {};
  const bool is_terminal_;
};

bool is_user(const OrderedJson& message) { return message.value("role", "") == "user"; }

// Drops the last message of the user, and what follows it. False: there is none.
bool drop_last_turn(OrderedJson& messages) {
  while (!messages.empty()) {
    const bool user = is_user(messages.back());
    messages.erase(messages.size() - 1);
    if (user) return true;
  }
  return false;
}

// The next message of the user after this one; 0: there is none.
std::size_t next_turn(const OrderedJson& messages, std::size_t from) {
  for (std::size_t i = from + 1; i < messages.size(); ++i)
    if (is_user(messages[i])) return i;
  return 0;
}

}  // namespace

ChatSession::ChatSession(tenon::AnyEngine& engine, Conversations& conversations, tenon::Options chosen,
                         OrderedJson variables)
    : options(std::move(chosen)), kwargs(std::move(variables)), engine_(engine), conversations_(conversations) {}

Round ChatSession::ask(const std::string& message, const RoundListener& listener) {
  for (Side& side : sides_) side.messages.push_back({{"role", "user"}, {"content", message}});
  return run(listener);
}

bool ChatSession::retry(const RoundListener& listener, Round& round) {
  const OrderedJson& messages = sides_.front().messages;
  const auto last = std::find_if(messages.rbegin(), messages.rend(), is_user);
  if (last == messages.rend()) return false;
  const OrderedJson message = *last;
  for (Side& side : sides_) {
    drop_last_turn(side.messages);
    side.messages.push_back(message);
  }
  round = run(listener);
  return true;
}

bool ChatSession::undo() {
  bool any = false;
  for (Side& side : sides_) any |= drop_last_turn(side.messages);
  return any;
}

void ChatSession::reset() {
  for (Side& side : sides_) side.messages = OrderedJson::array(), side.first = 0;
}

void ChatSession::set_messages(OrderedJson messages) {
  sides_.erase(sides_.begin() + 1, sides_.end());
  sides_.front().messages = std::move(messages);
  sides_.front().first = 0;
}

Side ChatSession::make_side(const std::string& name) {
  for (const Side& side : sides_)
    if (side.name == name) return side;
  Side side{.messages = sides_.front().messages, .first = sides_.front().first};
  if (name == kBaseName) return side;
  side.name = name;
  side.adapters = {{name}};
  try {
    side.lease = engine_.lease(side.adapters);
  } catch (...) {
    engine_.unload_adapter(name);  // forgets the failure: the files may be right the next time
    throw;
  }
  return side;
}

void ChatSession::use(const std::string& name) { sides_ = {make_side(name)}; }

void ChatSession::compare(const std::vector<std::string>& names) {
  std::vector<Side> sides;
  for (const std::string& name : names) sides.push_back(make_side(name));
  sides_ = std::move(sides);
}

// The request for the next answer. An answer needs an eighth of the context, or the length that was asked for if that
// is less. Without that room the oldest turns are left out from now on, until half of the context is free. So the next
// prompts begin the same, and are found in the prefix cache.
tenon::Request ChatSession::request(Side& side, SideReply& reply) {
  const int limit = engine_.config().positions;
  const auto positions = static_cast<std::size_t>(limit > 0 ? limit : std::numeric_limits<int>::max() - 1);
  const auto asked = static_cast<std::size_t>(options.max_new_tokens);
  std::size_t needed = std::clamp<std::size_t>(asked, 1, std::max<std::size_t>(1, positions / 8));
  side.first = std::min(side.first, side.messages.size() - 1);
  for (;;) {
    OrderedJson all = OrderedJson::array();
    if (system) all.push_back({{"role", "system"}, {"content", *system}});
    for (std::size_t i = side.first; i < side.messages.size(); ++i) all.push_back(side.messages[i]);
    tenon::Request out{.adapters = side.adapters, .lease = side.lease, .options = options};
    out.options.seed += rounds_;
    out.options.skip_special_tokens = true;
    reply.thinks =
        conversations_.render({.messages = std::move(all), .add_generation_prompt = true, .kwargs = kwargs}, out);
    reply.prompt_tokens = out.input_ids.size();
    // The last new token takes no position.
    const std::size_t room = positions + 1 - std::min(reply.prompt_tokens, positions + 1);
    const std::size_t next = next_turn(side.messages, side.first);
    if (room < needed && next > 0) {
      reply.forgotten += next - side.first;
      side.first = next;
      needed = positions / 2;
      continue;
    }
    if (room == 0)
      throw tenon::Error(tenon::Error::Kind::invalid_request, "messages",
                         "the last one and the system prompt have " + std::to_string(reply.prompt_tokens) +
                             " tokens; the context has " + std::to_string(positions));
    out.options.max_new_tokens = static_cast<int>(std::min(room, asked));
    return out;
  }
}

Round ChatSession::run(const RoundListener& listener) {
  Round round;
  round.replies.resize(sides_.size());
  const std::uint64_t hits = engine_.stats().prefix_hit_tokens;
  Interrupts::take();  // one that came before the question
  const Interrupts guard;
  const EchoOff quiet;
  try {
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      tenon::Request asked = request(sides_[i], round.replies[i]);
      const tenon::TimePoint begin = tenon::Clock::now();
      listener.begin(i, round.replies[i]);
      open_.emplace(engine_.submit(std::move(asked)), Open{i, begin});
    }
    ++rounds_;
    engine_.set_draining(true);
    while (!open_.empty()) {
      if (Interrupts::take())
        for (const auto& [id, open] : open_) engine_.cancel(id);
      for (const tenon::Event& event : step_or_wait(engine_)) take(event, round, listener);
    }
  } catch (const std::exception& error) {
    fail(round, error.what(), listener);
  }
  engine_.set_draining(false);
  round.reused = engine_.stats().prefix_hit_tokens - hits;
  keep(round);
  return round;
}

void ChatSession::take(const tenon::Event& event, Round& round, const RoundListener& listener) {
  const auto found = open_.find(event.request);
  if (found == open_.end()) return;
  const Open open = found->second;
  SideReply& reply = round.replies[open.side];
  reply.seconds = seconds_since(open.begin);
  if (event.kind == tenon::Event::Kind::token) {
    if (reply.tokens++ == 0) reply.first_seconds = reply.seconds;
  } else {
    reply.reason = event.reason;
    if (event.kind == tenon::Event::Kind::error) reply.error = event.error;
  }
  reply.text += event.text;
  if (!event.text.empty()) listener.text(open.side, event.text);
  if (!event.last) return;
  open_.erase(found);
  listener.end(open.side);
}

// Ends all answers of a round that cannot go on.
void ChatSession::fail(Round& round, const std::string& error, const RoundListener& listener) {
  for (const auto& [id, open] : open_) {
    engine_.cancel(id);
    listener.end(open.side);
  }
  open_.clear();
  for (SideReply& reply : round.replies)
    if (reply.reason == tenon::FinishReason::error && reply.error.empty()) reply.error = error;
}

// Adds the answers to the conversations. A message without an answer is dropped.
void ChatSession::keep(Round& round) {
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    const SideReply& reply = round.replies[i];
    if (reply.text.empty() && (!reply.error.empty() || reply.reason == tenon::FinishReason::cancelled))
      drop_last_turn(sides_[i].messages);
    else
      sides_[i].messages.push_back({{"role", "assistant"}, {"content", reply.text}});
  }
}

}  // namespace program
