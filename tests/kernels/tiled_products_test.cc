// Own products of large matrices: what blocks, strips and teams must not change. Small shapes stand
// in conformance_test.cc.
#include "kernels/cpu/tiled_products.h"

#include <catch2/catch.hpp>

#include "kernels/bfloat16.h"
#include "tests/kernels/operations.h"
#include "tests/kernels/suite.h"

namespace skerry {
namespace {

constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;

std::vector<Bf16> RoundedToBf16(const Values& x) {
  std::vector<Bf16> rounded;
  for (const float value : x) rounded.push_back(ToBf16(value));
  return rounded;
}

Values Widened(const std::vector<Bf16>& x) {
  Values widened;
  for (const Bf16 value : x) widened.push_back(ToFloat(value));
  return widened;
}

// Of either type; `a` and `b` are their values in both.
struct Factors {
  Factors(int64_t m, int64_t n, int64_t k, Transpose of_a, Transpose of_b,
          DType of = DType::kFloat32)
      : sizes{m, n, k},
        ta(of_a),
        tb(of_b),
        type(of),
        a(Normals(m * k, "a")),
        b(Normals(k * n, "b")),
        before(Normals(m * n, "c")) {
    if (type == DType::kFloat32) return;
    a16 = RoundedToBf16(a), b16 = RoundedToBf16(b);
    a = Widened(a16), b = Widened(b16);
  }
  GemmCall Call(float beta, const Tensor& c) const {
    const auto& [m, n, k] = sizes;
    const bool swaps_a = ta == kYes, swaps_b = tb == kYes;
    return {ta,
            tb,
            sizes,
            Factor(a, a16, swaps_a ? k : m, swaps_a ? m : k),
            Factor(b, b16, swaps_b ? n : k, swaps_b ? k : n),
            beta,
            c};
  }
  GemmCall Call(float beta, Values& c) const { return Call(beta, AsRows(c, sizes.m)); }
  ConstTensor Factor(const Values& x, const std::vector<Bf16>& x16, int64_t rows,
                     int64_t columns) const {
    if (type == DType::kFloat32) return AsRows(x, rows);
    return {x16.data(), rows, columns, columns, type};
  }

