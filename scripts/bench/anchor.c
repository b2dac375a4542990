/* The speed anchor of the benchmark: the entropic rule's training loop written by hand in C for
 * AVX2 and FMA, for one geometry (-DK -DO -DS -DA) of single-valued features. The same mathematics
 * as trainer/kernel.py, reference accuracy: compensated sums, held exponents, progressive loss.
 * With -DWIDE the powers, half of the work, use AVX-512: sixteen lanes over a dense buffer. */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define PAIRS (K * (K - 1) / 2 * O)
#define N (PAIRS + K * S)
#define D ((K - 1) * O + S)
#define PAD(n) (((n) + 7) / 8 * 8)
#define NP PAD(N)
#define DP PAD(D)
#define USER (3 * DP)
#define AD (3 * NP)
#define COORDINATES (K * D + A * N + 1)

typedef __m256 v8;
typedef __m256i i8;

typedef struct {
    float eta0, alpha, beta, tau, rho, dual_step, floor, ceiling;
} setting;

static inline v8 ld(const float *p) { return _mm256_loadu_ps(p); }
static inline void st(float *p, v8 x) { _mm256_storeu_ps(p, x); }
static inline v8 all(float x) { return _mm256_set1_ps(x); }
static inline v8 fma8(v8 x, v8 y, v8 z) { return _mm256_fmadd_ps(x, y, z); }
static inline v8 absolute(v8 x) { return _mm256_andnot_ps(all(-0.0f), x); }
static inline i8 bits(v8 x) { return _mm256_castps_si256(x); }
static inline v8 floats(i8 x) { return _mm256_castsi256_ps(x); }

