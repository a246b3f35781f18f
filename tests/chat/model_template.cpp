// Chat templates of model folders and GGUF files: which one is found, its special tokens, and what ends a turn.
#include "tenon/chat/model_template.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "../io/scratch.h"
#include "../tokenizer/fixtures.h"
#include "rendering.h"
#include "tenon/checkpoint/gguf_writer.h"
#include "tenon/tokenizer/bpe.h"

BOOST_AUTO_TEST_SUITE(chat_model_template)

using namespace tenon;
using chat::Conversation;
using chat::ModelTemplate;
using test::mentions;
using test::refusal;

namespace {

using Specials = std::vector<std::string>;

// A folder with a tokenizer of single bytes and these special tokens, the ids of which begin at 256.
class ModelFolder {
 public:
  explicit ModelFolder(const Specials& specials) {
    Json added = Json::array();
    for (std::size_t i = 0; i < specials.size(); ++i)
      added.push_back({{"id", 256 + i},
                       {"content", specials[i]},
                       {"special", true},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false}});
    const Json byte_level = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
    files_.write(
        "tokenizer.json",
        Json{{"version", "1.0"},
             {"added_tokens", added},
             {"pre_tokenizer", byte_level},
             {"decoder", byte_level},
             {"model", {{"type", "BPE"}, {"vocab", fixtures::vocabulary(specials)}, {"merges", Json::array()}}}}
            .dump());
    config({});
  }

  ModelFolder& config(Json fields) {
    fields["tokenizer_class"] = "PreTrainedTokenizerFast";
    return write("tokenizer_config.json", fields.dump());
  }
  ModelFolder& write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((files_ / name).parent_path());
    files_.write(name, text);
    return *this;
  }

  Tokenizer tokenizer() const { return Tokenizer::load(files_.folder()); }
  const std::filesystem::path& path() const { return files_.folder(); }
  ModelTemplate find() const { return ModelTemplate::find(path(), tokenizer()).value(); }

 private:
  test::Scratch files_;
};

const OrderedJson kTools = OrderedJson::array({{{"type", "function"}}});

std::string text_of(const ModelTemplate& model, OrderedJson tools = nullptr) {
  return model.render({.tools = std::move(tools)}).text;
}

// The spelling of the special token that ends a turn, besides end of text; or the text that does, in quotes.
std::string end_of_turn(const std::string& name, const Specials& specials, const Json& config) {
  ModelFolder model(specials);
  model.config(config).write("chat_template.jinja", test::read_chat_file("templates/" + name + ".jinja"));
  const Tokenizer tokenizer = model.tokenizer();
  const chat::TurnEnd end = model.find().turn_end();
  std::string out;
  for (const TokenId id : end.ids)
    if (id != tokenizer.end_of_text()) out += specials.at(static_cast<std::size_t>(id - 256));
  for (const std::string& text : end.texts) out += "\"" + text + "\"";
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_templates_of_a_folder) {
  ModelFolder model({"<s>"});
  const Tokenizer tokenizer = model.tokenizer();
  BOOST_TEST(!ModelTemplate::find(model.path(), tokenizer).has_value());
  model.config(Json::object()).write("chat_template.json", R"({"chat_template": "of the processor"})");
  BOOST_TEST(model.find().source() == "chat_template.json: chat_template");
  model.config({{"chat_template", "text"}});
  BOOST_TEST(text_of(model.find()) == "text");
  BOOST_TEST(model.find().source() == "tokenizer_config.json: chat_template");
  model.config({{"chat_template",
                 {{{"name", "rag"}, {"template", "{% include 'not supported' %}"}},
                  {{"name", "tool_use"}, {"template", "tools"}},
                  {{"name", "default"}, {"template", "list"}}}}});
  BOOST_TEST(text_of(model.find()) == "list");
  BOOST_TEST(text_of(model.find(), kTools) == "tools");
  BOOST_TEST(model.find().source() == "tokenizer_config.json: chat_template[2]");
  model.write("chat_template.jinja", "file");
  BOOST_TEST(text_of(model.find()) == "file");
  BOOST_TEST(text_of(model.find(), kTools) == "file");  // files replace the config's
  model.write("additional_chat_templates/tool_use.jinja", "other");
  BOOST_TEST(text_of(model.find(), kTools) == "other");
  BOOST_TEST(model.find().source() == "chat_template.jinja");
  BOOST_TEST(text_of(ModelTemplate::of_text("own", "my.jinja", model.path(), tokenizer)) == "own");
}

