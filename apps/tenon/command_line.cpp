#include "command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <iostream>
#include <iterator>
#include <limits>
#include <random>
#include <set>

#include "commands.h"
#include "exits.h"
#include "output.h"
#include "sampling.h"
#include "shapes.h"
#include "tenon/version.h"

namespace program {
namespace {

constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr const char* kEngineGroup = "Model and engine";
constexpr const char* kSamplingGroup = "Sampling";

// Adds an option with a fixed set of words, the first of which is the default.
template <std::size_t N>
CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& value, const char* const (&words)[N],
                        const std::string& help) {
  const std::vector<std::string> list(std::begin(words), std::end(words));
  return app.add_option(name, value, help + ": " + joined(list))
      ->check(CLI::IsMember(list))
      ->option_text("WORD (" + list[0] + ")")
      ->group(kEngineGroup);
}

void add_number(CLI::App& app, const std::string& name, int& value, int low, const std::string& shown,
                const std::string& help) {
  app.add_option(name, value, help)
      ->check(CLI::Range(low, kMaxInt))
      ->option_text("N (" + shown + ")")
      ->group(kEngineGroup);
}

// Checks a seed. CLI11 itself turns -1 into 2^64 - 1, and clamps 2^64 to it.
std::string is_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seed);
  const bool whole = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  return whole ? "" : "must be an integer from 0 to 2^64 - 1, is " + text;
}

std::string is_folder_name(const std::string& folder) { return folder.empty() ? "a folder is needed" : ""; }

CLI::Option* add_model(CLI::App& app, std::string& model) {
  return app
      .add_option("--model", model,
                  "folder of a checkpoint, a GGUF file, or org/name in the hub cache; without it, the default model")
      ->option_text("DIR")
      ->group(kEngineGroup)
      ->check(is_folder_name);
}

// with_batch: whether to add --batch. `tenon bench` has its own.
void add_engine_options(CLI::App& app, ModelOptions& o, bool with_batch = true) {
  add_model(app, o.model);
  add_choice(app, "--weights", o.weights, words::weights,
             "weight format; the default for a quantised folder is its own")
      ->each([&o](const std::string&) { o.weights_given = true; });
  add_choice(app, "--head", o.head, words::head,
             "format of the head: same as the weights, or an int8 copy that is read first, with the same result");
  add_choice(app, "--cache", o.cache, words::cache, "cache of keys and values");
  app.add_option("--block", o.block, "tokens per block of the paged cache: 16, 32, 64")
      ->check(CLI::IsMember({16, 32, 64}))
      ->option_text("N (16)")
      ->group(kEngineGroup);
  add_choice(app, "--kv", o.kv, words::kv, "element of keys and values");
  add_choice(app, "--attention", o.attention, words::attention, "attention algorithm");
  add_choice(app, "--scheduler", o.scheduler, words::scheduler, "scheduling policy");
  add_number(app, "--max-wait-ms", o.max_wait_ms, 0, "50",
             "static scheduler: a batch that is not full starts after this wait");
  add_choice(app, "--lora", o.lora, words::lora, "how adapters are applied");
  add_choice(app, "--draft", o.draft, words::draft,
             "how tokens are guessed, to verify several in a step; no answer changes");
  app.add_option("--adapter-slots", o.adapter_slots,
                 "adapters in memory at once; a request for another one waits until one is idle")
      ->check(CLI::Range(1, kMaxInt))
      ->option_text("N (any number)")
      ->group(kEngineGroup);
  add_choice(app, "--device", o.device, words::device, "device that runs the model");
  app.add_option("--threads", o.threads, "threads that compute")
      ->check(CLI::Range(1, 4096))
      ->option_text("N (all cores)")
      ->group(kEngineGroup);
  if (with_batch) add_number(app, "--batch", o.batch, 1, "32", "sequences that run at once");
  add_number(app, "--token-budget", o.token_budget, 1, "512", "rows per step; a longer prompt is read in chunks");
  app.add_option(
         "--cache-tokens", o.cache_tokens,
         "cache capacity in tokens, for all sequences together; by default --batch longest sequences, up to 2 GiB, "
         "but at least one")
      ->check(CLI::Range(1, kMaxInt))
      ->option_text("N")
      ->group(kEngineGroup);
  app.add_option(
         "--positions", o.positions,
         "tokens of the longest sequence; by default what the model's files say. Only rotary and ALiBi positions "
         "allow more")
      ->check(CLI::Range(1, kMaxInt))
      ->option_text("N")
      ->group(kEngineGroup);
  app.add_flag_callback(
         "--no-prefix-reuse", [&o] { o.prefix_reuse = false; },
         "compute every prompt from its start, without cached prefixes; the answers of one request (n > 1) still share "
         "its prompt")
      ->group(kEngineGroup);
  app.add_option("--seed", o.seed, "seed of requests that have none of their own")
      ->check(is_seed)
      ->option_text("N (0)")
      ->group(kEngineGroup);
}

