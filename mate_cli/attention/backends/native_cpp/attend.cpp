// The forward pass: softmax over blocks of keys, against the highest score so far.

#include <utility>
#include <vector>

#include "tasks.h"

namespace {

constexpr int kQueryPiece = 384;  // at most so many queries in one piece of the forward pass
constexpr float kNothing = -1e30f;

class Piece {  // up to kQueryPiece queries of one task and one head
 public:
  Piece(const Tasks& t, int task, int first, int h) : t(t), task(task), first(first), h(h) {}

  void run(float* output, float* lse) {
    static thread_local Scratch scratch;
    const int64_t asking = 2 * kQueryPiece * (t.width + 1), asked = kKeyBlock * (3 * t.width + 2);
    float* next = scratch.take(asking + asked + kQueryBlock * kScoreRow);
    for (float** p : {&q, &out}) *p = next, next += kQueryPiece * t.width;
    for (float** p : {&highest, &sum}) *p = next, next += kQueryPiece;
    for (float** p : {&keys, &panels, &values}) *p = next, next += kKeyBlock * t.width;
    bias = next, ids = reinterpret_cast<int32_t*>(next + kKeyBlock), score = next + 2 * kKeyBlock;
    const Span queries{t.queries(task).start + first, std::min(kQueryPiece, t.queries(task).count - first)};
    gather(t, 0, h, queries, kLog2e * t.scale, q);
    std::fill(out, out + queries.count * t.width, 0.f);
    std::fill(highest, highest + queries.count, kNothing);
    std::fill(sum, sum + queries.count, 0.f);
    const int total = t.globals(task).count + t.locals(task).count;
    for (int k = 0; k < total; k += kKeyBlock) block(queries, k, std::min(kKeyBlock, total - k));
    for (int i = 0; i < queries.count; ++i) {
      const int64_t at = t.head(queries.start + i, h);
      for (int d = 0; d < t.size; ++d) output[at * t.size + d] = out[i * t.width + d] / sum[i];
      lse[at] = highest[i] + std::log2(sum[i]);
    }
  }

 private:
  const Tasks& t;
  const int task, first, h;
  float *q, *out, *highest, *sum, *keys, *panels, *values, *bias, *score;
  int32_t* ids;

  void load(Span span, int to) {
    gather(t, 1, h, span, 1.f, keys + to * t.width);
    gather(t, 2, h, span, 1.f, values + to * t.width);
    gather_keys(t, span, bias + to, ids + to);
  }

  void block(Span queries, int k, int n) {
    const Span globals = t.globals(task), locals = t.locals(task);
    const int some = std::clamp(globals.count - k, 0, n), lanes = round_up(n);
    load({globals.start + k, some}, 0);
    load({locals.start + k + some - globals.count, n - some}, some);
    std::fill(bias + n, bias + lanes, -INFINITY);
    transpose(keys, n, t.width, panels);
    for (int i = 0; i < queries.count; i += kQueryBlock) {
      const int m = std::min(kQueryBlock, queries.count - i);
      multiply(m, 0, lanes, t.size, t.left(q + i * t.width), t.panels(panels), {score, kScoreRow, false});
      for (int r = 0; r < m; ++r) soften(t.rows[queries.start + i + r], i + r, score + r * kScoreRow, lanes);
      multiply(m, 0, t.width, n, {score, kScoreRow, 1}, t.right(values), {out + i * t.width, t.width, true});
    }
  }

  void soften(int row, int i, float* s, int lanes) {  // scores to weights, against the highest score so far
    Vec top = splat(highest[i]), total{};
    for (int j = 0; j < lanes; j += kLanes) top = larger(top, vec(s + j) += vec(bias + j));
    const float peak = reduce(top, larger), fade = exp2(splat(highest[i] - peak))[0];
    for (int j = 0; j < lanes; j += kLanes) total += vec(s + j) = exp2(vec(s + j) - splat(peak));
    if (t.dropped) {
      const uint32_t seed = query_seed(t, row, h);
      for (int j = 0; j < lanes; j += kLanes) vec(s + j) *= keep(t, seed, ids + j);
    }
    sum[i] = sum[i] * fade + reduce(total, plus);
    highest[i] = peak;
    for (int d = 0; d < t.width; d += kLanes) vec(out + i * t.width + d) *= splat(fade);
  }
};

}  // namespace

// out [P, N, H], lse [P, N]
extern "C" void mate_attend(const Problem* problem, float* out, float* lse) {
  const Tasks t(*problem);
  std::vector<std::pair<int, int>> pieces;
  for (int i = 0; i < t.count; ++i)
    for (int first = 0; first < t.queries(i).count; first += kQueryPiece) pieces.emplace_back(i, first);
  for_each(t.threads, pieces.size() * t.heads, [&](int64_t i) {
    const auto [task, first] = pieces[i / t.heads];
    Piece(t, task, first, i % t.heads).run(out, lse);
  });
}
