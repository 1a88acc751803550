#include <catch2/catch.hpp>
#include <cstdio>
#include "tests/pipeline/plan/random_fleet.h"
namespace skerry { namespace {
TEST_CASE("probe adding") {
  for (int kind=0;kind<3;++kind)
  for (uint64_t seed=1; seed<=1u; ++seed) {
    auto nodes = DrawNodes(14, seed);
    if(kind==1) for(size_t i=4;i<14;i+=2) nodes[i].gflops=4;
    if(kind==2) for(size_t i=4;i<14;i+=2) {nodes[i].x=5;nodes[i].uplink_bytes_per_s=1e6;}
    double last=0;
    std::printf("kind %d seed %d:",kind,(int)seed);
    for(size_t n=4;n<=10;++n){
      auto in=InputOf(std::vector<DrawnNode>(nodes.begin(),nodes.begin()+n));
      in.config.nodes_min=4;
      auto run=MakePlan(in);
      double t=run->predicted_step_s; size_t in_plan=0; for(auto&s:run->plan.stages)in_plan+=s.replicas.size();
      std::printf(" %zu:%zu/%zu %.3f%s",n,in_plan,run->plan.stages.size(),t, last>0&&t>1.01*last?"*":"");
      last=t;
    }
    std::printf("\n"); std::fflush(stdout);
  }
}
}}
