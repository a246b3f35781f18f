#include "tenon/checkpoint/peft.h"
#include "tenon/io/json.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../io/scratch.h"
#include "tenon/checkpoint/peft_fields.h"
#include "tenon/checkpoint/peft_selection.h"
#include "tenon/core/elements.h"
#include "tensor_file.h"

BOOST_AUTO_TEST_SUITE(checkpoint_peft)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using tenon::test::TensorFile;

namespace {

const std::filesystem::path kShared = TENON_SOURCE_DIR "/../shared";

// The linears of a GPT-2 with these layers, and its head.
std::vector<PeftModule> gpt2_modules(const std::vector<int>& layers, int width, int vocabulary) {
  std::vector<PeftModule> modules;
  for (const int layer : layers) {
    const std::string stem = "transformer.h." + std::to_string(layer);
    modules.push_back({stem + ".attn.c_attn", width, 3 * width});
    modules.push_back({stem + ".attn.c_proj", width, width});
    modules.push_back({stem + ".mlp.c_fc", width, 4 * width});
    modules.push_back({stem + ".mlp.c_proj", 4 * width, width});
  }
  modules.push_back({"lm_head", width, vocabulary, /*head=*/true});
  return modules;
}
// 13 modules: 4 linears in each of 3 layers, and the head.
const std::vector<PeftModule> kThree = gpt2_modules({0, 1, 11}, 8, 260);

// adapter_config.json with peft_type, r = 2 and lora_alpha = 4, unless `fields` sets them, and with `fields`.
std::string config_text(const std::string& fields) {
  std::string text = "{\"peft_type\": \"LORA\"";
  if (fields.find("\"r\"") == fields.npos) text += ", \"r\": 2";
  if (fields.find("\"lora_alpha\"") == fields.npos) text += ", \"lora_alpha\": 4";
  return text + ", " + fields + "}";
}

std::vector<PeftTarget> targets(const std::string& fields, const std::vector<PeftModule>& modules = kThree) {
  return peft_targets(parse_peft_config(config_text(fields)), modules);
}

std::vector<std::size_t> targeted(const std::string& fields) {
  std::vector<std::size_t> indices;
  for (const PeftTarget& each : targets(fields)) indices.push_back(each.module);
  return indices;
}

std::string refused(const std::string& fields, const std::string& field) {
  const std::string message = refusal([&] { targets(fields); });
  BOOST_TEST(message.starts_with("adapter_config.json: " + field + ": "), fields << ": " << message);
  return message;
}

// A folder with an adapter of rank 2 for c_attn of layers 0 and 1. Tests change its parts and write it again.
struct Adapter {
  Scratch scratch;
  std::string config = config_text("\"target_modules\": [\"c_attn\"]");
  TensorFile file;
  std::vector<PeftModule> modules = gpt2_modules({0, 1}, 8, 260);

  Adapter() {
    for (const char* layer : {"0", "1"}) {
      add(name(layer, 'A'), {2, 8});
      add(name(layer, 'B'), {24, 2});
    }
  }

  static std::string name(const std::string& layer, char factor) {
    return "base_model.model.transformer.h." + layer + ".attn.c_attn.lora_" + factor + ".weight";
  }
  void add(const std::string& tensor, std::vector<std::uint64_t> shape, DType dtype = DType::f32) {
    std::uint64_t elements = 1;
    for (const auto dim : shape) elements *= dim;
    if (dtype == DType::f32) {
      std::vector<float> values(elements);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i + tensor.size()) * (tensor.find("h.1") == tensor.npos ? 0.5f : -0.25f);
      file.add(tensor, dtype, std::move(shape), values);
    } else {
      file.add(tensor, dtype, std::move(shape), std::vector<std::uint16_t>(elements, 0x3c00));
    }
  }

  PeftAdapter open() const {
    scratch.write("adapter_config.json", config);
    file.write(scratch / "adapter_model.safetensors");
    return PeftAdapter::open(scratch.folder(), modules);
  }
  // The error message, checked to name the file and the tensor.
  std::string refused(const std::string& tensor) const {
    const std::string message = refusal([&] { open(); });
    BOOST_TEST(message.starts_with("adapter_model.safetensors: " + tensor + ": "), message);
    return message;
  }
};

// Reads all values, as loading an adapter does.
void read_all(const PeftAdapter& adapter) {
  for (const PeftFactors& each : adapter.factors())
    for (const TensorInfo* tensor : {each.a, each.b}) {
      std::vector<std::byte> bytes(PeftAdapter::bytes_of(*tensor));
      adapter.read(*tensor, bytes);
    }
  adapter.tensors().verify_unchanged();
}

}  // namespace

