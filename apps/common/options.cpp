#include "options.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "exits.h"
#include "families.h"
#include "output.h"
#include "schedulers.h"
#include "shapes.h"
#include "tenon/adapter/root.h"
#include "tenon/checkpoint/matrix_decoder.h"
#include "tenon/core/error.h"
#include "tenon/model/hub.h"

namespace program {

using tenon::Error;

std::filesystem::path hub_cache() {
  constexpr struct {
    const char *variable, *below;
  } places[] = {{"HF_HUB_CACHE", ""},
                {"HUGGINGFACE_HUB_CACHE", ""},
                {"HF_HOME", "hub"},
                {"XDG_CACHE_HOME", "huggingface/hub"},
                {"HOME", ".cache/huggingface/hub"}};
  for (const auto& [variable, below] : places) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return *below == '\0' ? value : std::filesystem::path(value) / below;
  }
  return {};
}

namespace {

// Refuses names of files that are no model by themselves, and of GGUF files that are not here.
void check_model_name(const std::filesystem::path& model) {
  std::error_code failed;
  const std::string extension = model.extension().string();
  if (extension == ".gguf" && !std::filesystem::exists(model, failed))
    throw Error(Error::Kind::io, tenon::file_name_of(model), "there is no such file");
  const bool is_part = extension == ".safetensors" || extension == ".bin" || extension == ".json";
  if (!is_part || !std::filesystem::is_regular_file(model, failed)) return;
  throw UsageError("--model: " + tenon::file_name_of(model) + " is one file of a model; name its folder, --model DIR");
}

}  // namespace

std::filesystem::path model_folder(const ModelOptions& options) {
  if (!options.model.empty()) {
    check_model_name(options.model);
    return tenon::find_model(options.model, hub_cache());
  }
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) {
    // In the build tree, share/ is beside the program; an installation has bin/ and share/ side by side.
    for (const auto& root : {program.parent_path(), program.parent_path().parent_path()}) {
      auto folder = root / "share" / "tenon" / "models" / "tales";
      if (std::filesystem::is_directory(folder, failed)) return folder;
    }
  }
  throw Error(Error::Kind::io, "default model",
              "is not in share/tenon/models/tales beside the program; name a model with --model DIR");
}

void say_which_model(const ModelOptions& options) {
  if (!options.model.empty()) return;
  say("no --model was named: this is the default model, a small one of 6 million parameters, trained on public-domain "
      "books. It writes grammatical, wandering storybook English.");
}

tenon::ModelFiles open_model(const ModelOptions& options) {
  const auto folder = model_folder(options);
  say_which_model(options);
  return tenon::load_checkpoint(folder);
}

void need_tokenizer(const tenon::ModelFiles& files, std::string_view command) {
  if (files.tokenizer) return;
  throw Error(Error::Kind::unsupported, "tokenizer",
              std::string(command) +
                  " needs one, and the model has none: neither tokenizer.json, nor vocab.json with merges.txt, nor "
                  "tokenizer.model");
}

std::string model_type(const tenon::ModelFiles& files) {
  std::string type = tenon::model_type_of(files);
  need_family(type);
  return type;
}

