// How the next token is chosen: the words of a request's sampling buffer (src/sampling.rs), and what the kernels share.
#define SAMPLING_TEMPERATURE 0      // float bits, greater than 0 unless the route is greedy
#define SAMPLING_TOP_K 1            // 0 is off
#define SAMPLING_TOP_P 2            // float bits
#define SAMPLING_MIN_P 3            // float bits
#define SAMPLING_REPETITION 4       // float bits
#define SAMPLING_PRESENCE 5         // float bits
#define SAMPLING_FREQUENCY 6        // float bits
#define SAMPLING_SEED_LOW 7
#define SAMPLING_SEED_HIGH 8
#define SAMPLING_WINDOW 9           // tokens that the repetition penalty looks back on; 0 is off
#define SAMPLING_LOGPROBS 10        // best tokens to report
#define SAMPLING_WORDS 12

// Words of a block's statistics: the best adjusted logit, sums of e^(logit - best) and of e^((logit - best) / temperature), flags.
#define STAT_BEST 0
#define STAT_SUM 1
#define STAT_SUM_HEATED 2
#define STAT_FLAGS 3                // 1: a NaN; 2: an infinity
#define STAT_WORDS 4

#define NO_ID 0xffffffffu
// The key of a banned token: below that of every finite logit.
#define BANNED 0u

// ln(1 + y) for y in (-1, 0], exact for small ones
FN float log_1p(float y) {
  const float u = 1.0f + y;
  return u == 1.0f ? y : flog(u) * (y / (u - 1.0f));
}
// Gumbel noise of a random word: v = (word + 0.5) / 2^32 in f32, at most 1 - 2^-24; -ln(-ln(1 - v)).
FN float gumbel(uint word) {
  // word + 0.5 needs 33 bits: round to nearest even by hand where f32 would round the word before the half is added
  const float v = fmin_((float(word >> 8) * 256.0f + (float(word & 255u) + 0.5f)) * 2.3283064365386963e-10f, 0.999999940395355225f);
  return -flog(-log_1p(-v));
}
FN uint random_word(gptr<const uint> sampling, uint choice_low, uint choice_high, uint id) {
  const Words4 r = philox(id / 4, choice_low, choice_high, 0u, sampling[SAMPLING_SEED_LOW], sampling[SAMPLING_SEED_HIGH]);
  const uint k = id % 4;
  return k == 0 ? r.w[0] : k == 1 ? r.w[1] : k == 2 ? r.w[2] : r.w[3];
}
