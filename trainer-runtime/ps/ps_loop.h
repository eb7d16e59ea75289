#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "trainer-runtime/ps/message_socket.h"
#include "trainer-runtime/ps/ps_caller.h"
#include "trainer-runtime/ps/ps_server.h"
#include "trainer-runtime/ps/shard_frames.h"
#include "trainer-runtime/rendezvous/letter_box.h"
#include "trainer-runtime/rendezvous/reception.h"

namespace lockstep::runtime {

// What others want from a server's thread. Few: views change with the deaths of processes.
namespace ps_letter {
struct View {
  int shard = 0;
  ShardView view;
};

struct Gone {
  int worker = 0;
  Incarnation below;
};

struct End {};
}  // namespace ps_letter

using PsLetter = std::variant<ps_letter::View, ps_letter::Gone, ps_letter::End>;

// What the server's thread leaves for others to read.
struct PsBoard {
  std::mutex mutex;
  std::vector<CopyStanding> standings;
};

// The server's thread: carries messages between sockets and copies. Each ps calls the ps that it
// shares a shard with, and sends over its own call: what it hears comes over theirs. All state
// belongs to this thread.
class PsLoop {
 public:
  // `letters` and `board` outlive it.
  PsLoop(PsServerOptions options,
         std::vector<HostPort> addresses,
         LetterBox<PsLetter>* letters,
         PsBoard* board);

  // Errors: those of PsCaller::Open. To be called once, before Run.
  Status Open() { return caller_.Open(); }

  // Runs until a letter says End. Who has a successor calls nobody any more.
  void Run();

 private:
  // Values on their way to a worker.
  struct PullAnswer {
    int64_t number = 0;         // of its request
    uint64_t written_with = 0;  // MessageSocket::bytes_written behind it
  };

  // A process that called: a worker, or another ps.
  struct Guest {
    int place = 0;  // its number in handshakes
    Incarnation incarnation;
    MessageSocket socket;
    std::map<int, PullAnswer> answers;  // by shard: the last one
  };

  struct Holding {
    ShardPlace place = ShardPlace::kHome;
    int partner = 0;  // the ps with the other copy
    ShardCopy copy;
    std::set<int> told_awaited = {};  // ranks that the log has told of
  };

  void CallPartners();
  void WaitForWork();
  void ReadLetters();
  void On(const ps_letter::View& letter);
  void On(const ps_letter::Gone& letter);
  void On(const ps_letter::End& letter);
  void TakeVisitors(const PollSet& poll);
  void Welcome(Visitor visitor);
  std::optional<Refusal> Judge(const MeshIdentity& caller) const;
  void ReadCaller(const PollSet& poll);
  void ReadGuests(const PollSet& poll);
  Status ReadGuest(Guest* guest);
  Status Take(const Guest& guest, const std::string& bytes);
  static bool IsBeingAnswered(const Guest& guest, int shard, const WorkerRequest& request);
  void ResendTo(int partner);
  void AskAgain();
  void TellAwaited(int shard, Holding* holding) const;
  void SendDuties();
  void Send(int shard, const Holding& holding, const WorkerReply& reply);
  void Send(int shard, const Holding& holding, const CopyMessage& message);
  void Publish();

  int ps_count() const { return static_cast<int>(options_.views.size()); }

  PsServerOptions options_;
  LetterBox<PsLetter>* letters_;
  PsBoard* board_;
  int number_;  // of this ps
  Reception reception_;
  PsCaller caller_;
  std::map<int, Holding> holdings_;               // by shard
  std::map<int, std::unique_ptr<Guest>> guests_;  // by place
  TimePoint now_;
  TimePoint ask_again_at_;
  bool is_running_ = true;
};

}  // namespace lockstep::runtime
