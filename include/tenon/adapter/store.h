// The adapters that a device holds: loaded on first use, shared by all who use them, and given back when others need the room.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <condition_variable>
#include <cstddef>
#include <cmath>
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

#include "tenon/adapter/options.h"
#include "tenon/adapter/resident.h"
#include "tenon/core/json.h"
#include "tenon/core/request.h"

namespace tenon {

// Safe from any number of threads. Whoever asks first for an adapter loads it, in the caller's thread; others who ask meanwhile
// wait for the same load. What a lease holds is never dropped or changed, whatever happens to its name.
template <DevicePolicy D>
class AdapterStore {
 public:
  using Resident = ResidentAdapter<D>;
  using Handle = std::shared_ptr<const Resident>;

  // make_device: a device for one load, so that loads share nothing with each other or with the engine.
  AdapterStore(std::function<D()> make_device, AdapterSites sites, AdapterOptions options = {})
      : make_device_(std::move(make_device)), sites_(std::move(sites)), modules_(sites_.modules()), options_(checked(options)) {}

  AdapterStore(const AdapterStore&) = delete;
  AdapterStore& operator=(const AdapterStore&) = delete;

  // What a request runs under, loaded where it is not there yet. Errors: what reading the adapter says; capacity where the
  // adapters in use leave no room; invalid_request for weights that are not finite.
  AdapterLease lease(std::span<const AdapterUse> uses) {
    if (uses.empty()) return {};
    if (uses.size() > kMostAdapters) {
      throw Error(Error::Kind::invalid_request, "adapter", "at most " + std::to_string(kMostAdapters) + " can be added up");
    }
    std::vector<Handle> handles;
    std::string identity;
    for (const AdapterUse& use : uses) {
      detail::require(std::isfinite(use.weight), "adapter", "the weight of an adapter must be finite");
      handles.push_back(uses.size() == 1 ? acquire(use.name) : acquire_one_of_several(use.name));
      identity += handles.back()->digest() + "*" + hex(std::bit_cast<std::uint32_t>(use.weight)) + ";";
    }
    const int tenant = tenant_of(uses.front().name);
    if (uses.size() == 1 && uses.front().weight == 1) {
      const Handle& only = handles.front();
      return {std::shared_ptr<const AdapterSet>(only, &only->set()), std::move(identity), tenant};
    }
    std::shared_ptr<const Composition> composed = composition(identity, uses, std::move(handles));
    const AdapterSet* set = &composed->table.set();
    return {std::shared_ptr<const AdapterSet>(std::move(composed), set), std::move(identity), tenant};
  }

  // Loads it in a thread of its own, for requests that will come. get() throws what lease would; the future's destructor waits,
  // and the store must outlive it.
  [[nodiscard]] std::future<void> prefetch(std::string name) {
    return std::async(std::launch::async, [this, name = std::move(name)] { acquire(name); });
  }

  // A pinned adapter is loaded, and stays.
  void pin(const std::string& name) {
    for (;;) {
      const Handle held = acquire(name);
      std::lock_guard lock(mutex_);
      const auto found = entries_.find(name);
      if (found == entries_.end() || found->second.resident != held) continue;  // it was unloaded or replaced meanwhile
      found->second.pinned = true;
      return;
    }
  }
  bool unpin(const std::string& name) {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    return found != entries_.end() && std::exchange(found->second.pinned, false);
  }

  // Forgets the name and where it was replaced; leases keep what they hold. False where nothing was resident under it.
  bool unload(const std::string& name) {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end()) return false;
    const bool known = found->second.resident != nullptr;
    if (found->second.loading) {
      found->second = {.loading = true, .generation = found->second.generation + 1};
    } else {
      entries_.erase(found);
    }
    return known;
  }

