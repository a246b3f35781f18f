// tenon inspect: the contents of a model folder, without reading weights. With --device, the memory of the loaded
// model.
#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "commands.h"
#include "families.h"
#include "output.h"
#include "tenon/checkpoint/generation_config.h"
#include "tenon/checkpoint/matrix_decoder.h"
#include "tenon/checkpoint/peft.h"
#include "tenon/device/thread_pool.h"
#include "tenon/model/adapter_sites.h"
#include "tenon/model/encoding_error.h"
#include "tenon/testing/process_memory.h"
#include "tenon/weights/codes.h"

namespace program {
namespace {

using tenon::printable;

constexpr std::size_t kFewTensors = 8;  // tensors shown without --tensors

// "a, b, c"
template <class Words>
std::string list_of(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string_view activation_name(tenon::Activation activation) {
  switch (activation) {
    case tenon::Activation::none:
      return "none";
    case tenon::Activation::gelu_new:
      return "gelu_new";
    case tenon::Activation::gelu:
      return "gelu";
    case tenon::Activation::relu:
      return "relu";
    case tenon::Activation::silu:
      return "silu";
    case tenon::Activation::quick_gelu:
      return "quick_gelu";
    case tenon::Activation::relu2:
      return "relu2";
  }
  return "unknown";
}

std::string describe_rotary(const tenon::RotaryConfig& r) {
  std::string text = formatted("rotary of theta %g", r.theta);
  if (r.scaling == tenon::RotaryScaling::linear) return text + formatted(", stretched %g times", r.factor);
  if (r.scaling == tenon::RotaryScaling::dynamic) {
    return text + formatted(", stretched up to %g times beyond %d (dynamic)", r.factor, r.trained_positions);
  }
  if (r.scaling == tenon::RotaryScaling::llama3) {
    return text + formatted(", stretched %g times from %d (llama3)", r.factor, r.trained_positions);
  }
  return text;
}

std::string describe_attention(const tenon::ModelConfig& c) {
  std::string text = "             positions ";
  if (c.position_kind == tenon::PositionKind::learned) text += "learned";
  if (c.position_kind == tenon::PositionKind::alibi) text += "by ALiBi";
  if (c.position_kind == tenon::PositionKind::rotary) text += describe_rotary(c.rotary);
  text += formatted("; keys and values in %d head%s", c.kv_heads, c.kv_heads == 1 ? "" : "s");
  if (c.window > 0) text += ", window of " + with_commas(static_cast<unsigned>(c.window));
  if (c.query_growth != 0) text += formatted("; queries grow each %d positions", c.query_period);
  if (const auto count = std::count(c.conv_layers.begin(), c.conv_layers.end(), true); count > 0)
    text += formatted("\n             short convolutions over %d positions in %d layers, in %d heads of the cache",
                      c.conv_taps, static_cast<int>(count), c.kv().heads);
  return text + "\n";
}

std::string describe_experts(const tenon::ModelConfig& c) {
  int layers = 0;
  for (int l = 0; l < c.layers; ++l) layers += c.is_mixture(l) ? 1 : 0;
  if (layers == 0) return "";
  std::string text = formatted("             %d experts of %d in %d layer%s, of which a token uses %d", c.experts,
                               c.expert_inner, layers, layers == 1 ? "" : "s", c.experts_chosen);
  if (c.shared_inner > 0) text += formatted(", beside a shared expert of %d", c.shared_inner);
  return text + "\n";
}

std::string describe_config(const tenon::ModelConfig& c) {
  std::string text =
      formatted("model        %s: %d layers of width %d, %d heads of %d, %s of %d (%s)\n", c.model_type.c_str(),
                c.layers, c.hidden, c.heads, c.head_dim, c.mlp_kind == tenon::MlpKind::gated ? "gated MLP" : "MLP",
                c.inner, std::string(activation_name(c.activation)).c_str());
  text += describe_experts(c) + describe_attention(c);
  text += formatted("             vocabulary of %s, %s positions, head %s\n",
                    with_commas(static_cast<unsigned>(c.vocab)).c_str(),
                    with_commas(static_cast<unsigned>(c.positions)).c_str(),
                    !c.language_head ? "none: embeddings alone"
                    : c.tied_head    ? "tied to the embedding"
                                     : "of its own");
  text += "             begin of text " + (c.bos ? std::to_string(*c.bos) : "none") + ", end of text";
  for (const auto id : c.eos) text += " " + std::to_string(id);
  text += c.eos.empty() ? " none\n" : "\n";
  if (!c.dropped_tokens.empty())
    text += "             outside the vocabulary, and dropped: " + printable(list_of(c.dropped_tokens)) + "\n";
  return text;
}

// The sizes in bytes that the literature gives for PyTorch's GPT-2. They count 4 bytes or 1 byte per parameter, and the
// buffers of PyTorch's causal mask: per layer [positions, positions] booleans and one float32. tenon has no such
// buffers.
std::string describe_literature(std::size_t parameters, const tenon::ModelConfig& c) {
  const auto positions = static_cast<std::size_t>(c.positions), layers = static_cast<std::size_t>(c.layers);
  const std::size_t masks = layers * (positions * positions + sizeof(float));
  return formatted(
      "literature   %s bytes in float32, %s in int8: parameters x 4 or x 1, and %s bytes of causal masks\n",
      with_commas(4 * parameters + masks).c_str(), with_commas(parameters + masks).c_str(), with_commas(masks).c_str());
}

std::string describe_weights(const tenon::DecoderSpec& spec, const tenon::ModelConfig& config) {
  std::string text;
  std::size_t parameters = 0;
  for (const WeightFormat& each : weight_formats()) {
    const WeightCount count = count_weights(spec, config.tied_head, each);
    parameters = count.parameters;
    text += formatted("weights      %-14s %s bytes\n", std::string(each.name).c_str(),
                      with_commas(count.bytes(config.tied_head)).c_str());
  }
  text = "parameters   " + with_commas(parameters) + "\n" + text;
  if (config.model_type == tenon::Gpt2::model_type) text += describe_literature(parameters, config);
  for (const KvFormat& each : kv_formats()) {
    text += formatted("kv cache     %-14s %s bytes a token\n", std::string(each.name).c_str(),
                      with_commas(each.token_bytes(config.kv())).c_str());
  }
  return text;
}

template <tenon::WeightCode C>
std::string describe_error(const tenon::TensorSource& source, const tenon::DecoderSpec& spec, bool tied, int rows,
                           tenon::ThreadPool& pool) {
  const tenon::EncodingError error = tenon::encoding_error<C>(source, spec, tied, rows, pool);
  std::string text = formatted("re-encoded   %-14s ", std::string(C::name).c_str());
  if (error.worst.empty()) return text + "no error\n";
  return text + formatted("relative error of a matrix %.2g on average, %.2g at most: ", error.mean, error.largest) +
         error.worst + "\n";
}

// The errors of storing the matrices in other formats. A sample of rows, for GGUF files of block types and for models
// that another library quantised; all rows of any model with --errors.
std::string describe_errors(const tenon::ModelFiles& files, const tenon::TensorSource& source,
                            const tenon::DecoderSpec& spec, bool tied, bool all) {
  const auto& tensors = files.tensors->tensors();
  const auto coded = [](const tenon::TensorInfo& tensor) { return tenon::is_block(tensor.dtype) || tensor.decoder; };
  if (!all && std::none_of(tensors.begin(), tensors.end(), coded)) return "";
  constexpr int kSample = 16;
  const int rows = all ? 0 : kSample;
  tenon::ThreadPool pool(thread_count({}));
  return "re-encoded   float32        no error\n" +
         describe_error<tenon::BFloat16Code>(source, spec, tied, rows, pool) +
         describe_error<tenon::Int8Code<tenon::PerRow>>(source, spec, tied, rows, pool) +
         describe_error<tenon::GroupInt8Code>(source, spec, tied, rows, pool) +
         describe_error<tenon::Int4Code<32>>(source, spec, tied, rows, pool) +
         describe_error<tenon::NormalFloat4Code>(source, spec, tied, rows, pool) +
         (all ? "" : "             measured on 16 rows of each matrix; --errors measures all\n");
}

// The weight formats in which this program has an engine.
std::string describe_engines() {
  std::vector<std::string> formats;
  for (const MenuEntry& entry : menu()) {
    const std::string format(entry.words.weights);
    if (std::find(formats.begin(), formats.end(), format) == formats.end()) formats.push_back(format);
  }
  return "runs in      " + list_of(formats) + " (--weights)\n";
}

// The variants of matrices that another library quantised, and how many matrices have them.
std::string describe_quantised(const tenon::Checkpoint& checkpoint) {
  std::map<std::string, int> variants;
  for (const tenon::TensorInfo& tensor : checkpoint.tensors())
    if (tensor.decoder) ++variants[tensor.decoder->name()];
  std::string text;
  for (const auto& [name, count] : variants)
    text += (text.empty() ? "stored as    " : "             ") + name + ": " + std::to_string(count) +
            (count == 1 ? " matrix\n" : " matrices\n");
  return text;
}

// Describes the format of a quantised folder.
std::string describe_stored(const tenon::ModelFiles& files) {
  const std::string code = tenon::weight_code_of(files);
  if (code.empty()) return describe_quantised(*files.tensors);
  std::string versions;  // shards may differ in version
  for (const auto& version : files.tensors->metadata_of_all("tenon.version"))
    versions += (versions.empty() ? ", by tenon " : " and ") + version;
  return "stored as    " + code + printable(versions, 60) + "\n";
}

std::string describe_tensor(const tenon::TensorInfo& tensor) {
  return printable(tensor.name) + "  " + tenon::shape_text(tensor.shape) + "  " +
         std::string(tenon::dtype_name(tensor.dtype));
}

std::string describe_tensors(const tenon::Checkpoint& checkpoint, bool all) {
  const auto& tensors = checkpoint.tensors();
  std::map<std::string_view, std::size_t> types;
  std::size_t bytes = 0;
  for (const auto& tensor : tensors) {
    ++types[tenon::dtype_name(tensor.dtype)];
    bytes += tensor.end - tensor.begin;
  }
  std::string text = "tensors      " + std::to_string(tensors.size()) + " in " + printable(checkpoint.name());
  if (checkpoint.shards() > 1) text += " (" + std::to_string(checkpoint.shards()) + " shards)";
  for (const auto& [name, count] : types) text += ", " + std::to_string(count) + " " + std::string(name);
  text += ", " + with_commas(bytes) + " bytes\n";
  const std::size_t shown = all ? tensors.size() : std::min(tensors.size(), kFewTensors);
  for (std::size_t i = 0; i < shown; ++i) text += "             " + describe_tensor(tensors[i]) + "\n";
  if (shown < tensors.size())
    text += "             ... and " + std::to_string(tensors.size() - shown) + " more: --tensors lists them\n";
  return text;
}

std::string describe_unused(const tenon::Checkpoint& checkpoint, const std::vector<std::string>& unused) {
  if (unused.empty()) return "unused       none: the model has a use for every tensor\n";
  std::string text = "unused       " + std::to_string(unused.size()) + " tensors that the model has no use for\n";
  for (const auto& name : unused) text += "             " + describe_tensor(*checkpoint.find(name)) + "\n";
  return text;
}

// The sampling defaults of --generation-config, or the reason of its refusal.
std::string describe_generation(const tenon::ConfigFile& config) {
  if (!config.generation()) return "";
  tenon::Options o;
  try {
    set_generation_defaults(config, o);
  } catch (const tenon::Error& error) {
    return std::string("generation   --generation-config is refused: ") + error.what() + "\n";
  }
  return formatted(
      "generation   --generation-config: temperature %g, top-k %d, top-p %g, min-p %g, repetition penalty %g\n",
      static_cast<double>(o.temperature), o.top_k, static_cast<double>(o.top_p), static_cast<double>(o.min_p),
      static_cast<double>(o.repetition_penalty));
}

// Fields of the config files that have no effect, in one line a file.
std::string describe_ignored(const tenon::ModelFiles& files) {
  std::map<std::string, std::vector<std::string>> by_file;
  for (const std::string& each : files.config->unread()) {
    const std::size_t colon = each.rfind(": ");
    by_file[each.substr(0, colon)].push_back(each.substr(colon + 2));
  }
  if (files.tokenizer) {
    for (const std::string& name : files.tokenizer->ignored_fields())
      if (name != "chat_template") by_file["tokenizer_config.json"].push_back(printable(name, 60));
  }
  std::string text = "ignored      ";
  if (by_file.empty()) return text + "none: every field has an effect\n";
  text += "fields without an effect on the output\n";
  for (const auto& [file, names] : by_file) text += "             " + file + ": " + list_of(names) + "\n";
  return text;
}

std::string describe_tokenizer(const tenon::Tokenizer* tokenizer) {
  if (!tokenizer) return "tokenizer    none\n";
  std::string text = "tokenizer    " + std::string(tokenizer->description()) + ", " +
                     with_commas(static_cast<unsigned>(tokenizer->vocab_size())) + " ids, special:";
  for (const auto& token : tokenizer->special_tokens())
    text += " " + in_quotes(printable(token.text, 60)) + " " + std::to_string(token.id);
  if (tokenizer->special_tokens().empty()) text += " none";
  for (const tenon::TokenId id : tokenizer->before_prompt()) text += ", before a prompt: " + std::to_string(id);
  for (const tenon::TokenId id : tokenizer->after_prompt()) text += ", after a prompt: " + std::to_string(id);
  return text + "\n";
}

// Describes an adapter: its ranks and scales, and the settings in its files that have no effect here.
std::string describe_adapter(const std::filesystem::path& folder, const tenon::AdapterSites& sites) {
  try {
    const std::vector<tenon::PeftModule> modules = sites.modules();
    const auto adapter = tenon::PeftAdapter::open(folder, modules, sites.base);
    std::set<std::string> ranks, scales, types;
    std::uint64_t bytes = 0;
    for (const tenon::PeftFactors& f : adapter.factors()) {
      ranks.insert(std::to_string(f.rank));
      scales.insert(formatted("%g", f.scale));
      types.insert(std::string(tenon::dtype_name(f.a->dtype)));
      bytes += f.a_bytes() + f.b_bytes();
    }
    std::string text = "rank " + list_of(ranks) + ", scale " + list_of(scales) + ", " +
                       std::to_string(adapter.factors().size() + adapter.scales().size()) + " of " +
                       std::to_string(modules.size()) + " linears, " + list_of(types) + ", " + with_commas(bytes) +
                       " bytes; fields without effect: " + list_of(adapter.config().inert);
    const auto more = [&](const char* what, const auto& words) {
      if (!words.empty()) text += std::string("; ") + what + ": " + printable(list_of(words));
    };
    if (const std::string beyond = adapter.beyond_updates(); !beyond.empty()) text += "; more than updates: " + beyond;
    std::vector<std::string> invocation;
    for (const tenon::TokenId token : adapter.config().invocation_tokens) invocation.push_back(std::to_string(token));
    more("invocation tokens", invocation);
    more("unknown fields, ignored", adapter.config().unknown);
    std::vector<tenon::PeftModule> targets = modules;
    for (tenon::PeftModule& table : sites.base.tables()) targets.push_back(std::move(table));
    more("targets that the model lacks", tenon::peft_absent_targets(adapter.config(), targets));
    more("copies of the model's own tensors", adapter.copies());
    return text;
  } catch (const tenon::Error& error) {
    return std::string("refused: ") + error.what();
  }
}

// Describes the adapters in the folder adapters/.
std::string describe_adapters(const std::filesystem::path& folder, const tenon::AdapterSites& sites) {
  std::vector<std::string> names;
  std::error_code failed;
  auto each = std::filesystem::directory_iterator(folder / "adapters", failed);
  for (; !failed && each != std::filesystem::directory_iterator(); each.increment(failed)) {
    std::error_code ignored;
    if (each->is_directory(ignored)) names.push_back(each->path().filename().string());
  }
  if (names.empty()) return "adapters     none\n";
  std::sort(names.begin(), names.end());
  std::string text = "adapters     " + std::to_string(names.size()) + "\n";
  for (const auto& name : names) {
    text += "             " + printable(name) + ": " + describe_adapter(folder / "adapters" / name, sites) + "\n";
  }
  return text;
}

// Loads the model and generates a few tokens. Describes the peak memory of the device, or of the process if the device
// does not count it.
std::string describe_memory(const ModelOptions& asked, const tenon::ModelFiles& files) {
  const ModelOptions options = with_stored_weights(asked, files);
  const double before = tenon::testing::resident_megabytes();
  tenon::testing::forget_peak();
  const auto engine = make_engine(options, files);
  const int generated = generate_few(*engine);
  const std::size_t on_device = engine->device_memory().peak;
  const auto in_process = static_cast<std::size_t>(std::max(0.0, 1e6 * (tenon::testing::peak_megabytes() - before)));
  return formatted(
      "memory       %s on %s: weights %s bytes, cache %s bytes; at most %s bytes %s while it loaded and wrote %d "
      "tokens\n",
      options.weights.c_str(), options.device.c_str(), with_commas(engine->weight_bytes()).c_str(),
      with_commas(engine->cache_stats().bytes).c_str(), with_commas(on_device > 0 ? on_device : in_process).c_str(),
      on_device > 0 ? "of the device" : "resident", generated);
}

}  // namespace

int inspect(const InspectCommand& command) {
  const ModelOptions& options = command.model;
  const auto files = open_model(options);
  const tenon::Family& family = family_named(model_type(files));
  const tenon::ModelConfig config = tenon::configure(files, family);
  check_layer_count(files, config);
  const tenon::DecoderSpec spec = tenon::tensors_of(family, config);
  check_switches(spec, config);
  const tenon::TensorSource source(files, family.name_prefix);
  source.check(spec, config.tied_head);
  const tenon::AdapterSites sites = tenon::adapter_sites(spec, family.name_prefix, files);
  const std::string text = describe_config(config) + describe_weights(spec, config) +
                           describe_errors(files, source, spec, config.tied_head, command.errors) + describe_engines() +
                           describe_stored(files) + describe_tensors(*files.tensors, command.all_tensors) +
                           describe_unused(*files.tensors, source.unused(spec, config.tied_head)) +
                           describe_generation(*files.config) + describe_ignored(files);
  Output output;
  output.write(text + describe_tokenizer(files.tokenizer.get()) + describe_adapters(model_folder(options), sites));
  if (command.load) output.write(describe_memory(options, files));
  output.flush();
  return 0;
}

}  // namespace program
