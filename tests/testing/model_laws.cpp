// Our families obey the laws, and each law is broken by a family that is made to break it.
#include "tenon/testing/model_laws.h"

#include <boost/test/unit_test.hpp>

#include "obeys.h"
#include "tenon/model/bloom.h"
#include "tenon/model/gpt2.h"
#include "tenon/model/gpt_bigcode.h"
#include "tenon/model/llama.h"
#include "tenon/model/mistral.h"

BOOST_AUTO_TEST_SUITE(testing_model_laws)

using namespace tenon;
using test::breaks;
using test::obeys;
using testing::model_laws;

namespace {

ModelConfig small(ModelConfig c, int heads, int kv_heads, int head_dim) {
  c.layers = 2;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.head_dim = head_dim;
  c.hidden = heads * head_dim;
  c.inner = 50;
  c.vocab = 77;
  c.positions = 64;
  return c;
}

// Every switch of a configuration that changes the tensors.
template <class Model>
void obeys_model_laws(const ModelConfig& base) {
  for (int form = 0; form < 16; ++form) {
    ModelConfig c = base;
    c.tied_head = form & 1;
    c.attention_bias = form & 2;
    c.mlp_bias = form & 4;
    c.interleaved_qkv = (form & 8) && c.heads == c.kv_heads;
    obeys(model_laws<Model>(c));
  }
}

// ---- families, each wrong in one way

struct OneLayerLess : Gpt2 {
  static DecoderSpec tensors(const ModelConfig& c) {
    DecoderSpec spec = Gpt2::tensors(c);
    spec.layers.pop_back();
    return spec;
  }
};
struct Swapped : Gpt2 {
  static DecoderSpec tensors(const ModelConfig& c) {
    DecoderSpec spec = Gpt2::tensors(c);
    std::swap(spec.layers[0].up, spec.layers[0].down);
    return spec;
  }
};
struct KeysTwice : Llama {
  static DecoderSpec tensors(const ModelConfig& c) {
    DecoderSpec spec = Llama::tensors(c);
    spec.layers[0].qkv.weight.parts[2].name = spec.layers[0].qkv.weight.parts[1].name;
    return spec;
  }
};
struct ShortParts : Llama {
  static DecoderSpec tensors(const ModelConfig& c) {
    DecoderSpec spec = Llama::tensors(c);
    spec.layers[1].qkv.weight.parts.pop_back();
    return spec;
  }
};
struct Prefixed : Gpt2 {
  static DecoderSpec tensors(const ModelConfig& c) {
    DecoderSpec spec = Gpt2::tensors(c);
    spec.embedding.parts[0].name = "transformer.wte.weight";
    return spec;
  }
};
struct AlwaysTied : Gpt2 {
  static DecoderSpec tensors(const ModelConfig& c) {
    DecoderSpec spec = Gpt2::tensors(c);
    spec.head = {};
    return spec;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(our_families_obey) {
  obeys_model_laws<Gpt2>(small(Gpt2::small(), 3, 3, 20));
  obeys_model_laws<GptBigCode>(small(GptBigCode::starcoder(), 6, 1, 10));
  obeys_model_laws<GptBigCode>(small(GptBigCode::starcoder(), 4, 4, 10));
  obeys_model_laws<Llama>(small(Llama::one_billion(), 6, 2, 18));
  obeys_model_laws<Mistral>(small(Mistral::seven_billion(), 9, 3, 12));
  obeys_model_laws<Bloom>(small(Bloom::small(), 3, 3, 20));
}

BOOST_AUTO_TEST_CASE(wrong_families_are_caught) {
  const ModelConfig gpt2 = small(Gpt2::small(), 3, 3, 20), llama = small(Llama::one_billion(), 6, 2, 18);
  const auto with = [](ModelConfig c, auto member, auto value) {
    c.*member = value;
    return c;
  };
  using C = ModelConfig;
  // Switches that are not those of the tensors: the forward pass would read what is not there, or drop what is.
  BOOST_TEST(
      breaks(model_laws<Gpt2>(with(gpt2, &C::position_kind, PositionKind::rotary)), "a table of positions where"));
  BOOST_TEST(
      breaks(model_laws<Llama>(with(llama, &C::position_kind, PositionKind::learned)), "a table of positions where"));
  BOOST_TEST(breaks(model_laws<Llama>(with(llama, &C::mlp_kind, MlpKind::plain)), "up is [inner, hidden]"));
  BOOST_TEST(breaks(model_laws<Gpt2>(with(gpt2, &C::mlp_kind, MlpKind::gated)), "up is [inner, hidden]"));
  BOOST_TEST(breaks(model_laws<Gpt2>(with(gpt2, &C::norm_kind, NormKind::rms)), "a norm has a bias where"));
  BOOST_TEST(breaks(model_laws<Llama>(with(llama, &C::norm_kind, NormKind::layer)), "a norm has a bias where"));
  BOOST_TEST(breaks(model_laws<OneLayerLess>(gpt2), "as many layers"));
  BOOST_TEST(breaks(model_laws<Swapped>(gpt2), "down is [hidden, inner]"));
  BOOST_TEST(breaks(model_laws<KeysTwice>(llama), "read twice"));
  BOOST_TEST(breaks(model_laws<ShortParts>(llama), "as many rows as the matrix"));
  BOOST_TEST(breaks(model_laws<Prefixed>(gpt2), "without name_prefix"));
  ModelConfig untied = gpt2;
  untied.tied_head = false;
  BOOST_TEST(breaks(model_laws<AlwaysTied>(untied), "names a head where"));
  ModelConfig odd = llama;
  odd.head_dim = 17;
  BOOST_TEST(breaks(model_laws<Llama>(odd), "head_dim is even"));
  odd = gpt2;
  odd.kv_heads = 2;
  BOOST_TEST(breaks(model_laws<Gpt2>(odd), "kv_heads divides heads"));
  odd.model_type = "gpt3";
  BOOST_TEST(breaks(model_laws<Gpt2>(odd), "sets model_type"));
}

BOOST_AUTO_TEST_SUITE_END()
