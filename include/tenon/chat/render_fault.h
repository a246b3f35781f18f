// Errors of templates before their place is known, and the meter of a rendering.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "tenon/chat/limits.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

// An error without a place. The interpreter turns it into an Error with line and column.
struct RenderFault {
  Error::Kind kind;
  std::string what;
};

// An error that jinja2 would raise, too, for this template and conversation.
[[noreturn]] inline void fail(std::string what) { throw RenderFault{Error::Kind::invalid_request, std::move(what)}; }
// Jinja that this interpreter does not have.
[[noreturn]] inline void refuse(std::string what) {
  throw RenderFault{Error::Kind::unsupported, std::move(what) + " is not supported"};
}
[[noreturn]] inline void exceed(std::string what) { throw RenderFault{Error::Kind::capacity, std::move(what)}; }

// Counts the steps and levels of one rendering.
class Meter {
 public:
  explicit Meter(const Limits& limits) : limits_(limits), left_(limits.steps) {}

  void charge(std::uint64_t steps = 1) {
    if (steps > left_) exceed("the template takes more than " + std::to_string(limits_.steps) + " steps");
    left_ -= steps;
  }
  void charge_text(std::size_t bytes) { charge(1 + bytes / 8); }
  void charge_items(std::size_t count) { charge(1 + 4 * static_cast<std::uint64_t>(count)); }

  const Limits& limits() const { return limits_; }

  // One level of nesting, while it lives.
  class Level {
   public:
    explicit Level(Meter& meter) : meter_(meter) {
      if (meter_.depth_ >= meter_.limits_.depth)
        exceed("the template nests more than " + std::to_string(meter_.limits_.depth) + " levels");
      ++meter_.depth_;
    }
    ~Level() { --meter_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Meter& meter_;
  };

 private:
  Limits limits_;
  std::uint64_t left_;
  int depth_ = 0;
};

}  // namespace tenon::chat::detail
