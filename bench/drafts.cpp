// Tokens a second with guesses and without, for one request at a time: prompts of bench/drafts.json, and a crowd.
//   bench_drafts MODEL [--rounds 5] [--weights float32 ...] [--tasks quote ...] [--prompts]
// MODEL is a chat model of the Llama family, such as "$(scripts/get-model smollm2)", or a GPT-2 folder, whose prompts
// are the texts alone. Three engines run in turns: without guesses, with them, without them once more. Prints a JSON
// line for each format and task: medians of the rounds. Rates count from the first token on (tok_s) or from the prompt
// on (whole_...). `copied` is the share of the answer's tokens that end four tokens of the prompt. --prompts prints the
// prompts for bench/peers/drafts_peer.py instead. Exit status 1 if an answer differs.
#include <tenon/chat/model_template.h>
#include <tenon/constrain/constraints.h>
#include <tenon/tenon.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace tenon;

constexpr int kThreads = 2, kCrowd = 32;

struct Arguments {
  std::string model;
  int rounds = 5;
  bool prompts = false;
  std::set<std::string> weights, tasks;  // empty: all

  bool wants(const OrderedJson& task, std::string_view model_type) const {
    return task.value("model", model_type) == model_type && (tasks.empty() || tasks.contains(task.at("task")));
  }
};

// One run of the requests of a task.
struct Run {
  double seconds = 0;                   // in all
  double decode_seconds = 0;            // from the moment at which all have their first token
  std::size_t tokens = 0, decoded = 0;  // of all answers; after that moment
  std::uint64_t drafted = 0, accepted = 0;
  std::vector<std::vector<TokenId>> ids = {};  // of the answers, in the order of the requests

  double rate() const { return static_cast<double>(decoded) / decode_seconds; }
  double whole_rate() const { return static_cast<double>(tokens) / seconds; }
};

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

template <class E>
Run run(E& engine, const std::vector<Request>& requests) {
  Run done;
  const EngineStats before = engine.stats();
  const auto begin = Clock::now();
  auto all_began = begin, last = begin;
  std::map<RequestId, std::vector<TokenId>> answers;  // ids of requests rise
  for (const Request& request : requests) answers[engine.submit(request)];
  std::size_t began = 0, begun_with = 0;
  while (!engine.idle()) {
    for (const Event& event : engine.step()) {
      if (event.kind == Event::Kind::error) throw std::runtime_error(event.error);
      if (event.kind != Event::Kind::token) continue;
      began += answers.at(event.request).empty();
      answers.at(event.request).push_back(event.token);
      ++done.tokens;
    }
    last = Clock::now();
    if (began == requests.size() && begun_with == 0) all_began = last, begun_with = done.tokens;
  }
  done.seconds = seconds(last - begin);
  done.decode_seconds = seconds(last - all_began);
  done.decoded = done.tokens - begun_with;
  done.drafted = engine.stats().drafted - before.drafted;
  done.accepted = engine.stats().accepted - before.accepted;
  for (auto& [id, ids] : answers) done.ids.push_back(std::move(ids));
  return done;
}

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

// The share of the tokens of `text` that end four tokens which stand in `prompt`, too.
double copied(const std::vector<TokenId>& prompt, const std::vector<TokenId>& text) {
  constexpr std::size_t kGram = 4;
  std::set<std::vector<TokenId>> grams;
  for (std::size_t i = 0; i + kGram <= prompt.size(); ++i) grams.insert({&prompt[i], &prompt[i] + kGram});
  std::size_t found = 0;
  for (std::size_t i = 0; i + kGram <= text.size(); ++i) found += grams.contains({&text[i], &text[i] + kGram});
  return text.empty() ? 0 : static_cast<double>(found) / static_cast<double>(text.size());
}

// The requests of a task for the model.
std::vector<Request> requests_of(const OrderedJson& task, const Tokenizer& tokenizer, const chat::ModelTemplate* chat) {
  Request request{.options = {.max_new_tokens = task.at("tokens"),
                              .temperature = task.value("temperature", 0.0f),
                              .seed = task.value("seed", std::uint64_t{0})}};
  if (chat != nullptr) {
    chat::Conversation conversation{.add_generation_prompt = true};
    conversation.messages.push_back({{"role", "user"}, {"content", task.at("content")}});
    const chat::Rendered rendered = chat->render(std::move(conversation));
    request.input_ids = tokenizer.encode_rendered(rendered.text, rendered.template_spans);
  } else {
    request.input_ids = tokenizer.encode(task.at("content").get<std::string>());
    request.options.ignore_eos = true;
  }
  std::vector<Request> requests(task.value("crowd", false) ? kCrowd : 1, request);
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].options.seed += i;
  return requests;
}

