// Own products of large matrices: what blocks, strips and teams must not change. Small shapes stand
// in conformance_test.cc.
#include "kernels/cpu/tiled_products.h"

#include <catch2/catch.hpp>

#include "tests/kernels/operations.h"
#include "tests/kernels/suite.h"

namespace skerry {
namespace {

constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;

struct Factors {
  Factors(int64_t m, int64_t n, int64_t k, Transpose of_a, Transpose of_b)
      : sizes{m, n, k},
        ta(of_a),
        tb(of_b),
        a(Normals(m * k, "a")),
        b(Normals(k * n, "b")),
        before(Normals(m * n, "c")) {}
  GemmCall Call(float beta, Values& c) const {
    const auto& [m, n, k] = sizes;
    return {ta,
            tb,
            sizes,
            ta == kYes ? AsRows(a, k) : AsRows(a, m),
            tb == kYes ? AsRows(b, n) : AsRows(b, k),
            beta,
            AsRows(c, m)};
  }
  GemmSizes sizes;
  Transpose ta, tb;
  Values a, b, before;
};

Values Multiplied(TiledProducts& products, const Factors& factors, float beta) {
  Values c = factors.before;
  REQUIRE(products.Run(factors.Call(beta, c)).ok());
  return c;
}

std::vector<const KernelTable*> TablesWithProducts() {
  std::vector<const KernelTable*> tables;
  for (const KernelTable* kernels : RunnableKernels()) {
    if (kernels->products != nullptr) tables.push_back(kernels);
  }
  return tables;
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
  const Factors factors(shape.m, shape.n, shape.k, ta, tb);
  Values want = factors.before;
  const GemmCall call = factors.Call(beta, want);
  CreateReferenceBackend()->Gemm(ta, tb, call.a, call.b, beta, call.c);

  for (const KernelTable* kernels : TablesWithProducts()) {
    INFO(kernels->name);
    TiledProducts alone(*kernels->products, 1);
    const Values product = Multiplied(alone, factors, beta);
    CHECK(NormwiseError(product, want) <= kForwardError);
    for (const int threads : {2, 3, 8}) {
      TiledProducts team(*kernels->products, threads);
      CHECK(SameBits(Multiplied(team, factors, beta), product));
      CHECK(SameBits(Multiplied(team, factors, beta), product));
    }
  }
}

TEST_CASE("TiledProducts: a row's bits depend on nothing but the row", "[kernels]") {
  for (const KernelTable* kernels : TablesWithProducts()) {
    INFO(kernels->name);
    TiledProducts products(*kernels->products, 1);
    const Factors whole(160, 50, 300, kNo, kYes);
    const Values product = Multiplied(products, whole, 0);
    for (const int64_t row : {0, 5, 143, 144, 159}) {
      Factors one(1, 50, 300, kNo, kYes);
      one.a.assign(whole.a.begin() + row * 300, whole.a.begin() + (row + 1) * 300);
      CHECK(SameBits(Multiplied(products, one, 0),
                     Values(product.begin() + row * 50, product.begin() + (row + 1) * 50)));
    }
  }
}

TEST_CASE("TiledProducts: what lies beside a product's columns is not touched", "[kernels]") {
  for (const KernelTable* kernels : TablesWithProducts()) {
    INFO(kernels->name);
    TiledProducts products(*kernels->products, 2);
    const Factors factors(10, 19, 40, kYes, kNo);
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
  for (const KernelTable* kernels : TablesWithProducts()) {
    INFO(kernels->name);
    const TiledProducts products(*kernels->products, 1);
    const int64_t least = kernels->products->side_least, enough = least + 1;
    Values c(static_cast<size_t>(enough * enough));
    const auto suits = [&](int64_t m, int64_t n, int64_t k, Transpose ta = kYes) {
      return products.Suit(Factors(m, n, k, ta, kNo).Call(0, c));
    };
    CHECK(suits(enough, enough, enough));
    CHECK(suits(enough, enough, enough, kNo) == kernels->products->of_rows_too);
    const bool all = least == 0;
    CHECK((suits(1, enough, enough) == all && suits(enough, 1, enough) == all &&
           suits(enough, enough, 1) == all));
    const Factors factors(enough, enough, enough, kYes, kNo);
    GemmCall call = factors.Call(0, c);
    call.a.type = DType::kBfloat16;
    CHECK_FALSE(products.Suit(call));
    const bool names_both = products.Names(kernels->name).find("oneDNN") != std::string::npos;
    CHECK(names_both != all);
  }
}

}  // namespace skerry
