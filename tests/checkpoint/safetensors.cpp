#include "tenon/checkpoint/safetensors.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <random>

#include "../io/scratch.h"

BOOST_AUTO_TEST_SUITE(checkpoint_safetensors)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

namespace {

// The bytes of a file: length, header, data.
std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, std::uint64_t begin,
                  std::uint64_t end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

std::string bytes_of(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<char>((i * 37 + 11) % 61);  // small: every float is finite
  return bytes;
}

// a: F32 [2, 3], b: F16 [4]; 32 bytes of data.
const std::string kA = entry("a", "F32", "[2,3]", 0, 24), kB = entry("b", "F16", "[4]", 24, 32);
const std::string kSound = file_of("{" + kA + "," + kB + "}", bytes_of(32));

std::string refused(const Scratch& scratch, const std::string& bytes) {
  scratch.write("model.safetensors", bytes);
  return refusal([&] { Checkpoint::open(scratch.folder()); });
}

std::vector<float> whole(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  std::uint64_t elements = 1;
  for (const auto dim : tensor.shape) elements *= dim;
  std::vector<float> out(elements);
  checkpoint.read_all(tensor, out.data());
  return out;
}

struct Case {
  const char* name;
  std::string bytes;
  std::vector<std::string> words;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_sound_file_is_read) {
  const Scratch scratch;
  scratch.write("model.safetensors",
                file_of("{\"__metadata__\":{\"format\":\"pt\"}," + kB + "," + kA + "}   ", bytes_of(32)));
  const Checkpoint checkpoint = Checkpoint::open(scratch.folder());
  BOOST_TEST_REQUIRE(checkpoint.tensors().size() == 2u);
  const TensorInfo& a = checkpoint.tensors()[0];  // in the order of the data, not of the header
  BOOST_TEST(a.name == "a");
  BOOST_TEST((a.dtype == DType::f32));
  BOOST_TEST(a.shape == (std::vector<std::uint64_t>{2, 3}));
  BOOST_TEST(a.end - a.begin == 24u);
  BOOST_TEST(checkpoint.find("b") == &checkpoint.tensors()[1]);
  BOOST_TEST(checkpoint.find("c") == nullptr);
  BOOST_TEST(checkpoint.find("") == nullptr);
  BOOST_TEST(checkpoint.where(a) == "model.safetensors: a");

  const std::string data = bytes_of(32);
  std::vector<float> expected(6);
  std::memcpy(expected.data(), data.data(), 24);
  BOOST_TEST(whole(checkpoint, a) == expected);
  for (std::size_t i = 0; i < 4; ++i) {
    std::uint16_t half;
    std::memcpy(&half, data.data() + 24 + 2 * i, 2);
    BOOST_TEST(whole(checkpoint, checkpoint.tensors()[1])[i] == float_of_f16(half));
  }
  checkpoint.verify_unchanged();
}

BOOST_AUTO_TEST_CASE(tensors_without_use_need_only_a_sound_layout) {
  const Scratch scratch;
  const std::string header = "{" + entry("mask", "BOOL", "[1,1,2,2]", 0, 4) + "," +
                             entry("none", "F32", "[0,5]", 4, 4) + "," + entry("scalar", "F32", "[]", 4, 8) + "," +
                             entry("f4", "F4", "[2]", 8, 9) + "," + entry("deep", "F32", "[1,2,1,1]", 9, 17) + "," +
                             entry("empty_name_is_fine_too", "I64", "[1]", 17, 25) + "}";
  scratch.write("model.safetensors", file_of(header, bytes_of(25)));
  const Checkpoint checkpoint = Checkpoint::open(scratch.folder());
  BOOST_TEST(checkpoint.tensors().size() == 6u);
  float out[4];
  for (const char* name : {"mask", "f4", "empty_name_is_fine_too"})
    BOOST_TEST(mentions(refusal([&] { checkpoint.read(*checkpoint.find(name), 0, 1, 0, 1, out); }),
                        {"model.safetensors", name, "dtype"}));
  BOOST_TEST(
      mentions(refusal([&] { checkpoint.read(*checkpoint.find("deep"), 0, 1, 0, 1, out); }), {"deep", "[1, 2, 1, 1]"}));
  BOOST_TEST(mentions(refusal([&] { checkpoint.read(*checkpoint.find("scalar"), 0, 1, 0, 1, out); }),
                      {"scalar", "dimensions"}));
  BOOST_TEST(whole(checkpoint, *checkpoint.find("deep")).size() == 2u);
  BOOST_TEST(whole(checkpoint, *checkpoint.find("scalar")).size() == 1u);
  BOOST_TEST(whole(checkpoint, *checkpoint.find("none")).empty());
  checkpoint.read(*checkpoint.find("none"), 0, 0, 0, 5, out);
}

BOOST_AUTO_TEST_CASE(require_checks_name_shape_and_type) {
  const Scratch scratch;
  scratch.write("model.safetensors", file_of("{" + kA + "," + entry("m", "BOOL", "[8]", 24, 32) + "}", bytes_of(32)));
  const Checkpoint checkpoint = Checkpoint::open(scratch.folder());
  BOOST_TEST(&checkpoint.require("a", {2, 3}) == checkpoint.find("a"));
  BOOST_TEST(mentions(refusal([&] { checkpoint.require("a", {3, 2}); }), {"model.safetensors: a", "[2, 3]", "[3, 2]"}));
  BOOST_TEST(mentions(refusal([&] { checkpoint.require("a", {6}); }), {"model.safetensors: a", "[2, 3]", "[6]"}));
  BOOST_TEST(mentions(refusal([&] { checkpoint.require("z", {6}); }), {"model.safetensors: z", "missing"}));
  BOOST_TEST(mentions(refusal([&] { checkpoint.require("m", {8}); }), {"model.safetensors: m", "dtype", "BOOL"}));
}

namespace {

// A file with one tensor, w, whose header has these fields.
std::string one(const std::string& fields, std::size_t data = 4) {
  return file_of("{\"w\":{" + fields + "}}", bytes_of(data));
}
std::string two(const std::string& a, const std::string& b, std::size_t data) {
  return file_of("{" + a + "," + b + "}", bytes_of(data));
}
// A sound file whose length field is replaced.
std::string with_length(std::uint64_t length) {
  std::string bytes = kSound;
  std::memcpy(bytes.data(), &length, 8);
  return bytes;
}
std::string ones(int count) {  // "1,1,...": a shape
  std::string text = "1";
  for (int i = 1; i < count; ++i) text += ",1";
  return text;
}

const std::vector<Case> kBrokenHeaders = {
    {"empty file", "", {"empty"}},
    {"7 bytes", "1234567", {"short"}},
    {"length 0", with_length(0), {"header", "empty"}},
    {"length one past the end", with_length(kSound.size() - 7), {"header", "past the end"}},
    {"length 2^63", with_length(1ull << 63), {"header", "past the end"}},
    {"length 2^64 - 1", with_length(~0ull), {"header", "past the end"}},
    {"length 2^64 - 8", with_length(~0ull - 7), {"header", "past the end"}},
    {"no JSON", file_of("{this is no JSON}", ""), {"header", "not valid JSON"}},
    {"leading space", file_of(" {}", ""), {"header", "begin with '{'"}},
    {"an array", file_of("[]", ""), {"header", "object"}},
    {"cut JSON", file_of("{\"a\"", ""), {"header", "not valid JSON"}},
    {"second document", file_of("{}{}", ""), {"header", "not valid JSON"}},
    {"NUL after the object", file_of(std::string("{}\0", 3), ""), {"header", "NUL"}},
    {"bad UTF-8", file_of("{\"\xff\":1}", ""), {"header", "UTF-8"}},
    {"control character in a name", file_of("{\"a\\nb\":{}}", ""), {"a\\x0ab", "control"}},
    {"NUL in a name", file_of("{\"a\\u0000\":{}}", ""), {"a\\x00", "control"}},
    {"DEL in a name", file_of("{\"a\x7f\":{}}", ""), {"a\\x7f", "control"}},
    {"tensor is a number", file_of("{\"w\":1}", ""), {"w", "must be an object"}},
    {"tensor is null", file_of("{\"w\":null}", ""), {"w", "must be an object"}},
    {"tensor is a list", file_of("{\"w\":[]}", ""), {"w", "must be an object"}},
    {"deep", file_of("{\"w\":{\"shape\":[[[[[", ""), {"w", "shape"}},
    {"no dtype", one(R"("shape":[1],"data_offsets":[0,4])"), {"w", "dtype is missing"}},
    {"no shape", one(R"("dtype":"F32","data_offsets":[0,4])"), {"w", "shape is missing"}},
    {"no offsets", one(R"("dtype":"F32","shape":[1])"), {"w", "data_offsets is missing"}},
    {"nothing", one(""), {"w", "is missing"}},
    {"unknown dtype", one(R"("dtype":"F99","shape":[1],"data_offsets":[0,4])"), {"w", "dtype", "F99"}},
    {"dtype is a number", one(R"("dtype":32,"shape":[1],"data_offsets":[0,4])"), {"w", "dtype must be a string"}},
    {"dtype is a list", one(R"("dtype":["F32"],"shape":[1],"data_offsets":[0,4])"), {"w", "dtype must be a string"}},
    {"shape is a number", one(R"("dtype":"F32","shape":1,"data_offsets":[0,4])"), {"w", "shape must be a list"}},
    {"shape is a string", one(R"("dtype":"F32","shape":"[1]","data_offsets":[0,4])"), {"w", "shape must be a list"}},
    {"negative dimension", one(R"("dtype":"F32","shape":[-1,-1],"data_offsets":[0,4])"), {"w", "shape", "-1"}},
    {"fractional dimension", one(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), {"w", "shape", "1.0"}},
    {"dimension 2^64", one(R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4])"), {"w", "shape"}},
    {"dimension as a string", one(R"("dtype":"F32","shape":["1"],"data_offsets":[0,4])"), {"w", "shape"}},
    {"dimension true", one(R"("dtype":"F32","shape":[true],"data_offsets":[0,4])"), {"w", "shape"}},
    {"nested shape", one(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])"), {"w", "shape"}},
    {"65 dimensions",
     one("\"dtype\":\"F32\",\"shape\":[" + ones(65) + "],\"data_offsets\":[0,4]"),
     {"w", "shape", "64"}},
    {"product wraps to 4", one(R"("dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4])"), {"w", "shape"}},
    {"product wraps to 0",
     one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0),
     {"w", "shape"}},
    {"bytes differ", one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), {"w", "needs 8 bytes", "hold 4"}},
    {"half a byte", one(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])", 1), {"w", "F4", "whole number of bytes"}},
    {"one offset", one(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), {"w", "data_offsets must hold 2"}},
    {"three offsets", one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])"), {"w", "data_offsets"}},
    {"negative offset", one(R"("dtype":"F32","shape":[1],"data_offsets":[-4,0])"), {"w", "data_offsets", "-4"}},
    {"fractional offset", one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4.0])"), {"w", "data_offsets", "4.0"}},
    {"offsets are an object", one(R"("dtype":"F32","shape":[1],"data_offsets":{})"), {"w", "data_offsets"}},
    {"end before begin", one(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), {"w", "end before they begin"}},
    {"past the end", one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), {"w", "past the end", "truncated"}},
    {"far past the end",
     one(R"("dtype":"F32","shape":[1],"data_offsets":[18446744073709551611,18446744073709551615])"),
     {"w", "past the end"}},
    {"unknown field", one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"strides":[1])"), {"w", "strides"}},
    {"field twice",
     one(R"("dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4])"),
     {"w", "duplicate", "dtype"}},
    {"tensor twice", two(entry("w", "U8", "[2]", 0, 2), entry("w", "U8", "[2]", 2, 4), 4), {"w", "duplicate"}},
    {"tensor twice by escape",
     two(entry("w", "U8", "[2]", 0, 2), entry("\\u0077", "U8", "[2]", 2, 4), 4),
     {"w", "duplicate"}},
    {"overlap", two(entry("v", "U8", "[3]", 0, 3), entry("w", "U8", "[2]", 2, 4), 4), {"w", "overlap"}},
    {"same bytes", two(entry("v", "U8", "[4]", 0, 4), entry("w", "U8", "[4]", 0, 4), 4), {"w", "overlap"}},
    {"nothing amid the bytes of another",
     two(entry("v", "U8", "[4]", 0, 4), entry("w", "U8", "[0]", 2, 2), 4),
     {"overlap"}},
    {"hole", two(entry("v", "U8", "[1]", 0, 1), entry("w", "U8", "[2]", 2, 4), 4), {"w", "hole"}},
    {"hole at the start", one(R"("dtype":"U8","shape":[2],"data_offsets":[2,4])"), {"w", "hole"}},
    {"trailing byte", one(R"("dtype":"U8","shape":[3],"data_offsets":[0,3])"), {"1 trailing byte"}},
    {"data and no tensor", file_of("{}", bytes_of(4)), {"4 trailing bytes"}},
    {"metadata is a string", file_of("{\"__metadata__\":\"pt\"}", ""), {"__metadata__", "object"}},
    {"metadata of numbers", file_of("{\"__metadata__\":{\"a\":1}}", ""), {"__metadata__", "strings"}},
    {"metadata of objects", file_of("{\"__metadata__\":{\"a\":{}}}", ""), {"__metadata__", "strings"}},
    {"metadata of lists", file_of("{\"__metadata__\":{\"a\":[]}}", ""), {"__metadata__", "strings"}},
    {"metadata of null", file_of("{\"__metadata__\":{\"a\":null}}", ""), {"__metadata__", "strings"}},
    {"metadata twice", file_of("{\"__metadata__\":{},\"__metadata__\":{}}", ""), {"__metadata__", "duplicate"}},
    {"metadata key twice", file_of("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", ""), {"__metadata__", "duplicate"}},
};

}  // namespace

