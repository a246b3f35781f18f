// The adapters that a device holds: loaded on first use, shared by all who use them, and given back when others need
// the room.
#pragma once
#include <algorithm>
#include <bit>
#include <charconv>
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

// Safe from any number of threads. Whoever asks first for an adapter loads it, in the caller's thread; others who ask
// meanwhile wait for the same load. What a lease holds is never dropped or changed, whatever happens to its name.
template <DevicePolicy D>
class AdapterStore {
 public:
  using Resident = ResidentAdapter<D>;
  using Handle = std::shared_ptr<const Resident>;

  // make_device: a device for one load, so that loads share nothing with each other or with the engine.
  AdapterStore(std::function<D()> make_device, AdapterSites sites, AdapterOptions options = {})
      : make_device_(std::move(make_device)),
        sites_(std::move(sites)),
        modules_(sites_.modules()),
        options_(checked(options)) {}

  AdapterStore(const AdapterStore&) = delete;
  AdapterStore& operator=(const AdapterStore&) = delete;

  // What a request runs under, loaded where it is not there yet. Where the adapters in use leave no room it waits,
  // first come first served; by default not at all. Errors: what reading the adapter says; overloaded where there is no
  // room now, capacity where there can be none; invalid_request for weights that are not finite.
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
        queue_->notify_changed();  // what the attempt has held
        throw;
      } catch (...) {
        queue_->notify_changed();
        throw;
      }
    }
  }

  // Whether the lease is of this store: factors are laid out for one engine's model. One of no adapter is anybody's.
  bool is_own(const AdapterLease& lease) const { return !lease.set || lease.owner == queue_.get(); }

  // Loads it in a thread of its own, for requests that will come. get() throws what lease would; the future's
  // destructor waits, and the store must outlive it.
  [[nodiscard]] std::future<void> prefetch(std::string name) {
    return std::async(std::launch::async, [this, name = std::move(name)] {
      acquire(name, nullptr);
      queue_->notify_changed();  // nobody uses it yet
    });
  }

  // A pinned adapter is loaded, and stays.
  void pin(const std::string& name) {
    for (;;) {
      Handle held = acquire(name, nullptr);
      std::lock_guard lock(mutex_);
      const auto found = entries_.find(name);
      const bool stands =
          found != entries_.end() && found->second.resident == held;  // not unloaded or replaced meanwhile
      if (stands) found->second.pinned = true;
      held.reset();
      queue_->notify_changed();
      if (stands) return;
    }
  }
  bool unpin(const std::string& name) {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end() || !std::exchange(found->second.pinned, false)) return false;
    queue_->notify_changed();
    return true;
  }

  // Forgets the name and where it was replaced; leases keep what they hold. False where nothing was resident under it.
  bool unload(const std::string& name) {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end()) return false;
    const bool known = found->second.resident != nullptr;
    if (found->second.loading) {
      Entry loading;  // in parts: nvcc 13.0 takes no designated initializers here
      loading.loading = true;
      loading.generation = found->second.generation + 1;
      found->second = std::move(loading);
    } else {
      entries_.erase(found);
    }
    queue_->notify_changed();
    return known;
  }

  // From now on the name means what the folder holds: if it means `expected`, a digest, or nothing where that is empty
  // (compare and swap). Gives the new digest. Error invalid_request where it means something else; what reading says.
  std::string replace(const std::string& name, const std::filesystem::path& folder, const std::string& expected) {
    Reservation reservation = load(folder, nullptr);
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    const std::string current = found == entries_.end() ? std::string() : found->second.digest;
    if (current != expected) {
      throw Error(Error::Kind::invalid_request, "digest",
                  current.empty() ? "no adapter of that name is known" : "the adapter is " + current + " by now");
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

  // Those that are resident, by name.
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

  // The name that a Candidate's, Served's or StepRow's `adapter` stands for; empty for -1.
  std::string name_of(int adapter) const {
    std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(tenants_.begin(), tenants_.end(), [&](const auto& each) { return each.second == adapter; });
    return found == tenants_.end() ? "" : found->first;
  }

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
    std::string digest = {};            // of what was resident last
    std::filesystem::path folder = {};  // where it was replaced; else options.folder_of says
    bool loading = false, pinned = false;
    std::uint64_t loaded = 0, used = 0;  // when, by clock_
    std::uint64_t generation = 0;        // counts unload and replace
    std::optional<Error> failure = {};
    TimePoint retry_at{};
  };

  // There may be room later.
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
      throw budget_exhausted();  // before anything is held that the first may need
    std::vector<Handle> handles;
    std::string identity;
    try {
      for (const AdapterUse& use : uses) {
        handles.push_back(uses.size() == 1 ? acquire(use.name, &waiter) : acquire_one_of_several(use.name, waiter));
        identity += handles.back()->digest() + "*" + hex(std::bit_cast<std::uint32_t>(use.weight)) + ";";
      }
    } catch (const BudgetExhausted&) {
      const bool held = !std::exchange(handles, {}).empty();
      if (held && !waiter.is_first()) queue_->notify_changed();  // who has become the first may have found them in use
      throw;
    }
    const int tenant = tenant_of(uses.front().name);
    const auto hold = [&](auto owner, const AdapterSet& set) {
      return AdapterLease{{std::make_shared<const NotifyingHold>(std::move(owner), queue_), &set},
                          std::move(identity),
                          tenant,
                          queue_.get()};
    };
    if (uses.size() == 1 && uses.front().weight == 1) {
      const AdapterSet& set = handles.front()->set();
      return hold(std::move(handles.front()), set);
    }
    auto composed = compositions_.get(identity, uses, std::move(handles), make_device_);
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

  // Of those that are in use, the one that came first.
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

  static std::string hex(std::uint32_t bits) {
    char text[9];
    const auto end = std::to_chars(text, text + 8, bits, 16).ptr;
    return {text, end};
  }

  // Errors of a composition say which of its adapters they are about.
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

  // waiter: null for the operator, who does not stand in line.
  Handle acquire(const std::string& name, AdmissionQueue::Waiter* waiter) {
    std::unique_lock lock(mutex_);
    for (;;) {
      Entry& entry = entries_[name];
      if (entry.resident) {
        if (waiter && !waiter->may_use(name))
          throw BudgetExhausted(Error::Kind::overloaded, "adapter", "it yields to those who wait");
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
      if (now.generation != generation) continue;  // it means something else by now
      now.resident = reservation->keep();
      now.digest = now.resident->digest();
      now.loaded = now.used = ++clock_;
      return now.resident;
    }
  }

  // While it lives others wait for the load of this name. Under the lock at both ends.
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

  // Nothing but a failure is known of the name: for a while it is answered at once, so that a client that asks again
  // and again does not read the disk as often. A lack of room may be over the next moment.
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
    Reservation reservation = reserve(Resident::bytes_of(adapter), waiter);
    D device = make_device_();
    reservation.fill(std::make_shared<const Resident>(device, adapter, sites_));
    adapter.tensors().verify_unchanged();
    device.synchronize();
    std::lock_guard lock(mutex_);
    ++stats_.loads;
    return reservation;
  }

  // Room for one more of so many bytes. What is used longest ago goes, of those that nobody uses; nothing goes where
  // that would not be enough.
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
            "no room for it: what is resident is in use, pinned or being loaded, or others wait (adapters.count " +
                std::to_string(options_.count) + ", adapters.bytes " + std::to_string(options_.bytes) + ")"};
  }

  const std::function<D()> make_device_;
  const AdapterSites sites_;
  const std::vector<PeftModule> modules_;
  const AdapterOptions options_;
  const std::shared_ptr<AdmissionQueue> queue_ = std::make_shared<AdmissionQueue>();  // leases may outlive the store
  Compositions<D> compositions_;

  mutable std::mutex mutex_;  // guards all below; never held while files are read
  std::condition_variable loaded_;
  std::map<std::string, Entry> entries_;
  Budget budget_{options_.count, options_.bytes, queue_};
  TimePoint forget_at_{};
  std::map<std::string, int> tenants_;  // numbers of names, for policies that share time
  std::uint64_t clock_ = 0;
  AdapterStats stats_;
};

#ifdef TENON_COMPILED
extern template class ResidentAdapter<Cpu>;
extern template class AdapterStore<Cpu>;
#endif

}  // namespace tenon
