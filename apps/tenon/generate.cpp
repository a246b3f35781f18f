// tenon generate: one prompt; the text is printed token by token.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <iterator>

#include "commands.h"
#include "constraints.h"
#include "exits.h"
#include "output.h"
#include "sampling.h"
#include "tenon/core/error.h"

namespace program {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

// Standard input, without the final newline that `echo` adds.
std::string prompt_of(const GenerateCommand& command) {
  if (command.prompt) return *command.prompt;
  if (::isatty(STDIN_FILENO) == 1) throw UsageError("PROMPT is missing: name one, or send it to standard input");
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// The likeliest tokens at one position, and the chosen one.
std::string candidate_table(const tenon::Tokenizer& tokenizer, const tenon::Event& event, std::size_t number,
                            double ms) {
  std::string table = formatted("token %zu: %s  (id %d, %.2f ms)\n", number,
                                in_quotes(tokenizer.bytes(event.token)).c_str(), event.token, ms);
  for (const tenon::TokenLogprob& each : event.top_logprobs) {
    table += formatted("  %c %.4f  %s\n", each.id == event.token ? '>' : ' ',
                       std::exp(static_cast<double>(each.logprob)), in_quotes(tokenizer.bytes(each.id)).c_str());
  }
  return table;
}

// A constrained text that was cut need not satisfy its constraint.
void say_if_cut(const GenerateCommand& command, tenon::FinishReason reason) {
  if (reason != tenon::FinishReason::length || !(command.schema || command.regex || command.grammar)) return;
  say("the text was cut at " + std::to_string(command.options.max_new_tokens) +
      " tokens, so it may not be whole; a larger --max-new-tokens" +
      (command.options.finish_within_budget ? "" : ", or --finish, which completes it within them,") + " avoids that");
}

class Timing {
 public:
  void start() { last_ = Clock::now(); }
  double token() {
    const auto now = Clock::now();
    ms_.push_back(ms_between(last_, now));
    last_ = now;
    return ms_.back();
  }

  // The first token includes the prompt's time; every other token is one row of decoding.
  void print(double load_ms, std::size_t prompt_tokens) const {
    std::string text = formatted("load                 %10.1f ms\n", load_ms);
    if (!ms_.empty()) {
      text += formatted("time to first token  %10.2f ms  (prefill of %zu tokens, %.0f tokens/s)\n", ms_[0],
                        prompt_tokens, 1e3 * static_cast<double>(prompt_tokens) / ms_[0]);
    }
    if (ms_.size() > 1) {
      double sum = 0;
      for (std::size_t i = 1; i < ms_.size(); ++i) sum += ms_[i];
      const double mean = sum / static_cast<double>(ms_.size() - 1);
      text += formatted("decode               %10.2f ms a token  (%zu tokens, %.0f tokens/s)\n", mean, ms_.size() - 1,
                        1e3 / mean);
      text += "ms per token        ";
      for (const double ms : ms_) text += formatted(" %.2f", ms);
      text += '\n';
    }
    std::fwrite(text.data(), 1, text.size(), stderr);
  }

 private:
  Clock::time_point last_;
  std::vector<double> ms_;  // time of each token after the first
};

}  // namespace

int generate(const GenerateCommand& command) {
  tenon::Request request{
      .prompt = prompt_of(command), .options = command.options, .parse_special = command.parse_special};
  if (command.adapter) request.adapters.push_back({*command.adapter});
  const auto begin = Clock::now();
  const auto files = open_model(command.model);
  need_tokenizer(files, "generate");
  ModelOptions options = with_stored_weights(command.model, files);
  if (options.lora == "merged") options.merged.swap(request.adapters);
  if (command.generation.config)
    request.options = with_generation_config(files, request.options, command.generation.given);
  const auto engine = make_engine(options, files);
  RequestConstraints constraints(engine->tokenizer(), engine->config());
  if (command.schema) request.constraint = constraints.schema_file(*command.schema);
  if (command.regex) request.constraint = constraints.regex(*command.regex);
  if (command.grammar) request.constraint = constraints.grammar_file(*command.grammar);
  const double load_ms = ms_between(begin, Clock::now());

  if (command.top > 0) request.options.top_logprobs = std::min(command.top, engine->config().vocab);
  const std::size_t prompt_tokens =
      command.timing ? files.tokenizer->encode_prompt(request.prompt, request.parse_special).size() : 0;
  Output output;
  std::string text;  // the whole text, for the tables at the end
  Timing timing;
  timing.start();
  engine->submit(std::move(request));
  engine->set_draining(true);
  std::string error;
  auto reason = tenon::FinishReason::stop;
  for (std::size_t number = 0; !engine->idle();) {
    for (const tenon::Event& event : step_or_wait(*engine)) {
      if (event.kind == tenon::Event::Kind::error) error = event.error;
      if (event.kind == tenon::Event::Kind::finished) reason = event.reason;
      if (event.kind == tenon::Event::Kind::token) {
        const double ms = timing.token();
        if (command.top > 0) output.write(candidate_table(*files.tokenizer, event, ++number, ms));
      }
      if (command.top > 0)
        text += event.text;
      else
        output.write(event.text);
    }
    output.flush();
  }
  output.write(text + "\n");
  output.flush();
  if (command.timing) timing.print(load_ms, prompt_tokens);
  if (!error.empty()) {
    say(error);
    return 1;
  }
  say_if_cut(command, reason);
  return 0;
}

}  // namespace program