namespace {

using Entries = std::vector<MenuEntry>;

// An engine that the options name. Each choice at run time is one word here.
struct WantedEngine {
  EngineWords words;
  std::string_view cache;
  int block;  // 0: the cache has no blocks
  std::string_view kv, attention;
};

// The values of the options that are chosen at run time: a word, or several words in "a|b|c".
struct ChoiceTexts {
  std::string cache, block, kv, attention;
};

std::string as_options(const EngineWords& w, const ChoiceTexts& choices) {
  std::string text = "--weights " + std::string(w.weights) + " --cache " + choices.cache;
  if (w.head != words::head[0]) text += " --head " + std::string(w.head);
  if (!choices.block.empty()) text += " --block " + choices.block;
  return text + " --kv " + choices.kv + " --attention " + choices.attention + " --device " + std::string(w.device);
}

bool contains(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string alternatives(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : "|") + std::string(word);
  return text;
}

ChoiceTexts choices_of(const MenuEntry& entry) {
  std::vector<std::string_view> caches;
  std::string blocks;
  for (const CacheWords& each : entry.caches) {
    if (!contains(caches, each.cache)) caches.push_back(each.cache);
    if (each.block != 0) blocks += (blocks.empty() ? "" : "|") + std::to_string(each.block);
  }
  return {alternatives(caches), blocks, alternatives(entry.kv), alternatives(entry.attention)};
}

// null: the engine does not have that cache.
const CacheWords* find_cache(const MenuEntry& entry, std::string_view cache, int block) {
  const auto found = std::find_if(entry.caches.begin(), entry.caches.end(),
                                  [&](const CacheWords& each) { return each.cache == cache && each.block == block; });
  return found == entry.caches.end() ? nullptr : &*found;
}

// The options that no compiled engine has, or otherwise that their combination is missing.
std::string reason(const WantedEngine& wanted, const Entries& entries) {
  std::string names;
  const auto check = [&](const char* option, std::string_view word, const auto& has) {
    if (std::any_of(entries.begin(), entries.end(), has)) return;
    names += (names.empty() ? "" : ", ") + std::string(option) + " " + std::string(word);
  };
  const auto check_word = [&](const char* option, std::string_view EngineWords::*member) {
    const std::string_view word = wanted.words.*member;
    check(option, word, [&](const MenuEntry& entry) { return entry.words.*member == word; });
  };
  check_word("--weights", &EngineWords::weights);
  check_word("--head", &EngineWords::head);
  check("--cache", wanted.cache, [&](const MenuEntry& entry) {
    return std::any_of(entry.caches.begin(), entry.caches.end(),
                       [&](const CacheWords& each) { return each.cache == wanted.cache; });
  });
  if (names.empty() && wanted.block != 0)
    check("--block", std::to_string(wanted.block),
          [&](const MenuEntry& entry) { return find_cache(entry, wanted.cache, wanted.block) != nullptr; });
  check("--kv", wanted.kv, [&](const MenuEntry& entry) { return contains(entry.kv, wanted.kv); });
  check("--attention", wanted.attention,
        [&](const MenuEntry& entry) { return contains(entry.attention, wanted.attention); });
  check_word("--device", &EngineWords::device);
  if (!names.empty()) return "not compiled in: " + names;
  return "this combination was not compiled in: " +
         as_options(wanted.words, {std::string(wanted.cache), wanted.block == 0 ? "" : std::to_string(wanted.block),
                                   std::string(wanted.kv), std::string(wanted.attention)});
}

std::string list_of(const Entries& entries) {
  std::string text = "compiled in are";
  for (const MenuEntry& entry : entries) text += "\n  " + as_options(entry.words, choices_of(entry));
  return text +
         "\neach with --scheduler continuous, static, sequential or fair, and --lora segmented, gathered, looped, "
         "merged or none";
}

const MenuEntry* find(const WantedEngine& wanted, const Entries& entries) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const MenuEntry& e) {
    return e.words == wanted.words && find_cache(e, wanted.cache, wanted.block) && contains(e.kv, wanted.kv) &&
           contains(e.attention, wanted.attention);
  });
  return found == entries.end() ? nullptr : &*found;
}

// The element of a word of --kv.
tenon::KvType element_of(std::string_view kv) {
  using tenon::KvType;
  return kv == "bfloat16"  ? KvType::bfloat16
         : kv == "float16" ? KvType::float16
         : kv == "int8"    ? KvType::int8
                           : KvType::float32;
}

tenon::AnyLoRA lora_of(const std::string& word) {
  using Kind = tenon::AnyLoRA::Kind;
  return tenon::AnyLoRA(word == "gathered" ? Kind::gathered : word == "looped" ? Kind::looped : Kind::segmented);
}

tenon::AdapterOptions adapters_of(const ModelOptions& options) {
  tenon::AdapterOptions adapters{.count = options.adapter_slots};
  if (options.lora == "none") {
    adapters.folder_of = [](const std::string&) -> std::filesystem::path {
      throw Error(Error::Kind::unsupported, "adapter", "this engine applies none (--lora none)");
    };
  } else if (options.adapter_folder) {
    adapters.folder_of = options.adapter_folder;
  } else if (!options.adapter_root.empty()) {
    adapters.folder_of = [root = options.adapter_root](const std::string& id) {
      return tenon::adapter_below(root, id);
    };
  }
  return adapters;
}

WantedEngine wanted_by(const ModelOptions& o) {
  return {{o.weights, o.head, o.device}, o.cache, o.cache == "paged" ? o.block : 0, o.kv, o.attention};
}

// The size of all weights in that format, in bytes.
std::size_t weight_bytes(const tenon::ModelFiles& files, const std::string& model_type, std::string_view weights) {
  const tenon::Family& family = family_named(model_type);
  const tenon::ModelConfig config = tenon::configure(files, family);
  check_layer_count(files, config);
  const auto formats = weight_formats();
  const auto format =
      std::find_if(formats.begin(), formats.end(), [&](const WeightFormat& each) { return each.name == weights; });
  if (format == formats.end()) throw Error(Error::Kind::internal, std::string(weights), "has no size");
  return count_weights(family.tensors(config), config.tied_head, *format).bytes(config.tied_head);
}

std::string megabytes(std::size_t bytes) { return formatted("%.1f MB", static_cast<double>(bytes) / 1e6); }

