// Experiment 3: several prompts in one batch. The literature pads them on the left to equal length, hides the padding
// with a mask, and sums the mask to number positions. Our batches are ragged: they have no padding, and no answer
// depends on its neighbours.
#include <tenon/tenon.h>

#include <vector>

#include "common/example.h"

// A row of padded tokens, with its mask and positions.
template <class T>
void show(const char* name, const std::vector<T>& values, int row, int cols) {
  std::printf("  %-8s", name);
  const T* first = values.data() + std::ptrdiff_t{row} * cols;
  for (int col = 0; col < cols; ++col) std::printf("%6d", first[col]);
  std::printf("\n");
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--new", "10"}});
  const auto files = tenon::load_checkpoint(arguments.text("--model"));
  if (!files.tokenizer) throw std::runtime_error("--model: needs a tokenizer, vocab.json and merges.txt");
  // [padded]
  const std::vector<std::string> prompts = {"The quick brown fox jumped over the", "The rain in Spain falls",
                                            "What comes up must"};
  const auto padded = tenon::encode_batch(*files.tokenizer, prompts, {.padding = tenon::Padding::left});
  // [/padded]
  std::printf("padded on the left, as others need it:\n");
  for (int row = 0; row < padded.rows; ++row) {
    show("ids", padded.ids, row, padded.cols);
    show("mask", padded.attention_mask, row, padded.cols);
    show("position", padded.position_ids, row, padded.cols);
    std::printf("\n");
  }

  // [ragged]
  using Batched = tenon::Engine<tenon::Gpt2, tenon::Scheduler<tenon::StaticPolicy>>;
  using Single = tenon::Engine<tenon::Gpt2, tenon::Scheduler<tenon::SequentialPolicy>>;
  const tenon::EngineOptions options{.draft_tokens = 0};  // a step gives each request one token
  auto batched = Batched{files, tenon::StaticPolicy{.n = 3}, options};
  auto single = Single{files, options};

  std::vector<tenon::Request> requests;
  requests.reserve(prompts.size());
  for (const auto& prompt : prompts) {
    requests.push_back(
        {.prompt = prompt, .options = {.max_new_tokens = arguments.number("--new"), .ignore_eos = true}});
  }
  const auto together = batched.complete(requests);
  bool same = true;
  for (std::size_t i = 0; i < requests.size(); ++i) same = same && single.complete(requests[i]).ids == together[i].ids;
  // [/ragged]

  std::printf("ragged:\n");
  for (std::size_t i = 0; i < requests.size(); ++i) {
    std::printf("  %s |%s\n", prompts[i].c_str(), together[i].text.c_str());
  }
  std::size_t real = 0;
  for (const auto bit : padded.attention_mask) real += bit;
  std::printf("\n%d rows through the model for the prompts if padded, %zu ragged\n", padded.rows * padded.cols, real);
  std::printf("%d steps together, %d one by one\n", static_cast<int>(batched.stats().steps),
              static_cast<int>(single.stats().steps));
  return example::verdict("each answer the same as alone", same);
} catch (const std::exception& error) {
  return example::failed(error);
}
