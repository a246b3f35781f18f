#include "tenon/checkpoint/peft_config.h"

#include <boost/test/unit_test.hpp>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../io/scratch.h"

BOOST_AUTO_TEST_SUITE(checkpoint_peft_config)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

namespace {

using Changes = std::map<std::string, std::string>;  // field to JSON; an empty text removes the field

std::string text(const Changes& changes) {
  Changes all = {{"peft_type", "\"LORA\""}, {"r", "2"}, {"lora_alpha", "4"}, {"target_modules", "[\"c_attn\"]"}};
  for (const auto& [field, value] : changes) all[field] = value;
  std::string out;
  for (const auto& [field, value] : all)
    if (!value.empty()) out += (out.empty() ? "{\"" : ", \"") + field + "\": " + value;
  return out + "}";
}

PeftConfig parse(const Changes& changes) { return parse_peft_config(text(changes)); }

// The error for one field with one value, checked to name file and field.
std::string refused(const std::string& field, const std::string& value) {
  const std::string message = refusal([&] { parse({{field, value}}); });
  BOOST_TEST(message.starts_with("adapter_config.json: " + field), field << " " << value << ": " << message);
  return message;
}

template <class Act>
Error::Kind kind(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return error.kind();
  }
  return Error::Kind::internal;
}

using Names = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_CASE(a_plain_config_is_read) {
  const PeftConfig config = parse({});
  BOOST_TEST(config.r == 2);
  BOOST_TEST(config.alpha == 4.0);
  BOOST_TEST(!config.rslora);
  BOOST_TEST(!config.all_linear);
  BOOST_TEST(config.target_modules == Names{"c_attn"});
  BOOST_TEST(config.rank_pattern.empty());
  BOOST_TEST(config.alpha_pattern.empty());
  BOOST_TEST(config.exclude_modules.empty());
  BOOST_TEST(config.layers_to_transform.empty());
  BOOST_TEST(config.layers_pattern.empty());
  BOOST_TEST(!config.tied_to_embedding);
  BOOST_TEST(config.inert.empty());
}

BOOST_AUTO_TEST_CASE(every_field_is_read) {
  const PeftConfig config = parse({{"lora_alpha", "1.5"},
                                   {"use_rslora", "true"},
                                   {"rank_pattern", R"({"z_proj": 8, "a.0.b-c": 1})"},
                                   {"alpha_pattern", R"({"y": 0, "x": -2.5, "b": 3})"},
                                   {"target_modules", R"(["c_fc", "h.1.c_attn"])"},
                                   {"exclude_modules", R"(["c_proj"])"},
                                   {"layers_to_transform", "[1, 0]"},
                                   {"layers_pattern", R"(["h", "model.layers"])"},
                                   {"ensure_weight_tying", "true"}});
  BOOST_TEST(config.alpha == 1.5);
  BOOST_TEST(config.rslora);
  BOOST_TEST(config.target_modules == (Names{"c_fc", "h.1.c_attn"}));
  BOOST_TEST(config.exclude_modules == Names{"c_proj"});
  BOOST_TEST(config.layers_to_transform == (std::vector<int>{1, 0}));
  BOOST_TEST(config.layers_pattern == (Names{"h", "model.layers"}));
  BOOST_TEST(config.tied_to_embedding);
  // In the file's order, which decides between several matching keys.
  BOOST_TEST((config.rank_pattern == PeftConfig::Pattern<int>{{"z_proj", 8}, {"a.0.b-c", 1}}));
  BOOST_TEST((config.alpha_pattern == PeftConfig::Pattern<double>{{"y", 0.0}, {"x", -2.5}, {"b", 3.0}}));
}

