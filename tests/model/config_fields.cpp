// Every field of transformers' configuration classes, 4.57 and 5.24, is read by its family or known to have no effect.
// make_config_fields.py writes the files.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tenon/checkpoint/config.h"
#include "tenon/checkpoint/generation_config.h"
#include "tenon/io/json.h"
#include "tenon/model/any_family.h"

BOOST_AUTO_TEST_SUITE(model_config_fields)

using namespace tenon;

namespace {

using Names = std::set<std::string>;

// Fields of all classes that have no effect on logits.
const Names kInert = {
    // Training.
    "attention_dropout", "attn_pdrop", "classifier_dropout", "dropout", "emb_pdrop", "embd_pdrop", "embed_dropout",
    "embedding_dropout", "hidden_dropout", "init_device", "init_std", "initializer_range", "layerdrop",
    "output_router_logits", "problem_type", "resid_dropout", "resid_pdrop", "residual_dropout", "router_aux_loss_coef",
    "router_jitter_noise", "tf_legacy_loss",
    // Forms of outputs, and memory.
    "chunk_size_feed_forward", "output_attentions", "output_hidden_states", "output_scores", "return_dict",
    "return_dict_in_generate", "torchscript", "use_cache", "verbose",
    // Precision of one step in half precision. All of them are exact in float32.
    "attention_softmax_in_fp32", "dtype", "reorder_and_upcast_attn", "scale_attention_softmax_in_fp32", "torch_dtype",
    "use_bfloat16",
    // Other heads, and names.
    "_name_or_path", "finetuning_task", "id2label", "label2id", "prefix", "summary_activation", "summary_first_dropout",
    "summary_proj_to_labels", "summary_type", "summary_use_proj", "task_specific_params", "transformers_version",
    // Decoders beside an encoder.
    "cross_attention_hidden_size", "decoder_start_token_id", "is_decoder", "sep_token_id", "tie_encoder_decoder",
    // Sampling, which each request chooses. Files of transformers 4 wrote its defaults.
    "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
    "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id",
    "length_penalty", "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
    "num_return_sequences", "remove_invalid_values", "repetition_penalty", "suppress_tokens", "temperature", "top_k",
    "top_p", "typical_p",
    // Slices of matrices, whose sums are equal.
    "pretraining_tp"};

// Fields of one family that have no effect, or have one only beside another field.
const std::map<std::string, Names> kInertInFamily = {
    {"codegen", {"n_ctx"}},
    {"cohere2", {"_sliding_window_pattern"}},  // layer_types says it
    {"exaone4", {"sliding_window_pattern"}},   // layer_types says it
    {"falcon", {"num_kv_heads"}},              // counts with new_decoder_architecture alone
    {"gemma", {"hidden_activation"}},          // the MLP reads hidden_act
    {"gemma3_text", {"_sliding_window_pattern", "attn_logit_softcapping"}},  // layer_types says the first
    {"gpt_neo", {"attention_types"}},                                        // attention_layers says it
    {"gpt_neox", {"partial_rotary_factor", "rope_theta"}},                   // copies of rotary_pct and rotary_emb_base
    {"granitemoehybrid",
     {"intermediate_size", "num_experts_per_tok", "mamba_chunk_size", "mamba_conv_bias", "mamba_d_conv", "mamba_d_head",
      "mamba_d_state", "mamba_expand", "mamba_n_groups", "mamba_n_heads", "mamba_proj_bias", "time_step_limit",
      "time_step_max", "time_step_min"}},  // of experts and Mamba layers, which are refused
    {"lfm2", {"full_attn_idxs"}},          // layer_types says it
    {"hunyuan_v1_dense", {"eod_token_id"}},
    {"ministral3", {"rope_parameters.max_position_embeddings"}},  // a copy of the field outside
    // The class of transformers reads none of these.
    {"mpt",
     {"alibi", "alibi_bias_max", "attn_impl", "attn_type", "attn_uses_sequence_id", "embedding_fraction",
      "expansion_ratio", "learned_pos_emb", "logit_scale", "no_bias", "norm_type", "prefix_lm", "qk_ln"}},
    {"phi3", {"original_max_position_embeddings"}},  // of longrope
    // The window counts with use_sliding_window, and then in all layers.
    {"qwen3_moe", {"max_window_layers", "sliding_window"}},
    {"qwen2_moe", {"max_window_layers", "sliding_window"}},  // likewise, in the layers that layer_types names
    {"smollm3", {"sliding_window", "use_sliding_window"}}};  // layer_types says both

nlohmann::json all_files() {
  return nlohmann::json::parse(std::ifstream(TENON_SOURCE_DIR "/tests/model/config_fields.json"));
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_field_is_read_or_has_no_effect) {
  const nlohmann::json files = all_files();
  BOOST_TEST(files.size() == 2u);
  Names seen;
  for (const auto& [version, families] : files.items()) {
    BOOST_TEST(families.size() >= 43u);
    for (const auto& [family, config] : families.items()) {
      const ConfigFile file(std::make_shared<const Json>(Json::parse(config.dump())), "config.json");
      AnyFamily<>::configure(file);
      const auto own = kInertInFamily.find(family);
      for (const std::string& each : file.unread()) {
        const std::string path = each.substr(each.find(' ') + 1), prefix = "attn_config.";
        const std::string name = path.starts_with(prefix) ? path.substr(prefix.size()) : path;
        // attn_config is a configuration class, too: it has the members that each class inherits, without effect.
        if (path != name && families["gpt2"].contains(name)) continue;
        seen.insert(name);
        const bool known = kInert.contains(name) || (own != kInertInFamily.end() && own->second.contains(name));
        BOOST_TEST(known, "transformers " << version << ", " << family << ": no code reads " << name);
      }
    }
  }
  for (const std::string& name : kInert)  // names that no class has any more
    BOOST_TEST((seen.contains(name) || name == "torch_dtype"), name << " is in the table, but in no file");
}

BOOST_AUTO_TEST_CASE(fields_of_other_programs_are_ignored_and_listed) {
  nlohmann::json config = all_files()["4.57.6"]["llama"];
  config["auto_map"] = {{"AutoConfig", "configuration_mine.MyConfig"}};
  config["unsloth_version"] = "2025.1";
  const ConfigFile file(std::make_shared<const Json>(Json::parse(config.dump())), "config.json");
  Llama::configure(file);
  const auto unread = file.unread();
  for (const char* name : {"config.json: auto_map", "config.json: unsloth_version", "config.json: use_cache"})
    BOOST_TEST((std::find(unread.begin(), unread.end(), name) != unread.end()), name);
  for (const char* name : {"config.json: hidden_size", "config.json: rope_theta", "config.json: tokenizer_class"})
    BOOST_TEST((std::find(unread.begin(), unread.end(), name) == unread.end()), name);
}

BOOST_AUTO_TEST_SUITE_END()
