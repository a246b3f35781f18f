// Models in several GGUF files, named and split as by llama-gguf-split.
#include "tenon/checkpoint/gguf_parts.h"

#include <boost/test/unit_test.hpp>

#include "../io/scratch.h"
#include "gguf_file.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/io/json.h"

BOOST_AUTO_TEST_SUITE(checkpoint_gguf_parts)

using namespace tenon;
using tenon::test::GgufBytes;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

namespace {

// Keys of a part; one below 0 is left out.
struct Split {
  int number, count, tensors;
};

// F32 tensors of 4 values, which are all `value`.
std::string part(Split split, const std::vector<std::string>& names, float value) {
  const std::pair<const char*, int> keys[] = {
      {"split.no", split.number}, {"split.count", split.count}, {"split.tensors.count", split.tensors}};
  std::uint64_t entries = 0;
  for (const auto& [key, number] : keys) entries += number >= 0 ? 1u : 0u;
  GgufBytes out;
  out.head(names.size(), entries);
  for (const auto& [key, number] : keys) {
    const bool of_tensors = std::string_view(key) == "split.tensors.count";
    if (number < 0) continue;
    if (of_tensors) out.entry(key, 5).number(static_cast<std::int32_t>(number));
    if (!of_tensors) out.entry(key, 2).number(static_cast<std::uint16_t>(number));
  }
  for (std::size_t i = 0; i < names.size(); ++i) out.tensor(names[i], 32 * i);
  for (std::size_t i = 0; i < names.size(); ++i)
    for (int k = 0; k < 4; ++k) (k == 0 ? out.data(0) : out).number(value);
  return out.data(0).bytes;
}

// A model of three parts: the first has no tensors, the second one, the third two.
const std::string kFirst = "m-00001-of-00003.gguf", kSecond = "m-00002-of-00003.gguf", kThird = "m-00003-of-00003.gguf";

void write_three(const Scratch& scratch) {
  scratch.write(kFirst, part({0, 3, 3}, {}, 0));
  scratch.write(kSecond, part({1, 3, 3}, {"b"}, 2));
  scratch.write(kThird, part({2, 3, 3}, {"a", "c"}, 3));
}

std::string opened(const Scratch& scratch, const std::string& name) {
  return refusal([&] { open_gguf(scratch / name); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(parts_are_one_model) {
  const Scratch scratch;
  write_three(scratch);
  GgufFiles files = open_gguf(scratch / kFirst);
  BOOST_TEST_REQUIRE(files.files.size() == 3u);
  BOOST_TEST_REQUIRE(files.header.tensors.size() == 3u);
  BOOST_TEST(files.header.metadata->at("split.no") == 0);
  BOOST_TEST(files.header.entries.size() == 3u);
  const Checkpoint checkpoint = Checkpoint::of_tensors(std::move(files.files), files.header.tensors);
  BOOST_TEST(checkpoint.name() == kFirst);
  BOOST_TEST(checkpoint.shards() == 3u);
  for (const auto& [name, value, file] : {std::tuple("a", 3.0f, kThird), {"b", 2.0f, kSecond}, {"c", 3.0f, kThird}}) {
    const TensorInfo& tensor = checkpoint.require(name, {4});
    std::vector<float> values(4);
    checkpoint.read_all(tensor, values.data());
    BOOST_TEST(values == std::vector<float>(4, value), boost::test_tools::per_element());
    BOOST_TEST(checkpoint.where(tensor) == file + ": " + name);
  }
}

BOOST_AUTO_TEST_CASE(a_file_that_is_no_part_is_one_model) {
  const Scratch scratch;
  for (const Split split : {Split{-1, -1, -1}, {0, 0, 1}, {0, 1, 1}}) {
    scratch.write("m.gguf", part(split, {"a"}, 1));
    BOOST_TEST(open_gguf(scratch / "m.gguf").header.tensors.size() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(a_part_that_is_missing_or_wrong_is_named) {
  const Scratch scratch;
  const auto says = [&](const std::string& name, const std::vector<std::string>& words) {
    const std::string message = opened(scratch, name);
    BOOST_TEST(mentions(message, words), message);
  };
  write_three(scratch);
  says(kSecond, {kSecond + ": split.no", "part 2 of 3", "name the first, " + kFirst});
  scratch.write("other.gguf", part({1, 3, 3}, {}, 0));
  says("other.gguf", {"other.gguf: split.no", "part 2 of 3", "name the first part of the model"});
  scratch.write("other.gguf", part({0, 3, 3}, {}, 0));
  says("other.gguf", {"other.gguf: split.count", "name must end with -00001-of-00003.gguf"});
  scratch.write("m-00001-of-00004.gguf", part({0, 3, 3}, {}, 0));
  says("m-00001-of-00004.gguf", {"split.count", "-00001-of-00003.gguf"});
  std::filesystem::remove(scratch / kThird);
  says(kFirst, {kThird + ": there is no such file", "part 3 of 3", "beside " + kFirst});
}

BOOST_AUTO_TEST_CASE(parts_that_do_not_belong_together_are_refused) {
  const Scratch scratch;
  struct Case {
    std::string file, bytes;
    std::vector<std::string> words;
  };
  const Case cases[] = {
      {kFirst, part({-1, 3, 3}, {}, 0), {kFirst, "split.no", "missing"}},
      {kFirst, part({3, 3, 3}, {}, 0), {kFirst, "split.no"}},
      {kFirst, part({0, 3, -1}, {}, 0), {kFirst, "split.tensors.count", "missing"}},
      {kFirst, part({0, 3, 4}, {}, 0), {kFirst, "split.tensors.count", "is 4", "have 3 tensors"}},
      {kSecond, part({2, 3, 3}, {"b"}, 2), {kSecond, "split.no", "is 2, must be 1"}},
      {kSecond, part({-1, 3, 3}, {"b"}, 2), {kSecond, "split.no", "missing"}},
      {kSecond, part({1, 2, 3}, {"b"}, 2), {kSecond, "split.count", "is 2, but 3 in " + kFirst}},
      {kThird, part({2, 3, 3}, {"a", "b"}, 3), {kThird, "b", "another part"}},
      {kThird, part({2, 3, 3}, {"a", "c"}, 3).substr(0, 100), {kThird, "truncated"}},
      {kThird, "PK", {kThird, "no GGUF file"}},
  };
  for (const Case& each : cases) {
    write_three(scratch);
    scratch.write(each.file, each.bytes);
    const std::string message = opened(scratch, kFirst);
    BOOST_TEST(mentions(message, each.words), message);
  }
}

BOOST_AUTO_TEST_CASE(names_of_parts) {
  const auto found = tenon::detail::gguf_part_of("a-b-00002-of-00012.gguf");
  BOOST_TEST_REQUIRE(found.has_value());
  BOOST_TEST(found->stem == "a-b");
  BOOST_TEST(found->part == 2);
  BOOST_TEST(found->count == 12);
  for (const char* name : {"", ".gguf", "a.gguf", "-00001-of-00002.gguf", "a-00001-of-00002", "a-0001-of-0002.gguf",
                           "a-00000-of-00002.gguf", "a-00003-of-00002.gguf", "a-00001-of-00000.gguf",
                           "a-+0001-of-00002.gguf", "a-000-1-of-00002.gguf", "a 00001-of-00002.gguf", "of-00002.gguf"})
    BOOST_TEST(!tenon::detail::gguf_part_of(name).has_value(), name);
}

BOOST_AUTO_TEST_CASE(models_of_a_folder) {
  const Scratch scratch;
  BOOST_TEST(tenon::detail::gguf_models_in(scratch.folder()).empty());
  BOOST_TEST(tenon::detail::gguf_models_in(scratch / "none").empty());
  write_three(scratch);
  for (const char* name : {"x.gguf", "mmproj-x.gguf", "x-mmproj-f16.gguf", "x.txt"}) scratch.write(name, "");
  std::filesystem::create_directory(scratch / "y.gguf");
  const std::vector<std::filesystem::path> wanted = {scratch / kFirst, scratch / "x.gguf"};
  BOOST_TEST((tenon::detail::gguf_models_in(scratch.folder()) == wanted));
}

BOOST_AUTO_TEST_SUITE_END()
