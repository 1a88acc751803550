#include "wire/identity.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/bytes.h"
#include "common/check.h"
#include "common/status.h"

namespace skerry {
namespace {

constexpr char kKeyPrefix[] = "skerry-key-ed25519 ";
constexpr size_t kKeyFileBytesMax = 256;

void InitSodium() {
  SKERRY_CHECK(sodium_init() >= 0, "libsodium must find randomness");
}

std::string Why() {
  return std::strerror(errno);
}

// A descriptor that closes itself.
struct File {
  int fd = -1;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

absl::StatusOr<Identity> ParseKeyFile(const std::string& text, const std::string& path) {
  const std::string prefix = kKeyPrefix;
  std::array<uint8_t, 32> seed{};
  size_t bytes = 0;
  const bool parsed = text.compare(0, prefix.size(), prefix) == 0 &&
                      sodium_hex2bin(seed.data(), seed.size(), text.c_str() + prefix.size(),
                                     text.size() - prefix.size(), "\n", &bytes, nullptr) == 0 &&
                      bytes == seed.size();
  if (!parsed) {
    return DataLoss(
        "%s is not a Skerry key file; restore it from a copy. A node may move it away, and begins "
        "with a new identity [SK-key-file]",
        path);
  }
  Identity identity = Identity::FromSeed(seed);
  sodium_memzero(seed.data(), seed.size());
  return identity;
}

absl::Status WriteKeyFile(const std::string& path, const std::array<uint8_t, 32>& seed) {
  File file{open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (file.fd < 0) return Unavailable("cannot create %s: %s [SK-disk-write]", path, Why());
  char hex[2 * 32 + 1];
  sodium_bin2hex(hex, sizeof hex, seed.data(), seed.size());
  const std::string text = std::string(kKeyPrefix) + hex + "\n";
  sodium_memzero(hex, sizeof hex);
  // fchmod: a umask may take bits away, none may be left over.
  if (fchmod(file.fd, 0600) != 0 ||
      write(file.fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      fsync(file.fd) != 0) {
    return Unavailable("cannot write %s: %s [SK-disk-write]", path, Why());
  }
  return absl::OkStatus();
}

}  // namespace

Identity Identity::Generate() {
  InitSodium();
  std::array<uint8_t, 32> seed;
  randombytes_buf(seed.data(), seed.size());
  Identity identity = FromSeed(seed);
  sodium_memzero(seed.data(), seed.size());
  return identity;
}

Identity Identity::FromSeed(const std::array<uint8_t, 32>& seed) {
  InitSodium();
  Identity identity;
  crypto_sign_seed_keypair(identity.id_.bytes.data(), identity.secret_.data(), seed.data());
  SKERRY_CHECK(crypto_sign_ed25519_pk_to_curve25519(identity.curve_public_.data(),
                                                    identity.id_.bytes.data()) == 0);
  crypto_sign_ed25519_sk_to_curve25519(identity.curve_secret_.data(), identity.secret_.data());
  return identity;
}

Identity::~Identity() {
  sodium_memzero(secret_.data(), secret_.size());
  sodium_memzero(curve_secret_.data(), curve_secret_.size());
}

absl::StatusOr<Identity> Identity::Load(const std::string& path) {
  File file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) {
    if (errno == ENOENT)
      return NotFound("there is no key file %s; restore it from a copy [SK-key-file]", path);
    return Unavailable("cannot read %s: %s [SK-key-file]", path, Why());
  }
  struct stat info {};
  if (fstat(file.fd, &info) != 0)
    return Unavailable("cannot read %s: %s [SK-key-file]", path, Why());
  if ((info.st_mode & 077) != 0) {
    return PermissionDenied(
        "%s may be read or written by others (mode %04o): whoever has it is this node; run "
        "chmod 600 %s [SK-key-rights]",
        path, static_cast<unsigned>(info.st_mode & 07777), path);
  }
  std::string text(kKeyFileBytesMax, '\0');
  const ssize_t n = read(file.fd, text.data(), text.size());
  if (n < 0) return Unavailable("cannot read %s: %s [SK-key-file]", path, Why());
  text.resize(static_cast<size_t>(n));
  auto identity = ParseKeyFile(text, path);
  sodium_memzero(text.data(), text.size());
  return identity;
}

absl::StatusOr<Identity> Identity::LoadOrCreate(const std::string& path) {
  auto loaded = Load(path);
  if (!absl::IsNotFound(loaded.status())) return loaded;

  InitSodium();
  std::array<uint8_t, 32> seed;
  randombytes_buf(seed.data(), seed.size());
  const std::string draft = absl::StrFormat("%s.%08x.new", path, randombytes_random());
  absl::Status written = WriteKeyFile(draft, seed);
  sodium_memzero(seed.data(), seed.size());
  // link, not rename: it never replaces a key that another process created meanwhile.
  if (written.ok() && link(draft.c_str(), path.c_str()) != 0 && errno != EEXIST)
    written = Unavailable("cannot create %s: %s [SK-disk-write]", path, Why());
  unlink(draft.c_str());
  SKERRY_RETURN_IF_ERROR(written);
  return Load(path);
}

Signature Identity::Sign(std::span<const uint8_t> bytes) const {
  Signature signature;
  SKERRY_CHECK(crypto_sign_detached(signature.data(), nullptr, bytes.data(), bytes.size(),
                                    secret_.data()) == 0);
  return signature;
}

namespace {

// No ticket and no other statement begins like this.
Bytes Statement(const RunId& run, std::span<const uint8_t> statement) {
  static constexpr std::string_view kDomain = "skerry statement 1";
  Bytes bytes(kDomain.size() + run.bytes.size() + statement.size());
  auto at = std::copy(kDomain.begin(), kDomain.end(), bytes.begin());
  at = std::copy(run.bytes.begin(), run.bytes.end(), at);
  std::copy(statement.begin(), statement.end(), at);
  return bytes;
}

}  // namespace

Signature SignStatement(const Identity& identity, const RunId& run,
                        std::span<const uint8_t> statement) {
  return identity.Sign(Statement(run, statement));
}

bool IsStatementOf(const NodeId& signer, const RunId& run, std::span<const uint8_t> statement,
                   const Signature& signature) {
  return IsSignedBy(signer, Statement(run, statement), signature);
}

bool IsSignedBy(const NodeId& signer, std::span<const uint8_t> bytes, const Signature& signature) {
  return crypto_sign_verify_detached(signature.data(), bytes.data(), bytes.size(),
                                     signer.bytes.data()) == 0;
}

absl::StatusOr<CurveKey> CurveKeyOf(const NodeId& node) {
  CurveKey key;
  if (crypto_sign_ed25519_pk_to_curve25519(key.data(), node.bytes.data()) != 0)
    return InvalidArgument("%s is not an Ed25519 public key", node.Short());
  return key;
}

}  // namespace skerry
