// Experiment 14: structured generation of a character as JSON, by the plain model and by an adapter trained on
// characters. 100 samples at temperature 1 must all satisfy the schema. Shows the samples that are complete within a
// token budget, with and without finish_within_budget, and the cost of masks per token.
#include <tenon/constrain/constraints.h>
#include <tenon/tenon.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/example.h"

// [schema]
const std::string kCharacter = R"({
  "type": "object",
  "properties": {
    "name": {"type": "string", "maxLength": 10},
    "age": {"type": "integer", "minimum": 0, "maximum": 999},
    "strength": {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 1, "maxItems": 3}
  },
  "required": ["name", "age", "strength"],
  "additionalProperties": false
})";
// [/schema]

// [requests]
std::vector<tenon::Request> samples(std::shared_ptr<const tenon::Constraint> constraint, const std::string& adapter,
                                    int count) {
  std::vector<tenon::Request> requests;
  for (int i = 0; i < count; ++i) {
    requests.push_back({.prompt = "A character: ",
                        .constraint = constraint,
                        .options = {.max_new_tokens = 120, .temperature = 1, .seed = static_cast<std::uint64_t>(i)}});
    if (!adapter.empty()) requests.back().adapters = {{adapter}};
  }
  return requests;
}
// [/requests]

bool is_character(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto is_text = [](const nlohmann::json& value) { return value.is_string(); };
  return json.is_object() && json.size() == 3 && json.value("name", nlohmann::json()).is_string() &&
         json.value("age", nlohmann::json()).is_number_integer() &&
         json.value("strength", nlohmann::json()).is_array() &&
         std::all_of(json["strength"].begin(), json["strength"].end(), is_text);
}

struct Outcome {
  int valid = 0, cut = 0, wrong = 0;  // cut: ended by max_new_tokens
  std::string first;
  std::vector<std::size_t> tokens;  // tokens of each valid answer
  double ms_a_step = 0;
};

Outcome run(tenon::Engine<tenon::Gpt2>& engine, const std::vector<tenon::Request>& requests) {
  Outcome outcome;
  const auto before = engine.stats();
  for (const tenon::Completion& answer : engine.complete(requests)) {
    if (!answer.error.empty()) throw std::runtime_error(answer.error);
    if (outcome.first.empty()) outcome.first = answer.text;
    if (answer.reason == tenon::FinishReason::length)
      ++outcome.cut;
    else
      ++(is_character(answer.text) ? outcome.valid : outcome.wrong);
    if (is_character(answer.text)) outcome.tokens.push_back(answer.ids.size());
  }
  const auto after = engine.stats();
  outcome.ms_a_step = 1000 * (after.seconds - before.seconds) / static_cast<double>(after.steps - before.steps);
  return outcome;
}

// Percentage of samples that are complete within each budget, without and with finish_within_budget. False if one of
// the latter is incomplete, since the shortest valid text is shorter than every budget.
bool within_budgets(tenon::Engine<tenon::Gpt2>& engine, const std::shared_ptr<const tenon::Constraint>& character,
                    const std::vector<std::string>& adapters, int count, example::Csv& csv) {
  std::vector<Outcome> free;
  for (const std::string& adapter : adapters) free.push_back(run(engine, samples(character, adapter, count)));
  bool all = true;
  std::printf("\n%-8s%14s%14s%22s%14s\n", "tokens", "plain", "characters", "finished: plain", "characters");
  for (const int budget : {36, 40, 48, 64, 80, 120}) {
    double whole[2] = {}, finished[2] = {};
    for (std::size_t a = 0; a < adapters.size(); ++a) {
      auto requests = samples(character, adapters[a], count);
      for (auto& request : requests)
        request.options.max_new_tokens = budget, request.options.finish_within_budget = true;
      const auto fits = [&](std::size_t tokens) { return tokens <= static_cast<std::size_t>(budget); };
      whole[a] = 100.0 * static_cast<double>(std::count_if(free[a].tokens.begin(), free[a].tokens.end(), fits)) / count;
      finished[a] = 100.0 * static_cast<double>(run(engine, requests).tokens.size()) / count;
      all = all && finished[a] == 100;
    }
    std::printf("%-8d%12.0f %%%12.0f %%%20.0f %%%12.0f %%\n", budget, whole[0], whole[1], finished[0], finished[1]);
    csv.row(budget, whole[0], whole[1], finished[0], finished[1]);
  }
  return all;
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--samples", "100"}, {"--threads", "0"}});
  example::Csv csv(arguments.text("--csv"), "tokens,plain,characters,plain_finished,characters_finished");
  const std::string& model = arguments.text("--model");
  const auto files = tenon::load_checkpoint(model);
  // [engine]
  tenon::Engine<tenon::Gpt2> engine{files, {.threads = arguments.number("--threads")}};
  tenon::constrain::Constraints constraints(
      tenon::constrain::Vocabulary::from(*files.tokenizer, engine.config().vocab, engine.config().eos));
  const auto character =
      constraints.json_schema(kCharacter);  // compiled once; throws if a schema cannot be enforced exactly
  // [/engine]
  bool sound = true;
  for (const std::string adapter : {"", "characters"}) {
    const Outcome o = run(engine, samples(character, adapter.empty() ? "" : model + "/adapters/" + adapter,
                                          arguments.number("--samples")));
    std::printf("%-11s %3d valid, %d cut off, %d wrong; the first: %s\n",
                adapter.empty() ? "plain model" : adapter.c_str(), o.valid, o.cut, o.wrong, o.first.c_str());
    sound = sound && o.wrong == 0 && o.valid > 0;
  }
  sound = within_budgets(engine, character, {"", model + "/adapters/characters"}, arguments.number("--samples"), csv) &&
          sound;
  std::vector<double> with, without;
  for (int round = 0; round < 5; ++round) {
    auto free = samples(nullptr, "", 32);
    for (auto& request : free) request.options.max_new_tokens = 40, request.options.ignore_eos = true;
    auto bound = samples(constraints.json_schema(R"({"type": "string", "minLength": 200})"), "", 32);
    for (auto& request : bound) request.options.max_new_tokens = 40;
    without.push_back(run(engine, free).ms_a_step);
    with.push_back(run(engine, bound).ms_a_step);
  }
  std::sort(with.begin(), with.end());
  std::sort(without.begin(), without.end());
  std::printf("\na step of 32 rows: %.2f ms without constraints, %.2f ms with (medians of 5 rounds)\n", without[2],
              with[2]);
  return example::verdict("every complete text satisfies its schema", sound);
} catch (const std::exception& error) {
  return example::failed(error);
}