std::string option_name(std::string field) {
  std::replace(field.begin(), field.end(), '_', '-');
  return "--" + field;
}

std::string is_walk(std::string& text) {
  if (text == "bpe" || text == "bytes") return {};
  std::string seed = text.starts_with("random:") ? text.substr(7) : std::string();
  return seed.empty() ? "must be bpe, bytes or random:SEED, is " + text : is_seed(seed);
}

// "5=-1.5" of --logit-bias
std::pair<tenon::TokenId, float> parse_bias(const std::string& text) {
  std::pair<tenon::TokenId, float> bias;
  const char* const end = text.data() + text.size();
  const auto id = std::from_chars(text.data(), end, bias.first);
  if (id.ec == std::errc() && id.ptr != end && *id.ptr == '=') {
    const auto value = std::from_chars(id.ptr + 1, end, bias.second);
    if (value.ec == std::errc() && value.ptr == end) return bias;
  }
  throw CLI::ValidationError("--logit-bias", "must be ID=NUMBER, as in 5=-1.5; is " + text);
}

void add_sampling_options(CLI::App& app, tenon::Options& o) {
  for (const auto& each : kIntParameters) {
    int& value = o.*each.member;
    app.add_option(option_name(each.name), value, each.help)
        ->check(CLI::Range(0, kMaxInt))
        ->option_text("N (" + std::to_string(value) + ")")
        ->group(kSamplingGroup);
  }
  for (const auto& each : kFloatParameters) {
    float& value = o.*each.member;
    app.add_option(option_name(each.name), value, each.help)
        ->option_text(formatted("X (%g)", static_cast<double>(value)))
        ->group(kSamplingGroup);
  }
  app.add_option_function<std::vector<std::string>>(
         "--logit-bias",
         [&o](const std::vector<std::string>& list) {
           for (const auto& each : list) o.logit_bias.push_back(parse_bias(each));
         },
         "added to the logit of token ID; may be repeated")
      ->allow_extra_args(false)
      ->option_text("ID=X")
      ->group(kSamplingGroup);
  app.add_option("--stop", o.stop, "text that ends the answer; may be repeated")
      ->allow_extra_args(false)
      ->option_text("TEXT")
      ->group(kSamplingGroup);
  app.add_flag("--ignore-eos", o.ignore_eos, "continue after the model's end token")->group(kSamplingGroup);
}

CLI::Option* add_chat_template(CLI::App& app, std::string& file) {
  return app.add_option("--chat-template", file, "file with a chat template in Jinja; without it, the model's own")
      ->check(CLI::ExistingFile)
      ->option_text("FILE");
}

constexpr const char* kGenerationHelp =
    "take the defaults of sampling from the model's generation_config.json, as transformers' generate does";

void add_generation_config(CLI::App& app, Generation& generation) {
  app.add_flag("--generation-config", generation.config, kGenerationHelp)->group(kSamplingGroup);
}

// The names of the sampling parameters that the command line gives.
std::vector<std::string> given_parameters(const CLI::App& app) {
  std::vector<std::string> given;
  const auto look = [&](const auto& parameters) {
    for (const auto& each : parameters)
      if (app.get_option(option_name(each.name))->count() > 0) given.emplace_back(each.name);
  };
  look(kFloatParameters);
  look(kIntParameters);
  return given;
}

