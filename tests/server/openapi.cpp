#include "serve/api/openapi.h"

#include <boost/test/unit_test.hpp>
#include <set>
#include <string>

#include "serve/api/route_table.h"
#include "serve/api/routes.h"
#include "serve/http/server.h"

BOOST_AUTO_TEST_SUITE(server_openapi)

using namespace serve;
using tenon::OrderedJson;

namespace {

Settings full() {
  Settings settings;
  settings.enable_adapter_admin = settings.ui = true;
  settings.receipt_key_file = "receipts.key";
  return settings;
}

// Each "$ref" leads to a schema.
void check_refs(const OrderedJson& json, const OrderedJson& schemas) {
  if (json.is_object() && json.contains("$ref")) {
    const std::string ref = json["$ref"];
    const std::string name = ref.substr(ref.rfind('/') + 1);
    BOOST_TEST(ref == "#/components/schemas/" + name);
    BOOST_TEST(schemas.contains(name), name);
  }
  if (json.is_structured())
    for (const auto& each : json) check_refs(each, schemas);
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_field_that_may_be_sent_has_a_schema) {
  for (const Field& field : field_table()) {
    if (field.kind == FieldClass::refused) continue;
    for (std::uint64_t bit = 1; bit <= field.places; bit <<= 1) {
      if (!(field.places & bit)) continue;
      const auto place = static_cast<Place>(bit);
      BOOST_TEST(!schema_name(place).empty(), "place " << bit << " has no row in kPlaces of openapi.cpp");
      const std::string schema(schema_of(field, place));
      BOOST_TEST(OrderedJson::accept(schema),
                 field.name << " in " << schema_name(place) << " has no row in kSchemas of openapi.cpp");
    }
  }
}

BOOST_AUTO_TEST_CASE(handlers_and_rows_are_the_same_routes) {
  LogWriter writer(2);
  RequestLog log(writer, false);
  Serving serving(Settings(), ApiKeys(), log);  // no file of a key is read
  HttpServer http;
  add_routes(http, serving, full());
  std::set<std::string> rows, handlers;
  for (const Route& row : route_table())
    rows.insert(std::string(row.method) + " " + std::string(row.path) + (row.roles == 0 ? " open" : ""));
  for (const HttpRoutes::Route& each : http.routes())
    handlers.insert(each.method + " " + each.path + (each.open ? " open" : ""));
  BOOST_TEST(rows == handlers, boost::test_tools::per_element());
  BOOST_CHECK_THROW(find_route("GET", "/generate"), std::logic_error);
}

BOOST_AUTO_TEST_CASE(it_describes_what_is_offered) {
  const OrderedJson all = openapi(full(), true);
  BOOST_TEST(all["openapi"] == "3.1.0");
  check_refs(all, all["components"]["schemas"]);
  std::set<std::string> ids;
  for (const auto& path : all["paths"])
    for (const auto& operation : path) BOOST_TEST(ids.insert(operation["operationId"]).second);
  BOOST_TEST(
      (ids.contains("get_v1_models_name") && ids.contains("post_lora_adapters") && ids.contains("get_openapi_json")));
  BOOST_TEST(all["paths"].contains("/v1/load_lora_adapter"));
  BOOST_TEST(all["paths"].contains("/v1/receipt-key"));
  BOOST_TEST(all["paths"]["/health"]["get"]["security"].empty());
  BOOST_TEST(all["paths"]["/metrics"]["get"]["security"].size() == 2u);
  BOOST_TEST(all["paths"]["/v1/models/{name}"]["get"]["parameters"][0]["in"] == "path");
  const OrderedJson& completions = all["paths"]["/v1/completions"]["post"];
  BOOST_TEST(completions["responses"]["200"]["content"].contains("text/event-stream"));
  for (const char* const status : {"400", "401", "403", "404", "413", "429", "500", "503", "504", "default"})
    BOOST_TEST(completions["responses"].contains(status), status);
  BOOST_TEST(all["paths"]["/generate"]["post"]["responses"].contains("422"));
  const OrderedJson& body = all["components"]["schemas"]["CompletionsBody"];
  BOOST_TEST(body["required"] == OrderedJson({"prompt"}));
  BOOST_TEST(body["additionalProperties"] == false);
  BOOST_TEST(body["properties"]["n_predict"]["description"] == "another name of `max_tokens`");
  BOOST_TEST(!body["properties"].contains("suffix"));  // refused

  Settings less;
  less.ui = false;
  less.lenient = true;
  const OrderedJson few = openapi(less, false);
  BOOST_TEST(!few["paths"].contains("/v1/load_lora_adapter"));
  BOOST_TEST(!few["paths"].contains("/ui"));
  BOOST_TEST(!few["paths"].contains("/v1/receipt-key"));
  BOOST_TEST(!few["components"].contains("securitySchemes"));
  BOOST_TEST(few["components"]["schemas"]["CompletionsBody"]["additionalProperties"] == true);
}

BOOST_AUTO_TEST_SUITE_END()
