// Answers that are numbers: embeddings, classes and ranks. They are sent whole.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "serve/api/request_limits.h"
#include "serve/api/writer.h"

namespace serve {

// Numbers of an answer, in memory that is reserved in places of log-probabilities.
inline constexpr std::size_t kNumbersAPlace = 100;
inline constexpr std::size_t kMostNumbers = kMostListed * kNumbersAPlace;

// The refusal of an answer with that many numbers.
std::string too_many_numbers(std::size_t numbers);

class HeadAnswerWriter final : public Writer {
 public:
  using Results = std::vector<std::vector<float>>;  // by input

  struct Terms {
    Dialect dialect;
    std::size_t inputs = 0;
    int prompt_tokens = 0;  // of all inputs
    // The numbers of one input. ApiError where the head does not fit the route.
    std::function<std::vector<float>(const tenon::Scores&)> result;
    std::function<std::string(const Results&)> body;  // JSON on one line
    std::string needed;                               // the checkpoint or adapter that the route needs, for refusals
  };

  explicit HeadAnswerWriter(Terms terms) : terms_(std::move(terms)), results_(terms_.inputs), open_(terms_.inputs) {}

  void take(const tenon::Event& event) override;
  bool complete() const override { return open_ == 0; }
  Usage usage() const override { return {.prompt_tokens = terms_.prompt_tokens}; }
  std::string whole() const override { return terms_.body(results_); }
  std::string streamed() override { return {}; }
  bool has_streamed() const override { return false; }
  std::string end_of_stream() override { return {}; }
  std::string failure(const ApiError& error) override { return body(error, terms_.dialect); }

 private:
  const Terms terms_;
  Results results_;
  std::size_t open_;         // inputs without a result
  std::size_t numbers_ = 0;  // in the results
};

// The model that answers, and the tokens of its prompts.
struct HeadAnswer {
  std::string id, model;     // as the client is told them
  std::int64_t created = 0;  // seconds since 1970
  int prompt_tokens = 0;
};

// A rank or a score: the input's number in the request, and its text where that is returned.
struct Rank {
  std::size_t index;
  float score;
};

// By falling score, and by index where scores are equal; `most` of them.
std::vector<Rank> ranked(const HeadAnswerWriter::Results& results, std::size_t most);

// Bodies. Numbers are the shortest that read back as the same float32; base64 is of float32, little-endian.
std::string openai_embeddings(const HeadAnswer& answer, const HeadAnswerWriter::Results& vectors, bool base64);
std::string ollama_embeddings(const HeadAnswer& answer, const HeadAnswerWriter::Results& vectors);
std::string ollama_embedding(const HeadAnswerWriter::Results& vectors);  // of one text
std::string lorax_embeddings(const HeadAnswerWriter::Results& vectors, bool listed);
// scores: [labels] of each input; label(i, labels): the name of a class.
using LabelName = std::function<std::string(std::size_t, std::size_t)>;
std::string lorax_classes(const HeadAnswerWriter::Results& scores, bool listed, const LabelName& label);
std::string vllm_classes(const HeadAnswer& answer, const HeadAnswerWriter::Results& scores, const LabelName& label);
// texts: of all documents; empty: they are left out.
std::string cohere_ranks(const HeadAnswer& answer, const std::vector<Rank>& ranks,
                         const std::vector<std::string>& texts);
std::string tei_ranks(const std::vector<Rank>& ranks, const std::vector<std::string>& texts);
std::string vllm_scores(const HeadAnswer& answer, const HeadAnswerWriter::Results& scores);

// RFC 4648, with padding.
std::string base64_of(const std::vector<float>& numbers);

}  // namespace serve