template <class E>
bool measure_task(const OrderedJson& task, std::array<E*, 3> engines, const std::vector<Request>& requests, int rounds,
                  const char* format) {
  std::map<std::string, std::vector<double>> all;
  bool equal = true;
  Run guessed;
  run(*engines[1], requests);  // learns what rows cost
  for (int round = 0; round < rounds; ++round) {
    std::array<Run, 3> runs;  // another engine begins each round
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t turn = (i + static_cast<std::size_t>(round)) % 3;
      runs[turn] = run(*engines[turn], requests);
    }
    const auto& [a, b, c] = runs;
    equal = equal && a.ids == b.ids && a.ids == c.ids;
    all["none_tok_s"].push_back(a.rate()), all["suffix_tok_s"].push_back(b.rate());
    all["ratio"].push_back(b.rate() / a.rate()), all["noise"].push_back(c.rate() / a.rate());
    all["whole_none_tok_s"].push_back(a.whole_rate()), all["whole_suffix_tok_s"].push_back(b.whole_rate());
    all["whole_ratio"].push_back(b.whole_rate() / a.whole_rate());
    guessed = b;
  }
  OrderedJson row = {{"weights", format},
                     {"task", task.at("task")},
                     {"kind", task.at("kind")},
                     {"rounds", rounds},
                     {"drafted", guessed.drafted},
                     {"accepted", guessed.accepted},
                     {"tokens", guessed.tokens},
                     {"prompt_tokens", requests[0].input_ids.size()},
                     {"copied", copied(requests[0].input_ids, guessed.ids.at(0))}};
  for (const auto& [name, values] : all) row[name] = median(values);
  std::printf("%s\n", row.dump().c_str());
  std::fflush(stdout);
  return equal;
}

// Whether all answers are equal.
template <class Family, class P>
bool measure(const Arguments& arguments, const OrderedJson& tasks, const ModelFiles& files, const char* format) {
  using E = Engine<Family, Weights<P>>;
  if (!arguments.weights.empty() && !arguments.weights.contains(format)) return true;
  const auto make = [&](int guesses) {
    return E(files,
             EngineOptions{.batch = kCrowd, .threads = kThreads, .prefix_reuse = false, .draft_tokens = guesses});
  };
  E none = make(0), guessing = make(EngineOptions{}.draft_tokens), again = make(0);
  const Tokenizer& tokenizer = *files.tokenizer;
  const auto chat = chat::ModelTemplate::find(arguments.model, tokenizer);
  constrain::Constraints constraints(constrain::Vocabulary::from(tokenizer, none.config().vocab, none.config().eos));
  bool equal = true;
  for (const OrderedJson& task : tasks) {
    if (!arguments.wants(task, Family::model_type)) continue;
    std::vector<Request> requests = requests_of(task, tokenizer, chat ? &*chat : nullptr);
    if (task.contains("schema"))
      for (Request& request : requests) request.constraint = constraints.json_schema(task["schema"]);
    equal = measure_task<E>(task, {&none, &guessing, &again}, requests, arguments.rounds, format) && equal;
  }
  return equal;
}

// Prompts of single greedy requests without a schema, as JSON lines.
void print_prompts(const Arguments& arguments, const OrderedJson& tasks, const ModelFiles& files,
                   const std::vector<TokenId>& eos) {
  const auto chat = chat::ModelTemplate::find(arguments.model, *files.tokenizer);
  for (const OrderedJson& task : tasks) {
    if (!arguments.wants(task, model_type_of(files)) || task.contains("schema") || task.contains("temperature"))
      continue;
    const std::vector<Request> requests = requests_of(task, *files.tokenizer, chat ? &*chat : nullptr);
    const OrderedJson line = {{"task", task["task"]},
                              {"ids", requests[0].input_ids},
                              {"tokens", task["tokens"]},
                              {"eos", requests[0].options.ignore_eos ? std::vector<TokenId>{} : eos}};
    std::printf("%s\n", line.dump().c_str());
  }
}

template <class Family>
bool measure_formats(const Arguments& arguments, const OrderedJson& tasks, const ModelFiles& files) {
  bool equal = measure<Family, Float32>(arguments, tasks, files, "float32");
  equal = measure<Family, BFloat16>(arguments, tasks, files, "bfloat16") && equal;
  equal = measure<Family, ZeroPointInt8Act8>(arguments, tasks, files, "int8_act8") && equal;
  equal = measure<Family, ZeroPointInt8>(arguments, tasks, files, "int8") && equal;
  return measure<Family, GroupInt4>(arguments, tasks, files, "int4") && equal;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  std::string option;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--prompts") {
      arguments.prompts = true;
    } else if (word.starts_with("--")) {
      option = word;
    } else if (option.empty()) {
      arguments.model = word;
    } else if (option == "--rounds") {
      arguments.rounds = std::stoi(word);
    } else if (option == "--weights") {
      arguments.weights.insert(word);
    } else if (option == "--tasks") {
      arguments.tasks.insert(word);
    } else {
      throw std::runtime_error("unknown option " + option);
    }
  }
  if (arguments.model.empty())
    throw std::runtime_error("usage: bench_drafts MODEL [--rounds N] [--weights ...] [--tasks ...] [--prompts]");
  return arguments;
}

}  // namespace

int main(int argc, char** argv) try {
  const Arguments arguments = parse(argc, argv);
  std::ifstream file(TENON_BENCH_DIR "/drafts.json");
  const OrderedJson tasks = OrderedJson::parse(file);
  const ModelFiles files = load_checkpoint(arguments.model);
  if (files.tokenizer == nullptr) throw std::runtime_error(arguments.model + ": has no tokenizer");
  const bool is_llama = model_type_of(files) == Llama::model_type;
  if (arguments.prompts) {
    print_prompts(arguments, tasks, files,
                  (is_llama ? Llama::configure(*files.config) : Gpt2::configure(*files.config)).eos);
    return 0;
  }
  const bool equal =
      is_llama ? measure_formats<Llama>(arguments, tasks, files) : measure_formats<Gpt2>(arguments, tasks, files);
  std::printf("%s\n", equal ? "all answers are equal" : "ANSWERS DIFFER");
  return equal ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
