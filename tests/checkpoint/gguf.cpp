// GGUF headers and blocks. gguf_cases/ was written by make_gguf_cases.py with gguf-py.
#include "tenon/checkpoint/gguf.h"

#include <boost/test/unit_test.hpp>
#include <random>

#include "../io/scratch.h"
#include "gguf_file.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/io/json.h"
#include "tenon/io/sha256.h"

BOOST_AUTO_TEST_SUITE(checkpoint_gguf)

using namespace tenon;
using tenon::test::GgufBytes;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

namespace {

const std::filesystem::path kCases = TENON_SOURCE_DIR "/tests/checkpoint/gguf_cases";

GgufBytes head(std::uint64_t tensors, std::uint64_t entries, std::uint32_t version = 3) {
  return GgufBytes().head(tensors, entries, version);
}

GgufHeader read(const Scratch& scratch, const std::string& bytes) {
  return read_gguf_header(File(scratch.write("model.gguf", bytes)));
}

std::string refused(const Scratch& scratch, const GgufBytes& bytes) {
  return refusal([&] { read(scratch, bytes.bytes); });
}

std::vector<float> whole(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  std::uint64_t elements = 1;
  for (const auto dim : tensor.shape) elements *= dim;
  std::vector<float> out(elements);
  checkpoint.read_all(tensor, out.data());
  return out;
}

Checkpoint opened(const std::filesystem::path& path) {
  File file(path);
  auto tensors = read_gguf_header(file).tensors;
  return Checkpoint::of_tensors(std::move(file), std::move(tensors));
}

struct Case {
  const char* name;
  GgufBytes bytes;
  std::vector<std::string> words;
};

}  // namespace

BOOST_AUTO_TEST_CASE(metadata_of_every_type_is_read) {
  const GgufHeader header = read_gguf_header(File(kCases / "cases.gguf"));
  const Json& m = *header.metadata;
  BOOST_TEST(header.version == 3);
  BOOST_TEST(m.at("general.architecture") == "test");
  BOOST_TEST(m.at("test.u8") == 200);
  BOOST_TEST(m.at("test.i8") == -100);
  BOOST_TEST(m.at("test.u16") == 60000);
  BOOST_TEST(m.at("test.i16") == -30000);
  BOOST_TEST(m.at("test.u32") == 4000000000u);
  BOOST_TEST(m.at("test.i32") == -2000000000);
  BOOST_TEST(m.at("test.u64") == 9223372036854775808u);
  BOOST_TEST(m.at("test.i64") == -4611686018427387904);
  BOOST_TEST(m.at("test.f32") == static_cast<double>(0.1f));
  BOOST_TEST(m.at("test.f64") == 0.1);
  BOOST_TEST(m.at("test.bool") == true);
  BOOST_TEST(m.at("test.string") == "caf\xC3\xA9");
  BOOST_TEST(m.at("test.strings") == Json({"a", "", "bc"}));
  BOOST_TEST(m.at("test.numbers") == Json({1, -2, 3}));
  BOOST_TEST(m.at("test.floats") == Json({0.5, -1.5}));
  BOOST_TEST(m.at("test.bools") == Json({true, false}));
}

BOOST_AUTO_TEST_CASE(values_of_every_type_have_the_bits_of_gguf_py) {
  const Checkpoint cases = opened(kCases / "cases.gguf");
  const Checkpoint expected = Checkpoint::open_file(kCases / "expected.safetensors");
  BOOST_TEST_REQUIRE(cases.tensors().size() == 56u);
  BOOST_TEST(expected.tensors().size() == 56u);
  for (const TensorInfo& tensor : cases.tensors()) {
    const TensorInfo& answer = expected.require(tensor.name, tensor.shape);
    const std::vector<float> found = whole(cases, tensor), wanted = whole(expected, answer);
    BOOST_TEST(std::memcmp(found.data(), wanted.data(), wanted.size() * sizeof(float)) == 0, tensor.name);
  }
}

// Every entry of every grid, whose values gguf-py gives as SHA-256.
BOOST_AUTO_TEST_CASE(codes_of_grids_have_the_bits_of_gguf_py) {
  const Json metadata = *read_gguf_header(File(kCases / "grids.gguf")).metadata;
  const Checkpoint cases = opened(kCases / "grids.gguf");
  BOOST_TEST_REQUIRE(cases.tensors().size() == 7u);
  for (const TensorInfo& tensor : cases.tensors()) {
    const std::vector<float> values = whole(cases, tensor);
    Sha256 hash;
    hash.update(std::as_bytes(std::span(values)));
    BOOST_TEST(hash.hex() == metadata.at("sha256." + tensor.name), tensor.name);
  }
}