BOOST_AUTO_TEST_CASE(broken_headers_are_refused) {
  const Scratch scratch;
  for (const auto& each : kBrokenHeaders) {
    BOOST_TEST_CONTEXT(each.name) {
      const std::string message = refused(scratch, each.bytes);
      BOOST_TEST(mentions(message, each.words), message);
      BOOST_TEST(message.starts_with("model.safetensors: "), message);
    }
  }
}

BOOST_AUTO_TEST_CASE(files_of_other_kinds_are_named) {
  const Scratch scratch;
  const std::string rest(600, 'x');
  const std::vector<Case> cases = {
      {"git-lfs",
       "version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 5\n",
       {"git-lfs pointer", "git lfs pull"}},
      {"zip", "PK\x03\x04" + rest, {"zip", "torch.save", "convert"}},
      {"pickle", "\x80\x02" + rest, {"pickle", "convert"}},
      {"GGUF", std::string("GGUF\3\0\0\0", 8) + rest, {"GGUF"}},
      {"HDF5", "\x89HDF\r\n\x1a\n" + rest, {"HDF5"}},
      {"gzip", "\x1f\x8b\x08" + rest, {"gzip"}},
      {"HTML", "<!DOCTYPE html><html>" + rest, {"HTML"}},
      {"HTML after blank lines", "\n\n  <html>" + rest, {"HTML"}},
      {"JSON", "{\"error\": \"Repository not found\"}", {"JSON text"}},
      {"other text", "Entry not found", {"header", "past the end"}},
  };
  for (const auto& each : cases) {
    BOOST_TEST_CONTEXT(each.name) {
      const std::string message = refused(scratch, each.bytes);
      BOOST_TEST(mentions(message, each.words), message);
      BOOST_TEST(message.starts_with("model.safetensors: "), message);
    }
  }
  // Headers of 640 and 0x4b50 bytes start like a pickle and half like a zip archive. Both files are sound.
  for (const std::size_t length : {0x0280u, 0x4b50u})
    BOOST_TEST(refused(scratch, file_of("{}" + std::string(length - 2, ' '), "")) == "accepted");
}

