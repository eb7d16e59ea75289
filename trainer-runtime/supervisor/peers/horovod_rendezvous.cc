#include "trainer-runtime/supervisor/peers/horovod_rendezvous.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

// A rank tries what is refused three times, and ends. Choice: enough to see what is wrong.
constexpr int kRefusalLinesMax = 16;

// Ranks have one connection each at a time, for one request. Choice: others that ask.
constexpr int kOtherConnections = 64;

// Logs what is refused, until that is known well enough.
class RefusalLog {
 public:
  explicit RefusalLog(Logger* logger) : logger_(logger) {}

  void Note(int status, std::string_view reason, std::string_view request) {
    if (count_ == kRefusalLinesMax) {
      return;
    }
    ++count_;
    logger_->Warn("refused a request from Horovod",
                  {{"status", status}, {"error", reason}, {"request", request}});
    if (count_ == kRefusalLinesMax) {
      logger_->Warn("further refused requests from Horovod are not logged");
    }
  }

 private:
  Logger* const logger_;
  int count_ = 0;
};

struct StoreKey {
  std::string scope;
  std::string key;
};

// "/scope/key"; null for any other path.
std::optional<StoreKey> SplitPath(std::string_view path) {
  const std::size_t slash = path.find('/', 1);
  if (path.empty() || path.front() != '/' || slash == std::string_view::npos) {
    return std::nullopt;
  }
  return StoreKey{std::string(path.substr(1, slash - 1)), std::string(path.substr(slash + 1))};
}

class HorovodEndpoint {
 public:
  HorovodEndpoint(const HorovodStoreOptions& options, Logger* logger)
      : world_size_(options.world_size), store_(options), logger_(logger), refusals_(logger) {}

  HttpServerResponse Answer(const HttpServerRequest& request) {
    const std::optional<StoreKey> name = SplitPath(request.path);
    if (!name.has_value() || !request.query.empty() || !store_.IsName(name->scope, name->key)) {
      return Refuse(400, "the path is not /scope/key", request);
    }
    if (request.method == "GET") {
      const std::string* const value = store_.Find(name->scope, name->key);
      return value == nullptr ? HttpServerResponse{404, "text/plain", ""}
                              : HttpServerResponse{200, "application/octet-stream", *value};
    }
    if (request.method == "PUT") {
      return Put(*name, request);
    }
    if (request.method == "DELETE") {
      store_.Finish(name->scope, name->key);
      return HttpServerResponse{200, "text/plain", ""};
    }
    return Refuse(405, "the method is not GET, PUT or DELETE", request);
  }

  void NoteUnreadable(int status) { refusals_.Note(status, "the request cannot be read", ""); }

 private:
  HttpServerResponse Put(const StoreKey& name, const HttpServerRequest& request) {
    switch (store_.Put(name.scope, name.key, request.body)) {
      case HorovodPut::kStored:
        if (!std::exchange(has_begun_, true)) {
          logger_->Info("Horovod's rendezvous is served here", {{"ranks", world_size_}});
        }
        return HttpServerResponse{200, "text/plain", ""};
      case HorovodPut::kValueTooLong:
        return Refuse(413, "the value is too long", request);
      case HorovodPut::kTooManyKeys:
        return Refuse(507, "there are too many keys", request);
      case HorovodPut::kTooManyBytes:
        return Refuse(507, "all values together are too long", request);
    }
    LOCKSTEP_CHECK(false, "unknown answer from the store of Horovod");
  }

  HttpServerResponse Refuse(int status, std::string_view reason, const HttpServerRequest& request) {
    constexpr std::size_t kPathBytesShown = 100;
    refusals_.Note(status, reason, request.method + " " + request.path.substr(0, kPathBytesShown));
    return HttpServerResponse{status, "text/plain", std::string(reason) + "\n"};
  }

  const int world_size_;
  HorovodStore store_;
  Logger* const logger_;
  RefusalLog refusals_;
  bool has_begun_ = false;
};

}  // namespace

HttpHandler MakeHorovodHandler(const HorovodStoreOptions& options, Logger* logger) {
  // Shared by the copies of the handler, which all run on the server's one thread.
  const auto endpoint = std::make_shared<HorovodEndpoint>(options, logger);
  return [endpoint](const HttpServerRequest& request) { return endpoint->Answer(request); };
}

bool HoldsHorovodRendezvous(const WorkerEnvironment& environment) {
  return environment.rank == 0;
}

Result<std::unique_ptr<HttpServer>> ServeHorovod(const WorkerEnvironment& environment,
                                                 Logger* logger) {
  LOCKSTEP_CHECK(HoldsHorovodRendezvous(environment), "another pod serves Horovod's rendezvous");
  const HorovodStoreOptions store = HorovodStoreFor(environment.world_size, environment.processes);
  const auto endpoint = std::make_shared<HorovodEndpoint>(store, logger);
  HttpServerOptions options;
  options.bind_address = environment.bind_address;
  options.port = environment.horovod_port;
  // A little more than the store takes: then it is the store that says so.
  options.body_bytes_max = 2 * store.value_bytes_max;
  options.connections_max = environment.world_size + kOtherConnections;
  options.logger = logger;
  options.on_unreadable = [endpoint](int status) { endpoint->NoteUnreadable(status); };
  return HttpServer::StartWithHandler(
      std::move(options),
      [endpoint](const HttpServerRequest& request) { return endpoint->Answer(request); });
}

}  // namespace lockstep::runtime
