// The subcommands: their parameters, and the functions that run them. Each function returns the exit status.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "options.h"
#include "tenon/core/request.h"
#include "tenon/io/json.h"
#include "tenon/lab/cost.h"
#include "tenon/lab/trace.h"

namespace program {

// The source of the defaults of sampling.
struct Generation {
  bool config = false;                  // use generation_config.json
  std::vector<std::string> given = {};  // parameters that the command line names
};

struct GenerateCommand {
  ModelOptions model;
  std::optional<std::string> prompt;                  // absent: standard input
  std::optional<std::string> adapter;                 // a folder; absent: the plain model
  std::optional<std::string> schema, regex, grammar;  // a file, a pattern, a file; at most one is set
  tenon::Options options = {.max_new_tokens = 64};
  bool parse_special = false;  // special tokens in `prompt` become their ids
  Generation generation = {};
  int top = 0;  // number of candidates to show per token; 0: none
  bool timing = false;
};
int generate(const GenerateCommand& command);

inline constexpr int kChatBatch = 8;  // answers of `tenon chat` at once

struct ChatCommand {
  ModelOptions model;
  std::optional<std::string> message;  // the first one
  std::optional<std::string> adapter, system;
  std::string chat_template;                                 // a file; empty: the model's own
  tenon::OrderedJson kwargs = tenon::OrderedJson::object();  // of the chat template
  // Greedy answers of small models repeat themselves.
  tenon::Options options = {.max_new_tokens = 1024, .temperature = 0.7f, .top_p = 0.95f};
  std::vector<std::string> given = {};  // parameters that the command line names
  std::string history;                  // a file; empty: none
  bool timing = false;
};
int chat(const ChatCommand& command);

struct ChatBatchCommand {
  ModelOptions model;
  std::vector<std::string> rows;  // "PROMPT@ADAPTER_DIR" or "PROMPT"
  tenon::Options options = {.max_new_tokens = 64};
  Generation generation = {};
};
int chat_batch(const ChatBatchCommand& command);

struct RunCommand {
  ModelOptions model;
  bool parse_special = false;      // default of requests
  std::string chat_template;       // a file; empty: the model's own
  bool generation_config = false;  // defaults of sampling from generation_config.json
  // `tenon classify` and `tenon embed`: the lines are prompts, and the answers classes or embeddings.
  tenon::Pooling pooling = tenon::Pooling::none;
  bool normalize = true;  // embeddings
  std::string prefix;     // stands before each text for an embedding
  int most_tokens = 0;    // of such a text; 0: as many as the model has
};
int run(const RunCommand& command);

struct EmbedCommand {
  RunCommand run;
  std::string pooling;  // last or mean; empty: as the model's folder says, else last
};
int embed(const EmbedCommand& command);

struct VerifyCommand {
  ModelOptions model;
  std::vector<std::string> public_keys;  // files; empty: signatures are not checked
  std::string from_api;                  // a file of answers of OpenAI's API, "-": standard input; empty: receipts
  std::string chat_template;             // from_api: a file; empty: the model's own
};
int verify(const VerifyCommand& command);

struct TokensCommand {
  std::string model;  // empty: the default model
  bool decode = false;
  bool special = false;        // add the special tokens of a prompt
  bool parse_special = false;  // spellings of special tokens become their ids
};
int tokens(const TokensCommand& command);

struct ConstrainCommand {
  std::string tokenizer;  // empty: 256 single bytes
  std::string walk = "bpe";
  int audit = 0;  // steps of every text to audit
  std::vector<std::string> options;
};
int constrain(const ConstrainCommand& command);

struct InspectCommand {
  ModelOptions model;
  bool all_tensors = false;
  bool errors = false;  // measure the errors of other weight formats on all rows
  bool load = false;    // load the model and report the memory
};
int inspect(const InspectCommand& command);

struct QuantizeCommand {
  std::string model, out;
  bool gguf = false;  // write a GGUF file, not a folder
  std::string weights;
  int group = 32;   // columns of int4 that share a scale
  int threads = 0;  // 0: all cores
};
int quantize(const QuantizeCommand& command);

struct MergeCommand {
  std::string model, adapter, out;
  std::string dtype;  // float32, bfloat16 or float16; empty: each tensor keeps its own
  int threads = 0;    // 0: all cores
};
int merge(const MergeCommand& command);

struct ConvertCommand {
  std::string model, out;
};
int convert(const ConvertCommand& command);

// Generates four tokens after a prompt of one, or fewer if the model has too few positions. Returns their number. A
// model or adapter that gives no text classifies or embeds the prompt.
int generate_few(tenon::AnyEngine& engine, const std::vector<tenon::AdapterUse>& adapters = {});

struct CheckCommand {
  ModelOptions model;
  std::string adapter_root, adapter_id;
};
int check(const CheckCommand& command);

struct BenchCommand {
  ModelOptions model;
  std::vector<std::string> cases = {"decode", "prefill"};
  std::vector<int> batches = {1, 8, 32, 128};
  int prompt = 7, new_tokens = 64;
  std::string random;  // name of a shape with random weights; empty: a model folder
  bool json = false;
};
int bench(const BenchCommand& command);

struct LabCommand {
  std::vector<std::string> schedulers = {"continuous"};
  int batch = 32, token_budget = 512, cache_tokens = 32768;
  int max_wait_ms = 50;           // used by the static scheduler
  std::string order = "arrival";  // used by the continuous scheduler: arrival or longest
  int patience_ms = 30000;
  bool prefix_reuse = true;
  std::string trace;  // a file; empty: a random trace
  tenon::lab::TraceOptions random = {.rate = 3};
  tenon::lab::StepCost cost = {};
  std::string slots, write_trace;  // files to write
  bool draw = false, json = false;
};
int lab(const LabCommand& command);

}  // namespace program
