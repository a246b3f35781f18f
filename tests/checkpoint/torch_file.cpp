// Tensors of torch.save in all layouts, equal to those that safetensors holds. No call of a pickle runs.
// torch_cases/ is written by make_torch_cases.py.
#include "tenon/checkpoint/torch_file.h"

#include <boost/test/unit_test.hpp>

#include "../io/scratch.h"
#include "tensor_file.h"

BOOST_AUTO_TEST_SUITE(checkpoint_torch_file)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using tenon::test::TensorFile;

namespace {

const std::filesystem::path kCases = TENON_SOURCE_DIR "/tests/checkpoint/torch_cases";

TensorFile read(const std::filesystem::path& path) {
  const File file(path);
  TensorFile out;
  for (const TorchTensor& tensor : read_torch_file(file)) {
    TensorFile::Tensor& made = out.tensors[tensor.name];
    made = {tensor.dtype, tensor.shape, {}};
    read_torch_tensor(file, tensor, [&](std::uint64_t offset, std::span<const std::byte> bytes) {
      BOOST_TEST(offset == made.bytes.size());
      made.bytes.insert(made.bytes.end(), bytes.begin(), bytes.end());
    });
  }
  return out;
}

void check_equal(const TensorFile& a, const TensorFile& b) {
  BOOST_REQUIRE(a.tensors.size() == b.tensors.size());
  for (const auto& [name, tensor] : b.tensors) {
    BOOST_TEST_CONTEXT(name) {
      const auto found = a.tensors.find(name);
      BOOST_REQUIRE(found != a.tensors.end());
      BOOST_CHECK(found->second.dtype == tensor.dtype);
      BOOST_TEST(found->second.shape == tensor.shape, boost::test_tools::per_element());
      BOOST_CHECK(found->second.bytes == tensor.bytes);
    }
  }
}

std::string bytes_of(const std::string& name) { return read_text_file(kCases / (name + ".bin"), 1 << 20); }

}  // namespace

BOOST_AUTO_TEST_CASE(all_layouts_have_the_tensors_of_safetensors) {
  TensorFile expected;
  expected.read(kCases / "expected.safetensors");
  BOOST_TEST(expected.tensors.size() == 19u);
  for (const char* name : {"archive.bin", "archive_protocol_4.bin", "before_1_6.bin", "before_1_6_protocol_4.bin"}) {
    BOOST_TEST_CONTEXT(name) check_equal(read(kCases / name), expected);
  }
}

BOOST_AUTO_TEST_CASE(newer_types_and_parameters_with_attributes_are_read) {
  TensorFile expected;
  expected.read(kCases / "newer_types.safetensors");
  check_equal(read(kCases / "newer_types.bin"), expected);
}

BOOST_AUTO_TEST_CASE(only_slices_and_turned_tensors_are_not_contiguous) {
  const File file(kCases / "archive.bin");
  for (const TorchTensor& tensor : read_torch_file(file)) {
    const bool strided = tensor.name == "transposed" || tensor.name == "columns" || tensor.name == "permuted" ||
                         tensor.name == "far_apart";
    BOOST_TEST(tensor.contiguous() == !strided, tensor.name);
  }
}

BOOST_AUTO_TEST_CASE(an_ordered_dict_with_attributes_is_a_dict) {
  const TensorFile file = read(kCases / "module.bin");
  BOOST_TEST(file.tensors.size() == 2u);
  BOOST_TEST(file.tensors.at("weight").bytes.size() == 16u);
  BOOST_TEST(file.tensors.at("bias").bytes.size() == 8u);
}

BOOST_AUTO_TEST_CASE(what_is_no_dict_of_tensors_is_refused_by_name) {
  const std::map<std::string, std::vector<std::string>> all = {
      {"expanded", {"a", "repeats elements"}},
      {"integer", {"step", "an integer"}},
      {"list", {"a list", "dict of tensors"}},
      {"key", {"a key", "an integer"}},
      {"nested", {"state_dict", "a dict"}},
      {"numpy", {"a", "numpy", "_reconstruct"}},
      {"negative", {"a", "neg"}},
      {"module", {"instruction 129"}},
      {"payload", {"a", "posix.system"}},
      {"ordered_payload", {"b", "posix.system"}},
  };
  for (const auto& [name, words] : all) {
    BOOST_TEST_CONTEXT(name)
    BOOST_TEST(mentions(refusal([&] { read(kCases / ("refused_" + name + ".bin")); }), words));
  }
  BOOST_TEST(!std::filesystem::exists("tenon-ran-a-pickle"));
}

BOOST_AUTO_TEST_CASE(a_truncated_file_is_refused) {
  const Scratch scratch;
  for (const char* name : {"archive", "before_1_6"}) {
    const std::string whole = bytes_of(name);
    for (std::size_t size = 0; size < whole.size(); size += 7) {
      const auto path = scratch.write("cut.bin", std::string_view(whole).substr(0, size));
      BOOST_TEST(mentions(refusal([&] { read(path); }), {"cut.bin"}), name << " of " << size << " bytes");
    }
  }
}

