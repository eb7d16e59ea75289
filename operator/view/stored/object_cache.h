#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "operator/kubeclient/kube/reflector.h"

namespace lockstep::control {

// Whether version `a` of an object comes before version `b`. An empty version is older than all.
// Source: they are decimal integers of any length (apimachinery, CompareResourceVersion).
bool IsOlderVersion(std::string_view a, std::string_view b);

// How an object went, as far as can be told.
enum class Absence {
  kGone,        // for good
  kDeselected,  // it left the watch's selection, at a version of its own: a label may be taken off
  kUnlisted,    // a list lacks it, which may be older than what we have seen of it
};

// The uids that were removed last. Bound: those forgotten could at worst come back with a late
// watch event, which the event of their removal follows.
class RecentUids {
 public:
  // `version`: of the object when it went, the last that is known of it.
  void Insert(const std::string& uid,
              Absence absence = Absence::kGone,
              const std::string& version = "");

  bool Contains(const std::string& uid) const { return uids_.count(uid) > 0; }

  // Whether somebody has said that it went.
  bool IsGone(const std::string& uid) const {
    const auto known = uids_.find(uid);
    return known != uids_.end() && known->second.absence != Absence::kUnlisted;
  }

  // Whether it may be there in `version`, which the watch shows: it has come back since it left, or
  // never was away.
  bool MayComeBack(const std::string& uid, std::string_view version) const;

  void Erase(const std::string& uid) { uids_.erase(uid); }

 private:
  // Choice: the largest gang, of four roles with 4096 pods each; 2 MB.
  static constexpr std::size_t kCountMax = 4 * 4096;

  struct Removal {
    Absence absence = Absence::kGone;
    std::string version;
  };

  std::unordered_map<std::string, Removal> uids_;
  std::deque<std::string> order_;
};

// Who told of an object.
enum class Source {
  kWatch,
  kReply,  // to a call of our own: may be ahead of the watch
};

// The newest that is known of one kind of object, from its watch and from the replies to our own
// calls. Reads our own writes: what a reply has shown is never taken back by a watch that lags.
template <typename T>
class ObjectCache {
 public:
  struct Entry {
    kube::Item<T> item;
    bool is_watched = false;  // the watch has shown this version or a later one
  };

  using Entries = std::map<kube::ObjectKey, Entry>;

  // What a call did: `before` and `after` are null where there was, or is, nothing.
  struct Change {
    kube::ObjectKey key;
    std::shared_ptr<const T> before;
    std::shared_ptr<const T> after;
  };

  // Whether Put would take this over.
  bool IsNews(const kube::ObjectKey& key,
              const std::string& uid,
              std::string_view version,
              Source source = Source::kWatch) const {
    if (gone_.Contains(uid) && (source != Source::kWatch || !gone_.MayComeBack(uid, version))) {
      return false;
    }
    const auto known = entries_.find(key);
    return known == entries_.end() || IsOlderVersion(known->second.item.resource_version, version);
  }

  // Takes over the object unless this or something newer is known.
  Change Put(kube::Item<T> item, Source source) {
    Change change{item.key, nullptr, nullptr};
    if (!IsNews(item.key, item.uid, item.resource_version, source)) {
      const auto known = entries_.find(item.key);
      if (known != entries_.end() && source == Source::kWatch &&
          known->second.item.resource_version == item.resource_version) {
        known->second.is_watched = true;
      }
      return change;
    }
    Entry& entry = entries_[item.key];
    if (entry.item.object != nullptr && entry.item.uid != item.uid) {
      gone_.Insert(entry.item.uid);  // its name belongs to another now
    }
    gone_.Erase(item.uid);
    change.before = std::move(entry.item.object);
    change.after = item.object;
    entry = Entry{std::move(item), source == Source::kWatch};
    return change;
  }

  // The object with this uid is gone for good; with a `version`, it has left the watch's selection.
  Change Remove(const kube::ObjectKey& key,
                const std::string& uid,
                const std::string& version = "") {
    gone_.Insert(uid, version.empty() ? Absence::kGone : Absence::kDeselected, version);
    return Erase(key, uid);
  }

  // The watch's whole selection. What only our own replies have shown stays: the list may be older
  // than they are. Those are appended to `doubtful`.
  std::vector<Change> Replace(const std::vector<kube::Item<T>>& items,
                              std::vector<kube::ObjectKey>* doubtful) {
    ++list_count_;
    std::vector<Change> changes;
    std::map<kube::ObjectKey, const kube::Item<T>*> listed;
    for (const kube::Item<T>& item : items) {
      listed[item.key] = &item;
      changes.push_back(Put(item, Source::kWatch));
    }
    std::vector<kube::ObjectKey> missing;
    for (const auto& [key, entry] : entries_) {
      if (listed.count(key) > 0) {
        continue;
      }
      if (entry.is_watched) {
        missing.push_back(key);
      } else {
        doubtful->push_back(key);
      }
    }
    for (const kube::ObjectKey& key : missing) {
      const kube::Item<T> item = entries_.at(key).item;
      gone_.Insert(item.uid, Absence::kUnlisted, item.resource_version);
      changes.push_back(Erase(key, item.uid));
    }
    return changes;
  }

  // What the watch has told. Calls `note` with each change; `doubtful` as of Replace.
  template <typename Note>
  void Apply(const kube::ObjectUpdate<T>& update,
             std::vector<kube::ObjectKey>* doubtful,
             const Note& note) {
    if (const auto* replaced = std::get_if<kube::Replaced<T>>(&update)) {
      for (const Change& change : Replace(replaced->items, doubtful)) {
        note(change);
      }
    } else if (const auto* upserted = std::get_if<kube::Upserted<T>>(&update)) {
      note(Put(upserted->item, Source::kWatch));
    } else {
      const kube::Item<T>& item = std::get<kube::Deleted<T>>(update).item;
      note(Remove(item.key, item.uid, item.resource_version));
    }
  }

  // Null when nothing of that name is known.
  const kube::Item<T>* Find(const kube::ObjectKey& key) const {
    const auto known = entries_.find(key);
    return known == entries_.end() ? nullptr : &known->second.item;
  }

  // Not of what a list lacks: a label may be taken off, and the list not tell of it.
  bool IsKnownGone(const std::string& uid) const { return gone_.IsGone(uid); }

  const Entries& entries() const { return entries_; }

  // How often Replace was called.
  int64_t list_count() const { return list_count_; }

 private:
  Change Erase(const kube::ObjectKey& key, const std::string& uid) {
    Change change{key, nullptr, nullptr};
    const auto known = entries_.find(key);
    if (known != entries_.end() && known->second.item.uid == uid) {
      change.before = std::move(known->second.item.object);
      entries_.erase(known);
    }
    return change;
  }

  Entries entries_;
  RecentUids gone_;
  int64_t list_count_ = 0;
};

}  // namespace lockstep::control
