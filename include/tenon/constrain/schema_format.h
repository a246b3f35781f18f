// The values of the schema keyword `format` that are enforced. Each expression is at least as strict as the standard
// that it names.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "tenon/constrain/code_points.h"
#include "tenon/constrain/expression.h"
#include "tenon/constrain/regex.h"

namespace tenon::constrain::schema {

/// Makes the expressions of formats: what stands between the quotes of the JSON string.
class Formats {
 public:
  explicit Formats(Expressions& expressions) : e_(expressions) {}

  /// The expression of a format; empty if the format is not enforced.
  std::optional<Expr> find(std::string_view name) {
    if (name == "date") return date();
    if (name == "time") return time();
    if (name == "date-time") return e_.concat({date(), e_.literal("T"), time()});
    if (name == "duration") return duration();
    if (name == "uuid") return whole("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}");
    if (name == "ipv4") return whole(kIpv4);
    if (name == "ipv6") return ipv6();
    if (name == "hostname") return hostname();
    if (name == "email") return email();
    if (name == "uri") return uri();
    return std::nullopt;
  }

 private:
  static constexpr std::string_view kIpv4 =
      "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(\\.(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])){3}";

  Expr whole(std::string_view pattern) { return regex(e_, pattern, Spelling::json, Match::whole, ""); }
  Expr without(Expr all, Expr some) { return e_.both(all, e_.complement(some)); }

  // RFC 3339, full-date: the proleptic Gregorian calendar from year 1.
  Expr date() {
    const Expr days = whole(
        "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]"
        "))"
        "|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29");
    return without(days, e_.concat(e_.literal("0000"), Expressions::kAnything));
  }
  // RFC 3339, full-time, without leap seconds.
  Expr time() {
    return whole("([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])");
  }
  // RFC 3339, appendix A.
  Expr duration() {
    return whole(
        "P([0-9]{1,9}W|T{t}|([0-9]{1,9}D|[0-9]{1,9}M([0-9]{1,9}D)?|[0-9]{1,9}Y([0-9]{1,9}M([0-9]{1,9}D)?)?)(T{t})?)",
        "{t}", "([0-9]{1,9}S|[0-9]{1,9}M([0-9]{1,9}S)?|[0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?)");
  }
  // RFC 4291, 2.2, in the form of RFC 3986.
  Expr ipv6() {
    const std::string h = "[0-9A-Fa-f]{1,4}", low = "(" + h + ":" + h + "|" + std::string(kIpv4) + ")";
    std::string all = "(" + h + ":){6}" + low + "|::(" + h + ":){5}" + low;
    for (int before = 0; before < 7; ++before) {  // at most before + 1 groups, "::", and exactly 6 - before groups
      all += "|((" + h + ":){0," + std::to_string(before) + "}" + h + ")?::";
      const int after = 4 - before;
      if (after > 0) all += "(" + h + ":){" + std::to_string(after) + "}";
      if (after >= 0)
        all += low;
      else if (after == -1)
        all += h;
    }
    return whole(all);
  }
  // RFC 1123. Labels with "--" as third and fourth characters are excluded: IDNA (RFC 5891) decides which are valid.
  Expr hostname() {
    const Expr any = e_.bytes(ByteSet::all());
    const Expr label = without(whole("[0-9A-Za-z]([0-9A-Za-z-]{0,61}[0-9A-Za-z])?"),
                               e_.concat({any, any, e_.literal("--"), Expressions::kAnything}));
    return e_.both(e_.concat(label, e_.repeat(e_.concat(e_.literal("."), label), 0)), e_.repeat(any, 1, 253));
  }
  // RFC 5321: a dot-atom and a host name.
  Expr email() {
    const Expr atom = whole("[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]{1,64}");
    const Expr local = e_.both(e_.concat(atom, e_.repeat(e_.concat(e_.literal("."), atom), 0)),
                               e_.repeat(e_.bytes(ByteSet::all()), 1, 64));
    return e_.concat({local, e_.literal("@"), hostname()});
  }
  // RFC 3986, with a scheme. A host is a name or an IPv6 address; IPv4 addresses match as names.
  Expr uri() {
    constexpr std::string_view kCharacter = "([0-9A-Za-z._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
    const Expr scheme = whole("[A-Za-z][0-9A-Za-z+.-]*:");
    const Expr user = e_.optional(whole("([0-9A-Za-z._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@"));
    const Expr host = e_.either(whole("([0-9A-Za-z._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"),
                                e_.concat({e_.literal("["), ipv6(), e_.literal("]")}));
    const Expr authority = e_.concat({e_.literal("//"), user, host, whole("(:[0-9]{0,5})?")});
    const Expr segments = whole("(/{c}*)*", "{c}", kCharacter), rootless = whole("{c}+(/{c}*)*", "{c}", kCharacter);
    const Expr path = e_.either(
        {e_.concat(authority, segments), e_.optional(rootless), e_.concat(e_.literal("/"), e_.optional(rootless))});
    return e_.concat(
        {scheme, path, whole("(\\?({c}|[/?])*)?", "{c}", kCharacter), whole("(#({c}|[/?])*)?", "{c}", kCharacter)});
  }

  // Expands `name` to `meaning` in the pattern.
  Expr whole(std::string pattern, std::string_view name, std::string_view meaning) {
    for (std::size_t at = pattern.find(name); at != pattern.npos; at = pattern.find(name, at + meaning.size())) {
      pattern.replace(at, name.size(), meaning);
    }
    return whole(pattern);
  }

  Expressions& e_;
};

}  // namespace tenon::constrain::schema
