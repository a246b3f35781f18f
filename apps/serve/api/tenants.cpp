#include "serve/api/tenants.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/api/client_id.h"

namespace serve {
namespace {

using tenon::Clock;
using tenon::TimePoint;

// As OpenAI writes it: 120ms, 1.5s, 6m0s.
std::string duration_text(Clock::duration time) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  if (ms < 1000) return std::to_string(ms) + "ms";
  const auto minutes = ms / 60'000, rest = ms % 60'000;
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", static_cast<double>(rest) / 1000);
  if (rest >= 1000 && rest % 1000 == 0) std::snprintf(text, sizeof text, "%d", static_cast<int>(rest / 1000));
  return (minutes > 0 ? std::to_string(minutes) + "m" : "") + text + "s";
}

void need(Clock::duration wait, const char* what, const MinuteBudget& budget) {
  if (wait == Clock::duration::zero()) return;
  ApiError error(ApiError::Kind::rate_limited, std::string("this key may use ") + std::to_string(budget.limit()) + " " +
                                                   what + " a minute; try again in " + duration_text(wait));
  error.retry_after = static_cast<int>(std::chrono::ceil<std::chrono::seconds>(wait).count());
  throw error;
}

void tell_of(HttpResponse& response, const char* what, MinuteBudget& budget, TimePoint now) {
  if (budget.limit() == 0) return;
  const auto header = [&](const char* of) { return std::string("x-ratelimit-") + of + "-" + what; };
  response.set_header(header("limit"), std::to_string(budget.limit()));
  response.set_header(header("remaining"), std::to_string(budget.remaining(now)));
  response.set_header(header("reset"), duration_text(budget.reset(now)));
}

}  // namespace

bool Tenant::may(unsigned roles) const {
  std::lock_guard lock(mutex_);
  return (terms_.roles & roles) != 0;
}

Share Tenant::share() const {
  std::lock_guard lock(mutex_);
  return {terms_.requests_at_once, terms_.tokens_at_once};
}

void Tenant::set_terms(const KeyTerms& terms) {
  std::lock_guard lock(mutex_);
  terms_ = terms;
  requests_.set_limit(terms.requests_a_minute);
  tokens_.set_limit(terms.tokens_a_minute);
}

void Tenant::take_request(TimePoint now) {
  std::lock_guard lock(mutex_);
  need(requests_.take(1, now), "requests", requests_);
}

void Tenant::take_tokens(std::int64_t tokens, TimePoint now) {
  std::lock_guard lock(mutex_);
  need(tokens_.take(tokens, now, reserved_), "tokens", tokens_);
  reserved_ += tokens;
}

void Tenant::give_back_request() {
  std::lock_guard lock(mutex_);
  requests_.give_back(1);
}

void Tenant::settle_tokens(std::int64_t taken, std::int64_t used) {
  std::lock_guard lock(mutex_);
  reserved_ -= taken;
  tokens_.give_back(taken - used);
}

void Tenant::tell(HttpResponse& response, TimePoint now) {
  std::lock_guard lock(mutex_);
  tell_of(response, "requests", requests_, now);
  tell_of(response, "tokens", tokens_, now);
}

struct Tenants::Current {
  ApiKeys keys;
  std::vector<std::shared_ptr<Tenant>> tenants;  // by the number of the key, less 1
};

void Tenants::replace(ApiKeys keys) {
  auto next = std::make_shared<Current>();
  std::lock_guard lock(mutex_);
  for (std::size_t i = 1; i <= keys.count(); ++i) {
    const KeyTerms& terms = keys.terms(static_cast<int>(i));
    const int client = static_cast<int>(by_name_.size()) + 1;
    auto& tenant = by_name_[terms.name];
    if (tenant)
      tenant->set_terms(terms);
    else
      tenant = std::make_shared<Tenant>(client, terms);
    next->tenants.push_back(tenant);
  }
  next->keys = std::move(keys);
  current_ = std::move(next);
}

std::shared_ptr<const Tenants::Current> Tenants::current() const {
  std::lock_guard lock(mutex_);
  return current_;
}

bool Tenants::required() const { return current()->keys.required(); }

std::shared_ptr<Tenant> Tenants::find(const std::string& authorization, const std::string& x_api_key) const {
  const auto now = current();
  const int number = now->keys.number(authorization, x_api_key);
  return number == 0 ? nullptr : now->tenants[static_cast<std::size_t>(number) - 1];
}

std::shared_ptr<Tenant> Tenants::named(const std::string& name) const {
  const auto now = current();
  const auto found = std::find_if(now->tenants.begin(), now->tenants.end(),
                                  [&](const auto& tenant) { return tenant->name() == name; });
  return found == now->tenants.end() ? nullptr : *found;
}

Caller Tenants::caller_of(const HttpRequest& request) const {
  auto tenant = find(request.header("Authorization"), request.header("X-Api-Key"));
  if (tenant) return {tenant->client(), tenant};
  return {client_of_address(request.peer ? request.peer->address() : "")};
}

}  // namespace serve
