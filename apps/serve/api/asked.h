// What the routes of both APIs do on the way from a body to what the engine is asked.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/exchange.h"
#include "serve/model.h"

namespace serve {

// Takes a place for the log-probabilities of all choices, their tokens and the alternatives to each. ApiError where
// they are too many.
void take_listed(Model& model, Asked& asked, const std::string& param);

// ApiError unknown_adapter. Before anything is read: one that nobody knows is another error than one that does not fit.
void need_adapters(Model& model, const std::vector<tenon::AdapterUse>& adapters, const std::string& param);
std::string name_of(const std::vector<tenon::AdapterUse>& adapters);

// ApiError invalid where one is outside the vocabulary.
void need_tokens(const Model& model, const std::vector<tenon::TokenId>& ids, const std::string& field);
void keep_last(std::vector<tenon::TokenId>& ids, std::optional<int> most);

// Where a request names no length, only here is known how long its answer may be.
void check_least(const tenon::Options& options, const std::string& field);

// Tokens that end an answer and are no part of it.
std::vector<tenon::TokenId> ends_of(const Model& model, const tenon::Options& options);

}  // namespace serve