// The type of the coded matrices that has the most bytes, such as "Q4_0", and the bits of a weight in all of them.
struct CodedMatrices {
  std::string type;
  double bits = 0;  // 0: there are none
};
CodedMatrices coded_matrices(const tenon::Checkpoint& checkpoint) {
  std::map<std::string, double> bytes_by_type;
  double bytes = 0, elements = 0;
  for (const tenon::TensorInfo& tensor : checkpoint.tensors()) {
    if (!tenon::is_block(tensor.dtype) && !tensor.decoder) continue;
    const auto size = static_cast<double>(tensor.end - tensor.begin);
    bytes_by_type[tensor.decoder ? tensor.decoder->name() : std::string(tenon::dtype_name(tensor.dtype))] += size;
    bytes += size;
    double count = 1;
    for (const std::uint64_t each : tensor.shape) count *= static_cast<double>(each);
    elements += count;
  }
  if (elements == 0) return {};
  const auto most = std::max_element(bytes_by_type.begin(), bytes_by_type.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return {most->first, 8 * bytes / elements};
}

// Says what memory the weights of a quantised file take in the format of the options, if a narrower one fits them.
void say_if_widened(const ModelOptions& options, const tenon::ModelFiles& files) {
  if (files.random || options.weights_given || !tenon::weight_code_of(files).empty()) return;
  constexpr double kMostBitsOfInt4 = 5.6, kWorthwhile = 1.5;  // Q5_0 has 5.5 bits
  const CodedMatrices coded = coded_matrices(*files.tensors);
  if (coded.bits == 0) return;
  ModelOptions narrow = options;
  narrow.weights = coded.bits <= kMostBitsOfInt4 ? "int4" : "int8";
  if (!find(wanted_by(narrow), menu())) return;
  const std::string type = model_type(files);
  const std::size_t wide = weight_bytes(files, type, options.weights),
                    fitting = weight_bytes(files, type, narrow.weights);
  if (static_cast<double>(wide) < kWorthwhile * static_cast<double>(fitting)) return;
  say("the file's weights are " + coded.type + " and are held as " + options.weights + ": " + megabytes(wide) +
      " of memory. --weights " + narrow.weights + " takes " + megabytes(fitting) +
      (coded.type == "Q4_0" ? " and keeps the codes of Q4_0 unchanged" : " and rounds the weights anew"));
}

}  // namespace

ModelOptions with_stored_weights(ModelOptions options, const tenon::ModelFiles& files) {
  if (options.weights_given) return options;
  const std::string stored = tenon::weight_code_of(files);
  if (stored.empty()) return options;
  const std::string type = model_type(files);
  ModelOptions as_stored = options;
  as_stored.weights = stored;
  if (find(wanted_by(as_stored), menu())) {
    say("--weights " + stored + ": so the model is stored");
    return as_stored;
  }
  say("the model is stored as " + stored + ", for which there is no engine here with these options: it runs as " +
      options.weights + ", " + megabytes(weight_bytes(files, type, options.weights)) + " of weights instead of " +
      megabytes(weight_bytes(files, type, stored)));
  return options;
}

std::unique_ptr<tenon::AnyEngine> make_engine(const ModelOptions& options, const tenon::ModelFiles& files) {
  const Entries entries = menu();
  model_type(files);  // error for a family that is not known
  const WantedEngine wanted = wanted_by(options);
  if (options.block != ModelOptions{}.block && options.cache != "paged") {
    throw UsageError("--block " + std::to_string(options.block) + " is for the paged cache; --cache is " +
                     options.cache);
  }
  const bool can_draft = options.device == "cpu" && options.cache != "none";
  if (options.draft == "lookup" && !can_draft) {
    throw UsageError("--draft " + options.draft +
                     " needs a cache and --device cpu: no guess is verified without a cache, and none on a GPU yet");
  }
  if (options.lora == "merged" && options.merged.empty()) {
    throw UsageError("--lora merged needs an adapter: use it with generate --adapter or run");
  }
  const MenuEntry* entry = find(wanted, entries);
  if (!entry) throw UsageError(reason(wanted, entries) + "\n" + list_of(entries));
  const SchedulerOptions scheduling{.batch = options.batch,
                                    .guests = options.guests,
                                    .token_budget = options.token_budget,
                                    .max_wait_ms = options.max_wait_ms};
  auto engine = entry->make(files, {.scheduler = make_scheduler(options.scheduler, scheduling),
                                    .lora = lora_of(options.lora),
                                    .adapters = adapters_of(options),
                                    .merged = options.merged,
                                    .threads = options.threads,
                                    .batch = options.batch,
                                    .token_budget = options.token_budget,
                                    .cache_tokens = options.cache_tokens,
                                    .positions = options.positions,
                                    .prefix_reuse = options.prefix_reuse,
                                    .guesses = options.draft != "none" && can_draft,
                                    .guesses_from_others = options.draft == "suffix",
                                    .takes_all_guesses = options.takes_all_guesses,
                                    .cache_kind = find_cache(*entry, wanted.cache, wanted.block)->kind,
                                    .cache_element = element_of(options.kv),
                                    .direct_attention = options.attention == "direct",
                                    .on_step = options.on_step});
  say_if_widened(options, files);  // not before the file is known to load
  return engine;
}

int thread_count(const ModelOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::span<const tenon::Event> step_or_wait(tenon::AnyEngine& engine) {
  const std::uint64_t before = engine.stats().steps;
  const auto events = engine.step();
  if (engine.stats().steps == before && events.empty()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  return events;
}

}  // namespace program
