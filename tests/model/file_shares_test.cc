#include "model/file_shares.h"

#include <catch2/catch.hpp>

#include "tests/model/temporary_directory.h"

namespace skerry {

TEST_CASE("FileShares: many small files take their time, whatever their bytes", "[model]") {
  const TemporaryDirectory directory;
  constexpr size_t kSmall = 300;
  std::vector<std::string> files;
  for (size_t i = 0; i < kSmall; ++i) {
    files.push_back(directory.Join(std::to_string(i)));
    WriteFile(files.back(), "a line\n");
  }
  files.push_back(directory.Join("large"));
  WriteFile(files.back(), std::string(100'000, 'x'));

  const FileShares shares(files);

  const double small = kSmall * (FileShares::kFileBytes + 7);
  const double all = small + FileShares::kFileBytes + 100'000;
  CHECK(shares.At(0, 0) == 0);
  CHECK(shares.At(kSmall / 2, 0) == Approx(small / 2 / all));
  CHECK(shares.At(kSmall, 0) == Approx(small / all));
  CHECK(shares.At(kSmall, 0) > 0.7);  // by their bytes they would be 2 %
  CHECK(shares.At(kSmall, 0.5) == Approx((all + small) / 2 / all));
  CHECK(shares.At(kSmall + 1, 0) == 1);
}

TEST_CASE("FileShares: what has no size, and no files at all", "[model]") {
  const FileShares shares({"-", "-"});
  CHECK(shares.At(1, 0) == 0.5);
  CHECK(shares.At(2, 0) == 1);
  CHECK(FileShares({}).At(0, 0) == 0);
}

}  // namespace skerry