// Rectangles that begin and end within blocks.
BOOST_AUTO_TEST_CASE(parts_of_blocks_are_read) {
  const Checkpoint cases = opened(kCases / "cases.gguf");
  std::mt19937 random(7);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  for (const TensorInfo& tensor : cases.tensors()) {
    if (tensor.shape.size() != 2) continue;
    const std::uint64_t rows = tensor.shape[0], cols = tensor.shape[1];
    const std::vector<float> all = whole(cases, tensor);
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t row = below(rows), col = below(cols);
      const std::uint64_t height = below(rows - row) + 1, width = below(cols - col) + 1;
      std::vector<float> part(height * width);
      cases.read(tensor, row, height, col, width, part.data());
      for (std::uint64_t r = 0; r < height; ++r)
        BOOST_TEST(std::memcmp(&part[r * width], &all[(row + r) * cols + col], width * sizeof(float)) == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(stored_orders_are_undone) {
  const Scratch scratch;
  std::vector<float> values(24);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  GgufBytes bytes = head(1, 0).tensor("a", 0, 0, {2, 12}).data(0);
  bytes.bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  File file(scratch.write("model.gguf", bytes.bytes));
  auto tensors = read_gguf_header(file).tensors;
  // One head of 12 rows: its halves, 6 rows each, were interleaved.
  tensors[0].order = {.b = 2, .c = 6, .d = 1};
  tensors.push_back({.name = "t", .shape = {2, 12}, .begin = tensors[0].begin, .end = tensors[0].end});
  tensors[1].order.transposed = true;
  tensors.push_back({.name = "v", .shape = {24}, .begin = tensors[0].begin, .end = tensors[0].end});
  tensors[2].order = {.b = 3, .c = 4, .d = 2};  // 4 heads of 3 parts of 2 elements, stored by part
  const Checkpoint checkpoint = Checkpoint::of_tensors(std::move(file), std::move(tensors));
  const auto rows = whole(checkpoint, *checkpoint.find("a")), columns = whole(checkpoint, *checkpoint.find("t"));
  const auto vector = whole(checkpoint, *checkpoint.find("v"));
  for (std::size_t r = 0; r < 12; ++r) {
    const std::size_t stored = r % 6 * 2 + r / 6;
    BOOST_TEST(rows[r * 2] == values[stored * 2]);
    BOOST_TEST(rows[r * 2 + 1] == values[stored * 2 + 1]);
    BOOST_TEST(columns[r] == values[r * 2]);
    BOOST_TEST(columns[12 + r] == values[r * 2 + 1]);
  }
  for (std::size_t i = 0; i < 24; ++i) BOOST_TEST(vector[i] == values[(i / 2 % 4 * 3 + i / 8) * 2 + i % 2]);
}

BOOST_AUTO_TEST_CASE(version_2_and_other_alignments_are_read) {
  const Scratch scratch;
  const GgufBytes bytes =
      head(2, 1, 2).entry("general.alignment", 4).number(64u).tensor("a", 0).tensor("b", 64).data(80, 64);
  const GgufHeader header = read(scratch, bytes.bytes);
  BOOST_TEST(header.version == 2);
  BOOST_TEST(header.tensors[1].begin % 64 == 0u);
  BOOST_TEST(header.tensors[1].begin == header.tensors[0].begin + 64);
  BOOST_TEST(header.tensors[1].end == bytes.bytes.size());
}

BOOST_AUTO_TEST_CASE(malformed_files_are_refused) {
  const Scratch scratch;
  const std::uint64_t huge = std::uint64_t{1} << 60;
  const Case cases[] = {
      {"empty", {}, {"no GGUF file"}},
      {"magic", {"GGML...."}, {"no GGUF file"}},
      {"magic alone", {"GGUF"}, {"version", "truncated"}},
      {"version 1", head(0, 0, 1), {"version", "1 is not supported"}},
      {"version 4", head(0, 0, 4), {"version", "4 is not supported"}},
      {"big-endian", head(0, 0, 0x03000000u), {"big-endian"}},
      {"counts cut off", {head(0, 0).bytes.substr(0, 20)}, {"metadata entries", "truncated"}},
      {"many tensors", head(huge, 0), {"tensors", "limit"}},
      {"many entries", head(0, huge), {"metadata entries", "truncated"}},
      {"entry missing", head(0, 1), {"metadata entries", "truncated"}},
      {"key too long", head(0, 1).number(huge), {"metadata entry 0", "truncated"}},
      {"key over the limit", head(0, 1).text(std::string(70000, 'k')), {"metadata entry 0", "65535"}},
      {"key empty", head(0, 1).entry("", 4).number(1u), {"metadata entry 0", "empty"}},
      {"key with a newline", head(0, 1).entry("a\nb", 4).number(1u), {"metadata entry 0", "control"}},
      {"unknown type", head(0, 1).entry("k", 13).number(1u), {"k", "type 13"}},
      {"value cut off", head(0, 1).entry("k", 10).number(1u), {"k", "truncated"}},
      {"truth value 2", head(0, 1).entry("k", 7).number(std::uint8_t{2}), {"k", "0 or 1"}},
      {"string cut off", head(0, 1).entry("k", 8).number(huge), {"k", "truncated"}},
      {"list cut off", head(0, 1).entry("k", 9).number(4u).number(huge), {"k", "truncated"}},
      {"list overflows", head(0, 1).entry("k", 9).number(10u).number(~std::uint64_t{0}), {"k", "truncated"}},
      {"list of lists", head(0, 1).entry("k", 9).number(9u).number(std::uint64_t{0}), {"k", "list of lists"}},
      {"list of unknown", head(0, 1).entry("k", 9).number(99u).number(std::uint64_t{0}), {"k", "type 99"}},
      {"twice", head(0, 2).entry("k", 4).number(1u).entry("k", 4).number(1u), {"k", "twice"}},
      {"alignment 0", head(0, 1).entry("general.alignment", 4).number(0u), {"alignment", "power of two"}},
      {"alignment 48", head(0, 1).entry("general.alignment", 4).number(48u), {"alignment", "48"}},
      {"alignment text", head(0, 1).entry("general.alignment", 8).text("32"), {"alignment", "power of two"}},
      {"tensor cut off", head(1, 0).text("a"), {"a", "truncated"}},
      {"tensor unnamed", head(1, 0).tensor("", 0).data(16), {"tensor 0", "empty"}},
      {"tensor twice", head(2, 0).tensor("a", 0).tensor("a", 32).data(64), {"a", "duplicate"}},
      {"5 dimensions", head(1, 0).tensor("a", 0, 0, {1, 1, 1, 1, 1}).data(16), {"a", "5 dimensions"}},
      {"2^64 values", head(1, 0).tensor("a", 0, 0, {huge, huge}).data(16), {"a", "2^64"}},
      {"more bytes than the file", head(1, 0).tensor("a", 0, 0, {1000}).data(16), {"a", "more bytes"}},
      {"no whole block", head(1, 0).tensor("a", 0, 2, {16, 2}).data(36), {"a", "multiple of 32", "Q4_0"}},
      {"type not read", head(1, 0).tensor("a", 0, 15, {256}).data(292), {"a", "Q8_K", "not read", "Q4_K"}},
      {"type unknown", head(1, 0).tensor("a", 0, 77).data(16), {"a", "77", "not read"}},
      {"offset unaligned", head(1, 0).tensor("a", 8).data(64), {"a", "alignment"}},
      {"offset past the end", head(1, 0).tensor("a", 1u << 20).data(16), {"a", "past the end"}},
      {"offset overflows", head(1, 0).tensor("a", ~std::uint64_t{31}).data(16), {"a", "past the end"}},
      {"data cut off", head(1, 0).tensor("a", 0).data(15), {"a", "past the end"}},
      {"overlap", head(2, 0).tensor("a", 0, 0, {16}).tensor("b", 32).data(64), {"b", "overlaps", "a"}},
  };
  for (const Case& each : cases)
    BOOST_TEST(mentions(refused(scratch, each.bytes), each.words), each.name << ": " << refused(scratch, each.bytes));
}

// Whatever bytes change, a file is read or refused. Sanitizers see the rest.
BOOST_AUTO_TEST_CASE(damaged_files_are_read_or_refused) {
  const Scratch scratch;
  const std::string sound = read_text_file(kCases / "cases.gguf", 1 << 20);
  const std::size_t end = read_gguf_header(File(kCases / "cases.gguf")).tensors[0].begin;
  std::mt19937 random(11);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = sound;
    for (int k = static_cast<int>(random() % 4); k >= 0; --k) bytes[random() % end] = static_cast<char>(random());
    if (i % 5 == 0) bytes.resize(random() % bytes.size());
    refused += refusal([&] { read(scratch, bytes); }) != "accepted" ? 1 : 0;
  }
  BOOST_TEST(refused > 500);
  BOOST_TEST(refused < 2000);
}

BOOST_AUTO_TEST_SUITE_END()
