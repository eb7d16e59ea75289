#include "operator/kubeclient/transport/testing/process_memory.h"

#include <fstream>
#include <unistd.h>

namespace lockstep::control {

std::size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total_pages = 0;
  std::size_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace lockstep::control