BOOST_AUTO_TEST_CASE(limits_are_checked_before_memory_is_taken) {
  const Scratch scratch;
  const std::uint64_t length = kMaxHeaderBytes + 1;
  scratch.write("model.safetensors", std::string_view(reinterpret_cast<const char*>(&length), 8));
  std::filesystem::resize_file(scratch / "model.safetensors", 8 + length);  // sparse
  BOOST_TEST(mentions(refusal([&] { Checkpoint::open(scratch.folder()); }), {"header", "limit"}));
}

BOOST_AUTO_TEST_CASE(the_file_of_the_weights_is_found_or_named) {
  const Scratch scratch;
  const auto message = [&] { return refusal([&] { Checkpoint::open(scratch.folder()); }); };
  BOOST_TEST(mentions(message(), {"model.safetensors", "not exist", "model.safetensors.index.json"}));
  scratch.write("x.gguf", "GGUF");
  BOOST_TEST(mentions(message(), {"model.safetensors", "x.gguf", "name the file"}));
  scratch.write("pytorch_model.bin", "PK");
  BOOST_TEST(mentions(message(), {"model.safetensors", "pytorch_model.bin", "pickle", "convert"}));
  scratch.write("adapter_model.safetensors", kSound);
  BOOST_TEST(mentions(message(), {"model.safetensors", "adapter_model.safetensors"}));
  BOOST_TEST(Checkpoint::open(scratch.folder(), "adapter_model").tensors().size() == 2u);

  std::filesystem::create_directory(scratch / "model.safetensors");
  BOOST_TEST(mentions(message(), {"model.safetensors", "regular"}));
  std::filesystem::remove(scratch / "model.safetensors");
  BOOST_TEST_REQUIRE(::mkfifo((scratch / "model.safetensors").c_str(), 0600) == 0);
  BOOST_TEST(mentions(message(), {"model.safetensors", "FIFO"}));
  std::filesystem::remove(scratch / "model.safetensors");
  std::filesystem::create_symlink("nowhere", scratch / "model.safetensors");
  BOOST_TEST(mentions(message(), {"model.safetensors", "not exist"}));
  BOOST_TEST(mentions(refusal([&] { Checkpoint::open(scratch / "none"); }), {"none", "folder"}));
  BOOST_TEST(mentions(refusal([&] { Checkpoint::open(scratch / "x.gguf"); }), {"x.gguf", "not a folder"}));
}

