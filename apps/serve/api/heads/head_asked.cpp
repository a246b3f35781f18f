#include "serve/api/heads/head_asked.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "serve/api/asked.h"
#include "serve/api/heads/head_request.h"
#include "serve/api/heads/head_writer.h"
#include "serve/api/ollama/ollama_request.h"
#include "serve/api/writer.h"
#include "serve/text.h"
#include "tenon/core/classifier_head.h"
#include "tenon/engine/prepared_request.h"

namespace serve {
namespace {

using Ids = std::vector<tenon::TokenId>;

constexpr const char* kClassifier =
    "this route needs a classification head: a checkpoint for sequence classification (...ForSequenceClassification, "
    "with score.weight), or an adapter of task_type SEQ_CLS; neither the model nor the adapter has one";
constexpr const char* kRanker =
    "this route needs a model that scores pairs: a checkpoint for sequence classification "
    "(...ForSequenceClassification) or an adapter of task_type SEQ_CLS with one label, or a causal model that ranks by "
    "two tokens, such as Qwen3-Reranker, whose config.json has \"classifier_from_token\": [\"no\", \"yes\"]";

[[noreturn]] void refuse_field(const std::string& field, const std::string& what) {
  throw ApiError(ApiError::Kind::invalid, "`" + field + "` " + what, field);
}
[[noreturn]] void refuse_model(const std::string& what) { throw ApiError(ApiError::Kind::no_head, what); }

void check_recipe(const std::optional<tenon::Error>& error) {
  if (error) refuse_model(std::string("the model's files: ") + shown(error->what(), 1000));
}

// The work of each route: adds requests, and makes the answer of their results.
class HeadJob {
 public:
  HeadJob(Model& model, const HeadRequest& request, Dialect dialect, const char* id_prefix)
      : model_(model), request_(request), common_{.adapters = request.adapters, .options = request.options} {
    need_adapters(model, request.adapters, request.adapter_field);
    asked_.ignored = request.ignored;
    asked_.adapter = name_of(request.adapters);
    common_.options.max_new_tokens = 0;
    answer_ = {.id = id_prefix + random_id(),
               .model = request.model.empty() ? model.name() : request.model,
               .created = seconds_now()};
    terms_.dialect = dialect;
  }

  Model& model() { return model_; }
  tenon::Options& options() { return common_.options; }

  // Applies the default prompt and the limit of the model's files, for embeddings.
  void apply(const HeadRecipe& recipe) {
    prefix_ = recipe.prompt;
    if (recipe.max_tokens > 0) most_ = std::min(most_, recipe.max_tokens);
  }

  PromptText prompt_text() const {
    return {.parse_special = request_.parse_special.value_or(model_.context().parse_special),
            .add_special_tokens = request_.add_special_tokens,
            .truncate = cut_to(),
            .keeps_first = request_.cut && request_.cut->keeps_first};
  }

  // One more input. `field` holds it.
  void add(Ids ids, std::size_t characters, const std::string& field) {
    if (ids.empty()) refuse_field(field, "must hold at least one token");
    if (ids.size() > static_cast<std::size_t>(most_))
      refuse_field(field, "has " + std::to_string(ids.size()) + " tokens; at most " + std::to_string(most_) +
                              " are possible, and `truncate_prompt_tokens` or `truncate` cuts what is longer");
    asked_.characters += characters;
    answer_.prompt_tokens += static_cast<int>(ids.size());
    tenon::Request one = common_;
    if (last_logits_) one.options.logits_at = {static_cast<int>(ids.size()) - 1};
    one.input_ids = std::move(ids);
    asked_.requests.push_back(std::move(one));
  }
  void add(const HeadInput& input, const std::string& field) {
    if (const auto* const text = std::get_if<std::string>(&input))
      return add(tokens_of(prefix_ + *text, field), characters(*text), field);
    Ids ids = std::get<Ids>(input);
    need_tokens(model_, ids, field);
    if (request_.cut && ids.size() > static_cast<std::size_t>(cut_to())) {
      if (request_.cut->keeps_first)
        ids.resize(static_cast<std::size_t>(cut_to()));
      else
        keep_last(ids, cut_to());
    }
    add(std::move(ids), 0, field);
  }
  void add(const HeadInputs& inputs) {
    for (std::size_t i = 0; i < inputs.each.size(); ++i)
      add(inputs.each[i], inputs.listed ? inputs.field + "[" + std::to_string(i) + "]" : inputs.field);
  }