  // From now on the name means what the folder holds: if it means `expected`, a digest, or nothing where that is empty (compare
  // and swap). Gives the new digest. Error invalid_request where it means something else; what reading says.
  std::string replace(const std::string& name, const std::filesystem::path& folder, const std::string& expected) {
    Reservation room = load(folder);
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    const std::string current = found == entries_.end() ? std::string() : found->second.digest;
    if (current != expected) {
      throw Error(Error::Kind::invalid_request, "digest",
                  current.empty() ? "no adapter of that name is known" : "the adapter is " + current + " by now");
    }
    Entry& entry = entries_[name];
    entry = {.resident = room.keep(), .digest = room.digest(), .folder = folder, .loading = entry.loading,
             .pinned = entry.pinned, .used = ++clock_, .generation = entry.generation + 1};
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

  AdapterStats stats() const {
    std::lock_guard lock(mutex_);
    AdapterStats now = stats_;
    for (const auto& [name, entry] : entries_) now.resident += entry.resident != nullptr;
    for (const auto& each : versions_) {
      if (const Handle version = each.lock()) ++now.versions, now.bytes += version->bytes();
    }
    return now;
  }

 private:
  struct Entry {
    Handle resident = {};
    std::string digest = {};                    // of what was resident last
    std::filesystem::path folder = {};          // where it was replaced; else options.folder_of says
    bool loading = false, pinned = false;
    std::uint64_t used = 0, generation = 0;     // generation: counts unload and replace
    std::optional<Error> failure = {};
    TimePoint retry_at{};
  };

  // Several adapters as one set: their factors, scales times weights.
  struct Composition {
    std::vector<Handle> adapters;
    UpdateTable<D> table;
  };

  // An adapter that was read, and its place within the limits until it is kept, or dropped.
  class Reservation {
   public:
    Reservation(AdapterStore& store, std::size_t bytes) : store_(&store), bytes_(bytes) {
      store_->reserved_bytes_ += bytes_;
      ++store_->reserved_;
    }
    Reservation(Reservation&& other) noexcept
        : store_(std::exchange(other.store_, nullptr)), bytes_(other.bytes_), handle_(std::move(other.handle_)) {}
    Reservation& operator=(Reservation&&) = delete;
    ~Reservation() { give_back(); }

    void fill(Handle handle) { handle_ = std::move(handle); }
    const std::string& digest() const { return handle_->digest(); }
    // Under the store's mutex: from now on it is counted as what it is.
    Handle keep() {
      store_->versions_.push_back(handle_);
      give_back();
      return handle_;
    }

   private:
    void give_back() {
      if (!store_) return;
      store_->reserved_bytes_ -= bytes_;
      --store_->reserved_;
      store_ = nullptr;
    }

    AdapterStore* store_;
    std::size_t bytes_;
    Handle handle_;
  };

  static AdapterOptions checked(AdapterOptions o) {
    detail::require(o.count >= 0, "adapters.count", "must be 0 (any number) or more");
    detail::require(o.folder_of != nullptr, "adapters.folder_of", "must not be empty");
    detail::require(o.remember_failures >= Clock::duration::zero(), "adapters.remember_failures", "must be 0 or more");
    return o;
  }

  static std::string hex(std::uint32_t bits) {
    char text[9];
    const auto end = std::to_chars(text, text + 8, bits, 16).ptr;
    return {text, end};
  }

  // Errors of a composition say which of its adapters they are about.
  Handle acquire_one_of_several(const std::string& name) {
    try {
      return acquire(name);
    } catch (const Error& error) {
      throw Error(error.kind(), "adapter " + printable(std::filesystem::path(name).filename().string(), 60), error.what());
    }
  }

  int tenant_of(const std::string& name) {
    std::lock_guard lock(mutex_);
    return tenants_.try_emplace(name, static_cast<int>(tenants_.size())).first->second;
  }

  Handle acquire(const std::string& name) {
    std::unique_lock lock(mutex_);
    for (;;) {
      Entry& entry = entries_[name];
      if (entry.resident) {
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
      std::optional<Reservation> room;
      try {
        lock.unlock();
        room.emplace(load(folder.empty() ? options_.folder_of(name) : folder));
        lock.lock();
      } catch (const Error& error) {
        lock.lock();
        if (entries_[name].generation != generation) continue;
        remember(name, error);
        throw;
      }
      Entry& now = entries_[name];
      if (now.generation != generation) continue;  // it means something else by now
      now.resident = room->keep();
      now.digest = now.resident->digest();
      now.used = ++clock_;
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

  // Nothing but a failure is known of the name: for a while it is answered at once, so that a client that asks again and again
  // does not read the disk as often. A lack of room may be over the next moment.
  void remember(const std::string& name, const Error& error) {
    ++stats_.failures;
    const TimePoint now = Clock::now();
    Entry& entry = entries_[name];
    if (error.kind() != Error::Kind::capacity) {
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

  Reservation load(const std::filesystem::path& folder) {
    const PeftAdapter adapter = PeftAdapter::open(folder, modules_);
    Reservation room = reserve(Resident::bytes_of(adapter));
    D device = make_device_();
    room.fill(std::make_shared<const Resident>(device, adapter, sites_));
    adapter.tensors().verify_unchanged();
    device.synchronize();
    std::lock_guard lock(mutex_);
    ++stats_.loads;
    return room;
  }

  // Room for one more of so many bytes. What is used longest ago goes, of those that nobody uses; nothing goes where that
  // would not be enough.
  Reservation reserve(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    std::erase_if(versions_, [](const auto& each) { return each.expired(); });
    int count = reserved_ + 1 + static_cast<int>(versions_.size());
    std::size_t total = reserved_bytes_ + bytes;
    for (const auto& each : versions_) {
      if (const Handle version = each.lock()) total += version->bytes();
    }
    const auto fits = [&] {
      return (options_.count == 0 || count <= options_.count) && (options_.bytes == 0 || total <= options_.bytes);
    };
    std::vector<Entry*> idle;
    for (auto& [name, entry] : entries_) {
      if (entry.resident && !entry.pinned && entry.resident.use_count() == 1) idle.push_back(&entry);
    }
    std::sort(idle.begin(), idle.end(), [](const Entry* a, const Entry* b) { return a->used < b->used; });
    std::size_t drop = 0;
    for (; !fits() && drop < idle.size(); ++drop) {
      --count;
      total -= idle[drop]->resident->bytes();
    }
    if (!fits()) {
      throw Error(Error::Kind::capacity, "adapter",
                  "no room for it: what is resident is in use, pinned or being loaded (adapters.count " +
                      std::to_string(options_.count) + ", adapters.bytes " + std::to_string(options_.bytes) + ")");
    }
    for (std::size_t i = 0; i < drop; ++i) idle[i]->resident.reset();
    stats_.evictions += drop;
    return Reservation(*this, bytes);
  }

  std::shared_ptr<const Composition> composition(const std::string& identity, std::span<const AdapterUse> uses,
                                                 std::vector<Handle> handles) {
    const auto known = [&]() -> std::shared_ptr<const Composition> {
      const auto found = compositions_.find(identity);
      return found == compositions_.end() ? nullptr : found->second.lock();
    };
    {
      std::lock_guard lock(mutex_);
      if (auto found = known()) return found;
    }
    std::vector<std::vector<LowRank>> by_place(handles.front()->by_place().size());
    for (std::size_t i = 0; i < handles.size(); ++i) {
      for (std::size_t place = 0; place < by_place.size(); ++place) {
        for (LowRank update : handles[i]->by_place()[place]) {
          update.scale = static_cast<float>(static_cast<double>(update.scale) * static_cast<double>(uses[i].weight));
          detail::require(std::isfinite(update.scale), "adapter", "its weight times its scale is beyond float32");
          by_place[place].push_back(update);
        }
      }
    }
    D device = make_device_();
    auto made = std::make_shared<const Composition>(Composition{std::move(handles), UpdateTable<D>(device, by_place)});
    device.synchronize();
    std::lock_guard lock(mutex_);
    if (auto found = known()) return found;  // equal pointers are equal adapters: the first one made is everybody's
    std::erase_if(compositions_, [](const auto& each) { return each.second.expired(); });
    compositions_[identity] = made;
    return made;
  }

  const std::function<D()> make_device_;
  const AdapterSites sites_;
  const std::vector<PeftModule> modules_;
  const AdapterOptions options_;

  std::atomic<int> reserved_ = 0;  // loads under way; changed under the mutex or on the way out of a load
  std::atomic<std::size_t> reserved_bytes_ = 0;
  mutable std::mutex mutex_;  // guards all below; never held while files are read
  std::condition_variable loaded_;
  std::map<std::string, Entry> entries_;
  std::vector<std::weak_ptr<const Resident>> versions_;  // all that lives, whatever its name means by now
  TimePoint forget_at_{};
  std::map<std::string, std::weak_ptr<const Composition>> compositions_;  // by identity
  std::map<std::string, int> tenants_;                                     // numbers of names, for policies that share time
  std::uint64_t clock_ = 0;
  AdapterStats stats_;
};

}  // namespace tenon
