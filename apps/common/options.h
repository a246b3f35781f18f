// The options of every subcommand that runs a model, and the functions that make an engine from them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "menu.h"
#include "tenon/core/request.h"
#include "tenon/engine/any_engine.h"
#include "tenon/model/load.h"

namespace program {

struct ModelOptions {
  std::string model;              // a folder; empty: the default model
  int adapter_slots = 0;          // limit on resident adapters; 0: no limit
  std::string adapter_root = {};  // adapters are names below it; empty: adapters are folders
  std::function<std::filesystem::path(const std::string& name)> adapter_folder = {};  // replaces adapter_root
  std::vector<tenon::AdapterUse> merged = {};  // with --lora merged: adapters that are merged into the weights
  std::string weights = "float32", head = "same", cache = "paged", kv = "float32", attention = "flash",
              scheduler = "continuous", lora = "segmented", device = "cpu", draft = "suffix";
  bool weights_given = false;  // on the command line; otherwise a quantised folder's own format is used
  int block = 16;
  int threads = 0;  // 0: all cores
  int batch = 32, token_budget = 512;
  int cache_tokens = 0;  // 0: the library's default
  int positions = 0;     // tokens of the longest sequence; 0: the model's
  int max_wait_ms = 50;  // used by the static scheduler
  int guests = 0;        // used by the fair scheduler: sequences beyond `batch`, for clients with none running
  bool prefix_reuse = true;
  bool takes_all_guesses = false;  // for `verify`, where the predictions are right
  tenon::StepObserver on_step = {};
  std::uint64_t seed = 0;
};

// The values of each option, compiled in or not. The first is the default.
namespace words {
inline constexpr const char* weights[] = {
    "float32",     "bfloat16",    "bfloat16_dot", "bfloat16_amx",  "bfloat16_mma", "float16",
    "float16_mma", "float8_e4m3", "float8_e5m2",  "int8",          "int8_tensor",  "int8_act8",
    "int4",        "int4_act8",   "int4_group64", "int4_group128", "int8_group32", "nf4"};
inline constexpr const char* head[] = {"same", "int8_exact"};
inline constexpr const char* cache[] = {"paged", "contiguous", "window", "none"};
inline constexpr const char* kv[] = {"float32", "bfloat16", "float16", "int8"};
inline constexpr const char* attention[] = {"flash", "direct", "flash_mma"};
inline constexpr const char* scheduler[] = {"continuous", "static", "sequential", "fair"};
inline constexpr const char* draft[] = {"suffix", "lookup", "none"};
inline constexpr const char* lora[] = {"segmented", "gathered", "looped", "merged", "none"};
inline constexpr const char* device[] = {"cpu", "cuda"};
}  // namespace words

// The folder where huggingface_hub keeps what it downloads, by HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME or HOME. Empty if
// none of them is set.
std::filesystem::path hub_cache();

// The named folder or file, or the snapshot of a name like org/name in the hub cache, which HF_HUB_CACHE, HF_HOME or
// HOME names. Without --model: the default model. It is found relative to the program, never relative to the working
// directory.
std::filesystem::path model_folder(const ModelOptions& options);

// Prints the path of the default model on stderr if it is used.
void say_which_model(const ModelOptions& options);

// Opens the model and prints its name.
tenon::ModelFiles open_model(const ModelOptions& options);

// Chooses the weight format of a quantised folder if none was named, and says so on stderr. If no engine of the menu
// has that format, it chooses float32, which can hold the values, too.
ModelOptions with_stored_weights(ModelOptions options, const tenon::ModelFiles& files);

// Refuses a model without a tokenizer for a command that needs text.
void need_tokenizer(const tenon::ModelFiles& files, std::string_view command);

// The model_type of the files. Error unsupported if it is no family of the library.
std::string model_type(const tenon::ModelFiles& files);

// Reads the weights. UsageError, with a list of the options that exist, if the combination was not compiled in.
std::unique_ptr<tenon::AnyEngine> make_engine(const ModelOptions& options, const tenon::ModelFiles& files);

// The number of threads of an engine with these options.
int thread_count(const ModelOptions& options);

// Runs a step, or sleeps briefly if the scheduler waits for more requests.
std::span<const tenon::Event> step_or_wait(tenon::AnyEngine& engine);

}  // namespace program
