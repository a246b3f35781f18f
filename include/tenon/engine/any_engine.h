// The single virtual boundary: an engine whose policies were chosen at run time, as programs and servers need it.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/adapter/options.h"
#include "tenon/cache/store.h"
#include "tenon/core/request.h"
#include "tenon/device/memory_count.h"
#include "tenon/engine/prepared_request.h"
#include "tenon/engine/progress.h"
#include "tenon/engine/snapshot.h"
#include "tenon/engine/stats.h"
#include "tenon/model/config.h"
#include "tenon/tokenizer/bpe.h"

namespace tenon {

/// An engine whose policies were chosen at run time. Its functions are those of Engine (engine/engine.h).
class AnyEngine {
 public:
  virtual ~AnyEngine() = default;
  virtual PreparedRequest prepare(Request request) const = 0;
  virtual RequestId enqueue(PreparedRequest request) = 0;
  RequestId submit(Request request) { return enqueue(prepare(std::move(request))); }
  virtual AdapterLease lease(std::span<const AdapterUse> uses, Patience patience = {}) = 0;
  virtual bool cancel(RequestId request, FinishReason reason = FinishReason::cancelled) = 0;
  virtual bool hold(RequestId request) = 0;
  virtual bool resume(RequestId request) = 0;
  virtual Snapshot snapshot(RequestId request) const = 0;
  virtual AnswerProgress progress(RequestId request) const = 0;
  virtual std::span<const Event> step() = 0;
  virtual bool idle() const = 0;
  virtual int pending() const = 0;
  virtual void set_draining(bool draining) = 0;
  virtual const ModelConfig& config() const = 0;
  virtual const Tokenizer* tokenizer() const = 0;
  virtual const EngineStats& stats() const = 0;
  virtual CacheStats cache_stats() const = 0;
  virtual std::size_t weight_bytes() const = 0;
  virtual MemoryUse device_memory() const = 0;
  virtual std::string fingerprint() const = 0;
  virtual std::string full_fingerprint() const = 0;
  virtual std::string numeric_class() const = 0;

  /// The resident adapters; from any thread, as lease(). Empty for engines that add none at run time.
  virtual std::vector<AdapterInfo> adapters() = 0;
  virtual AdapterStats adapter_stats() = 0;
  virtual std::string adapter_name(int adapter) = 0;         ///< adapter: of a StepRow
  virtual bool unload_adapter(const std::string& name) = 0;  ///< false: none is resident
};

/// An Engine as AnyEngine; owns it.
template <class Engine>
class EngineBox final : public AnyEngine {
 public:
  template <class... Arguments>
  explicit EngineBox(Arguments&&... arguments) : engine_(std::forward<Arguments>(arguments)...) {}

  PreparedRequest prepare(Request request) const override { return engine_.prepare(std::move(request)); }
  RequestId enqueue(PreparedRequest request) override { return engine_.enqueue(std::move(request)); }
  AdapterLease lease(std::span<const AdapterUse> uses, Patience patience) override {
    return engine_.lease(uses, std::move(patience));
  }
  bool cancel(RequestId request, FinishReason reason) override { return engine_.cancel(request, reason); }
  bool hold(RequestId request) override { return engine_.hold(request); }
  bool resume(RequestId request) override { return engine_.resume(request); }
  Snapshot snapshot(RequestId request) const override { return engine_.snapshot(request); }
  AnswerProgress progress(RequestId request) const override { return engine_.progress(request); }
  std::span<const Event> step() override { return engine_.step(); }
  bool idle() const override { return engine_.idle(); }
  int pending() const override { return engine_.pending(); }
  void set_draining(bool draining) override { engine_.set_draining(draining); }
  const ModelConfig& config() const override { return engine_.config(); }
  const Tokenizer* tokenizer() const override { return engine_.tokenizer(); }
  const EngineStats& stats() const override { return engine_.stats(); }
  CacheStats cache_stats() const override { return engine_.cache_stats(); }
  std::size_t weight_bytes() const override { return engine_.weight_bytes(); }
  MemoryUse device_memory() const override { return engine_.device_memory(); }
  std::string fingerprint() const override { return engine_.fingerprint(); }
  std::string full_fingerprint() const override { return engine_.full_fingerprint(); }
  std::string numeric_class() const override { return engine_.numeric_class(); }

  std::vector<AdapterInfo> adapters() override {
    if constexpr (kAddsAdapters)
      return engine_.adapters().list();
    else
      return {};
  }
  AdapterStats adapter_stats() override {
    if constexpr (kAddsAdapters)
      return engine_.adapters().stats();
    else
      return {};
  }
  std::string adapter_name([[maybe_unused]] int adapter) override {
    if constexpr (kAddsAdapters)
      return engine_.adapters().name_of(adapter);
    else
      return "";
  }
  bool unload_adapter([[maybe_unused]] const std::string& name) override {
    if constexpr (kAddsAdapters)
      return engine_.adapters().unload(name);
    else
      return false;
  }

  Engine& engine() { return engine_; }

 private:
  static constexpr bool kAddsAdapters = requires(Engine & engine) { engine.adapters(); };

  Engine engine_;
};

}  // namespace tenon
