// The promise for every weight format, head, element, cache and attention, with adapters, constraints and penalties:
// Llama and Mistral.
#include "formats.h"

BOOST_AUTO_TEST_SUITE(engine_invariance_formats_llama)

using namespace tenon;
using namespace tenon::invariance;

BOOST_AUTO_TEST_CASE(mixes_give_what_each_request_gives_alone) {
  Totals all;
  add_format<Keep::paged16, Llama, PagedKV, Weights<GroupInt4>, Head<Float32>>(11, all);
  add_format<Keep::contiguous, Llama, ContiguousKVOf<bfloat16>, Weights<ZeroPointInt8Of<PerTensor>>, Head<Float16>,
             Attention<DirectAttention>>(12, all);
  add_format<Keep::paged16, Llama, PagedKVOf<16, std::int8_t>, Weights<BFloat16Amx>, Head<Int8ExactOf<BFloat16>>>(13,
                                                                                                                  all);
  add_format<Keep::window, Mistral, WindowKVOf<16, std::int8_t>, Weights<GroupInt4Of<64>>, Head<Float8<E5M2>>>(14, all);
  add_format<Keep::window, Mistral, WindowKVOf<16, float16>, Weights<Float8<E4M3>>, Head<ZeroPointInt8>,
             Attention<DirectAttention>>(15, all);
  add_format<Keep::paged32, Mistral, PagedKVOf<32, bfloat16>, Head<GroupInt4Act8>>(16, all);
  add_format<Keep::paged16, Llama, PagedKV, Weights<NormalFloat4>, Head<GroupInt8>>(18, all);
  check_happened(all);
}

BOOST_AUTO_TEST_SUITE_END()
