// The text that a signature of a receipt signs.
#include <boost/test/unit_test.hpp>
#include <functional>
#include <set>
#include <string>

#include "tenon/core/error.h"
#include "tenon/engine/receipt.h"
#include "tenon/io/json.h"

BOOST_AUTO_TEST_SUITE(engine_receipt_signature)

using namespace tenon;

namespace {

Receipt small_receipt() {
  Receipt r;
  r.library = "0.1.0";
  r.fingerprint = "ab";
  r.prompt_ids = {5, 6};
  r.options = {.max_new_tokens = 2, .temperature = 0.8f, .seed = 18446744073709551615U, .stop = {"\u00e9\n"}};
  r.options.logit_bias = {{3, -1.5f}};
  r.adapters = {{"weather", "cd", 0.5f}};
  r.constraint = {"regex", "a\"b"};
  r.ids = {7};
  r.reason = FinishReason::stop;
  r.links = {0x01020304};
  r.key = "0123456789abcdef";
  r.signature = std::string(128, '0');
  return r;
}

}  // namespace

// Other programs write these bytes from the JSON of a receipt, so their form is fixed.
BOOST_AUTO_TEST_CASE(signed_text_is_canonical_json) {
  const std::string zeros(64, '0');
  const std::string expected =
      "tenon receipt\n"
      "{\"adapters\":[{\"digest\":\"cd\",\"name\":\"weather\",\"weight\":0.5}],"
      "\"constraint\":{\"digest\":\"" +
      Sha256().update("a\"b").hex() +
      "\",\"kind\":\"regex\",\"text\":\"a\\\"b\"},"
      "\"digest\":\"" +
      zeros +
      "\",\"fingerprint\":\"ab\",\"finish_reason\":\"stop\",\"format\":1,\"ids\":[7],\"key\":\"0123456789abcdef\","
      "\"library\":\"0.1.0\",\"links\":\"01020304\","
      "\"parameters\":{\"finish_within_budget\":false,\"frequency_penalty\":0.0,\"ignore_eos\":false,"
      "\"logit_bias\":[[3,-1.5]],\"max_new_tokens\":2,\"min_new_tokens\":0,\"min_p\":0.0,\"presence_penalty\":0.0,"
      "\"repetition_penalty\":1.0,\"seed\":18446744073709551615,\"skip_special_tokens\":false,"
      "\"stop\":[\"\u00e9\\n\"],\"stop_ids\":[],\"temperature\":0.8,\"top_k\":0,\"top_p\":1.0,\"typical_p\":1.0},"
      "\"prompt_ids\":[5,6],\"request_digest\":\"" +
      zeros + "\"}";
  BOOST_TEST(signed_text(small_receipt()) == expected);
}

BOOST_AUTO_TEST_CASE(every_field_but_the_signature_is_signed) {
  const std::string text = signed_text(small_receipt());
  const std::function<void(Receipt&)> changes[] = {
      [](Receipt& r) { r.library = "0.1.1"; },
      [](Receipt& r) { r.fingerprint = "ac"; },
      [](Receipt& r) { r.prompt_ids[1] = 7; },
      [](Receipt& r) { r.options.seed = 1; },
      [](Receipt& r) { r.options.temperature = 0.7f; },
      [](Receipt& r) { r.options.stop.clear(); },
      [](Receipt& r) { r.adapters[0].name = "other"; },
      [](Receipt& r) { r.adapters[0].digest = "ce"; },
      [](Receipt& r) { r.constraint.text = "a"; },
      [](Receipt& r) { r.constraint = {}; },
      [](Receipt& r) { r.ids[0] = 8; },
      [](Receipt& r) { r.reason = FinishReason::length; },
      [](Receipt& r) { r.request_digest[31] = 1; },
      [](Receipt& r) { r.links[0] = 1; },
      [](Receipt& r) { r.digest[0] = 1; },
      [](Receipt& r) { r.key = "1123456789abcdef"; },
  };
  std::set<std::string> texts{text};
  for (const auto& change : changes) {
    Receipt other = small_receipt();
    change(other);
    texts.insert(signed_text(other));
  }
  BOOST_TEST(texts.size() == std::size(changes) + 1);
  Receipt other = small_receipt();
  other.signature = std::string(128, '1');
  BOOST_TEST(signed_text(other) == text);
}

BOOST_AUTO_TEST_CASE(signatures_read_back) {
  Json json = to_json(small_receipt());
  const Receipt back = receipt_from(json);
  BOOST_TEST(back.key == small_receipt().key);
  BOOST_TEST(back.signature == small_receipt().signature);
  BOOST_TEST(signed_text(back) == signed_text(small_receipt()));

  const auto refused = [&](auto&& change, const std::string& field) {
    Json other = json;
    change(other);
    BOOST_CHECK_EXCEPTION(receipt_from(other), Error, [&](const Error& error) {
      BOOST_TEST(error.where() == "receipt: " + field, error.what());
      return true;
    });
  };
  refused([](Json& r) { r.erase("key"); }, "key");
  refused([](Json& r) { r["key"] = ""; }, "key");
  refused([](Json& r) { r.erase("signature"); }, "signature");
  refused([](Json& r) { r["signature"] = std::string(120, '0'); }, "signature");
  refused([](Json& r) { r["signature"] = std::string(128, 'A'); }, "signature");
  json.erase("key");
  json.erase("signature");
  BOOST_TEST(receipt_from(json).signature.empty());
  BOOST_TEST(to_json(receipt_from(json)).dump() == json.dump());
}

BOOST_AUTO_TEST_SUITE_END()
