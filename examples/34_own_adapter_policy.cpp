// An adapter policy of your own: rows of one adapter share a product, but at most four of them at once. It changes how
// the work of a step is cut, and no answer.
#include <tenon/tenon.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "common/example.h"
#include "tenon/testing/laws.h"

// [policy]
struct FourTogether {
  static constexpr bool adds_at_runtime = true;
  static constexpr int most = 4;  // rows of a group

  void arrange(std::span<const tenon::AdapterSet* const> rows, tenon::AdapterGroups& out) const {
    out.clear();
    for (std::size_t first = 0; first < rows.size(); ++first) {
      const auto* own = rows[first];
      if (!own || std::find(rows.begin(), rows.begin() + first, own) != rows.begin() + first) continue;
      for (std::size_t r = first; r < rows.size(); ++r) {  // all rows of this adapter, in ascending order
        if (rows[r] != own) continue;
        const int at = static_cast<int>(out.rows.size());
        if (r == first || out.groups.back().count == most) out.groups.push_back({own, at, 0});
        out.rows.push_back(static_cast<int>(r));
        ++out.groups.back().count;
      }
    }
  }
};
// [/policy]

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv);
  const std::string& model = arguments.text("--model");
  const auto files = tenon::load_checkpoint(model);
  std::vector<tenon::Request> requests;
  for (int i = 0; i < 8; ++i)
    requests.push_back({.prompt = example::kPrompt,
                        .adapters = {{model + (i % 3 == 0 ? "/adapters/weather" : "/adapters/shakespeare")}},
                        .options = {.max_new_tokens = 10}});
  // [engines]
  tenon::Engine<tenon::Gpt2> built_in{files};
  tenon::Engine<tenon::Gpt2, tenon::Adapter<FourTogether>> own{files};
  // [/engines]
  const auto expected = built_in.complete(requests), answers = own.complete(requests);
  for (std::size_t i = 0; i < 2; ++i) std::printf("%s%s\n", example::kPrompt.c_str(), answers[i].text.c_str());
  // [laws]
  const auto broken = tenon::testing::adapter_laws<FourTogether>();
  for (const auto& law : broken) std::printf("broken: %s\n", law.c_str());
  // [/laws]
  const auto same = [](const tenon::Completion& a, const tenon::Completion& b) {
    return a.error.empty() && b.error.empty() && a.ids == b.ids;
  };
  return example::verdict("the laws hold, and no answer changes",
                          broken.empty() && std::equal(answers.begin(), answers.end(), expected.begin(), same));
} catch (const std::exception& error) {
  return example::failed(error);
}
