#include "constraints.h"

#include "output.h"
#include "tenon/constrain/constraints.h"
#include "tenon/io/file.h"

namespace program {
namespace {

constexpr std::uint64_t kMostBytes = 16 << 20;  // of a schema or grammar file

// Compiles a constraint. Errors name the field that holds it. Warnings go to stderr.
template <class Compile>
std::shared_ptr<const tenon::Constraint> of_field(const char* field, Compile&& compile) {
  try {
    const tenon::constrain::Constraints::Pointer made = compile();
    for (const std::string& warning : made->warnings()) say(std::string(field) + ": " + warning);
    return made;
  } catch (const tenon::constrain::Refused& refused) {
    throw tenon::Error(refused.kind(), field,
                       refused.where().empty() ? refused.reason() : refused.where() + ": " + refused.reason());
  }
}

}  // namespace

struct RequestConstraints::Compilers : tenon::constrain::Constraints {
  using Constraints::Constraints;
};

RequestConstraints::RequestConstraints(const tenon::Tokenizer* tokenizer, const tenon::ModelConfig& config)
    : tokenizer_(tokenizer), config_(config) {}
RequestConstraints::~RequestConstraints() = default;

RequestConstraints::Compilers& RequestConstraints::compilers(const char* field) {
  if (!tokenizer_)
    throw tenon::Error(tenon::Error::Kind::invalid_request, field,
                       "this model has no tokenizer to constrain texts with");
  if (!compilers_) {
    compilers_ =
        std::make_unique<Compilers>(tenon::constrain::Vocabulary::from(*tokenizer_, config_.vocab, config_.eos));
  }
  return *compilers_;
}

std::shared_ptr<const tenon::Constraint> RequestConstraints::schema(const tenon::OrderedJson& schema) {
  return of_field("schema", [&] { return compilers("schema").json_schema(schema); });
}
std::shared_ptr<const tenon::Constraint> RequestConstraints::schema_file(const std::string& path) {
  return of_field("schema", [&] { return compilers("schema").json_schema(tenon::read_text_file(path, kMostBytes)); });
}
std::shared_ptr<const tenon::Constraint> RequestConstraints::regex(const std::string& pattern) {
  return of_field("regex", [&] { return compilers("regex").regex(pattern); });
}
std::shared_ptr<const tenon::Constraint> RequestConstraints::grammar(const std::string& text) {
  return of_field("grammar", [&] { return compilers("grammar").grammar(text); });
}
std::shared_ptr<const tenon::Constraint> RequestConstraints::grammar_file(const std::string& path) {
  return grammar(tenon::read_text_file(path, kMostBytes));
}
std::shared_ptr<const tenon::Constraint> RequestConstraints::choice(const std::vector<std::string>& texts) {
  return of_field("choice", [&] { return compilers("choice").choice(texts); });
}

}  // namespace program