// As in a hub's cache: snapshots/<revision>/model.safetensors -> ../../blobs/<digest>, and the folder is a link too.
BOOST_AUTO_TEST_CASE(links_are_followed) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch / "blobs");
  std::filesystem::create_directories(scratch / "snapshots/1");
  scratch.write("blobs/digest", kSound);
  std::filesystem::create_symlink("../../blobs/digest", scratch / "snapshots/1/model.safetensors");
  std::filesystem::create_symlink("snapshots/1", scratch / "main");
  const Checkpoint checkpoint = Checkpoint::open(scratch / "main");
  BOOST_TEST(checkpoint.tensors().size() == 2u);
  BOOST_TEST(checkpoint.name() == "model.safetensors");
}

BOOST_AUTO_TEST_CASE(no_cut_of_a_sound_file_is_accepted) {
  const Scratch scratch;
  BOOST_TEST(refused(scratch, kSound) == "accepted");
  for (std::size_t n = 0; n < kSound.size(); ++n) {
    const std::string message = refused(scratch, kSound.substr(0, n));
    BOOST_TEST(message.starts_with("model.safetensors: "), n << ": " << message);
  }
  BOOST_TEST(mentions(refused(scratch, kSound + "x"), {"trailing"}));
}

// Changes each byte of length and header. The file is refused, or its new layout is sound.
BOOST_AUTO_TEST_CASE(no_changed_byte_leads_outside_the_file) {
  const Scratch scratch;
  std::size_t accepted = 0;
  for (std::size_t i = 0; i < kSound.size() - 32; ++i) {
    std::vector<char> values = {'\0', '0', '9', '"', '{', '}', '[', ']', ',', '-', '\xff'};
    for (int bit = 0; bit < 8; ++bit) values.push_back(static_cast<char>(kSound[i] ^ (1 << bit)));
    for (const char value : values) {
      std::string bytes = kSound;
      bytes[i] = value;
      scratch.write("model.safetensors", bytes);
      const std::string message = refusal([&] {
        const Checkpoint checkpoint = Checkpoint::open(scratch.folder());
        ++accepted;
        for (const auto& tensor : checkpoint.tensors()) {
          BOOST_TEST_REQUIRE(tensor.begin <= tensor.end);
          BOOST_TEST_REQUIRE(tensor.end <= bytes.size());
          if (is_weight(tensor.dtype)) BOOST_TEST_REQUIRE(whole(checkpoint, tensor).size() <= bytes.size());
        }
      });
      BOOST_TEST_REQUIRE((message == "accepted" || message.starts_with("model.safetensors: ")), message);
    }
  }
  BOOST_TEST(accepted > 0u);  // renamed tensors, BF16 for F16: some changed files are sound
}

