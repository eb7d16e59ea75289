#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::control {

// Reads what the pods of a run print, from their files. Thread: one.
class LogReader {
 public:
  // One whole line of a pod, without its newline.
  using OnLine = std::function<void(const std::string& pod, std::string_view line)>;

  // `pod`: only this one, or all that stood for one rank ("worker-1"); empty: all.
  LogReader(std::string run_directory, std::string pod)
      : run_directory_(std::move(run_directory)), pod_(std::move(pod)) {}

  // The pods that have a log, by name.
  std::vector<std::string> Pods() const;

  // Hands out what was written since the last call, pod after pod: of a log whose older half was
  // moved aside (pod.log.1) that half first. A log that was begun anew is read from its start.
  // With `is_last` a line without an end counts, too.
  void ReadNew(bool is_last, const OnLine& on_line);

 private:
  struct Tail {
    bool has_begun = false;
    uint64_t inode = 0;  // of the file that was read last, whatever its name is now
    uint64_t offset = 0;
    std::string rest;  // of a line that is not whole yet
  };

  bool IsWanted(const std::string& pod) const;
  void ReadPod(const std::string& pod, bool is_last, const OnLine& on_line);
  void ReadFileOf(const std::string& pod, const std::string& path, const OnLine& on_line);

  std::string run_directory_;
  std::string pod_;
  std::map<std::string, Tail> tails_;
};

}  // namespace lockstep::control
