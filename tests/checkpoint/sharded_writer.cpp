// Shards are read back as one file is. Their sizes, names and index are those of transformers.
#include "tenon/checkpoint/sharded_writer.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "../io/scratch.h"
#include "tenon/checkpoint/safetensors.h"

BOOST_AUTO_TEST_SUITE(checkpoint_sharded_writer)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

namespace {

// Tensors of 16, 8, 40, 8, 8 and 0 bytes.
const std::vector<TensorPlan> kPlans = {{"a", DType::f32, {2, 2}},  {"b", DType::f16, {4}}, {"c", DType::f32, {10}},
                                        {"d", DType::bf16, {2, 2}}, {"e", DType::i64, {1}}, {"f", DType::f32, {0, 3}}};

std::vector<std::byte> bytes_of(const TensorPlan& plan) {
  std::uint64_t count = 0;
  detail::byte_count(plan.shape, plan.dtype, count);
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(plan.name[0] + static_cast<int>(i));
  return bytes;
}

std::size_t write(const std::filesystem::path& folder, std::uint64_t limit) {
  ShardedWriter writer(folder, kPlans, {{"format", "pt"}}, limit);
  for (auto plan = kPlans.rbegin(); plan != kPlans.rend(); ++plan) writer.write(plan->name, 0, bytes_of(*plan));
  std::vector<NewFile> files = writer.take_files();
  NewFile::publish_all(files);
  BOOST_TEST(writer.data_bytes() == 80u);
  return writer.shards();
}

}  // namespace

BOOST_AUTO_TEST_CASE(files_hold_at_most_the_limit) {
  for (const auto& [limit, shards] : {std::pair(80, 1), {79, 2}, {64, 2}, {24, 3}, {16, 4}, {8, 5}, {1, 5}, {0, 5}}) {
    BOOST_TEST_CONTEXT(limit) {
      const Scratch scratch;
      BOOST_TEST(write(scratch.folder(), static_cast<std::uint64_t>(limit)) == static_cast<std::size_t>(shards));
      const Checkpoint read = Checkpoint::open(scratch.folder());  // checks the index against the shards
      BOOST_TEST(read.shards() == static_cast<std::size_t>(shards));
      BOOST_TEST(read.tensors().size() == kPlans.size());
      for (const TensorPlan& plan : kPlans) {
        const TensorInfo& tensor = *read.find(plan.name);
        std::vector<std::byte> bytes(tensor.end - tensor.begin);
        read.read_bytes(tensor, 0, bytes);
        BOOST_CHECK(bytes == bytes_of(plan));
        BOOST_CHECK(tensor.dtype == plan.dtype);
        BOOST_CHECK(tensor.shape == plan.shape);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_index_is_that_of_transformers) {
  const Scratch scratch;
  write(scratch.folder(), 40);
  nlohmann::json index;
  std::ifstream(scratch / "model.safetensors.index.json") >> index;
  BOOST_TEST(index["metadata"]["total_size"] == 80);
  BOOST_TEST(index["weight_map"]["b"] == "model-00001-of-00003.safetensors");
  BOOST_TEST(index["weight_map"]["c"] == "model-00002-of-00003.safetensors");
  BOOST_TEST(index["weight_map"]["f"] == "model-00003-of-00003.safetensors");
  BOOST_TEST(*Checkpoint::open(scratch.folder()).metadata("format") == "pt");
}

BOOST_AUTO_TEST_CASE(what_is_refused) {
  const Scratch scratch;
  const std::vector<TensorPlan> twice = {{"a", DType::f32, {8}}, {"a", DType::f32, {8}}};
  BOOST_TEST(mentions(refusal([&] { ShardedWriter(scratch.folder(), twice, {}, 8); }), {"a", "comes twice"}));
  ShardedWriter writer(scratch.folder(), kPlans, {}, 8);
  BOOST_TEST(mentions(refusal([&] { writer.write("g", 0, {}); }), {"g", "no announced tensor"}));
  BOOST_TEST(mentions(refusal([&] { writer.take_files(); }), {"0 bytes were written"}));
}

BOOST_AUTO_TEST_SUITE_END()