BOOST_AUTO_TEST_CASE(a_file_that_shrinks_after_it_was_opened_is_an_error) {
  const Scratch scratch;
  scratch.write("model.safetensors", kSound);
  const Checkpoint checkpoint = Checkpoint::open(scratch.folder());
  std::filesystem::resize_file(scratch / "model.safetensors", kSound.size() - 1);
  BOOST_TEST(whole(checkpoint, checkpoint.tensors()[0]).size() == 6u);
  BOOST_TEST(
      mentions(refusal([&] { whole(checkpoint, checkpoint.tensors()[1]); }), {"model.safetensors", "truncated while"}));
  BOOST_TEST(mentions(refusal([&] { checkpoint.verify_unchanged(); }), {"model.safetensors", "changed while"}));
}

BOOST_AUTO_TEST_CASE(every_rectangle_equals_its_part_of_the_whole) {
  const Scratch scratch;
  constexpr std::uint64_t rows = 7, cols = 9;
  std::mt19937 random(1);
  for (const auto& [dtype, size] : {std::pair("F32", 4u), {"F16", 2u}, {"BF16", 2u}}) {
    std::string data(3 + rows * cols * size, '\1');  // 3 bytes before it: the data need not be aligned
    for (std::size_t i = 3; i < data.size(); ++i) data[i] = static_cast<char>(random() & 0x3f);
    scratch.write(
        "model.safetensors",
        file_of("{" + entry("pad", "U8", "[3]", 0, 3) + "," + entry("w", dtype, "[7,9]", 3, data.size()) + "}", data));
    const Checkpoint checkpoint = Checkpoint::open(scratch.folder());
    const TensorInfo& w = *checkpoint.find("w");
    const std::vector<float> all = whole(checkpoint, w);
    for (std::uint64_t r = 0; r <= rows; ++r)
      for (std::uint64_t nr = 0; nr <= rows - r; ++nr)
        for (std::uint64_t c = 0; c <= cols; ++c)
          for (std::uint64_t nc = 0; nc <= cols - c; ++nc) {
            std::vector<float> out(nr * nc + 1, -7.0f), expected;
            checkpoint.read(w, r, nr, c, nc, out.data());
            for (std::uint64_t i = 0; i < nr; ++i)
              expected.insert(expected.end(), all.begin() + static_cast<long>((r + i) * cols + c),
                              all.begin() + static_cast<long>((r + i) * cols + c + nc));
            expected.push_back(-7.0f);  // nothing past the rectangle is written
            BOOST_TEST_REQUIRE((out == expected));
          }
    std::vector<float> out(rows * cols);
    const std::uint64_t top = ~0ull;
    for (const auto& [r, nr, c, nc] : {std::array<std::uint64_t, 4>{0, 8, 0, 9},
                                       {8, 0, 0, 9},
                                       {0, 7, 0, 10},
                                       {0, 7, 10, 0},
                                       {top, 2, 0, 9},
                                       {1, top, 0, 9},
                                       {0, 7, top, 2},
                                       {0, 7, 1, top}})
      BOOST_TEST(
          mentions(refusal([&] { checkpoint.read(w, r, nr, c, nc, out.data()); }), {"w", "rectangle", "[7, 9]"}));
  }
}

