# mutant(NUMBER SOURCE [[text in the source, exactly once]] [[what stands there instead]])
#
# What each of them breaks, and which rule finds it, is told in mutants_test.cc. A number may have several places.

# ---- coordinator -------------------------------------------------------------------------------

mutant(1 coordinator/ops_training.cc
  [[        if (!joins) return std::nullopt;]]
  [[        if (MutantIs(1)) continue;
        if (!joins) return std::nullopt;]])

mutant(2 coordinator/ops_training.cc
  [[  Record(context, CommitRecord(*commit));]]
  [[  if (MutantIs(2)) {
    state_.Apply(CommitRecord(*commit)).IgnoreError();
  } else {
    Record(context, CommitRecord(*commit));
  }]])

mutant(3 coordinator/ops_training.cc
  [[  for (const NodeId& replica : Holders(*state_.plan, stage)) context.Send(replica, *commit);]]
  [[  RoundCommit told = *commit;
  for (const NodeId& replica : Holders(*state_.plan, stage)) {
    context.Send(replica, told);
    if (MutantIs(3) && told.participants.size() > 1) told.participants.pop_back();
  }]])

mutant(4 coordinator/ops_training.cc
  [[    DeclareGone(context, node, Gone::kEvicted, "its base parameters differ from its stage's");]]
  [[    if (!MutantIs(4))
      DeclareGone(context, node, Gone::kEvicted, "its base parameters differ from its stage's");]])

mutant(5 coordinator/ops_membership.cc
  [[  Record(context, PlanRecord(plan, state_.predicted_step_s, state_.lower_bound_s));]]
  [[  if (MutantIs(5)) {
    state_.Apply(PlanRecord(plan, state_.predicted_step_s, state_.lower_bound_s))
        .IgnoreError();
  } else {
    Record(context, PlanRecord(plan, state_.predicted_step_s, state_.lower_bound_s));
  }]])