BOOST_AUTO_TEST_CASE(other_forms_of_the_same) {
  for (const std::string name : {"all-linear", "All-Linear"}) {
    const PeftConfig config = parse({{"target_modules", "\"" + name + "\""}});
    BOOST_TEST(config.all_linear);
    BOOST_TEST(config.target_modules.empty());
  }
  BOOST_TEST(parse({{"layers_to_transform", "3"}}).layers_to_transform == std::vector<int>{3});
  BOOST_TEST(parse({{"layers_to_transform", "3"}, {"layers_pattern", "\"h\""}}).layers_pattern == Names{"h"});
  for (const char* nothing : {"null", "[]", "\"\""}) {
    BOOST_TEST(parse({{"exclude_modules", nothing}}).exclude_modules.empty());
    BOOST_TEST(parse({{"layers_pattern", nothing}}).layers_pattern.empty());
  }
  for (const char* nothing : {"null", "{}"}) {
    BOOST_TEST(parse({{"rank_pattern", nothing}}).rank_pattern.empty());
    BOOST_TEST(parse({{"alpha_pattern", nothing}}).alpha_pattern.empty());
  }
  BOOST_TEST(parse({{"layers_to_transform", "[]"}}).layers_to_transform.empty());
}

BOOST_AUTO_TEST_CASE(other_methods_are_refused) {
  for (const char* type : {"\"PREFIX_TUNING\"", "\"LOHA\"", "\"XLORA\"", "\"lora\""})
    BOOST_TEST(mentions(refused("peft_type", type), {"not supported", "LORA"}));
  BOOST_TEST(mentions(refused("peft_type", "null"), {"string"}));
  BOOST_TEST(mentions(refused("peft_type", ""), {"missing"}));
  for (const char* type :
       {"\"TOKEN_CLS\"", "\"QUESTION_ANS\"", "\"SEQ_2_SEQ_LM\"", "\"seq_cls\"", "\"causal\"", "\"\""})
    BOOST_TEST(mentions(refused("task_type", type), {"not supported", "CAUSAL_LM"}));
  for (const char* bias : {"\"some\"", "true"}) BOOST_TEST(mentions(refused("bias", bias), {"bias"}));
  for (const char* bias : {"\"all\"", "\"lora_only\""}) BOOST_TEST(parse({{"bias", bias}}).r == 2);
  BOOST_TEST(parse({{"bias", "\"none\""}, {"task_type", "\"CAUSAL_LM\""}}).r == 2);
}

BOOST_AUTO_TEST_CASE(tasks) {
  const auto task = [](const char* value) { return parse({{"task_type", value}}).task; };
  BOOST_CHECK(task("null") == AdapterTask::text);
  BOOST_CHECK(task("\"CAUSAL_LM\"") == AdapterTask::text);
  BOOST_CHECK(task("\"SEQ_CLS\"") == AdapterTask::classify);
  BOOST_CHECK(task("\"FEATURE_EXTRACTION\"") == AdapterTask::embed);
}