  // The tokens of a text alone, which may be none.
  Ids plain_tokens(const std::string& text, bool parse_special, const std::string& field) const {
    if (!request_.cut)
      tenon::check_length_of_text(text, model_.tokenizer(), model_.limits().max_total_tokens, field.c_str());
    return model_.tokenizer().encode(text, parse_special);
  }

  // The logits of the last token are read, in place of a pooled row.
  void read_last_logits() { last_logits_ = true; }

  // `numbers`: of one input's result; `field` holds the inputs. body(answer, results) writes the answer.
  template <class Result, class Body>
  Asked finish(std::size_t numbers, const std::string& field, const char* needed, Result result, Body body) {
    reserve_answer(numbers, field);
    terms_.inputs = asked_.requests.size();
    terms_.prompt_tokens = answer_.prompt_tokens;
    terms_.needed = needed;
    terms_.result = std::move(result);
    terms_.body = [answer = answer_, write = std::move(body)](const HeadAnswerWriter::Results& results) {
      return write(answer, results);
    };
    asked_.writer = std::make_unique<HeadAnswerWriter>(std::move(terms_));
    return std::move(asked_);
  }

 private:
  // The number of tokens that a cut text keeps; 0: texts are not cut.
  int cut_to() const { return request_.cut ? std::min(request_.cut->tokens, most_) : 0; }

  Ids tokens_of(const std::string& text, const std::string& field) const {
    try {
      return model_.tokens(text, prompt_text());
    } catch (const tenon::Error& error) {
      if (error.where() != "prompt") throw;
      throw ApiError(ApiError::Kind::invalid, "`" + field + "`: " + shown(error.what(), 1000), field);
    }
  }

  // Reserves memory for the numbers of the answer. They share the budget of log-probabilities.
  void reserve_answer(std::size_t numbers, const std::string& field) {
    const std::size_t all = numbers * asked_.requests.size(), places = all / kNumbersAPlace;
    if (all > kMostNumbers) refuse_field(field, too_many_numbers(all));
    if (places <= kFewListed) return;
    asked_.listed = model_.listed().enter(static_cast<int>(places));
    if (!asked_.listed)
      throw ApiError(ApiError::Kind::overloaded, "answers under way hold as many numbers as this server has room for",
                     field);
  }