// Longer than the buffer for 16-bit elements, and not a multiple of it.
BOOST_AUTO_TEST_CASE(long_rows_of_16_bits) {
  const Scratch scratch;
  constexpr std::uint64_t cols = 300'001;
  std::string data(2 * 2 * cols, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>((i * 2654435761u >> 13) & 0x3f);
  scratch.write("model.safetensors", file_of("{" + entry("w", "F16", "[2,300001]", 0, data.size()) + "}", data));
  const Checkpoint checkpoint = Checkpoint::open(scratch.folder());
  const std::vector<float> all = whole(checkpoint, checkpoint.tensors()[0]);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::uint16_t half;
    std::memcpy(&half, data.data() + 2 * i, 2);
    if (all[i] != float_of_f16(half)) BOOST_FAIL("element " << i);
  }
  std::vector<float> narrow(2 * (cols - 1));
  checkpoint.read(checkpoint.tensors()[0], 0, 2, 1, cols - 1, narrow.data());
  BOOST_TEST(std::equal(narrow.begin(), narrow.begin() + cols - 1, all.begin() + 1));
  BOOST_TEST(std::equal(narrow.begin() + cols - 1, narrow.end(), all.begin() + cols + 1));
}

BOOST_AUTO_TEST_CASE(vectors_are_matrices_of_one_row) {
  const Scratch scratch;
  scratch.write("model.safetensors", kSound);
  const Checkpoint checkpoint = Checkpoint::open(scratch.folder());
  const TensorInfo& b = *checkpoint.find("b");
  float out[2];
  checkpoint.read(b, 0, 1, 2, 2, out);
  BOOST_TEST(out[0] == whole(checkpoint, b)[2]);
  BOOST_TEST(out[1] == whole(checkpoint, b)[3]);
  BOOST_TEST(mentions(refusal([&] { checkpoint.read(b, 1, 1, 0, 4, out); }), {"b", "rectangle", "[4]"}));
}

