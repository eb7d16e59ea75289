#include "operator/cli/run_folder/log_reader.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "common/base/io/file.h"
#include "common/contract/environment/topology.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kLineBytesMax = 64 * 1024;  // choice: longer ones are handed out in pieces

}  // namespace

bool LogReader::IsWanted(const std::string& pod) const {
  const auto parsed = ParsePodName(pod);
  return pod_.empty() || pod_ == pod || (parsed && TaskName(parsed->task) == pod_);
}

std::vector<std::string> LogReader::Pods() const {
  std::vector<std::string> pods;
  std::error_code error;
  const std::string folder = run_directory_ + "/pods";
  for (auto at = std::filesystem::directory_iterator(folder, error);
       !error && at != std::filesystem::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code missing;
    if (IsWanted(name) && std::filesystem::exists(at->path() / "pod.log", missing)) {
      pods.push_back(name);
    }
  }
  std::sort(pods.begin(), pods.end());
  return pods;
}

void LogReader::ReadNew(bool is_last, const OnLine& on_line) {
  for (const std::string& pod : Pods()) {
    ReadPod(pod, is_last, on_line);
  }
}

void LogReader::ReadPod(const std::string& pod, bool is_last, const OnLine& on_line) {
  Tail& tail = tails_[pod];
  const std::string path = run_directory_ + "/pods/" + pod + "/pod.log";
  const std::string older = path + ".1";
  const bool was_moved = tail.has_begun && InodeOf(path) != tail.inode;
  if (!tail.has_begun || (was_moved && InodeOf(older) == tail.inode)) {
    ReadFileOf(pod, older, on_line);
  }
  if (was_moved || !tail.has_begun) {
    tail.offset = 0;
  }
  ReadFileOf(pod, path, on_line);
  tail.inode = InodeOf(path);
  tail.has_begun = true;
  if (is_last && !tail.rest.empty()) {
    on_line(pod, std::exchange(tail.rest, ""));
  }
}

void LogReader::ReadFileOf(const std::string& pod, const std::string& path, const OnLine& on_line) {
  Tail& tail = tails_[pod];
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) {
    return;
  }
  if (size < tail.offset) {
    tail.offset = 0;
    tail.rest.clear();
  }
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(tail.offset));
  std::array<char, 65536> buffer{};
  while (tail.offset < size && file) {
    const uint64_t wanted = std::min<uint64_t>(buffer.size(), size - tail.offset);
    file.read(buffer.data(), static_cast<std::streamsize>(wanted));
    const auto got = static_cast<std::size_t>(file.gcount());
    tail.offset += got;
    for (const char letter : std::string_view(buffer.data(), got)) {
      if (letter == '\n' || tail.rest.size() >= kLineBytesMax) {
        on_line(pod, std::exchange(tail.rest, ""));
      }
      if (letter != '\n') {
        tail.rest += letter;
      }
    }
  }
}

}  // namespace lockstep::control
