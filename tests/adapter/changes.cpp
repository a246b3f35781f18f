// ChangeTable: gains of DoRA and IA3, biases and norms, each at its place in the model's vectors.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "../io/scratch.h"
#include "tenon/adapter/resident.h"
#include "tenon/device/cpu.h"
#include "tenon/testing/random_adapter.h"

BOOST_AUTO_TEST_SUITE(adapter_changes)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using testing::RandomKind;

namespace {

// Two linears in one matrix, of which the second has the halves of its rows in reverse order; a matrix of one linear.
AdapterSites sites() {
  AdapterSites all{1, {}};
  all.sites.push_back({{.path = "h.0.q", .inputs = 8, .outputs = 6}, 0, Site::qkv, 0, {{0, 0, 6}}});
  all.sites.push_back({{.path = "h.0.k", .inputs = 8, .outputs = 4}, 0, Site::qkv, 6, {{2, 6, 2}, {0, 8, 2}}});
  all.sites.push_back({{.path = "h.0.down", .inputs = 6, .outputs = 5}, 0, Site::mlp_down, 0, {{0, 0, 5}}});
  AdapterVector bias{
      .tensor = "h.0.k.bias", .site = Site::qkv, .stored = 4, .size = 10, .runs = {{2, 6, 2}, {0, 8, 2}}};
  AdapterVector norm{.tensor = "h.0.norm.weight",
                     .norm = NormSite::mlp,
                     .is_bias = false,
                     .stored = 3,
                     .size = 3,
                     .runs = {{0, 0, 3}}};
  norm.plus = 1;
  norm.times = 2;
  all.vectors = {bias, norm};
  for (const AdapterVector& v : all.vectors) all.base.vectors.emplace(v.tensor, v.stored);
  return all;
}

float weight_at(Site site, int row, int k) {
  return 0.25f + 0.1f * static_cast<float>(row * 7 + k * 3) / (site == Site::qkv ? 4.0f : 9.0f);
}

constexpr float kBiases[] = {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f, 7.5f, 8.5f, 9.5f};
constexpr float kGains[] = {1, 2, 3};

// The matrix of `down` has no bias.
BaseWeights base() {
  return {.read_row =
              [](int, Site site, int row, std::span<float> out) {
                for (std::size_t k = 0; k < out.size(); ++k) out[k] = weight_at(site, row, static_cast<int>(k));
              },
          .bias = [](int, Site site) { return site == Site::qkv ? kBiases : nullptr; },
          .norm =
              [](int, NormSite) {
                return NormChange{kGains, nullptr};
              }};
}

struct Adapter {
  Scratch scratch;

