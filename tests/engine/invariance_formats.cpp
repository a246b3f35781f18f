// The promise for every weight format, head, element, cache and attention, with adapters, constraints and penalties:
// GPT-2.
#include "formats.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

BOOST_AUTO_TEST_SUITE(engine_invariance_formats)

using namespace tenon;
using namespace tenon::invariance;

BOOST_AUTO_TEST_CASE(mixes_give_what_each_request_gives_alone) {
  Totals all;
  add_format<Keep::paged16, Gpt2, PagedKVOf<16, bfloat16>, Weights<BFloat16>>(1, all);
  add_format<Keep::paged32, Gpt2, PagedKVOf<32, float16>, Weights<GroupInt4Act8>, Head<Int8Exact>,
             Attention<DirectAttention>>(2, all);
  add_format<Keep::contiguous, Gpt2, ContiguousKVOf<std::int8_t>, Weights<ZeroPointInt8Act8>>(3, all);
  add_format<Keep::none, Gpt2, NoCacheOf<float16>, Weights<Float8<E5M2>>, Head<Float32>>(4, all);
  check_happened(all);
}

// A format that comes is in one of the mixes, too. Formats for tensor cores have tests of their own.
BOOST_AUTO_TEST_CASE(every_weight_format_is_in_a_mix) {
  const auto text_of = [](const std::filesystem::path& file) {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::filesystem::path root = TENON_SOURCE_DIR;
  std::string mixes;
  for (const char* unit : {"", "_bigcode", "_llama"})
    mixes += text_of(root / "tests/engine" / (std::string("invariance_formats") + unit + ".cpp"));
  int formats = 0;
  const std::regex policy("static_assert\\(WeightPolicy<(\\w+)");
  for (const auto& entry : std::filesystem::directory_iterator(root / "include/tenon/weights")) {
    const std::string text = text_of(entry.path());
    std::smatch found;
    if (!std::regex_search(text, found, policy)) continue;
    const std::string name = found[1];
    if (name.ends_with("Mma") || name.starts_with("FastMath")) continue;
    ++formats;
    BOOST_TEST(std::regex_search(mixes, std::regex("[ <]" + name + "(Of)?[,<>]")), name << " is in no mix");
  }
  BOOST_TEST(formats >= 11);
}

BOOST_AUTO_TEST_SUITE_END()
