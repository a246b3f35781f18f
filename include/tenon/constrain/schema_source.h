// The subschemas of a document, by number, and the targets of $ref.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/constrain/refused.h"
#include "tenon/constrain/schema_decimal.h"
#include "tenon/constrain/schema_draft.h"

namespace tenon::constrain::schema {

/// The JSON pointer to a member of the value at `at` (RFC 6901).
inline std::string below(const std::string& at, std::string_view key) {
  std::string pointer = at + '/';
  for (const char c : key) pointer += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return pointer;
}
inline std::string below(const std::string& at, std::size_t index) { return at + '/' + std::to_string(index); }

/// A subschema of the document.
struct Source {
  const Json* schema;
  /// JSON pointer, for errors.
  std::string at;
  const Json* resource;  ///< where a $ref in it starts (JSON Schema 2020-12, core, 8.2.1)
  SchemaDraft draft;     ///< of the whole document

  /// Whether the subschema has the keyword and its draft knows it.
  bool has(std::string_view keyword) const { return speaks(draft, *schema, keyword); }
};

/// A subschema (2 * its number) or its negation (2 * its number + 1). Number 0 is the schema `false`.
using Literal = int;
/// The number of a set of literals. A value must satisfy all of them.
using Meet = int;
inline constexpr Meet kTrueMeet = 0, kFalseMeet = 1;  ///< the sets that every value and no value satisfies

/// Numbers subschemas, and sets of them.
class Sources {
 public:
  explicit Sources(const Json& root) : root_(root), draft_(draft_of(root, "#")) {
    sources_.push_back({nullptr, "#", &root, draft_});
    intern({}), intern({0});
  }

  const Source& source(Literal literal) const { return sources_[static_cast<std::size_t>(literal / 2)]; }
  const std::vector<Literal>& literals(Meet meet) const { return *meets_[static_cast<std::size_t>(meet)]; }
  SchemaDraft draft() const { return draft_; }    ///< of the whole document
  Meet root() { return at(root_, "#", &root_); }  ///< the set for the document itself

  /// The subschema under a keyword.
  Meet member(const Source& of, const std::string& keyword) {
    return at(of.schema->at(keyword), below(of.at, keyword), of.resource);
  }
  /// The set for a subschema. `where`: its JSON pointer. `resource`: where a $ref in it starts.
  Meet at(const Json& schema, const std::string& where, const Json* resource) {
    if (schema.is_boolean()) return schema.get<bool>() ? kTrueMeet : kFalseMeet;
    if (!schema.is_object()) refuse_invalid(where, "a schema must be an object or a boolean");
    const bool names = &schema != &root_ && schema.contains("$schema") && !refers_alone(draft_, schema);
    if (names && draft_of(schema, where) != draft_) {
      refuse_unsupported(below(where, "$schema"), "must be the draft of the whole schema");
    }
    const auto [others, refers] = says(schema);
    if (!others && !refers) return kTrueMeet;
    if (!others && hops_ < kMostHops) {  // all references to one schema share its set
      struct Hop {
        int& all;
        ~Hop() { --all; }
      };
      const Hop hop{++hops_};
      return target({&schema, where, opens_resource(draft_, schema) ? &schema : resource, draft_});
    }
    const auto [found, fresh] = numbers_.try_emplace(&schema, static_cast<int>(sources_.size()));
    if (fresh) sources_.push_back({&schema, where, opens_resource(draft_, schema) ? &schema : resource, draft_});
    return intern({2 * found->second});
  }

  /// The union of two sets: a value must satisfy both.
  Meet join(Meet a, Meet b) {
    if (a == b || b == kTrueMeet) return a;
    if (a == kTrueMeet) return b;
    if (a == kFalseMeet || b == kFalseMeet) return kFalseMeet;
    std::vector<Literal> all;
    std::set_union(literals(a).begin(), literals(a).end(), literals(b).begin(), literals(b).end(),
                   std::back_inserter(all));
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (all[i] == (all[i - 1] ^ 1) && all[i] % 2 == 1) return kFalseMeet;
    }
    return intern(std::move(all));
  }

  /// The negation of a set. Empty for a set of several literals, whose negation is more than one set.
  std::optional<Meet> negation(Meet meet) {
    if (meet == kTrueMeet) return kFalseMeet;
    if (meet == kFalseMeet) return kTrueMeet;
    if (literals(meet).size() != 1) return std::nullopt;
    return intern({literals(meet).front() ^ 1});
  }
  /// The set of one literal.
  Meet only(Literal literal) { return intern({literal}); }

