// Damaged GGUF files, as many as you like: scripts/fuzz-gguf compiles this with sanitizers and runs it.
//   gguf [--count N] [--first S]   N files from seed S on
// Each file is loaded as a model: header, config, tensors' shapes, tokenizer. It must load or be refused by
// tenon::Error.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>
#include <set>
#include <string>

#include "../checkpoint/gguf_file.h"
#include "../io/scratch.h"
#include "tenon/io/json.h"
#include "tenon/model/files.h"
#include "tenon/model/tensor_source.h"
#include "tenon/model/with_model.h"
#include "tenon/tokenizer/byte_level.h"

namespace {

using tenon::test::GgufFile;

void add_tensor(GgufFile& file, const std::string& name, std::vector<std::uint64_t> shape) {
  std::size_t count = 1;
  for (const std::uint64_t dim : shape) count *= dim;
  file.tensors.push_back({name, std::move(shape), std::vector<float>(count, 0.5f)});
}

// A Llama of one layer. `tokenizer`: its metadata.
GgufFile llama(const nlohmann::json& tokenizer) {
  const std::uint64_t width = 8, vocabulary = tokenizer["tokenizer.ggml.tokens"].size();
  GgufFile file;
  file.metadata = tokenizer;
  file.metadata.update({{"general.architecture", "llama"},
                        {"llama.block_count", 1},
                        {"llama.context_length", 16},
                        {"llama.embedding_length", 8},
                        {"llama.feed_forward_length", 12},
                        {"llama.attention.head_count", 2},
                        {"llama.attention.head_count_kv", 1},
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

nlohmann::json byte_level() {
  nlohmann::json out = {{"tokenizer.ggml.model", "gpt2"},
                        {"tokenizer.ggml.pre", "llama-bpe"},
                        {"tokenizer.ggml.merges", {"t h", "th e"}},
                        {"tokenizer.ggml.bos_token_id", 258},
                        {"tokenizer.ggml.eos_token_id", 259}};
  nlohmann::json& tokens = out["tokenizer.ggml.tokens"];
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(tenon::detail::spell_byte(static_cast<unsigned char>(byte)));
  for (const char* more : {"th", "the", "<s>", "</s>"}) tokens.push_back(more);
  out["tokenizer.ggml.token_type"] = nlohmann::json(tokens.size(), 1);
  out["tokenizer.ggml.token_type"][258] = out["tokenizer.ggml.token_type"][259] = 3;
  return out;
}

std::string damaged(std::string bytes, std::mt19937& random) {
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

void load(const std::filesystem::path& path) {
  const tenon::ModelFiles files = tenon::load_checkpoint(path);
  if (files.tokenizer) files.tokenizer->encode("the  caf\xC3\xA9 <s> 123\n", true);
  tenon::with_model(tenon::BuiltInModels{}, tenon::model_type_of(files), [&](auto family) {
    using Family = decltype(family);
    const tenon::ModelConfig config = Family::configure(*files.config);
    check_layer_count(files, config);
    const tenon::DecoderSpec spec = Family::tensors(config);
    const tenon::TensorSource source(files, Family::name_prefix);
    source.check(spec, config.tied_head);
    std::vector<float> rows(static_cast<std::size_t>(spec.embedding.shape.cols));
    source.read(spec.embedding, 0, 1, rows.data());
    return 0;
  });
}

}  // namespace

int main(int argc, char** argv) {
  std::uint32_t first = 1, count = 2000;
  for (int i = 1; i + 1 < argc; i += 2)
    (std::string(argv[i]) == "--first" ? first : count) =
        static_cast<std::uint32_t>(std::strtoul(argv[i + 1], nullptr, 10));
  std::ifstream pieces(TENON_SOURCE_DIR "/tests/tokenizer/gguf_sentencepiece.json");
  const std::string sound[] = {llama(byte_level()).bytes(), llama(nlohmann::json::parse(pieces)["metadata"]).bytes()};
  const tenon::test::Scratch scratch;
  for (const std::string& bytes : sound) load(scratch.write("sound.gguf", bytes));
  std::size_t refused = 0;
  std::set<std::string> places;  // of errors, to see that the files reach far
  for (std::uint32_t seed = first; seed < first + count; ++seed) {
    std::mt19937 random(seed);
    alarm(20);
    try {
      load(scratch.write("damaged.gguf", damaged(sound[seed % 2], random)));
    } catch (const tenon::Error& error) {
      ++refused;
      if (error.kind() == tenon::Error::Kind::internal) throw;
      places.insert(error.where());
    }
  }
  std::cout << count << " files: " << refused << " refused, at " << places.size() << " places; the others load\n";
}