constexpr const char* kRunHelp =
    "A request needs prompt, input_ids or messages; all other fields are optional:\n"
    "  {\"id\": \"a\", \"prompt\": \"text\", \"input_ids\": [1, 2], \"max_new_tokens\": 16, \"temperature\": 0, "
    "\"top_k\": 0,\n"
    "   \"top_p\": 1, \"min_p\": 0, \"typical_p\": 1, \"repetition_penalty\": 1, \"presence_penalty\": 0,\n"
    "   \"frequency_penalty\": 0, \"logit_bias\": {\"5\": -1.5}, \"seed\": 1, \"n\": 1, \"best_of\": 1, "
    "\"priority\": 0,\n"
    "   \"ignore_eos\": false, \"stop\": [\".\"], \"stop_ids\": [0], \"logits_at\": [0, 4], \"nll\": true, "
    "\"top_logprobs\": 5,\n"
    "   \"logits_hash\": true, \"receipt\": true, \"cache_salt\": \"\", \"delay_ms\": 0, \"schema\": {}, "
    "\"finish_within_budget\": "
    "false,\n"
    "   \"parse_special\": false, \"skip_special_tokens\": false, \"regex\": \"[0-9]+\", \"grammar\": \"root ::= "
    "...\",\n"
    "   \"choice\": [\"yes\", \"no\"], \"messages\": [{\"role\": \"user\", \"content\": \"Hello!\"}], \"tools\": "
    "[...],\n"
    "   \"documents\": [...], \"chat_template_kwargs\": {}, \"add_generation_prompt\": true,\n"
    "   \"continue_final_message\": false, \"prediction\": \"text\" or [3, 4],\n"
    "   \"adapter\": \"folder\" or {\"folder\": 0.7, \"other\": 0.5}}\n"
    "Its answer:\n"
    "  {\"id\": \"a\", \"output_ids\": [3, 4], \"text\": \"...\", \"finish_reason\": \"length\", \"logits\": {\"0\": "
    "[0.1]},\n"
    "   \"nll_mean\": 3.2, \"logprobs\": [-0.1], \"top_logprobs\": [[{\"id\": 3, \"logprob\": -0.1}]],\n"
    "   \"logits_hash\": \"16 hexadecimal digits\", \"receipt\": {...}, \"choices\": [{...}, ...] where n > 1}\n"
    "or {\"id\": \"a\", \"error\": \"...\"}.\n"
    "Lines of OpenAI's batch files, {\"custom_id\", \"method\", \"url\", \"body\"}, are answered as its batches are.\n"
    "The last line on stderr counts steps, preemptions, prefix_hit_tokens, "
    "tokens, seconds.";

using Action = std::function<int()>;

CLI::Option* add_parse_special(CLI::App& app, bool& parse_special) {
  return app.add_flag("--parse-special", parse_special,
                      "read spellings of special tokens in a text as special tokens; without it, they are plain text");
}

Action add_generate(CLI::App& app, GenerateCommand& c) {
  app.add_option("PROMPT", c.prompt, "the text to continue; without it, standard input");
  app.add_option("--adapter", c.adapter, "folder of a LoRA adapter in PEFT's format")
      ->check(is_folder_name)
      ->option_text("DIR");
  auto* const schema =
      app.add_option("--schema", c.schema, "JSON that satisfies the JSON Schema in this file")->option_text("FILE");
  auto* const regex = app.add_option("--regex", c.regex, "a text that the regular expression matches as a whole")
                          ->option_text("PATTERN");
  app.add_option("--grammar", c.grammar, "a text of the grammar (GBNF) in this file")
      ->option_text("FILE")
      ->excludes(schema)
      ->excludes(regex);
  regex->excludes(schema);
  app.add_flag("--finish", c.options.finish_within_budget, "complete a constrained text within --max-new-tokens");
  add_sampling_options(app, c.options);
  add_parse_special(app, c.parse_special);
  add_generation_config(app, c.generation);
  app.add_option("--top", c.top, "show the N likeliest tokens at each position, with their probabilities")
      ->check(CLI::Range(0, kMaxInt))
      ->option_text("N");
  app.add_flag("--timing", c.timing, "print times on stderr: load, first token, each token");
  add_engine_options(app, c.model);
  return [&app, &c] {
    c.options.seed = c.model.seed;
    c.generation.given = given_parameters(app);
    return generate(c);
  };
}

constexpr const char* kChatHelp =
    "Reads messages from standard input, a line each, and prints the answers. /help lists the commands of the\n"
    "conversation. On a terminal it edits lines, keeps a history, and draws colours unless NO_COLOR is set.\n"
    "Sampling: the options given, then the model's generation_config.json if that draws, then the defaults shown.\n"
    "Without --seed, every conversation draws anew.";