BOOST_AUTO_TEST_CASE(refusals_name_the_source) {
  ModelFolder model({"<s>"});
  model.config({{"chat_template", {{{"name", "rag"}, {"template", "a"}}, {{"name", "x"}, {"template", "b"}}}}});
  BOOST_TEST(mentions(refusal([&] { text_of(model.find()); }), {"chat_template[0]", "default", "rag, x"}));
  model.config({{"chat_template", "a\n{% if %}"}});
  BOOST_TEST(mentions(refusal([&] { model.find(); }), {"tokenizer_config.json: chat_template, line 2, column"}));
  BOOST_TEST(mentions(refusal([&] { ModelTemplate::of_text("{{", "my.jinja", model.path(), model.tokenizer()); }),
                      {"my.jinja, line 1, column"}));
}

BOOST_AUTO_TEST_CASE(special_tokens_are_variables) {
  ModelFolder model({"<s>", "</s>", "<pad>", "<img>", "<x>"});
  const auto tokens = [&] { return model.find().special_tokens(); };
  const Json jinja = "{{ bos_token }}|{{ eos_token }}|{{ unk_token is defined }}";
  model.config({{"chat_template", jinja},
                {"bos_token", "<s>"},
                {"eos_token", {{"content", "</s>"}, {"lstrip", false}}},
                {"unk_token", nullptr},
                {"extra_special_tokens", {{"image_token", "<img>"}}},
                {"additional_special_tokens", {"<x>", {{"content", "<pad>"}}}}});
  BOOST_TEST(tokens() == (OrderedJson{{"bos_token", "<s>"},
                                      {"eos_token", "</s>"},
                                      {"additional_special_tokens", {"<x>", "<pad>"}},
                                      {"image_token", "<img>"}}));
  BOOST_TEST(text_of(model.find()) == "<s>|</s>|False");
  // The template wrote them, so they are tokens.
  const auto rendered = model.find().render({});
  BOOST_TEST(model.tokenizer().encode_rendered(rendered.text, rendered.template_spans).front() == 256);
  // A request's own win.
  BOOST_TEST(model.find().render({.special_tokens = {{"bos_token", "!"}}}).text == "!|</s>|False");

  model.write("special_tokens_map.json", R"({"pad_token": "<pad>", "eos_token": "<x>"})");
  BOOST_TEST(text_of(model.find()) == "<s>|<x>|False");
  BOOST_TEST(tokens()["pad_token"] == "<pad>");
  model.config({{"chat_template", jinja}, {"eos_token", "</s>"}, {"added_tokens_decoder", Json::object()}});
  BOOST_TEST(tokens() == (OrderedJson{{"eos_token", "</s>"}}));
}

BOOST_AUTO_TEST_CASE(the_templates_of_a_gguf_file) {
  const test::Scratch files;
  ModelFolder folder({"<s>", "</s>"});
  const Tokenizer tokenizer = folder.tokenizer();
  GgufMetadata metadata;
  metadata.add("general.architecture", "llama");
  metadata.add("tokenizer.ggml.tokens", {"a", "<s>", "</s>"});
  metadata.add("tokenizer.ggml.bos_token_id", 1u);
  metadata.add("tokenizer.ggml.eos_token_id", 2u);
  metadata.add("tokenizer.ggml.unknown_token_id", 7u);  // outside the list
  GgufWriter(files / "none.gguf", {}, metadata).finish();
  BOOST_TEST(!ModelTemplate::find(files / "none.gguf", tokenizer).has_value());
  metadata.add("tokenizer.chat_template", "{{ bos_token }}default{{ eos_token }}{{ unk_token is defined }}");
  metadata.add("tokenizer.chat_template.tool_use", "{{ bos_token }}tools");
  GgufWriter(files / "model.gguf", {}, metadata).finish();
  const ModelTemplate model = ModelTemplate::find(files / "model.gguf", tokenizer).value();
  BOOST_TEST(text_of(model) == "<s>default</s>False");
  BOOST_TEST(text_of(model, kTools) == "<s>tools");
  BOOST_TEST(model.source() == "model.gguf: tokenizer.chat_template");
}

