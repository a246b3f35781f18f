// What every subcommand that runs a model takes, and the way from there to an engine.
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
  int adapter_slots = 0;          // adapters on the device at once; 0: any number
  std::string adapter_root = {};  // adapters are names below it; empty: they are folders
  std::function<std::filesystem::path(const std::string& name)> adapter_folder =
      {};                                      // in its place, for programs that know better
  std::vector<tenon::AdapterUse> merged = {};  // with --lora merged: what goes into the weights
  std::string weights = "float32", head = "same", cache = "paged", kv = "float32", attention = "flash",
              scheduler = "continuous", lora = "segmented", device = "cpu";
  bool weights_given = false;  // by name: where they are not, a quantised folder's own are taken
  int block = 16;
  int threads = 0;  // 0: all cores
  int batch = 32, token_budget = 512;
  int cache_tokens = 0;  // 0: the library's default
  int positions = 0;     // the longest sequence; 0: the model's
  int max_wait_ms = 50;  // of the static scheduler
  int guests = 0;        // of the fair scheduler: sequences beyond `batch`, of clients that run nothing
  bool prefix_reuse = true;
  tenon::StepObserver on_step = {};
  std::uint64_t seed = 0;
};

// The words that each option may have, compiled in or not: the first is the default.
namespace words {
inline constexpr const char* weights[] = {"float32",     "bfloat16",    "bfloat16_dot", "bfloat16_amx", "float16",
                                          "float8_e4m3", "float8_e5m2", "int8",         "int8_tensor",  "int8_act8",
                                          "int4",        "int4_act8",   "int4_group64", "int4_group128"};
inline constexpr const char* head[] = {"same", "int8_exact"};
inline constexpr const char* cache[] = {"paged", "contiguous", "window", "none"};
inline constexpr const char* kv[] = {"float32", "bfloat16", "int8"};
inline constexpr const char* attention[] = {"flash", "direct"};
inline constexpr const char* scheduler[] = {"continuous", "static", "sequential", "fair"};
inline constexpr const char* lora[] = {"segmented", "gathered", "looped", "merged", "none"};
inline constexpr const char* device[] = {"cpu", "cuda"};
}  // namespace words

// The folder that was named, or that of the default model: found beside the program, never in the working directory.
std::filesystem::path model_folder(const ModelOptions& options);

// Says on stderr what the default model is, where that is taken.
void say_which_model(const ModelOptions& options);

// Opens the model, and says which.
tenon::ModelFiles open_model(const ModelOptions& options);

// With the weight format of a quantised folder where none was named, which is said on stderr; float32, which holds its
// values too, where this program has no engine for it.
ModelOptions with_stored_weights(ModelOptions options, const tenon::ModelFiles& files);

// Refuses a model without a tokenizer, for a command that works with text.
void need_tokenizer(const tenon::ModelFiles& files, std::string_view command);

// The model_type of the files. Error unsupported where no engine of the menu runs it.
std::string model_type(const tenon::ModelFiles& files);

// Reads the weights. UsageError, with the list of what there is, where the combination was not compiled in.
std::unique_ptr<tenon::AnyEngine> make_engine(const ModelOptions& options, const tenon::ModelFiles& files);

// The threads that an engine has with these options.
int thread_count(const ModelOptions& options);

// A step, or a nap where there is nothing to compute yet: a scheduler waits for company.
std::span<const tenon::Event> step_or_nap(tenon::AnyEngine& engine);

}  // namespace program