  GemmSizes sizes;
  Transpose ta, tb;
  DType type;
  Values a, b, before;
  std::vector<Bf16> a16, b16;
};

Values Multiplied(TiledProducts& products, const Factors& factors, float beta) {
  Values c = factors.before;
  REQUIRE(products.Run(factors.Call(beta, c)).ok());
  return c;
}

// With sums rounded to bf16.
Values MultipliedInto16(TiledProducts& products, const Factors& factors) {
  const auto& [m, n, k] = factors.sizes;
  std::vector<Bf16> c(static_cast<size_t>(m * n));
  REQUIRE(products.Run(factors.Call(0, {c.data(), m, n, n, DType::kBfloat16})).ok());
  return Widened(c);
}

// By the reference, of the same values.
Values Exactly(const Factors& factors, float beta) {
  Values want = factors.before;
  const auto& [m, n, k] = factors.sizes;
  CreateReferenceBackend()->Gemm(
      factors.ta, factors.tb, AsRows(factors.a, factors.ta == kYes ? k : m),
      AsRows(factors.b, factors.tb == kYes ? n : k), beta, AsRows(want, m));
  return want;
}

struct NamedProducts {
  const char* name;
  const ProductKernels* kernels;
};

// All that this processor can run, of both types.
std::vector<NamedProducts> AllOwnProducts() {
  std::vector<NamedProducts> all;
  for (const KernelTable* table : RunnableKernels()) {
    for (const ProductKernels* kernels : {table->products, table->bf16_products}) {
      if (kernels != nullptr) all.push_back({table->name, kernels});
    }
  }
  return all;
}

}  // namespace

TEST_CASE("TiledProducts: many blocks and strips give the reference's product, any team its bits",
          "[kernels]") {
  struct Shape {
    int64_t m, n, k;
  };
  // Rows beyond two blocks; k beyond two strips; columns beyond two strips; all of them odd.
  const auto shape = GENERATE(Shape{331, 37, 531}, Shape{13, 151, 8211}, Shape{7, 1611, 2611},
                              Shape{300, 1001, 2});
  const Transpose ta = GENERATE(kNo, kYes), tb = GENERATE(kNo, kYes);
  const float beta = GENERATE(0.0f, 1.0f);
  INFO(shape.m << " x " << shape.n << " x " << shape.k << ", beta " << beta);
  for (const auto& [name, kernels] : AllOwnProducts()) {
    INFO(name);
    const Factors factors(shape.m, shape.n, shape.k, ta, tb, kernels->type);
    TiledProducts alone(*kernels, 1);
    const Values product = Multiplied(alone, factors, beta);
    CHECK(NormwiseError(product, Exactly(factors, beta)) <= kForwardError);
    for (const int threads : {2, 3, 8}) {
      TiledProducts team(*kernels, threads);
      CHECK(SameBits(Multiplied(team, factors, beta), product));
      CHECK(SameBits(Multiplied(team, factors, beta), product));
    }
  }
}

TEST_CASE("TiledProducts: sums that become bf16 are rounded once", "[kernels][bf16]") {
  struct Shape {
    int64_t m, n, k;
  };
  // One part of k and several, the longest that is theirs; more columns than a strip has.
  const auto shape =
      GENERATE(Shape{331, 37, 531}, Shape{45, 300, 4096}, Shape{33, 1611, 511}, Shape{3, 5, 1});
  const Transpose ta = GENERATE(kNo, kYes), tb = GENERATE(kNo, kYes);
  INFO(shape.m << " x " << shape.n << " x " << shape.k);
  for (const auto& [name, kernels] : AllOwnProducts()) {
    if (kernels->type != DType::kBfloat16) continue;
    INFO(name);
    const Factors factors(shape.m, shape.n, shape.k, ta, tb, kernels->type);
    TiledProducts alone(*kernels, 1), team(*kernels, 3);
    // What is not rounded has been compared with the reference above.
    const Values sums = Multiplied(alone, factors, 0);
    const Values product = MultipliedInto16(alone, factors);
    CHECK(SameBits(product, Widened(RoundedToBf16(sums))));
    CHECK(SameBits(MultipliedInto16(team, factors), product));
  }
}

TEST_CASE("TiledProducts: a row's bits depend on nothing but the row", "[kernels]") {
  for (const auto& [name, kernels] : AllOwnProducts()) {
    INFO(name);
    TiledProducts products(*kernels, 1);
    const Factors whole(160, 50, 300, kNo, kYes, kernels->type);
    const Values product = Multiplied(products, whole, 0);
    for (const int64_t row : {0, 5, 143, 144, 159}) {
      Factors one(1, 50, 300, kNo, kYes, kernels->type);
      one.a.assign(whole.a.begin() + row * 300, whole.a.begin() + (row + 1) * 300);
      one.a16 = RoundedToBf16(one.a);
      CHECK(SameBits(Multiplied(products, one, 0),
                     Values(product.begin() + row * 50, product.begin() + (row + 1) * 50)));
    }
  }
}

TEST_CASE("TiledProducts: what lies beside a product's columns is not touched", "[kernels]") {
  for (const auto& [name, kernels] : AllOwnProducts()) {
    INFO(name);
    TiledProducts products(*kernels, 2);
    const Factors factors(10, 19, 40, kYes, kNo, kernels->type);
    Values narrow(10 * 19), wide(10 * 23, 7.0f);
    GemmCall call = factors.Call(0, narrow);
    REQUIRE(products.Run(call).ok());
    call.c = Tensor(AsRows(wide, 10)).Columns(2, 19);
    REQUIRE(products.Run(call).ok());
    for (size_t i = 0; i < wide.size(); ++i) {
      const size_t row = i / 23, column = i % 23;
      const bool inside = column >= 2 && column < 21;
      CHECK(wide[i] == (inside ? narrow[row * 19 + column - 2] : 7.0f));
    }
  }
}

TEST_CASE("TiledProducts: what they do not suit is the library's, and the name says so",
          "[kernels]") {
  for (const auto& [name, kernels] : AllOwnProducts()) {
    INFO(name);
    const TiledProducts products(*kernels, 1);
    const int64_t least = kernels->side_least, enough = least + 1;
    Values c(static_cast<size_t>(enough * enough));
    const auto suits = [&](int64_t m, int64_t n, int64_t k, Transpose ta = kYes) {
      return products.Suit(Factors(m, n, k, ta, kNo, kernels->type).Call(0, c));
    };
    CHECK(suits(enough, enough, enough));
    CHECK(suits(enough, enough, enough, kNo) == kernels->of_rows_too);
    const bool all = least == 0;
    CHECK((suits(1, enough, enough) == all && suits(enough, 1, enough) == all &&
           suits(enough, enough, 1) == all));
    const bool is_float = kernels->type == DType::kFloat32;
    const DType other = is_float ? DType::kBfloat16 : DType::kFloat32;
    CHECK_FALSE(products.Suit(Factors(enough, enough, enough, kYes, kNo, other).Call(0, c)));
    const bool names_both = products.Names(name).find("oneDNN") != std::string::npos;
    CHECK(names_both != all);
    if (is_float) continue;
    // Sums that become bf16 wait for all of k.
    const auto suits_into = [&](DType type, int64_t k) {
      const Factors factors(1, 1, k, kNo, kNo, kernels->type);
      return products.Suit(factors.Call(0, {c.data(), 1, 1, 1, type}));
    };
    CHECK(suits_into(DType::kFloat32, 4097));
    CHECK(suits_into(DType::kBfloat16, 4096));
    CHECK_FALSE(suits_into(DType::kBfloat16, 4097));
  }
}

}  // namespace skerry
