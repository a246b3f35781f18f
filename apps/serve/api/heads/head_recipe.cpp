#include "serve/api/heads/head_recipe.h"

#include <algorithm>
#include <cctype>
#include <system_error>
#include <utility>

#include "tenon/checkpoint/embedding_recipe.h"
#include "tenon/io/fields.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/bpe.h"
#include "tenon/tokenizer/chat_template_file.h"

namespace serve {
namespace {

namespace fs = std::filesystem;
using tenon::Error;
using tenon::Fields;
using tenon::Json;

constexpr std::uint64_t kModuleBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kTokenizerBytes = std::uint64_t{256} << 20;

// The prompt of Qwen3-Reranker asks for "yes" or "no". A model that writes other words has another prompt.
void check_word(const Fields& fields, const char* field, std::string word, const char* wanted) {
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word == wanted) return;
  throw Error(Error::Kind::unsupported, fields.where(field),
              "names the token \"" + tenon::printable(word, 40) + "\", not \"" + wanted +
                  "\": pairs are asked in the words of Qwen3-Reranker alone");
}

// LogitScore of sentence-transformers. Its texts stand in the chat template of the folder, which must be that of
// Qwen3-Reranker.
std::optional<TokenReranker> by_module(const fs::path& folder, const tenon::Tokenizer& tokenizer, int vocab) {
  const auto path = tenon::module_folder(folder, "LogitScore");
  if (!path) return std::nullopt;
  const Json json = tenon::read_json_file(folder / *path / "config.json", kModuleBytes, {});
  const Fields fields(json, *path + "/config.json");
  const TokenReranker found{.yes = fields.integer("true_token_id", 0, vocab - 1),
                            .no = fields.integer("false_token_id", 0, vocab - 1, -1)};
  if (found.no < 0)
    throw Error(Error::Kind::unsupported, fields.where("false_token_id"),
                "must name a token: scores of one logit are not supported");
  check_word(fields, "true_token_id", tokenizer.decode({&found.yes, 1}), "yes");
  check_word(fields, "false_token_id", tokenizer.decode({&found.no, 1}), "no");
  const std::string chat = tenon::read_chat_template(folder);
  if (!chat.empty() && chat.find("Judge whether the Document meets the requirements") == chat.npos)
    throw Error(Error::Kind::unsupported, "chat_template",
                "is not that of Qwen3-Reranker: pairs are asked in the words of that model alone");
  return found;
}

// classifier_from_token of config.json, which is vLLM's word for it: ["no", "yes"].
std::optional<TokenReranker> by_tokens(const Fields& fields, const tenon::Tokenizer& tokenizer) {
  const std::vector<std::string> words = fields.strings("classifier_from_token");
  if (words.size() != 2) fields.refuse("classifier_from_token", "must name two tokens: of no, and of yes");
  std::vector<tenon::TokenId> ids;
  for (const std::string& word : words) {
    const std::vector<tenon::TokenId> tokens = tokenizer.encode(word);
    if (tokens.size() != 1) fields.refuse("classifier_from_token", "must hold words of one token each");
    check_word(fields, "classifier_from_token", word, ids.empty() ? "no" : "yes");
    ids.push_back(tokens.front());
  }
  return TokenReranker{.yes = ids[1], .no = ids[0]};
}

std::vector<std::string> label_names(const Fields& fields) {
  std::vector<std::string> names;
  if (!fields.has("id2label")) return names;
  const Fields labels = fields.object("id2label");
  for (std::size_t i = 0; i < labels.json().size(); ++i) names.push_back(labels.string(std::to_string(i)));
  return names;
}

// The activation after a head with one label, where a cross-encoder of sentence-transformers names it.
std::optional<HeadActivation> named_activation(const Fields& fields, const char* field) {
  const std::string name = fields.string(field, "");
  if (name.empty()) return std::nullopt;
  if (name.ends_with(".Sigmoid")) return HeadActivation::sigmoid;
  if (name.ends_with(".Identity")) return HeadActivation::none;
  throw Error(Error::Kind::unsupported, fields.where(field),
              "must be Sigmoid or Identity, is \"" + tenon::printable(name, 80) + "\"");
}

// The newest place first: config_sentence_transformers.json of version 5.4, then two fields of config.json.
std::optional<HeadActivation> activation_of_one(const fs::path& folder, const Fields& fields) {
  constexpr const char* kSettings = "config_sentence_transformers.json";
  std::error_code ignored;
  if (!tenon::is_model_file(folder) && fs::exists(folder / kSettings, ignored)) {
    const Json json = tenon::read_json_file(folder / kSettings, kModuleBytes, {});
    if (const auto found = named_activation(Fields(json, kSettings), "activation_fn")) return found;
  }
  if (fields.has("sentence_transformers"))
    return named_activation(fields.object("sentence_transformers"), "activation_fn");
  return named_activation(fields, "sbert_ce_default_activation_function");
}

void read_activations(const fs::path& folder, const Fields& fields, HeadRecipe& out) {
  const std::string problem = fields.string("problem_type", "");
  if (problem == "regression") out.one = out.several = HeadActivation::none;
  if (problem == "multi_label_classification") out.several = HeadActivation::sigmoid;
  out.one = activation_of_one(folder, fields).value_or(out.one);
}

void read_dimensions(const Fields& fields, int width, HeadRecipe& out) {
  out.has_short_embeddings = fields.boolean("is_matryoshka", false);
  if (!fields.has("matryoshka_dimensions")) return;
  out.has_short_embeddings = true;
  out.dimensions = fields.integers("matryoshka_dimensions", 1, width);
}

// The ids of a special token in a template.
void append_ids(const Fields& table, const std::string& name, int vocab, std::vector<tenon::TokenId>& out) {
  const std::vector<int> ids = table.object(name).integers("ids", 0, vocab - 1);
  out.insert(out.end(), ids.begin(), ids.end());
}

// One template of TemplateProcessing, `single` or `pair`: the tokens before, between and after its texts A and B.
std::optional<PairTemplate> read_pieces(const Fields& step, const char* key, int vocab) {
  const Json& pieces = step.value(key);
  PairTemplate out;
  std::string texts;
  if (!pieces.is_array() || pieces.empty()) return std::nullopt;
  for (const Json& each : pieces) {
    const Fields piece(each, step.file(), key);
    if (piece.has("Sequence")) {
      texts += piece.object("Sequence").string("id");
      continue;
    }
    const std::string name = piece.object("SpecialToken").string("id");
    append_ids(step.object("special_tokens"), name, vocab,
               texts.empty()       ? out.before
               : texts.size() == 1 ? out.between
                                   : out.after);
  }
  if (texts == "AB") return out;
  if (texts != "A") step.refuse(key, "must hold the text A, or A before B");
  std::swap(out.between, out.after);  // of one text
  return out;
}

}  // namespace

