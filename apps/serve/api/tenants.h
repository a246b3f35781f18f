// Tenants are the holders of keys: the terms of each, the rest of its minute, and its number as a scheduler's client.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "serve/api/admission.h"
#include "serve/api/api_keys.h"
#include "serve/api/rate_limit.h"
#include "serve/http/message.h"

namespace serve {

// All keys of one name. Any thread.
class Tenant {
 public:
  Tenant(int client, const KeyTerms& terms)
      : client_(client),
        name_(terms.name),
        terms_(terms),
        requests_(terms.requests_a_minute),
        tokens_(terms.tokens_a_minute) {}
  Tenant(const Tenant&) = delete;
  Tenant& operator=(const Tenant&) = delete;

  int client() const { return client_; }  // 1 and up; the same as long as the server runs
  const std::string& name() const { return name_; }
  bool may(unsigned roles) const;  // one of them
  Share share() const;             // of what is under way at once
  void set_terms(const KeyTerms& terms);

  // ApiError rate_limited where the minute's budget is used up.
  void take_request(tenon::TimePoint now);
  void take_tokens(std::int64_t tokens, tenon::TimePoint now);
  void give_back_request();
  // The end of a request that took `taken` tokens and used `used`, which may be more.
  void settle_tokens(std::int64_t taken, std::int64_t used);

  // OpenAI's x-ratelimit headers, for the budgets that have a limit.
  void tell(HttpResponse& response, tenon::TimePoint now);

 private:
  const int client_;
  const std::string name_;
  mutable std::mutex mutex_;  // guards what follows
  KeyTerms terms_;
  MinuteBudget requests_, tokens_;
  std::int64_t reserved_ = 0;  // tokens taken by requests that run
};

// Whom a request is from.
struct Caller {
  int client = 0;                            // of the scheduler and of the admission
  std::shared_ptr<Tenant> tenant = nullptr;  // null where the server has no keys
};

// The keys of a running server, which may be replaced. Any thread.
class Tenants {
 public:
  explicit Tenants(ApiKeys keys) { replace(std::move(keys)); }

  // Names that were there before keep what they have used. Requests under way end under the terms that they began with.
  void replace(ApiKeys keys);

  // Without keys nothing is guarded.
  bool required() const;
  // By the headers Authorization and X-Api-Key. Null: no good key.
  std::shared_ptr<Tenant> find(const std::string& authorization, const std::string& x_api_key) const;
  // The one of a key of this name that is valid now. Null: there is none.
  std::shared_ptr<Tenant> named(const std::string& name) const;
  // Without a good key the client is the address of the connection.
  Caller caller_of(const HttpRequest& request) const;

 private:
  struct Current;

  std::shared_ptr<const Current> current() const;

  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<const Current> current_;
  std::unordered_map<std::string, std::shared_ptr<Tenant>> by_name_;  // of the first keys on
};

}  // namespace serve
