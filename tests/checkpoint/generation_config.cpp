#include "tenon/checkpoint/generation_config.h"

#include <boost/test/unit_test.hpp>
#include <string>

#include "../io/scratch.h"

BOOST_AUTO_TEST_SUITE(checkpoint_generation_config)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

namespace {

Options defaults(const std::string& generation) {
  const Scratch scratch;
  scratch.write("config.json", "{}");
  if (!generation.empty()) scratch.write("generation_config.json", generation);
  Options options{.max_new_tokens = 7, .presence_penalty = 0.5f, .seed = 3};
  set_generation_defaults(ConfigFile(scratch.folder()), options);
  return options;
}

float warm(const std::string& generation) {
  const Scratch scratch;
  scratch.write("config.json", "{}");
  scratch.write("generation_config.json", generation);
  return drawing_temperature(ConfigFile(scratch.folder()));
}

}  // namespace

// For requests that ask for draws themselves: generate(do_sample=True) of transformers.
BOOST_AUTO_TEST_CASE(the_temperature_of_draws_does_not_need_do_sample) {
  BOOST_TEST(warm(R"({"temperature": 0.6})") == 0.6f);
  BOOST_TEST(warm(R"({"do_sample": false, "temperature": 0.6})") == 0.6f);
  BOOST_TEST(warm("{}") == 1);
  BOOST_TEST(warm(R"({"temperature": 0})") == 1);
}

// Expected: the values that GenerationConfig of transformers 4.57.1 reads from the same file.
BOOST_AUTO_TEST_CASE(options_of_sampling_are_read) {
  const Options all = defaults(R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.9, "min_p": 0.05,
      "typical_p": 0.95, "repetition_penalty": 1.1, "max_length": 4096, "eos_token_id": 2, "num_beams": 1, "cache_implementation":
      "static", "transformers_version": "4.57.1", "chat_format": "chatml", "length_penalty": 2.0})");
  BOOST_TEST((all.temperature == 0.6f && all.top_k == 20 && all.top_p == 0.9f && all.min_p == 0.05f));
  BOOST_TEST((all.typical_p == 0.95f && all.repetition_penalty == 1.1f));
  BOOST_TEST((all.max_new_tokens == 7 && all.presence_penalty == 0.5f && all.seed == 3U));  // not set by the file
  const Options few = defaults(R"({"do_sample": true, "top_p": null})");
  BOOST_TEST((few.temperature == 1 && few.top_k == 50 && few.top_p == 1 && few.min_p == 0 && few.typical_p == 1));
  for (const char* greedy : {R"({"temperature": 0.6})", R"({"do_sample": false, "temperature": 0.6})", "{}"})
    BOOST_TEST(defaults(greedy).temperature == 0, greedy);
}

BOOST_AUTO_TEST_CASE(unsupported_fields_are_refused_by_name) {
  for (const char* field :
       {"num_beams", "num_beam_groups", "num_return_sequences", "min_length", "min_new_tokens", "no_repeat_ngram_size",
        "encoder_repetition_penalty", "guidance_scale", "penalty_alpha", "bad_words_ids", "forced_bos_token_id",
        "suppress_tokens", "begin_suppress_tokens", "sequence_bias", "watermarking_config", "stop_strings"}) {
    const std::string key = std::string("{\"") + field + "\": ";
    for (const char* value : {"3", "0.5", "\"x\"", "[3]", "{\"a\": 1}"})
      BOOST_TEST(
          mentions(refusal([&] { defaults(key + value + "}"); }), {"generation_config.json: " + std::string(field)}),
          key + value);
    BOOST_TEST(refusal([&] { defaults(key + "null}"); }) == "accepted");
  }
  for (const char* neutral :
       {R"({"num_beams": 1, "guidance_scale": 1.0, "no_repeat_ngram_size": 0, "epsilon_cutoff": 0.0})",
        R"({"token_healing": false, "bad_words_ids": [], "penalty_alpha": 0})"})
    BOOST_TEST(refusal([&] { defaults(neutral); }) == "accepted", neutral);
  BOOST_TEST(mentions(refusal([] { defaults(R"({"token_healing": true})"); }), {"token_healing"}));
  // Without do_sample, transformers builds no step for these fields.
  for (const std::string field : {"epsilon_cutoff", "eta_cutoff", "top_h"}) {
    BOOST_TEST(refusal([&] { defaults("{\"" + field + "\": 0.1}"); }) == "accepted");
    BOOST_TEST(mentions(refusal([&] { defaults("{\"do_sample\": true, \"" + field + "\": 0.1}"); }),
                        {"generation_config.json: " + field}));
  }
  BOOST_TEST(refusal([] { defaults(R"({"diversity_penalty": 0.5})"); }) == "accepted");
}

BOOST_AUTO_TEST_CASE(values_keep_their_ranges) {
  for (const char* bad : {R"({"temperature": -1})", R"({"temperature": "1"})", R"({"top_k": 1.5})", R"({"top_k": -1})",
                          R"({"top_p": 0})", R"({"top_p": 1.5})", R"({"min_p": 2})", R"({"typical_p": 0})",
                          R"({"repetition_penalty": 0})", R"({"do_sample": 1})"})
    BOOST_TEST(refusal([&] { defaults(bad); }).starts_with("generation_config.json: "), bad);
  BOOST_TEST(mentions(refusal([] { defaults(""); }), {"generation_config.json", "does not exist"}));
}

BOOST_AUTO_TEST_SUITE_END()