Action add_chat(CLI::App& app, ChatCommand& c) {
  c.model.batch = kChatBatch;
  app.add_option("MESSAGE", c.message, "the first message");
  app.add_option("--system", c.system, "the system prompt")->option_text("TEXT");
  app.add_option("--adapter", c.adapter, "adapter that answers: a folder, or a name below --adapter-root")
      ->check(is_folder_name)
      ->option_text("NAME");
  app.add_option("--adapter-root", c.model.adapter_root, "folder of adapters, which are then called by name")
      ->check(CLI::ExistingDirectory)
      ->option_text("ROOT");
  add_chat_template(app, c.chat_template);
  app.add_option_function<std::string>(
         "--chat-template-kwargs",
         [&c](const std::string& text) {
           c.kwargs = tenon::parse_json<tenon::OrderedJson>(text, "--chat-template-kwargs");
           if (!c.kwargs.is_object()) throw UsageError("--chat-template-kwargs: must be a JSON object");
         },
         "variables of the chat template, as in {\"enable_thinking\": false}")
      ->option_text("JSON");
  app.add_option("--history", c.history, "file that keeps the lines typed; without it, they are forgotten")
      ->option_text("FILE");
  app.add_flag("--timing", c.timing, "print times also where the output is no terminal, on stderr");
  add_sampling_options(app, c.options);
  add_engine_options(app, c.model, /*with_batch=*/false);
  app.footer(kChatHelp);
  return [&app, &c] {
    c.options.seed = app.get_option("--seed")->count() > 0 ? c.model.seed : std::random_device()();
    c.given = given_parameters(app);
    return chat(c);
  };
}

Action add_run(CLI::App& app, RunCommand& c) {
  app.add_flag("--generation-config", c.generation_config, kGenerationHelp);
  add_engine_options(app, c.model);
  add_parse_special(app, c.parse_special);
  add_chat_template(app, c.chat_template);
  app.footer(kRunHelp);
  return [&c] { return run(c); };
}

constexpr const char* kVerifyHelp =
    "A line is a receipt, or an answer that has one, as `tenon run` and the server write them. Its answer is\n"
    "  {\"id\": \"a\", \"holds\": true}\n"
    "or {\"id\": \"a\", \"holds\": false, \"field\": \"ids\", \"position\": 3, \"why\": \"...\"}.\n"
    "Exit status 0: all hold; 1: one does not. The options that decide bits must be those of the run: --weights, "
    "--head, --kv,\n"
    "--attention.\n"
    "With --from-api a line is a request of OpenAI's API and the answer of any server,\n"
    "  {\"request\": {...}, \"response\": {...}}\n"
    "or lines of OpenAI's batch files in their place. Its answer says whether this model answers so, too:\n"
    "  {\"id\": \"a\", \"same\": true, \"tokens\": 12, \"logprob_difference\": 1e-6}\n"
    "or {\"id\": \"a\", \"same\": false, \"field\": \"choices[0].text\", \"position\": 3, \"character\": 9, "
    "\"theirs\": "
    "\"...\",\n"
    "\"ours\": \"...\"}. \"same\" is null where `not_compared` names why. Exit status 0: all are the same.";

Action add_verify(CLI::App& app, VerifyCommand& c) {
  add_engine_options(app, c.model);
  app.add_option("--adapter-root", c.model.adapter_root,
                 "folder of the adapters that the receipts name; without it, their names are folders")
      ->check(CLI::ExistingDirectory)
      ->option_text("ROOT");
  auto* const keys =
      app.add_option("--public-key", c.public_keys,
                     "file of the public key (PEM, Ed25519) that receipts must be signed by; may be repeated")
          ->allow_extra_args(false)
          ->option_text("FILE");
  auto* const from_api =
      app.add_option("--from-api", c.from_api, "compare the answers of a server in this file, - for standard input")
          ->excludes(keys)
          ->option_text("FILE");
  add_chat_template(app, c.chat_template)->needs(from_api);
  app.footer(kVerifyHelp);
  return [&c] { return verify(c); };
}

constexpr const char* kClassifyHelp =
    "A line is {\"id\": \"a\", \"text\": \"...\" or \"input_ids\": [1, 2], \"adapter\": \"folder\", \"cache_salt\": "
    "\"\",\n"
    "\"parse_special\": false}. Its answer is {\"id\": \"a\", \"logits\": [0.1, -0.2], \"label\": 0} or {\"id\": "
    "\"a\", \"error\": \"...\"}.\n"
    "The head is that of the adapter, or else of the model.";
constexpr const char* kEmbedHelp =
    "A line is {\"id\": \"a\", \"text\": \"...\" or \"input_ids\": [1, 2], \"adapter\": \"folder\", \"cache_salt\": "
    "\"\",\n"
    "\"parse_special\": false}. Its answer is {\"id\": \"a\", \"embedding\": [0.1, -0.2, ...]} or {\"id\": \"a\", "
    "\"error\": \"...\"}.";

