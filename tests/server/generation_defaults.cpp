// Defaults of generation_config.json under each API: what a request leaves out, and nothing else.
#include "serve/api/generation_defaults.h"

#include <boost/test/unit_test.hpp>
#include <string>

#include "serve/api/lorax/lorax_request.h"
#include "serve/api/openai/openai_request.h"

BOOST_AUTO_TEST_SUITE(server_generation_defaults)

using namespace serve;

namespace {

RequestContext plain() {
  return {.limits = {.max_input_tokens = 768, .max_total_tokens = 1024}, .base_names = {"base"}};
}
RequestContext context(float temperature) {
  RequestContext all = plain();
  all.limits.generation = tenon::Options{.temperature = temperature,
                                         .top_k = 20,
                                         .top_p = 0.8f,
                                         .min_p = 0.1f,
                                         .typical_p = 0.9f,
                                         .repetition_penalty = 1.1f};
  all.limits.drawing_temperature = 0.6f;
  return all;
}
tenon::Options openai(const std::string& fields, const RequestContext& all) {
  return parse_completion(R"({"prompt": "hi")" + fields + "}", all).options;
}
GenerateRequest lorax(const std::string& parameters, const RequestContext& all) {
  return parse_generate(R"({"inputs": "hi", "parameters": {)" + parameters + "}}", all, Streaming::as_asked);
}

}  // namespace

BOOST_AUTO_TEST_CASE(fields_that_a_request_leaves_out) {
  for (const tenon::Options& o : {openai("", context(0.6f)), openai(R"(, "temperature": null)", context(0.6f)),
                                  lorax("", context(0.6f)).options}) {
    BOOST_TEST((o.temperature == 0.6f && o.top_k == 20 && o.top_p == 0.8f && o.min_p == 0.1f && o.typical_p == 0.9f));
    BOOST_TEST(o.repetition_penalty == 1.1f);
  }
  BOOST_TEST(lorax("", context(0.6f)).sampling);
  const tenon::Options own =
      openai(R"(, "temperature": 2, "top_k": -1, "top_p": 1, "repetition_penalty": 1)", context(0.6f));
  BOOST_TEST((own.temperature == 2 && own.top_k == 0 && own.top_p == 1 && own.repetition_penalty == 1));
  BOOST_TEST((own.min_p == 0.1f && own.typical_p == 0.9f));
  BOOST_TEST((openai("", plain()).temperature == 1 && openai("", plain()).top_k == 0));
}

BOOST_AUTO_TEST_CASE(do_sample_decides) {
  BOOST_TEST(lorax(R"("do_sample": false)", context(0.6f)).options.temperature == 0);
  BOOST_TEST(!lorax(R"("do_sample": false)", context(0.6f)).sampling);
  BOOST_TEST(lorax(R"("do_sample": true)", context(0.6f)).options.temperature == 0.6f);
  BOOST_TEST(lorax(R"("do_sample": true)", context(0)).options.temperature == 0.6f);  // a file without do_sample
  BOOST_TEST(!lorax("", context(0)).sampling);
  BOOST_TEST(lorax(R"("temperature": 0.5)", context(0)).options.temperature == 0.5f);
}

BOOST_AUTO_TEST_SUITE_END()