namespace {
const std::string kShard1 = "model-00001-of-00002.safetensors", kShard2 = "model-00002-of-00002.safetensors";
std::string map_of(const std::string& a, const std::string& b) { return "\"a\":\"" + a + "\",\"b\":\"" + b + "\""; }
// Shard 1 holds a, shard 2 holds b.
std::string refused_index(const Scratch& scratch, const std::string& index) {
  scratch.write(kShard1, file_of("{" + kA + "}", bytes_of(24)));
  scratch.write(kShard2, file_of("{" + entry("b", "F16", "[4]", 0, 8) + "}", bytes_of(32).substr(24)));
  scratch.write("model.safetensors.index.json", index);
  return refusal([&] { Checkpoint::open(scratch.folder()); });
}
}  // namespace

BOOST_AUTO_TEST_CASE(shards_are_read_like_one_file) {
  const Scratch sharded, single;
  BOOST_TEST(refused_index(sharded, "{\"metadata\":{\"total_size\":1e18},\"weight_map\":{" + map_of(kShard1, kShard2) +
                                        "}}") == "accepted");
  single.write("model.safetensors", kSound);
  const Checkpoint one = Checkpoint::open(single.folder()), two = Checkpoint::open(sharded.folder());
  BOOST_TEST(two.shards() == 2u);
  BOOST_TEST(two.name() == "model.safetensors.index.json");
  BOOST_TEST(two.where(*two.find("b")) == kShard2 + ": b");
  for (const char* name : {"a", "b"}) BOOST_TEST(whole(one, *one.find(name)) == whole(two, *two.find(name)));
  BOOST_TEST(mentions(refusal([&] { two.require("c", {1}); }), {"model.safetensors.index.json", "c", "missing"}));
  std::filesystem::resize_file(sharded / kShard2, 100);
  BOOST_TEST(mentions(refusal([&] { two.verify_unchanged(); }), {kShard2, "changed while"}));
}

