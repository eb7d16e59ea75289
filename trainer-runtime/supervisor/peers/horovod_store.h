#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace lockstep::runtime {

// A job whose ranks meet by Horovod, and the bounds of what they may leave here.
struct HorovodStoreOptions {
  int world_size = 1;
  int processes = 1;  // of each pod
  std::size_t name_bytes_max = 0;
  std::size_t value_bytes_max = 0;
  std::size_t key_count_max = 0;
  std::size_t total_bytes_max = 0;  // of all keys and values
};

// Bounds that no Horovod program of so many ranks comes near, in memory that a pod has.
HorovodStoreOptions HorovodStoreFor(int world_size, int processes);

enum class HorovodPut {
  kStored,
  kValueTooLong,
  kTooManyKeys,
  kTooManyBytes,
};

// What the ranks of a Horovod program tell each other before they are connected. A scope is a group
// of ranks, which has two keys of each:
//
//   global/rank_3          name of the machine of rank 3
//   global/3               where rank 3 listens, for each of the others in turn
//   local_HOST/...         the same among the ranks of one pod, by local rank
//   cross_LOCAL_RANK/...   the same among ranks of one local rank, by pod
//   SCOPE_process_set_...  the same again for each process set of the program
//
// A rank that is connected to all others of a scope says that it has finished: its key is not read
// again by Horovod 0.28, but older ones may still be reading, so in the first three kinds of scope,
// whose sizes are known, all keys stay until all ranks have finished. In others the key goes.
// Source: horovod/runner/http/http_server.py of 0.28.1, whose mistake of forgetting what was
// finished in all scopes with the end of one is not kept.
class HorovodStore {
 public:
  explicit HorovodStore(HorovodStoreOptions options);

  // Whether both names are within their bound, not empty and without a slash.
  bool IsName(std::string_view scope, std::string_view key) const;

  // Keeps the value, in the place of an older one; nothing is kept where a bound would be passed.
  // Precondition (checked) of this and what follows: IsName.
  HorovodPut Put(const std::string& scope, const std::string& key, std::string value);

  // The value; null where nobody has put one. Lives until the next Put or Finish.
  const std::string* Find(std::string_view scope, std::string_view key) const;

  // What is not there has finished long ago, or was never begun: nothing happens.
  void Finish(const std::string& scope, const std::string& key);

  std::size_t key_count() const { return key_count_; }

  std::size_t total_bytes() const { return total_bytes_; }

 private:
  struct Scope {
    std::map<std::string, std::string, std::less<>> values;
    std::set<std::string> finished;  // keys
  };

  using Scopes = std::map<std::string, Scope, std::less<>>;

  std::optional<std::size_t> SizeOf(std::string_view scope) const;
  void Erase(Scopes::iterator scope, const std::string& key);
  void EraseAll(Scopes::iterator scope);

  const HorovodStoreOptions options_;
  Scopes scopes_;
  std::size_t key_count_ = 0;
  std::size_t total_bytes_ = 0;
};

}  // namespace lockstep::runtime