// Expected: indices of the modules in kThree for which PEFT 0.21.2's check_target_module_exists is true.
// report: adapter_target_names_absent
// report: adapter_regex_targets
BOOST_AUTO_TEST_CASE(modules_are_targeted_as_by_peft) {
  const std::pair<const char*, std::vector<std::size_t>> cases[] = {
      {R"("target_modules": ["c_attn"])", {0, 4, 8}},
      {R"("target_modules": ["c_proj"])", {1, 3, 5, 7, 9, 11}},
      {R"("target_modules": ["mlp.c_proj"])", {3, 7, 11}},
      {R"("target_modules": ["c_attn", "lm_head"])", {0, 4, 8, 12}},
      {R"("target_modules": ["transformer.h.1.mlp.c_fc"])", {6}},
      {R"("target_modules": ["1.mlp.c_fc"])", {6}},
      {R"("target_modules": ["1.attn.c_attn", "11.mlp.c_fc"])", {4, 10}},
      {R"("target_modules": ["c_fc", "c_proj"], "exclude_modules": ["c_proj"])", {2, 6, 10}},
      {R"("target_modules": ["c_fc", "c_proj"], "exclude_modules": ["mlp.c_proj", "h.0.mlp.c_fc"])", {1, 5, 6, 9, 10}},
      {R"("target_modules": ["c_fc", "c_proj"], "exclude_modules": ["proj", "transformer.h.1.mlp.c_fc"])",
       {1, 2, 3, 5, 7, 9, 10, 11}},
      {R"("target_modules": ["transformer.h.1.mlp.c_fc", "c_attn"], "exclude_modules": ["transformer.h.1.mlp.c_fc"])",
       {0, 4, 8}},
      {R"("target_modules": ["c_attn"], "layers_to_transform": 1)", {4}},
      {R"("target_modules": ["c_attn"], "layers_to_transform": 0)", {0}},
      {R"("target_modules": ["c_attn", "c_fc"], "layers_to_transform": [0, 11])", {0, 2, 8, 10}},
      {R"("target_modules": ["c_attn", "c_fc"], "layers_to_transform": [])", {0, 2, 4, 6, 8, 10}},
      {R"("target_modules": ["c_attn", "transformer.h.1.mlp.c_fc"], "layers_to_transform": [0])", {0, 6}},
      {R"("target_modules": ["c_attn", "lm_head"], "layers_to_transform": [0])", {0, 12}},
      {R"("target_modules": ["c_attn", "c_proj"], "layers_to_transform": [1], "layers_pattern": "h")", {4, 5, 7}},
      {R"("target_modules": ["c_attn"], "layers_to_transform": [1], "layers_pattern": ["layers", "h"])", {4}},
      {R"("target_modules": ["c_attn"], "layers_to_transform": [1], "layers_pattern": "transformer.h")", {4}},
      {R"("target_modules": ["c_attn"], "layers_to_transform": [1], "layers_pattern": [])", {4}},
      {R"("target_modules": ["c_attn"], "layers_to_transform": [1], "layers_pattern": "")", {4}},
      {R"("target_modules": ["c_attn", "q_proj", "v_proj"])", {0, 4, 8}},
      {R"("target_modules": ["c_attn", "attn", "fc", ".c_fc", "", "h.2.attn.c_attn"])", {0, 4, 8}},
      {R"("target_modules": ["c_attn"], "layers_to_transform": [0, 12])", {0}},
      {R"("target_modules": ["transformer.h.1.mlp.c_fc", "c_attn"], "layers_to_transform": [0], "layers_pattern": "layers")",
       {6}},
      {R"x("target_modules": ["c_attn"], "layers_to_transform": [11], "layers_pattern": "(h|layers)")x", {8}},
      {R"("target_modules": ["c_attn"], "layers_to_transform": [1], "layers_pattern": "[gh]")", {4}},
      {R"("target_modules": ".*\\.attn\\.c_attn")", {0, 4, 8}},
      {R"x("target_modules": ".*\\.(0|11)\\..*c_(attn|fc)")x", {0, 2, 8, 10}},
      {R"x("target_modules": "(?:.*?(?:attn).*?(?:c_attn|c_proj).*?)|(?:\\btransformer\\.h\\.[\\d]{1,}\\.(?:mlp)\\.(?:(?:c_fc)))")x",
       {0, 1, 2, 4, 5, 6, 8, 9, 10}},
      {R"("target_modules": "(?!.*mlp).*h\\.\\d\\..*c_proj")", {1, 5}},
      {R"("target_modules": "transformer.*(?<!mlp\\.)c_proj")", {1, 5, 9}},
      {R"("target_modules": "(?i).*C_ATTN")", {0, 4, 8}},
      {R"("target_modules": ".*c_proj", "exclude_modules": ".*\\.mlp\\..*")", {1, 5, 9}},
      {R"("target_modules": ["c_proj"], "exclude_modules": ".*\\.1+\\..*")", {1, 3}},
      {R"("target_modules": "all-linear", "exclude_modules": "transformer\\.h\\.\\d\\..*")", {8, 9, 10, 11}},
      {R"("target_modules": "all-linear")", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
      {R"("target_modules": "all-linear", "exclude_modules": ["c_proj", "0.mlp.c_fc"])", {0, 4, 6, 8, 10}},
  };
  for (const auto& [fields, expected] : cases) BOOST_TEST(targeted(fields) == expected, fields);
}

// Expected: re.match(rf"(.*\.)?({key})$", path), as in get_pattern_key of PEFT 0.21.2.
BOOST_AUTO_TEST_CASE(keys_match_as_by_peft) {
  struct Case {
    const char *path, *key;
    bool matches;
  };
  const Case cases[] = {
      {"transformer.h.0.mlp.c_fc", "c_fc", true},
      {"transformer.h.0.mlp.xc_fc", "c_fc", false},
      {"c_fc", "c_fc", true},
      {"xc_fc", "c_fc", false},
      {"c_fc.x", "c_fc", false},
      {"transformer.h.0.mlp.c_fc", "mlp.c_fc", true},
      {"transformer.h.0.mlp_c_fc", "mlp.c_fc", true},  // the dot of a regular expression
      {"transformer.h.1.mlp.c_fc", "h.1.mlp.c_fc", true},
      {"transformer.h.11.mlp.c_fc", "h.1.mlp.c_fc", false},
      {"transformer.h.11.mlp.c_fc", "1.mlp.c_fc", false},
      {"transformer.h.1.mlp.c_fc", "1.mlp.c_fc", true},
      {"transformer.h.1.mlp.c_fc", "h.1.mlp", false},
      {"a.h11.c", "h.1.c", true},
      {"a.h111c", "h.1.c", true},
      {"x.a..b", "a.b", false},
      {"x.c-fc", "c-fc", true},
      {".c_fc", "c_fc", true},
      {"x..c_fc", "c_fc", true},
      {"transformer.h.0.mlp.c_fc", "transformer.h.0.mlp.c_fc", true},
      {"0.mlp.c_fc", "transformer.h.0.mlp.c_fc", false},
      {"h.c_fc", "C_FC", false},
      {"transformer.h.1.mlp.c_fc", "^.*\\.1\\..*", true},
      {"transformer.h.11.mlp.c_fc", "^.*\\.1\\..*", false},
      {"transformer.h.1.mlp.c_fc", "h\\.\\d\\.mlp\\..*", true},
      {"transformer.h.1.mlp.c_fc", "c_(attn|fc)", true},
      {"transformer.h.1.mlp.c_fc", "attn|c_fc", true},
      {"transformer.h.1.mlp.c_fc", "_fc", false},
      {"transformer.h.1.mlp.c_fc", ".*_fc", true},
      {"transformer.h.1.mlp.c_fc", "h.1.mlp.c_fc$", true},
      {"transformer.h.1.mlp.c_fc", "h\\.1", false},
      {"transformer.h.1.mlp.c_fc", "h)|(c_fc", true},  // (.*\.)?(h) alone matches the start of the path
      {"transformer.x.1.mlp.c_fc", "h)|(c_fc", false},
  };
  for (const Case& each : cases) {
    std::uint64_t budget = 1000;
    BOOST_TEST(detail::PeftKey(each.key, "rank_pattern").matches(each.path, budget) == each.matches,
               each.path << " " << each.key);
    BOOST_TEST(PythonRegex(detail::peft_key_regex(each.key), "").prefix_match(each.path, budget) == each.matches);
  }
}

// Expected: results of the expressions in check_target_module_exists of PEFT 0.21.2; -1 where they find no layer.
BOOST_AUTO_TEST_CASE(layers_are_found_as_by_peft) {
  struct Case {
    const char* path;
    int any, h, layers_or_h, a_h;
  };
  const Case cases[] = {
      {"transformer.h.0.attn", 0, 0, 0, -1},
      {"transformer.h.0", -1, -1, -1, -1},
      {"h.0.attn", -1, 0, 0, -1},
      {"model.layers.12.mlp.up", 12, -1, 12, -1},
      {"a.b.c.3.d.4.e", 3, -1, -1, -1},
      {"a.1.2.c", 2, -1, -1, -1},
      {"a.1.2", -1, -1, -1, -1},
      {"1.2.3.4", 3, -1, -1, -1},
      {"a..5.x", 5, -1, -1, -1},
      {"x.7b.8.c", 8, -1, -1, -1},
      {"model.layers.007.x", 7, -1, 7, -1},
      {"a.h.x.h.5.y", 5, 5, 5, -1},
      {"h.3.c", -1, 3, 3, -1},
      {"xh.3.c", -1, -1, -1, -1},
      {"a.xh.3.c.h.4.d", 3, 4, 4, -1},
      {"a.b.c", -1, -1, -1, -1},
      {"h.1.h.2.c", 2, 1, 1, -1},
      {"a.h.1", -1, -1, -1, -1},
      {"b.h.2x.h.3.c", 3, 3, 3, -1},
      {"a.h.6.c", 6, 6, 6, 6},
  };
  const auto layer = [](const char* path, const std::vector<std::string>& patterns) {
    std::uint64_t budget = 100'000;
    std::vector<PythonRegex> regexes;
    for (const std::string& pattern : patterns) regexes.emplace_back(pattern, "layers_pattern");
    return detail::layer_of(path, regexes, budget).value_or(-1);
  };
  for (const Case& each : cases) {
    BOOST_TEST(layer(each.path, {}) == each.any, each.path);
    BOOST_TEST(layer(each.path, {"h"}) == each.h, each.path);
    BOOST_TEST(layer(each.path, {"layers", "h"}) == each.layers_or_h, each.path);
    BOOST_TEST(layer(each.path, {"a.h"}) == each.a_h, each.path);
    BOOST_TEST(layer(each.path, {"(layers|h)"}) == each.layers_or_h, each.path);
  }
  BOOST_TEST(layer("model.layers.3.experts.7.up", {"[a-z]+"}) == 3);
  BOOST_TEST(
      mentions(refusal([&] { layer("model.layers.3.experts.7.up", {"l.*"}); }), {"layers_pattern", "several layers"}));
}

BOOST_AUTO_TEST_CASE(ranks_and_scales_of_single_modules) {
  const auto one = [](const std::string& fields) {
    return targets(fields + ", \"target_modules\": [\"0.mlp.c_fc\"]").at(0);
  };
  BOOST_TEST(one(R"("r": 3, "lora_alpha": 16)").rank == 3);
  BOOST_TEST(one(R"("r": 3, "lora_alpha": 16)").scale == 16.0 / 3);
  BOOST_TEST(one(R"("r": 3, "lora_alpha": 16, "use_rslora": true)").scale == 16.0 / std::sqrt(3.0));
  BOOST_TEST(one(R"("r": 3, "lora_alpha": 0)").scale == 0.0);
  BOOST_TEST(one(R"("r": 4, "lora_alpha": -0.5)").scale == -0.125);
  const std::string both = R"("r": 8, "lora_alpha": 16, "rank_pattern": {"c_fc": 5}, "alpha_pattern": {"mlp.c_fc": 7})";
  BOOST_TEST(one(both).rank == 5);
  BOOST_TEST(one(both).scale == 7.0 / 5);
  BOOST_TEST(one(both + ", \"use_rslora\": true").scale == 7.0 / std::sqrt(5.0));
  // The first matching key in the file counts, not the most exact or the alphabetically first.
  BOOST_TEST(one(R"("rank_pattern": {"mlp.c_fc": 3, "c_fc": 4})").rank == 3);
  BOOST_TEST(one(R"("rank_pattern": {"c_fc": 4, "mlp.c_fc": 3})").rank == 4);
  BOOST_TEST(one(R"("rank_pattern": {"h.1.mlp.c_fc": 3, "transformer.h.0.mlp.c_fc": 5, "c_fc": 4})").rank == 5);
  BOOST_TEST(one(R"("alpha_pattern": {"x": 1, "c_fc": 6, "0.mlp.c_fc": 2})").scale == 3.0);
  // report: adapter_regex_targets
  BOOST_TEST(one(R"("rank_pattern": {"^.*\\.1\\..*": 8, "^.*\\.0\\..*": 7})").rank == 7);
  BOOST_TEST(one(R"x("alpha_pattern": {"c_(attn|fc)": 12, "c_fc": 1})x").scale == 6.0);
  // Keys that match nothing are ignored, as in PEFT: they belong to other models.
  BOOST_TEST(one(R"("rank_pattern": {"q_proj": 1000000}, "alpha_pattern": {"fc": 9})").rank == 2);
}

BOOST_AUTO_TEST_CASE(an_adapter_without_a_target_is_refused) {
  BOOST_TEST(mentions(refused(R"("target_modules": ["q_proj", "warp_drive"])", "target_modules"),
                      {"warp_drive", "no linear"}));
  for (const char* name :
       {"", "attn", "fc", ".c_fc", "c_attn.", "wte", "transformer", "h.2.attn.c_attn", "h.01.attn.c_attn"})
    refused("\"target_modules\": [\"" + std::string(name) + "\"]", "target_modules");
  const std::string attn = R"("target_modules": ["c_attn"], )";
  BOOST_TEST(mentions(refused(attn + R"("layers_to_transform": 2)", "target_modules"), {"layers_to_transform"}));
  refused(attn + R"("layers_to_transform": [0], "layers_pattern": "layers")", "target_modules");
  BOOST_TEST(mentions(refused(attn + R"("exclude_modules": ["c_attn"])", "target_modules"), {"no linear", "exclude"}));
  BOOST_TEST(mentions(refused(R"("target_modules": ["1.mlp.c_fc"], "layers_to_transform": [0])", "target_modules"),
                      {"no linear"}));
  BOOST_TEST(mentions(refused(R"("target_modules": "c_attn")", "target_modules"),
                      {"no linear"}));  // the whole path must match
  BOOST_TEST(mentions(refusal([] {
                        targets("\"target_modules\": \"all-linear\"", {{"lm_head", 8, 260, true}});
                      }),
                      {"adapter_config.json: target_modules", "no linear"}));
  refused(R"("target_modules": ["c_attn", "lm_head"], "ensure_weight_tying": true)", "ensure_weight_tying");
  BOOST_TEST(targeted(R"("target_modules": ["c_attn"], "ensure_weight_tying": true)").size() == 3U);
  BOOST_TEST((peft_absent_targets(parse_peft_config(config_text(R"("target_modules": ["q_proj", "c_attn", "attn"])")),
                                  kThree) == std::vector<std::string>{"q_proj", "attn"}));
}

// Targets that match the embedding or the head are refused: PEFT would update these, and tenon cannot.
BOOST_AUTO_TEST_CASE(targets_that_only_peft_can_update_are_refused) {
  const std::vector<std::string> others = {"transformer.wte", "lm_head"};
  const std::vector<PeftModule> layers = gpt2_modules({0}, 8, 260);
  const std::vector<PeftModule> linears(layers.begin(), layers.end() - 1);
  const auto refused_for = [&](const std::string& fields) {
    return refusal([&] { peft_targets(parse_peft_config(config_text(fields)), linears, others); });
  };
  for (const char* fields :
       {R"("target_modules": ["c_attn", "wte"])", R"("target_modules": ["transformer.wte", "c_attn"])",
        R"x("target_modules": ".*(wte|c_attn)")x"})
    BOOST_TEST(
        mentions(refused_for(fields), {"adapter_config.json: target_modules", "transformer.wte", "not supported"}));
  for (const char* fields :
       {R"x("target_modules": ["c_attn", "lm_head"])x", R"x("target_modules": ".*(lm_head|c_attn)")x"})
    BOOST_TEST(mentions(refused_for(fields), {"adapter_config.json: target_modules", "lm_head", "not supported"}));
  for (const char* fields : {R"("target_modules": "all-linear")", R"("target_modules": ["c_attn", "embed_tokens"])",
                             R"("target_modules": ["c_attn", "wte"], "exclude_modules": ["wte"])"})
    BOOST_TEST(refused_for(fields) == "accepted", fields);
}

// No pattern takes exponential time. Patterns that would take long are refused.
BOOST_AUTO_TEST_CASE(hostile_patterns_end) {
  BOOST_TEST(
      mentions(refusal([] { targeted(R"("target_modules": "(a*)*(a*)*((.*)*)*(.*.*.*.*.*)*x")"); }), {"no linear"}));
  std::string nested = "a";
  for (int i = 0; i < 40; ++i) nested = "(?:(?:" + nested + "|.)*.?)*";
  BOOST_TEST(mentions(refusal([&] { targeted("\"target_modules\": \"" + nested + "x\""); }), {"target_modules"}));
  const std::string deep(2000, '(');
  BOOST_TEST(
      mentions(refusal([&] { targeted("\"target_modules\": \"" + deep + "\""); }), {"target_modules", "nested"}));
  BOOST_TEST(mentions(refusal([&] { targeted("\"target_modules\": \"" + std::string(20'000, 'a') + "\""); }),
                      {"longer than"}));
}

BOOST_AUTO_TEST_CASE(ranks_above_every_dimension_are_refused) {
  const std::string attn = R"("target_modules": ["c_attn", "attn.c_proj"], )";  // 8 to 24 and 8 to 8
  BOOST_TEST(targets(attn + "\"r\": 24").size() == 6U);
  BOOST_TEST(mentions(refused(attn + "\"r\": 25", "r"), {"rank", "25", "24"}));
  BOOST_TEST(mentions(refused(attn + "\"r\": 1048576", "r"), {"rank"}));
  BOOST_TEST(mentions(refused(attn + R"("rank_pattern": {"c_proj": 9})", "rank_pattern.c_proj"), {"rank", "9", "8"}));
  BOOST_TEST(targets(attn + R"("rank_pattern": {"c_proj": 8})").size() == 6U);
  // r is not checked where every target has a rank of its own.
  BOOST_TEST(targets(attn + R"("r": 1000, "rank_pattern": {"c_attn": 1, "c_proj": 2})").size() == 6U);
}

BOOST_AUTO_TEST_CASE(scales_are_float32) {
  const std::string fc = R"("target_modules": ["c_fc"], )";
  refused(fc + "\"r\": 1, \"lora_alpha\": 1e39", "lora_alpha");
  refused(fc + "\"r\": 1, \"lora_alpha\": -1e300", "lora_alpha");
  refused(fc + R"("alpha_pattern": {"c_fc": 1e300})", "alpha_pattern.c_fc");
  BOOST_TEST(targets(fc + "\"r\": 4, \"lora_alpha\": 1e39").at(0).scale == 1e39 / 4);
}

BOOST_AUTO_TEST_CASE(a_sound_adapter_is_read) {
  Adapter made;
  const PeftAdapter adapter = [&] {
    PeftAdapter opened = made.open();
    return PeftAdapter(std::move(opened));  // the TensorInfo pointers of the factors move with it
  }();
  BOOST_TEST(adapter.config().r == 2);
  BOOST_TEST(adapter.tensors().tensors().size() == 4U);
  BOOST_REQUIRE(adapter.factors().size() == 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const PeftFactors& factors = adapter.factors()[i];
    BOOST_TEST(made.modules[factors.module].path == "transformer.h." + std::to_string(i) + ".attn.c_attn");
    BOOST_TEST(factors.rank == 2);
    BOOST_TEST(factors.scale == 2.0);
    BOOST_CHECK(factors.type == FactorType::float32);
    const auto read = [&](const TensorInfo& tensor) {
      std::vector<std::byte> bytes(PeftAdapter::bytes_of(tensor));
      adapter.read(tensor, bytes);
      return bytes;
    };
    const std::string layer = std::to_string(i);
    BOOST_CHECK(read(*factors.a) == made.file.tensors.at(Adapter::name(layer, 'A')).bytes);
    BOOST_CHECK(read(*factors.b) == made.file.tensors.at(Adapter::name(layer, 'B')).bytes);
    std::vector<std::byte> row(8);
    adapter.read(*factors.b, 16, row);
    BOOST_CHECK(std::equal(row.begin(), row.end(), read(*factors.b).begin() + 16));
  }
  std::vector<std::byte> short_of(10);
  BOOST_TEST(mentions(refusal([&] { adapter.read(*adapter.factors()[0].a, short_of); }), {"size"}));
  adapter.tensors().verify_unchanged();
}

BOOST_AUTO_TEST_CASE(factors_keep_their_types) {
  Adapter made;
  for (const auto& [layer, type] : {std::pair("0", DType::f16), {"1", DType::bf16}}) {
    made.add(Adapter::name(layer, 'A'), {2, 8}, type);
    made.add(Adapter::name(layer, 'B'), {24, 2}, type);
  }
  const PeftAdapter adapter = made.open();
  BOOST_CHECK(adapter.factors()[0].type == FactorType::float16);
  BOOST_CHECK(adapter.factors()[1].type == FactorType::bfloat16);
  read_all(adapter);
  made.add(Adapter::name("1", 'B'), {24, 2}, DType::f16);
  const PeftAdapter mixed = made.open();  // bfloat16 and float16: both are read as float32
  const PeftFactors& both = mixed.factors()[1];
  BOOST_CHECK(both.type == FactorType::float32);
  const auto floats = [&](const TensorInfo& stored) {
    std::vector<float> values(static_cast<std::size_t>(stored.shape[0] * stored.shape[1]));
    mixed.tensors().read_all(stored, values.data());
    return values;
  };
  const auto given = [](std::size_t bytes, auto read) {
    std::vector<float> values(bytes / sizeof(float));
    read(std::as_writable_bytes(std::span(values)));
    return values;
  };
  BOOST_TEST(given(both.a_bytes(), [&](auto out) { mixed.read_a(both, out); }) == floats(*both.a));
  BOOST_TEST(given(both.b_bytes(), [&](auto out) { mixed.read_b(both, out); }) == floats(*both.b));
}

BOOST_AUTO_TEST_CASE(tensors_and_targets_are_the_same_set) {
  for (const char factor : {'A', 'B'}) {
    Adapter made;
    made.file.tensors.erase(Adapter::name("1", factor));
    BOOST_TEST(mentions(made.refused(Adapter::name("1", factor)), {"missing", "adapter_config.json"}));
  }
  const std::string stem = "base_model.model.transformer.h.0.";
  for (const std::string name :
       {"base_model.model.transformer.evil", "base_model.model.transformer.h.7.attn.c_attn.lora_A.weight",
        "base_model.model.transformer.h.00.attn.c_attn.lora_A.weight",
        "base_model.model.transformer.h.+1.attn.c_attn.lora_A.weight", "transformer.h.0.attn.c_attn.lora_A.weight",
        "base_model.model.transformer.wte.lora_embedding_A", "base_model.model.lm_head.base_layer.weight"}) {
    Adapter made;
    made.add(name, {2, 8});
    BOOST_TEST(mentions(made.refused(name), {"adapter_config.json"}));
  }
  for (const char* name :
       {"attn.c_attn.lora_A.two.words.weight", "attn.c_attn.lora_B.bias", "attn.c_attn.lora_magnitude_vector",
        "attn.c_attn.lora_A", "attn.c_attn.bias", "mlp.c_fc.lora_A.weight"}) {
    Adapter made;
    made.add(stem + name, {2, 8});
    made.refused(stem + name);
  }
  Adapter empty;
  empty.file.tensors.clear();
  empty.refused(Adapter::name("0", 'A'));
}

// report: default_in_keys
BOOST_AUTO_TEST_CASE(keys_may_hold_the_name_of_the_adapter) {
  const Adapter plain;
  const std::vector<float> first = [&] {
    std::vector<float> values(16);
    const PeftAdapter adapter = plain.open();
    adapter.read_floats(*adapter.factors()[0].a, values);
    return values;
  }();
  // Replaces `from` by `to` in every tensor name that holds it.
  const auto rename = [](Adapter& made, const std::string& from, const std::string& to) {
    std::map<std::string, TensorFile::Tensor> tensors;
    for (const auto& [name, tensor] : made.file.tensors) {
      std::string key = name;
      if (const auto at = key.find(from); at != key.npos) key.replace(at, from.size(), to);
      tensors[key] = tensor;
    }
    made.file.tensors = tensors;
  };
  for (const std::string name : {"default", "my-adapter_2", "lora_A"}) {
    Adapter made;
    rename(made, ".weight", "." + name + ".weight");
    const PeftAdapter adapter = made.open();
    BOOST_REQUIRE(adapter.factors().size() == 2U);
    std::vector<float> values(16);
    adapter.read_floats(*adapter.factors()[0].a, values);
    BOOST_TEST(values == first);
  }
  Adapter two;
  rename(two, "0.attn.c_attn.lora_A.weight", "0.attn.c_attn.lora_A.default.weight");
  BOOST_TEST(two.open().factors().size() == 2U);  // beside keys without the name
  two.add("base_model.model.transformer.h.0.attn.c_attn.lora_B.other.weight", {24, 2});
  BOOST_TEST(
      mentions(refusal([&] { two.open(); }), {"adapter_model.safetensors", "several adapters", "default", "other"}));
  Adapter twice;
  const std::string again = "base_model.model.transformer.h.0.attn.c_attn.lora_A.default.weight";
  twice.add(again, {2, 8});
  BOOST_TEST(mentions(twice.refused(again), {"too"}));
}

namespace {

// An adapter whose file may hold copies of the model's embedding and head, and the model's file.
struct Copies {
  const std::string key = "base_model.model.transformer.wte.weight", head_key = "base_model.model.lm_head.weight";
  const Scratch folder = {};
  TensorFile model = {};
  std::vector<float> values, head, widened;  // [4, 8]
  std::vector<std::uint16_t> rounded;        // values in bfloat16; `widened` is the same in float32
  Adapter made = {};

  Copies() {
    for (int i = 0; i < 4 * 8; ++i) {
      values.push_back(static_cast<float>(i) * 0.37f - 3);
      head.push_back(values.back() * 2);
      rounded.push_back(bfloat16(values.back()).bits);
      widened.push_back(float_of_bf16(rounded.back()));
    }
    made.modules.pop_back();  // the head cannot be updated
  }
  PeftBase base(bool tied, const std::string& name, DType type) {
    model.tensors.clear();
    if (type == DType::f32)
      model.add(name, type, {4, 8}, values);
    else
      model.add(name, type, {4, 8}, rounded);
    if (!tied) model.add("lm_head.weight", DType::f32, {4, 8}, head);
    model.write(folder / "model.safetensors");
    return PeftBase{.tensors = std::make_shared<const Checkpoint>(Checkpoint::open(folder.folder())),
                    .prefix = "transformer.",
                    .embedding = "transformer.wte",
                    .head = "lm_head",
                    .tied_head = tied};
  }
  PeftAdapter open(const PeftBase& own) {
    made.scratch.write("adapter_config.json", made.config);
    made.file.write(made.scratch / "adapter_model.safetensors");
    return PeftAdapter::open(made.scratch.folder(), made.modules, own);
  }
  std::string refused_for(const PeftBase& own) {
    return refusal([&] { open(own); });
  }
  std::string refused_for(bool tied, DType type) { return refused_for(base(tied, "wte.weight", type)); }
};

}  // namespace

// report: adapter_autosaved_embeddings
BOOST_AUTO_TEST_CASE(copies_of_the_model_are_passed_over) {
  Copies c;
  c.made.file.add(c.key, DType::f32, {4, 8}, c.values);
  c.made.file.add(c.head_key, DType::f32, {4, 8}, c.values);
  for (const char* name : {"wte.weight", "transformer.wte.weight"}) {
    const PeftAdapter adapter = c.open(c.base(true, name, DType::f32));
    BOOST_TEST(adapter.factors().size() == 2U);
    BOOST_TEST((std::vector<std::string>(adapter.copies().begin(), adapter.copies().end()) ==
                std::vector<std::string>{c.head_key, c.key}));
  }
  BOOST_TEST(mentions(c.refused_for(false, DType::f32), {"adapter_model.safetensors: " + c.head_key, "differs"}));
  c.made.file.add(c.head_key, DType::f32, {4, 8}, c.head);
  BOOST_TEST(c.refused_for(false, DType::f32) == "accepted");
  BOOST_TEST(mentions(c.refused_for({}), {c.head_key, "neither lora_A"}));  // no base tensors to compare with
  c.made.file.tensors.erase(c.head_key);
  c.made.file.add(c.key, DType::f32, {5, 8}, std::vector<float>(40));
  BOOST_TEST(mentions(c.refused_for(true, DType::f32), {c.key, "[4, 8]"}));  // a larger vocabulary
}

// Copies are compared by value, not by type. Values that were rounded differ.
BOOST_AUTO_TEST_CASE(copies_have_the_models_numbers_in_any_type) {
  Copies c;
  c.made.file.add(c.key, DType::f32, {4, 8}, c.values);
  BOOST_TEST(mentions(c.refused_for(true, DType::bf16), {c.key, "differs"}));
  c.made.file.add(c.key, DType::bf16, {4, 8}, c.rounded);
  BOOST_TEST(c.refused_for(true, DType::bf16) == "accepted");
  BOOST_TEST(mentions(c.refused_for(true, DType::f32), {c.key, "differs"}));
  c.made.file.add(c.key, DType::f32, {4, 8}, c.widened);
  BOOST_TEST(c.refused_for(true, DType::bf16) == "accepted");

  c.made.file.tensors.erase(c.key);
  for (const std::string wrapped : {"wte.base_layer.weight", "wte.token_adapter.base_layer.weight"}) {
    const std::string base_layer = "base_model.model.transformer." + wrapped;
    c.made.file.add(base_layer, DType::f32, {4, 8}, c.values);
    BOOST_TEST(c.refused_for(true, DType::f32) == "accepted");
    c.made.file.tensors.at(base_layer).put(31, 1e-3f);
    BOOST_TEST(mentions(c.refused_for(true, DType::f32), {wrapped, "differs"}));
    c.made.file.tensors.erase(base_layer);
  }
}

BOOST_AUTO_TEST_CASE(shapes_follow_rank_and_model) {
  const std::pair<char, std::vector<std::uint64_t>> wrong[] = {
      {'A', {2, 9}},  {'A', {3, 8}},  {'A', {8, 2}},  {'A', {16}}, {'A', {1, 2, 8}},  {'A', {}},
      {'B', {23, 2}}, {'B', {24, 3}}, {'B', {2, 24}}, {'B', {48}}, {'B', {24, 2, 1}}, {'B', {0, 2}}};
  for (const auto& [factor, shape] : wrong) {
    Adapter made;
    made.add(Adapter::name("1", factor), shape);
    BOOST_TEST(mentions(made.refused(Adapter::name("1", factor)),
                        {shape_text(shape), factor == 'A' ? "[2, 8]" : "[24, 2]", "rank r = 2"}));
  }
  Adapter rank;
  rank.config = config_text(R"("r": 4, "target_modules": ["c_attn"])");
  BOOST_TEST(mentions(rank.refused(Adapter::name("0", 'A')), {"[4, 8]", "rank r = 4"}));
  rank.config = config_text(R"("target_modules": ["c_attn"], "rank_pattern": {"1.attn.c_attn": 3})");
  BOOST_TEST(mentions(rank.refused(Adapter::name("1", 'A')), {"[3, 8]", "rank r = 3"}));
  Adapter dtype;
  dtype.file.tensors.at(Adapter::name("0", 'B')).dtype = DType::i32;
  BOOST_TEST(mentions(dtype.refused(Adapter::name("0", 'B')), {"I32", "F32"}));
}

// For each type: the values on both sides of the finite range, also at the very end of a tensor of many blocks.
BOOST_AUTO_TEST_CASE(values_are_finite) {
  const auto message = [](Adapter& made) {
    const PeftAdapter adapter = made.open();  // opening checks the layout only
    const std::string read = refusal([&] { read_all(adapter); });
    BOOST_TEST(read == refusal([&] { adapter.digest(); }));
    return read;
  };
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
    Adapter made;
    made.file.tensors.at(Adapter::name("1", 'B')).put(47, value);
    const std::string text = message(made);
    BOOST_TEST(text.starts_with("adapter_model.safetensors: " + Adapter::name("1", 'B') + ": "), text);
    BOOST_TEST(mentions(text, {"NaN", "finite"}));
  }
  for (const DType type : {DType::f16, DType::bf16})
    for (const unsigned bits :
         {0x0000u, 0x03ffu, 0x3c00u, 0x7bffu, 0x7c00u, 0x7c01u, 0x7e00u, 0x7f7fu, 0x7f80u, 0x7f81u, 0x7fffu, 0x8000u,
          0xfbffu, 0xfc00u, 0xfc01u, 0xff7fu, 0xff80u, 0xff81u, 0xffffu}) {
      const auto half = static_cast<std::uint16_t>(bits);
      const float value = type == DType::f16 ? float_of_f16(half) : float_of_bf16(half);
      Adapter made;
      made.add(Adapter::name("0", 'A'), {2, 8}, type);
      made.add(Adapter::name("0", 'B'), {24, 2}, type);
      made.file.tensors.at(Adapter::name("0", 'A')).put(5, half);
      if (std::isfinite(value))
        read_all(made.open());
      else
        BOOST_TEST(mentions(message(made), {Adapter::name("0", 'A'), "finite"}), bits);
    }
  Adapter large;
  large.modules = {{"x", 300, 1000}};
  large.config = config_text(R"("r": 300, "target_modules": ["x"])");
  large.file.tensors.clear();
  large.add("base_model.model.x.lora_A.weight", {300, 300});
  large.add("base_model.model.x.lora_B.weight", {1000, 300});
  read_all(large.open());
  large.file.tensors.at("base_model.model.x.lora_B.weight").put(299'999, std::numeric_limits<float>::infinity());
  BOOST_TEST(mentions(message(large), {"x.lora_B.weight", "finite"}));
}

BOOST_AUTO_TEST_CASE(files_that_are_missing_are_named) {
  const Adapter made;
  const auto open = [&] { PeftAdapter::open(made.scratch.folder(), made.modules); };
  BOOST_TEST(mentions(refusal(open), {"adapter_config.json", "not exist"}));
  made.scratch.write("adapter_config.json", made.config);
  BOOST_TEST(refusal(open).starts_with("adapter_model.safetensors: "));
  made.scratch.write("adapter_model.bin", "pickle");
  BOOST_TEST(mentions(refusal(open), {"adapter_model.safetensors", "adapter_model.bin", "pickle"}));
  // The config is checked before tensors are looked for.
  made.scratch.write("adapter_config.json", config_text(R"("r": 1048576, "target_modules": ["c_attn"])"));
  BOOST_TEST(refusal(open).starts_with("adapter_config.json: r: "));
}

BOOST_AUTO_TEST_CASE(shards_are_read) {
  Adapter made;
  TensorFile first, second;
  std::string map;
  for (const auto& [name, tensor] : made.file.tensors) {
    const bool late = name.find("h.1") != name.npos;
    (late ? second : first).tensors[name] = tensor;
    map += (map.empty() ? "\"" : ", \"") + name + "\": \"" + (late ? "b" : "a") + ".safetensors\"";
  }
  const std::string digest = made.open().digest();
  std::filesystem::remove(made.scratch / "adapter_model.safetensors");
  first.write(made.scratch / "a.safetensors");
  second.write(made.scratch / "b.safetensors");
  made.scratch.write("adapter_model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
  const PeftAdapter adapter = PeftAdapter::open(made.scratch.folder(), made.modules);
  BOOST_TEST(adapter.tensors().shards() == 2U);
  read_all(adapter);
  BOOST_TEST(adapter.digest() == digest);
}

// Changes that affect the outputs change the digest. Other changes do not.
BOOST_AUTO_TEST_CASE(the_digest_names_the_outputs) {
  const Adapter plain;
  const std::string digest = plain.open().digest();
  BOOST_TEST(digest.size() == 7U + 64U);
  BOOST_TEST(digest.starts_with("sha256:"));
  // Expected: Python's hashlib. Digests must be the same in all builds.
  BOOST_TEST(digest == "sha256:83e0aee7e591b08536836d0945ce0d52aaff004113b852708c09cacee8b584e0");

  const auto changed = [](auto change) {
    Adapter made;
    change(made);
    return made.open().digest();
  };
  const auto config = [&](const std::string& fields) {
    return changed([&](Adapter& made) { made.config = config_text(fields + R"(, "target_modules": ["c_attn"])"); });
  };
  BOOST_TEST(config(R"("lora_dropout": 0.5, "task_type": null)") == digest);
  BOOST_TEST(config(R"("lora_alpha": 4.0)") == digest);
  BOOST_TEST(config(R"("rank_pattern": {"c_attn": 2}, "r": 1, "exclude_modules": ["c_fc"])") == digest);
  BOOST_TEST(changed([](Adapter& made) { made.file.metadata["format"] = "pt"; }) == digest);

  std::set<std::string> digests = {digest};
  const auto differs = [&](const std::string& other) { BOOST_TEST(digests.insert(other).second); };
  differs(config(R"("lora_alpha": 5)"));
  differs(config(R"("use_rslora": true)"));
  differs(config(R"("alpha_pattern": {"1.attn.c_attn": 5})"));
  for (const char* layer : {"0", "1"})
    for (const char factor : {'A', 'B'})
      differs(changed([&](Adapter& made) {
        auto& bytes = made.file.tensors.at(Adapter::name(layer, factor)).bytes;
        bytes.front() ^= std::byte{1};
      }));
  differs(changed([](Adapter& made) {  // one layer fewer
    made.config = config_text(R"("target_modules": ["0.attn.c_attn"])");
    for (const char factor : {'A', 'B'}) made.file.tensors.erase(Adapter::name("1", factor));
  }));
  differs(changed([](Adapter& made) {  // the same values in the other layers
    for (const char factor : {'A', 'B'})
      std::swap(made.file.tensors.at(Adapter::name("0", factor)), made.file.tensors.at(Adapter::name("1", factor)));
  }));
  for (const DType type : {DType::f16, DType::bf16})  // the same bytes as another type
    differs(changed([&](Adapter& made) {
      for (const char* layer : {"0", "1"}) {
        made.add(Adapter::name(layer, 'A'), {2, 8}, type);
        made.add(Adapter::name(layer, 'B'), {24, 2}, type);
      }
    }));
}

// Adapters of the shared folder, if it exists beside the repository.
BOOST_AUTO_TEST_CASE(golden_adapters_are_read) {
  if (!std::filesystem::exists(kShared / "golden/gpt2/adapters")) {
    BOOST_TEST_MESSAGE("skipped: no reference data in ../shared");
    return;
  }
  const std::vector<PeftModule> gpt2 = gpt2_modules({0, 1, 2}, 64, 515),
                                tales = gpt2_modules({0, 1, 2, 3, 4, 5}, 256, 4096);
  std::vector<PeftModule> bigcode = gpt2, llama;
  for (PeftModule& each : bigcode)
    if (each.path.ends_with("c_attn")) each.outputs = 96;
  for (const char* layer : {"0", "1", "2"}) {
    const std::string stem = "model.layers." + std::string(layer);
    for (const auto& [name, inputs, outputs] : {std::tuple("self_attn.q_proj", 64, 64),
                                                {"self_attn.k_proj", 64, 32},
                                                {"self_attn.v_proj", 64, 32},
                                                {"self_attn.o_proj", 64, 64},
                                                {"mlp.gate_proj", 64, 176},
                                                {"mlp.up_proj", 64, 176},
                                                {"mlp.down_proj", 176, 64}})
      llama.push_back({stem + "." + name, inputs, outputs});
  }
  struct Case {
    const char* folder;
    const std::vector<PeftModule>& modules;
    std::size_t factors;
    double scale;  // of the first factor
  };
  const Case cases[] = {
      {"golden/gpt2/adapters/r4_attn", gpt2, 3, 2.0},         {"golden/gpt2/adapters/r8_all", gpt2, 12, 2.0},
      {"golden/gpt2/adapters/r16_rslora_mlp", gpt2, 6, 1.0},  {"golden/gpt2/adapters/mixed_ranks", gpt2, 6, 2.0},
      {"golden/gptbigcode_mqa/adapters/r8", bigcode, 9, 2.0}, {"golden/llama_gqa/adapters/r8", llama, 21, 2.0},
      {"models/tales/adapters/characters", tales, 12, 4.0},   {"models/tales/adapters/shakespeare", tales, 24, 2.0},
      {"models/tales/adapters/weather", tales, 18, 2.0}};
  std::set<std::string> digests;
  for (const Case& each : cases) {
    BOOST_TEST_CONTEXT(each.folder) {
      const PeftAdapter adapter = PeftAdapter::open(kShared / each.folder, each.modules);
      BOOST_TEST(adapter.factors().size() == each.factors);
      BOOST_TEST(adapter.factors()[0].scale == each.scale);
      read_all(adapter);
      BOOST_TEST(digests.insert(adapter.digest()).second);
    }
  }
  const PeftAdapter mixed = PeftAdapter::open(kShared / "golden/gpt2/adapters/mixed_ranks", gpt2);
  BOOST_TEST(mixed.factors()[1].rank == 12);
  BOOST_TEST(mixed.factors()[1].scale == 6.0 / 12);
}

// Each group's malformed adapter is refused with the words that cases.json requires.
BOOST_AUTO_TEST_CASE(malformed_adapters_are_refused) {
  const auto folder = kShared / "malformed/dev";
  if (!std::filesystem::exists(folder / "cases.json")) {
    BOOST_TEST_MESSAGE("skipped: no reference data in ../shared");
    return;
  }
  const auto modules = gpt2_modules({0, 1}, 8, 260);
  int seen = 0;
  const Json cases = read_json_file(folder / "cases.json", 1 << 20);
  for (const auto& each : cases.at("cases")) {
    const auto id = each.at("id").get<std::string>();
    if (!id.starts_with("ad_") && id != "ok_adapter") continue;
    if (id == "ad_bias_all") continue;  // no error: its file has no biases, so PEFT leaves the model's
    ++seen;
    const std::string message = refusal([&] { read_all(PeftAdapter::open(folder / id / "adapters/a1", modules)); });
    if (id == "ok_adapter") {
      BOOST_TEST(message == "accepted");
      continue;
    }
    for (const auto& group : each.at("mentions")) {
      bool found = false;
      for (const auto& word : group) found = found || mentions(message, {word.get<std::string>()});
      BOOST_TEST(found, id << ": " << message << " does not say one of " << group.dump());
    }
  }
  BOOST_TEST(seen > 10);
}

BOOST_AUTO_TEST_SUITE_END()
