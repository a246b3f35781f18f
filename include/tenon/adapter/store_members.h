// The members of AdapterStore. They are defined outside the class, so they are not inline: extern templates
// (adapter/store.h) then prevent another instance in each unit.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "tenon/adapter/store.h"
#include "tenon/io/file.h"

namespace tenon {

template <DevicePolicy D>
AdapterStore<D>::AdapterStore(std::function<D()> make_device, AdapterSites sites, AdapterOptions options,
                              BaseWeights base)
    : make_device_(std::move(make_device)),
      sites_(std::move(sites)),
      base_(std::move(base)),
      modules_(sites_.modules()),
      options_(checked(options)) {}

template <DevicePolicy D>
AdapterLease AdapterStore<D>::lease(std::span<const AdapterUse> uses, Patience patience) {
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

template <DevicePolicy D>
std::future<void> AdapterStore<D>::prefetch(std::string name) {
  return std::async(std::launch::async, [this, name = std::move(name)] {
    acquire(name, nullptr);
    queue_->notify_changed();  // the adapter is loaded and not in use
  });
}

template <DevicePolicy D>
void AdapterStore<D>::pin(const std::string& name) {
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

template <DevicePolicy D>
bool AdapterStore<D>::unpin(const std::string& name) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end() || !std::exchange(found->second.pinned, false)) return false;
  queue_->notify_changed();
  return true;
}

template <DevicePolicy D>
bool AdapterStore<D>::unload(const std::string& name) {
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

template <DevicePolicy D>
std::string AdapterStore<D>::replace(const std::string& name, const std::filesystem::path& folder,
                                     const std::string& expected) {
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

template <DevicePolicy D>
std::vector<AdapterInfo> AdapterStore<D>::list() const {
  std::lock_guard lock(mutex_);
  std::vector<AdapterInfo> all;
  for (const auto& [name, entry] : entries_) {
    if (!entry.resident) continue;
    all.push_back({name, entry.resident->digest(), entry.resident->bytes(),
                   static_cast<int>(entry.resident.use_count()) - 1, entry.pinned});
  }
  return all;
}

template <DevicePolicy D>
std::string AdapterStore<D>::name_of(int adapter) const {
  std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(tenants_.begin(), tenants_.end(), [&](const auto& each) { return each.second == adapter; });
  return found == tenants_.end() ? "" : found->first;
}

template <DevicePolicy D>
AdapterStats AdapterStore<D>::stats() const {
  std::lock_guard lock(mutex_);
  AdapterStats now = stats_;
  for (const auto& [name, entry] : entries_) now.resident += entry.resident != nullptr;
  const auto usage = budget_.used();
  now.versions = usage.count;
  now.bytes = usage.bytes;
  now.waiting = queue_->waiting();
  return now;
}

template <DevicePolicy D>
AdapterOptions AdapterStore<D>::checked(AdapterOptions o) {
  detail::require(o.count >= 0, "adapters.count", "must be 0 (any number) or more");
  detail::require(o.folder_of != nullptr, "adapters.folder_of", "must not be empty");
  detail::require(o.remember_failures >= Clock::duration::zero(), "adapters.remember_failures", "must be 0 or more");
  return o;
}

template <DevicePolicy D>
void AdapterStore<D>::check(std::span<const AdapterUse> uses) const {
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

template <DevicePolicy D>
AdapterLease AdapterStore<D>::lease_now(std::span<const AdapterUse> uses, AdmissionQueue::Waiter& waiter) {
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

template <DevicePolicy D>
bool AdapterStore<D>::all_usable(std::span<const AdapterUse> uses, const AdmissionQueue::Waiter& waiter) const {
  std::lock_guard lock(mutex_);
  return std::all_of(uses.begin(), uses.end(), [&](const AdapterUse& use) {
    const auto found = entries_.find(use.name);
    return found != entries_.end() && found->second.resident && waiter.may_use(use.name);
  });
}

template <DevicePolicy D>
void AdapterStore<D>::request_yield(AdmissionQueue::Waiter& waiter) const {
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

template <DevicePolicy D>
typename AdapterStore<D>::Handle AdapterStore<D>::acquire_one_of_several(const std::string& name,
                                                                         AdmissionQueue::Waiter& waiter) {
  try {
    return acquire(name, &waiter);
  } catch (const BudgetExhausted&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.kind(), "adapter " + printable(std::filesystem::path(name).filename().string(), 60),
                error.what());
  }
}

template <DevicePolicy D>
int AdapterStore<D>::tenant_of(const std::string& name) {
  std::lock_guard lock(mutex_);
  return tenants_.try_emplace(name, static_cast<int>(tenants_.size())).first->second;
}

template <DevicePolicy D>
typename AdapterStore<D>::Handle AdapterStore<D>::acquire(const std::string& name, AdmissionQueue::Waiter* waiter) {
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

template <DevicePolicy D>
void AdapterStore<D>::remember(const std::string& name, const Error& error) {
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

template <DevicePolicy D>
typename AdapterStore<D>::Reservation AdapterStore<D>::load(const std::filesystem::path& folder,
                                                            const AdmissionQueue::Waiter* waiter) {
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

template <DevicePolicy D>
typename AdapterStore<D>::Reservation AdapterStore<D>::reserve(std::size_t bytes,
                                                               const AdmissionQueue::Waiter* waiter) {
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

template <DevicePolicy D>
typename AdapterStore<D>::BudgetExhausted AdapterStore<D>::budget_exhausted() const {
  return {Error::Kind::overloaded, "adapter",
          "no room for it: resident adapters are in use, pinned or being loaded, or others wait (adapters.count " +
              std::to_string(options_.count) + ", adapters.bytes " + std::to_string(options_.bytes) + ")"};
}

}  // namespace tenon