  Model& model_;
  const HeadRequest& request_;
  tenon::Request common_;
  int most_ = model_.limits().max_total_tokens;  // tokens of an input
  std::string prefix_;                           // of each text
  bool last_logits_ = false;
  HeadAnswer answer_;
  HeadAnswerWriter::Terms terms_{};
  Asked asked_;
};

// ---- embeddings

// ApiError where the model has no embeddings of that length.
void check_dimensions(const HeadRecipe& recipe, int width, std::optional<int> asked) {
  if (!asked || *asked == width) return;
  if (!recipe.has_short_embeddings)
    refuse_field("dimensions", "must be " + std::to_string(width) +
                                   ", the length of this model's embeddings: its config.json declares no shorter ones "
                                   "(is_matryoshka, matryoshka_dimensions)");
  const std::vector<int>& known = recipe.dimensions;
  if (*asked < width && (known.empty() || std::find(known.begin(), known.end(), *asked) != known.end())) return;
  std::string lengths;
  for (const int each : known) lengths += std::to_string(each) + ", ";
  refuse_field("dimensions", known.empty() ? "must be from 1 to " + std::to_string(width)
                                           : "must be one of " + lengths + std::to_string(width));
}

Dialect dialect_of(EmbeddingRequest::Form form) {
  if (form == EmbeddingRequest::Form::openai) return Dialect::openai;
  return form == EmbeddingRequest::Form::lorax ? Dialect::lorax : Dialect::ollama;
}

Asked embedding_asked(Model& model, const EmbeddingRequest& request) {
  HeadJob job(model, request, dialect_of(request.form), "embd-");
  const HeadRecipe& recipe = model.heads();
  check_recipe(recipe.error);
  check_recipe(recipe.pooling_error);
  const int width = model.config().head_width();
  check_dimensions(recipe, width, request.dimensions);
  job.apply(recipe);
  job.options().pooling = recipe.pooling;
  job.add(request.inputs);
  const auto length = static_cast<std::size_t>(request.dimensions.value_or(width));
  const auto result = [length, normalize = request.normalize](const tenon::Scores& scores) {
    std::vector<float> vector = scores.embedding;
    vector.resize(length);
    if (normalize) tenon::normalize(vector);
    return vector;
  };
  const auto body = [form = request.form, base64 = request.base64, listed = request.inputs.listed](
                        const HeadAnswer& answer, const HeadAnswerWriter::Results& vectors) {
    switch (form) {
      case EmbeddingRequest::Form::openai:
        return openai_embeddings(answer, vectors, base64);
      case EmbeddingRequest::Form::lorax:
        return lorax_embeddings(vectors, listed);
      case EmbeddingRequest::Form::ollama:
        return ollama_embeddings(answer, vectors);
      case EmbeddingRequest::Form::ollama_one:
        return ollama_embedding(vectors);
    }
    return std::string();
  };
  return job.finish(length, request.inputs.field, "", result, body);
}

// ---- pairs

// The instruction that Qwen3-Reranker was trained with, where the client names none, and the words around it.
constexpr const char* kInstruction = "Given a web search query, retrieve relevant passages that answer the query";
constexpr const char* kBeforePair =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n";
constexpr const char* kAfterPair = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

void append(Ids& to, const Ids& ids) { to.insert(to.end(), ids.begin(), ids.end()); }

// Cuts the end or the begin of `ids` off, so that they fit beside `around` other tokens.
void cut_to_fit(Ids& ids, std::size_t around, const HeadRequest& request, const std::string& other) {
  if (!request.cut) return;
  const auto most = static_cast<std::size_t>(request.cut->tokens);
  if (around > most || (around == most && !ids.empty()))
    refuse_field(request.cut_field, "leaves no token for a text beside `" + other + "`, which needs " +
                                        std::to_string(around) + " with the tokens around both");
  if (ids.size() <= most - around) return;
  if (request.cut->keeps_first)
    ids.resize(most - around);
  else
    keep_last(ids, static_cast<int>(most - around));
}

// The tokens of each pair, as the tokenizer encodes two texts. Where both are too long, the second one is cut.
void add_encoded_pairs(HeadJob& job, const PairRequest& request) {
  Model& model = job.model();
  const PromptText how = job.prompt_text();
  const PairTemplate around = how.add_special_tokens ? model.pair_template() : PairTemplate{};
  const std::size_t specials = around.before.size() + around.between.size() + around.after.size();
  Ids first;
  std::size_t letters = 0;
  for (std::size_t i = 0; i < request.second.size(); ++i) {
    if (request.begins_anew(i)) {
      first = job.plain_tokens(request.first_of(i), how.parse_special, request.first_field);
      letters = characters(request.first_of(i));
    }
    Ids second = job.plain_tokens(request.second[i], how.parse_special, request.second_field);
    cut_to_fit(second, specials + first.size(), request, request.first_field);
    Ids ids = around.before;
    append(ids, first);
    append(ids, around.between);
    append(ids, second);
    append(ids, around.after);
    job.add(std::move(ids), letters + characters(request.second[i]), request.second_field);
  }
}

// Refuses a text that stands in every pair, where it is long and pairs are many: each pair is tokenised whole.
void check_repeated(const PairRequest& request, std::size_t bytes) {
  constexpr std::size_t kMostBytes = std::size_t{32} << 20;
  if (request.first.size() == 1 && bytes > kMostBytes / request.second.size())
    refuse_field(request.first_field, "has " + std::to_string(request.first.front().size()) +
                                          " bytes, and stands in each of " + std::to_string(request.second.size()) +
                                          " pairs: send fewer texts at once");
}

// The prompt of Qwen3-Reranker's model card. The template is what stands around the texts alone: special tokens that
// the texts spell are ordinary characters, unless the client asks for them.
void add_templated_pairs(HeadJob& job, const PairRequest& request) {
  const tenon::Tokenizer& tokenizer = job.model().tokenizer();
  if (request.cut && !request.cut->keeps_first)
    refuse_field(request.cut_field, "cuts the end of a text off with this model: leave `truncation_direction` out");
  const Ids before = tokenizer.encode(kBeforePair, true), after = tokenizer.encode(kAfterPair, true);
  const std::string instruction = request.instruction.value_or(kInstruction);
  const bool parse_special = request.parse_special.value_or(false);
  const std::size_t around = before.size() + after.size();
  std::string head;  // the text of a pair before its document
  std::size_t letters = 0;
  for (std::size_t i = 0; i < request.second.size(); ++i) {
    if (request.begins_anew(i)) {
      const std::string& query = request.first_of(i);
      head = "<Instruct>: " + instruction + "\n<Query>: " + query + "\n<Document>: ";
      letters = characters(query);
      check_repeated(request, head.size());
      Ids none;
      cut_to_fit(none, around + job.plain_tokens(head, parse_special, request.first_field).size(), request,
                 request.first_field);
    }
    Ids middle = job.plain_tokens(head + request.second[i], parse_special, request.second_field);
    cut_to_fit(middle, around, request, request.first_field);
    Ids ids = before;
    append(ids, middle);
    append(ids, after);
    job.add(std::move(ids), letters + characters(request.second[i]), request.second_field);
  }
}

// The score of one pair from the result of the engine.
std::function<std::vector<float>(const tenon::Scores&)> score_of(const HeadRecipe& recipe, bool ranks_by_tokens,
                                                                 bool raw) {
  const HeadActivation activation = raw ? HeadActivation::none : recipe.activation(1);
  if (ranks_by_tokens) {
    // The softmax of two logits is the sigmoid of their difference.
    return [reranker = *recipe.reranker, activation](const tenon::Scores& scores) {
      const std::vector<float>& logits = scores.logits.front().second;
      const float odds = logits[static_cast<std::size_t>(reranker.yes)] - logits[static_cast<std::size_t>(reranker.no)];
      return activated(std::vector<float>{odds}, activation);
    };
  }
  return [activation](const tenon::Scores& scores) {
    if (scores.class_logits.size() != 1)
      refuse_model(std::string(kRanker) + "; the head of the adapter has " +
                   std::to_string(scores.class_logits.size()) + " labels");
    return activated(scores.class_logits, activation);
  };
}

template <class Body>
Asked pairs_asked(Model& model, const PairRequest& request, Dialect dialect, const char* id_prefix, Body body) {
  HeadJob job(model, request, dialect, id_prefix);
  const HeadRecipe& recipe = model.heads();
  check_recipe(recipe.error);
  const bool has_head = !model.config().labels.empty();
  if (!has_head) check_recipe(recipe.reranker_error);
  // An adapter may bring a head; a causal model that ranks by tokens does so under adapters, too.
  const bool by_tokens = recipe.reranker && !has_head && model.config().language_head;
  if (!by_tokens && !has_head && request.adapters.empty()) refuse_model(kRanker);
  if (request.adapters.empty() && has_head && model.config().labels.size() != 1)
    refuse_model(std::string(kRanker) + "; this model has " + std::to_string(model.config().labels.size()) +
                 " labels, for /classify");
  if (request.instruction && !by_tokens)
    refuse_field("instruction",
                 "is for models that rank by two tokens, such as Qwen3-Reranker: write it into the texts");
  if (by_tokens) {
    job.read_last_logits();
    add_templated_pairs(job, request);
  } else {
    job.options().pooling = tenon::Pooling::classify;
    add_encoded_pairs(job, request);
  }
  return job.finish(1, request.second_field, kRanker, score_of(recipe, by_tokens, request.raw_scores), body);
}

Asked ranks_asked(Model& model, const PairRequest& request, Dialect dialect) {
  std::vector<std::string> texts;
  if (request.return_texts) texts = request.second;
  const bool tei = request.form == PairRequest::Form::tei;
  const std::size_t most = request.top_n.value_or(request.second.size());
  const auto body = [texts = std::move(texts), tei, most](const HeadAnswer& answer,
                                                          const HeadAnswerWriter::Results& results) {
    const std::vector<Rank> ranks = ranked(results, most);
    return tei ? tei_ranks(ranks, texts) : cohere_ranks(answer, ranks, texts);
  };
  return pairs_asked(model, request, dialect, "rerank-", body);
}

}  // namespace

Asked embeddings_asked(Model& model, std::string_view body) {
  return embedding_asked(model, parse_embeddings(body, model.context()));
}

Asked embed_asked(Model& model, std::string_view body) {
  return embedding_asked(model, parse_embed(body, model.context()));
}

Asked ollama_embed_asked(Model& model, std::string_view body) {
  return embedding_asked(model, parse_ollama_embed(body, model.context()));
}

Asked ollama_embeddings_asked(Model& model, std::string_view body) {
  return embedding_asked(model, parse_ollama_embeddings(body, model.context()));
}

Asked classify_asked(Model& model, std::string_view body) {
  const ClassifyRequest request = parse_classify(body, model.context());
  HeadJob job(model, request, Dialect::lorax, "classify-");
  check_recipe(model.heads().error);
  if (model.config().labels.empty() && request.adapters.empty()) refuse_model(kClassifier);
  job.options().pooling = tenon::Pooling::classify;
  job.add(request.inputs);
  const HeadRecipe& recipe = model.heads();
  const auto result = [&recipe, raw = request.raw_scores](const tenon::Scores& scores) {
    const std::vector<float>& logits = scores.class_logits;
    return activated(logits, raw ? HeadActivation::none : recipe.activation(logits.size()));
  };
  const bool vllm = request.form == ClassifyRequest::Form::vllm;
  const auto write = [&recipe, vllm, listed = request.inputs.listed](const HeadAnswer& answer,
                                                                     const HeadAnswerWriter::Results& scores) {
    const LabelName label = [&recipe](std::size_t i, std::size_t labels) { return recipe.label(i, labels); };
    return vllm ? vllm_classes(answer, scores, label) : lorax_classes(scores, listed, label);
  };
  const std::size_t labels = std::max<std::size_t>(1, model.config().labels.size());
  return job.finish(labels, request.inputs.field, kClassifier, result, write);
}

Asked rerank_asked(Model& model, std::string_view body, Dialect dialect) {
  return ranks_asked(model, parse_rerank(body, model.context()), dialect);
}

Asked score_asked(Model& model, std::string_view body, Dialect dialect) {
  return pairs_asked(
      model, parse_score(body, model.context()), dialect, "score-",
      [](const HeadAnswer& answer, const HeadAnswerWriter::Results& scores) { return vllm_scores(answer, scores); });
}

}  // namespace serve
