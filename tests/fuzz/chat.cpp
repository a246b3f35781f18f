// Chat templates, as many as you like: scripts/fuzz-chat and scripts/check-chat-templates compile this.
//   chat [--count N] [--first S]   N damaged templates and conversations from seed S on. Each must render or be refused
//                                  by tenon::Error with a place, within its limits.
//   chat --lines                   reads one JSON request per line, writes the prompt or the error as one line of JSON
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tenon/chat/template.h"
#include "tenon/io/json.h"

namespace {

using tenon::Error;
using tenon::OrderedJson;
using tenon::chat::Conversation;
using tenon::chat::Limits;
using tenon::chat::Template;

Conversation conversation_of(const OrderedJson& request) {
  Conversation out;
  const auto take = [&](const char* name, OrderedJson& to) {
    if (request.contains(name)) to = request[name];
  };
  take("messages", out.messages);
  take("tools", out.tools);
  take("documents", out.documents);
  take("kwargs", out.kwargs);
  take("special_tokens", out.special_tokens);
  out.add_generation_prompt = request.value("add_generation_prompt", false);
  out.continue_final_message = request.value("continue_final_message", false);
  using namespace std::chrono;
  out.now = local_days(2024y / July / 26) + 9h + 5min + 7s;
  return out;
}

void answer_lines() {
  for (std::string line; std::getline(std::cin, line);) {
    OrderedJson answer;
    try {
      const auto request = OrderedJson::parse(line);
      const auto rendered = Template(request["template"].get<std::string>()).render(conversation_of(request));
      OrderedJson spans = OrderedJson::array();
      for (const auto& span : rendered.template_spans) spans.push_back({span.begin, span.end});
      answer = {{"text", rendered.text}, {"spans", spans}};
    } catch (const Error& error) {
      answer = {{"error", error.what()}, {"kind", static_cast<int>(error.kind())}, {"where", error.where()}};
    }
    std::cout << answer.dump() << std::endl;
  }
}

// ---------------------------------------------------------------- fuzzing
struct Corpus {
  std::vector<std::string> templates;
  std::vector<OrderedJson> conversations;
};

Corpus read_corpus() {
  Corpus corpus;
  const std::filesystem::path folder = std::filesystem::path(TENON_SOURCE_DIR) / "tests/chat";
  for (const auto& entry : std::filesystem::directory_iterator(folder / "templates")) {
    std::ifstream file(entry.path(), std::ios::binary);
    corpus.templates.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  std::ifstream programs(folder / "programs.jsonl");
  for (std::string line; std::getline(programs, line);)
    corpus.templates.push_back(OrderedJson::parse(line)["template"]);
  std::sort(corpus.templates.begin(), corpus.templates.end());
  std::ifstream conversations(folder / "conversations.json");
  std::ifstream variables(folder / "variables.json");
  const auto kwargs = OrderedJson::parse(variables);
  for (OrderedJson each : OrderedJson::parse(conversations)) {
    each["kwargs"].update(kwargs);
    corpus.conversations.push_back(each);
  }
  return corpus;
}

// Texts that an edit inserts.
const std::vector<std::string> kPieces = {"{{",
                                          "}}",
                                          "{%",
                                          "%}",
                                          "{#",
                                          "#}",
                                          "{%-",
                                          "-%}",
                                          "|",
                                          ".",
                                          "[",
                                          "]",
                                          "(",
                                          ")",
                                          "{",
                                          "}",
                                          "'",
                                          "\"",
                                          "\\",
                                          "~",
                                          "+",
                                          "-",
                                          "*",
                                          "**",
                                          "//",
                                          "%",
                                          "<",
                                          "==",
                                          "!=",
                                          ",",
                                          ":",
                                          "=",
                                          " if ",
                                          " else ",
                                          " in ",
                                          " not ",
                                          " is ",
                                          " for ",
                                          " endfor ",
                                          "{% set x = x ~ x %}",
                                          "{% for i in range(99999) %}",
                                          "{% endfor %}",
                                          "{{ messages }}",
                                          "|tojson",
                                          "|list",
                                          "|length",
                                          "[::-1]",
                                          "[1:]",
                                          ".items()",
                                          "9999999999999999999",
                                          "1e308",
                                          "loop.",
                                          "messages",
                                          "message",
                                          "none",
                                          "namespace(",
                                          "{% macro m(a, b=1) %}",
                                          "{% endmacro %}",
                                          "{{ m(1) }}",
                                          "|map('upper')",
                                          "|sort",
                                          "* 1000000",
                                          "caller()",
                                          "\n",
                                          "\xC3\xA9"};

class Mutator {
 public:
  Mutator(const Corpus& corpus, unsigned seed) : corpus_(corpus), random_(seed) {}

  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_); }

