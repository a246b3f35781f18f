// Answers of OpenAI's API, computed again by this engine and compared.
#pragma once
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api_check.h"
#include "api_line.h"
#include "constraints.h"
#include "conversations.h"
#include "tenon/engine/any_engine.h"
#include "tenon/engine/completion.h"

namespace program {

class ApiReplay {
 public:
  // All must outlive it. The engine has no other requests.
  ApiReplay(tenon::AnyEngine& engine, RequestConstraints& constraints, Conversations& conversations)
      : engine_(engine), constraints_(constraints), conversations_(conversations) {}

  // Computes all lines together. One check for each.
  std::vector<ApiCheck> run(std::vector<ApiLine>& lines);

 private:
  // A request of a line: its answer again, or scores of the tokens that the server drew.
  struct Job {
    std::size_t line;
    std::optional<std::size_t> scored = {};  // the choice whose tokens are scored
    tenon::Request request = {};
    std::size_t prompt = 0;  // scored: tokens before the answer's
    bool stops = false;      // ends with the first character that differs
    std::string text = {};   // stops: of the answer so far
    tenon::Completion done = {};
  };

  void plan(std::size_t index);
  void plan_answer(std::size_t index);
  void plan_scores(std::size_t index);
  std::optional<std::pair<std::string, std::string>> why_not_known(const ApiLine& line);
  std::optional<std::vector<tenon::TokenId>> ids_of(const ApiLine& line, const ApiChoice& choice);
  std::vector<tenon::TokenId> ids_by_bytes(const ApiChoice& choice);
  std::optional<tenon::TokenId> end_of(const ApiLine& line, const ApiChoice& choice);
  bool submit(Job& job, std::size_t number);
  void take(const tenon::Event& event);
  void finish(Job& job);

  tenon::AnyEngine& engine_;
  RequestConstraints& constraints_;
  Conversations& conversations_;
  std::string fingerprint_ = {};                                   // empty: not asked for yet
  std::unordered_map<std::string, tenon::TokenId> by_bytes_ = {};  // tokens; -1: several have them
  std::vector<ApiLine>* lines_ = nullptr;
  std::vector<ApiCheck> checks_ = {};
  std::deque<Job> jobs_ = {};
  std::unordered_map<tenon::RequestId, std::size_t> open_ = {};
  std::vector<tenon::RequestId> wrong_ = {};  // differ: they are cancelled
};

}  // namespace program
