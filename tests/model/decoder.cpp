// forward(): a device that prefetches is told which keys and values each layer reads; answers do not depend on it.
#include <boost/test/unit_test.hpp>

#include <vector>

#include "../engine/tiny.h"
#include "tenon/tenon.h"

namespace tenon::test {

// Remembers the layers of all hints.
struct HintedCpu : Cpu {
  using Cpu::Cpu;
  static inline std::vector<int> layers;
  void will_read(const KvPrefetchHint& hint) {
    layers.push_back(hint.layer);
    Cpu::will_read(hint);
  }
};

}  // namespace tenon::test

BOOST_AUTO_TEST_SUITE(model_decoder)

using namespace tenon;
using test::HintedCpu;

static_assert(PrefetchesKv<HintedCpu>);

// A step that drops rows before the last layer's attention may read few of their sequences there.
BOOST_AUTO_TEST_CASE(every_layer_that_keeps_its_rows_is_hinted) {
  const ModelFiles files = random_checkpoint(tiny_gpt2(), 9);
  const Request request{.input_ids = {5, 6, 7, 8, 9}, .options = {.max_new_tokens = 3, .ignore_eos = true}};
  HintedCpu::layers.clear();
  const auto hinted = Engine<Gpt2, Device<HintedCpu>>{files, {}, {.threads = 1}}.complete(request);
  BOOST_TEST(HintedCpu::layers == (std::vector{0, 0, 1, 0, 1}), boost::test_tools::per_element());
  BOOST_TEST(hinted.ids == Engine<Gpt2>(files).complete(request).ids, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
