#include "serve/api/heads/head_request.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "serve/api/api_error.h"
#include "serve/api/body.h"
#include "serve/api/request_fields.h"
#include "serve/api/requested_adapters.h"
#include "serve/text.h"

namespace serve {
namespace {

using tenon::Json;
using Texts = std::vector<std::string>;

constexpr const char* kInputForms = "a string, a list of strings, a list of token ids or a list of such lists";

std::string nth(const std::string& list, std::size_t index) { return list + "[" + std::to_string(index) + "]"; }

void check_inputs(const RequestFields& f, const std::string& field, std::size_t count) {
  if (count == 0) f.refuse(field, "must not be empty");
  if (count > kMostInputs)
    f.refuse(field, "must hold at most " + std::to_string(kMostInputs) + " texts, holds " + std::to_string(count));
}

// ---- inputs

HeadInput input_of(const RequestFields& f, const std::string& name, const Json& value) {
  if (value.is_string()) {
    std::string text = value.get<std::string>();
    if (text.empty()) f.refuse(name, "must not be empty");
    return text;
  }
  if (!value.is_array()) f.refuse_type(name, kInputForms, value);
  if (value.empty()) f.refuse(name, "must hold at least one token");
  std::vector<tenon::TokenId> ids;
  ids.reserve(value.size());
  for (const Json& each : value) {
    ids.push_back(
        static_cast<tenon::TokenId>(f.check_integer(name, each, 0, kMaxInt, "must hold ids of tokens, of at least 0")));
  }
  return ids;
}

HeadInputs inputs_of(const RequestFields& f, const char* field) {
  HeadInputs out{.each = {}, .field = field};
  const Json* const value = f.find(field);
  if (!value) f.refuse(field, "is missing");
  const bool ids = value->is_array() && !value->empty() && value->front().is_number();
  if (!value->is_array() || ids) {
    out.each.push_back(input_of(f, field, *value));
    return out;
  }
  out.listed = true;
  check_inputs(f, field, value->size());
  for (const Json& each : *value) {
    if (each.type() != value->front().type())
      f.refuse(field, std::string("must be ") + kInputForms + ", not a mixture");
    out.each.push_back(input_of(f, nth(field, out.each.size()), each));
  }
  return out;
}

// A text or a list of texts, which may be empty themselves. `objects`: each may be {"text": ...}.
Texts texts_of(const RequestFields& f, const std::string& field, bool objects, UnknownFields& unknown) {
  Texts out;
  const Json* const value = f.find(field);
  if (!value) f.refuse(field, "is missing");
  if (value->is_string() && !objects) return {value->get<std::string>()};
  if (!value->is_array()) f.refuse_type(field, objects ? "a list of texts" : "a string or a list of strings", *value);
  check_inputs(f, field, value->size());
  for (const Json& each : *value) {
    const std::string name = nth(field, out.size());
    if (each.is_object() && objects) {
      const RequestFields document(each, kDocument, unknown, name);
      auto text = document.string("text");
      if (!text) document.refuse("text", "is missing");
      out.push_back(std::move(*text));
      continue;
    }
    if (!each.is_string()) f.refuse_type(name, "a string", each);
    out.push_back(each.get<std::string>());
  }
  return out;
}

// ---- what all routes have

// "left" cuts the begin of a text off. TEI writes it with a capital.
bool keeps_first(const RequestFields& f) {
  std::string side = f.string("truncation_direction").value_or("right");
  std::transform(side.begin(), side.end(), side.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (side != "left" && side != "right") f.refuse("truncation_direction", "must be \"left\" or \"right\"");
  return side == "right";
}

void read_cut(const RequestFields& f, const RequestLimits& limits, HeadRequest& out) {
  const int most = limits.max_total_tokens;
  const bool first = keeps_first(f), whole = f.boolean("truncate", false);
  const std::string needed = "must be -1, or from 1 to " + std::to_string(most);
  const auto tokens = f.integer("truncate_prompt_tokens", -1, most, needed);
  if (tokens && *tokens == 0) f.refuse("truncate_prompt_tokens", needed);
  if (!tokens && !whole) return;
  out.cut = Cut{.tokens = tokens && *tokens > 0 ? static_cast<int>(*tokens) : most, .keeps_first = first};
  out.cut_field = tokens ? "truncate_prompt_tokens" : "truncate";
}

// `parameters` is where LoRAX's clients name the adapter.
void read_common(const RequestFields& f, const RequestContext& context, UnknownFields& unknown, HeadRequest& out) {
  out.model = f.string("model").value_or("");
  const Json none = Json::object();
  const Json* const given = f.find("parameters");
  if (given && !given->is_object()) f.refuse_type("parameters", "an object", *given);
  const RequestFields parameters(given ? *given : none, kHeadParameters, unknown, "parameters");
  NamedAdapters named = named_adapters({&f, &parameters}, context, unknown);
  out.adapters = std::move(named.uses);
  out.adapter_field = std::move(named.field);
  out.options.priority = f.integer_or("priority", 0, std::numeric_limits<int>::min());
  out.options.cache_salt = f.string("cache_salt").value_or("");
  if (f.has("parse_special")) out.parse_special = f.boolean("parse_special", true);
  out.add_special_tokens = f.boolean("add_special_tokens", true);
  read_cut(f, context.limits, out);
}

// TEI's word, and vLLM's, which says the opposite.
bool raw_scores_of(const RequestFields& f) {
  const bool raw = f.boolean("raw_scores", false);
  if (!f.has("use_activation")) return raw;
  const bool activates = f.boolean("use_activation", true);
  if (f.has("raw_scores") && raw == activates) f.refuse("use_activation", "says the opposite of `raw_scores`");
  return !activates;
}

void read_dimensions(const RequestFields& f, EmbeddingRequest& out) {
  if (const auto dimensions = f.integer("dimensions", 1, kMaxInt)) out.dimensions = static_cast<int>(*dimensions);
}

void read_pair_options(const RequestFields& f, PairRequest& out) {
  out.raw_scores = raw_scores_of(f);
  out.instruction = f.string("instruction");
}

}  // namespace

EmbeddingRequest parse_embeddings(std::string_view text, const RequestContext& context) {
  const Body body = parse_body(text);
  UnknownFields unknown{.lenient = context.lenient};
  const RequestFields f(body.json, kEmbeddings, unknown);
  EmbeddingRequest out;
  read_common(f, context, unknown, out);
  out.inputs = inputs_of(f, "input");
  out.normalize = f.boolean("normalize", true);
  read_dimensions(f, out);
  const std::string format = f.string("encoding_format").value_or("float");
  if (format != "float" && format != "base64") f.refuse("encoding_format", "must be \"float\" or \"base64\"");
  out.base64 = format == "base64";
  out.ignored = std::move(unknown.ignored);
  return out;
}

EmbeddingRequest parse_embed(std::string_view text, const RequestContext& context) {
  const Body body = parse_body(text);
  UnknownFields unknown{.lenient = context.lenient};
  const RequestFields f(body.json, kEmbed, unknown);
  EmbeddingRequest out;
  out.form = EmbeddingRequest::Form::lorax;
  read_common(f, context, unknown, out);
  out.inputs = inputs_of(f, "inputs");
  out.normalize = f.boolean("normalize", true);
  read_dimensions(f, out);
  out.ignored = std::move(unknown.ignored);
  return out;
}

ClassifyRequest parse_classify(std::string_view text, const RequestContext& context) {
  const Body body = parse_body(text);
  UnknownFields unknown{.lenient = context.lenient};
  const RequestFields f(body.json, kClassify, unknown);
  ClassifyRequest out;
  read_common(f, context, unknown, out);
  if (f.has("input") && f.has("inputs")) f.refuse("input", "does not go with `inputs`");
  out.form = f.has("input") ? ClassifyRequest::Form::vllm : ClassifyRequest::Form::lorax;
  out.inputs = inputs_of(f, f.has("input") ? "input" : "inputs");
  out.raw_scores = raw_scores_of(f);
  out.ignored = std::move(unknown.ignored);
  return out;
}

PairRequest parse_rerank(std::string_view text, const RequestContext& context) {
  const Body body = parse_body(text);
  UnknownFields unknown{.lenient = context.lenient};
  const RequestFields f(body.json, kRerank, unknown);
  PairRequest out;
  read_common(f, context, unknown, out);
  if (f.has("texts") && f.has("documents")) f.refuse("texts", "does not go with `documents`");
  const bool tei = f.has("texts");
  out.form = tei ? PairRequest::Form::tei : PairRequest::Form::rerank;
  out.first_field = "query";
  out.second_field = tei ? "texts" : "documents";
  auto query = f.string("query");
  if (!query) f.refuse("query", "is missing");
  if (query->empty()) f.refuse("query", "must not be empty");
  out.first.push_back(std::move(*query));
  out.second = texts_of(f, out.second_field, /*objects=*/!tei, unknown);
  // 0 is vLLM's word for all.
  if (const auto most = f.integer("top_n", 0, kMaxInt); most && *most > 0) out.top_n = static_cast<std::size_t>(*most);
  if (tei && f.has("return_documents")) f.refuse("return_documents", "goes with `documents`: use `return_text`");
  if (!tei && f.has("return_text")) f.refuse("return_text", "goes with `texts`: use `return_documents`");
  out.return_texts = tei ? f.boolean("return_text", false) : f.boolean("return_documents", true);
  read_pair_options(f, out);
  out.ignored = std::move(unknown.ignored);
  return out;
}

PairRequest parse_score(std::string_view text, const RequestContext& context) {
  const Body body = parse_body(text);
  UnknownFields unknown{.lenient = context.lenient};
  const RequestFields f(body.json, kScore, unknown);
  PairRequest out;
  out.form = PairRequest::Form::score;
  read_common(f, context, unknown, out);
  out.first_field = f.name_of("text_1");
  out.second_field = f.name_of("text_2");
  out.first = texts_of(f, "text_1", false, unknown);
  out.second = texts_of(f, "text_2", false, unknown);
  if (out.first.size() != 1 && out.first.size() != out.second.size()) {
    f.refuse("text_1", "must be one text, or as many as `" + out.second_field + "`, which holds " +
                           std::to_string(out.second.size()));
  }
  read_pair_options(f, out);
  out.ignored = std::move(unknown.ignored);
  return out;
}

}  // namespace serve
