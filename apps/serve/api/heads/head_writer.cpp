#include "serve/api/heads/head_writer.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>

#include "output.h"

namespace serve {
namespace {

using program::append_json_list;
using program::append_json_number;
using program::append_json_string;
using Results = HeadAnswerWriter::Results;

void append_numbers(std::string& out, const std::vector<float>& numbers) {
  append_json_list(out, numbers, [](std::string& to, float each) { append_json_number(to, each); });
}

// A member of an object, with the comma before it where it is not the first.
void add_key(std::string& out, const char* name) {
  if (out.back() != '{') out += ", ";
  out.append("\"").append(name).append("\": ");
}
void add_text(std::string& out, const char* name, std::string_view value) {
  add_key(out, name);
  append_json_string(out, value);
}
template <class Number>
void add_number(std::string& out, const char* name, Number value) {
  add_key(out, name);
  append_json_number(out, value);
}

void append_usage(std::string& out, const HeadAnswer& answer, bool completion) {
  add_key(out, "usage");
  out += '{';
  add_number(out, "prompt_tokens", answer.prompt_tokens);
  if (completion) add_number(out, "completion_tokens", 0);
  add_number(out, "total_tokens", answer.prompt_tokens);
  out += '}';
}

// {"id", "object": "list", "created", "model" of vLLM's answers.
std::string head_of(const HeadAnswer& answer) {
  std::string out = "{";
  add_text(out, "id", answer.id);
  add_text(out, "object", "list");
  add_number(out, "created", answer.created);
  add_text(out, "model", answer.model);
  return out;
}

// Labels by falling score, and by number where scores are equal.
std::vector<std::size_t> by_score(const std::vector<float>& scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  return order;
}

void append_classes(std::string& out, const std::vector<float>& scores, const LabelName& label) {
  append_json_list(out, by_score(scores), [&](std::string& to, std::size_t i) {
    to += '{';
    add_text(to, "label", label(i, scores.size()));
    add_number(to, "score", scores[i]);
    to += '}';
  });
}

// append(out, index, result) writes each.
template <class Append>
void append_each(std::string& out, const Results& results, Append append) {
  std::size_t index = 0;
  append_json_list(out, results, [&](std::string& to, const std::vector<float>& each) { append(to, index++, each); });
}

}  // namespace

void HeadAnswerWriter::take(const tenon::Event& event) {
  // The engine refuses a request whose adapter has no head, or one for another task, when it has read the adapter.
  const auto tells = [&](const char* words) { return event.error.find(words) != event.error.npos; };
  if (event.kind == tenon::Event::Kind::error && event.error_kind == tenon::Error::Kind::invalid_request &&
      (tells("classification head") || tells("(task_type ")))
    throw ApiError(ApiError::Kind::no_head, terms_.needed + ": " + shown(event.error, 1000));
  refuse_failed(event, terms_.dialect);
  if (event.kind != tenon::Event::Kind::finished || !event.scores) return;
  std::vector<float>& result = results_.at(static_cast<std::size_t>(event.choice));
  result = terms_.result(*event.scores);
  numbers_ += result.size();
  // The head of an adapter may have more labels than the model's, which the room was reserved for.
  if (numbers_ > kMostNumbers)
    throw ApiError(ApiError::Kind::invalid, "the texts " + too_many_numbers(result.size() * results_.size()));
  --open_;
}

std::string too_many_numbers(std::size_t numbers) {
  return "would be answered with " + std::to_string(numbers) + " numbers; at most " + std::to_string(kMostNumbers) +
         " are possible: send fewer texts at once";
}

std::vector<Rank> ranked(const Results& results, std::size_t most) {
  std::vector<float> scores;
  for (const std::vector<float>& each : results) scores.push_back(each.front());
  std::vector<Rank> ranks;
  for (const std::size_t i : by_score(scores)) {
    if (ranks.size() == most) break;
    ranks.push_back({i, scores[i]});
  }
  return ranks;
}

std::string openai_embeddings(const HeadAnswer& answer, const Results& vectors, bool base64) {
  std::string out = "{";
  add_text(out, "object", "list");
  add_key(out, "data");
  append_each(out, vectors, [&](std::string& to, std::size_t index, const std::vector<float>& vector) {
    to += '{';
    add_text(to, "object", "embedding");
    add_number(to, "index", index);
    add_key(to, "embedding");
    if (base64)
      to.append("\"").append(base64_of(vector)).append("\"");
    else
      append_numbers(to, vector);
    to += '}';
  });
  add_text(out, "model", answer.model);
  append_usage(out, answer, /*completion=*/false);
  return out + "}";
}

std::string ollama_embeddings(const HeadAnswer& answer, const Results& vectors) {
  std::string out = "{";
  add_text(out, "model", answer.model);
  add_key(out, "embeddings");
  append_each(out, vectors,
              [](std::string& to, std::size_t, const std::vector<float>& each) { append_numbers(to, each); });
  add_number(out, "prompt_eval_count", static_cast<std::size_t>(answer.prompt_tokens));
  return out + "}";
}

std::string ollama_embedding(const Results& vectors) {
  std::string out = "{";
  add_key(out, "embedding");
  append_numbers(out, vectors.front());
  return out + "}";
}

std::string lorax_embeddings(const Results& vectors, bool listed) {
  std::string out;
  if (listed) {
    append_each(out, vectors,
                [](std::string& to, std::size_t, const std::vector<float>& each) { append_numbers(to, each); });
    return out;
  }
  out = "{";
  add_key(out, "embeddings");
  append_numbers(out, vectors.front());
  return out + "}";
}

std::string lorax_classes(const Results& scores, bool listed, const LabelName& label) {
  std::string out;
  if (listed)
    append_each(out, scores,
                [&](std::string& to, std::size_t, const std::vector<float>& each) { append_classes(to, each, label); });
  else
    append_classes(out, scores.front(), label);
  return out;
}

std::string vllm_classes(const HeadAnswer& answer, const Results& scores, const LabelName& label) {
  std::string out = head_of(answer);
  add_key(out, "data");
  append_each(out, scores, [&](std::string& to, std::size_t index, const std::vector<float>& each) {
    to += '{';
    add_number(to, "index", index);
    add_text(to, "label", label(by_score(each).front(), each.size()));
    add_key(to, "probs");
    append_numbers(to, each);
    add_number(to, "num_classes", each.size());
    to += '}';
  });
  append_usage(out, answer, /*completion=*/true);
  return out + "}";
}

std::string cohere_ranks(const HeadAnswer& answer, const std::vector<Rank>& ranks,
                         const std::vector<std::string>& texts) {
  std::string out = "{";
  add_text(out, "id", answer.id);
  add_text(out, "model", answer.model);
  append_usage(out, answer, /*completion=*/false);
  add_key(out, "results");
  append_json_list(out, ranks, [&](std::string& to, const Rank& rank) {
    to += '{';
    add_number(to, "index", rank.index);
    if (!texts.empty()) {
      add_key(to, "document");
      to += '{';
      add_text(to, "text", texts[rank.index]);
      to += '}';
    }
    add_number(to, "relevance_score", rank.score);
    to += '}';
  });
  return out + "}";
}

std::string tei_ranks(const std::vector<Rank>& ranks, const std::vector<std::string>& texts) {
  std::string out;
  append_json_list(out, ranks, [&](std::string& to, const Rank& rank) {
    to += '{';
    add_number(to, "index", rank.index);
    if (!texts.empty()) add_text(to, "text", texts[rank.index]);
    add_number(to, "score", rank.score);
    to += '}';
  });
  return out;
}

std::string vllm_scores(const HeadAnswer& answer, const Results& scores) {
  std::string out = head_of(answer);
  add_key(out, "data");
  append_each(out, scores, [](std::string& to, std::size_t index, const std::vector<float>& each) {
    to += '{';
    add_number(to, "index", index);
    add_text(to, "object", "score");
    add_number(to, "score", each.front());
    to += '}';
  });
  append_usage(out, answer, /*completion=*/true);
  return out + "}";
}

std::string base64_of(const std::vector<float>& numbers) {
  constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::uint8_t> bytes;
  bytes.reserve(numbers.size() * 4);
  for (const float each : numbers) {
    const auto bits = std::bit_cast<std::uint32_t>(each);
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<std::uint8_t>(bits >> shift));
  }
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;  // 24 bits
    for (std::size_t j = 0; j < 3; ++j) group = group << 8 | (i + j < bytes.size() ? bytes[i + j] : 0u);
    for (std::size_t j = 0; j < 4; ++j) out += i + j <= bytes.size() ? digits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

}  // namespace serve