Action add_classify(CLI::App& app, RunCommand& c) {
  c.pooling = tenon::Pooling::classify;
  add_engine_options(app, c.model);
  add_parse_special(app, c.parse_special);
  app.footer(kClassifyHelp);
  return [&c] { return run(c); };
}

Action add_embed(CLI::App& app, EmbedCommand& c) {
  app.add_option("--pooling", c.pooling,
                 "last: the last token; mean: all tokens; without it, as modules.json of the model says, or last")
      ->check(CLI::IsMember({"last", "mean"}))
      ->option_text("WORD");
  app.add_flag("--normalize,!--no-normalize", c.run.normalize, "divide by the Euclidean length (the default)");
  add_engine_options(app, c.run.model);
  add_parse_special(app, c.run.parse_special);
  app.footer(kEmbedHelp);
  return [&c] { return embed(c); };
}

Action add_tokens(CLI::App& app, TokensCommand& c) {
  add_model(app, c.model);
  auto* const decode = app.add_flag("--decode", c.decode, "{\"ids\": [...]} to {\"text\": ...}");
  app.add_flag("--special", c.special, "add the special tokens of a prompt, such as Llama's begin of text")
      ->excludes(decode);
  add_parse_special(app, c.parse_special)->excludes(decode);
  return [&c] { return tokens(c); };
}

Action add_constrain(CLI::App& app, ConstrainCommand& c) {
  app.add_option("--tokenizer", c.tokenizer, "folder of a tokenizer; without it, single bytes and an end token")
      ->check(is_folder_name)
      ->option_text("DIR");
  app.add_option("--walk", c.walk, "how texts are split into tokens: bpe, bytes, random:SEED")
      ->check(CLI::Validator(is_walk, ""))
      ->option_text("WORD (bpe)");
  app.add_option("--audit", c.audit, "compare the masks of the first N steps of every text with a check of every token")
      ->check(CLI::Range(0, kMaxInt))
      ->option_text("N (0)");
  app.add_option("--option", c.options,
                 "option of JSON Schemas: whitespace=single|compact|flexible, additional_properties=closed|spec, "
                 "one_of=disjoint|any; may be repeated")
      ->allow_extra_args(false)
      ->option_text("K=V");
  return [&c] { return constrain(c); };
}

Action add_inspect(CLI::App& app, InspectCommand& c) {
  CLI::Option* const model = add_model(app, c.model.model);
  app.add_option("DIR", c.model.model, "as --model DIR")->check(is_folder_name)->excludes(model)->option_text(" ");
  app.add_flag("--tensors", c.all_tensors, "list every tensor");
  app.add_flag("--errors", c.errors, "measure the error of other weight formats on all rows of the matrices");
  auto* const device = add_choice(app, "--device", c.model.device, words::device,
                                  "also load the model on this device, and print its memory");
  device->each([&c](const std::string&) { c.load = true; });
  add_choice(app, "--weights", c.model.weights, words::weights, "with --device: weight format")
      ->each([&c](const std::string&) { c.model.weights_given = true; })
      ->needs(device);
  return [&c] { return inspect(c); };
}

Action add_quantize(CLI::App& app, QuantizeCommand& c) {
  add_model(app, c.model);
  const std::vector<std::string> folders{"int8",        "int8_tensor", "int8_group32", "int4",   "nf4",
                                         "float8_e4m3", "float8_e5m2", "bfloat16",     "float16"};
  const std::vector<std::string> files{"q8_0", "q4_0", "float32", "float16", "bfloat16"};
  app.add_option("--weights", c.weights, "the format to write: " + joined(folders) + "; to GGUF: " + joined(files))
      ->required()
      ->option_text("WORD (required)")
      ->group(kEngineGroup);
  app.add_option_function<std::string>(
         "--to", [&c](const std::string& kind) { c.gguf = kind == "gguf"; },
         "the files to write: folder (safetensors), or gguf for one file that llama.cpp reads")
      ->check(CLI::IsMember({"folder", "gguf"}))
      ->option_text("WORD (folder)")
      ->group(kEngineGroup);
  auto* group = app.add_option("--group", c.group, "columns of int4 that share a scale: 32, 64, 128")
                    ->check(CLI::IsMember({32, 64, 128}))
                    ->option_text("N (32)")
                    ->group(kEngineGroup);
  app.add_option("--threads", c.threads, "threads that compute")
      ->check(CLI::Range(1, 4096))
      ->option_text("N (all cores)")
      ->group(kEngineGroup);
  app.add_option("OUT", c.out, "folder to write, which must not have a model yet, or a new GGUF file")
      ->required()
      ->check(is_folder_name);
  return [&c, group, folders, files] {
    for (char& letter : c.weights) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    const auto& formats = c.gguf ? files : folders;
    if (std::find(formats.begin(), formats.end(), c.weights) == formats.end())
      throw UsageError("--weights: " + c.weights + " is not in {" + joined(formats) + "}" +
                       (c.gguf ? " for --to gguf" : ""));
    if (group->count() > 0 && c.weights != "int4")
      throw UsageError("--group " + std::to_string(c.group) + " is of int4 only; --weights is " + c.weights);
    return quantize(c);
  };
}