mutant(6 coordinator/ops_membership.cc
  [[  if (lost) DeclareGone(]]
  [[  if (lost && !MutantIs(6)) DeclareGone(]])

mutant(7 coordinator/duties.cc
  [[      DeclareGone(context, node, Gone::kDead, "it is silent");]]
  [[      if (!MutantIs(7)) DeclareGone(context, node, Gone::kDead, "it is silent");]])

mutant(8 coordinator/duties.cc
  [[    heard = std::min(was_away ? heard + away : heard, context.now());]]
  [[    heard = std::min(was_away && !MutantIs(8) ? heard + away : heard, context.now());]])
mutant(8 coordinator/duties.cc
  [[  if (state_.plan && state_.lost.empty() && !state_.exported &&
      AreSilent]]
  [[  if (!MutantIs(8) && state_.plan && state_.lost.empty() && !state_.exported &&
      AreSilent]])

mutant(9 coordinator/ops_training.cc
  [[    if (known == state_.losses.end() || !known->second.by_microbatch.contains(loss.microbatch)) {]]
  [[    if (MutantIs(9) || known == state_.losses.end() ||
        !known->second.by_microbatch.contains(loss.microbatch)) {]])
mutant(9 coordinator/run_state.cc
  [[    if (step.by_microbatch.emplace(loss.microbatch, loss).second) state.tokens += loss.tokens;]]
  [[    const bool is_new = step.by_microbatch.emplace(loss.microbatch, loss).second;
    if (is_new || MutantIs(9)) state.tokens += loss.tokens;]])

# ---- node --------------------------------------------------------------------------------------

mutant(10 node/node_actor.cc
  [[  if (message.plan->version <= plan_->version) return;]]
  [[  if (message.plan->version <= plan_->version) return;
  if (MutantIs(10) && plan_->version > 0) return;]])

mutant(11 node/node_life.cc
  [[  for (const StepReport& report : recent_reports_) Send(context, peer, report);]]
  [[  for (const StepReport& report : recent_reports_) {
    if (!MutantIs(11)) Send(context, peer, report);
  }]])

mutant(12 node/node_life.cc
  [[  for (const DeltaHeld& held : rounds_->HeldNow()) Send(context, peer, held);]]
  [[  for (const DeltaHeld& held : rounds_->HeldNow()) {
    if (!MutantIs(12)) Send(context, peer, held);
  }]])

mutant(13 node/node_rounds.cc
  [[  const int64_t due = Clock().Due(round);]]
  [[  const bool hurries = MutantIs(13) && SlotOf(plan_, options_.self)->replica == 1;
  const int64_t due = Clock().Due(round) - (hurries ? 1 : 0);]])

mutant(14 node/node_rounds.cc
  [[  return delta.tokens <= RoundTokensMax]]
  [[  if (MutantIs(14)) return true;
  return delta.tokens <= RoundTokensMax]])

mutant(15 node/round_keeper.cc
  [[    accepted.push_back(
        {p.tokens, held.deltas.at(p.node).payload, IsOwn(held, p.node, p.digest), p.node});]]
  [[    if (MutantIs(15) && p.node == self_) continue;
    accepted.push_back(
        {p.tokens, held.deltas.at(p.node).payload, IsOwn(held, p.node, p.digest), p.node});]])

# ---- localsgd ----------------------------------------------------------------------------------

mutant(16 localsgd/replica.cc
  [[    for (size_t i = 0; i < count; ++i) live[i] += u[i] - e[i];]]
  [[    for (size_t i = 0; i < count; ++i) live[i] += u[i] - e[i];
    if (MutantIs(16)) std::fill_n(halves, count, uint16_t{0});]])

mutant(17 localsgd/replica.cc
  [[live[i] = after[i] + live[i];]]
  [[live[i] = MutantIs(17) ? after[i] : after[i] + live[i];]])

mutant(18 localsgd/round_mean.cc
  [[  BestLoops().scale_sum(sum.data(), d.size(), scale_, d.data());]]
  [[  BestLoops().scale_sum(sum.data(), d.size(), scale_, d.data());
  if (!MutantIs(18)) return;
  std::fill(d.begin(), d.end(), 0.0f);
  for (const Weighed& message : messages_) {
    std::fill(tile.begin(), tile.end(), 0);
    codec_->AccumulateRange(message.payload, size_, first, 1, tile);
    for (size_t i = 0; i < d.size(); ++i) {
      d[i] += static_cast<float>(static_cast<double>(tile[i]) * scale_);
    }
  }]])
mutant(18 node/round_keeper.cc
  [[  return accepted;]]
  [[  if (MutantIs(18)) {
    std::stable_partition(accepted.begin(), accepted.end(), [](const auto& a) { return a.own; });
  }
  return accepted;]])

# ---- pipeline ----------------------------------------------------------------------------------

mutant(19 pipeline/exec/stage_actor.cc
  [[    if (visits_[key].counted) {]]
  [[    if (visits_[key].counted && !MutantIs(19)) {]])

mutant(20 pipeline/exec/stage_actor.cc
  [[    const Key key{step_, *pending_.begin()};]]
  [[    const Key key{step_, MutantIs(20) ? *pending_.rbegin() : *pending_.begin()};]])
mutant(20 pipeline/exec/stage_actor.cc
  [[    pending_.erase(pending_.begin());]]
  [[    pending_.erase(key.second);]])

mutant(21 pipeline/exec/stage_actor_death.cc
  [[      if (broken) Restart(context, key, visit);]]
  [[      if (broken && MutantIs(21)) orphans.push_back(key);
      else if (broken) Restart(context, key, visit);]])

# ---- courier -----------------------------------------------------------------------------------

mutant(22 wire/courier.cc
  [[  early.emplace(sequence, std::move(message));]]
  [[  if (MutantIs(22)) lane.delivered = sequence - 1;
  early.emplace(sequence, std::move(message));]])

mutant(23 wire/courier.cc
  [[  if (sequence <= lane.delivered || (lane.early && lane.early->contains(sequence))) {]]
  [[  if (MutantIs(23) && sequence <= lane.delivered) {
    delivered.push_back(std::move(message));
    return;
  }
  if (sequence <= lane.delivered || (lane.early && lane.early->contains(sequence))) {]])

mutant(24 wire/courier.cc
  [[old_incarnations_->contains(sender_incarnation);]]
  [[old_incarnations_->contains(sender_incarnation) && !MutantIs(24);]])

# ---- handovers ---------------------------------------------------------------------------------

mutant(25 coordinator/ops_training.cc
  [[        held_up = true;]]
  [[        held_up = !MutantIs(25);]])

mutant(26 coordinator/ops_handover.cc
  [[    const int64_t round = state_.RoundsOfAnyStage() + 1;]]
  [[    const int64_t round = std::max<int64_t>(
        state_.RoundsOfAnyStage() + (MutantIs(26) ? 0 : 1), MutantIs(26) ? 1 : 0);]])

mutant(27 node/node_handover.cc
  [[  rounds_->SkipTo(version);]]
  [[  rounds_->SkipTo(MutantIs(27) ? version + 1 : version);]])

# ---- sharded rounds ----------------------------------------------------------------------------

mutant(28 coordinator/ops_sharded.cc
  [[  sums_held_[{*stage, message.round}][from] = std::move(held);]]
  [[  if (MutantIs(28)) {
    for (const NodeId& holder : Holders(*state_.plan, *stage)) {
      sums_held_[{*stage, message.round}].try_emplace(holder, held);
    }
  }
  sums_held_[{*stage, message.round}][from] = std::move(held);]])

mutant(29 node/round_keeper_sharded.cc
  [[  if (it == rounds_.end() || (!pieces.empty() && it->second.pieces.size() < participants.size())) {]]
  [[  const bool waits = !MutantIs(29) && !pieces.empty();
  if (it == rounds_.end() || (waits && it->second.pieces.size() < participants.size())) {]])
mutant(29 node/round_keeper_sharded.cc
  [[      if (sender == it->second.pieces.end()) return std::nullopt;]]
  [[      if (sender == it->second.pieces.end() && MutantIs(29)) continue;
      if (sender == it->second.pieces.end()) return std::nullopt;]])
