// What tenon's peers of bench/compare have in common: PEER DIR FORMAT, then a row of JSON for each line of it that
// comes.
#pragma once
#include <algorithm>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace bench {

// The choice that the command line names, by name_of(choice), or null, and what there is to choose has been said.
template <class Choices, class NameOf>
auto chosen(int argc, char** argv, std::string_view usage, const Choices& choices, NameOf&& name_of)
    -> decltype(&*std::begin(choices)) {
  const auto found = std::find_if(std::begin(choices), std::end(choices),
                                  [&](auto& each) { return argc == 3 && std::string_view(argv[2]) == name_of(each); });
  if (found != std::end(choices)) return &*found;
  std::cerr << "usage: " << usage << "; formats:";
  for (const auto& each : choices) std::cerr << ' ' << name_of(each);
  std::cerr << '\n';
  return nullptr;
}

// answer(asked), both JSON objects, of every line, behind one that says that all is loaded.
template <class Answer>
void answer_all(Answer&& answer) {
  std::cout << R"({"ready": true})" << std::endl;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer(nlohmann::json::parse(line)).dump() << std::endl;
}

}  // namespace bench
