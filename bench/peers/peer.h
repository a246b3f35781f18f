// Shared by tenon's peers of bench/compare, which run as PEER DIR FORMAT: each line of input is a JSON request, each
// line of output its JSON answer.
#pragma once
#include <algorithm>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace bench {

// The choice with that name, by name_of(choice). If there is none, prints the known names and returns null.
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

// Prints a line when loading is done. Then prints answer(request) for each line of input; both are JSON objects.
template <class Answer>
void answer_all(Answer&& answer) {
  std::cout << R"({"ready": true})" << std::endl;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer(nlohmann::json::parse(line)).dump() << std::endl;
}

}  // namespace bench
