// tenon tokens: text to ids and back, one JSON line each.
#include <iostream>
#include <limits>
#include <vector>

#include "commands.h"
#include "json_lines.h"
#include "output.h"
#include "tenon/core/error.h"
#include "tenon/io/fields.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/bpe.h"
#include "tenon/tokenizer/unicode.h"

namespace program {
namespace {

using tenon::Fields;

void refuse_unknown(const Fields& fields, const std::string& known) {
  for (const auto& [key, value] : fields.json().items()) {
    if (key != known) fields.refuse(key, "is an unknown field; a line holds \"" + known + "\" alone");
  }
}

std::string encode_line(const tenon::Tokenizer& tokenizer, const Fields& fields, const TokensCommand& command) {
  refuse_unknown(fields, "text");
  const std::string text = fields.string("text");
  std::string out = "{\"ids\": ";
  const bool parse = command.parse_special;
  append_json_list(out, command.special ? tokenizer.encode_prompt(text, parse) : tokenizer.encode(text, parse),
                   [](std::string& to, tenon::TokenId id) { append_json_number(to, id); });
  return out + "}\n";
}

std::string decode_line(const tenon::Tokenizer& tokenizer, const Fields& fields) {
  refuse_unknown(fields, "ids");
  const tenon::Json& list = fields.value("ids");
  if (!list.is_array()) fields.refuse("ids", "must be a list of integers, is " + Fields::describe(list));
  std::vector<tenon::TokenId> ids;
  for (const tenon::Json& id : list) ids.push_back(fields.check_integer("ids", id, 0, std::numeric_limits<int>::max()));
  std::string out = "{\"text\": ";
  append_json_string(out, tenon::sanitize_utf8(tokenizer.decode(ids)));
  return out + "}\n";
}

}  // namespace

int tokens(const TokensCommand& command) {
  const auto tokenizer = tenon::load_tokenizer(model_folder({.model = command.model}));
  Output output;
  bool failed = false;
  std::string line;
  for (int number = 0; next_line(std::cin, line, number);) {
    try {
      const auto json = parse_json_line(line, number);
      const Fields fields(json, line_name(number), {}, tenon::Error::Kind::invalid_request);
      output.write(command.decode ? decode_line(tokenizer, fields) : encode_line(tokenizer, fields, command));
    } catch (const tenon::Error& error) {
      std::string out = "{\"error\": ";
      append_json_string(out, error.what());
      output.write(out + "}\n");
      failed = true;
    }
    output.flush();
  }
  output.flush();
  return failed ? 1 : 0;
}

}  // namespace program
