// Files are read back byte for byte, whatever the order of writing. An unfinished file leaves nothing.
#include "tenon/checkpoint/safetensors_writer.h"

#include <boost/test/unit_test.hpp>
#include <thread>

#include "../io/scratch.h"
#include "tenon/checkpoint/safetensors.h"
#include "tensor_file.h"

BOOST_AUTO_TEST_SUITE(checkpoint_safetensors_writer)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using tenon::test::TensorFile;

namespace {

std::vector<std::byte> bytes_of(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  return bytes;
}

std::size_t files_in(const Scratch& scratch) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(scratch.folder()), {}));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_is_read_back) {
  const Scratch scratch;
  TensorFile file;
  file.metadata = {{"format", "pt"}, {"tenon.layout", "a \"sentence\",\nwith \\ and \xC3\xA9"}};
  file.tensors["a.codes"] = {DType::u8, {3, 5}, bytes_of(15)};
  file.tensors["b"] = {DType::f32, {2, 3}, bytes_of(24)};
  file.tensors["c"] = {DType::f16, {7}, bytes_of(14)};
  file.tensors["none"] = {DType::f32, {0, 5}, {}};
  file.tensors["scalar"] = {DType::i64, {}, bytes_of(8)};
  file.write(scratch / "model.safetensors");
  BOOST_TEST(files_in(scratch) == 1u);

  TensorFile back;
  back.read(scratch / "model.safetensors");
  BOOST_TEST(back.metadata == file.metadata);
  BOOST_TEST(back.tensors.size() == file.tensors.size());
  for (const auto& [name, tensor] : file.tensors) {
    BOOST_TEST_CONTEXT(name) {
      BOOST_CHECK(back.tensors[name].dtype == tensor.dtype);
      BOOST_CHECK(back.tensors[name].shape == tensor.shape);
      BOOST_CHECK(back.tensors[name].bytes == tensor.bytes);
    }
  }
  const Checkpoint checkpoint = Checkpoint::open(scratch.folder());
  BOOST_TEST(*checkpoint.metadata("format") == "pt");
  BOOST_CHECK(checkpoint.metadata("tenon.weights") == nullptr);
}

BOOST_AUTO_TEST_CASE(every_tensor_begins_at_a_multiple_of_its_element) {
  const Scratch scratch;
  for (std::size_t length = 1; length < 20; ++length) {  // length of a name, so that headers of all lengths are padded
    TensorFile file;
    file.tensors[std::string(length, 'u')] = {DType::u8, {3}, bytes_of(3)};
    file.tensors["h"] = {DType::f16, {1}, bytes_of(2)};
    file.tensors["f"] = {DType::f32, {1}, bytes_of(4)};
    file.tensors["l"] = {DType::i64, {1}, bytes_of(8)};
    file.write(scratch / "model.safetensors");
    const Checkpoint checkpoint = Checkpoint::open(scratch.folder());
    for (const TensorInfo& tensor : checkpoint.tensors())
      BOOST_TEST(tensor.begin % static_cast<std::uint64_t>(dtype_bits(tensor.dtype) / 8) == 0u);
  }
}

BOOST_AUTO_TEST_CASE(bytes_come_in_any_order_from_any_thread) {
  const Scratch scratch;
  const auto bytes = bytes_of(1000);
  SafetensorsWriter writer(scratch / "w.safetensors", {{"x", DType::u8, {1000}}, {"y", DType::u8, {1000}}}, {});
  {
    std::vector<std::jthread> threads;
    for (const std::size_t part : {3u, 0u, 2u, 1u}) {
      threads.emplace_back([&, part] {
        for (const char* name : {"y", "x"}) writer.write(name, part * 250, std::span(bytes).subspan(part * 250, 250));
      });
    }
  }
  BOOST_TEST(!std::filesystem::exists(scratch / "w.safetensors"));
  writer.finish();
  TensorFile back;
  back.read(scratch / "w.safetensors");
  BOOST_CHECK(back.tensors["x"].bytes == bytes && back.tensors["y"].bytes == bytes);
}

