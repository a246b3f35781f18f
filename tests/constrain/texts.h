// Matches a text against a grammar without an automaton: a set of expressions, each with what its callers still
// expect.
#pragma once
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/constrain/grammar.h"

namespace tenon::test {

class Texts {
 public:
  explicit Texts(constrain::Grammar& grammar) : grammar_(grammar), e_(grammar.expressions) {}

  bool match(std::string_view text) {
    std::set<Place> places;
    add(places, {grammar_.start, {}});
    for (const char c : text) {
      std::set<Place> next;
      for (const Place& place : places) {
        const constrain::Expr e = e_.derivative(place.first, static_cast<unsigned char>(c));
        if (e != constrain::Expressions::kNever) add(next, {e, place.second});
      }
      places = std::move(next);
    }
    for (const auto& [e, callers] : places) {
      if (callers.empty() && e_.nullable(e)) return true;
    }
    return false;
  }

 private:
  using Place = std::pair<constrain::Expr, std::vector<constrain::Expr>>;

  void add(std::set<Place>& places, Place place) {
    if (place.second.size() > 200 || !places.insert(place).second) return;
    if (e_.nullable(place.first) && !place.second.empty()) {
      Place caller = {place.second.back(), place.second};
      caller.second.pop_back();
      add(places, std::move(caller));
    }
    std::vector<constrain::Expressions::Call> calls;
    e_.first_calls(place.first, calls);
    for (const auto& call : calls) {
      Place inside = {grammar_.rules[static_cast<std::size_t>(call.rule)], place.second};
      inside.second.push_back(call.rest);
      add(places, std::move(inside));
    }
  }

  constrain::Grammar& grammar_;
  constrain::Expressions& e_;
};

}  // namespace tenon::test
