// Fingerprints and receipts of every weight format are equal on all instruction sets, and each set verifies what
// another one wrote. Compilers, their options and both faces of the library: tests/faces.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "invariance.h"
#include "tenon/engine/verify.h"
#include "tenon/io/json.h"
#include "tenon/weights/bfloat16.h"
#include "tenon/weights/bfloat16_amx.h"
#include "tenon/weights/bfloat16_dot.h"
#include "tenon/weights/float16.h"
#include "tenon/weights/float8.h"
#include "tenon/weights/group_int8.h"
#include "tenon/weights/int4.h"
#include "tenon/weights/int4_act8.h"
#include "tenon/weights/int8.h"
#include "tenon/weights/int8_act8.h"
#include "tenon/weights/int8_exact.h"
#include "tenon/weights/normal_float4.h"

BOOST_AUTO_TEST_SUITE(engine_receipt_isas)

using namespace tenon;
using invariance::ChosenCpu;

namespace {

std::vector<Request> requests() {
  std::vector<Request> all;
  for (const int length : {1, 9, 70}) {
    Request greedy;
    for (int i = 0; i < length; ++i) greedy.input_ids.push_back((7 * i + length) % 77);
    greedy.options = {.max_new_tokens = 20, .ignore_eos = true, .receipt = true};
    Request drawn = greedy;
    Options& o = drawn.options;
    o.temperature = 0.8f, o.seed = 11, o.top_p = 0.9f, o.typical_p = 0.95f;
    o.repetition_penalty = 1.1f, o.frequency_penalty = 0.2f;
    all.push_back(greedy);
    all.push_back(drawn);
  }
  return all;
}

// The answers of an instruction set.
struct Said {
  Isa isa;
  std::string fingerprint;
  std::vector<Receipt> receipts;
  std::vector<std::string> texts;  // of the receipts
};

std::vector<Isa> isas() {
  std::vector<Isa> all;
  for (const Isa isa : kIsas)
    if (has_isa(isa)) all.push_back(isa);
  return all;
}

template <class Model, class Element, class... Axes>
void check_class() {
  using E = Engine<Model, Cache<PagedKVOf<16, Element>>, Device<ChosenCpu>, Axes...>;
  const auto make = [](Isa isa) {
    ChosenCpu::next = {.threads = 2, .isa = isa};
    return E(random_checkpoint(invariance::tiny(), 5), {.threads = 2});
  };
  std::vector<Said> all;
  for (const Isa isa : isas()) {
    E engine = make(isa);
    Said said{.isa = isa, .fingerprint = engine.full_fingerprint(), .receipts = {}, .texts = {}};
    for (const Completion& each : engine.complete(requests())) {
      BOOST_REQUIRE_MESSAGE(each.receipt, each.error);
      said.receipts.push_back(*each.receipt);
      said.texts.push_back(to_json(*each.receipt).dump());
    }
    all.push_back(std::move(said));
  }
  for (const Said& said : all) {
    BOOST_TEST_CONTEXT(make(said.isa).numeric_class() << " on " << tenon::to_string(said.isa)) {
      BOOST_TEST(said.fingerprint == all.front().fingerprint);
      BOOST_TEST(said.texts == all.front().texts, boost::test_tools::per_element());
      E engine = make(said.isa);
      for (const ReceiptCheck& check : verify(engine, std::span<const Receipt>(all.back().receipts)))
        BOOST_TEST(check.holds, check.field << ": " << check.why);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(floats) {
  check_class<Gpt2, float, Weights<Float32>>();
  check_class<Gpt2, bfloat16, Weights<BFloat16>, Attention<DirectAttention>>();
  check_class<Gpt2, float16, Weights<BFloat16Dot>>();
  check_class<Gpt2, float, Weights<BFloat16Amx>>();
  check_class<Gpt2, std::int8_t, Weights<Float16>>();
  check_class<Gpt2, bfloat16, Weights<Float8<E4M3>>, Attention<DirectAttention>>();
  check_class<Gpt2, float16, Weights<Float8<E5M2>>>();
}

BOOST_AUTO_TEST_CASE(integers) {
  check_class<Gpt2, float, Weights<ZeroPointInt8>, Head<Int8Exact>>();
  check_class<Gpt2, bfloat16, Weights<ZeroPointInt8Of<PerTensor>>>();
  check_class<Gpt2, float16, Weights<ZeroPointInt8Act8>, Attention<DirectAttention>>();
  check_class<Gpt2, std::int8_t, Weights<GroupInt4>>();
  check_class<Gpt2, float, Weights<GroupInt4Act8>>();
  check_class<Gpt2, bfloat16, Weights<GroupInt8>, Attention<DirectAttention>>();
  check_class<Gpt2, std::int8_t, Weights<NormalFloat4>>();
}

BOOST_AUTO_TEST_SUITE_END()
