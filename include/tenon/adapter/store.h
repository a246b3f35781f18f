// The adapters on a device: loaded on first use, shared by requests, evicted when others need the budget.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/adapter/adapter_budget.h"
#include "tenon/adapter/admission_queue.h"
#include "tenon/adapter/composition.h"
#include "tenon/adapter/options.h"
#include "tenon/adapter/resident.h"
#include "tenon/core/request.h"
#include "tenon/device/cpu.h"

namespace tenon {

/// Thread-safe. The first request for an adapter loads it in the caller's thread; concurrent requests wait for the same
/// load. The adapters of a lease are never dropped or changed, even if their names are unloaded or replaced.
template <DevicePolicy D>
class AdapterStore {
 public:
  using Resident = ResidentAdapter<D>;
  using Handle = std::shared_ptr<const Resident>;

  /// make_device: makes a device for one load. Loads share no device with each other or with the engine. base: outlives
  /// the store; empty: adapters that change more than low-rank updates are refused.
  AdapterStore(std::function<D()> make_device, AdapterSites sites, AdapterOptions options = {}, BaseWeights base = {});

  AdapterStore(const AdapterStore&) = delete;
  AdapterStore& operator=(const AdapterStore&) = delete;

  /// Leases the adapters of a request and loads those that are not resident. No `uses`: an empty lease. If the budget
  /// is exhausted by adapters in use, the call waits its turn in the admission queue; by default it does not wait.
  /// Errors: those of reading an adapter; overloaded, if the budget is exhausted now; capacity, if the limits are too
  /// small for the request; invalid_request, for a weight that is not finite or too many adapters.
  AdapterLease lease(std::span<const AdapterUse> uses, Patience patience = {});

  /// Whether this store issued the lease: factors are laid out for one engine's model. True without adapters.
  bool is_own(const AdapterLease& lease) const { return !lease.set || lease.owner == queue_.get(); }

  /// Loads the adapter in a thread of its own, for requests to come. get() throws the errors of lease(). The future's
  /// destructor waits for the load; the store must outlive the future.
  [[nodiscard]] std::future<void> prefetch(std::string name);

  /// Loads the adapter if necessary and exempts it from eviction. Errors: those of reading it, overloaded, capacity.
  void pin(const std::string& name);
  /// Makes the adapter evictable again. False if it was not pinned.
  bool unpin(const std::string& name);

  /// Forgets the name and its replacement folder; leases keep their adapters. False if no adapter was resident.
  bool unload(const std::string& name);

  /// Compare and swap: loads `folder` and makes `name` stand for it if the name's digest is `expected` (empty: none
  /// known). Returns the new digest. Error invalid_request if the digest differs; errors of reading the folder.
  std::string replace(const std::string& name, const std::filesystem::path& folder, const std::string& expected);

  /// The resident adapters, sorted by name.
  std::vector<AdapterInfo> list() const;

  /// The name that belongs to the number `adapter` of a Candidate, Served or StepRow; empty for -1.
  std::string name_of(int adapter) const;

  /// A snapshot of the counts.
  AdapterStats stats() const;

 private:
  using Budget = AdapterBudget<Resident>;
  using Reservation = typename Budget::Reservation;

  struct Entry {
    Handle resident = {};
    std::string digest = {};            // digest of the last resident adapter
    std::filesystem::path folder = {};  // folder given to replace(); empty: options.folder_of decides
    bool loading = false, pinned = false;
    std::uint64_t loaded = 0, used = 0;  // times by clock_
    std::uint64_t generation = 0;        // counts unload and replace
    std::optional<Error> failure = {};
    TimePoint retry_at{};
  };

  // Thrown when the budget is exhausted now. It may suffice later, so the request may wait.
  class BudgetExhausted : public Error {
    using Error::Error;
  };

  static AdapterOptions checked(AdapterOptions o);

  void check(std::span<const AdapterUse> uses) const;

  AdapterLease lease_now(std::span<const AdapterUse> uses, AdmissionQueue::Waiter& waiter);

  bool all_usable(std::span<const AdapterUse> uses, const AdmissionQueue::Waiter& waiter) const;

  // Asks the adapter in use that was loaded first to yield.
  void request_yield(AdmissionQueue::Waiter& waiter) const;

  // Adds the adapter's name to errors, for compositions.
  Handle acquire_one_of_several(const std::string& name, AdmissionQueue::Waiter& waiter);

  int tenant_of(const std::string& name);

  // waiter: null for calls of the operator, which bypass the queue.
  Handle acquire(const std::string& name, AdmissionQueue::Waiter* waiter);

  // Other threads wait for the load of this name during its lifetime. Construct and destroy it under the lock.
  class Loading {
   public:
    Loading(AdapterStore& store, const std::string& name, std::unique_lock<std::mutex>& lock)
        : store_(store), name_(name), lock_(lock) {
      store_.entries_[name_].loading = true;
    }
    Loading(const Loading&) = delete;
    ~Loading() {
      if (!lock_.owns_lock()) lock_.lock();
      if (const auto found = store_.entries_.find(name_); found != store_.entries_.end()) found->second.loading = false;
      store_.loaded_.notify_all();
    }

   private:
    AdapterStore& store_;
    const std::string& name_;
    std::unique_lock<std::mutex>& lock_;
  };

  // Remembers a failure, so that a client that retries often does not cause a read each time. An exhausted budget is
  // not remembered: it may be free the next moment. Also drops entries that hold nothing but an old failure.
  void remember(const std::string& name, const Error& error);

  Reservation load(const std::filesystem::path& folder, const AdmissionQueue::Waiter* waiter);

  // Reserves budget for `bytes`. Evicts idle adapters, least recently used first, or none if that would not suffice.
  Reservation reserve(std::size_t bytes, const AdmissionQueue::Waiter* waiter);

  BudgetExhausted budget_exhausted() const;

  const std::function<D()> make_device_;
  const AdapterSites sites_;
  const BaseWeights base_;
  const std::vector<PeftModule> modules_;
  const AdapterOptions options_;
  const std::shared_ptr<AdmissionQueue> queue_ = std::make_shared<AdmissionQueue>();  // leases may outlive the store
  Compositions<D> compositions_;

  mutable std::mutex mutex_;  // guards all below; never held while files are read
  std::condition_variable loaded_;
  std::map<std::string, Entry> entries_;
  Budget budget_{options_.count, options_.bytes, queue_};
  TimePoint forget_at_{};
  std::map<std::string, int> tenants_;  // numbers of names, for policies that are fair between adapters
  std::uint64_t clock_ = 0;
  AdapterStats stats_;
};

#ifdef TENON_COMPILED
extern template class ResidentAdapter<Cpu>;
extern template class AdapterStore<Cpu>;
#endif

}  // namespace tenon

#include "tenon/adapter/store_members.h"
