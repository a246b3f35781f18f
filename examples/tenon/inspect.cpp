// tenon inspect: what a model folder holds, with no weight read.
#include <algorithm>
#include <map>
#include <system_error>

#include "commands.h"
#include "families.h"
#include "output.h"

namespace program {
namespace {

using tenon::printable;

constexpr std::size_t kFewTensors = 8;  // shown without --tensors

std::string describe_config(const tenon::ModelConfig& c) {
  const char* activation = c.activation == tenon::Activation::gelu ? "gelu" : "gelu_new";
  std::string text = formatted("model        %s: %d layers of width %d, %d heads of %d, MLP of %d (%s)\n",
                               c.model_type.c_str(), c.layers, c.hidden, c.heads, c.head_dim, c.inner, activation);
  text += formatted(
      "             vocabulary of %s, %s positions, head %s\n", with_commas(static_cast<unsigned>(c.vocab)).c_str(),
      with_commas(static_cast<unsigned>(c.positions)).c_str(), c.tied_head ? "tied to the embedding" : "of its own");
  text += "             begin of text " + (c.bos ? std::to_string(*c.bos) : "none") + ", end of text";
  for (const auto id : c.eos) text += " " + std::to_string(id);
  return text + (c.eos.empty() ? " none\n" : "\n");
}

std::string describe_weights(const tenon::DecoderSpec& spec, const tenon::ModelConfig& config) {
  std::string text;
  for (const WeightFormat& each : weight_formats()) {
    const WeightCount count = count_weights(spec, config.tied_head, each);
    if (text.empty()) text = "parameters   " + with_commas(count.parameters) + "\n";
    text += formatted("weights      %-14s %s bytes\n", std::string(each.name).c_str(),
                      with_commas(count.bytes(config.tied_head)).c_str());
  }
  for (const KvFormat& each : kv_formats()) {
    text += formatted("kv cache     %-14s %s bytes a token\n", std::string(each.name).c_str(),
                      with_commas(each.token_bytes(config.kv())).c_str());
  }
  return text;
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

std::string describe_tokenizer(const tenon::Tokenizer* tokenizer) {
  if (!tokenizer) return "tokenizer    none\n";
  std::string text =
      "tokenizer    byte-level BPE, " + with_commas(static_cast<unsigned>(tokenizer->vocab_size())) + " ids, special:";
  for (const auto& token : tokenizer->special_tokens())
    text += " " + in_quotes(printable(token.text, 60)) + " " + std::to_string(token.id);
  return text + (tokenizer->special_tokens().empty() ? " none\n" : "\n");
}

// Folders below adapters/.
std::string describe_adapters(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  auto each = std::filesystem::directory_iterator(folder / "adapters", failed);
  for (; !failed && each != std::filesystem::directory_iterator(); each.increment(failed)) {
    std::error_code ignored;
    if (each->is_directory(ignored)) names.push_back(printable(each->path().filename().string()));
  }
  if (names.empty()) return "adapters     none\n";
  std::sort(names.begin(), names.end());
  std::string text = "adapters     " + std::to_string(names.size()) + " (this version does not run them):";
  for (const auto& name : names) text += " " + name;
  return text + "\n";
}

}  // namespace

int inspect(const InspectCommand& command) {
  const ModelOptions options{.model = command.model};
  const auto files = open_model(options);
  const std::string text = with_family(model_type(files), [&](auto family) {
    using Family = decltype(family);
    const tenon::ModelConfig config = Family::configure(*files.config);
    const std::size_t tensors = files.tensors->tensors().size();
    // As the engine does: before anything grows with a count from a stranger's file.
    if (static_cast<std::size_t>(config.layers) > tensors) {
      throw tenon::Error(tenon::Error::Kind::invalid_file, "config.json: n_layer",
                         std::to_string(config.layers) + " layers, but the checkpoint has only " +
                             std::to_string(tensors) + " tensors");
    }
    const tenon::DecoderSpec spec = Family::tensors(config);
    const tenon::TensorSource source(files, Family::name_prefix);
    source.check(spec, config.tied_head);
    return describe_config(config) + describe_weights(spec, config) +
           describe_tensors(*files.tensors, command.all_tensors) +
           describe_unused(*files.tensors, source.unused(spec, config.tied_head));
  });
  Output output;
  output.write(text + describe_tokenizer(files.tokenizer.get()) + describe_adapters(model_folder(options)));
  output.flush();
  return 0;
}

}  // namespace program
