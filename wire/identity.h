// Who a process is: an Ed25519 key pair. The public key is the NodeId; converted to X25519 it is
// also the CURVE key of the transport, so one key names, signs and encrypts (libsodium,
// crypto_sign_ed25519_*_to_curve25519).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/ids.h"

namespace skerry {

using CurveKey = std::array<uint8_t, 32>;  // X25519, public or secret, binary

// A value type: copies hold the secret too, and every copy wipes its secret when it dies.
class Identity {
 public:
  // A fresh random identity, kept nowhere.
  static Identity Generate();

  // The identity of a 32-byte seed: the same seed gives the same keys (tests, key files).
  static Identity FromSeed(const std::array<uint8_t, 32>& seed);

  // Reads the key file at `path`, or creates it with mode 0600 if there is none. Creation is
  // atomic: a crash leaves either no file or a whole one, and of two processes that race both end
  // with the same key.
  //
  // PermissionDenied if group or others may read or write the file (the text names the chmod that
  // mends it); DataLoss if it is not a key file; Unavailable if the disk refuses.
  static absl::StatusOr<Identity> LoadOrCreate(const std::string& path);

  // As LoadOrCreate, but NotFound if there is no file.
  static absl::StatusOr<Identity> Load(const std::string& path);

  Identity(const Identity&) = default;
  Identity& operator=(const Identity&) = default;
  ~Identity();

  const NodeId& id() const { return id_; }
  const CurveKey& curve_public() const { return curve_public_; }
  const CurveKey& curve_secret() const { return curve_secret_; }

  Signature Sign(std::span<const uint8_t> bytes) const;

 private:
  Identity() = default;

  NodeId id_;
  std::array<uint8_t, 64> secret_{};  // libsodium's form: seed and public key
  CurveKey curve_public_{};
  CurveKey curve_secret_{};
};

// Whether `signature` over `bytes` was made by the holder of `signer`'s key.
bool IsSignedBy(const NodeId& signer, std::span<const uint8_t> bytes, const Signature& signature);

// Statements that nodes make to the coordinator of one run, signed so that others can hold them to
// it: the bytes that are signed are those of the statement behind the run's id.
Signature SignStatement(const Identity& identity, const RunId& run,
                        std::span<const uint8_t> statement);
bool IsStatementOf(const NodeId& signer, const RunId& run, std::span<const uint8_t> statement,
                   const Signature& signature);

// The CURVE public key of a node. InvalidArgument if the id is no point of the curve: then nobody
// can hold its key.
absl::StatusOr<CurveKey> CurveKeyOf(const NodeId& node);

}  // namespace skerry
