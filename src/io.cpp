// The host code of io/: JSON, files, SHA-256.
#include "tenon/io/fields-inl.h"
#include "tenon/io/file-inl.h"
#include "tenon/io/json-inl.h"
#include "tenon/io/new_file-inl.h"
#include "tenon/io/new_folder-inl.h"
#include "tenon/io/sha256-inl.h"
#include "tenon/io/staged_folder-inl.h"
#include "tenon/io/zip_entries-inl.h"

namespace tenon {

template Json parse_json<Json>(std::string_view text, const std::string& file, const JsonLimits& limits);
template OrderedJson parse_json<OrderedJson>(std::string_view text, const std::string& file, const JsonLimits& limits);

}  // namespace tenon
