// Flags whose values are checked in full: CLI11 alone reads 010 as 8, lets NaN pass a range, and wraps numbers around.
#pragma once
#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "serve/text.h"

namespace serve {

// Adds flags of one group to an App; a value is shown as its default.
class Flags {
 public:
  Flags(CLI::App& app, std::string group) : app_(app), group_(std::move(group)) {}

  CLI::Option* text(const std::string& name, std::string& value, const std::string& shown, const std::string& help) {
    return app_.add_option(name, value, help)->option_text(shown)->group(group_);
  }

  // A comma separates, and the flag may be repeated.
  CLI::Option* list(const std::string& name, std::vector<std::string>& value, const std::string& shown,
                    const std::string& help) {
    return app_.add_option(name, value, help)
        ->delimiter(',')
        ->allow_extra_args(false)
        ->option_text(shown)
        ->group(group_);
  }

  template <class Integer>
  CLI::Option* integer(const std::string& name, Integer& value, std::int64_t low, std::int64_t high,
                       const std::string& help, const std::string& shown = {}) {
    const auto check = [low, high](const std::string& text) -> std::string {
      std::int64_t number = 0;
      const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
      const bool decimal = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() &&
                           (number == 0 ? text == "0" : text.front() != '0' && !text.starts_with("-0"));
      if (decimal && number >= low && number <= high) return {};
      return "must be an integer from " + std::to_string(low) + " to " + std::to_string(high) + ", is " + text;
    };
    return app_.add_option(name, value, help)
        ->check(CLI::Validator(check, ""))
        ->option_text("N (" + (shown.empty() ? std::to_string(value) : shown) + ")")
        ->group(group_);
  }

  // As seconds, with a fraction to the millisecond.
  CLI::Option* seconds(const std::string& name, std::chrono::milliseconds& value, double low, double high,
                       const std::string& help) {
    const auto read = [&value, name, low, high](const std::string& text) {
      double number = NAN;
      const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
      if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !(number >= low && number <= high))
        throw CLI::ValidationError(name, "must be seconds from " + plain(low) + " to " + plain(high) + ", is " + text);
      value = std::chrono::milliseconds(std::llround(number * 1000));
    };
    return app_.add_option_function<std::string>(name, read, help)
        ->option_text("SECONDS (" + plain(static_cast<double>(value.count()) / 1000) + ")")
        ->group(group_);
  }

  template <std::size_t N>
  CLI::Option* choice(const std::string& name, std::string& value, const char* const (&words)[N],
                      const std::string& help) {
    return choice(name, value, std::vector<std::string>(std::begin(words), std::end(words)), help);
  }
  CLI::Option* choice(const std::string& name, std::string& value, const std::vector<std::string>& words,
                      const std::string& help) {
    const std::string list = joined(words, ", ");
    const auto check = [words, list](const std::string& text) -> std::string {
      for (const std::string& each : words)
        if (each == text) return {};
      return "must be one of " + list + ", is " + text;
    };
    return app_.add_option(name, value, help + ": " + list)
        ->check(CLI::Validator(check, ""))
        ->option_text("WORD (" + value + ")")
        ->group(group_);
  }

  CLI::Option* flag(const std::string& name, bool& value, const std::string& help) {
    return app_.add_flag(name, value, help)->option_text(" ")->group(group_);  // else the variable stands there
  }

 private:
  static std::string plain(double number) {
    char text[32];
    return std::string(text, std::to_chars(text, text + sizeof(text), number).ptr);
  }

  CLI::App& app_;
  std::string group_;
};

}  // namespace serve
