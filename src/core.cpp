// The host code of core/.
#include "tenon/core/fields-inl.h"
#include "tenon/core/file-inl.h"
#include "tenon/core/json-inl.h"
#include "tenon/core/new_file-inl.h"
#include "tenon/core/new_folder-inl.h"
#include "tenon/core/python_regex-inl.h"
#include "tenon/core/request-inl.h"
#include "tenon/core/sha256-inl.h"

namespace tenon {

template Json parse_json<Json>(std::string_view text, const std::string& file, const JsonLimits& limits);
template OrderedJson parse_json<OrderedJson>(std::string_view text, const std::string& file, const JsonLimits& limits);

}  // namespace tenon