  /// The set for the target of a $ref.
  Meet target(const Source& from) {
    const Json& ref = from.schema->at("$ref");
    const std::string at_ref = below(from.at, "$ref");
    if (!ref.is_string()) refuse_invalid(at_ref, "must be a string");
    const std::string text = ref.get<std::string>();
    const std::size_t hash = std::min(text.find('#'), text.size());
    const std::string document = text.substr(0, hash),
                      pointer = hash < text.size() ? decoded(text.substr(hash + 1), at_ref) : "";
    const bool own = document.empty() || (from.resource == &root_ && document == name_of(draft_, root_));
    if (!own) refuse_unsupported(at_ref, "only references into the schema itself are followed");
    if (!pointer.empty() && pointer[0] != '/')
      refuse_unsupported(at_ref, "only JSON pointers are followed, no anchors");
    const Json* here = from.resource;
    const Json* resource = from.resource;
    for (std::size_t start = 0; start < pointer.size();) {
      const std::size_t end = std::min(pointer.find('/', start + 1), pointer.size());
      here = step(*here, unescaped(pointer.substr(start + 1, end - start - 1), at_ref), at_ref);
      if (opens_resource(draft_, *here)) resource = here;
      start = end;
    }
    return at(*here, from.resource == &root_ ? "#" + pointer : at_ref, resource);
  }

 private:
  Meet intern(std::vector<Literal> literals) {
    const auto [found, fresh] = meet_numbers_.try_emplace(std::move(literals), static_cast<int>(meets_.size()));
    if (fresh) meets_.push_back(&found->first);
    return found->second;
  }

  static constexpr int kMostHops = 32;

  // Whether keywords other than $ref constrain values, and whether $ref does.
  static std::pair<bool, bool> says(const Json& schema) {
    constexpr std::array<std::string_view, 17> kNothing = {
        "title",    "description", "default",       "examples",       "$comment",   "deprecated",
        "readOnly", "writeOnly",   "discriminator", "$schema",        "$id",        "id",
        "$defs",    "definitions", "$anchor",       "$dynamicAnchor", "$vocabulary"};
    bool others = false, refers = false;
    for (const auto& [key, value] : schema.items()) {
      if (key == "$ref")
        refers = true;
      else
        others |= std::find(kNothing.begin(), kNothing.end(), key) == kNothing.end();
    }
    return {others, refers};
  }

  static const Json* step(const Json& from, const std::string& token, const std::string& at_ref) {
    if (from.is_object()) {
      if (const auto found = from.find(token); found != from.end()) return &*found;
    } else if (from.is_array() && !token.empty() && token.size() < 9 &&
               token.find_first_not_of("0123456789") == token.npos) {
      const std::size_t index = std::stoul(token);
      if (index < from.size()) return &from[index];
    }
    refuse_invalid(at_ref, "points to nothing");
  }

  static std::string decoded(const std::string& text, const std::string& at_ref) {
    const auto digit = [](char c) {
      return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    };
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '%') {
        plain += text[i];
        continue;
      }
      if (i + 2 >= text.size() || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0)
        refuse_invalid(at_ref, "no valid % escape");
      plain += static_cast<char>(16 * digit(text[i + 1]) + digit(text[i + 2]));
      i += 2;
    }
    return plain;
  }
  static std::string unescaped(const std::string& token, const std::string& at_ref) {
    std::string plain;
    for (std::size_t i = 0; i < token.size(); ++i) {
      if (token[i] != '~') {
        plain += token[i];
      } else {
        if (++i == token.size() || (token[i] != '0' && token[i] != '1')) refuse_invalid(at_ref, "no valid ~ escape");
        plain += token[i] == '0' ? '~' : '/';
      }
    }
    return plain;
  }

  const Json& root_;
  const SchemaDraft draft_;
  int hops_ = 0;
  std::deque<Source> sources_;  // references to elements stay valid
  std::map<const Json*, int> numbers_;
  std::map<std::vector<Literal>, Meet> meet_numbers_;
  std::vector<const std::vector<Literal>*> meets_;
};

}  // namespace tenon::constrain::schema
