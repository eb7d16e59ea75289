#include "trainer-runtime/rendezvous/resolver.h"

#include <resolv.h>
#include <utility>

namespace lockstep::runtime {
namespace {

// The name server's patience for this thread: resolv.conf's default of 5 s, twice, for each server
// would hold up both the next name and the end of the process.
void BePatientForSecondsOnly() {
  if (::res_init() == 0) {
    _res.retrans = 1;  // seconds before asking again
    _res.retry = 2;
  }
}

}  // namespace

Resolver::~Resolver() {
  thread_.request_stop();
  wake_.notify_all();
}

void Resolver::Resolve(std::string host, int port, Callback done) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    requests_.push_back(Request{std::move(host), port, std::move(done)});
  }
  wake_.notify_one();
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  }
}

void Resolver::Run(const std::stop_token& stop) {
  BePatientForSecondsOnly();
  while (true) {
    Request request;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!wake_.wait(lock, stop, [this] { return !requests_.empty(); })) {
        return;
      }
      request = std::move(requests_.front());
      requests_.pop_front();
    }
    if (stop.stop_requested()) {
      return;
    }
    request.done(ResolveName(request.host, request.port));
  }
}

}  // namespace lockstep::runtime