  std::string mutated() {
    std::string text = corpus_.templates[below(corpus_.templates.size())];
    if (text.size() > 4000) text = text.substr(below(text.size() - 3000), 3000);
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      if (below(5) > 0)
        replace_word(text);
      else
        edit(text);
    }
    return text;
  }

 private:
  // Puts one word of a template in the place of another: most such templates are still well-formed.
  void replace_word(std::string& text) {
    const auto word = [&](const std::string& from) {
      const auto in_word = [&](std::size_t i) {
        return i < from.size() && (std::isalnum(static_cast<unsigned char>(from[i])) || from[i] == '_');
      };
      std::size_t begin = below(from.size() + 1);
      while (begin < from.size() && !in_word(begin)) ++begin;
      while (begin > 0 && in_word(begin - 1)) --begin;
      std::size_t end = begin;
      while (in_word(end)) ++end;
      return std::pair(begin, end - begin);
    };
    const std::string& other = corpus_.templates[below(corpus_.templates.size())];
    const auto [from, length] = word(other);
    const auto [at, old] = word(text);
    static const std::vector<std::string> values = {"messages", "kwargs", "0",  "-1", "99999999999", "1.5",
                                                    "none",     "loop",   "[]", "''", "{}",          "missing"};
    text.replace(at, old, below(3) == 0 ? values[below(values.size())] : other.substr(from, length));
  }

  void edit(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(5)) {
      case 0:
        text.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 1:
        if (at < text.size()) text.erase(at, 1 + below(8));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 3:
        text.insert(at, text.substr(below(text.size() + 1), below(60)));
        break;
      default: {
        const std::string& other = corpus_.templates[below(corpus_.templates.size())];
        text.insert(at, other.substr(below(other.size() + 1), below(80)));
      }
    }
  }

  const Corpus& corpus_;
  std::mt19937 random_;
};

int fuzz(unsigned first, unsigned count) {
  const Corpus corpus = read_corpus();
  std::map<std::string, unsigned> outcomes;
  const Limits limits{.output_bytes = 1 << 16, .steps = 20'000};
  for (unsigned seed = first; seed < first + count; ++seed) {
    Mutator mutator(corpus, seed);
    const std::string text = mutator.mutated();
    const OrderedJson& request = corpus.conversations[mutator.below(corpus.conversations.size())];
    const auto begin = std::chrono::steady_clock::now();
    try {
      const auto rendered = Template(text, "template", limits).render(conversation_of(request));
      if (rendered.text.size() > limits.output_bytes) throw std::logic_error("the output exceeds its limit");
      ++outcomes["rendered"];
    } catch (const Error& error) {
      static const char* const names[] = {"invalid_file", "invalid_request", "unsupported", "io",
                                          "capacity",     "overloaded",      "internal"};
      ++outcomes[names[static_cast<int>(error.kind())]];
    } catch (const std::exception& error) {
      std::cout << "seed " << seed << ": " << error.what() << "\n" << text << "\n";
      return 1;
    }
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(5)) {
      std::cout << "seed " << seed << " takes more than 5 s\n" << text << "\n";
      return 1;
    }
  }
  for (const auto& [name, number] : outcomes) std::cout << number << " " << name << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  unsigned count = 2000, first = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--lines") return answer_lines(), 0;
    if (i + 1 < argc && option == "--count") count = static_cast<unsigned>(std::atoi(argv[++i]));
    if (i + 1 < argc && option == "--first") first = static_cast<unsigned>(std::atoi(argv[++i]));
  }
  return fuzz(first, count);
}