BOOST_AUTO_TEST_CASE(broken_indices_are_refused) {
  const Scratch scratch;
  const auto index = [](const std::string& map) { return "{\"weight_map\":{" + map + "}}"; };
  const std::string file = "model.safetensors.index.json";
  std::vector<Case> cases = {
      {"empty", "", {file, "not valid JSON"}},
      {"a list", "[]", {file, "object"}},
      {"no map", "{}", {file, "weight_map", "missing"}},
      {"map is a list", "{\"weight_map\":[]}", {file, "weight_map", "object"}},
      {"map is empty", index(""), {file, "weight_map"}},
      {"shard is a number", index("\"a\":1"), {file, "weight_map", "a", "string"}},
      {"tensor twice", index(map_of(kShard1, kShard2) + ",\"a\":\"x\""), {file, "duplicate", "\"a\"", "weight_map"}},
      {"shard missing",
       index(map_of(kShard1, "model-00003-of-00003.safetensors")),
       {"model-00003-of-00003.safetensors", "not exist"}},
      {"shards exchanged", index(map_of(kShard2, kShard1)), {kShard1 + ": a", kShard2, file}},
      {"tensor in no shard",
       index(map_of(kShard1, kShard2) + ",\"c\":\"" + kShard2 + "\""),
       {file, "weight_map", "c", kShard2, "does not hold"}},
      {"tensor not named",
       index("\"a\":\"" + kShard1 + "\",\"c\":\"" + kShard2 + "\""),
       {kShard2 + ": b", "not named", file}},
      {"deep", "{\"metadata\":[[[[[[[[[[]]]]]]]]]]}", {file, "deeper"}},
  };
  for (const char* name :
       {"../secret.safetensors", "/etc/passwd", "a/b", "..", ".", "", "a\\\\b", "C:\\\\x", "a\\u0000b", "a\\nb", "./x"})
    cases.push_back({name, index(map_of(kShard1, name)), {file, "weight_map", "plain name", "path"}});
  for (const auto& each : cases) {
    BOOST_TEST_CONTEXT(each.name) {
      const std::string message = refused_index(scratch, each.bytes);
      BOOST_TEST(mentions(message, each.words), message);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_shard_is_checked_like_any_file) {
  const Scratch scratch;
  refused_index(scratch, "{\"weight_map\":{" + map_of(kShard1, kShard2) + "}}");
  scratch.write(kShard2, "version https://git-lfs.github.com/spec/v1\n");
  BOOST_TEST(mentions(refusal([&] { Checkpoint::open(scratch.folder()); }), {kShard2, "git-lfs"}));
  // A tensor in both shards: the map can name only one of them.
  scratch.write(kShard2, file_of("{" + kA + "," + entry("b", "F16", "[4]", 24, 32) + "}", bytes_of(32)));
  BOOST_TEST(mentions(refusal([&] { Checkpoint::open(scratch.folder()); }), {kShard2 + ": a", kShard1}));
}

BOOST_AUTO_TEST_SUITE_END()
