// tenon run: JSON lines in, JSON lines out in the same order. All requests share one engine.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "commands.h"
#include "constraints.h"
#include "conversations.h"
#include "counters.h"
#include "exits.h"
#include "json_lines.h"
#include "output.h"
#include "prepare_line.h"
#include "progress.h"
#include "request_line.h"
#include "tenon/checkpoint/embedding_recipe.h"
#include "tenon/checkpoint/generation_config.h"
#include "tenon/engine/prepared_request.h"

namespace program {
namespace {

struct Job {
  ParsedRequest line;
  AnswerParts parts;
  std::size_t prompt_tokens = 0;  // of a line of a batch file
  tenon::Completion completion;
  std::string answer;  // empty: not finished yet
};

std::vector<Job> read_jobs(std::istream& in, const RequestDefaults& defaults) {
  std::vector<Job> jobs;
  std::string line;
  for (int number = 0; next_line(in, line, number);) jobs.emplace_back().line = parse_request(line, number, defaults);
  return jobs;
}

// A text for an embedding, as the model's folder wants it: EmbeddingRecipe::prompt and max_tokens.
void prepare_text(tenon::Request& request, const tenon::AnyEngine& engine, const RunCommand& command) {
  if (!request.prompt.empty()) request.prompt.insert(0, command.prefix);
  if (command.most_tokens == 0 || !engine.tokenizer()) return;
  tokenize(request, *engine.tokenizer(), engine.config().positions);
  if (request.input_ids.size() > static_cast<std::size_t>(command.most_tokens))
    throw tenon::Error(tenon::Error::Kind::invalid_request, "text",
                       "has " + std::to_string(request.input_ids.size()) +
                           " tokens; max_seq_length of sentence_bert_config.json is " +
                           std::to_string(command.most_tokens));
}

// Compiles constraints and renders conversations. Runs before the first step, because one request's schema would delay
// all others.
void prepare(std::vector<Job>& jobs, const tenon::AnyEngine& engine, RequestConstraints& constraints,
             Conversations& conversations, const RunCommand& command) {
  const bool embeds = command.pooling == tenon::Pooling::last || command.pooling == tenon::Pooling::mean;
  for (Job& job : jobs) {
    ParsedRequest& line = job.line;
    if (!line.error.empty()) continue;
    try {
      prepare_line(line, engine, constraints, conversations);
      job.prompt_tokens = line.request.input_ids.size();
      if (embeds) prepare_text(line.request, engine, command);
    } catch (const std::exception& error) {
      line.error = error.what();
    }
    line.constraint = {};
    line.conversation.reset();
  }
}

// The adapters of the first request that has any, to be merged into the weights. Requests with other adapters are
// refused.
std::vector<tenon::AdapterUse> merge_first(std::vector<Job>& jobs) {
  const auto asks = [](const Job& job) { return job.line.error.empty() && !job.line.request.adapters.empty(); };
  const auto first = std::find_if(jobs.begin(), jobs.end(), asks);
  if (first == jobs.end()) throw UsageError("--lora merged: no request names an adapter");
  const std::vector<tenon::AdapterUse> merged = first->line.request.adapters;
  for (Job& job : jobs) {
    if (!job.line.error.empty()) continue;
    if (job.line.request.adapters == merged)
      job.line.request.adapters.clear();
    else
      job.line.error =
          "request: adapter: must be that of the first request that names one, because --lora merged serves no other";
  }
  return merged;
}

class JsonLinesRun {
 public:
  // model: the name that answers of batch files give it.
  // normalize: embeddings.
  JsonLinesRun(tenon::AnyEngine& engine, std::vector<Job> jobs, std::string model, bool normalize)
      : engine_(engine),
        model_(std::move(model)),
        normalize_(normalize),
        jobs_(std::move(jobs)),
        order_(jobs_.size()),
        progress_("requests", jobs_.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return jobs_[a].line.delay_ms < jobs_[b].line.delay_ms; });
  }

  // Returns the number of requests that failed.
  int work() {
    submit_due();
    print_answers();
    while (printed_ < jobs_.size()) {
      if (open_.empty()) std::this_thread::sleep_until(due(order_[submitted_]));
      submit_due();
      step();
      print_answers();
      progress_.update(submitted_ - open_.size(), engine_.stats().tokens);
    }
    return failed_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point due(std::size_t job) const {
    return begin_ + std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double, std::milli>(jobs_[job].line.delay_ms));
  }

  void submit_due() {
    const auto now = Clock::now();
    while (submitted_ < order_.size() && due(order_[submitted_]) <= now && submit(order_[submitted_])) ++submitted_;
    if (submitted_ == order_.size()) engine_.set_draining(true);
  }

