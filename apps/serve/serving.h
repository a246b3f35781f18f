// What all handlers share.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/api/admission.h"
#include "serve/api/api_error.h"
#include "serve/api/origin.h"
#include "serve/api/receipt_signer.h"
#include "serve/api/resume/handover.h"
#include "serve/api/resume/resume_key.h"
#include "serve/api/tenants.h"
#include "serve/model.h"
#include "serve/ops/metrics.h"
#include "serve/ops/request_log.h"
#include "serve/settings.h"

namespace serve {

enum class Phase { loading, ready, draining };

class Serving {
 public:
  Serving(const Settings& settings, ApiKeys held, RequestLog& out)
      : keys(std::move(held)),
        pages{settings.cors_origins, settings.allowed_hosts},
        resume_key(read_resume_key(settings.resume_key_file)),
        handover(settings.handover, settings.handover_timeout),
        receipt_signer(settings.receipt_key_file),
        log(out),
        admission({.requests = settings.max_concurrent_requests,
                   .guests = settings.guests(),
                   .sequences = settings.max_concurrent_sequences,
                   .tokens = settings.max_concurrent_tokens}) {}

  // From now on requests are served, after prepare(Model&).
  template <class Prepare>
  void open(std::unique_ptr<Model> model, const Prepare& prepare) {
    model_ = std::move(model);
    prepare(*model_);
    Phase loading = Phase::loading;
    phase_.compare_exchange_strong(loading, Phase::ready);
  }
  // From now on none is taken.
  void drain() { phase_ = Phase::draining; }
  Phase phase() const { return phase_; }

  // Null until there is one.
  Model* loaded() { return phase_ == Phase::loading ? nullptr : model_.get(); }
  // ApiError unavailable where there is none; while draining only for those who may look and not ask.
  Model& model() {
    Model* const there = loaded();
    if (!there) throw ApiError(ApiError::Kind::unavailable, "the model is being loaded");
    return *there;
  }
  Model& taking_model() {
    if (phase_ == Phase::draining) throw ApiError(ApiError::Kind::unavailable, "the server is going down");
    return model();
  }

  Tenants keys;
  const PageRules pages;
  const std::string resume_key;  // of ids of resumable streams; empty: there are none
  Handover handover;
  ReceiptSigner receipt_signer;
  RequestLog& log;
  Metrics metrics;
  Admission admission;

 private:
  std::atomic<Phase> phase_{Phase::loading};  // before `ready` nobody looks at model_
  std::unique_ptr<Model> model_;
};

}  // namespace serve