BOOST_AUTO_TEST_CASE(an_unfinished_writer_leaves_no_file) {
  const Scratch scratch;
  scratch.write("model.safetensors", "as it was");
  {
    SafetensorsWriter writer(scratch / "model.safetensors", {{"x", DType::u8, {4}}}, {});
    writer.write("x", 0, bytes_of(3));
    BOOST_TEST(mentions(refusal([&] { writer.finish(); }), {"model.safetensors", "3 bytes", "4 were announced"}));
  }
  BOOST_TEST(files_in(scratch) == 1u);
  BOOST_TEST(std::filesystem::file_size(scratch / "model.safetensors") == 9u);
}

// Bytes are counted per tensor: too many for one do not make up for too few of another.
BOOST_AUTO_TEST_CASE(every_tensor_is_counted) {
  const Scratch scratch;
  SafetensorsWriter writer(scratch / "m.safetensors", {{"x", DType::u8, {4}}, {"y", DType::u8, {4}}}, {});
  writer.write("x", 0, bytes_of(4));
  writer.write("x", 0, bytes_of(4));
  BOOST_TEST(mentions(refusal([&] { writer.finish(); }), {"m.safetensors: x: 8 bytes", "4 were announced"}));
  BOOST_TEST(!std::filesystem::exists(scratch / "m.safetensors"));
}

BOOST_AUTO_TEST_CASE(invalid_tensors_are_refused) {
  const Scratch scratch;
  const auto path = scratch / "m.safetensors";
  BOOST_TEST(mentions(refusal([&] {
                        SafetensorsWriter(path, {{"x", DType::u8, {4}}, {"x", DType::f32, {4}}}, {});
                      }),
                      {"m.safetensors: x", "twice"}));
  BOOST_TEST(mentions(refusal([&] {
                        SafetensorsWriter(path, {{"x", DType::f32, {1ull << 40, 1ull << 40}}}, {});
                      }),
                      {"m.safetensors: x", "bytes"}));
  SafetensorsWriter writer(path, {{"x", DType::u8, {4}}}, {});
  BOOST_TEST(mentions(refusal([&] { writer.write("z", 0, {}); }), {"m.safetensors: z", "announced"}));
  BOOST_TEST(mentions(refusal([&] { writer.write("x", 2, bytes_of(3)); }), {"m.safetensors: x", "announced"}));
  BOOST_TEST(mentions(refusal([&] { writer.write("x", ~0ull, bytes_of(3)); }), {"m.safetensors: x", "announced"}));
}

BOOST_AUTO_TEST_CASE(shards_must_agree_on_what_they_say) {
  const Scratch scratch;
  for (const char* shard : {"a", "b"}) {
    TensorFile file;
    file.metadata = {{"same", "1"}, {"other", shard}};
    if (*shard == 'b') file.metadata["one"] = "1";
    file.tensors[shard] = {DType::u8, {1}, bytes_of(1)};
    file.write(scratch / (std::string(shard) + ".safetensors"));
  }
  scratch.write("model.safetensors.index.json", R"({"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}})");
  const Checkpoint checkpoint = Checkpoint::open(scratch.folder());
  BOOST_TEST(*checkpoint.metadata("same") == "1");
  BOOST_CHECK(checkpoint.metadata("none") == nullptr);
  BOOST_TEST(
      mentions(refusal([&] { checkpoint.metadata("other"); }), {"b.safetensors: __metadata__: other", "differs"}));
  BOOST_TEST(mentions(refusal([&] { checkpoint.metadata("one"); }), {"b.safetensors: __metadata__: one", "differs"}));
  // metadata_of_all returns every value.
  BOOST_TEST((checkpoint.metadata_of_all("other") == std::set<std::string>{"a", "b"}));
  BOOST_TEST((checkpoint.metadata_of_all("one") == std::set<std::string>{"1"}));
  BOOST_TEST(checkpoint.metadata_of_all("none").empty());
  BOOST_TEST(checkpoint.consists_of("b.safetensors"));
  BOOST_TEST(checkpoint.consists_of("model.safetensors.index.json"));
  BOOST_TEST(!checkpoint.consists_of("c.safetensors"));
}

BOOST_AUTO_TEST_CASE(the_name_of_the_metadata_is_no_tensors) {
  const Scratch scratch;
  BOOST_TEST(mentions(refusal([&] {
                        SafetensorsWriter(scratch / "a", {{"__metadata__", DType::f32, {1}}}, {});
                      }),
                      {"__metadata__"}));
}

BOOST_AUTO_TEST_SUITE_END()
