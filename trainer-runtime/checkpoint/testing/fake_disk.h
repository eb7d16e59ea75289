#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::runtime {

// What a power cut would leave of the files below one folder. While it lives, the program's calls
// of open, write, fsync, mkdir, rename, renameat2 and read go through it: they do their work, and
// it remembers which bytes and which folder entries nobody has flushed yet.
//
// The model is POSIX's, weaker than any real file system: bytes are safe once their file is
// flushed, an entry (a new name, or a name that now means something else) once its folder is.
// One lives at a time. Thread: the one that uses the files.
class FakeDisk {
 public:
  using PathTest = std::function<bool(const std::string& path)>;

  explicit FakeDisk(std::string root);
  ~FakeDisk();

  FakeDisk(const FakeDisk&) = delete;
  FakeDisk& operator=(const FakeDisk&) = delete;

  // From now on flushes of such paths do nothing, as though the code did not ask for them.
  void IgnoreFlushesOf(PathTest test) { is_ignored_ = std::move(test); }

  // From now on reads from such files fail with `error_number`.
  void FailReadsOf(PathTest test, int error_number);

  // From now on it cannot exchange two names, as some network file systems cannot, and `look` is
  // called after each rename.
  void RefuseExchanges(std::function<void()> look);

  // What exists and would be lost, or lose bytes. Sorted.
  std::vector<std::string> AtRisk() const;

  // Names that were given to what was not on the disk yet: a power cut between would have left a
  // name with half its content. Oldest first.
  const std::vector<std::string>& broken_promises() const { return broken_promises_; }

  // What the calls tell.
  void Opened(int fd, const char* path, bool is_new, bool is_cut);
  void Written(int fd);
  bool IsFlushIgnored(int fd) const;
  void Flushed(int fd);
  void Made(const char* path);
  void Renamed(const std::string& from, const std::string& to);

  bool MayExchange() const { return !after_rename_; }

  void Exchanged(const std::string& a, const std::string& b);
  int ReadError(int fd) const;  // 0: none

  // The one that lives; null for none.
  static FakeDisk*& Active();

 private:
  using Paths = std::set<std::string>;

  bool IsBelow(const std::string& path) const;
  void Move(const std::string& from, const std::string& to);

  std::string root_;
  PathTest is_ignored_;
  PathTest is_unreadable_;
  int read_error_ = 0;
  std::function<void()> after_rename_;
  std::map<int, std::string> open_;
  Paths unflushed_bytes_;
  Paths unflushed_entries_;
  std::vector<std::string> broken_promises_;
};

}  // namespace lockstep::runtime