  explicit Adapter(RandomKind kind, const AdapterSites& all = sites()) {
    testing::write_adapter(scratch.folder(), all.sites, {.rank = 3, .alpha = 4, .seed = 7, .kind = kind},
                           kind == RandomKind::vectors ? all.vectors : std::vector<AdapterVector>{});
  }
  PeftAdapter open() const { return PeftAdapter::open(scratch.folder(), sites().modules(), sites().base); }
  std::vector<float> values(const std::string& name) const {
    const PeftAdapter adapter = open();
    const TensorInfo& tensor = *adapter.tensors().find("base_model.model." + name);
    std::vector<float> all(static_cast<std::size_t>(PeftAdapter::bytes_of(tensor)) / sizeof(float));
    adapter.read_floats(tensor, all);
    return all;
  }
};

std::vector<float> vector(const float* from, int count) { return {from, from + count}; }

ProductChange product(const ChangeTable& table, Site site) { return table.changes()->products[static_cast<int>(site)]; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_plain_lora_changes_nothing_more) {
  const Adapter adapter(RandomKind::lora);
  const ChangeTable table(adapter.open(), sites(), base());
  BOOST_TEST(table.changes() == nullptr);
  BOOST_TEST(table.bytes() == 0u);
}

// By the definition, row by row.
BOOST_AUTO_TEST_CASE(gains_of_dora_are_magnitudes_by_norms_of_the_updated_rows) {
  const Adapter adapter(RandomKind::dora);
  const ChangeTable table(adapter.open(), sites(), base());
  BOOST_TEST(product(table, Site::qkv).bias == nullptr);
  BOOST_TEST(product(table, Site::attn_out).gain == nullptr);
  for (const AdapterSite& site : sites().sites) {
    const auto a = adapter.values(site.module.path + ".lora_A.weight"),
               b = adapter.values(site.module.path + ".lora_B.weight"),
               m = adapter.values(site.module.path + ".lora_magnitude_vector");
    for (const OutputRun& run : site.runs) {
      for (int i = 0; i < run.count; ++i) {
        const auto stored = static_cast<std::size_t>(run.stored + i);
        double sum = 0;
        for (std::size_t k = 0; k < static_cast<std::size_t>(site.module.inputs); ++k) {
          double w = static_cast<double>(weight_at(site.site, run.own + i, static_cast<int>(k)));
          for (std::size_t r = 0; r < 3; ++r)
            w += 4.0 / 3 * static_cast<double>(b[stored * 3 + r]) *
                 static_cast<double>(a[r * static_cast<std::size_t>(site.module.inputs) + k]);
          sum += w * w;
        }
        const double gain = static_cast<double>(m[stored]) / std::sqrt(sum);
        BOOST_TEST(std::abs(static_cast<double>(product(table, site.site).gain[run.own + i]) - gain) < 1e-6 * gain);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(ia3_scales_outputs_with_their_bias_or_inputs) {
  const Adapter adapter(RandomKind::ia3);
  const ChangeTable table(adapter.open(), sites(), base());
  const auto q = adapter.values("h.0.q.ia3_l"), k = adapter.values("h.0.k.ia3_l"),
             in = adapter.values("h.0.down.ia3_l");
  const std::vector<float> gains{q[0], q[1], q[2], q[3], q[4], q[5], k[2], k[3], k[0], k[1]};
  std::vector<float> biases;
  for (std::size_t i = 0; i < 10; ++i) biases.push_back(gains[i] * kBiases[i]);
  const ProductChange qkv = product(table, Site::qkv), down = product(table, Site::mlp_down);
  BOOST_TEST((vector(qkv.gain, 10) == gains));
  BOOST_TEST((vector(qkv.bias, 10) == biases));
  BOOST_TEST(qkv.input_gain == nullptr);
  BOOST_TEST((vector(down.input_gain, 6) == in));
  BOOST_TEST((down.gain == nullptr && down.bias == nullptr));
}

BOOST_AUTO_TEST_CASE(replaced_vectors_keep_the_models_values_elsewhere) {
  const Adapter adapter(RandomKind::vectors);
  const ChangeTable table(adapter.open(), sites(), base());
  const auto bias = adapter.values("h.0.k.base_layer.bias"), norm = adapter.values("h.0.norm.weight");
  std::vector<float> biases(kBiases, kBiases + 6);
  for (const std::size_t i : {2u, 3u, 0u, 1u}) biases.push_back(bias[i]);
  BOOST_TEST((vector(product(table, Site::qkv).bias, 10) == biases));
  const NormChange change = table.changes()->norms[static_cast<int>(NormSite::mlp)];
  BOOST_TEST((vector(change.gain, 3) == std::vector{(norm[0] + 1) * 2, (norm[1] + 1) * 2, (norm[2] + 1) * 2}));
  BOOST_TEST(change.bias == nullptr);
}

BOOST_AUTO_TEST_CASE(vectors_begin_at_a_cache_line) {
  const auto begins_a_line = [](const float* vector) { return reinterpret_cast<std::uintptr_t>(vector) % 64 == 0; };
  const Adapter dora(RandomKind::dora), ia3(RandomKind::ia3);
  const ChangeTable gains(dora.open(), sites(), base()), scales(ia3.open(), sites(), base());
  for (const Site site : {Site::qkv, Site::mlp_down}) BOOST_TEST(begins_a_line(product(gains, site).gain));
  BOOST_TEST(begins_a_line(product(scales, Site::qkv).bias));
  BOOST_TEST(begins_a_line(product(scales, Site::mlp_down).input_gain));
}

BOOST_AUTO_TEST_CASE(bytes_count_all_vectors) {
  constexpr std::size_t kSlack = 15;  // floats of a vector, so that it can begin at a cache line
  for (const auto& [kind, floats] : {std::pair(RandomKind::dora, 10u + 5), std::pair(RandomKind::vectors, 10u + 3)}) {
    const Adapter adapter(kind);
    const ChangeTable table(adapter.open(), sites(), base());
    BOOST_TEST(table.bytes() == (floats + 2 * kSlack) * sizeof(float));
    BOOST_TEST(ChangeTable::bytes_of(adapter.open(), sites()) == table.bytes());
  }
  const Adapter adapter(RandomKind::ia3);
  const ChangeTable table(adapter.open(), sites(), base());
  BOOST_TEST(table.bytes() == (10 + 10 + 6 + 3 * kSlack) * sizeof(float));
  BOOST_TEST(ChangeTable::bytes_of(adapter.open(), sites()) >= table.bytes());
  Cpu device({.threads = 1});
  const ResidentAdapter<Cpu> resident(device, adapter.open(), sites(), base());
  BOOST_TEST(resident.bytes() == table.bytes());
  BOOST_TEST(resident.digest() == adapter.open().digest());
}

// Devices without the weights at hand, such as GPUs.
BOOST_AUTO_TEST_CASE(without_the_models_weights_they_are_refused_by_name) {
  for (const auto& [kind, name] : {std::pair(RandomKind::dora, "use_dora"), std::pair(RandomKind::ia3, "IA3"),
                                   std::pair(RandomKind::vectors, "h.0.k.base_layer.bias")}) {
    const Adapter adapter(kind);
    const std::string message = refusal([&] { ChangeTable(adapter.open(), sites(), {}); });
    BOOST_TEST(mentions(message, {name}), message);
    BOOST_TEST(mentions(message, {"CPU"}), message);
  }
}

BOOST_AUTO_TEST_CASE(ia3_cannot_scale_the_inputs_of_a_part_of_a_matrix) {
  const Adapter adapter(RandomKind::ia3);
  nlohmann::json config;
  std::ifstream(adapter.scratch / "adapter_config.json") >> config;
  config["target_modules"] = nlohmann::json::array({"q"});
  config["feedforward_modules"] = nlohmann::json::array({"q"});
  adapter.scratch.write("adapter_config.json", config.dump());
  SafetensorsWriter writer(adapter.scratch / "adapter_model.safetensors",
                           {{"base_model.model.h.0.q.ia3_l", DType::f32, {1, 8}}}, {});
  const std::vector<float> ones(8, 1.0f);
  writer.write("base_model.model.h.0.q.ia3_l", 0, std::as_bytes(std::span(ones)));
  writer.finish();
  const std::string message = refusal([&] { ChangeTable(adapter.open(), sites(), base()); });
  BOOST_TEST(mentions(message, {"feedforward_modules"}), message);
  BOOST_TEST(mentions(message, {"h.0.q"}), message);
}

// A norm of zero has no direction.
BOOST_AUTO_TEST_CASE(a_gain_that_is_not_finite_is_refused) {
  const Adapter adapter(RandomKind::dora);
  BaseWeights zero = base();
  zero.read_row = [](int, Site, int, std::span<float> out) { std::ranges::fill(out, 0.0f); };
  const std::size_t b = adapter.open().factors()[0].b_bytes();
  std::vector<TensorPlan> plans;
  const PeftAdapter from = adapter.open();
  for (const TensorInfo& tensor : from.tensors().tensors()) plans.push_back({tensor.name, tensor.dtype, tensor.shape});
  SafetensorsWriter writer(adapter.scratch / "adapter_model.safetensors", plans, {});
  for (const TensorInfo& tensor : from.tensors().tensors()) {
    std::vector<float> values(static_cast<std::size_t>(PeftAdapter::bytes_of(tensor)) / sizeof(float));
    from.read_floats(tensor, values);
    if (tensor.name.ends_with("q.lora_B.weight")) values.assign(b / sizeof(float), 0.0f);
    writer.write(tensor.name, 0, std::as_bytes(std::span(values)));
  }
  writer.finish();
  const std::string message = refusal([&] { ChangeTable(adapter.open(), sites(), zero); });
  BOOST_TEST(mentions(message, {"h.0.q.lora_magnitude_vector"}), message);
}

BOOST_AUTO_TEST_SUITE_END()