Action add_merge(CLI::App& app, MergeCommand& c) {
  add_model(app, c.model);
  app.add_option("--adapter", c.adapter, "folder of an adapter in PEFT's format")
      ->required()
      ->check(is_folder_name)
      ->option_text("DIR (required)");
  app.add_option("--out", c.out, "folder to write, which must not exist")
      ->required()
      ->check(is_folder_name)
      ->option_text("DIR (required)");
  app.add_option("--dtype", c.dtype,
                 "type of all weights: float32, bfloat16 or float16; without it, each keeps its own. Quantised weights "
                 "are decoded to it")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
      ->option_text("WORD");
  app.add_option("--threads", c.threads, "threads that compute")
      ->check(CLI::Range(1, 4096))
      ->option_text("N (all cores)")
      ->group(kEngineGroup);
  return [&c] { return merge(c); };
}

Action add_convert(CLI::App& app, ConvertCommand& c) {
  app.add_option("FOLDER", c.model, "folder of a model or an adapter, or org/name in the hub cache")
      ->required()
      ->check(is_folder_name);
  app.add_option("OUT", c.out, "folder to write, which must not exist")->required()->check(is_folder_name);
  return [&c] { return convert(c); };
}

Action add_chat_batch(CLI::App& app, ChatBatchCommand& c) {
  app.add_option(
         "--row", c.rows,
         "a prompt and, after its last @, the folder of its adapter; without it, the plain model. May be repeated")
      ->required()
      ->allow_extra_args(false)
      ->option_text("\"PROMPT@ADAPTER_DIR\" (required)");
  add_sampling_options(app, c.options);
  add_generation_config(app, c.generation);
  add_engine_options(app, c.model);
  return [&app, &c] {
    c.options.seed = c.model.seed;
    c.generation.given = given_parameters(app);
    return chat_batch(c);
  };
}

Action add_check(CLI::App& app, CheckCommand& c) {
  add_engine_options(app, c.model);
  auto* root = app.add_option("--adapter-root", c.adapter_root, "folder of adapters")
                   ->check(is_folder_name)
                   ->option_text("ROOT");
  auto* id = app.add_option("--adapter-id", c.adapter_id, "an adapter below that folder")->option_text("NAME");
  root->needs(id);
  id->needs(root);
  return [&c] { return check(c); };
}

Action add_bench(CLI::App& app, BenchCommand& c) {
  app.add_option("--case", c.cases, "what to measure: decode, prefill")
      ->delimiter(',')
      ->check(CLI::IsMember({"decode", "prefill"}))
      ->allow_extra_args(false)
      ->option_text("LIST (decode,prefill)");
  app.add_option("--batch", c.batches, "sequences that decode together")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536))
      ->allow_extra_args(false)
      ->option_text("LIST (1,8,32,128)");
  app.add_option("--prompt", c.prompt, "tokens of a prompt before decoding")
      ->check(CLI::Range(1, 1 << 20))
      ->option_text("N (7)");
  app.add_option("--new", c.new_tokens, "tokens to decode")->check(CLI::Range(2, 1 << 20))->option_text("N (64)");
  app.add_flag("--json", c.json, "print one line of JSON per row");
  add_engine_options(app, c.model, /*with_batch=*/false);
  std::set<std::string> shapes;
  for (const KnownShape& shape : known_shapes()) shapes.emplace(shape.name);
  app.add_option(
         "--random", c.random,
         "random weights in the shapes of a known model, without a file: gpt2, llama-1b, mistral-7b, bloom-560m, "
         "starcoder")
      ->check(CLI::IsMember(shapes))
      ->option_text("WORD")
      ->excludes("--model");
  return [&c] { return bench(c); };
}