// Expected: the end tokens that the models of these templates are trained to write.
BOOST_AUTO_TEST_CASE(a_turn_ends_as_the_template_ends_it) {
  const Specials specials = {"<s>",
                             "</s>",
                             "<|im_start|>",
                             "<|im_end|>",
                             "<|eot_id|>",
                             "<end_of_turn>",
                             "<|end|>",
                             "<|return|>",
                             "<|endoftext|>",
                             "<|end_of_text|>",
                             "<|END_OF_TURN_TOKEN|>",
                             "<｜end▁of▁sentence｜>",
                             "<|start|>",
                             "<|user|>"};
  const Json base = {{"bos_token", "<s>"}, {"eos_token", "<|endoftext|>"}},
             llama = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  for (const char* name : {"chatml", "chatml_generation", "qwen25", "qwen3", "smollm2", "smollm3", "phi4"})
    BOOST_TEST(end_of_turn(name, specials, base) == "<|im_end|>", name);
  for (const char* name : {"llama3", "llama31_tools"})
    BOOST_TEST(end_of_turn(name, specials, base) == "<|eot_id|>", name);
  for (const char* name : {"gemma", "gemma3"}) BOOST_TEST(end_of_turn(name, specials, base) == "<end_of_turn>", name);
  for (const char* name : {"phi3", "phi4_mini"}) BOOST_TEST(end_of_turn(name, specials, base) == "<|end|>", name);
  for (const char* name : {"command_r", "command_r_tools"})
    BOOST_TEST(end_of_turn(name, specials, base) == "<|END_OF_TURN_TOKEN|>", name);
  BOOST_TEST(end_of_turn("granite", specials, base) == "<|end_of_text|>");
  BOOST_TEST(end_of_turn("harmony", specials, base) == "<|return|>");
  BOOST_TEST(end_of_turn("deepseek", specials, base) == "<｜end▁of▁sentence｜>");
  // These close a turn by end of text.
  for (const char* name : {"llama2", "mistral_v1", "mistral_v3", "mistral_tekken", "vicuna", "zephyr"})
    BOOST_TEST(end_of_turn(name, specials, llama) == "", name);
}

BOOST_AUTO_TEST_CASE(turns_without_a_closing_token_end_at_the_next_one) {
  const auto ends = [](const std::string& jinja) {
    ModelFolder model({"</s>", "<|user|>"});
    model.config({{"eos_token", "</s>"}, {"chat_template", jinja}});
    return model.find().turn_end();
  };
  const std::string loop = "{% for m in messages %}", done = "{% endfor %}";
  const chat::TurnEnd plain = ends(loop + "{{ m.role|title }}: {{ m.content }}\n" + done);
  BOOST_TEST(plain.ids == (std::vector<TokenId>{256}));
  BOOST_TEST(plain.texts == (std::vector<std::string>{"\nUser:"}));
  BOOST_TEST(ends(loop + "### {{ m.role }}\n{{ m.content }}\n\n" + done).texts ==
             (std::vector<std::string>{"\n### user"}));
  const chat::TurnEnd next = ends(loop + "<|{{ m.role }}|>{{ m.content }}" + done);
  BOOST_TEST(next.ids == (std::vector<TokenId>{256, 257}));
  BOOST_TEST(next.texts.empty());
  for (const std::string jinja : {"{{ raise_exception('never') }}", "nothing", "{{ messages[0].content }}"})
    BOOST_TEST(ends(jinja).texts.empty());
}

BOOST_AUTO_TEST_SUITE_END()
