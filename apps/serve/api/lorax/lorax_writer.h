// Answers as LoRAX and text-generation-inference write them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/api/lorax/lorax_request.h"
#include "serve/api/writer.h"

namespace serve {

class LoraxWriter final : public Writer {
 public:
  struct Terms {
    std::vector<tenon::TokenId> input;  // tokens
    int max_new_tokens = 0;
    std::vector<tenon::TokenId> ends;  // that end an answer, and are no part of it
    bool as_list = false;              // POST / answers with a list of one
  };

  // The tokenizer must outlive it.
  LoraxWriter(GenerateRequest request, const tenon::Tokenizer& tokenizer, Terms terms);

  void take(const tenon::Event& event) override;
  bool complete() const override { return open_ == 0 && receipts_ == 0; }
  Usage usage() const override;
  std::string whole() const override;
  std::string streamed() override { return std::exchange(streamed_, {}); }
  bool has_streamed() const override { return !streamed_.empty(); }
  std::string end_of_stream() override { return {}; }
  std::string failure(const ApiError& error) override { return sse(body(error, Dialect::lorax)); }

 private:
  struct Sequence {
    std::uint64_t seed = 0;
    std::string text;                        // of what is not special
    int count = 0;                           // of its tokens
    std::vector<tenon::OrderedJson> tokens;  // of an answer that is not streamed
    std::vector<tenon::OrderedJson> tops;    // alternatives to each of them, in TGI's form
    double logprob = 0;
    std::string reason;  // empty: still being written
    std::shared_ptr<const tenon::Receipt> receipt;
    double mean_logprob() const { return count == 0 ? 0 : logprob / count; }
  };

  void take_token(Sequence& sequence, const tenon::Event& event);
  tenon::OrderedJson token_json(tenon::TokenId id, const std::string& text, float logprob) const;
  tenon::OrderedJson top_tokens(const tenon::Event& event) const;
  std::string reason_of(const Sequence& sequence, const tenon::Event& event, bool adds_text) const;
  bool ends(tenon::TokenId token) const;
  std::string full_text(const Sequence& sequence) const;
  tenon::OrderedJson seed_of(const Sequence& sequence) const;
  tenon::OrderedJson prefill() const;
  tenon::OrderedJson details(const Sequence& best) const;

  const GenerateRequest request_;
  const tenon::Tokenizer& tokenizer_;
  const Terms terms_;
  std::vector<Sequence> sequences_;
  std::size_t open_;      // of them
  std::size_t receipts_;  // receipts that are asked for and have not come yet; they come after the last token
  std::shared_ptr<const tenon::Scores> scores_;
  std::string streamed_;
};

}  // namespace serve