// Parses a length: "64" is fixed, "16-256" is uniform, "~100" is exponential with mean 100, cut off at 16 times the
// mean.
tenon::lab::Length parse_length(const std::string& name, const std::string& text) {
  constexpr int kMost = 1 << 20;
  const char* const end = text.data() + text.size();
  const bool exponential = text.starts_with('~');
  int low = 0, high = 0;
  auto parsed = std::from_chars(text.data() + (exponential ? 1 : 0), end, low);
  high = low;
  if (parsed.ec == std::errc() && !exponential && parsed.ptr != end && *parsed.ptr == '-') {
    parsed = std::from_chars(parsed.ptr + 1, end, high);
  }
  if (parsed.ec != std::errc() || parsed.ptr != end || low < 1 || high < low || high > kMost) {
    throw CLI::ValidationError(name, "must be N, LOW-HIGH or ~MEAN, as in 64, 16-256 or ~100; is " + text);
  }
  if (exponential) return tenon::lab::Length::exponential(low, std::min(16 * low, kMost));
  return tenon::lab::Length::uniform(low, high);
}

void add_trace_options(CLI::App& app, LabCommand& c) {
  constexpr const char* kGroup = "Trace";
  auto* file = app.add_option("--trace", c.trace, "replay this file; without it, requests are drawn at random")
                   ->option_text("FILE")
                   ->group(kGroup)
                   ->check([](const std::string& path) { return path.empty() ? "a file is needed" : ""; });
  const auto random = [&](CLI::Option* option, const char* shown) {
    option->option_text(shown)->group(kGroup)->excludes(file);
  };
  tenon::lab::TraceOptions& o = c.random;
  random(app.add_option("--requests", o.requests, "number of requests")->check(CLI::Range(0, 10'000'000)), "N (1000)");
  random(app.add_option("--rate", o.rate, "arrivals per second, a Poisson process; 0: all at once")
             ->check(CLI::Range(0.0, 1e9)),
         "X (3)");
  random(app.add_option("--adapters", o.adapters, "distinct adapters; 0: none")->check(CLI::Range(0, 1'000'000)),
         "N (0)");
  random(app.add_option("--zipf", o.zipf, "adapter k is drawn in proportion to 1 / (k + 1)^X")
             ->check(CLI::Range(0.0, 100.0)),
         "X (1)");
  const auto length = [&](const char* name, tenon::lab::Length& value, const char* help, const char* shown) {
    random(app.add_option_function<std::string>(
               name, [&value, name](const std::string& text) { value = parse_length(name, text); }, help),
           shown);
  };
  length("--prompt", o.prompt, "tokens of a prompt: N, LOW-HIGH or ~MEAN (exponential)", "LENGTH (16-256)");
  length("--new", o.new_tokens, "new tokens of a request, in the same form", "LENGTH (16-128)");
  random(app.add_option("--prefix", o.prefix_tokens, "tokens before each prompt that all requests of an adapter share")
             ->check(CLI::Range(0, 1 << 20)),
         "N (0)");
  random(app.add_option("--seed", o.seed, "a seed gives the same trace on every machine")->check(is_seed), "N (0)");
  app.add_option("--write-trace", c.write_trace, "write the replayed trace to this file")
      ->option_text("FILE")
      ->group(kGroup);
}

constexpr const char* kLabHelp =
    "A trace is JSON lines, one request per line. The first three fields are required:\n"
    "  {\"arrival_ms\": 0.5, \"prompt_tokens\": 120, \"new_tokens\": 32, \"adapter\": 3, \"priority\": 0, "
    "\"prefix\": 7,\n"
    "   \"prefix_tokens\": 64}\n"
    "Requests with the same prefix begin with the same tokens. The clock is virtual: a step takes STEP + ROW x rows +\n"
    "CONTEXT x tokens of context that attention reads; by default GPT-2 124M in float32 on two cores. Jain's index\n"
    "compares the service per second of the adapters, each over the time when it and another one had unfinished "
    "requests.";

