#pragma once
#include <algorithm>
#include <string>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/model/any_family.h"

namespace tenon {

TENON_INLINE const Family& find_family(std::span<const Family> families, std::string_view model_type) {
  const auto found =
      std::find_if(families.begin(), families.end(), [&](const Family& each) { return each.model_type == model_type; });
  if (found != families.end()) return *found;
  std::string list;
  for (const Family& each : families) list += (list.empty() ? "" : ", ") + std::string(each.model_type);
  throw Error(Error::Kind::unsupported, "config.json: model_type",
              "\"" + printable(model_type, 60) + "\" is not supported; supported: " + list);
}

TENON_INLINE DecoderSpec tensors_of(const Family& family, const ModelConfig& c) {
  DecoderSpec spec = family.tensors(c);
  add_classifier(c, spec);
  return spec;
}

}  // namespace tenon
