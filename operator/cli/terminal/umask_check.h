#pragma once

#include <string>

#include <sys/types.h>

namespace lockstep::control {

// This process's umask. Call before any thread is started: the kernel tells it only to who sets it.
mode_t CurrentUmask();

// Why nothing can be run under this umask: it takes rights of the owner away, so that the run could
// not come into folders, or read files, that it has made itself. Empty: it can. Pure.
std::string WhyUmaskIsRefused(mode_t mask);

}  // namespace lockstep::control