Action add_lab(CLI::App& app, LabCommand& c) {
  app.add_option("--scheduler", c.schedulers, "one or several to compare: continuous, static, sequential, fair")
      ->delimiter(',')
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(words::scheduler), std::end(words::scheduler))))
      ->allow_extra_args(false)
      ->option_text("LIST (continuous)")
      ->group(kEngineGroup);
  add_number(app, "--batch", c.batch, 1, "32", "sequences that run at once");
  add_number(app, "--token-budget", c.token_budget, 1, "512", "rows per step");
  app.add_option("--cache-tokens", c.cache_tokens, "tokens of cache for all sequences together")
      ->check(CLI::Range(1, 1 << 28))
      ->option_text("N (32768)")
      ->group(kEngineGroup);
  add_number(app, "--max-wait-ms", c.max_wait_ms, 0, "50", "static: a batch that is not full starts after this wait");
  app.add_option("--order", c.order, "continuous: which waiting request is admitted first: arrival, longest")
      ->check(CLI::IsMember({"arrival", "longest"}))
      ->option_text("WORD (arrival)")
      ->group(kEngineGroup);
  add_number(app, "--patience-ms", c.patience_ms, 0, "30000",
             "continuous, fair: a request that has waited this long goes before priorities");
  app.add_flag_callback(
         "--no-prefix-reuse", [&c] { c.prefix_reuse = false; }, "compute every prompt from its start")
      ->group(kEngineGroup);
  app.add_option_function<std::vector<double>>(
         "--cost-us",
         [&c](const std::vector<double>& us) {
           c.cost = {1e-6 * us[0], 1e-6 * us[1], 1e-6 * us[2]};
         },
         "microseconds per step, per row, per token of context")
      ->delimiter(',')
      ->expected(3)
      ->check(CLI::Range(0.0, 1e9))
      ->option_text("STEP,ROW,CONTEXT (13000,800,3)")
      ->group(kEngineGroup);
  for (CLI::Option* option : app.get_options()) {
    if (option->get_group() == kEngineGroup) option->group("Scheduler and machine");  // there is no model
  }
  add_trace_options(app, c);
  app.add_flag("--json", c.json, "print one line of JSON per scheduler");
  app.add_flag("--draw", c.draw, "draw the slots over time: one line per slot, one letter per adapter or request");
  app.add_option("--slots", c.slots, "write the slots over time to this file, for plotting")->option_text("FILE.csv");
  app.footer(kLabHelp);
  return [&c] { return lab(c); };
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app(
      "tenon: serves GPT-2-family language models. Exit status: 0 done, 1 a request or check failed, 2 wrong usage.",
      "tenon");
  app.set_version_flag("--version", "tenon " + std::string(tenon::kVersion));
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);

  GenerateCommand generate_command;
  ChatCommand chat_command;
  ChatBatchCommand chat_batch_command;
  RunCommand run_command, classify_command;
  EmbedCommand embed_command;
  VerifyCommand verify_command;
  TokensCommand tokens_command;
  ConstrainCommand constrain_command;
  InspectCommand inspect_command;
  QuantizeCommand quantize_command;
  MergeCommand merge_command;
  ConvertCommand convert_command;
  CheckCommand check_command;
  BenchCommand bench_command;
  LabCommand lab_command;
  std::vector<std::pair<CLI::App*, Action>> actions;
  const auto add = [&](const char* name, const char* help, auto& command, auto define) {
    CLI::App* sub = app.add_subcommand(name, help);
    actions.emplace_back(sub, define(*sub, command));
  };
  add("generate", "Continues a prompt and prints the text as it comes", generate_command, add_generate);
  add("chat", "Talks with a chat model, in a terminal or line by line", chat_command, add_chat);
  add("chat-batch", "Continues several prompts side by side, each with its own adapter", chat_batch_command,
      add_chat_batch);
  add("run", "Answers requests: JSON lines in, JSON lines out, all in one engine", run_command, add_run);
  add("verify", "Checks receipts: computes their answers again, JSON lines in and out", verify_command, add_verify);
  add("classify", "Classifies texts, JSON lines in and out", classify_command, add_classify);
  add("embed", "Makes embeddings of texts, JSON lines in and out", embed_command, add_embed);
  add("tokens", "JSON lines {\"text\": ...} to {\"ids\": [...]}", tokens_command, add_tokens);
  add("constrain", "Tests a JSON schema, a regex or a grammar without a model, JSON lines in and out",
      constrain_command, add_constrain);
  add("inspect", "Describes a model folder", inspect_command, add_inspect);
  add("quantize", "Writes a model in another weight format", quantize_command, add_quantize);
  add("merge", "Writes a model with an adapter folded in", merge_command, add_merge);
  add("convert", "Writes pytorch_model.bin or adapter_model.bin as safetensors", convert_command, add_convert);
  add("check", "Loads a model and generates 4 tokens", check_command, add_check);
  add("bench", "Measures decode and prefill, and compares with the machine's ceilings", bench_command, add_bench);
  add("lab", "Replays traffic with one or several schedulers on a virtual clock", lab_command, add_lab);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : 2;
  }
  const auto chosen =
      std::find_if(actions.begin(), actions.end(), [](const auto& each) { return each.first->parsed(); });
  return chosen->second();
}

}  // namespace program
