// Damaged GGUF files, as many as you like; the file of a seed is the same on every machine. Each is loaded as a model:
// header, config, tensors' shapes and values, tokenizer. It must load or be refused by tenon::Error.
#pragma once
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "../checkpoint/gguf_file.h"
#include "../io/scratch.h"
#include "seeds.h"
#include "tenon/device/thread_pool.h"
#include "tenon/io/json.h"
#include "tenon/model/any_family.h"
#include "tenon/model/files.h"
#include "tenon/model/gguf_export.h"
#include "tenon/model/tensor_source.h"
#include "tenon/tokenizer/byte_level.h"

namespace tenon::test::fuzz_gguf {

inline void add_tensor(GgufFile& file, const std::string& name, std::vector<std::uint64_t> shape) {
  std::size_t count = 1;
  for (const std::uint64_t dim : shape) count *= dim;
  file.tensors.push_back({name, std::move(shape), std::vector<float>(count, 0.5f)});
}

// A Llama of one layer. `tokenizer`: its metadata.
inline GgufFile llama(const nlohmann::json& tokenizer, std::uint64_t width) {
  const std::uint64_t vocabulary = tokenizer["tokenizer.ggml.tokens"].size();
  GgufFile file;
  file.metadata = tokenizer;
  file.metadata.update({{"general.architecture", "llama"},
                        {"llama.block_count", 1},
                        {"llama.context_length", 16},
                        {"llama.embedding_length", width},
                        {"llama.feed_forward_length", 12},
                        {"llama.attention.head_count", 2},
                        {"llama.attention.head_count_kv", 1},
                        {"llama.attention.key_length", 4},
                        {"llama.attention.value_length", 4},
                        {"llama.rope.dimension_count", 4},
                        {"llama.rope.freq_base", 1e8f},
                        {"llama.attention.layer_norm_rms_epsilon", 1e-5f}});
  add_tensor(file, "rope_freqs.weight", {2});
  file.tensors.back().values = {1, 8};
  add_tensor(file, "token_embd.weight", {vocabulary, width});
  add_tensor(file, "output_norm.weight", {width});
  const std::string layer = "blk.0.";
  for (const char* name : {"attn_norm.weight", "ffn_norm.weight"}) add_tensor(file, layer + name, {width});
  add_tensor(file, layer + "attn_q.weight", {8, width});
  add_tensor(file, layer + "attn_k.weight", {4, width});
  add_tensor(file, layer + "attn_v.weight", {4, width});
  add_tensor(file, layer + "attn_output.weight", {width, 8});
  add_tensor(file, layer + "ffn_gate.weight", {12, width});
  add_tensor(file, layer + "ffn_up.weight", {12, width});
  add_tensor(file, layer + "ffn_down.weight", {width, 12});
  return file;
}

inline nlohmann::json byte_level() {
  nlohmann::json out = {{"tokenizer.ggml.model", "gpt2"},
                        {"tokenizer.ggml.pre", "llama-bpe"},
                        {"tokenizer.ggml.merges", {"t h", "th e"}}};
  nlohmann::json& tokens = out["tokenizer.ggml.tokens"];
  // Few bytes have a token: a small file is loaded in a fraction of the time.
  for (const char byte : std::string_view("abcdehnstu \n<>123"))
    tokens.push_back(tenon::detail::spell_byte(static_cast<unsigned char>(byte)));
  for (const char* more : {"th", "the", "<s>", "</s>"}) tokens.push_back(more);
  nlohmann::json& kinds = out["tokenizer.ggml.token_type"] = nlohmann::json(tokens.size(), 1);
  kinds[tokens.size() - 2] = kinds[tokens.size() - 1] = 3;
  out["tokenizer.ggml.bos_token_id"] = tokens.size() - 2;
  out["tokenizer.ggml.eos_token_id"] = tokens.size() - 1;
  return out;
}

// Its matrices in blocks of 256 values, of one type after another. The blocks are zeros: damage makes them others.
inline GgufFile llama_of_blocks() {
  GgufFile file = llama(byte_level(), 256);
  const auto first = static_cast<std::size_t>(DType::iq4_xs), last = static_cast<std::size_t>(DType::nvfp4);
  std::size_t next = first;
  for (GgufFile::Tensor& each : file.tensors) {
    if (each.shape.size() != 2 || each.shape[1] != 256) continue;
    const auto type = static_cast<DType>(next);
    const GgufBlock block = block_layout(type);
    each.type = tenon::detail::gguf_type_number(type);
    each.blocks.assign(
        each.values.size() / static_cast<std::size_t>(block.values) * static_cast<std::size_t>(block.bytes), '\0');
    next = next == last ? first : next + 1;
  }
  return file;
}

// Parts 1 and 2 of a model: the metadata, and the tensors.
inline std::pair<std::string, std::string> two_parts(const GgufFile& whole) {
  GgufFile first = whole, second = whole;
  first.tensors.clear();
  second.metadata = nlohmann::json::object();
  for (auto& [file, number] : {std::pair(&first, 0), {&second, 1}}) {
    file->metadata["split.no"] = number;
    file->metadata["split.count"] = 2;
    file->metadata["split.tensors.count"] = whole.tensors.size();
  }
  return {first.bytes(), second.bytes()};
}

template <class Random>
std::string damaged(std::string bytes, Random& random) {
  constexpr std::uint64_t edges[] = {0, 1, 31, 255, 1u << 31, std::uint64_t{1} << 62, ~std::uint64_t{0}};
  for (int k = static_cast<int>(random() % 4); k >= 0; --k) {
    const std::size_t at = random() % bytes.size();
    if (random() % 3 == 0 && at + 8 < bytes.size()) {
      const std::uint64_t value = edges[random() % std::size(edges)];
      std::memcpy(bytes.data() + at, &value, random() % 2 == 0 ? 4 : 8);
    } else {
      bytes[at] = static_cast<char>(random());
    }
  }
  if (random() % 8 == 0) bytes.resize(random() % bytes.size());
  return bytes;
}

// Reads a row of every matrix, as values and, if the file has them, as codes.
inline void read_matrices(const tenon::TensorSource& source, const tenon::DecoderSpec& spec, bool tied_head) {
  using Code = tenon::Int4Code<32>;
  const auto matrix = [&](const tenon::MatrixSpec& m) {
    if (m.parts.empty()) return;
    std::vector<float> row(static_cast<std::size_t>(m.shape.cols));
    source.read(m, m.shape.rows - 1, 1, row.data());
    tenon::CodeBlock block;
    if (source.holds<Code>(m)) source.read_codes<Code>(m, m.shape.rows - 1, 1, block);
  };
  const auto vector = [&](const tenon::VectorSpec& v) {
    std::vector<float> values(static_cast<std::size_t>(v.shape.rows) * static_cast<std::size_t>(v.shape.cols));
    if (!v.none()) source.read(v, values.data());
  };
  tenon::visit_parts(spec, tied_head, {matrix, matrix, vector});
}

inline void load(const std::filesystem::path& path) {
  const tenon::ModelFiles files = tenon::load_checkpoint(path);
  if (files.tokenizer) files.tokenizer->encode("the  caf\xC3\xA9 <s> 123\n", true);
  const auto model = tenon::detail::source_model(tenon::BuiltInModels{}, files);
  const tenon::TensorSource source(files, model.name_prefix);
  source.check(model.spec, model.tied_head);
  read_matrices(source, model.spec, model.tied_head);
}

// Seeds of the command line, which run_seeds() describes.
inline int run(int argc, char** argv) {
  std::ifstream pieces(TENON_SOURCE_DIR "/tests/tokenizer/gguf_sentencepiece.json");
  const nlohmann::json sentencepiece = nlohmann::json::parse(pieces)["metadata"];
  const tenon::test::Scratch scratch;
  scratch.write("f32.gguf", llama(byte_level(), 32).bytes());
  tenon::ThreadPool pool(1);
  for (const char* type : {"q4_0", "q8_0"})
    tenon::export_gguf(scratch / "f32.gguf", scratch / (std::string(type) + ".gguf"), type, pool);
  const auto read = [&](const std::filesystem::path& path) { return tenon::read_text_file(path, 1 << 20); };
  const std::string small = llama(byte_level(), 8).bytes(), q4 = read(scratch / "q4_0.gguf"),
                    q8 = read(scratch / "q8_0.gguf"), pieced = llama(sentencepiece, 8).bytes();
  const std::filesystem::path mixtures = TENON_SOURCE_DIR "/tests/model/gguf_experts";
  const std::string experts = read(mixtures / "qwen3moe.gguf"), stacks = read(mixtures / "gpt-oss.gguf");
  const std::string blocks = llama_of_blocks().bytes();
  const tenon::test::MemoryFile memory;
  // One of two parts is damaged, the other is sound.
  const auto [metadata, tensors] = two_parts(llama(byte_level(), 8));
  std::filesystem::create_symlink(memory.write(metadata), scratch / "a-00001-of-00002.gguf");
  scratch.write("a-00002-of-00002.gguf", tensors);
  scratch.write("b-00001-of-00002.gguf", metadata);
  std::filesystem::create_symlink(memory.write(tensors), scratch / "b-00002-of-00002.gguf");
  struct Sound {
    const std::string& bytes;
    const char* path = "";  // of the model that has them as a part
  };
  const char *const first = "a-00001-of-00002.gguf", *const second = "b-00001-of-00002.gguf";
  const Sound sound[] = {{small},  {q4},    {small},  {q8},    {small},           {experts},         {blocks},
                         {stacks}, {small}, {pieced}, {small}, {metadata, first}, {tensors, second}, {blocks}};
  const auto load_bytes = [&](const Sound& each, const std::string& bytes) {
    const std::filesystem::path& written = memory.write(bytes);
    load(*each.path == '\0' ? written : scratch / each.path);
  };
  for (const Sound& each : sound) load_bytes(each, each.bytes);
  return tenon::test::run_seeds(argc, argv, [&](auto& random, std::uint32_t seed) {
    const Sound& each = sound[seed % std::size(sound)];
    load_bytes(each, damaged(each.bytes, random));
  });
}

}  // namespace tenon::test::fuzz_gguf
