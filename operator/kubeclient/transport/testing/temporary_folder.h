#pragma once

#include <string>
#include <string_view>

namespace lockstep::control {

// A folder that goes with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }

  // Replaces the file, as the kubelet does: readers see the old or the new one. Returns its path.
  std::string Write(const std::string& name, std::string_view content) const;

  // The same, as a program for /bin/sh.
  std::string WriteScript(const std::string& name, std::string_view lines) const;

 private:
  std::string path_;
};

}  // namespace lockstep::control