std::string HeadRecipe::label(std::size_t index, std::size_t labels_of_head) const {
  return labels.size() == labels_of_head ? labels[index] : "LABEL_" + std::to_string(index);
}

HeadRecipe read_head_recipe(const fs::path& folder, const tenon::ModelFiles& files, const tenon::ModelConfig& config) {
  HeadRecipe out;
  const bool is_folder = !tenon::is_model_file(folder);
  const Fields fields = files.config->fields();
  const auto note = [](std::optional<Error>& failure, auto&& read) {
    try {
      read();
    } catch (const Error& error) {
      failure = error;
    }
  };
  bool ranks = false;
  note(out.error, [&] {
    ranks = is_folder && tenon::module_folder(folder, "LogitScore").has_value();
    out.labels = config.labels.empty() ? label_names(fields) : config.labels;
    read_activations(folder, fields, out);
    read_dimensions(fields, config.head_width(), out);
  });
  note(out.reranker_error, [&] {
    if (is_folder) out.reranker = by_module(folder, *files.tokenizer, config.vocab);
    if (!out.reranker && fields.has("classifier_from_token")) out.reranker = by_tokens(fields, *files.tokenizer);
  });
  note(out.pooling_error, [&] {
    if (!is_folder || ranks) return;
    const auto recipe = tenon::read_embedding_recipe(folder);
    if (!recipe) return;
    out.pooling = recipe->pooling;
    out.prompt = recipe->prompt;
    out.max_tokens = recipe->max_tokens;
  });
  return out;
}

PairTemplate read_pair_template(const fs::path& folder, const tenon::Tokenizer& tokenizer) {
  const auto list = [](auto ids) { return std::vector<tenon::TokenId>(ids.begin(), ids.end()); };
  const std::vector<tenon::TokenId> before = list(tokenizer.before_prompt()), after = list(tokenizer.after_prompt());
  PairTemplate each{.before = before, .between = after, .after = after};
  each.between.insert(each.between.end(), before.begin(), before.end());
  std::error_code ignored;
  const fs::path file = folder / "tokenizer.json";
  if (tenon::is_model_file(folder) || !fs::exists(file, ignored)) return each;
  const Json json = tenon::read_json_file(file, kTokenizerBytes);
  const Fields top(json, "tokenizer.json");
  if (!top.has("post_processor")) return each;
  const Fields processor = top.object("post_processor");
  const Json one = Json::array({processor.json()});
  const Json& steps = processor.string("type") == "Sequence" ? processor.value("processors") : one;
  for (const Json& step : steps) {
    const Fields fields(step, "tokenizer.json", "post_processor");
    if (fields.string("type") != "TemplateProcessing") continue;
    // tokenizer_config.json may change what stands around one text; then it does so for each of two.
    const auto single = read_pieces(fields, "single", tokenizer.vocab_size());
    if (!single || single->before != before || single->after != after) return each;
    if (auto pair = read_pieces(fields, "pair", tokenizer.vocab_size())) return std::move(*pair);
  }
  return each;
}

}  // namespace serve
