// A conversation with a model: with one adapter or none, or with several side by side.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "conversations.h"
#include "tenon/core/request.h"
#include "tenon/engine/any_engine.h"
#include "tenon/io/json.h"

namespace program {

// A name that stands for the plain model.
inline constexpr std::string_view kBaseName = "none";

// One conversation and the adapter that answers in it.
struct Side {
  std::string name = std::string(kBaseName);  // of the adapter
  std::vector<tenon::AdapterUse> adapters = {};
  tenon::AdapterLease lease = {};                             // so that it stays in memory
  tenon::OrderedJson messages = tenon::OrderedJson::array();  // without the system prompt
  std::size_t first = 0;  // message that prompts begin with; those before it no longer fit into the context
};

// The answer of one side.
struct SideReply {
  std::string text;
  std::string error;  // empty: it was written
  tenon::FinishReason reason = tenon::FinishReason::error;
  std::size_t prompt_tokens = 0, forgotten = 0;  // forgotten: messages that no longer fit, since now
  int tokens = 0;
  double first_seconds = 0, seconds = 0;  // until the first token, and until the end
  bool thinks = false;                    // the template has opened a <think> block
};

struct Round {
  std::vector<SideReply> replies;  // [sides]
  std::uint64_t reused = 0;        // prompt tokens from the prefix cache, of all sides
};

// Calls while a round runs. text: whole characters.
struct RoundListener {
  std::function<void(std::size_t side, const SideReply& reply)> begin;
  std::function<void(std::size_t side, std::string_view text)> text;
  std::function<void(std::size_t side)> end;
};

class ChatSession {
 public:
  // The engine and the conversations must outlive it.
  ChatSession(tenon::AnyEngine& engine, Conversations& conversations, tenon::Options options,
              tenon::OrderedJson kwargs);

  // All sides answer a message. SIGINT stops the answers; what was written stays. A message that fails is dropped.
  Round ask(const std::string& message, const RoundListener& listener);
  // Answers the last message anew, with another seed. False: there is none.
  bool retry(const RoundListener& listener, Round& round);
  // Drops the last message and its answers. False: there is none.
  bool undo();
  void reset();

  // The adapter of the conversation from now on. A side of that name goes on with its own messages. Errors as
  // AnyEngine::lease.
  void use(const std::string& name);
  // Sides of these names from now on: the present conversation is continued by each.
  void compare(const std::vector<std::string>& names);

  const std::vector<Side>& sides() const { return sides_; }
  // Replaces the messages of the only side.
  void set_messages(tenon::OrderedJson messages);

  std::optional<std::string> system;  // the system prompt
  tenon::Options options;
  tenon::OrderedJson kwargs;  // of the chat template

 private:
  struct Open {
    std::size_t side;
    tenon::TimePoint begin;
  };

  Side make_side(const std::string& name);
  Round run(const RoundListener& listener);
  tenon::Request request(Side& side, SideReply& reply);
  void take(const tenon::Event& event, Round& round, const RoundListener& listener);
  void fail(Round& round, const std::string& error, const RoundListener& listener);
  void keep(Round& round);

  tenon::AnyEngine& engine_;
  Conversations& conversations_;
  std::vector<Side> sides_ = {Side()};
  std::unordered_map<tenon::RequestId, Open> open_;
  std::uint64_t rounds_ = 0;  // each draws with a seed of its own
};

}  // namespace program