// Each case replaces a text by another of the same length. No words: the file is read all the same.
BOOST_AUTO_TEST_CASE(changes_are_refused_or_harmless) {
  struct Change {
    const char* file;
    std::string from, to;
    std::vector<std::string> words;
  };
  const std::vector<Change> changes = {
      {"archive", "little", "bigger", {"byteorder", "big-endian"}},
      {"archive", "archive/data.pkl", "archive/data.pkx", {"without a data.pkl"}},
      {"archive", "FloatStorage", "QuartStorage", {"type", "QuartStorage"}},
      {"archive", "torch._utils\n_rebuild_tensor_v2", "torch._utils\n_rebuild_tensor_v9", {"_rebuild_tensor_v9"}},
      {"archive", "whole", "rowsX", {}},  // another name is as good
      {"archive", "columns", "\xff\xfelumns", {}},
      {"before_1_6", "little_endian", "middle_endian", {}},
      {"before_1_6", std::string("M\xe9\x03."), std::string("M\xea\x03."), {"version"}},
      {"before_1_6", "storage", "borrage", {"a storage of another form"}},
  };
  const Scratch scratch;
  for (const Change& change : changes) {
    BOOST_TEST_CONTEXT(change.from) {
      std::string bytes = bytes_of(change.file);
      const auto at = bytes.find(change.from);
      BOOST_REQUIRE(at != bytes.npos);
      BOOST_REQUIRE(change.from.size() == change.to.size());
      // In an archive each name stands twice: in front of the file, and in the directory.
      for (auto place = at; place != bytes.npos; place = bytes.find(change.from, place + 1))
        bytes.replace(place, change.from.size(), change.to);
      const std::string message = refusal([&] { read(scratch.write("made.bin", bytes)); });
      if (change.words.empty())
        BOOST_TEST(message == "accepted");
      else
        BOOST_TEST(mentions(message, change.words), message);
    }
  }
}

// A shape that is larger than its storage: `whole` is [6, 5] with strides (5, 1) at offset 0.
BOOST_AUTO_TEST_CASE(a_tensor_lies_within_its_storage) {
  const Scratch scratch;
  const std::string whole = bytes_of("archive"), sizes("K\x06K\x05\x86", 5);
  const auto at = whole.find(sizes);
  BOOST_REQUIRE(at != whole.npos);
  const auto with = [&](const std::string& changed) {
    std::string bytes = whole;
    bytes.replace(at, changed.size(), changed);
    return refusal([&] { read(scratch.write("made.bin", bytes)); });
  };
  BOOST_TEST(with(sizes) == "accepted");
  BOOST_TEST(with(std::string("K\x05K\x05\x86", 5)) == "accepted");
  BOOST_TEST(mentions(with(std::string("K\x07K\x05\x86", 5)), {"whole", "beyond its storage"}));
  BOOST_TEST(mentions(with(std::string("K\x06K\x06\x86", 5)), {"whole", "beyond its storage"}));
  BOOST_TEST(mentions(with(std::string("K\x06K\xff\x86", 5)), {"whole", "beyond its storage"}));
}

namespace {

template <std::size_t N>
std::string literal(const char (&text)[N]) {
  return {text, N - 1};
}

std::string text_instruction(const std::string& text) {
  std::string size(4, '\0');
  for (int i = 0; i < 4; ++i) size[static_cast<std::size_t>(i)] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return "X" + size + text;
}

// An archive of one file, `pickle`, in the folder `a`. Without a directory that another program would need.
std::string archive(const std::string& pickle) {
  const auto number = [](std::uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
    return out;
  };
  const std::string name = "a/data.pkl", size = number(pickle.size(), 4);
  const std::string local =
      "PK\3\4" + std::string(14, '\0') + size + size + number(name.size(), 2) + number(0, 2) + name;
  const std::string entry =
      "PK\1\2" + std::string(16, '\0') + size + size + number(name.size(), 2) + std::string(16, '\0') + name;
  return local + pickle + entry + "PK\5\6" + std::string(4, '\0') + number(1, 2) + number(1, 2) +
         number(entry.size(), 4) + number(local.size() + pickle.size(), 4) + number(0, 2);
}

// {"a": _rebuild_tensor_v2(('storage', FloatStorage, key, 'cpu', 1), 0, shape, (1,), False, {})}
std::string tensor_pickle(const std::string& key, const std::string& shape) {
  return "}" + text_instruction("a") + "ctorch._utils\n_rebuild_tensor_v2\n((" + text_instruction("storage") +
         "ctorch\nFloatStorage\n" + text_instruction(key) + text_instruction("cpu") + "K\x01tQ" + literal("K\x00") +
         shape + "K\x01\x85\x89}tRs.";
}

}  // namespace

BOOST_AUTO_TEST_CASE(hostile_tables_are_refused_at_once) {
  const Scratch scratch;
  const auto refused = [&](const std::string& pickle) {
    const auto path = scratch.write("made.bin", archive(pickle));
    return refusal([&] { read(path); });
  };
  const std::string shape = "K\x01\x85";
  const auto size_of = [](std::string of, int times) {
    std::string functions;
    for (int i = 0; i < times; ++i) functions += "ctorch\nSize\n";
    for (int i = 0; i < times; ++i) of += "\x85R";
    return functions + of;
  };
  BOOST_TEST(mentions(refused(tensor_pickle("0", shape)), {"data/0", "missing"}));  // as far as it may come
  BOOST_TEST(mentions(refused(tensor_pickle("0", size_of(shape, 1))), {"data/0", "missing"}));
  BOOST_TEST(mentions(refused(tensor_pickle("0", size_of(shape, 400'000))), {"a shape", "torch.Size"}));
  BOOST_TEST(mentions(refused(tensor_pickle(std::string(256, 'k'), shape)), {"more than 255 bytes"}));
  BOOST_TEST(mentions(refused(tensor_pickle("0", literal("K\xff\x85"))), {"beyond its storage"}));
}

// torch takes the folder of the first file.
BOOST_AUTO_TEST_CASE(a_table_in_another_folder_is_not_read) {
  check_equal(read(kCases / "second_table.bin"), read(kCases / "module.bin"));
}

BOOST_AUTO_TEST_SUITE_END()
