// What a request must satisfy before an engine takes it. Refusals name the field.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/request.h"
#include "tenon/model/config.h"
#include "tenon/tokenizer/bpe.h"

namespace tenon {

// A text that cannot fit into `positions` (0: no bound) is refused before it costs anything, as `field`.
void check_length_of_text(const std::string& text, const Tokenizer& tokenizer, int positions,
                          const char* field = "prompt");

std::vector<TokenId> prompt_tokens(const Request& request, const Tokenizer* tokenizer, int positions = 0);

// What a request's keys and values depend on beside its tokens: the user's salt, of which equal ones share prefixes,
// and the length of the prompt where positions stretch with it. adapters: AdapterLease::identity. What a user writes
// comes last, so that it can imitate nothing.
std::string cache_identity(const Options& o, const ModelConfig& config, std::size_t prompt,
                           const std::string& adapters = {});

// So many of a prompt's tokens may come from the cache without hiding logits that somebody asked for.
int reuse_limit(const Options& o);

void check_constraint(const Request& request, const ModelConfig& config);

// Takes the lease of a request's adapters, where it has none. False where the adapters in use leave no room and others
// run, whose end will make some: for callers that step the engine themselves, and so cannot wait.
template <class E>
bool take_lease(E& engine, Request& request, bool others_run) {
  if (request.lease.set) return true;
  try {
    request.lease = engine.lease(request.adapters);
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::overloaded && others_run) return false;
    throw;
  }
  return true;
}

// Ranges that depend on the model: ids within its vocabulary, positions within its table.
void check_against_model(const Options& o, const std::vector<TokenId>& tokens, const ModelConfig& config,
                         bool has_tokenizer);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/admission-inl.h"
#endif
