// The settings of embeddings, classes and ranks in the files of a model.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/heads/activation.h"
#include "tenon/core/error.h"
#include "tenon/core/request.h"
#include "tenon/model/config.h"
#include "tenon/model/files.h"

namespace serve {

// Tokens around the two texts of a pair: before A between B after.
struct PairTemplate {
  std::vector<tenon::TokenId> before, between, after;
};

// A causal model that ranks by the logits of two tokens, as Qwen3-Reranker does.
struct TokenReranker {
  tenon::TokenId yes, no;
};

struct HeadRecipe {
  tenon::Pooling pooling = tenon::Pooling::last;     // of embeddings, as modules.json says
  std::string prompt = {};                           // before each text for an embedding
  int max_tokens = 0;                                // most tokens of a text for an embedding; 0: no own limit
  bool has_short_embeddings = false;                 // Matryoshka: the first numbers of an embedding are one
  std::vector<int> dimensions = {};                  // the lengths that it may have; empty: any
  std::vector<std::string> labels = {};              // id2label, also where the head is an adapter's
  HeadActivation one = HeadActivation::sigmoid;      // of a head with one label
  HeadActivation several = HeadActivation::softmax;  // of a head with more
  std::optional<TokenReranker> reranker = {};
  // Why the model makes no embeddings, scores no pairs, or has no use for its heads: a field that is not supported.
  std::optional<tenon::Error> pooling_error = {}, reranker_error = {}, error = {};

  HeadActivation activation(std::size_t labels_of_head) const { return labels_of_head == 1 ? one : several; }
  // id2label where the head has as many labels as that names, else LABEL_0 and so on, as transformers does.
  std::string label(std::size_t index, std::size_t labels_of_head) const;
};

// Reads modules.json and config.json; what is wrong there is noted in the result. `folder` may be a GGUF file.
HeadRecipe read_head_recipe(const std::filesystem::path& folder, const tenon::ModelFiles& files,
                            const tenon::ModelConfig& config);

// The tokens that tokenizer.json puts around two texts. Without a template for pairs there each text has what a single
// one has, as in the classes of Llama's tokenizer. Reads the whole file. tenon::Error where it refuses the template.
PairTemplate read_pair_template(const std::filesystem::path& folder, const tenon::Tokenizer& tokenizer);

}  // namespace serve