static inline float sum(v8 x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

#define ROUND 12582912.0f

static inline v8 held(v8 shifted) {
    return _mm256_min_ps(_mm256_max_ps(shifted, all(ROUND - 126)), all(ROUND + 127));
}

static inline v8 log2_parts(v8 x, v8 *rest) {
    i8 whole = bits(x);
    i8 e = _mm256_srai_epi32(_mm256_sub_epi32(whole, _mm256_set1_epi32(0x3F3504F3)), 23);
    v8 f = _mm256_sub_ps(floats(_mm256_sub_epi32(whole, _mm256_slli_epi32(e, 23))), all(1));
    v8 f2 = _mm256_mul_ps(f, f);
    v8 p01 = fma8(all(-0.7213571667671204f), f, all(1.4426947832107544f));
    v8 p23 = fma8(all(-0.36008721590042114f), f, all(0.48093944787979126f));
    v8 p45 = fma8(all(-0.2500690817832947f), f, all(0.28670746088027954f));
    v8 p67 = fma8(all(-0.1457444429397583f), f, all(0.23689045011997223f));
    v8 p = fma8(fma8(p67, f2, p45), _mm256_mul_ps(f2, f2), fma8(p23, f2, p01));
    *rest = _mm256_mul_ps(f, p);
    return _mm256_cvtepi32_ps(e);
}

static inline v8 end_power(v8 r, v8 shifted) {
    v8 p = fma8(all(0.001327647129073739f), r, all(0.009675541892647743f));
    p = fma8(p, r, all(0.05550713092088699f));
    p = fma8(p, r, all(0.24022120237350464f));
    p = fma8(p, r, all(0.6931469440460205f));
    p = fma8(p, r, all(1));
    return floats(_mm256_add_epi32(bits(p), _mm256_slli_epi32(bits(shifted), 23)));
}

static inline v8 exp8(v8 x) {
    v8 y = _mm256_mul_ps(x, all(1.4426950408889634f));
    v8 shifted = held(_mm256_add_ps(y, all(ROUND)));
    v8 r = _mm256_sub_ps(y, _mm256_sub_ps(shifted, all(ROUND)));
    return end_power(_mm256_min_ps(_mm256_max_ps(r, all(-0.5f)), all(0.5f)), shifted);
}

static inline v8 softplus(v8 x) {
    v8 rest, e = log2_parts(_mm256_add_ps(all(1), exp8(_mm256_sub_ps(all(0), absolute(x)))), &rest);
    v8 tail = _mm256_mul_ps(_mm256_add_ps(e, rest), all(0.6931471805599453f));
    return _mm256_add_ps(_mm256_max_ps(x, all(0)), tail);
}

#ifdef WIDE
typedef __m512 v16;
typedef __m512i i16;

static inline v16 all16(float x) { return _mm512_set1_ps(x); }
static inline v16 fma16(v16 x, v16 y, v16 z) { return _mm512_fmadd_ps(x, y, z); }

static inline void begin_powers(float *dense, float *wholes, float beta) {
    for (int j = 0; j < COORDINATES + 7; j += 16) {
        i16 whole = _mm512_castps_si512(_mm512_loadu_ps(dense + j));
        i16 e = _mm512_srai_epi32(_mm512_sub_epi32(whole, _mm512_set1_epi32(0x3F3504F3)), 23);
        v16 scaled = _mm512_castsi512_ps(_mm512_sub_epi32(whole, _mm512_slli_epi32(e, 23)));
        v16 f = _mm512_sub_ps(scaled, all16(1)), f2 = _mm512_mul_ps(f, f);
        v16 p01 = fma16(all16(-0.7213571667671204f), f, all16(1.4426947832107544f));
        v16 p23 = fma16(all16(-0.36008721590042114f), f, all16(0.48093944787979126f));
        v16 p45 = fma16(all16(-0.2500690817832947f), f, all16(0.28670746088027954f));
        v16 p67 = fma16(all16(-0.1457444429397583f), f, all16(0.23689045011997223f));
        v16 p = fma16(fma16(p67, f2, p45), _mm512_mul_ps(f2, f2), fma16(p23, f2, p01));
        _mm512_storeu_ps(wholes + j, _mm512_cvtepi32_ps(e));
        _mm512_storeu_ps(dense + j, _mm512_mul_ps(all16(beta), _mm512_mul_ps(f, p)));
    }
}

static inline void end_powers(float *dense, const float *wholes, float beta, float alpha) {
    v16 b = all16(beta), rounding = all16(ROUND);
    for (int j = 0; j < COORDINATES + 7; j += 16) {
        v16 e = _mm512_loadu_ps(wholes + j), small = _mm512_loadu_ps(dense + j);
        v16 shifted = _mm512_add_ps(fma16(b, e, small), rounding);
        v16 r = _mm512_add_ps(fma16(b, e, _mm512_sub_ps(rounding, shifted)), small);
        v16 p = fma16(all16(0.001327647129073739f), r, all16(0.009675541892647743f));
        p = fma16(p, r, all16(0.05550713092088699f));
        p = fma16(p, r, all16(0.24022120237350464f));
        p = fma16(p, r, all16(0.6931469440460205f));
        p = fma16(p, r, all16(1));
        shifted = _mm512_min_ps(_mm512_max_ps(shifted, all16(ROUND - 126)), all16(ROUND + 127));
        i16 scale = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
        p = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), scale));
        _mm512_storeu_ps(dense + j, _mm512_add_ps(all16(alpha), p));
    }
}
#else

static inline void begin_powers(float *dense, float *wholes, float beta) {
    for (int j = 0; j < COORDINATES + 7; j += 8) {
        v8 rest;
        st(wholes + j, log2_parts(ld(dense + j), &rest));
        st(dense + j, _mm256_mul_ps(all(beta), rest));
    }
}

static inline void end_powers(float *dense, const float *wholes, float beta, float alpha) {
    v8 b = all(beta);
    for (int j = 0; j < COORDINATES + 7; j += 8) {
        v8 e = ld(wholes + j), small = ld(dense + j);
        v8 shifted = _mm256_add_ps(fma8(b, e, small), all(ROUND));
        v8 r = _mm256_add_ps(fma8(b, e, _mm256_sub_ps(all(ROUND), shifted)), small);
        st(dense + j, _mm256_add_ps(all(alpha), end_power(r, held(shifted))));
    }
}
#endif

