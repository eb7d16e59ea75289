#include "common/process/find_program.h"

#include <algorithm>
#include <unistd.h>
#include <vector>

#include <sys/stat.h>

namespace lockstep {
namespace {

std::string InFolder(const std::string& folder, std::string_view path) {
  return folder.empty() || path.starts_with('/') ? std::string(path)
                                                 : folder + "/" + std::string(path);
}

std::vector<std::string> Candidates(const std::string& name,
                                    std::string_view search_path,
                                    const std::string& folder) {
  if (name.find('/') != std::string::npos) {
    return {InFolder(folder, name)};
  }
  std::vector<std::string> candidates;
  for (std::size_t begin = 0; begin <= search_path.size();) {
    const std::size_t end = std::min(search_path.find(':', begin), search_path.size());
    const std::string_view entry = search_path.substr(begin, end - begin);
    candidates.push_back(InFolder(folder, entry.empty() ? "." : entry) + "/" + name);
    begin = end + 1;
  }
  return candidates;
}

}  // namespace

std::string SearchPathOf(const std::map<std::string, std::string>& variables) {
  const auto path = variables.find("PATH");
  return path == variables.end() ? std::string(kSearchPathDefault) : path->second;
}

bool IsExecutableFile(const std::string& path) {
  struct stat info {};

  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

Result<std::string> FindProgram(const std::string& name,
                                std::string_view search_path,
                                const std::string& folder) {
  const std::string start = "cannot start \"" + name + "\": ";
  const std::vector<std::string> candidates = Candidates(name, search_path, folder);
  const auto usable = std::find_if(candidates.begin(), candidates.end(), IsExecutableFile);
  if (usable != candidates.end() && !name.empty()) {
    return *usable;
  }
  // "Not executable" explains more than "not found".
  for (const std::string& path : candidates) {
    if (!name.empty() && ::access(path.c_str(), F_OK) == 0) {
      return Error(ErrorCode::kInvalidArgument, start + path + " is not an executable file");
    }
  }
  const bool is_path = name.find('/') != std::string::npos;
  return Error(ErrorCode::kNotFound, start + "no such file" + (is_path ? "" : " in PATH"));
}

}  // namespace lockstep