  // Returns false if the budget for adapters is exhausted until another request ends.
  bool submit(std::size_t index) {
    Job& job = jobs_[index];
    if (!job.line.error.empty()) {
      fail(job, job.line.error);
      return true;
    }
    job.parts = answer_parts(job.line.request.options, engine_.tokenizer() != nullptr, normalize_);
    try {
      if (!tenon::take_lease(engine_, job.line.request, !open_.empty())) return false;
      open_.emplace(engine_.submit(std::move(job.line.request)), index);
    } catch (const tenon::Error& error) {
      fail(job, error.what());
    }
    return true;
  }

  void step() {
    if (open_.empty()) return;
    try {
      for (const tenon::Event& event : step_or_wait(engine_)) take(event);
    } catch (const std::exception& error) {  // an error of the engine ends every open request
      for (const auto& [request, index] : open_) {
        fail(jobs_[index], error.what(), kServerError);
        engine_.cancel(request);
      }
      open_.clear();
    }
  }

  void take(const tenon::Event& event) {
    const auto found = open_.find(event.request);
    if (found == open_.end()) return;
    Job& job = jobs_[found->second];
    if (!job.completion.add(event, job.parts.logprobs)) return;
    open_.erase(found);
    if (job.completion.reason == tenon::FinishReason::error)
      fail(job, job.completion.error, kServerError);
    else
      job.answer = job.line.batch ? batch_answer(*job.line.batch, job.completion, job.prompt_tokens,
                                                 *engine_.tokenizer(), model_, created_)
                                  : answer_line(job.line.id, job.completion, job.parts);
    job.completion = {};
  }

  // status: of HTTP, for lines of batch files.
  void fail(Job& job, std::string_view error, int status = kRefused) {
    job.answer = job.line.batch ? batch_error(*job.line.batch, error, status) : error_line(job.line.id, error);
    ++failed_;
  }

  // Prints finished answers as far as all earlier ones are printed.
  void print_answers() {
    const std::size_t before = printed_;
    for (; printed_ < jobs_.size() && !jobs_[printed_].answer.empty(); ++printed_) {
      output_.write(jobs_[printed_].answer);
      jobs_[printed_].answer = std::string();
    }
    if (printed_ > before) output_.flush();
  }

  static constexpr int kRefused = 400, kServerError = 500;

  tenon::AnyEngine& engine_;
  const std::string model_;
  const bool normalize_;
  const std::int64_t created_ = std::time(nullptr);
  std::vector<Job> jobs_;           // in the order of the input
  std::vector<std::size_t> order_;  // of submission
  std::size_t submitted_ = 0, printed_ = 0;
  std::unordered_map<tenon::RequestId, std::size_t> open_;
  int failed_ = 0;
  Output output_;
  Progress progress_;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

int run(const RunCommand& command) {
  const auto files = open_model(command.model);
  ModelOptions options = with_stored_weights(command.model, files);
  RequestDefaults defaults{.options = {.seed = options.seed, .pooling = command.pooling},
                           .parse_special = command.parse_special};
  if (command.generation_config) tenon::set_generation_defaults(*files.config, defaults.options);
  std::vector<Job> jobs;
  if (options.lora == "merged") {
    jobs = read_jobs(std::cin, defaults);
    options.merged = merge_first(jobs);
  }
  const auto engine = make_engine(options, files);
  if (options.merged.empty()) jobs = read_jobs(std::cin, defaults);
  RequestConstraints constraints(engine->tokenizer(), engine->config());
  const auto find = [&] {
    return find_chat_template(model_folder(command.model), command.chat_template, engine->tokenizer());
  };
  Conversations conversations(find, engine->tokenizer(), engine->config());
  prepare(jobs, *engine, constraints, conversations, command);
  const int failed = JsonLinesRun(*engine, std::move(jobs), model_name(command.model), command.normalize).work();
  print_counters(engine->stats());
  return failed == 0 ? 0 : 1;
}

int embed(const EmbedCommand& command) {
  RunCommand lines = command.run;
  std::optional<tenon::Pooling> pooling;
  if (!command.pooling.empty()) pooling = command.pooling == "mean" ? tenon::Pooling::mean : tenon::Pooling::last;
  const std::filesystem::path folder = model_folder(lines.model);
  tenon::EmbeddingRecipe recipe{.pooling = pooling.value_or(tenon::Pooling::last)};
  const bool ranks = !tenon::is_model_file(folder) && tenon::module_folder(folder, "LogitScore");
  if (!tenon::is_model_file(folder) && !ranks) recipe = tenon::read_embedding_recipe(folder, pooling).value_or(recipe);
  lines.pooling = recipe.pooling;
  lines.prefix = recipe.prompt;
  lines.most_tokens = recipe.max_tokens;
  return run(lines);
}

}  // namespace program