/* |gradient| into the sums of one row, which are also copied to the dense buffer. */
static inline void add_up(float *row, int width, const float *g, float pull, float *dense) {
    v8 c = all(pull);
    for (int j = 0; j < width; j += 8) {
        v8 x = absolute(fma8(c, ld(row + j), ld(g + j)));
        v8 high = ld(row + width + j), low = _mm256_add_ps(ld(row + 2 * width + j), x);
        v8 total = _mm256_add_ps(high, low);
        st(row + width + j, total);
        st(row + 2 * width + j, _mm256_sub_ps(low, _mm256_sub_ps(total, high)));
        st(dense + j, total);
    }
}

static inline float step(float *row, int width, const float *g, float pull, v8 eta0,
                         const float *slowness) {
    v8 c = all(pull), square = all(0);
    for (int j = 0; j < width; j += 8) {
        v8 theta = ld(row + j);
        v8 move = _mm256_div_ps(_mm256_mul_ps(eta0, fma8(c, theta, ld(g + j))), ld(slowness + j));
        theta = _mm256_sub_ps(theta, move);
        st(row + j, theta);
        square = fma8(theta, theta, square);
    }
    return sum(square);
}

static int beyond(const float *row, int width, float tau) {
    for (int j = 0; j < width; j++)
        if (!(fabsf(row[j]) < tau)) return 1;
    return 0;
}

