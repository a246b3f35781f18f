// Names of numeric classes: short words of the library's own, each once, and no spelling of a compiler.
#include <boost/test/unit_test.hpp>
#include <regex>
#include <set>
#include <string>
#include <string_view>

#include "tenon/engine/fingerprint.h"
#include "tenon/tenon.h"

BOOST_AUTO_TEST_SUITE(core_numeric_class)

using namespace tenon;

template <class... Ps>
void check_names(std::set<std::string>& seen) {
  const auto check = [&](std::string_view name) {
    BOOST_TEST(std::regex_match(std::string(name), std::regex("[a-z0-9_]+")), name);
    BOOST_TEST(seen.insert(std::string(name)).second, name << " twice");
  };
  (check(detail::class_name<Ps>()), ...);
}

// A name with brackets, colons or blanks would be the compiler's.
BOOST_AUTO_TEST_CASE(no_name_of_the_library_is_the_compilers) {
  std::set<std::string> weights, others;
  check_names<Float32, BFloat16, BFloat16Dot, BFloat16Amx, BFloat16Mma, Float16, Float16Mma, Float8<E4M3>, Float8<E5M2>,
              ZeroPointInt8, ZeroPointInt8Of<PerTensor>, ZeroPointInt8Act8, GroupInt4, GroupInt4Of<64>,
              GroupInt4Of<128>, GroupInt4Act8, GroupInt8, NormalFloat4>(weights);
  check_names<FlashAttention, DirectAttention, FlashMma, Cpu, float, bfloat16, float16, std::int8_t>(others);
}

template <class... Models>
void check_families(ModelList<Models...>) {
  std::set<std::string> seen;
  const auto check = [&](std::string_view name, std::string_view type) {
    BOOST_TEST(name == type);
    BOOST_TEST(seen.insert(std::string(name)).second, name << " twice");
  };
  (check(detail::family_name<Models>(""), Models::model_type), ...);
}

BOOST_AUTO_TEST_CASE(families_have_the_name_of_their_model_type) { check_families(BuiltInModels{}); }

BOOST_AUTO_TEST_SUITE_END()
