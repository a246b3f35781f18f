// A model family of your own, in your own file. Qwen2 (Yang et al., 2024) is Llama with biases for queries, keys and
// values only. The checkpoint is small and random; transformers' answers to it are in the same folder.
#include <tenon/tenon.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "common/example.h"

// [family]
struct Qwen2 {
  static constexpr std::string_view model_type = "qwen2";
  static constexpr std::string_view name_prefix = "model.";  // tensor names may have this prefix or not

  // Every field that changes the output is read or refused.
  static tenon::ModelConfig configure(const tenon::ConfigFile& file) {
    tenon::ModelConfig c = tenon::configure_llama_like(file, model_type, {.positions = 32768, .kv_heads = 32});
    const tenon::Fields fields = file.fields();
    tenon::check_architectures(fields, {"Qwen2ForCausalLM", "Qwen2Model"});
    if (fields.boolean("use_sliding_window", false)) fields.refuse("use_sliding_window", "true is not supported");
    return c;
  }

  // The name and shape of each part of a decoder.
  static tenon::DecoderSpec tensors(const tenon::ModelConfig& c) {
    tenon::DecoderSpec spec = tenon::llama_like_tensors(c);
    for (int l = 0; l < c.layers; ++l) {
      const std::string attention = "layers." + std::to_string(l) + ".self_attn.";
      spec.layers[static_cast<std::size_t>(l)].qkv = tenon::stacked_spec({{attention + "q_proj", c.query_width()},
                                                                          {attention + "k_proj", c.kv_width()},
                                                                          {attention + "v_proj", c.kv_width()}},
                                                                         c.hidden, /*bias=*/true);
    }
    return spec;
  }
};
// [/family]

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--golden", TENON_SOURCE_DIR "/tests/golden/qwen2"}});
  const std::filesystem::path folder = arguments.text("--golden");
  nlohmann::json expected;
  std::ifstream(folder / "expected.json") >> expected;

  // [engine]
  tenon::Engine<Qwen2> engine{tenon::load_checkpoint(folder)};
  // [/engine]
  bool same = true;
  for (const auto& ref : expected["base"]) {
    const auto ids = ref["greedy_ids"].get<std::vector<tenon::TokenId>>();
    const auto answer =
        engine.complete({.input_ids = ref["input_ids"].get<std::vector<tenon::TokenId>>(),
                         .options = {.max_new_tokens = static_cast<int>(ids.size()), .ignore_eos = true}});
    std::printf("  prompt of %2zu tokens:", ref["input_ids"].size());
    for (const auto id : answer.ids) std::printf(" %d", id);
    std::printf("\n");
    same = same && answer.ids == ids;
  }
  // [any]
  using Families = tenon::ModelList<Qwen2, tenon::Llama>;  // config.json selects one of these
  const auto any = tenon::any_model<tenon::Cache<tenon::WindowKV>>(Families{}, tenon::load_checkpoint(folder));
  // [/any]
  same = same && any->config().model_type == "qwen2";
  return example::verdict("the tokens of transformers", same);
} catch (const std::exception& error) {
  return example::failed(error);
}
