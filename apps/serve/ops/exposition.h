// Prometheus text exposition, version 0.0.4: families of samples, each with one HELP and one TYPE.
#pragma once
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "serve/ops/histogram.h"

namespace serve {

class Exposition {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    ((text_ += "# HELP ").append(name) += ' ').append(help) += '\n';
    ((text_ += "# TYPE ").append(name) += ' ').append(type) += '\n';
  }

  // Of the family that was named last.
  template <class Number>
  void sample(Labels labels, Number value) {
    line("", labels, {}, value);
  }
  void samples(const Histogram& histogram, Labels labels = {}) {
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < histogram.counts().size(); ++i) {
      below += histogram.counts()[i];
      line("_bucket", labels, i < histogram.bounds().size() ? bound(histogram.bounds()[i]) : "+Inf", below);
    }
    line("_sum", labels, {}, histogram.sum());
    line("_count", labels, {}, below);
  }

  // A family of one sample, or of one histogram.
  template <class Number>
  void counter(std::string_view name, std::string_view help, Number value, Labels labels = {}) {
    family(name, "counter", help);
    sample(labels, value);
  }
  template <class Number>
  void gauge(std::string_view name, std::string_view help, Number value, Labels labels = {}) {
    family(name, "gauge", help);
    sample(labels, value);
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& value, Labels labels = {}) {
    family(name, "histogram", help);
    samples(value, labels);
  }
  // Of which only count and sum are known.
  void sums(std::string_view name, std::string_view help, std::uint64_t count, double sum, Labels labels = {}) {
    family(name, "histogram", help);
    line("_bucket", labels, "+Inf", count);
    line("_sum", labels, {}, sum);
    line("_count", labels, {}, count);
  }

  std::string take() { return std::move(text_); }

 private:
  static std::string number(std::integral auto value) { return std::to_string(value); }
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Inf" : "+Inf";
    char text[32];
    return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
  }
  // Six digits: 0.00015 x 1.5 has a long tail.
  static std::string bound(double value) {
    char text[32];
    return std::string(text, std::to_chars(text, text + sizeof(text), value, std::chars_format::general, 6).ptr);
  }

  template <class Number>
  void line(std::string_view suffix, Labels labels, std::string_view le, Number value) {
    text_.append(name_).append(suffix);
    bool first = true;
    const auto label = [&](std::string_view name, std::string_view content) {
      text_ += first ? '{' : ',';
      first = false;
      text_.append(name) += "=\"";
      for (const char c : content) {
        if (c == '\\' || c == '"') text_ += '\\';
        c == '\n' ? text_ += "\\n" : text_ += c;
      }
      text_ += '"';
    };
    for (const auto& [name, content] : labels) label(name, content);
    if (!le.empty()) label("le", le);
    if (!first) text_ += '}';
    (text_ += ' ').append(number(value)) += '\n';
  }

  std::string name_, text_;
};

}  // namespace serve
