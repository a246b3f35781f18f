// Requests for embeddings, classes and ranks, from the bytes of their bodies.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/api/request_context.h"
#include "tenon/core/request.h"

namespace serve {

// Tokens of a text that are kept: its first ones, or its last ones.
struct Cut {
  int tokens = 0;  // with those around the text
  bool keeps_first = true;
};

// The fields that all these routes have.
struct HeadRequest {
  std::string model;                        // as asked, which may be empty
  std::vector<tenon::AdapterUse> adapters;  // none: the base model
  std::string adapter_field;                // that names them; empty: none does
  tenon::Options options;                   // priority and cache_salt alone
  std::optional<bool> parse_special;        // special tokens spelled in texts are tokens; none: where the route does so
  bool add_special_tokens = true;
  std::optional<Cut> cut;            // none: a text that is too long is refused
  std::string cut_field;             // that asks for it
  std::vector<std::string> ignored;  // unknown fields, where the server is lenient
};

using HeadInput = std::variant<std::string, std::vector<tenon::TokenId>>;

// Texts or ids of tokens, of which none is empty. Ids are at least 0, and not compared with the vocabulary.
struct HeadInputs {
  std::vector<HeadInput> each;
  bool listed = false;  // the client sent a list, and gets one
  std::string field;    // that holds them
};

struct EmbeddingRequest : HeadRequest {
  enum class Form { openai, lorax, ollama, ollama_one };  // the last: of one text, as a vector
  Form form = Form::openai;
  HeadInputs inputs;
  bool normalize = true;
  bool base64 = false;
  std::optional<int> dimensions;
};

struct ClassifyRequest : HeadRequest {
  enum class Form { lorax, vllm };
  Form form = Form::lorax;
  HeadInputs inputs;
  bool raw_scores = false;
};

// Pairs of texts, which a cross-encoder scores.
struct PairRequest : HeadRequest {
  enum class Form { rerank, tei, score };
  Form form = Form::rerank;
  // One first text, which stands before each second one, or as many.
  std::vector<std::string> first, second;
  std::optional<std::size_t> top_n;  // of the ranks that are returned; none: all
  bool return_texts = true;
  bool raw_scores = false;
  std::optional<std::string> instruction;  // for models that rank by two tokens
  std::string first_field, second_field;   // that hold the texts

  // Whether pair i has another first text than the pair before it.
  bool begins_anew(std::size_t i) const { return i == 0 || first.size() > 1; }
  const std::string& first_of(std::size_t i) const { return first[first.size() == 1 ? 0 : i]; }
};

// ApiError: malformed, invalid, bad_adapter_name.
EmbeddingRequest parse_embeddings(std::string_view body, const RequestContext& context);  // POST /v1/embeddings
EmbeddingRequest parse_embed(std::string_view body, const RequestContext& context);       // POST /embed
ClassifyRequest parse_classify(std::string_view body, const RequestContext& context);
PairRequest parse_rerank(std::string_view body, const RequestContext& context);
PairRequest parse_score(std::string_view body, const RequestContext& context);

}  // namespace serve
