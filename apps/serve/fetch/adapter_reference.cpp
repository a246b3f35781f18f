#include "serve/fetch/adapter_reference.h"

#include <cstddef>

#include "tenon/adapter/root.h"

namespace serve {
namespace {

constexpr std::size_t kLongestRemote = 160;  // id and revision form a folder's name, of at most 255 bytes

// Whether `id` has one or more parts, separated by slashes, each a valid adapter id.
bool is_remote_id(std::string_view id) {
  if (id.size() > kLongestRemote || id.find("..") != id.npos) return false;
  for (std::size_t slash = id.find('/'); slash != id.npos; slash = id.find('/')) {
    if (!tenon::is_adapter_id(id.substr(0, slash))) return false;
    id.remove_prefix(slash + 1);
  }
  return tenon::is_adapter_id(id);
}

}  // namespace

std::string AdapterReference::text() const {
  return (source.empty() ? "" : source + ":") + id + (revision.empty() ? "" : "@" + revision);
}

std::optional<AdapterReference> adapter_reference(std::string_view name) {
  AdapterReference found;
  for (const std::string_view source : {"s3", "hub"}) {
    if (!name.starts_with(source) || name.substr(source.size(), 1) != ":") continue;
    found.source = source;
    name.remove_prefix(source.size() + 1);
    break;
  }
  const std::size_t at = name.find('@');
  found.id = name.substr(0, at);
  if (at != name.npos) {
    found.revision = name.substr(at + 1);
    constexpr std::size_t longest = 64;
    if (!tenon::is_hub_revision(found.revision) || (found.remote() && found.revision.size() > longest))
      return std::nullopt;
  }
  if (found.source == "s3" ? !is_remote_id(found.id) || at != name.npos : !tenon::is_adapter_id(found.id))
    return std::nullopt;
  if (found.remote() && found.id.size() > kLongestRemote) return std::nullopt;
  return found;
}

}  // namespace serve
