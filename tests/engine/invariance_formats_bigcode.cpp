// The promise for every weight format, head, element, cache and attention, with adapters, constraints and penalties:
// GPTBigCode and BLOOM.
#include "formats.h"

BOOST_AUTO_TEST_SUITE(engine_invariance_formats_bigcode)

using namespace tenon;
using namespace tenon::invariance;

BOOST_AUTO_TEST_CASE(mixes_give_what_each_request_gives_alone) {
  Totals all;
  add_format<Keep::paged64, GptBigCode, PagedKVOf<64, std::int8_t>, Weights<Float16>, Head<Int8ExactOf<Float16>>>(5,
                                                                                                                  all);
  add_format<Keep::window, GptBigCode, WindowKV, Weights<ZeroPointInt8>, Head<BFloat16>>(6, all);
  add_format<Keep::none, GptBigCode, NoCacheOf<std::int8_t>, Weights<BFloat16Dot>, Attention<DirectAttention>>(7, all);
  add_format<Keep::contiguous, Bloom, ContiguousKVOf<float16>, Weights<ZeroPointInt8>, Head<Float8<E4M3>>,
             Attention<DirectAttention>>(8, all);
  add_format<Keep::paged64, Bloom, PagedKVOf<64>, Weights<BFloat16Amx>, Head<GroupInt4>>(9, all);
  add_format<Keep::window, Bloom, WindowKVOf<16, bfloat16>, Weights<GroupInt4Of<128>>>(10, all);
  check_happened(all);
}

BOOST_AUTO_TEST_SUITE_END()
