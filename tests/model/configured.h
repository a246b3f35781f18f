// Reads a family's config.json with one change. The base files are those of tests/golden.
#pragma once
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "../io/scratch.h"
#include "tenon/checkpoint/config.h"
#include "tenon/model/config.h"

namespace tenon::test {

using Change = std::function<void(nlohmann::json&)>;

// `base`: a model folder below the repository's root.
template <class Family>
ModelConfig configured(
    const std::string& base, const Change& change = [](auto&) {}) {
  nlohmann::json config;
  std::ifstream(TENON_SOURCE_DIR "/" + base + "/config.json") >> config;
  change(config);
  const Scratch scratch;
  scratch.write("config.json", config.dump());
  return Family::configure(ConfigFile(scratch.folder()));
}

// Checks that the error names the field. A path below the field may follow.
template <class Family>
void refused(const std::string& base, const std::string& field, const Change& change) {
  try {
    configured<Family>(base, change);
  } catch (const Error& error) {
    BOOST_TEST(std::string(error.what()).find("config.json: " + field) != std::string::npos,
               field + ": " + error.what());
    return;
  }
  BOOST_ERROR("accepted a change that concerns " + field);
}
template <class Family>
void refused_value(const std::string& base, const std::string& field, const nlohmann::json& value) {
  refused<Family>(base, field, [&](auto& c) { c[field] = value; });
}

}  // namespace tenon::test
