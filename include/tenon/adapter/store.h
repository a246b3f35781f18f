// The adapters on a device: loaded on first use, shared by requests, evicted when others need the budget.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
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
#include <set>
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
#include "tenon/io/file.h"

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
  AdapterStore(std::function<D()> make_device, AdapterSites sites, AdapterOptions options = {}, BaseWeights base = {})
      : make_device_(std::move(make_device)),
        sites_(std::move(sites)),
        base_(std::move(base)),
        modules_(sites_.modules()),
        options_(checked(options)) {}

  AdapterStore(const AdapterStore&) = delete;
  AdapterStore& operator=(const AdapterStore&) = delete;

  /// Leases the adapters of a request and loads those that are not resident. No `uses`: an empty lease. If the budget
  /// is exhausted by adapters in use, the call waits its turn in the admission queue; by default it does not wait.
  /// Errors: those of reading an adapter; overloaded, if the budget is exhausted now; capacity, if the limits are too
  /// small for the request; invalid_request, for a weight that is not finite or too many adapters.
  AdapterLease lease(std::span<const AdapterUse> uses, Patience patience = {}) {
    if (uses.empty()) return {};
    check(uses);
    AdmissionQueue::Waiter waiter(*queue_, std::move(patience));
    for (;;) {
      const std::uint64_t seen = queue_->change_count();
      try {
        return lease_now(uses, waiter);
      } catch (const BudgetExhausted&) {
        waiter.join();
        request_yield(waiter);
        if (waiter.wait(seen)) continue;
        queue_->notify_changed();  // the attempt may have held adapters
        throw;
      } catch (...) {
        queue_->notify_changed();
        throw;
      }
    }
  }

  /// Whether this store issued the lease: factors are laid out for one engine's model. True without adapters.
  bool is_own(const AdapterLease& lease) const { return !lease.set || lease.owner == queue_.get(); }

  /// Loads the adapter in a thread of its own, for requests to come. get() throws the errors of lease(). The future's
  /// destructor waits for the load; the store must outlive the future.
  [[nodiscard]] std::future<void> prefetch(std::string name) {
    return std::async(std::launch::async, [this, name = std::move(name)] {
      acquire(name, nullptr);
      queue_->notify_changed();  // the adapter is loaded and not in use
    });
  }

  /// Loads the adapter if necessary and exempts it from eviction. Errors: those of reading it, overloaded, capacity.
  void pin(const std::string& name) {
    for (;;) {
      Handle held = acquire(name, nullptr);
      std::lock_guard lock(mutex_);
      const auto found = entries_.find(name);
      const bool stands = found != entries_.end() && found->second.resident == held;  // not unloaded or replaced
      if (stands) found->second.pinned = true;
      held.reset();
      queue_->notify_changed();
      if (stands) return;
    }
  }
  /// Makes the adapter evictable again. False if it was not pinned.
  bool unpin(const std::string& name) {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end() || !std::exchange(found->second.pinned, false)) return false;
    queue_->notify_changed();
    return true;
  }

  /// Forgets the name and its replacement folder; leases keep their adapters. False if no adapter was resident.
  bool unload(const std::string& name) {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end()) return false;
    const bool known = found->second.resident != nullptr;
    if (found->second.loading) {
      Entry loading;  // member by member: nvcc 13.0 accepts no designated initializers here
      loading.loading = true;
      loading.generation = found->second.generation + 1;
      found->second = std::move(loading);
    } else {
      entries_.erase(found);
    }
    queue_->notify_changed();
    return known;
  }

  /// Compare and swap: loads `folder` and makes `name` stand for it if the name's digest is `expected` (empty: none
  /// known). Returns the new digest. Error invalid_request if the digest differs; errors of reading the folder.
  std::string replace(const std::string& name, const std::filesystem::path& folder, const std::string& expected) {
    Reservation reservation = load(folder, nullptr);
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    const std::string current = found == entries_.end() ? std::string() : found->second.digest;
    if (current != expected) {
      throw Error(Error::Kind::invalid_request, "digest",
                  current.empty() ? "no adapter of that name is known" : "the adapter's digest is " + current + " now");
    }
    Entry& entry = entries_[name];
    entry = {.resident = reservation.keep(),
             .digest = reservation.digest(),
             .folder = folder,
             .loading = entry.loading,
             .pinned = entry.pinned,
             .used = ++clock_,
             .generation = entry.generation + 1};
    return entry.digest;
  }

  /// The resident adapters, sorted by name.
  std::vector<AdapterInfo> list() const {
    std::lock_guard lock(mutex_);
    std::vector<AdapterInfo> all;
    for (const auto& [name, entry] : entries_) {
      if (!entry.resident) continue;
      all.push_back({name, entry.resident->digest(), entry.resident->bytes(),
                     static_cast<int>(entry.resident.use_count()) - 1, entry.pinned});
    }
    return all;
  }

  /// The name that belongs to the number `adapter` of a Candidate, Served or StepRow; empty for -1.
  std::string name_of(int adapter) const {
    std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(tenants_.begin(), tenants_.end(), [&](const auto& each) { return each.second == adapter; });
    return found == tenants_.end() ? "" : found->first;
  }

  /// A snapshot of the counts.
  AdapterStats stats() const {
    std::lock_guard lock(mutex_);
    AdapterStats now = stats_;
    for (const auto& [name, entry] : entries_) now.resident += entry.resident != nullptr;
    const auto usage = budget_.used();
    now.versions = usage.count;
    now.bytes = usage.bytes;
    now.waiting = queue_->waiting();
    return now;
  }

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

  static AdapterOptions checked(AdapterOptions o) {
    detail::require(o.count >= 0, "adapters.count", "must be 0 (any number) or more");
    detail::require(o.folder_of != nullptr, "adapters.folder_of", "must not be empty");
    detail::require(o.remember_failures >= Clock::duration::zero(), "adapters.remember_failures", "must be 0 or more");
    return o;
  }

  void check(std::span<const AdapterUse> uses) const {
    if (uses.size() > kMostAdapters) {
      throw Error(Error::Kind::invalid_request, "adapter",
                  "at most " + std::to_string(kMostAdapters) + " can be added up");
    }
    std::set<std::string> names;
    for (const AdapterUse& use : uses) {
      detail::require(std::isfinite(use.weight), "adapter", "the weight of an adapter must be finite");
      names.insert(use.name);
    }
    if (options_.count > 0 && names.size() > static_cast<std::size_t>(options_.count)) {
      throw Error(
          Error::Kind::capacity, "adapter",
          std::to_string(names.size()) + " at once are more than adapters.count, " + std::to_string(options_.count));
    }
  }

  AdapterLease lease_now(std::span<const AdapterUse> uses, AdmissionQueue::Waiter& waiter) {
    if (!waiter.is_first() && !all_usable(uses, waiter))
      throw budget_exhausted();  // before holding adapters that the first request may need
    std::vector<Handle> handles;
    AdapterLease made;
    try {
      for (const AdapterUse& use : uses) {
        handles.push_back(uses.size() == 1 ? acquire(use.name, &waiter) : acquire_one_of_several(use.name, waiter));
        made.identity += handles.back()->digest() + "*" + detail::hex(std::bit_cast<std::uint32_t>(use.weight)) + ";";
        made.digests.push_back(handles.back()->digest());
        handles.back()->describe(made);
        detail::require_sum(use, uses.size() == 1, !made.invocation.empty(), handles.back()->beyond_updates());
      }
    } catch (const BudgetExhausted&) {
      const bool held = !std::exchange(handles, {}).empty();
      if (held && !waiter.is_first()) queue_->notify_changed();  // the new first request may need them
      throw;
    }
    made.tenant = tenant_of(uses.front().name);
    made.owner = queue_.get();
    const auto hold = [&](auto owner, const AdapterSet& set) {
      made.set = {std::make_shared<const NotifyingHold>(std::move(owner), queue_), &set};
      return std::move(made);
    };
    if (uses.size() == 1 && uses.front().weight == 1) {
      const AdapterSet& set = handles.front()->set();
      return hold(std::move(handles.front()), set);
    }
    auto composed = compositions_.get(made.identity, uses, std::move(handles), make_device_);
    const AdapterSet& set = composed->table.set();
    return hold(std::move(composed), set);
  }

  bool all_usable(std::span<const AdapterUse> uses, const AdmissionQueue::Waiter& waiter) const {
    std::lock_guard lock(mutex_);
    return std::all_of(uses.begin(), uses.end(), [&](const AdapterUse& use) {
      const auto found = entries_.find(use.name);
      return found != entries_.end() && found->second.resident && waiter.may_use(use.name);
    });
  }

  // Asks the adapter in use that was loaded first to yield.
  void request_yield(AdmissionQueue::Waiter& waiter) const {
    std::lock_guard lock(mutex_);
    const std::string* oldest = nullptr;
    std::uint64_t loaded = 0;
    for (const auto& [name, entry] : entries_) {
      if (!entry.resident || entry.pinned || entry.resident.use_count() == 1 || (oldest && entry.loaded > loaded))
        continue;
      oldest = &name;
      loaded = entry.loaded;
    }
    if (oldest) waiter.request_yield(*oldest);
  }

  // Adds the adapter's name to errors, for compositions.
  Handle acquire_one_of_several(const std::string& name, AdmissionQueue::Waiter& waiter) {
    try {
      return acquire(name, &waiter);
    } catch (const BudgetExhausted&) {
      throw;
    } catch (const Error& error) {
      throw Error(error.kind(), "adapter " + printable(std::filesystem::path(name).filename().string(), 60),
                  error.what());
    }
  }

  int tenant_of(const std::string& name) {
    std::lock_guard lock(mutex_);
    return tenants_.try_emplace(name, static_cast<int>(tenants_.size())).first->second;
  }

  // waiter: null for calls of the operator, which bypass the queue.
  Handle acquire(const std::string& name, AdmissionQueue::Waiter* waiter) {
    std::unique_lock lock(mutex_);
    for (;;) {
      Entry& entry = entries_[name];
      if (entry.resident) {
        if (waiter && !waiter->may_use(name))
          throw BudgetExhausted(Error::Kind::overloaded, "adapter", "requests that have waited longer come first");
        entry.used = ++clock_;
        return entry.resident;
      }
      if (entry.failure && Clock::now() < entry.retry_at) throw *entry.failure;
      if (entry.loading) {
        loaded_.wait(lock);
        continue;
      }
      const std::filesystem::path folder = entry.folder;
      const std::uint64_t generation = entry.generation;
      entry.failure.reset();
      const Loading loading(*this, name, lock);
      std::optional<Reservation> reservation;
      try {
        lock.unlock();
        reservation.emplace(load(folder.empty() ? options_.folder_of(name) : folder, waiter));
        lock.lock();
      } catch (const Error& error) {
        lock.lock();
        if (entries_[name].generation != generation) continue;
        remember(name, error);
        throw;
      }
      Entry& now = entries_[name];
      if (now.generation != generation) continue;  // the name was unloaded or replaced meanwhile
      now.resident = reservation->keep();
      now.digest = now.resident->digest();
      now.loaded = now.used = ++clock_;
      return now.resident;
    }
  }

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
  void remember(const std::string& name, const Error& error) {
    const TimePoint now = Clock::now();
    Entry& entry = entries_[name];
    if (error.kind() != Error::Kind::overloaded) {
      ++stats_.failures;
      entry.failure = error;
      entry.retry_at = now + options_.remember_failures;
    }
    if (now < forget_at_) return;
    forget_at_ = now + options_.remember_failures;
    std::erase_if(entries_, [&](const auto& each) {
      const Entry& e = each.second;
      return !e.resident && e.digest.empty() && !e.loading && !(e.failure && now < e.retry_at);
    });
  }

  Reservation load(const std::filesystem::path& folder, const AdmissionQueue::Waiter* waiter) {
    if (waiter && !waiter->is_first()) throw budget_exhausted();
    const PeftAdapter adapter = PeftAdapter::open(folder, modules_, sites_.base);
    Reservation reservation = reserve(Resident::bytes_of(adapter, sites_), waiter);
    D device = make_device_();
    reservation.fill(std::make_shared<const Resident>(device, adapter, sites_, base_));
    adapter.tensors().verify_unchanged();
    device.synchronize();
    std::lock_guard lock(mutex_);
    ++stats_.loads;
    return reservation;
  }

  // Reserves budget for `bytes`. Evicts idle adapters, least recently used first, or none if that would not suffice.
  Reservation reserve(std::size_t bytes, const AdmissionQueue::Waiter* waiter) {
    if (options_.bytes > 0 && bytes > options_.bytes) {
      throw Error(
          Error::Kind::capacity, "adapter",
          "its " + std::to_string(bytes) + " bytes are more than adapters.bytes, " + std::to_string(options_.bytes));
    }
    std::lock_guard lock(mutex_);
    if (waiter && !waiter->is_first()) throw budget_exhausted();
    typename Budget::Usage usage = budget_.used_with_reserved();
    ++usage.count;
    usage.bytes += bytes;
    std::vector<Entry*> idle;
    for (auto& [name, entry] : entries_) {
      if (entry.resident && !entry.pinned && entry.resident.use_count() == 1) idle.push_back(&entry);
    }
    std::sort(idle.begin(), idle.end(), [](const Entry* a, const Entry* b) { return a->used < b->used; });
    std::size_t drop = 0;
    for (; !budget_.admits(usage) && drop < idle.size(); ++drop) {
      --usage.count;
      usage.bytes -= idle[drop]->resident->bytes();
    }
    if (!budget_.admits(usage)) throw budget_exhausted();
    for (std::size_t i = 0; i < drop; ++i) idle[i]->resident.reset();
    stats_.evictions += drop;
    return Reservation(budget_, bytes);
  }

  BudgetExhausted budget_exhausted() const {
    return {Error::Kind::overloaded, "adapter",
            "no room for it: resident adapters are in use, pinned or being loaded, or others wait (adapters.count " +
                std::to_string(options_.count) + ", adapters.bytes " + std::to_string(options_.bytes) + ")"};
  }

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
