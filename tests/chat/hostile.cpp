// Hostile templates: each ends within its limits, by an error or with a short text.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "rendering.h"

BOOST_AUTO_TEST_SUITE(chat_hostile)

using namespace tenon;

namespace {

std::string times(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// Loops and texts that grow.
void add_growth(std::vector<std::string>& out) {
  const std::string long_loop = "{% for i in range(100000) %}",
                    two = long_loop + long_loop + "{% endfor %}{% endfor %}";
  out.push_back(two);
  out.push_back(long_loop + long_loop + long_loop + "x{% endfor %}{% endfor %}{% endfor %}");
  out.push_back("{% set n = namespace(x='ab') %}" + long_loop + "{% set n.x = n.x + n.x %}{% endfor %}{{ n.x }}");
  out.push_back("{% set n = namespace(x=[1]) %}" + long_loop + "{% set n.x = n.x + n.x %}{% endfor %}");
  out.push_back("{% set n = namespace(x=1) %}" + long_loop + "{% set n.x = [n.x] %}{% endfor %}{{ n.x }}");
  out.push_back("{% set n = namespace(x=1) %}" + long_loop + "{% set n.x = {'a': n.x} %}{% endfor %}{{ n.x|tojson }}");
  out.push_back("{% set n = namespace(x=1) %}" + times("{% set n.x = [n.x, n.x] %}", 60) + "{{ n.x }}");
  out.push_back("{% set n = namespace(x=1) %}" + times("{% set n.x = [n.x, n.x] %}", 60) +
                "{{ n.x == n.x[0:] }}{{ n.x|tojson }}");
  out.push_back("{% set n = namespace(x=1) %}" + times("{% set n.x = (n.x, n.x) %}", 60) +
                "{{ {n.x: 1} }}{{ n.x is in [n.x] }}{{ n.x < n.x }}");
  out.push_back("{% set n = namespace() %}{% set n.a = n %}{{ n }}");
  out.push_back("{% set n = namespace() %}{% set n.a = [n] %}{{ n.a }}{{ n.a|tojson }}");
}

// Large numbers, and operations that grow or read a text in a loop.
void add_sizes(std::vector<std::string>& out) {
  const std::string long_loop = "{% for i in range(100000) %}";
  for (const char* const size : {"100000", "100000000", "9223372036854775807", "99999999999"}) {
    const std::string n = size;
    for (const std::string& each : {"{{ 'abc' * " + n + " }}",
                                    "{{ [1, 2] * " + n + " }}",
                                    "{{ 'a'|center(" + n + ") }}",
                                    "{{ 'a'.ljust(" + n + ") }}",
                                    "{{ '1'.zfill(" + n + ") }}",
                                    "{{ 'a\nb'|indent(" + n + ") }}",
                                    "{{ [1]|tojson(indent=" + n + ") }}",
                                    "{{ range(" + n + ") }}",
                                    "{{ range(0, -" + n + ", -1) }}",
                                    "{{ [1]|batch(" + n + ", 'x')|list }}",
                                    "{{ [1]|slice(" + n + ")|list }}",
                                    "{{ 3 ** " + n + " }}",
                                    "{{ 1.5 ** " + n + " }}",
                                    "{{ 'abc'[" + n + ":] }}",
                                    "{{ 'abc'[::" + n + "] }}",
                                    "{{ 'abc'[::-" + n + "] }}",
                                    "{{ 1|round(" + n + ") }}",
                                    "{{ '%." + n + "f' % 1 }}",
                                    "{{ 'a'|truncate(" + n + ") }}",
                                    "{{ 'a,b'.split(',', " + n + ") }}",
                                    "{{ 'aa'.replace('a', 'b', " + n + ") }}"})
      out.push_back(each);
  }
  for (const char* const step : {"x ~ x", "x|replace('a', 'aa')", "x.replace('', 'a')", "x|tojson", "[x, x]|join",
                                 "'%s%s' % (x, x)", "'{0}{0}'.format(x)", "x|indent(9, true)", "x|string * 2",
                                 "x|list|string", "x + x|upper", "(x, x)|string", "{'a': x, 'b': x}|tojson"})
    out.push_back("{% set n = namespace(x='a') %}" + long_loop + "{% set x = n.x %}{% set n.x = " + step +
                  " %}{% endfor %}{{ n.x }}");
  for (const char* const work : {"x|upper|lower|title",
                                 "x.split('a')",
                                 "x|list|sort|unique|list",
                                 "x in x ~ 'b'",
                                 "x.find('b')",
                                 "x|tojson",
                                 "x[::-1]",
                                 "x.strip('abc')",
                                 "x|int",
                                 "x|float",
                                 "x == x ~ 'a'",
                                 "x|escape",
                                 "x.splitlines()",
                                 "x|length",
                                 "x[99999]",
                                 "{x: x}[x]",
                                 "x|map('upper')|list",
                                 "x|reverse|list",
                                 "x|batch(2)|list",
                                 "x|select('in', x)|list",
                                 "x.rsplit('a', 3)",
                                 "x.partition('zz')",
                                 "x.count('aa')",
                                 "x|wordcount",
                                 "x is lower",
                                 "x.isspace()"})
    out.push_back("{% set x = 'a' * 1000000 %}" + long_loop + "{% set y = " + work + " %}{% endfor %}");
}

// Nesting and recursion.
void add_depth(std::vector<std::string>& out) {
  for (const int depth : {200, 1000, 30000}) {
    for (const auto& [open, close] : std::vector<std::pair<std::string, std::string>>{{"(", ")"},
                                                                                      {"[", "]"},
                                                                                      {"{1:", "}"},
                                                                                      {"-", ""},
                                                                                      {"+", ""},
                                                                                      {"not ", ""},
                                                                                      {"(1,", ")"},
                                                                                      {"[1][", "]"},
                                                                                      {"range(", ")"},
                                                                                      {"'' ~ (", ")"}})
      out.push_back("{{ " + times(open, depth) + "1" + times(close, depth) + " }}");
    out.push_back("{{ 1" + times(" + 1", depth) + " }}");
    out.push_back("{{ 1" + times("|abs", depth) + " }}");
    out.push_back("{{ x" + times(".a", depth) + " }}");
    out.push_back("{{ 1" + times(" if 1 else 2", depth) + " }}");
    out.push_back("{{ 1" + times(" and 1", depth) + " }}");
    out.push_back("{{ 1" + times(" < 2", depth) + " }}");
    out.push_back(times("{% if 1 %}", depth) + "x" + times("{% endif %}", depth));
    out.push_back(times("{% for i in [1] %}", depth) + "x" + times("{% endfor %}", depth));
    out.push_back(times("{% set x %}", depth) + "x" + times("{% endset %}", depth));
    out.push_back(times("{% filter upper %}", depth) + "x" + times("{% endfilter %}", depth));
    out.push_back(times("{% macro m() %}", depth) + "x" + times("{% endmacro %}", depth));
    out.push_back(times("{% if 0 %}x{% elif 1 %}y{% endif %}", depth));
    out.push_back("{% for " + times("(", depth) + "a" + times(",)", depth) + " in [1] %}{% endfor %}");
    out.push_back(times("{", depth));
    out.push_back(times("{{ ", depth));
    out.push_back(times("{#", depth));
    out.push_back(times("{% raw %}", depth));
    out.push_back("{{ '" + times("\\", depth));
  }
  // Chains of values that hold each other.
  const std::string chain = "{% set n = namespace(x=[]) %}{% for i in range(100000) %}",
                    end = "{% endfor %}{{ n.x|length }}";
  out.push_back(chain + "{% set n.x = [n.x.count] %}" + end);
  out.push_back(chain + "{% for a in [n.x] %}{% set n.x = [loop] %}{% endfor %}" + end);
  out.push_back(chain + "{% for a in [n.x] %}{% set n.x = [loop.cycle] %}{% endfor %}" + end);
  out.push_back(chain + "{% for a in [n.x] if loop is undefined %}{% set n.x = {'a': loop.changed} %}{% endfor %}" +
                end);
  out.push_back(chain + "{% set n.x = namespace(x=[n.x]) %}" + end);
  out.push_back(chain + "{% set n.x = [n.x]|map('string') %}" + end);
  out.push_back(chain + "{% set n.x = [n.x]|reverse %}" + end);
  out.push_back(chain + "{% set n.x = {'a': n.x}.items() %}" + end);
  out.push_back(chain + "{% macro m() %}{{ n.x }}{% endmacro %}{% set n.x = [m] %}" + end);
  out.push_back("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  out.push_back("{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m('a') }}");
  out.push_back("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}");
  out.push_back("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(25) }}");
  out.push_back("{% macro m(x=m()) %}{% endmacro %}{{ m() }}");
  out.push_back(
      "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{{ caller() }}{% endmacro %}{% call m() %}x{% endcall "
      "%}");
  out.push_back("{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{% call m() %}x{% endcall %}{% endcall %}");
  out.push_back("{% for i in range(100000) %}{% macro m() %}{{ i }}{% endmacro %}{% endfor %}");
  out.push_back(
      "{% set n = namespace() %}{% for i in range(100000) %}{% set n.l = loop %}{% if loop.changed(loop) %}x{% endif "
      "%}{% endfor %}{{ n.l.index }}");
  out.push_back("{% for i in range(100000) if namespace(a=i) %}{{ loop.length }}{% endfor %}");
}

}  // namespace

BOOST_AUTO_TEST_CASE(end_within_their_limits) {
  std::vector<std::string> templates;
  add_growth(templates);
  add_sizes(templates);
  add_depth(templates);
  BOOST_TEST(templates.size() >= 200u);
  const chat::Limits limits{.output_bytes = 1 << 20, .steps = 2'000'000};
  int stopped = 0;
  for (const std::string& text : templates) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      const auto rendered = chat::Template(text, "t", limits).render({});
      BOOST_TEST(rendered.text.size() <= limits.output_bytes, text.substr(0, 200));
    } catch (const Error& error) {
      BOOST_TEST(error.where().starts_with("t"), error.what());
      stopped += error.kind() == Error::Kind::capacity;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    BOOST_TEST(seconds.count() < 20, text.substr(0, 200));  // a loaded machine; alone each takes less than 0.5 s
  }
  BOOST_TEST(stopped >= 100);
}

BOOST_AUTO_TEST_SUITE_END()
