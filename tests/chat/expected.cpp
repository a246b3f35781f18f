// Templates in the forms of popular models, and random programs, against the texts of jinja2 with transformers'
// settings (scripts/check-chat-templates --write).
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "../io/scratch.h"
#include "rendering.h"
#include "tenon/checkpoint/gguf.h"
#include "tenon/io/file.h"

BOOST_AUTO_TEST_SUITE(chat_expected)

using namespace tenon;
using chat::Template;

namespace {

// The prompt, or "refused".
std::string outcome(const std::string& text, const OrderedJson& conversation) {
  try {
    return Template(text).render(test::chat_conversation(conversation)).text;
  } catch (const Error&) {
    return "refused";
  }
}

// SmolLM2's GGUF file, where scripts/get-model put it; empty if it is not there.
std::filesystem::path smollm2() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  for (const std::filesystem::path& folder : {std::filesystem::path(cache ? cache : ".") / "tenon",
                                              std::filesystem::path(TENON_SOURCE_DIR) / "build/models"}) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
      if (entry.path().filename().string().starts_with("SmolLM2") && entry.path().extension() == ".gguf")
        return entry.path();
  }
  return {};
}

}  // namespace

BOOST_AUTO_TEST_CASE(templates_and_conversations) {
  const auto conversations = OrderedJson::parse(test::read_chat_file("conversations.json"));
  std::map<std::string, std::string> templates;
  int rendered = 0;
  for (const OrderedJson& pair : OrderedJson::parse(test::read_chat_file("expected.json"))) {
    const std::string name = pair["template"];
    std::string& text = templates[name];
    if (text.empty()) text = test::read_chat_file("templates/" + name + ".jinja");
    const std::size_t number = pair["conversation"];
    const std::string expected = pair["text"].is_null() ? "refused" : pair["text"].get<std::string>();
    BOOST_TEST(outcome(text, conversations[number]) == expected, name << ", conversation " << number);
    rendered += !pair["text"].is_null();
  }
  BOOST_TEST(rendered >= 300);
  BOOST_TEST(templates.size() >= 25u);
}

// 300 random programs, then snippets written by hand, some of which jinja2 refuses.
BOOST_AUTO_TEST_CASE(programs) {
  const auto variables = OrderedJson::parse(test::read_chat_file("variables.json"));
  std::istringstream lines(test::read_chat_file("programs.jsonl"));
  int count = 0, refused = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto program = OrderedJson::parse(line);
    const std::string expected = program["text"].is_null() ? "refused" : program["text"].get<std::string>();
    BOOST_TEST(outcome(program["template"], {{"kwargs", variables}}) == expected, program["template"]);
    refused += program["text"].is_null();
  }
  BOOST_TEST(count >= 500);
  BOOST_TEST(refused >= 50);
}

BOOST_AUTO_TEST_CASE(template_of_smollm2) {
  const std::filesystem::path path = smollm2();
  if (path.empty()) {
    BOOST_TEST_MESSAGE("skipped: no SmolLM2 (scripts/get-model smollm2)");
    return;
  }
  const std::string own = (*read_gguf_header(File(path)).metadata)["tokenizer.chat_template"];
  const std::string copy = test::read_chat_file("templates/smollm2.jinja");
  for (const OrderedJson& each : OrderedJson::parse(test::read_chat_file("conversations.json")))
    BOOST_TEST(outcome(own, each) == outcome(copy, each));
}

BOOST_AUTO_TEST_SUITE_END()