/* Returns the event that diverged, or -1. Rows are [values | sums | low parts], padded. */
int64_t train(int64_t events, const uint8_t *click, const int32_t *user_row, const int32_t *ad_row,
              float *user, float *ad, float *user_mu, float *ad_mu, double *bias_state,
              const setting *s, float *margin, double *loss) {
    float nu_u[NP + 8] = {0}, nu_a[NP + 8] = {0}, g_u[K][DP + 8] = {{0}}, g_a[NP + 8] = {0};
    _Alignas(64) float dense[PAD(COORDINATES) + 24], wholes[PAD(COORDINATES) + 24];
    float mu[PAD(K + A)] = {0}, pull[PAD(K + A)], msqr[PAD(K + A)] = {0}, inverse[PAD(K + A)] = {0};
    for (int i = 0; i < PAD(COORDINATES) + 24; i++) dense[i] = 1;
    for (int i = 0; i < K + A; i++) inverse[i] = i < K ? 1.0f / D : 1.0f / N;
    double bias = bias_state[0], bias_sum = bias_state[1];
    unsigned control = _mm_getcsr();
    _mm_setcsr(control | 0x8040); /* subnormal numbers are zero */
    v8 eta0 = all(s->eta0);
    float suspect = s->tau * s->tau * 0.9999f;
    int64_t i, bad = -1;
    for (i = 0; i < events; i++) {
        float *u[K], *a[A];
        const int32_t *ur = user_row + i * K, *ar = ad_row + i * A;
        if (i + 1 < events) {
            for (int k = 0; k < K; k++)
                for (int j = 0; j < USER; j += 16)
                    _mm_prefetch((const char *)(user + (int64_t)ur[K + k] * USER + j), _MM_HINT_T0);
            for (int k = 0; k < A; k++)
                for (int j = 0; j < AD; j += 16)
                    _mm_prefetch((const char *)(ad + (int64_t)ar[A + k] * AD + j), _MM_HINT_T0);
        }
        for (int k = 0; k < K; k++) u[k] = user + (int64_t)ur[k] * USER, mu[k] = user_mu[ur[k]];
        for (int k = 0; k < A; k++) a[k] = ad + (int64_t)ar[k] * AD, mu[K + k] = ad_mu[ar[k]];
        int t = 0;
        for (int p = 0; p < K; p++)
            for (int q = p + 1; q < K; q++, t += O)
                for (int j = 0; j < O; j += 8)
                    st(nu_u + t + j, _mm256_mul_ps(ld(u[p] + (q - 1) * O + j), ld(u[q] + p * O + j)));
        for (int k = 0; k < K; k++, t += S)
            for (int j = 0; j < S; j += 8) st(nu_u + t + j, ld(u[k] + (K - 1) * O + j));
        st(nu_u + N, all(0));
        v8 dot = all(0);
        for (int j = 0; j < NP; j += 8) {
            v8 v = ld(a[0] + j);
            for (int k = 1; k < A; k++) v = _mm256_add_ps(v, ld(a[k] + j));
            st(nu_a + j, v);
            dot = fma8(v, ld(nu_u + j), dot);
        }
        float logit = (float)bias + sum(dot);
        margin[i] = click[i] ? -logit : logit;
        float g0 = 1.0f / (1.0f + _mm256_cvtss_f32(exp8(all(-logit)))) - click[i];
        v8 g = all(g0);
        t = 0;
        for (int p = 0; p < K; p++)
            for (int q = p + 1; q < K; q++, t += O)
                for (int j = 0; j < O; j += 8) {
                    v8 h = _mm256_mul_ps(g, ld(nu_a + t + j));
                    v8 left = ld(u[p] + (q - 1) * O + j), right = ld(u[q] + p * O + j);
                    st(g_u[p] + (q - 1) * O + j, _mm256_mul_ps(h, right));
                    st(g_u[q] + p * O + j, _mm256_mul_ps(h, left));
                }
        for (int k = 0; k < K; k++, t += S) {
            for (int j = 0; j < S; j += 8)
                st(g_u[k] + (K - 1) * O + j, _mm256_mul_ps(g, ld(nu_a + t + j)));
            st(g_u[k] + D, all(0));
        }
        for (int j = 0; j < NP; j += 8) st(g_a + j, _mm256_mul_ps(g, ld(nu_u + j)));
        for (int j = 0; j < PAD(K + A); j += 8)
            st(pull + j, _mm256_mul_ps(_mm256_mul_ps(all(2), ld(mu + j)), ld(inverse + j)));
        float *x = dense;
        for (int k = 0; k < K; k++, x += D) add_up(u[k], DP, g_u[k], pull[k], x);
        for (int k = 0; k < A; k++, x += N) add_up(a[k], NP, g_a, pull[K + k], x);
        bias_sum += fabs(g0);
        *x = (float)bias_sum;
        begin_powers(dense, wholes, s->beta);
        end_powers(dense, wholes, s->beta, s->alpha);
        bias -= (double)(s->eta0 / *x) * g0;
        int hit = !isfinite(bias);
        x = dense;
        for (int k = 0; k < K; k++, x += D) {
            msqr[k] = step(u[k], DP, g_u[k], pull[k], eta0, x);
            if (!(msqr[k] < suspect)) hit |= beyond(u[k], D, s->tau);
        }
        for (int k = 0; k < A; k++, x += N) {
            msqr[K + k] = step(a[k], NP, g_a, pull[K + k], eta0, x);
            if (!(msqr[K + k] < suspect)) hit |= beyond(a[k], N, s->tau);
        }
        for (int j = 0; j < PAD(K + A); j += 8) {
            v8 m = _mm256_mul_ps(ld(msqr + j), ld(inverse + j));
            v8 y = _mm256_mul_ps(all(s->dual_step), _mm256_sub_ps(m, all(s->rho)));
            y = _mm256_min_ps(_mm256_max_ps(y, all(-50)), all(50));
            y = _mm256_mul_ps(ld(mu + j), exp8(y));
            st(mu + j, _mm256_min_ps(_mm256_max_ps(y, all(s->floor)), all(s->ceiling)));
        }
        for (int k = 0; k < K; k++) user_mu[ur[k]] = mu[k];
        for (int k = 0; k < A; k++) ad_mu[ar[k]] = mu[K + k];
        if (hit) {
            bad = i;
            break;
        }
    }
    bias_state[0] = bias, bias_state[1] = bias_sum;
    for (*loss = 0, i = 0; i < events; i += 8) *loss += sum(softplus(ld(margin + i)));
    _mm_setcsr(control);
    return bad;
}
