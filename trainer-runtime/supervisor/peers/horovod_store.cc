#include "trainer-runtime/supervisor/peers/horovod_store.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

constexpr std::string_view kGlobalScope = "global";
constexpr std::string_view kLocalScopes = "local_";
constexpr std::string_view kCrossScopes = "cross_";
constexpr std::string_view kProcessSetMark = "_process_set_";

// A host name of 253 bytes, and what stands around it. Choice.
constexpr std::size_t kNameBytesMax = 512;

// A rank says 136 bytes for each of the others (gloo's sockaddr_storage and a number). Nearly twice
// that, and something for small jobs. Choice.
constexpr std::size_t kValueBytes = 4096;
constexpr std::size_t kValueBytesOfRank = 256;

// Of the 12 keys of a rank 6 stay; each process set of the program adds 6, of which 3 stay. So this
// is 80 process sets of all ranks. Choice.
constexpr std::size_t kKeyCount = 1024;
constexpr std::size_t kKeyCountOfRank = 256;

// Two scopes of all ranks at once need 2 * 136 bytes for each pair. The upper bound, which 700
// ranks reach, is a choice: what a pod can spare.
constexpr std::size_t kTotalBytes = std::size_t{8} << 20U;
constexpr std::size_t kTotalBytesOfPair = 512;
constexpr std::size_t kTotalBytesMax = std::size_t{256} << 20U;

}  // namespace

HorovodStoreOptions HorovodStoreFor(int world_size, int processes) {
  LOCKSTEP_CHECK(world_size >= 1 && processes >= 1, "a job without ranks");
  const auto ranks = static_cast<std::size_t>(world_size);
  HorovodStoreOptions options;
  options.world_size = world_size;
  options.processes = processes;
  options.name_bytes_max = kNameBytesMax;
  options.value_bytes_max = kValueBytes + kValueBytesOfRank * ranks;
  options.key_count_max = kKeyCount + kKeyCountOfRank * ranks;
  options.total_bytes_max =
      std::min(kTotalBytes + kTotalBytesOfPair * ranks * ranks, kTotalBytesMax);
  return options;
}

HorovodStore::HorovodStore(HorovodStoreOptions options) : options_(options) {}

bool HorovodStore::IsName(std::string_view scope, std::string_view key) const {
  const auto is_name = [this](std::string_view name) {
    return !name.empty() && name.size() <= options_.name_bytes_max &&
           name.find('/') == std::string_view::npos;
  };
  return is_name(scope) && is_name(key);
}

HorovodPut HorovodStore::Put(const std::string& scope, const std::string& key, std::string value) {
  LOCKSTEP_CHECK(IsName(scope, key), "not a name: " + scope + "/" + key);
  if (value.size() > options_.value_bytes_max) {
    return HorovodPut::kValueTooLong;
  }
  const std::string* const older = Find(scope, key);
  if (older == nullptr && key_count_ == options_.key_count_max) {
    return HorovodPut::kTooManyKeys;
  }
  const std::size_t freed = older == nullptr ? 0 : scope.size() + key.size() + older->size();
  const std::size_t added = scope.size() + key.size() + value.size();
  if (total_bytes_ - freed + added > options_.total_bytes_max) {
    return HorovodPut::kTooManyBytes;
  }
  key_count_ += older == nullptr ? 1 : 0;
  total_bytes_ = total_bytes_ - freed + added;
  Scope& place = scopes_[scope];
  place.values[key] = std::move(value);
  place.finished.erase(key);  // a rank that meets once more has not finished
  return HorovodPut::kStored;
}

const std::string* HorovodStore::Find(std::string_view scope, std::string_view key) const {
  LOCKSTEP_CHECK(IsName(scope, key), "not a name");
  const auto place = scopes_.find(scope);
  if (place == scopes_.end()) {
    return nullptr;
  }
  const auto value = place->second.values.find(key);
  return value == place->second.values.end() ? nullptr : &value->second;
}

void HorovodStore::Finish(const std::string& scope, const std::string& key) {
  if (Find(scope, key) == nullptr) {
    return;
  }
  const auto place = scopes_.find(scope);
  const std::optional<std::size_t> size = SizeOf(scope);
  if (!size.has_value()) {
    Erase(place, key);
    return;
  }
  place->second.finished.insert(key);
  if (place->second.finished.size() == *size) {
    EraseAll(place);
  }
}

void HorovodStore::Erase(Scopes::iterator scope, const std::string& key) {
  const auto value = scope->second.values.find(key);
  --key_count_;
  total_bytes_ -= scope->first.size() + key.size() + value->second.size();
  scope->second.values.erase(value);
  if (scope->second.values.empty()) {
    scopes_.erase(scope);
  }
}

void HorovodStore::EraseAll(Scopes::iterator scope) {
  for (const auto& [key, value] : scope->second.values) {
    total_bytes_ -= scope->first.size() + key.size() + value.size();
  }
  key_count_ -= scope->second.values.size();
  scopes_.erase(scope);
}

// How many ranks a scope has; null for those of process sets, which the program makes.
std::optional<std::size_t> HorovodStore::SizeOf(std::string_view scope) const {
  if (scope == kGlobalScope) {
    return static_cast<std::size_t>(options_.world_size);
  }
  if (scope.find(kProcessSetMark) != std::string_view::npos) {
    return std::nullopt;
  }
  if (scope.substr(0, kLocalScopes.size()) == kLocalScopes) {
    return static_cast<std::size_t>(options_.processes);
  }
  if (scope.substr(0, kCrossScopes.size()) == kCrossScopes) {
    return static_cast<std::size_t>(options_.world_size / options_.processes);
  }
  return std::nullopt;
}

}  // namespace lockstep::runtime
