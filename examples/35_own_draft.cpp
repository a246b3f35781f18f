// A draft policy of your own: the text often quotes a document, so guess how the document goes on. It changes how many
// steps an answer takes, and no token of it.
#include <tenon/tenon.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/example.h"
#include "tenon/testing/laws.h"

// [policy]
struct Quote {
  std::vector<tenon::TokenId> document = {};

  void draft(const tenon::DraftState& state, tenon::DraftWriter& out) const {
    constexpr std::size_t ending = 2;  // tokens that must agree
    if (state.text.size() < ending) return;
    const auto last = state.text.last(ending);
    auto at = std::search(document.begin(), document.end(), last.begin(), last.end());
    if (at == document.end()) return;
    for (at += ending; at != document.end() && out.add(*at); ++at) {
    }
  }
};
// [/policy]

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv);
  const auto files = tenon::load_checkpoint(arguments.text("--model"));
  const tenon::Request request{.prompt = example::kPrompt, .options = {.max_new_tokens = 40}};
  // [engines]
  tenon::Engine<tenon::Gpt2, tenon::Draft<tenon::NoDraft>> plain{files};
  const tenon::Completion expected = plain.complete(request);

  tenon::Engine<tenon::Gpt2, tenon::Draft<Quote>> own{files, {.draft_tokens = 8, .draft_gain = 0}};
  own.draft_policy().document = expected.ids;  // so that there is something to quote
  const tenon::Completion answer = own.complete(request);
  // [/engines]
  std::printf("%s%s\n", example::kPrompt.c_str(), answer.text.c_str());
  std::printf("%d tokens: %d steps without guesses, %d with them\n", static_cast<int>(answer.ids.size()),
              static_cast<int>(plain.stats().steps), static_cast<int>(own.stats().steps));
  // [laws]
  const auto broken = tenon::testing::draft_laws(Quote{.document = {1, 0, 1, 1, 0}});
  for (const auto& law : broken) std::printf("broken: %s\n", law.c_str());
  // [/laws]
  return example::verdict(
      "the laws hold, and the answer is the same in fewer steps",
      broken.empty() && answer.error.empty() && answer.ids == expected.ids && own.stats().steps < plain.stats().steps);
} catch (const std::exception& error) {
  return example::failed(error);
}
