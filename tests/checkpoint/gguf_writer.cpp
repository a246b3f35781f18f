// Blocks have the bits of gguf-py's quantize; a written file is read back, and its bytes are those of gguf-py's writer.
#include "tenon/checkpoint/gguf_writer.h"

#include <boost/test/unit_test.hpp>

#include "../io/scratch.h"
#include "gguf_file.h"
#include "tenon/checkpoint/gguf.h"
#include "tenon/checkpoint/gguf_blocks.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/io/json.h"

BOOST_AUTO_TEST_SUITE(checkpoint_gguf_writer)

using namespace tenon;
using tenon::test::GgufBytes;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

namespace {

const std::filesystem::path kEncoded = TENON_SOURCE_DIR "/tests/checkpoint/gguf_cases/encoded.gguf";

Checkpoint opened(const std::filesystem::path& path) {
  File file(path);
  auto tensors = read_gguf_header(file).tensors;
  return Checkpoint::of_tensors(std::move(file), std::move(tensors));
}

std::vector<std::byte> bytes_of(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  std::vector<std::byte> out(tensor.end - tensor.begin);
  checkpoint.read_bytes(tensor, 0, out);
  return out;
}

GgufMetadata sound_metadata() {
  GgufMetadata out;
  out.add("general.architecture", "test");
  out.add("test.count", 7u);
  out.add("test.negative", -7);
  out.add("test.half", 0.5);
  out.add("test.yes", true);
  out.add("test.texts", Json({"a", "", "bc"}));
  out.add("test.numbers", Json({1, -2, 3}));
  out.add("test.floats", Json({0.5, -1.5}));
  out.add("test.none", Json::array());
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_have_the_bits_of_gguf_py) {
  const Checkpoint encoded = opened(kEncoded);
  std::vector<float> values(24 * 64);
  encoded.read_all(*encoded.find("F32"), values.data());
  BOOST_TEST_REQUIRE(encoded.tensors().size() == 5u);
  for (const TensorInfo& tensor : encoded.tensors()) {
    BOOST_TEST(is_encoded(tensor.dtype));
    std::vector<std::byte> found(tensor.end - tensor.begin);
    const std::size_t blocks = found.size() / static_cast<std::size_t>(block_layout(tensor.dtype).bytes);
    BOOST_TEST(encode_blocks(tensor.dtype, values.data(), blocks, found.data()), tensor.name);
    BOOST_TEST((found == bytes_of(encoded, tensor)), tensor.name);
  }
}

BOOST_AUTO_TEST_CASE(values_beyond_the_largest_scale_are_refused) {
  std::vector<float> values(64, 1.0f);
  std::vector<std::byte> out(64 * sizeof(float));
  const auto fits = [&](DType type, std::size_t blocks) {
    return encode_blocks(type, values.data(), blocks, out.data());
  };
  BOOST_TEST((fits(DType::q8_0, 2) && fits(DType::q4_0, 2) && fits(DType::f16, 64) && fits(DType::bf16, 64)));
  values[3] = -70000.0f;
  BOOST_TEST(!fits(DType::f16, 64));
  BOOST_TEST((fits(DType::q8_0, 2) && fits(DType::q4_0, 2)));
  values[3] = 1e6f;
  BOOST_TEST(fits(DType::q8_0, 2));
  BOOST_TEST(!fits(DType::q4_0, 2));
  values[3] = -1e7f;
  BOOST_TEST(!fits(DType::q8_0, 2));
  values[3] = 3.4e38f;
  BOOST_TEST(fits(DType::f32, 64));
  BOOST_TEST(!fits(DType::bf16, 64));
}

BOOST_AUTO_TEST_CASE(a_file_is_read_back) {
  const Scratch scratch;
  const std::vector<std::byte> blocks(2 * 34, std::byte{3}), vector(5 * sizeof(float), std::byte{0});
  {
    GgufWriter writer(scratch / "model.gguf", {{"b", DType::q8_0, {2, 32}}, {"a", DType::f32, {5}}}, sound_metadata());
    writer.write("a", 0, vector);
    writer.write("b", 34, std::span(blocks).subspan(34));
    writer.write("b", 0, std::span(blocks).first(34));
    BOOST_TEST(writer.data_bytes() == blocks.size() + vector.size());
    writer.finish();
  }
  const File file(scratch / "model.gguf");
  BOOST_TEST(file.size() % 32 == 0u);  // the last tensor is padded, too
  const GgufHeader header = read_gguf_header(file);
  const Json& m = *header.metadata;
  BOOST_TEST(header.version == 3);
  BOOST_TEST(m.at("test.count") == 7);
  BOOST_TEST(m.at("test.negative") == -7);
  BOOST_TEST(m.at("test.half") == 0.5);
  BOOST_TEST(m.at("test.yes") == true);
  BOOST_TEST(m.at("test.texts") == Json({"a", "", "bc"}));
  BOOST_TEST(m.at("test.numbers") == Json({1, -2, 3}));
  BOOST_TEST(m.at("test.floats") == Json({0.5, -1.5}));
  BOOST_TEST(m.at("test.none") == Json::array());
  BOOST_TEST_REQUIRE(header.tensors.size() == 2u);
  BOOST_TEST(header.tensors[0].name == "b");
  BOOST_TEST((header.tensors[0].shape == std::vector<std::uint64_t>{2, 32}));
  const Checkpoint checkpoint = opened(scratch / "model.gguf");
  BOOST_TEST((bytes_of(checkpoint, *checkpoint.find("b")) == blocks));
  BOOST_TEST((bytes_of(checkpoint, *checkpoint.find("a")) == vector));
}

// The same file by hand, in the types of the format.
BOOST_AUTO_TEST_CASE(numbers_have_the_types_of_the_converter) {
  GgufBytes wanted;
  wanted.entry("u", 4).number(7u).entry("i", 5).number(-7).entry("f", 6).number(0.5f);
  wanted.entry("list", 9).number(5u).number(std::uint64_t{2}).number(1).number(-2);
  GgufMetadata found;
  found.add("u", 7);
  found.add("i", -7);
  found.add("f", 0.5);
  found.add("list", Json({1, -2}));
  BOOST_TEST(found.bytes() == wanted.bytes);
  BOOST_TEST(found.entries() == 4u);
  BOOST_TEST(mentions(refusal([&] { found.add("big", 5000000000u); }), {"big", "5000000000", "does not fit"}));
  BOOST_TEST(mentions(refusal([&] { found.add("big", Json({3000000000u})); }), {"big", "does not fit"}));
  BOOST_TEST(mentions(refusal([&] { found.add("nested", Json::array({Json::array()})); }), {"without a type"}));
}

// The header of gguf-py's file, entry by entry.
BOOST_AUTO_TEST_CASE(entries_of_another_file_keep_their_bytes) {
  const Scratch scratch;
  const std::filesystem::path cases = TENON_SOURCE_DIR "/tests/checkpoint/gguf_cases/cases.gguf";
  const File file(cases);
  const GgufHeader header = read_gguf_header(file);
  GgufMetadata metadata;
  for (const GgufEntry& entry : header.entries) {
    std::vector<std::byte> bytes(entry.end - entry.begin);
    file.read_at(entry.begin, bytes);
    metadata.add_bytes(bytes);
  }
  std::vector<TensorPlan> plans;
  for (const TensorInfo& tensor : header.tensors) plans.push_back({tensor.name, tensor.dtype, tensor.shape});
  const Checkpoint source = opened(cases);
  GgufWriter writer(scratch / "copy.gguf", plans, metadata);
  for (const TensorInfo& tensor : source.tensors()) writer.write(tensor.name, 0, bytes_of(source, tensor));
  writer.finish();
  BOOST_TEST((read_text_file(scratch / "copy.gguf", 1 << 20) == read_text_file(cases, 1 << 20)));
}

BOOST_AUTO_TEST_CASE(wrong_plans_are_refused) {
  const Scratch scratch;
  const auto message = [&](const std::vector<TensorPlan>& plans) {
    return refusal([&] { GgufWriter(scratch / "model.gguf", plans, sound_metadata()); });
  };
  BOOST_TEST(mentions(message({{"a", DType::f32, {1}}, {"a", DType::f32, {1}}}), {"model.gguf: a", "twice"}));
  BOOST_TEST(mentions(message({{"a", DType::q4_0, {2, 16}}}), {"model.gguf: a", "within a block"}));
  BOOST_TEST(mentions(message({{"a", DType::f32, {1ull << 40, 1ull << 40}}}), {"model.gguf: a", "2^64"}));
  BOOST_TEST(mentions(message({{"a", DType::u8, {4}}}), {"U8", "no type of GGUF"}));
  BOOST_TEST(!std::filesystem::exists(scratch / "model.gguf"));
}

BOOST_AUTO_TEST_SUITE_END()
