#include "operator/kubeclient/transport/testing/temporary_folder.h"

#include <filesystem>
#include <stdlib.h>

#include "common/base/check.h"
#include "common/base/io/file.h"

namespace lockstep::control {

TemporaryFolder::TemporaryFolder()
    : path_(std::filesystem::temp_directory_path() / "lockstep-transport-XXXXXX") {
  LOCKSTEP_CHECK(::mkdtemp(path_.data()) != nullptr, path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::Write(const std::string& name, std::string_view content) const {
  const std::string path = PathOf(name);
  LOCKSTEP_CHECK(WriteFileAtomically(path, content).ok(), path);
  return path;
}

std::string TemporaryFolder::WriteScript(const std::string& name, std::string_view lines) const {
  const std::string path = Write(name, "#!/bin/sh\n" + std::string(lines));
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

}  // namespace lockstep::control