// Each feature is off with its one empty value, if any. Other empty values such as {} give a configuration of defaults
// in PEFT, which turns the feature on.
BOOST_AUTO_TEST_CASE(variants_that_change_the_outputs_are_refused) {
  const std::pair<const char*, const char*> features[] = {
      {"use_qalora", ""},          {"use_bdlora", ""},    {"target_parameters", "[]"},
      {"layer_replication", "[]"}, {"arrow_config", ""},  {"kasa_config", ""},
      {"monteclora_config", ""},   {"velora_config", ""}, {"megatron_config", "{}"}};
  for (const auto& [field, empty] : features) {
    for (const std::string off : {"null", "false"}) BOOST_TEST(parse({{field, off}}).inert.empty(), field);
    for (const std::string value : {"[]", "{}", "true", "1", "0", "\"\"", "[1]", "{\"a\": 1}"}) {
      if (value == empty) {
        BOOST_TEST(parse({{field, value}}).inert.empty(), field);
      } else {
        BOOST_TEST(mentions(refused(field, value), {"not supported"}), field << value);
        BOOST_CHECK(kind([&] { parse({{field, value}}); }) == Error::Kind::unsupported);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_more_than_factors_is_read) {
  for (const char* field : {"use_dora", "lora_bias"}) {
    for (const char* off : {"null", "false"})
      BOOST_TEST((!parse({{field, off}}).dora && !parse({{field, off}}).lora_bias));
    for (const char* value : {"1", "\"\"", "[]", "{}"}) BOOST_TEST(mentions(refused(field, value), {field}), value);
  }
  BOOST_TEST(parse({{"use_dora", "true"}}).dora);
  BOOST_TEST(parse({{"lora_bias", "true"}}).lora_bias);
  BOOST_TEST(parse({{"modules_to_save", "[\"norm\"]"}}).modules_to_save == Names{"norm"});
  for (const char* none : {"null", "[]"}) BOOST_TEST(parse({{"modules_to_save", none}}).modules_to_save.empty());
}

BOOST_AUTO_TEST_CASE(initial_values_that_leave_the_base_are_inert) {
  for (const char* kind : {"true", "false", "\"gaussian\"", "\"orthogonal\"", "\"eva\"", "\"mica\""})
    BOOST_TEST(parse({{"init_lora_weights", kind}}).inert == Names{"init_lora_weights"}, kind);
  BOOST_TEST(parse({{"init_lora_weights", "null"}}).inert.empty());
  for (const char* kind : {"\"pissa\"", "\"pissa_niter_16\"", "\"olora\"", "\"OLoRA\"", "\"corda\"", "\"loftq\"",
                           "\"lora_ga\"", "\"unheard-of\"", "\"\""})
    BOOST_TEST(mentions(refused("init_lora_weights", kind), {"not supported"}), kind);
  for (const char* kind : {"1", "[]", "{}"}) BOOST_TEST(mentions(refused("init_lora_weights", kind), {"string"}), kind);
}

BOOST_AUTO_TEST_CASE(fields_without_effect_are_listed) {
  const Changes inert = {{"auto_mapping", "{\"base_model_class\": \"GPT2LMHeadModel\"}"},
                         {"base_model_name_or_path", "\"gpt2\""},
                         {"revision", "\"main\""},
                         {"peft_version", "\"0.21.2\""},
                         {"lora_dropout", "0.5"},
                         {"inference_mode", "true"},
                         {"init_lora_weights", "true"},
                         {"eva_config", "{\"rho\": 2.0}"},
                         {"corda_config", "{}"},
                         {"lora_ga_config", "{\"scale\": \"unit\"}"},
                         {"megatron_core", "\"megatron.core\""},
                         {"fan_in_fan_out", "true"},
                         {"qalora_group_size", "16"},
                         {"runtime_config", "{\"ephemeral_gpu_offload\": true}"},
                         {"ensure_weight_tying", "false"}};
  Names names;
  for (const auto& [field, value] : inert) {
    names.push_back(field);
    BOOST_TEST(parse({{field, value}}).inert == Names{field}, field);
    BOOST_TEST(parse({{field, "null"}}).inert.empty(), field);
  }
  BOOST_TEST(parse(inert).inert == names);
}

// PEFT warns and ignores a field that its LoraConfig does not have.
// report: adapter_unknown_inert_field
BOOST_AUTO_TEST_CASE(unknown_fields_are_ignored_and_listed) {
  for (const char* value :
       {"null", "false", "[]", "true", "0", "1e-06", "\"\"", "\"x\"", "[0]", "{}", "{\"a\": null}"}) {
    const PeftConfig config = parse({{"use_magic", value}});
    BOOST_TEST(config.unknown == Names{"use_magic"}, value);
    BOOST_TEST(config.inert.empty(), value);
  }
  const PeftConfig config = parse({{"lora_dtype", "null"}, {"lorap_emb_lr", "1e-06"}, {"library_name", "\"peft\""}});
  BOOST_TEST(config.unknown == (Names{"library_name", "lora_dtype", "lorap_emb_lr"}));
}

// PEFT drops loftq_config unless init_lora_weights is "loftq".
BOOST_AUTO_TEST_CASE(loftq_config_counts_with_its_initialisation_only) {
  for (const char* off : {"null", "false", "{}"}) BOOST_TEST(parse({{"loftq_config", off}}).inert.empty(), off);
  BOOST_TEST(parse({{"loftq_config", "{\"loftq_bits\": 4}"}}).inert == Names{"loftq_config"});
  BOOST_TEST((parse({{"loftq_config", "{\"loftq_bits\": 4}"}, {"init_lora_weights", "true"}}).inert ==
              Names{"init_lora_weights", "loftq_config"}));
  for (const char* value : {"[]", "true", "1", "\"\"", "[1]"})
    BOOST_TEST(mentions(refused("loftq_config", value), {"not supported"}));
  BOOST_TEST(mentions(refusal([] {
                        parse({{"loftq_config", "{\"loftq_bits\": 4}"}, {"init_lora_weights", "\"loftq\""}});
                      }),
                      {"loft"}));
}

BOOST_AUTO_TEST_CASE(ranks_and_alphas_are_numbers) {
  for (const char* value :
       {"0", "-1", "2.0", "\"2\"", "true", "null", "[2]", "2147483648", "18446744073709551616", ""}) {
    const std::string message = refused("r", value);
    if (*value != '\0') BOOST_TEST(mentions(message, {"rank", "integer of at least 1"}), message);
    if (*value != '\0')
      BOOST_TEST(mentions(refusal([&] {
                            parse({{"rank_pattern", "{\"c_fc\": " + std::string(value) + "}"}});
                          }),
                          {"adapter_config.json: rank_pattern.c_fc", "rank"}),
                 value);
  }
  BOOST_TEST(parse({{"r", "2147483647"}}).r == std::numeric_limits<int>::max());
  for (const char* value : {"\"4\"", "true", "null", "[4]", "1e999", ""}) {
    const std::string message = refusal([&] { parse({{"lora_alpha", value}}); });
    BOOST_TEST(mentions(message, {"adapter_config.json"}), message);
    if (std::string(value) != "1e999") BOOST_TEST(message.starts_with("adapter_config.json: lora_alpha"), message);
  }
  BOOST_TEST(mentions(refusal([&] {
                        parse({{"alpha_pattern", "{\"c_fc\": \"1\"}"}});
                      }),
                      {"adapter_config.json: alpha_pattern.c_fc", "number"}));
  for (const char* value : {"1", "\"yes\"", "[]"})
    BOOST_TEST(mentions(refused("use_rslora", value), {"true or false"}));
  for (const char* field : {"rank_pattern", "alpha_pattern"})
    for (const char* value : {"[]", "3", "\"c_fc\"", "false"}) BOOST_TEST(mentions(refused(field, value), {"object"}));
}

BOOST_AUTO_TEST_CASE(keys_of_patterns_are_names_or_regular_expressions) {
  for (const char* key : {"c_fc",  "mlp.c_fc", "transformer.h.11.mlp.c_fc",
                          "0",     "a-b",      "A_9.z",
                          "",      ".",        ".c_fc",
                          "c_fc.", "h..c_fc",  "^h",
                          "h$",    "h.*",      "a|b",
                          "a+",    "(a)",      "[a]",
                          "a{2}",  "a?",       "a b",
                          "a/b",   "a)|(b",    "(?:a|b)"})
    BOOST_TEST(parse({{"rank_pattern", "{\"" + std::string(key) + "\": 3}"}}).rank_pattern.at(0).first == key, key);
  for (const char* key : {"(", "a)", "[a", "*a", "a**", "(?i)a", "a{2,1}", "(?P<n>a)(?P<n>b)"})
    for (const std::string field : {"rank_pattern", "alpha_pattern"}) {
      const std::string message = refused(field, "{\"" + std::string(key) + "\": 3}");
      BOOST_TEST(mentions(message, {field + ".", "no regular expression"}), message);
    }
  for (const char* key : {"(a)\\\\1", "a*+", "(?>a)", "(a)?(?(1)b|c)"})
    BOOST_TEST(mentions(refused("alpha_pattern", "{\"" + std::string(key) + "\": 3}"),
                        {"regular expression", "not supported"}),
               key);
}

BOOST_AUTO_TEST_CASE(targets_are_a_list_or_a_regular_expression) {
  for (const char* value : {"null", "{}", "3", "[]", "[3]", "[null]", "", "\"\""}) refused("target_modules", value);
  for (const char* text : {"c_attn", ".*c_attn", "all_linear", "(?i).*C_ATTN"}) {
    const PeftConfig config = parse({{"target_modules", "\"" + std::string(text) + "\""}});
    BOOST_TEST(config.target_regex == text);
    BOOST_TEST(config.target_modules.empty());
    BOOST_TEST(!config.all_linear);
  }
  for (const char* field : {"target_modules", "exclude_modules"}) {
    BOOST_TEST(mentions(refused(field, "\"(c_attn\""), {"no regular expression", "("}));
    BOOST_TEST(mentions(refused(field, "\"(c)_\\\\1\""), {"backreference", "not supported"}));
  }
  for (const std::string text : {"\"all-linear\"", "\".*c_attn\""}) {
    for (const char* field : {"layers_to_transform", "layers_pattern"})
      BOOST_TEST(mentions(refusal([&] {
                            parse({{"target_modules", text}, {field, "\"h\""}});
                          }),
                          {"adapter_config.json: " + std::string(field), "target_modules"}));
    BOOST_TEST(parse({{"target_modules", text}, {"exclude_modules", "[\"c_fc\"]"}}).exclude_modules == Names{"c_fc"});
  }
  BOOST_TEST(parse({{"exclude_modules", "\".*c_fc\""}}).exclude_regex == ".*c_fc");
  for (const char* value : {"3", "{}", "[3]", "true"}) refused("exclude_modules", value);
}

BOOST_AUTO_TEST_CASE(layers_are_numbers_behind_names_or_regular_expressions) {
  for (const char* value : {"-1", "1.0", "\"1\"", "true", "{}", "[null]", "[0, -1]", "[true]", "4294967296"})
    BOOST_TEST(mentions(refused("layers_to_transform", value), {"integer"}), value);
  BOOST_TEST(mentions(refused("layers_pattern", "\"h\""), {"layers_to_transform"}));
  const auto with_layer = [](const char* value) {
    return parse({{"layers_to_transform", "1"}, {"layers_pattern", value}});
  };
  BOOST_TEST(with_layer("\"h.*\"").layers_pattern == Names{"h.*"});
  BOOST_TEST(with_layer("[\"h\", \"(a|b)\"]").layers_pattern == (Names{"h", "(a|b)"}));
  for (const char* value : {"\"h|layers\"", "[\"(h\"]", "\"a)|(b\"", "\"(?i)h\""})
    BOOST_TEST(mentions(refusal([&] { with_layer(value); }), {"adapter_config.json: layers_pattern"}), value);
  for (const char* value : {"3", "{}", "[3]"}) refused("layers_pattern", value);
  for (const char* value : {"1", "\"x\""}) refused("ensure_weight_tying", value);
}

BOOST_AUTO_TEST_CASE(unreadable_configs_are_refused) {
  const Scratch scratch;
  const auto read = [&] { read_peft_config(scratch.folder()); };
  BOOST_TEST(mentions(refusal(read), {"adapter_config.json", "not exist"}));
  BOOST_CHECK(kind(read) == Error::Kind::io);
  BOOST_TEST(mentions(refusal([&] { read_peft_config(scratch / "nowhere"); }), {"adapter_config.json", "nowhere"}));
  for (const char* broken : {"", "[]", "null", "{\"r\": 1, \"r\": 2}", "{\"r\": 1} {}", "{\"r\": NaN}"}) {
    scratch.write("adapter_config.json", broken);
    BOOST_TEST(refusal(read).starts_with("adapter_config.json: "), broken);
    BOOST_CHECK(kind(read) == Error::Kind::invalid_file);
  }
  scratch.write("adapter_config.json", text({}) + std::string(5 << 20, ' '));
  BOOST_TEST(mentions(refusal(read), {"adapter_config.json", "limit"}));
  scratch.write("adapter_config.json", text({}));
  BOOST_TEST(read_peft_config(scratch.folder()).r == 2);
}

BOOST_AUTO_TEST_SUITE_END()
