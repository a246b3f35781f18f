#include "serve/api/heads/head_recipe.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "tenon/checkpoint/embedding_recipe.h"
#include "tenon/io/fields.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/bpe.h"

namespace serve {
namespace {

namespace fs = std::filesystem;
using tenon::Error;
using tenon::Fields;
using tenon::Json;

constexpr std::uint64_t kModuleBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kTokenizerBytes = std::uint64_t{256} << 20;

// The path of the module of this kind in modules.json of sentence-transformers; none: there is no such module.
std::optional<std::string> module_path(const fs::path& folder, std::string_view kind) {
  std::error_code ignored;
  if (!fs::exists(folder / "modules.json", ignored)) return std::nullopt;
  const Json modules = tenon::read_json_file(folder / "modules.json", kModuleBytes, {});
  if (!modules.is_array()) throw Error(Error::Kind::invalid_file, "modules.json", "must be a list of modules");
  for (const Json& each : modules) {
    const Fields module(each, "modules.json");
    const std::string type = module.string("type"), path = module.string("path", "");
    if (std::string_view(type).substr(type.rfind('.') + 1) != kind) continue;
    if (path.find_first_of("/\\") != path.npos || path == "..") module.refuse("path", "must name a folder beside");
    return path;
  }
  return std::nullopt;
}

// LogitScore of sentence-transformers.
std::optional<TokenReranker> by_module(const fs::path& folder, int vocab) {
  const auto path = module_path(folder, "LogitScore");
  if (!path) return std::nullopt;
  const Json json = tenon::read_json_file(folder / *path / "config.json", kModuleBytes, {});
  const Fields fields(json, *path + "/config.json");
  return TokenReranker{fields.integer("true_token_id", 0, vocab - 1), fields.integer("false_token_id", 0, vocab - 1)};
}

// classifier_from_token of config.json, which is vLLM's word for it: ["no", "yes"].
std::optional<TokenReranker> by_tokens(const Fields& fields, const tenon::Tokenizer& tokenizer) {
  const std::vector<std::string> words = fields.strings("classifier_from_token");
  if (words.size() != 2) fields.refuse("classifier_from_token", "must name two tokens: of no, and of yes");
  std::vector<tenon::TokenId> ids;
  for (const std::string& word : words) {
    const std::vector<tenon::TokenId> tokens = tokenizer.encode(word);
    if (tokens.size() != 1) fields.refuse("classifier_from_token", "must hold words of one token each");
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

// The activation after a head with one label: a cross-encoder of sentence-transformers names it.
HeadActivation activation_of_one(const Fields& fields) {
  std::string name;
  if (fields.has("sentence_transformers"))
    name = fields.object("sentence_transformers").string("activation_fn", "");
  else
    name = fields.string("sbert_ce_default_activation_function", "");
  if (name.empty() || name.ends_with(".Sigmoid")) return HeadActivation::sigmoid;
  if (name.ends_with(".Identity")) return HeadActivation::none;
  throw Error(Error::Kind::unsupported, fields.where("sentence_transformers"),
              "activation_fn must be Sigmoid or Identity, is \"" + tenon::printable(name, 80) + "\"");
}

void read_activations(const Fields& fields, HeadRecipe& out) {
  const std::string problem = fields.string("problem_type", "");
  out.one = activation_of_one(fields);
  if (problem == "regression") out.one = out.several = HeadActivation::none;
  if (problem == "multi_label_classification") out.several = HeadActivation::sigmoid;
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
  try {
    if (is_folder) out.reranker = by_module(folder, config.vocab);
    const Fields fields = files.config->fields();
    if (!out.reranker && fields.has("classifier_from_token")) out.reranker = by_tokens(fields, *files.tokenizer);
    out.labels = config.labels.empty() ? label_names(fields) : config.labels;
    read_activations(fields, out);
    read_dimensions(fields, config.head_width(), out);
  } catch (const Error& error) {
    out.error = error;
  }
  try {
    if (!is_folder || out.reranker) return out;
    if (const auto recipe = tenon::read_embedding_recipe(folder)) out.pooling = recipe->pooling;
  } catch (const Error& error) {
    out.pooling_error = error;
  }
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
