#include "serve/api/resume/handed_stream.h"

#include <limits>
#include <type_traits>

#include "tenon/core/error.h"
#include "tenon/engine/snapshot.h"
#include "tenon/io/fields.h"
#include "tenon/io/json.h"

namespace serve {
namespace {

using tenon::Error;
using tenon::Fields;
using tenon::Json;

constexpr const char* kHandedName = "hand-over";
constexpr int kHandedForm = 1;
constexpr int kLargestField = std::numeric_limits<int>::max();

template <class Integer>
Integer integer_of(const Fields& fields, const char* key) {
  const Json& value = fields.value(key);
  if (!value.is_number_integer() || (std::is_unsigned_v<Integer> && !value.is_number_unsigned()))
    fields.refuse(key, "must be an integer");
  return value.get<Integer>();
}

}  // namespace

std::string text_of(const HandedStream& s) {
  const Json json = {{"format", kHandedForm},
                     {"answer", s.begin.answer},
                     {"seed", s.begin.seed},
                     {"created", s.begin.created},
                     {"expires", s.begin.expires},
                     {"route", s.route},
                     {"body", s.body},
                     {"receipt", s.receipt},
                     {"owner", s.owner},
                     {"client", s.client},
                     {"fingerprint", s.fingerprint},
                     {"event_form", s.event_form},
                     {"versions", s.versions},
                     {"until", s.until},
                     {"progress", to_json(s.progress)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

HandedStream handed_stream_from(const std::string& text) {
  const Json json = tenon::parse_json<Json>(text, kHandedName);
  const Fields fields(json, kHandedName);
  if (fields.integer("format", 0, kLargestField) != kHandedForm) fields.refuse("format", "is another server's");
  HandedStream s;
  s.begin.answer = fields.string("answer");
  s.begin.seed = integer_of<std::uint64_t>(fields, "seed");
  s.begin.created = integer_of<std::int64_t>(fields, "created");
  s.begin.expires = integer_of<std::int64_t>(fields, "expires");
  s.route = fields.string("route");
  s.body = fields.string("body");
  s.receipt = fields.boolean("receipt");
  s.owner = fields.string("owner");
  s.client = fields.integer("client", std::numeric_limits<int>::min(), kLargestField);
  s.fingerprint = fields.string("fingerprint");
  s.event_form = fields.integer("event_form", 0, kLargestField);
  s.versions = fields.strings("versions");
  s.until = integer_of<std::int64_t>(fields, "until");
  s.progress = tenon::progress_from(fields.object("progress"));
  return s;
}

}  // namespace serve
