#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "trainer-runtime/collectives/tcp/broadcast_tree.h"
#include "trainer-runtime/collectives/tcp/exchange.h"

namespace lockstep::runtime {
namespace {

// Up to so many bytes the root sends to all itself: a level of the tree costs a trip, which takes
// longer than a few frames. Choice: what a socket's buffer holds without waiting.
constexpr std::size_t kFlatBytesMax = 64 * 1024;

// A rank passes a piece on once it is whole. Choice: small beside what a level of the tree delays,
// and 16 bytes of head for each are nothing.
constexpr std::size_t kPieceBytes = 256 * 1024;

class Broadcast final : public Exchange {
 public:
  Broadcast(const CallContext& context, int world_size, std::byte* data)
      : rank_(context.rank),
        root_(context.call.root),
        world_size_(static_cast<std::size_t>(world_size)),
        bytes_(data, CallBytes(context.call)),
        piece_count_((bytes_.size() + kPieceBytes - 1) / kPieceBytes),
        peers_(world_size_),
        holds_(world_size_) {
    holds_[Index(root_)] = true;
    holds_[Index(rank_)] = rank_ == root_ || context.call.holds != 0;
    PlanWhenAllAreHeard();
  }

  std::optional<OutFrame> NextOut(int peer) override {
    Progress& progress = peers_[Index(peer)];
    if (progress.sent == 0) {
      ++progress.sent;
      return OutFrame{true, {}};
    }
    const std::size_t piece = progress.sent - 1;
    if (piece >= std::min(PiecesTo(peer), PiecesHere())) {
      return std::nullopt;
    }
    ++progress.sent;
    return OutFrame{false, Piece(piece)};
  }

  std::optional<InFrame> NextIn(int peer) override {
    Progress& progress = peers_[Index(peer)];
    if (progress.asked == 0) {
      ++progress.asked;
      return InFrame{true, {}};
    }
    const std::size_t piece = progress.asked - 1;
    if (piece >= PiecesFrom(peer)) {
      return std::nullopt;
    }
    ++progress.asked;
    return InFrame{false, Piece(piece)};
  }

  void HeardCall(int peer, const Call& call) override {
    holds_[Index(peer)] = peer == root_ || call.holds != 0;
  }

  void Received(int peer) override {
    if (peers_[Index(peer)].received++ == 0) {
      ++calls_received_;
      PlanWhenAllAreHeard();
    }
  }

  bool IsCompleteWith(int peer) const override {
    return peers_[Index(peer)].sent == 1 + PiecesTo(peer) && MissingFrom(peer) == 0;
  }

  std::size_t MissingFrom(int peer) const override {
    return 1 + PiecesFrom(peer) - peers_[Index(peer)].received;
  }

 private:
  // Frames to and from one peer; the first each way is the call.
  struct Progress {
    std::size_t sent = 0;
    std::size_t asked = 0;
    std::size_t received = 0;
  };

  static std::size_t Index(int rank) { return static_cast<std::size_t>(rank); }

  // Until all are known to want the same nothing but calls moves.
  void PlanWhenAllAreHeard() {
    if (calls_received_ + 1 == world_size_) {
      tree_.emplace(holds_, root_, /*is_flat=*/bytes_.size() <= kFlatBytesMax);
    }
  }

  std::size_t PiecesTo(int peer) const {
    return tree_.has_value() && tree_->ParentOf(peer) == rank_ ? piece_count_ : 0;
  }

  std::size_t PiecesFrom(int peer) const {
    return tree_.has_value() && tree_->ParentOf(rank_) == peer ? piece_count_ : 0;
  }

  // Precondition: all are heard.
  std::size_t PiecesHere() const {
    const std::optional<int> parent = tree_.has_value() ? tree_->ParentOf(rank_) : std::nullopt;
    return parent.has_value() ? peers_[Index(*parent)].received - 1 : piece_count_;
  }

  std::span<std::byte> Piece(std::size_t piece) const {
    const std::size_t begin = piece * kPieceBytes;
    return bytes_.subspan(begin, std::min(kPieceBytes, bytes_.size() - begin));
  }

  int rank_;
  int root_;
  std::size_t world_size_;
  std::span<std::byte> bytes_;
  std::size_t piece_count_;
  std::vector<Progress> peers_;
  std::vector<bool> holds_;
  std::size_t calls_received_ = 0;
  std::optional<BroadcastTree> tree_;  // once all calls are there
};

}  // namespace

std::unique_ptr<Exchange> MakeBroadcast(const CallContext& context,
                                        int world_size,
                                        std::byte* data) {
  return std::make_unique<Broadcast>(context, world_size, data);
}

}  // namespace lockstep::runtime
