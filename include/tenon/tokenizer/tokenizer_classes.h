// The classes of tokenizers in transformers, and the class of each model_type.
#pragma once
#include <string_view>

#include "tenon/core/require.h"

namespace tenon::detail {

// A tokenizer class of transformers 4.57, with the tokens that its constructor uses if the file names none. Empty:
// none.
struct TokenizerClass {
  std::string_view name;
  std::string_view bos, eos, unk, pad;
  // Whether it builds the template around a prompt from add_bos_token and add_eos_token, and ignores the
  // post_processor.
  bool writes_template = false;
  bool rebuilds = false;  // whether it rebuilds the tokenizer from tokenizer.model if add_prefix_space is given
  bool begins = true;     // default of add_bos_token, for a class that writes the template
};
inline constexpr std::string_view kEndOfText = "<|endoftext|>";
inline constexpr TokenizerClass kTokenizerClasses[] = {
    {"PreTrainedTokenizer", {}, {}, {}, {}},
    {"TokenizersBackend", {}, {}, {}, {}},  // transformers 5
    {"GPT2Tokenizer", kEndOfText, kEndOfText, kEndOfText, {}},
    {"LlamaTokenizer", "<s>", "</s>", "<unk>", {}, true, true},
    {"CodeLlamaTokenizer", "<s>", "</s>", "<unk>", {}, true},
    {"BloomTokenizer", "<s>", "</s>", "<unk>", "<pad>"},
    {"Qwen2Tokenizer", {}, kEndOfText, kEndOfText, kEndOfText},
    {"CodeGenTokenizer", kEndOfText, kEndOfText, kEndOfText, {}},
    {"GPTNeoXTokenizer", kEndOfText, kEndOfText, kEndOfText, {}, true, false, false},
    {"GemmaTokenizer", "<bos>", "<eos>", "<unk>", "<pad>", true},
    {"CohereTokenizer", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "<PAD>", true},
};

// The class for each model_type of config.json, if no file names a class (tokenization_auto.py).
struct ModelTokenizer {
  std::string_view model_type, name;
};
inline constexpr ModelTokenizer kModelTokenizers[] = {
    {"arcee", "LlamaTokenizer"},         {"ernie4_5", "LlamaTokenizer"},
    {"idefics3", "LlamaTokenizer"},      {"llama", "LlamaTokenizer"},
    {"ministral", "LlamaTokenizer"},     {"mistral", "LlamaTokenizer"},
    {"mistral3", "LlamaTokenizer"},      {"mixtral", "LlamaTokenizer"},
    {"phi3", "LlamaTokenizer"},          {"code_llama", "CodeLlamaTokenizer"},
    {"exaone4", "GPT2Tokenizer"},        {"gpt2", "GPT2Tokenizer"},
    {"gpt_bigcode", "GPT2Tokenizer"},    {"gpt_neo", "GPT2Tokenizer"},
    {"gptj", "GPT2Tokenizer"},           {"granite", "GPT2Tokenizer"},
    {"granitemoe", "GPT2Tokenizer"},     {"granitemoehybrid", "GPT2Tokenizer"},
    {"olmo3", "GPT2Tokenizer"},          {"opt", "GPT2Tokenizer"},
    {"starcoder2", "GPT2Tokenizer"},     {"bloom", "BloomTokenizer"},
    {"qwen2", "Qwen2Tokenizer"},         {"qwen2_5_vl", "Qwen2Tokenizer"},
    {"qwen2_vl", "Qwen2Tokenizer"},      {"qwen3", "Qwen2Tokenizer"},
    {"qwen3_moe", "Qwen2Tokenizer"},     {"qwen3_vl", "Qwen2Tokenizer"},
    {"codegen", "CodeGenTokenizer"},     {"phi", "CodeGenTokenizer"},
    {"gpt_neox", "GPTNeoXTokenizer"},    {"mpt", "GPTNeoXTokenizer"},
    {"olmo", "GPTNeoXTokenizer"},        {"olmo2", "GPTNeoXTokenizer"},
    {"olmoe", "GPTNeoXTokenizer"},       {"stablelm", "GPTNeoXTokenizer"},
    {"gemma", "GemmaTokenizer"},         {"gemma2", "GemmaTokenizer"},
    {"gemma3", "GemmaTokenizer"},        {"gemma3_text", "GemmaTokenizer"},
    {"cohere", "CohereTokenizer"},       {"cohere2", "CohereTokenizer"},
    {"falcon", "PreTrainedTokenizer"},   {"glm", "PreTrainedTokenizer"},
    {"glm4", "PreTrainedTokenizer"},     {"gpt_oss", "PreTrainedTokenizer"},
    {"helium", "PreTrainedTokenizer"},   {"nemotron", "PreTrainedTokenizer"},
    {"smollm3", "PreTrainedTokenizer"},  {"hunyuan_v1_dense", "PreTrainedTokenizer"},
    {"ministral3", "TokenizersBackend"}, {"qwen2_moe", "Qwen2Tokenizer"},
    {"ernie4_5_moe", "LlamaTokenizer"},
};

}  // namespace tenon::detail
